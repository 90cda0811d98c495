//! Storage of messages at a member: copies in memory, and a log.
//!
//! Owns: the clock of the log's thread and its disk. Never does: know a price, or write a byte;
//! only durations count here.
//!
//! ```text
//!   taken ──copied by the polling thread──> ready ──all that is ready──> written ── synced
//!                                             |<──── more than MOST_BEHIND: blocked ────>|
//! ```

use derecho_core::ids::Time;
use derecho_core::storage::MOST_BEHIND;
use derecho_sim::DiskPrices;

/// Treatment of a delivered message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StorageMode {
    /// The message is released.
    Nothing,
    /// The message is copied into the member's memory.
    Memory,
    /// The message is copied, and appended to a log.
    Log,
}

/// Log on a disk of its own, written by a thread of its own.
pub(crate) struct DiskLog {
    prices: DiskPrices,
    /// Bytes that wait for the disk.
    ready: u64,
    /// The batch that is being written, and the time of its sync.
    group: Option<(u64, Time)>,
}

impl DiskLog {
    pub(crate) fn new(prices: DiskPrices) -> DiskLog {
        DiskLog { prices, ready: 0, group: None }
    }

    /// Advances the disk to `now`: each synced batch lets the next one begin.
    pub(crate) fn settle(&mut self, now: Time) {
        while let Some((_, synced)) = self.group
            && synced <= now
        {
            self.group = None;
            self.begin(synced);
        }
    }

    /// Appends a record.
    pub(crate) fn append(&mut self, bytes: u64, now: Time) {
        self.ready += bytes;
        if self.group.is_none() {
            self.begin(now);
        }
    }

    /// Whether the log is so far behind that its member takes nothing more.
    pub(crate) fn holds_up(&self) -> bool {
        self.ready + self.group.map_or(0, |(bytes, _)| bytes) > MOST_BEHIND
    }

    /// Returns the time at which the log may be less far behind.
    pub(crate) fn next_sync(&self) -> Option<Time> {
        self.group.map(|(_, synced)| synced)
    }

    fn begin(&mut self, at: Time) {
        if self.ready > 0 {
            let bytes = std::mem::take(&mut self.ready);
            self.group = Some((bytes, at.after(self.prices.group_ns(bytes))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a log with a write time of one nanosecond per byte, and a sync time of a thousand.
    fn log() -> DiskLog {
        DiskLog::new(DiskPrices { bytes_per_second: 1e9, sync_ns: 1000.0 })
    }

    #[test]
    fn log_writes_and_syncs_all_ready_bytes_in_one_batch() {
        let mut log = log();
        log.append(100, Time(0));
        assert_eq!(log.next_sync(), Some(Time(1100)));
        log.append(200, Time(10));
        log.append(300, Time(20));
        log.settle(Time(1099));
        assert_eq!(log.next_sync(), Some(Time(1100)));
        // The second batch began when the first one was synced, not when `settle` was called.
        log.settle(Time(2000));
        assert_eq!(log.next_sync(), Some(Time(1100 + 500 + 1000)));
        log.settle(Time(2600));
        assert_eq!(log.next_sync(), None);
    }

    #[test]
    fn log_too_far_behind_blocks_its_member_until_a_batch_is_synced() {
        let mut log = log();
        log.append(MOST_BEHIND, Time(0));
        assert!(!log.holds_up());
        log.append(1, Time(0));
        assert!(log.holds_up());
        log.settle(Time(MOST_BEHIND + 999));
        assert!(log.holds_up());
        log.settle(Time(MOST_BEHIND + 1000));
        assert!(!log.holds_up());
    }
}
