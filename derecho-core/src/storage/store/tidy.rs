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
        let is_over =
            |next: &Piece| next.segment.shown() > 0 && next.segment.head(0).version <= version;
        while self.pieces.get(1).is_some_and(is_over) {
            self.pop_first();
        }
    }

    /// Where records go in their order: what is below this version is kept no more.
    pub(in crate::storage) fn floor(&self) -> u64 {
        self.retention.window().map_or(0, |most| self.version.saturating_sub(most))
    }

    /// Whether nothing lives in the first segment.
    fn is_first_empty(&self) -> bool {
        let second = &self.pieces[1].segment;
        match self.retention.window() {
            Some(_) => second.shown() > 0 && second.head(0).version <= self.floor(),
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
        self.pieces.remove(index + 1);
        self.pieces[index] = Piece { number, segment: merged, live: bytes };
        if self.piece(self.oldest.segment) <= index {
            self.oldest = Place { segment: 0, at: 0 };
        }
    }
}
