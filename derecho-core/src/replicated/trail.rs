//! An object as a log follows it: the updates that were applied to it.
//!
//! Owns: what the log has still to take. Never does: let go of more of the senders' memory than a log takes in a turn: so
//! a log that is slow, or full, holds up those who send (I-112).
//!
//! ```text
//!   applied ──> held ──stage──> let go ──vouch──> whole ──> taken by the log
//!     (the sender's memory, too)         (the host says that this member is still one: I-108)
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Edition;
use crate::group::report::StreamId;
use crate::ids::NodeId;
use crate::log::{Entry, EpochId, KeyHash, Kind, OwnedRecord, Record, Tail, Version, WallTime};
use crate::multicast::inbox;
use crate::storage::errands::sequence_of;
use crate::storage::scribe::{Trail, footprint};
use crate::storage::state::State;

/// An update that was applied.
pub(super) struct Applied {
    /// How many were applied before it.
    pub(super) version: u64,
    /// The time of the edition after it.
    pub(super) time: u64,
    pub(super) from: StreamId,
    /// Its number among the messages of that stream.
    pub(super) number: u64,
    /// Whether it makes sense. It counts in any case.
    pub(super) is_sound: bool,
    pub(super) update: Update,
}

/// The bytes of an update, as they were applied (I-330).
pub(super) struct Update {
    pub(super) bytes: Vec<u8>,
    /// The record of which they are a copy. Keeps its sender from using that memory again until the log may take the update soon
    /// (I-112).
    pub(super) holds: Option<inbox::Record>,
}

/// Bytes that are staged at a time.
const STAGED: u64 = 4 << 20;

/// See the [module](self).
pub(super) struct ObjectTrail {
    waiting: VecDeque<Applied>,
    /// So many of these are copied, and of so many it is known that they are whole.
    staged: usize,
    whole: usize,
    /// How many there were in all.
    end: u64,
    skip: u64,
    /// The object as it was where this begins, until the log has what leads to that.
    state: Option<(Edition, Vec<u8>)>,
}

impl ObjectTrail {
    /// From this version of the object on.
    pub(super) fn new(begin: u64, state: Option<(Edition, Vec<u8>)>) -> ObjectTrail {
        let waiting = VecDeque::new();
        ObjectTrail { waiting, staged: 0, whole: 0, end: begin, skip: begin, state }
    }

    /// One more. Returns how long it is, if the log has to take it.
    pub(super) fn push(&mut self, applied: Applied) -> Option<u64> {
        self.end = applied.version + 1;
        let wanted = applied.version >= self.skip;
        let bytes = footprint(&applied.update.bytes);
        if wanted {
            self.waiting.push_back(applied);
        }
        wanted.then_some(bytes)
    }

    /// Bytes that the log has still to take.
    pub(super) fn bytes(&self) -> u64 {
        self.waiting.iter().map(|applied| footprint(&applied.update.bytes)).sum()
    }

    /// Lets go of the memory of what comes next, as far as the log may take that soon.
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

    /// This member was one after all of that was copied.
    pub(super) fn vouch(&mut self) {
        self.whole = self.staged;
    }

    fn pop(&mut self) {
        self.waiting.pop_front();
        self.staged = self.staged.saturating_sub(1);
        self.whole = self.whole.saturating_sub(1);
    }

    /// Nobody needs to know any more what the object was where this begins.
    pub(super) fn forget_state(&mut self) {
        self.state = None;
    }
}

impl Trail for ObjectTrail {
    type Beside<'a> = ();

    fn peek(&mut self) -> Option<u64> {
        self.waiting.front().filter(|_| self.whole > 0).map(|applied| applied.version)
    }

    fn entry<'a, 'b: 'a>(&'a self, (): (), epoch: EpochId) -> Entry<'a> {
        let applied = self.waiting.front().expect("it was found");
        let kind = if applied.is_sound { Kind::Sample } else { Kind::Unregistered };
        Entry {
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
        self.waiting.front().map_or(end, |applied| applied.version)
    }

    fn end(&self, (): ()) -> u64 {
        // What waits comes before what begins later.
        self.waiting.front().map_or(self.end, |applied| applied.version)
    }

    fn skip_to(&mut self, version: u64) {
        self.skip = self.skip.max(version);
        while self.waiting.front().is_some_and(|applied| applied.version < version) {
            self.pop();
        }
    }

    fn state(&mut self, (): (), (epoch, cut): (EpochId, u64)) -> State {
        // What nothing has led to is how every object begins.
        let known = self.state.as_ref().filter(|(edition, _)| edition.version > 0);
        let record = known.map(|(edition, bytes)| state(*edition, epoch, bytes));
        State::of_records(Tail { epoch, version: Version(cut) }, record.into_iter().collect())
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
