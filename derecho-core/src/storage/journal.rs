//! The port to a log, as a member's turn sees it.
//!
//! Owns: what is asked of a log, and what it answers. Never does: wait; whatever takes its time is an
//! [`Errand`], done elsewhere and answered later.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::errands::Recalled;
use super::logbook::Claim;
use super::state::State;
use super::store::{Meaning, Retention, Store};
use crate::group::book::Roll;
use crate::group::report::StreamId;
use crate::log::{Entry, LogError, LogId, Mark, OwnedRecord, StreamKey, Tail, Version};

/// Something that takes its time.
#[derive(Debug)]
pub enum Errand {
    /// Look what there is of this stream, here and in the folders in reach. If so, nobody has it: have in the log
    /// what is in the folders that nobody keeps.
    Claim(bool),
    /// Make a store of what the log leads to, up to the first message of these numbers and streams.
    Load(Retention, Meaning, Vec<(StreamId, u64)>),
    /// Read what the log leads to, up to the first message of these numbers and streams.
    Recall(Vec<(StreamId, u64)>),
    /// Take over what these logs have beyond this one, up to a version. The subgroup began in this era, where this log
    /// ended.
    Complete(Vec<LogId>, Version, (Tail, u64)),
    /// Put this state in place of all that is there. The subgroup began as it says, where this log ended: what is no part
    /// of what it has been since is put aside (I-93).
    Replace(State, (Tail, u64)),
    /// The log ends with this version: put this state in place of all up to it.
    Checkpoint(Version, Box<OwnedRecord>),
    /// Of the log of views: say which is the last one, here and in the folders in reach, and which other streams there are
    /// logs of here.
    Roll,
}

/// What came of it.
pub enum Answer {
    /// Of [`Errand::Claim`].
    Claimed(Box<Claim>),
    /// Of [`Errand::Load`].
    Loaded(Box<Store>),
    /// Of [`Errand::Recall`].
    Recalled(Box<Recalled>),
    /// Of [`Errand::Roll`].
    Rolled(Box<Roll>, Vec<StreamKey>),
    /// Of [`Errand::Complete`]: the log ends with the version that was asked for.
    Completed,
    /// The others have not come so far, or cannot be read at this moment; a checkpoint cannot be made now.
    NotYet,
    /// No log in reach has what is missing.
    OutOfReach,
    /// Of [`Errand::Replace`] and [`Errand::Checkpoint`].
    Replaced,
    /// It cannot be done.
    Failed(LogError),
}

/// How a log is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// It takes what it is given.
    Open,
    /// Its disk is full, and it waits for room.
    Full,
    /// Harmed: the log cannot be opened, for this reason, and may have messages that no other log has (I-98).
    Harmed(Option<LogError>),
    /// Its disk was full, and it takes nothing more.
    Detached,
    /// It has failed, and nothing more will be durable (I-82).
    Failed(Option<LogError>),
}

impl Condition {
    /// Text of why a log is as it is, for whoever reads it.
    pub fn reason(error: Option<LogError>, otherwise: &str) -> String {
        error.map_or_else(|| otherwise.to_string(), |error| error.to_string())
    }

    /// Whether it takes nothing more, for good.
    pub fn is_over(&self) -> bool {
        matches!(self, Condition::Detached | Condition::Failed(_))
    }
}

/// The log of one stream.
pub trait Journal: Send {
    /// Which log it is.
    fn log(&self) -> LogId;

    /// Begins an errand, after all that was put before and before all that is put later; the one before has been
    /// answered. `false`: not now.
    fn ask(&mut self, errand: &mut Option<Errand>) -> bool;

    /// The answer to it, once it is there.
    fn answer(&mut self) -> Option<Answer>;

    /// Takes a message, copied. `false`: there is no room now.
    fn put(&mut self, entry: Entry<'_>) -> bool;

    /// Takes a mark. `false`: there is no room now.
    fn mark(&mut self, mark: Mark) -> bool;

    /// That was all for this turn.
    fn hand_over(&mut self);

    /// The last version that a crash cannot take any more.
    fn durable(&self) -> Version;

    /// So many of the marks that it has taken a crash cannot take any more.
    fn noted(&self) -> u64;

    /// How it is.
    fn condition(&self) -> Condition;
}
