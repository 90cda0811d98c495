//! State of a store at a version: the content of a checkpoint.
//!
//! Owns: the cursor along the state. Never does: copy it; a log's thread reads the records in
//! place, while the store goes on.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{StoreCursor, StoredRecord};
use super::log_tasks::sequence_of;
use super::store::{RecordFormat, Store};
use crate::group::report::StreamId;
use crate::log::record::AsRecord;
use crate::log::{
    EpochId, KeyHash, LogEntry, LogRecord, OwnedRecord, RecordKind, Tail, Version, WallTime,
};

/// State at a version; see the [module](self).
pub struct CheckpointState {
    tail: Tail,
    content: StateContent,
}

enum StateContent {
    Store { cursor: StoreCursor, streams: Vec<StreamId>, format: RecordFormat },
    Records(Vec<OwnedRecord>),
}

impl CheckpointState {
    /// Creates the state that a cursor along this store still has before it, up to and including
    /// version `last` in an epoch.
    pub fn new(
        cursor: StoreCursor,
        store: &Store,
        last: u64,
        epoch: EpochId,
        format: RecordFormat,
    ) -> CheckpointState {
        let tail = Tail { epoch, version: Version(last) };
        let streams = store.streams().to_vec();
        CheckpointState { tail, content: StateContent::Store { cursor, streams, format } }
    }

    /// Creates a state of a few given records.
    pub fn of_records(tail: Tail, records: Vec<OwnedRecord>) -> CheckpointState {
        CheckpointState { tail, content: StateContent::Records(records) }
    }

    /// Tail of the messages that lead to this state.
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// Returns the messages of the state, in order.
    pub fn messages(&self) -> impl Iterator<Item = CheckpointMessage<'_>> {
        let (kept, records) = match &self.content {
            StateContent::Store { cursor, streams, format } => {
                let kept = cursor.fork().take_while(|kept| kept.position() < self.tail.version.0);
                let (epoch, format) = (self.tail.epoch, *format);
                let message =
                    move |record| CheckpointMessage::Stored { record, streams, epoch, format };
                (Some(kept.map(message)), None)
            }
            StateContent::Records(records) => {
                (None, Some(records.iter().map(CheckpointMessage::Owned)))
            }
        };
        kept.into_iter().flatten().chain(records.into_iter().flatten())
    }
}

impl fmt::Debug for CheckpointState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckpointState({}, epoch {})", self.tail.version, self.tail.epoch)
    }
}

/// One message of a state.
pub enum CheckpointMessage<'a> {
    /// A record in a store, with the identities of the store's streams.
    Stored {
        /// The record.
        record: StoredRecord,
        /// Streams of the store, by their index in the record.
        streams: &'a [StreamId],
        /// Epoch in which the state ends.
        epoch: EpochId,
        /// Interpretation of the record.
        format: RecordFormat,
    },
    /// A record of its own.
    Owned(&'a OwnedRecord),
}

impl AsRecord for CheckpointMessage<'_> {
    fn as_record(&self) -> LogRecord<'_> {
        match self {
            CheckpointMessage::Stored { record, streams, epoch, format } => {
                let entry = entry(record, streams, *epoch, *format);
                LogRecord { version: Version(record.position() + 1), entry }
            }
            CheckpointMessage::Owned(record) => record.record(),
        }
    }
}

/// Returns the log entry for a record in a store.
pub(super) fn entry<'a>(
    kept: &'a StoredRecord,
    streams: &[StreamId],
    epoch: EpochId,
    format: RecordFormat,
) -> LogEntry<'a> {
    let payload = kept.bytes();
    let stream = streams[kept.stream() as usize];
    LogEntry {
        kind: RecordKind::Sample,
        epoch,
        writer: stream.node,
        writer_sequence: sequence_of(stream, kept.number()),
        source_time: WallTime((format.time)(payload)),
        reception_time: WallTime(0),
        key: KeyHash((format.key)(payload).to_le_bytes()),
        payload,
    }
}
