//! A store as a log follows it.
//!
//! Owns: how the store's records are represented in a log. Never does: write one.

use super::cursor::{Cursor, Kept};
use super::scribe::Trail;
use super::state::{State, entry};
use super::store::{Meaning, Store};
use crate::log::{Entry, EpochId};

/// Cursor along a store, and the next record, if it was found.
pub(super) struct StoreTrail {
    cursor: Cursor,
    held: Option<Kept>,
}

impl StoreTrail {
    /// Follows the store from this cursor on.
    pub(super) fn new(cursor: Cursor) -> StoreTrail {
        StoreTrail { cursor, held: None }
    }
}

impl Trail for StoreTrail {
    type Beside<'a> = (&'a Store, Meaning);

    fn peek(&mut self) -> Option<u64> {
        if self.held.is_none() {
            self.held = self.cursor.next();
        }
        self.held.as_ref().map(Kept::version)
    }

    fn entry<'a, 'b: 'a>(&'a self, beside: Self::Beside<'b>, epoch: EpochId) -> Entry<'a> {
        let (store, meaning) = beside;
        let kept = self.held.as_ref().expect("the cursor holds a record");
        entry(kept, store.streams(), (epoch, meaning))
    }

    fn pass(&mut self) {
        self.held = None;
    }

    fn passed(&self) -> u64 {
        self.held.as_ref().map_or(self.cursor.version(), Kept::version)
    }

    fn end(&self, (store, _): Self::Beside<'_>) -> u64 {
        store.version()
    }

    fn skip_to(&mut self, version: u64) {
        self.cursor.skip_to(version);
    }

    fn state(&mut self, beside: Self::Beside<'_>, (epoch, cut): (EpochId, u64)) -> State {
        let (store, meaning) = beside;
        State::new((self.cursor.fork(), store), (cut, epoch), meaning)
    }
}
