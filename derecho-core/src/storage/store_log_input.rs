//! A store as a log follows it.
//!
//! Owns: how the store's records are represented in a log. Never does: write one.

use super::checkpoint_state::{CheckpointState, entry};
use super::cursor::{StoreCursor, StoredRecord};
use super::log_follower::LogInput;
use super::store::{RecordFormat, Store};
use crate::log::{EpochId, LogEntry};

/// Cursor along a store, and the next record, if it was found.
pub(super) struct StoreLogInput {
    cursor: StoreCursor,
    held: Option<StoredRecord>,
}

impl StoreLogInput {
    /// Follows the store from this cursor on.
    pub(super) fn new(cursor: StoreCursor) -> StoreLogInput {
        StoreLogInput { cursor, held: None }
    }
}

impl LogInput for StoreLogInput {
    type ReadingContext<'a> = (&'a Store, RecordFormat);

    fn peek(&mut self) -> Option<u64> {
        if self.held.is_none() {
            self.held = self.cursor.next();
        }
        self.held.as_ref().map(StoredRecord::position)
    }

    fn entry<'a, 'b: 'a>(
        &'a self,
        beside: Self::ReadingContext<'b>,
        epoch: EpochId,
    ) -> LogEntry<'a> {
        let (store, format) = beside;
        let kept = self.held.as_ref().expect("the cursor holds a record");
        entry(kept, store.streams(), epoch, format)
    }

    fn pass(&mut self) {
        self.held = None;
    }

    fn passed(&self) -> u64 {
        self.held.as_ref().map_or(self.cursor.position(), StoredRecord::position)
    }

    fn end(&self, (store, _): Self::ReadingContext<'_>) -> u64 {
        store.version()
    }

    fn skip_to(&mut self, position: u64) {
        self.cursor.skip_to(position);
    }

    fn state(
        &mut self,
        beside: Self::ReadingContext<'_>,
        epoch: EpochId,
        end: u64,
    ) -> CheckpointState {
        let (store, format) = beside;
        CheckpointState::new(self.cursor.fork(), store, end, epoch, format)
    }
}
