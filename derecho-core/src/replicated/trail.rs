//! An object as a log follows it: the updates that were applied to it.
//!
//! Owns: what the log has still to take. Never does: copy an update; it stays in its sender's memory, which is how a log
//! that is slow, or full, holds up those who send.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Edition;
use crate::group::report::StreamId;
use crate::ids::NodeId;
use crate::log::{Entry, EpochId, KeyHash, Kind, OwnedRecord, Record, Version, WallTime};
use crate::multicast::inbox;
use crate::storage::errands::sequence_of;
use crate::storage::scribe::{Trail, footprint};

/// An update that was applied.
pub(super) struct Applied {
    /// How many were applied before it.
    pub(super) version: u64,
    /// The time of the edition after it.
    pub(super) time: u64,
    pub(super) from: StreamId,
    pub(super) record: inbox::Record,
    /// Where in the record it begins; `None` if it makes no sense. It counts all the same.
    pub(super) update: Option<usize>,
}

/// See the [module](self).
pub(super) struct ObjectTrail {
    waiting: VecDeque<Applied>,
    /// How many there were in all.
    end: u64,
    skip: u64,
    /// The object as it was where this begins, until the log has what leads to that.
    state: Option<(Edition, Vec<u8>)>,
}

impl ObjectTrail {
    /// From this version of the object on.
    pub(super) fn new(begin: u64, state: Option<(Edition, Vec<u8>)>) -> ObjectTrail {
        ObjectTrail { waiting: VecDeque::new(), end: begin, skip: begin, state }
    }

    /// One more. Returns how long it is, if the log has to take it.
    pub(super) fn push(&mut self, applied: Applied) -> Option<u64> {
        self.end = applied.version + 1;
        let wanted = applied.version >= self.skip;
        let bytes = footprint(payload(&applied));
        if wanted {
            self.waiting.push_back(applied);
        }
        wanted.then_some(bytes)
    }

    /// Bytes that the log has still to take.
    pub(super) fn bytes(&self) -> u64 {
        self.waiting.iter().map(|applied| footprint(payload(applied))).sum()
    }

    /// Nobody needs to know any more what the object was where this begins.
    pub(super) fn forget_state(&mut self) {
        self.state = None;
    }
}

fn payload(applied: &Applied) -> &[u8] {
    applied.update.and_then(|from| applied.record.bytes().get(from..)).unwrap_or_default()
}

impl Trail for ObjectTrail {
    type Beside<'a> = ();

    fn peek(&mut self) -> Option<u64> {
        self.waiting.front().map(|applied| applied.version)
    }

    fn entry<'a, 'b: 'a>(&'a self, (): (), epoch: EpochId) -> Entry<'a> {
        let applied = self.waiting.front().expect("it was found");
        let kind = if applied.update.is_some() { Kind::Sample } else { Kind::Unregistered };
        Entry {
            kind,
            epoch,
            writer: applied.from.node,
            writer_sequence: sequence_of(applied.from, applied.record.number()),
            source_time: WallTime(applied.time),
            reception_time: WallTime(0),
            key: KeyHash::default(),
            payload: payload(applied),
        }
    }

    fn pass(&mut self) {
        self.waiting.pop_front();
    }

    fn passed(&self) -> u64 {
        let end = self.end.max(self.skip);
        self.waiting.front().map_or(end, |applied| applied.version)
    }

    fn end(&self, (): ()) -> u64 {
        self.end
    }

    fn skip_to(&mut self, version: u64) {
        self.skip = self.skip.max(version);
        while self.waiting.pop_front_if(|applied| applied.version < version).is_some() {}
    }

    fn state(&mut self, (): (), (epoch, _): (EpochId, u64)) -> Vec<OwnedRecord> {
        // What nothing has led to is how every object begins.
        let known = self.state.as_ref().filter(|(edition, _)| edition.version > 0);
        known.map(|(edition, bytes)| state(*edition, epoch, bytes)).into_iter().collect()
    }
}

/// An object as a checkpoint in a log has it.
pub(super) fn state(edition: Edition, epoch: EpochId, bytes: &[u8]) -> OwnedRecord {
    let entry = Entry {
        kind: Kind::Sample,
        epoch,
        writer: NodeId(0),
        writer_sequence: 0,
        source_time: WallTime(edition.time),
        reception_time: WallTime(0),
        key: KeyHash::default(),
        payload: bytes,
    };
    Record { version: Version(edition.version), entry }.to_owned()
}
