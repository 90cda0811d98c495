//! An object as a log follows it: the updates that were applied to it.
//!
//! Owns: the updates that the log must still take. Never does: release more of the senders' memory
//! than a log takes in a turn, so a slow or full log holds the senders up (I-112).
//!
//! ```text
//!   applied ──> held ──stage──> released ──vouch──> valid ──> taken by the log
//!     (with the sender's memory)         (the host says that this member is still one: I-108)
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::ObjectVersion;
use crate::group::report::StreamId;
use crate::ids::NodeId;
use crate::log::{
    EpochId, KeyHash, LogEntry, LogRecord, OwnedRecord, RecordKind, Tail, Version, WallTime,
};
use crate::multicast::inbox;
use crate::storage::checkpoint_state::CheckpointState;
use crate::storage::log_follower::{LogInput, footprint};
use crate::storage::log_tasks::sequence_of;

/// An update that was applied.
pub(super) struct AppliedUpdate {
    /// Position: number of updates applied before it.
    pub(super) position: u64,
    /// Time of the object version after it.
    pub(super) time: u64,
    pub(super) from: StreamId,
    /// Number among the messages of its stream.
    pub(super) number: u64,
    /// Whether it could be decoded. It counts in any case.
    pub(super) is_sound: bool,
    pub(super) update: UpdateBytes,
}

/// Bytes of an update, as they were applied (I-330).
pub(super) struct UpdateBytes {
    pub(super) bytes: Vec<u8>,
    /// Record that the bytes were copied from. It keeps the sender from reusing that memory until
    /// the log may take the update soon (I-112).
    pub(super) holds: Option<inbox::Record>,
}

/// An object at a version.
#[derive(Debug)]
pub(super) struct ObjectState {
    pub(super) object_version: ObjectVersion,
    pub(super) bytes: Vec<u8>,
}

/// Bytes that are staged at a time.
const STAGED: u64 = 4 << 20;

/// Updates of an object; see the [module](self).
pub(super) struct ObjectLogInput {
    waiting: VecDeque<AppliedUpdate>,
    /// Number of staged updates, and of updates known to be valid.
    staged: usize,
    whole: usize,
    /// Position after the last update.
    end: u64,
    /// Position of the first update that is wanted.
    skip: u64,
    /// The object at the beginning of the log input, until the log has what leads to it.
    state: Option<ObjectState>,
}

impl ObjectLogInput {
    /// Creates the input of the updates from position `begin` on.
    pub(super) fn new(begin: u64, state: Option<ObjectState>) -> ObjectLogInput {
        let waiting = VecDeque::new();
        ObjectLogInput { waiting, staged: 0, whole: 0, end: begin, skip: begin, state }
    }

    /// Adds an update. Returns its length if the log must take it.
    pub(super) fn push(&mut self, applied: AppliedUpdate) -> Option<u64> {
        self.end = applied.position + 1;
        let wanted = applied.position >= self.skip;
        let bytes = footprint(&applied.update.bytes);
        if wanted {
            self.waiting.push_back(applied);
        }
        wanted.then_some(bytes)
    }

    /// Number of bytes that the log must still take.
    pub(super) fn bytes(&self) -> u64 {
        self.waiting.iter().map(|applied| footprint(&applied.update.bytes)).sum()
    }

    /// Releases the senders' memory of the next updates, as far as the log may take them soon.
    pub(super) fn stage(&mut self) {
        let copied = self.waiting.iter().take(self.staged);
        let mut bytes: u64 = copied.map(|applied| footprint(&applied.update.bytes)).sum();
        while bytes < STAGED
            && let Some(next) = self.waiting.get_mut(self.staged)
        {
            next.update.holds = None;
            bytes += footprint(&next.update.bytes);
            self.staged += 1;
        }
    }

    /// Confirms that this member was still a member after all staged updates were copied.
    pub(super) fn validate_staged(&mut self) {
        self.whole = self.staged;
    }

    fn pop(&mut self) {
        self.waiting.pop_front();
        self.staged = self.staged.saturating_sub(1);
        self.whole = self.whole.saturating_sub(1);
    }

    /// Forgets the object at the beginning of the log input, which is no longer needed.
    pub(super) fn forget_state(&mut self) {
        self.state = None;
    }
}

impl LogInput for ObjectLogInput {
    type ReadingContext<'a> = ();

    fn peek(&mut self) -> Option<u64> {
        self.waiting.front().filter(|_| self.whole > 0).map(|applied| applied.position)
    }

    fn entry<'a, 'b: 'a>(&'a self, (): (), epoch: EpochId) -> LogEntry<'a> {
        let applied = self.waiting.front().expect("an update is waiting");
        let kind = if applied.is_sound { RecordKind::Sample } else { RecordKind::Unregistered };
        LogEntry {
            kind,
            epoch,
            writer: applied.from.node,
            writer_sequence: sequence_of(applied.from, applied.number),
            source_time: WallTime(applied.time),
            reception_time: WallTime(0),
            key: KeyHash::default(),
            payload: &applied.update.bytes,
        }
    }

    fn pass(&mut self) {
        self.pop();
    }

    fn passed(&self) -> u64 {
        let end = self.end.max(self.skip);
        self.waiting.front().map_or(end, |applied| applied.position)
    }

    fn end(&self, (): ()) -> u64 {
        // Waiting updates precede any epoch that begins later.
        self.waiting.front().map_or(self.end, |applied| applied.position)
    }

    fn skip_to(&mut self, position: u64) {
        self.skip = self.skip.max(position);
        while self.waiting.front().is_some_and(|applied| applied.position < position) {
            self.pop();
        }
    }

    fn state(&mut self, (): (), epoch: EpochId, end: u64) -> CheckpointState {
        // An object without updates is in its initial state, which needs no record.
        let known = self.state.as_ref().filter(|known| known.object_version.version > 0);
        let record = known.map(|known| state(known.object_version, epoch, &known.bytes));
        CheckpointState::of_records(
            Tail { epoch, version: Version(end) },
            record.into_iter().collect(),
        )
    }
}

/// Returns an object as a record of a checkpoint, which names the last update in the object
/// (I-339).
pub(super) fn state(object_version: ObjectVersion, epoch: EpochId, bytes: &[u8]) -> OwnedRecord {
    let entry = LogEntry {
        kind: RecordKind::Sample,
        epoch,
        writer: object_version.last_update.map_or(NodeId(0), |update| update.writer),
        writer_sequence: object_version.last_update.map_or(0, |update| update.sequence),
        source_time: WallTime(object_version.time),
        reception_time: WallTime(0),
        key: KeyHash::default(),
        payload: bytes,
    };
    LogRecord { version: Version(object_version.version), entry }.to_owned()
}
