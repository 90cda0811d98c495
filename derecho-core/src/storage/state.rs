//! What a store was at a version: what a checkpoint says of it.
//!
//! Owns: the way along it. Never does: copy it; a log's thread reads it where it lies, while the store goes on.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Kept};
use super::errands::sequence_of;
use super::store::{Meaning, Store};
use crate::group::report::StreamId;
use crate::log::record::AsRecord;
use crate::log::{Entry, EpochId, KeyHash, Kind, Record, Tail, Version, WallTime};

/// See the [module](self).
pub struct State {
    cursor: Cursor,
    version: u64,
    streams: Vec<StreamId>,
    epoch: EpochId,
    meaning: Meaning,
}

impl State {
    /// What a cursor along this store has before it up to a version, in an epoch.
    pub fn new(
        (cursor, store): (Cursor, &Store),
        (version, epoch): (u64, EpochId),
        meaning: Meaning,
    ) -> State {
        State { cursor, version, streams: store.streams().to_vec(), epoch, meaning }
    }

    /// Where it is what the messages lead to.
    pub fn tail(&self) -> Tail {
        Tail { epoch: self.epoch, version: Version(self.version) }
    }

    /// Its messages, in their order.
    pub fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        let kept = self.cursor.fork().take_while(|kept| kept.version() < self.version);
        kept.map(|kept| Message { kept, of: self })
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({}, epoch {})", self.version, self.epoch)
    }
}

/// One of them.
pub struct Message<'a> {
    kept: Kept,
    of: &'a State,
}

impl AsRecord for Message<'_> {
    fn as_record(&self) -> Record<'_> {
        let State { streams, epoch, meaning, .. } = self.of;
        let entry = entry(&self.kept, streams, (*epoch, *meaning));
        Record { version: Version(self.kept.version() + 1), entry }
    }
}

/// What a log is told of a record in a store.
pub(super) fn entry<'a>(
    kept: &'a Kept,
    streams: &[StreamId],
    (epoch, meaning): (EpochId, Meaning),
) -> Entry<'a> {
    let payload = kept.bytes();
    let stream = streams[kept.stream() as usize];
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
