//! A store as a log follows it.
//!
//! Owns: how its records are called in a log. Never does: write one.

use alloc::vec::Vec;

use super::cursor::{Cursor, Kept};
use super::errands::sequence_of;
use super::scribe::Trail;
use super::store::{Meaning, Store};
use crate::log::{Entry, EpochId, KeyHash, Kind, OwnedRecord, Record, Version, WallTime};

/// A way along a store, and the record that comes next, if it was found.
pub(super) struct StoreTrail {
    cursor: Cursor,
    held: Option<Kept>,
}

impl StoreTrail {
    /// From where this cursor is.
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
        entry(self.held.as_ref().expect("it was found"), beside, epoch)
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

    fn state(
        &mut self,
        beside: Self::Beside<'_>,
        (epoch, cut): (EpochId, u64),
    ) -> Vec<OwnedRecord> {
        let before = self.cursor.fork().take_while(|kept| kept.version() < cut);
        let record = |kept: Kept| {
            let entry = entry(&kept, beside, epoch);
            Record { version: Version(kept.version() + 1), entry }.to_owned()
        };
        before.map(record).collect()
    }
}

fn entry<'a>(kept: &'a Kept, (store, meaning): (&Store, Meaning), epoch: EpochId) -> Entry<'a> {
    let payload = kept.bytes();
    let stream = store.streams()[kept.stream() as usize];
    Entry {
        kind: Kind::Sample,
        epoch,
        writer: stream.node,
        writer_sequence: sequence_of(stream, kept.number()),
        source_time: WallTime((meaning.time)(payload)),
        reception_time: WallTime(0),
        key: KeyHash((meaning.key)(payload).to_le_bytes()),
        payload,
    }
}
