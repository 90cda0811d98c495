//! How a store returns memory: empty segments are dropped, and sparse ones are merged.
//!
//! Owns: the order of that, and memory for reuse. Never does: decide that a record is no
//! longer kept.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Key, LARGEST, NumberedSegment, RecordLocation, SMALLEST, Store};
use crate::atomic::{Ordering, fence};
use crate::storage::segment::Segment;

/// Two neighbours are merged if their kept records fill at most this part of a segment.
const SPARSE: usize = LARGEST / 2;
/// Maximum number of merges each time a segment is full.
const MERGES: usize = 4;
/// Maximum number of pieces of memory kept for reuse.
const MOST_SPARE: usize = 2;

impl Store {
    /// Drops segments without kept records, and merges sparse ones. Nothing moves while a cursor
    /// exists, because a cursor may still return removed records.
    pub(super) fn tidy(&mut self) {
        self.trim_past();
        while self.segments.len() > 1 && self.is_first_empty() {
            self.pop_first();
        }
        if self.retention.is_by_order() || Arc::strong_count(&self.pinned) > 1 {
            return;
        }
        // Acquire: all reads of the last cursor came before its drop.
        fence(Ordering::Acquire);
        // More merges than new segments, but no more than a turn has time for.
        for _ in 0..MERGES {
            let last = self.segments.len() - 1;
            let sparse = |index: &usize| {
                *index + 1 < last
                    && self.segments[*index].live + self.segments[*index + 1].live <= SPARSE
            };
            let Some(index) = (0..last).find(sparse) else { return };
            self.merge(index);
        }
    }

    /// Drops the first segment, and keeps its memory if it can be reused.
    fn pop_first(&mut self) {
        let first = self.segments.pop_front();
        first.into_iter().for_each(|first| self.spare(first));
    }

    /// Keeps the memory of a segment that is no longer needed, if it can be reused.
    pub(super) fn spare(&mut self, numbered_segment: NumberedSegment) {
        let has_room = self.spare.len() < MOST_SPARE;
        let memory = Segment::into_memory(numbered_segment.segment);
        self.spare.extend(memory.filter(|memory| has_room && memory.size() == LARGEST));
    }

    /// In a store that keeps everything: drops whole segments before position `end`, which are no
    /// longer needed.
    pub(in crate::storage) fn let_go_below(&mut self, end: u64) {
        while self.segments.get(1).is_some_and(|next| next.begins_by(end)) {
            self.pop_first();
        }
    }

    /// Position of the first record that can be kept, if records are removed strictly in order.
    pub(in crate::storage) fn floor(&self) -> u64 {
        self.floor_at(self.version)
    }

    /// Returns what [`Store::floor`] was at this version.
    pub(super) fn floor_at(&self, version: u64) -> u64 {
        self.retention.window().map_or(0, |most| version.saturating_sub(most))
    }

    /// Whether no record in the first segment is kept.
    fn is_first_empty(&self) -> bool {
        match self.retention.window() {
            Some(_) => self.segments[1].begins_by(self.floor()),
            None => self.segments[0].live == 0,
        }
    }

    /// Merges the kept records of a segment and of the next one into one segment.
    fn merge(&mut self, index: usize) {
        let (number, bytes) = (
            self.segments[index].number,
            self.segments[index].live + self.segments[index + 1].live,
        );
        let merged = Segment::new(bytes.max(SMALLEST), &self.total);
        let mut moved: Vec<(Key, RecordLocation, RecordLocation)> = Vec::new();
        for NumberedSegment { number: from, segment, .. } in self.segments.range(index..index + 2) {
            let (mut at, shown) = (0, segment.shown());
            while at < shown {
                let head = segment.head(at);
                if segment.died(at).is_none() {
                    let record = segment.record(at, head.length as usize);
                    let to = merged.put(head, record).expect("the segment has room for both");
                    let old = RecordLocation { segment: *from, at: at as u32 };
                    let new = RecordLocation { segment: number, at: to as u32 };
                    match self.key_counts.moves(old, new) {
                        true => {
                            let keys = (self.format.all_keys)(record).into_iter().flatten();
                            moved.extend(keys.map(|key| (key, old, new)));
                        }
                        false => moved.push(((self.format.key)(record), old, new)),
                    }
                }
                at += head.footprint();
            }
        }
        for (key, old, new) in moved {
            let places = self.index.get_mut(&key).into_iter().flatten();
            places.filter(|place| **place == old).for_each(|place| *place = new);
        }
        merged.set_next(
            self.segments
                .get(index + 2)
                .map(|numbered_segment| Arc::clone(&numbered_segment.segment)),
        );
        if let Some(before) = index.checked_sub(1) {
            self.segments[before].segment.set_next(Some(Arc::clone(&merged)));
        }
        self.segments.remove(index);
        self.segments[index] = NumberedSegment { number, segment: merged, live: bytes };
        if self.segment_index(self.oldest.segment) <= index {
            self.oldest = RecordLocation { segment: 0, at: 0 };
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::StoreRetention;
    use super::super::tests::{FORMAT, STREAM, record};
    use super::*;
    use crate::storage::cursor::StoreCursor;

    const LAST: StoreRetention =
        StoreRetention { depth: Some(1), most: None, keys: None, lifespan: None, cleanup: None };

    /// Puts in a record of one KiB, including its header.
    fn put(store: &mut Store, key: u64) {
        let stream = store.stream(STREAM);
        store.append(stream, store.version(), &record(key, 0, 992));
    }

    /// Returns the size of each segment in KiB.
    fn sizes(store: &Store) -> Vec<usize> {
        store
            .segments
            .iter()
            .map(|numbered_segment| numbered_segment.segment.size() >> 10)
            .collect()
    }

    /// Returns the kept records of each segment, by its records and by its counter.
    fn living(store: &Store) -> impl Iterator<Item = (usize, usize)> + '_ {
        store.segments.iter().map(|numbered_segment| {
            let places = (0..numbered_segment.segment.shown()).step_by(1024);
            let living = places.filter(|at| numbered_segment.segment.died(*at).is_none());
            (living.count(), numbered_segment.live / 1024)
        })
    }

    fn versions(cursor: StoreCursor) -> Vec<u64> {
        cursor.map(|kept| kept.position()).collect()
    }

    /// A small store takes little memory, and a large one few segments.
    #[test]
    fn segment_size_doubles_up_to_the_largest_size() {
        let mut store = Store::new(StoreRetention::default(), FORMAT);
        (0..4000).for_each(|key| put(&mut store, key));
        let grown = [16, 32, 64, 128, 256, 512, 1024, 1024, 1024];
        assert_eq!(sizes(&store), grown, "what keeps all moves nothing");
        let stream = store.stream(STREAM);
        store.append(stream, 4000, &alloc::vec![0; (3 << 20) - 32]);
        assert_eq!(sizes(&store).last(), Some(&3072), "what is larger has its own");
    }

    /// Sparse segments become few, because their kept records fill less than half of one; denser
    /// segments are not moved.
    #[test]
    fn sparse_segments_are_merged_and_dense_segments_stay() {
        let mut store = Store::new(LAST, FORMAT);
        (0..4000).for_each(|key| put(&mut store, key));
        let of_all = |store: &Store| {
            assert!(sizes(store).iter().all(|size| *size <= 1024), "{:?}", sizes(store));
            assert!(living(store).all(|(lives, counted)| lives == counted));
            living(store).map(|(lives, _)| lives).collect::<Vec<_>>()
        };
        let lives = of_all(&store);
        assert_eq!(lives.iter().sum::<usize>(), 4000);
        let sparse = |pair: &[usize]| pair[0] + pair[1] <= 512;
        assert!(!lives[..lives.len() - 1].windows(2).any(sparse), "{lives:?}");
        let before = sizes(&store);
        // The first segment is sparse, and the later ones are dense.
        (0..400).for_each(|key| put(&mut store, key));
        (0..4000).for_each(|_| put(&mut store, 5000));
        assert_eq!(sizes(&store)[..3], before[..3], "nothing is moved");
        let lives = of_all(&store);
        assert_eq!(lives.iter().sum::<usize>(), 4001);
        assert!(lives.len() < 9, "{lives:?}");
        // One record in ten stays.
        (0..4000).filter(|key| key % 10 > 0).for_each(|key| put(&mut store, key % 10));
        (0..4000).filter(|key| key % 10 > 0).for_each(|key| put(&mut store, key));
        (0..9000).for_each(|_| put(&mut store, 5000));
        (0..4000).filter(|key| key % 10 > 0).for_each(|key| put(&mut store, 6000 + key % 7));
        (0..9000).for_each(|_| put(&mut store, 5000));
        let lives = of_all(&store);
        assert_eq!(lives.iter().sum::<usize>() as u64, store.len());
        assert!(lives.len() < 12, "{lives:?}");
    }

    /// Records removed after a cursor was made are still before it, wherever in the store they are.
    #[test]
    fn no_record_is_moved_while_a_cursor_is_reading() {
        let mut store = Store::new(LAST, FORMAT);
        // Two segments without later changes, and then some whose records are all removed.
        (0..2500).for_each(|key| put(&mut store, key));
        let before = sizes(&store);
        let cursor = store.cursor();
        (1500..2500).for_each(|key| put(&mut store, key));
        (0..5000).for_each(|_| put(&mut store, 9000));
        assert_eq!(sizes(&store)[..before.len()], before);
        assert_eq!(versions(cursor), (0..8500).collect::<Vec<u64>>());
        (0..3000).for_each(|_| put(&mut store, 9000));
        assert!(sizes(&store).len() < 8, "and then it is");
        assert_eq!(versions(store.cursor()).len(), 2501);
        // The same holds if only the oldest records are ever removed.
        let mut store =
            Store::new(StoreRetention { most: Some(100), ..StoreRetention::default() }, FORMAT);
        (0..60).for_each(|key| put(&mut store, key));
        assert_eq!(sizes(&store), [16, 32, 64]);
    }

    /// Only memory of the largest size is kept, and no more than can be reused.
    #[test]
    fn memory_of_largest_segments_is_reused_up_to_a_limit() {
        let mut store = Store::new(StoreRetention::default(), FORMAT);
        let meter = store.meter();
        (0..500).for_each(|key| put(&mut store, key));
        store.let_go_below(500);
        assert_eq!((sizes(&store), store.spare.len()), (alloc::vec![512], 0));
        (500..8000).for_each(|key| put(&mut store, key));
        store.let_go_below(8000);
        assert_eq!((sizes(&store), store.spare.len()), (alloc::vec![1024], MOST_SPARE));
        assert_eq!(meter.bytes(), 3 << 20);
        (8000..10_000).for_each(|key| put(&mut store, key));
        assert_eq!((sizes(&store), store.spare.len()), (alloc::vec![1024; 3], 0));
        assert_eq!(meter.bytes(), 3 << 20);
        // Also for a store that removes records strictly in order.
        let mut store =
            Store::new(StoreRetention { most: Some(1), ..StoreRetention::default() }, FORMAT);
        let meter = store.meter();
        for key in 0..9000 {
            put(&mut store, key);
            assert!(meter.bytes() <= 3 << 20, "{} bytes", meter.bytes());
        }
    }

    /// Whole segments below a version are dropped.
    #[test]
    fn whole_segments_below_a_version_are_dropped() {
        let mut store = Store::new(StoreRetention::default(), FORMAT);
        (0..240).for_each(|key| put(&mut store, key));
        assert_eq!(sizes(&store), [16, 32, 64, 128]);
        for (version, first) in [(0, 0), (15, 0), (16, 16), (47, 16), (48, 48), (999, 112)] {
            store.let_go_below(version);
            assert_eq!(store.segments[0].segment.head(0).position, first, "below {version}");
        }
    }
}
