//! How a store gives memory back: segments in which nothing lives go, and what is sparse is put together.
//!
//! Owns: the order of that, and the memory that is used again. Never does: decide that a record is kept no more.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Key, LARGEST, Piece, Place, SMALLEST, Store};
use crate::atomic::{Ordering, fence};
use crate::storage::segment::Segment;

/// Segments are put together as long as two neighbours fill less than this part of one.
const SPARSE: usize = LARGEST / 2;
/// So many are put together when a segment is full.
const MERGES: usize = 4;
/// So much memory is kept to be used again.
const MOST_SPARE: usize = 2;

impl Store {
    /// Lets go of segments in which nothing lives, and puts together what is sparse. Nothing is moved while
    /// somebody goes along the store: what has died is still somebody's.
    pub(super) fn tidy(&mut self) {
        self.trim_front();
        while self.pieces.len() > 1 && self.is_first_empty() {
            self.pop_first();
        }
        if self.retention.is_by_order() || Arc::strong_count(&self.pinned) > 1 {
            return;
        }
        // What the last one who went along has read, it has read before this.
        fence(Ordering::Acquire);
        // More than come, and no more than a turn has time for.
        for _ in 0..MERGES {
            let last = self.pieces.len() - 1;
            let sparse = |index: &usize| {
                *index + 1 < last
                    && self.pieces[*index].live + self.pieces[*index + 1].live <= SPARSE
            };
            let Some(index) = (0..last).find(sparse) else { return };
            self.merge(index);
        }
    }

    /// Lets go of the first segment, and keeps its memory if there is use for it.
    fn pop_first(&mut self) {
        let first = self.pieces.pop_front();
        first.into_iter().for_each(|first| self.spare(first));
    }

    /// Keeps the memory of a segment that is needed no more, if there is use for it.
    pub(super) fn spare(&mut self, piece: Piece) {
        let has_room = self.spare.len() < MOST_SPARE;
        let memory = Segment::into_memory(piece.segment);
        self.spare.extend(memory.filter(|memory| has_room && memory.size() == LARGEST));
    }

    /// Of a store that keeps everything: all below this version is needed no more, and whole segments of it go.
    pub(in crate::storage) fn let_go_below(&mut self, version: u64) {
        while self.pieces.get(1).is_some_and(|next| next.begins_by(version)) {
            self.pop_first();
        }
    }

    /// Where records go in their order: what is below this version is kept no more.
    pub(in crate::storage) fn floor(&self) -> u64 {
        self.floor_at(self.version)
    }

    /// The same when it was at this version.
    pub(super) fn floor_at(&self, version: u64) -> u64 {
        self.retention.window().map_or(0, |most| version.saturating_sub(most))
    }

    /// Whether nothing lives in the first segment.
    fn is_first_empty(&self) -> bool {
        match self.retention.window() {
            Some(_) => self.pieces[1].begins_by(self.floor()),
            None => self.pieces[0].live == 0,
        }
    }

    /// Puts what lives in a segment and in the next one together.
    fn merge(&mut self, index: usize) {
        let (number, bytes) =
            (self.pieces[index].number, self.pieces[index].live + self.pieces[index + 1].live);
        let merged = Segment::new(bytes.max(SMALLEST), &self.total);
        let mut moved: Vec<(Key, Place, Place)> = Vec::new();
        for Piece { number: from, segment, .. } in self.pieces.range(index..index + 2) {
            let (mut at, shown) = (0, segment.shown());
            while at < shown {
                let head = segment.head(at);
                if segment.died(at).is_none() {
                    let record = segment.record(at, head.length as usize);
                    let to = merged.put(head, record).expect("it was made to hold them");
                    let old = Place { segment: *from, at: at as u32 };
                    let new = Place { segment: number, at: to as u32 };
                    match self.several.moves(old, new) {
                        true => {
                            let keys = (self.meaning.several)(record).into_iter().flatten();
                            moved.extend(keys.map(|key| (key, old, new)));
                        }
                        false => moved.push(((self.meaning.key)(record), old, new)),
                    }
                }
                at += head.footprint();
            }
        }
        for (key, old, new) in moved {
            let places = self.index.get_mut(&key).into_iter().flatten();
            places.filter(|place| **place == old).for_each(|place| *place = new);
        }
        merged.set_next(self.pieces.get(index + 2).map(|piece| Arc::clone(&piece.segment)));
        if let Some(before) = index.checked_sub(1) {
            self.pieces[before].segment.set_next(Some(Arc::clone(&merged)));
        }
        self.pieces.remove(index);
        self.pieces[index] = Piece { number, segment: merged, live: bytes };
        if self.piece(self.oldest.segment) <= index {
            self.oldest = Place { segment: 0, at: 0 };
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::Retention;
    use super::super::tests::{MEANING, STREAM, record};
    use super::*;
    use crate::storage::cursor::Cursor;

    const LAST: Retention =
        Retention { depth: Some(1), most: None, keys: None, lifespan: None, cleanup: None };

    /// A record of one KiB, with its head.
    fn put(store: &mut Store, key: u64) {
        let stream = store.stream(STREAM);
        store.append(stream, store.version(), &record(key, 0, 992));
    }

    /// Of each segment how many KiB it has.
    fn sizes(store: &Store) -> Vec<usize> {
        store.pieces.iter().map(|piece| piece.segment.size() >> 10).collect()
    }

    /// Of each segment how many records of it live, as its records say, and as is counted.
    fn living(store: &Store) -> impl Iterator<Item = (usize, usize)> + '_ {
        store.pieces.iter().map(|piece| {
            let places = (0..piece.segment.shown()).step_by(1024);
            let living = places.filter(|at| piece.segment.died(*at).is_none());
            (living.count(), piece.live / 1024)
        })
    }

    fn versions(cursor: Cursor) -> Vec<u64> {
        cursor.map(|kept| kept.version()).collect()
    }

    /// A store takes little memory for little, and few segments for much.
    #[test]
    fn each_segment_is_twice_as_large_as_the_one_before_up_to_the_largest() {
        let mut store = Store::new(Retention::default(), MEANING);
        (0..4000).for_each(|key| put(&mut store, key));
        let grown = [16, 32, 64, 128, 256, 512, 1024, 1024, 1024];
        assert_eq!(sizes(&store), grown, "what keeps all moves nothing");
        let stream = store.stream(STREAM);
        store.append(stream, 4000, &alloc::vec![0; (3 << 20) - 32]);
        assert_eq!(sizes(&store).last(), Some(&3072), "what is larger has its own");
    }

    /// What lives in them is less than half of one: so they become few; and where more lives nothing is moved.
    #[test]
    fn sparse_segments_become_one_and_dense_ones_stay() {
        let mut store = Store::new(LAST, MEANING);
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
        // The first is sparse, and what comes after it dense.
        (0..400).for_each(|key| put(&mut store, key));
        (0..4000).for_each(|_| put(&mut store, 5000));
        assert_eq!(sizes(&store)[..3], before[..3], "nothing is moved");
        let lives = of_all(&store);
        assert_eq!(lives.iter().sum::<usize>(), 4001);
        assert!(lives.len() < 9, "{lives:?}");
        // One in ten stays.
        (0..4000).filter(|key| key % 10 > 0).for_each(|key| put(&mut store, key % 10));
        (0..4000).filter(|key| key % 10 > 0).for_each(|key| put(&mut store, key));
        (0..9000).for_each(|_| put(&mut store, 5000));
        (0..4000).filter(|key| key % 10 > 0).for_each(|key| put(&mut store, 6000 + key % 7));
        (0..9000).for_each(|_| put(&mut store, 5000));
        let lives = of_all(&store);
        assert_eq!(lives.iter().sum::<usize>() as u64, store.len());
        assert!(lives.len() < 12, "{lives:?}");
    }

    /// What dies after somebody began is still before him, wherever in the store it is.
    #[test]
    fn nothing_is_moved_while_somebody_goes_along() {
        let mut store = Store::new(LAST, MEANING);
        // Two segments that nobody touches any more, and then some whose records all go.
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
        // Nor ever where all that goes is the oldest.
        let mut store = Store::new(Retention { most: Some(100), ..Retention::default() }, MEANING);
        (0..60).for_each(|key| put(&mut store, key));
        assert_eq!(sizes(&store), [16, 32, 64]);
    }

    /// Memory of the largest, and no more of it than there is use for.
    #[test]
    fn some_memory_is_used_again() {
        let mut store = Store::new(Retention::default(), MEANING);
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
        // Of what goes by its order as well.
        let mut store = Store::new(Retention { most: Some(1), ..Retention::default() }, MEANING);
        let meter = store.meter();
        for key in 0..9000 {
            put(&mut store, key);
            assert!(meter.bytes() <= 3 << 20, "{} bytes", meter.bytes());
        }
    }

    /// What is let go of is what is below that version, by whole segments.
    #[test]
    fn below_a_version_whole_segments_go() {
        let mut store = Store::new(Retention::default(), MEANING);
        (0..240).for_each(|key| put(&mut store, key));
        assert_eq!(sizes(&store), [16, 32, 64, 128]);
        for (version, first) in [(0, 0), (15, 0), (16, 16), (47, 16), (48, 48), (999, 112)] {
            store.let_go_below(version);
            assert_eq!(store.pieces[0].segment.head(0).version, first, "below {version}");
        }
    }
}
