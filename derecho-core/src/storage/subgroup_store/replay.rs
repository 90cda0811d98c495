//! Replay: records delivered to a late joiner during its state transfer are appended after the
//! transferred ones.
//!
//! Owns: the amount replayed in a turn. Never does: drop any of these records before they are in
//! the store.

use super::super::cursor::StoreCursor;
use super::super::store::{Store, StoreRetention};
use super::super::store_log_input::StoreLogInput;
use super::super::store_message::RECORD_HEAD;
use super::{LateJoinerState, StoreStage, SubgroupStore};
use crate::fault::{Fault as Planted, planted};

/// Bytes of waiting records that are put into the store in one turn, unless more have
/// arrived meanwhile.
const REPLAY: usize = 512 << 10;

impl SubgroupStore {
    /// Begins the replay of the waiting records: the store is as it was when this member began.
    pub(super) fn begin_replay(&mut self) {
        let StoreStage::Lacks(lacking) = &mut self.stage else { return };
        self.requester.cancel();
        if lacking.waiting.is_none() {
            // Nothing more is asked for.
            lacking.complete_at = Some(0);
            return;
        }
        for (stream, number) in &lacking.from {
            self.store.expect(*stream, *number);
        }
        let (cursor, begin) = (self.store.cursor(), self.store.version());
        if let Some(log_follower) = &mut self.log_follower {
            let log_input = StoreLogInput::new(cursor.fork());
            log_follower.follow(log_input, begin, self.base, self.era, self.holding.clone());
        }
        self.opening = Some(cursor);
        if planted(Planted::HistoryWithoutLive) {
            lacking.waiting = Some(Store::new(StoreRetention::default(), self.format));
        }
        lacking.replay = lacking.waiting.as_ref().map(Store::cursor);
    }

    /// Completes a store that puts the past in front of delivered records, as soon as all of it is
    /// there (I-230). Returns whether it did.
    fn ripens(&mut self) -> bool {
        let StoreStage::Lacks(lacking) = &self.stage else { return false };
        let is_due = |version| self.store.version() >= version || planted(Planted::HistoryUnripe);
        let is_ripe = lacking.complete_at.is_some_and(is_due) || self.store.has_outlived();
        if lacking.waiting.is_some() || !is_ripe {
            return false;
        }
        self.store.join();
        self.opening = Some(self.store.cursor());
        self.requester.cancel();
        self.stage = StoreStage::Has;
        true
    }

    /// Puts a part of the waiting records into the store. Returns their number, and whether the
    /// store became complete by that.
    pub(super) fn replay(&mut self) -> (usize, bool) {
        if self.ripens() {
            return (1, true);
        }
        let (mut done, mut bytes) = (0, 0);
        let StoreStage::Lacks(lacking) = &mut self.stage else { return (0, false) };
        // I-200: more is replayed than can have arrived.
        let most = REPLAY.max(2 * core::mem::take(&mut lacking.arrived));
        while bytes < most {
            let StoreStage::Lacks(lacking) = &mut self.stage else { return (0, false) };
            let LateJoinerState { waiting: Some(waiting), replay: Some(replay), .. } =
                &mut **lacking
            else {
                return (0, false);
            };
            let Some(kept) = replay.next() else {
                waiting.numbers().for_each(|(stream, number)| self.store.expect(stream, number));
                waiting.met().for_each(|(stream, epoch)| self.store.meet(stream, epoch));
                end_until(u64::MAX, waiting, &mut self.store);
                self.apply_epoch_changes(u64::MAX);
                self.stage = StoreStage::Has;
                return (done + 1, true);
            };
            let (of, met) = waiting.met().nth(kept.stream() as usize).expect("the stream was met");
            end_until(kept.position(), waiting, &mut self.store);
            self.apply_epoch_changes(kept.position());
            let stream = self.store.stream(of);
            let expected = self.store.next_in(stream).unwrap_or(kept.number());
            let is_over = self.log_beginning.as_ref().is_some_and(|(epoch, numbers)| {
                // The stream had ended when the store began again.
                numbers.iter().all(|(known, _)| *known != of) && met <= *epoch
            });
            self.gaps += u64::from(kept.number() > expected && !is_over);
            // Of a stream that began only after this member, a holder may have transferred records
            // that were also delivered here.
            if kept.number() >= expected && !is_over {
                self.store.append(stream, kept.number(), kept.bytes());
                self.kept(of, kept.bytes());
            }
            (done, bytes) = (done + 1, bytes + kept.bytes().len() + RECORD_HEAD);
        }
        if let StoreStage::Lacks(lacking) = &mut self.stage {
            let passed = lacking.replay.as_ref().map_or(0, StoreCursor::position);
            lacking.waiting.iter_mut().for_each(|waiting| waiting.let_go_below(passed));
        }
        (done, false)
    }
}

/// Ends the streams that had ended at this version of the waiting records, at the store's present
/// version (I-155).
fn end_until(version: u64, waiting: &mut Store, store: &mut Store) {
    while let Some(stream) = waiting.take_ended(version) {
        store.end(stream, store.version());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::vec::Vec;

    use super::super::super::cursor::MemoryMeter;
    use super::super::super::store::RecordFormat;
    use super::*;
    use crate::group::report::StreamId;
    use crate::ids::{NodeId, RegionId};

    const STREAM: StreamId = StreamId { node: NodeId(1), region: RegionId(7) };
    const FORMAT: RecordFormat = RecordFormat {
        key: |_| 0,
        time: |_| 0,
        all_keys: |_| None,
        liveness: |_, _| {},
        companion: |key| key,
    };

    fn late_joiner() -> SubgroupStore {
        SubgroupStore::late_joiner(StoreRetention::default(), FORMAT)
    }

    fn waiting_of(lacking: &LateJoinerState) -> MemoryMeter {
        lacking.waiting.as_ref().expect("something waits").meter()
    }

    /// Delivers this number of records to it.
    fn deliver(subgroup_store: &mut SubgroupStore, records: u64, written: &mut u64) {
        let StoreStage::Lacks(lacking) = &mut subgroup_store.stage else { return };
        let LateJoinerState { waiting: Some(waiting), arrived, .. } = &mut **lacking else {
            return;
        };
        let stream = waiting.stream(STREAM);
        for _ in 0..records {
            let mut bytes = [0; 8192];
            bytes[..8].copy_from_slice(&written.to_le_bytes());
            waiting.append(stream, *written, &bytes);
            *arrived += RECORD_HEAD + bytes.len();
            *written += 1;
        }
    }

    /// Lets records arrive, turn by turn, before anything is transferred.
    fn waits(records: u64) -> (SubgroupStore, u64) {
        let (mut subgroup_store, mut written) = (late_joiner(), 0);
        deliver(&mut subgroup_store, records, &mut written);
        subgroup_store.replay();
        (subgroup_store, written)
    }

    #[test]
    fn late_joiner_catches_up_although_records_arrive_faster_than_replay() {
        let (mut subgroup_store, mut written) = waits(2000);
        subgroup_store.begin_replay();
        let (mut turns, mut most) = (0, 0);
        while !subgroup_store.is_complete() {
            deliver(&mut subgroup_store, 100, &mut written);
            subgroup_store.replay();
            turns += 1;
            if let StoreStage::Lacks(lacking) = &subgroup_store.stage {
                most = most.max(waiting_of(lacking).bytes());
            }
            assert!(turns < 1000, "it never comes to an end");
        }
        // Waiting records are dropped as they are put in, so they never take memory twice.
        assert!(most < 21 << 20, "{most} bytes");
        let kept: Vec<u64> = subgroup_store.store().cursor().map(|kept| kept.number()).collect();
        assert_eq!(kept, (0..written).collect::<Vec<u64>>());
        assert_eq!(subgroup_store.gaps(), 0);
    }

    #[test]
    fn waiting_records_free_their_memory_during_replay() {
        let (mut subgroup_store, _) = waits(4000);
        let before = match &subgroup_store.stage {
            StoreStage::Lacks(lacking) => waiting_of(lacking),
            _ => subgroup_store.store().meter(),
        };
        let all = before.bytes();
        subgroup_store.begin_replay();
        subgroup_store.replay();
        assert!(!subgroup_store.is_complete(), "all of it is more than a turn has time for");
        let mut together = Vec::new();
        while !subgroup_store.is_complete() {
            subgroup_store.replay();
            together.push(before.bytes() + subgroup_store.store().meter().bytes());
        }
        let most = together.into_iter().max().unwrap_or(0);
        assert!(most < all + (10 << 20), "{most} bytes for {all}");
    }
}
