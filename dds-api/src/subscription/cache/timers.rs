//! Timers of a cache.
//!
//! Owns: times, and the actions due at them. Never does: look at a clock, or know whether an action
//! still applies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Kind of an action. Actions due at the same time are done in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TimerKind {
    /// LIFESPAN of a sample has ended.
    Expire,
    /// TIME_BASED_FILTER lets the waiting sample of an instance pass.
    Release,
    /// READER_DATA_LIFECYCLE removes the samples of an instance.
    Purge,
}

/// An action for a slot at this epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct CacheTimer {
    pub(super) time: u64,
    pub(super) kind: TimerKind,
    pub(super) at: u32,
    pub(super) epoch: u32,
}

/// Number of obsolete timers, in excess of the current ones, up to which the queue is not swept.
const SLACK: usize = 64;

#[derive(Default)]
pub(super) struct CacheTimers {
    queue: BinaryHeap<Reverse<CacheTimer>>,
}

impl CacheTimers {
    pub(super) fn next_time(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse(timer)| timer.time)
    }

    pub(super) fn add(&mut self, timer: CacheTimer) {
        self.queue.push(Reverse(timer));
    }

    /// Removes and returns the next action that is due by `now`.
    #[inline]
    pub(super) fn due(&mut self, now: u64) -> Option<CacheTimer> {
        if self.next_time()? > now {
            return None;
        }
        self.queue.pop().map(|Reverse(timer)| timer)
    }

    /// Whether there are more timers than this number of slots can require.
    pub(super) fn is_overgrown(&self, slots: usize) -> bool {
        self.queue.len() > SLACK + 2 * slots
    }

    pub(super) fn sweep(&mut self, mut is_still: impl FnMut(&CacheTimer) -> bool) {
        self.queue.retain(|Reverse(timer)| is_still(timer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep goes over all timers. It is rare enough to cost each timer only a few steps, and
    /// frequent enough to keep the number of timers in proportion to the cache.
    #[test]
    fn agenda_is_overgrown_above_64_timers_plus_two_per_place() {
        for slots in [0, 1, 10, 1000] {
            let mut timers = CacheTimers::default();
            let add = |timers: &mut CacheTimers, time| {
                timers.add(CacheTimer { time, kind: TimerKind::Expire, at: 0, epoch: 0 });
            };
            (0..64 + 2 * slots).for_each(|time| add(&mut timers, time));
            assert!(!timers.is_overgrown(slots as usize));
            for time in 0..2 {
                add(&mut timers, time);
                assert!(timers.is_overgrown(slots as usize));
            }
        }
    }
}
