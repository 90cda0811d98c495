//! State of a store at a version: the content of a checkpoint.
//!
//! Owns: the cursor along the state. Never does: copy it; a log's thread reads the records in
//! place, while the store goes on.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Kept};
use super::errands::sequence_of;
use super::store::{Meaning, Store};
use crate::group::report::StreamId;
use crate::log::record::AsRecord;
use crate::log::{Entry, EpochId, KeyHash, Kind, OwnedRecord, Record, Tail, Version, WallTime};

/// State at a version; see the [module](self).
pub struct State {
    tail: Tail,
    content: Content,
}

enum Content {
    Store { cursor: Cursor, streams: Vec<StreamId>, meaning: Meaning },
    Records(Vec<OwnedRecord>),
}

impl State {
    /// Creates the state that a cursor along this store still has before it, up to a version in
    /// an epoch.
    pub fn new(
        (cursor, store): (Cursor, &Store),
        (version, epoch): (u64, EpochId),
        meaning: Meaning,
    ) -> State {
        let tail = Tail { epoch, version: Version(version) };
        let streams = store.streams().to_vec();
        State { tail, content: Content::Store { cursor, streams, meaning } }
    }

    /// Creates a state of a few given records.
    pub fn of_records(tail: Tail, records: Vec<OwnedRecord>) -> State {
        State { tail, content: Content::Records(records) }
    }

    /// Tail of the messages that lead to this state.
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// Returns the messages of the state, in order.
    pub fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        let (kept, records) = match &self.content {
            Content::Store { cursor, streams, meaning } => {
                let kept = cursor.fork().take_while(|kept| kept.version() < self.tail.version.0);
                let of = (&streams[..], (self.tail.epoch, *meaning));
                (Some(kept.map(move |kept| Message::Kept(kept, of))), None)
            }
            Content::Records(records) => (None, Some(records.iter().map(Message::Owned))),
        };
        kept.into_iter().flatten().chain(records.into_iter().flatten())
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({}, epoch {})", self.tail.version, self.tail.epoch)
    }
}

/// One message of a state.
pub enum Message<'a> {
    /// A record in a store, with the identities of the store's streams.
    Kept(Kept, (&'a [StreamId], (EpochId, Meaning))),
    /// A record of its own.
    Owned(&'a OwnedRecord),
}

impl AsRecord for Message<'_> {
    fn as_record(&self) -> Record<'_> {
        match self {
            Message::Kept(kept, (streams, of)) => {
                let entry = entry(kept, streams, *of);
                Record { version: Version(kept.version() + 1), entry }
            }
            Message::Owned(record) => record.record(),
        }
    }
}

/// Returns the log entry for a record in a store.
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
