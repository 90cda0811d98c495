//! Deferred records: delivered records that the store has counted and not copied yet (I-349).
//!
//! Owns: references to records in their senders' memory, and which of them are dropped without a
//! copy. Never does: hold a record past the end of the next turn, or decide what a store keeps: the
//! store decides by its copy (I-330).
//!
//! ```text
//!   inbox ──> deferred records ──> store       copied: at the end of a turn, before a look
//!                  │
//!                  '──> dropped                as many later ones of its key as are kept of a key
//! ```
//! Records are deferred only while the store has no cursor, which would have to return them, and
//! no log. Records are copied at once if more than their order and their keys decides what is
//! kept: a limit of keys or of a lifespan, a record with several keys, a statement that a key is
//! not alive, or a key that is not alive.

use alloc::collections::VecDeque;

use super::super::store::Key;
use super::{StoreStage, SubgroupStore};
use crate::multicast::inbox::{ChunkId, Record, ReleaseBatch};

/// Maximum number of deferred records.
const MOST: usize = 32;
/// Number of copies, since a record was last dropped without one, after which the next records
/// are not deferred: it would be of no use.
const PATIENCE: u32 = 128;
/// Number of records that are then not deferred.
const PAUSE: u32 = 4096;
/// Maximum number of senders whose records stay deferred past the end of a turn.
const SENDERS: usize = 8;
/// Minimum number of chunks of a memory of which one may stay in use for a turn longer.
const CHUNKS: usize = 4;

/// A record that is counted and not copied.
struct DeferredRecord {
    record: Record,
    key: Key,
    position: u64,
    /// The store's number for the stream.
    stream: u32,
}

/// Deferred records, in their order; see the [module](self).
pub(super) struct DeferredRecords {
    records: VecDeque<DeferredRecord>,
    /// Number of the first records, which were deferred before this turn.
    carried: usize,
    /// Whether a record was dropped without a copy in this turn.
    has_replaced: bool,
    /// Number of copies since a record was last dropped without one.
    copies: u32,
    /// Number of next records that are not deferred.
    pause: u32,
}

impl DeferredRecords {
    pub(super) fn new() -> DeferredRecords {
        let records = VecDeque::with_capacity(MOST + 1);
        DeferredRecords { records, carried: 0, has_replaced: false, copies: 0, pause: 0 }
    }

    /// Whether the next record may be deferred.
    fn is_useful(&mut self) -> bool {
        if self.copies >= PATIENCE {
            (self.copies, self.pause) = (0, PAUSE);
        }
        let is_over = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_over
    }

    /// Adds a record. Returns the oldest one of its key if `depth` later ones are deferred.
    #[inline]
    fn defer(&mut self, deferred: DeferredRecord, depth: usize) -> Option<Record> {
        let same = |(_, other): &(usize, &DeferredRecord)| other.key == deferred.key;
        let oldest = self.records.iter().enumerate().rev().filter(same).nth(depth - 1);
        let oldest = oldest.map(|(index, _)| index);
        let replaced = oldest.and_then(|index| {
            (self.copies, self.has_replaced) = (0, true);
            self.carried -= usize::from(index < self.carried);
            self.records.remove(index)
        });
        self.records.push_back(deferred);
        replaced.map(|replaced| replaced.record)
    }

    /// Number of the first records that must be copied at the end of a turn: records that have
    /// waited for a turn, and everything before them. Of each sender, only records in one chunk
    /// wait for longer; none if this turn has replaced nothing, because a chunk that stays in use
    /// costs another acknowledgement.
    fn due(&self) -> usize {
        if !self.has_replaced {
            return self.records.len();
        }
        let mut chunks: [Option<ChunkId>; SENDERS] = [None; SENDERS];
        let mut may_wait = |deferred: &DeferredRecord| {
            let chunk = deferred.record.chunk_id();
            let is_same = |it: &&mut Option<ChunkId>| it.is_none_or(|it| it.memory == chunk.memory);
            let known = chunks.iter_mut().find(is_same);
            let is_one = known.is_some_and(|known| *known.get_or_insert(chunk) == chunk);
            is_one && deferred.record.chunks().count() >= CHUNKS
        };
        let later = self.records.iter().rev().take_while(|it| may_wait(it)).count();
        self.carried.max(self.records.len() - later)
    }
}

impl SubgroupStore {
    /// Number of later records of a key, or in all, that remove a record; `None` if no record may
    /// be deferred.
    pub(super) fn deferral_depth(&self) -> Option<usize> {
        let is_alone = matches!(self.stage, StoreStage::Has) && self.log_follower.is_none();
        let depth = self.store.replacing_depth().filter(|_| is_alone)?;
        usize::try_from(depth).ok().filter(|depth| (1..=MOST).contains(depth))
    }

    /// Takes in a delivered record that the store has counted: defers or copies it. Adds a record
    /// that it replaces to the batch.
    #[inline]
    pub(super) fn put_or_defer(
        &mut self,
        stream: u32,
        position: u64,
        record: Record,
        depth: usize,
        replaced: &mut ReleaseBatch,
    ) {
        let is_useful = self.deferred.is_useful();
        match is_useful.then(|| self.store.sole_key(record.bytes())).flatten() {
            Some(key) => {
                let deferred = DeferredRecord { record, key, position, stream };
                self.deferred.defer(deferred, depth).into_iter().for_each(|it| replaced.add(it));
                if self.deferred.records.len() > MOST {
                    self.copy_deferred(1);
                }
            }
            None => {
                self.copy_all_deferred();
                self.store.put_counted(position, stream, record.number(), record.bytes());
            }
        }
    }

    /// Copies the deferred records that must not wait past the end of this turn. Returns
    /// their number.
    pub(super) fn end_turn(&mut self) -> usize {
        let due = self.deferred.due();
        self.copy_deferred(due);
        (self.deferred.carried, self.deferred.has_replaced) = (self.deferred.records.len(), false);
        due
    }

    /// Copies all deferred records into the store.
    pub(super) fn copy_all_deferred(&mut self) {
        self.copy_deferred(self.deferred.records.len());
    }

    /// Copies the first deferred records into the store.
    fn copy_deferred(&mut self, count: usize) {
        for _ in 0..count {
            let Some(next) = self.deferred.records.pop_front() else { return };
            let DeferredRecord { record, position, stream, .. } = next;
            self.store.put_counted(position, stream, record.number(), record.bytes());
            self.deferred.carried = self.deferred.carried.saturating_sub(1);
            self.deferred.copies += 1;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
