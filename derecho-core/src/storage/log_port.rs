//! Port to a log, as a member's turn sees it.
//!
//! Owns: the requests to a log, and its answers. Never does: wait; a slow operation is a
//! [`LogTask`], done elsewhere and answered later.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::checkpoint_state::CheckpointState;
use super::log_election::LogClaim;
use super::log_tasks::LogContent;
use super::store::{RecordFormat, Store, StoreRetention};
use crate::group::log_register::LogRegistration;
use crate::group::report::StreamId;
use crate::log::{EpochMark, LogEntry, LogError, LogId, OwnedRecord, StreamKey, Tail, Version};

/// Slow operation on a log.
#[derive(Debug)]
pub enum LogTask {
    /// Examine the logs of this stream, here and in the folders in reach. `true` means that no
    /// member has the store: then also copy into the log what is in folders that no process uses.
    Claim(bool),
    /// Build a store from the log, up to the first message of each stream that has at least the
    /// given number.
    Load(StoreRetention, RecordFormat, BTreeMap<StreamId, u64>),
    /// Read the log's state and messages, up to the first message of each stream that has at least
    /// the given number.
    Read(BTreeMap<StreamId, u64>),
    /// Copy from these logs what this log lacks, up to and including a version. The subgroup began
    /// in the given era, at the given end of a log.
    Complete(Vec<LogId>, Version, (Tail, u64)),
    /// Replace the whole log by this state. The subgroup began as given, at the end of a log in an
    /// era. Content of the log that is no part of the subgroup's history is put aside (I-93).
    Replace(CheckpointState, (Tail, u64)),
    /// The log must end with this version: replace all messages up to and including it by this
    /// state.
    Checkpoint(Version, Box<OwnedRecord>),
    /// For the log of views: find the last view, here and in the folders in reach, and the other
    /// streams that have logs here.
    Register,
}

/// Answer to a [`LogTask`].
pub enum LogTaskResult {
    /// Answer to [`LogTask::Claim`].
    Claimed(Box<LogClaim>),
    /// Answer to [`LogTask::Load`].
    Loaded(Box<Store>),
    /// Answer to [`LogTask::Read`].
    Content(Box<LogContent>),
    /// Answer to [`LogTask::Register`].
    Registered(Box<LogRegistration>, Vec<StreamKey>),
    /// Answer to [`LogTask::Complete`]: the log ends with this version, which is the requested one
    /// or, in the era that goes on, a later one.
    Completed(Version),
    /// The other logs do not reach so far, or cannot be read at this moment; or a checkpoint cannot
    /// be made now.
    NotYet,
    /// No log in reach has the missing messages.
    OutOfReach,
    /// Answer to [`LogTask::Replace`] and [`LogTask::Checkpoint`].
    Replaced,
    /// The task failed.
    Failed(LogError),
}

/// Condition of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogPortCondition {
    /// The log accepts records.
    Open,
    /// The log's disk is full, and the log waits for space.
    Full,
    /// The log is damaged: it cannot be opened, for this reason, and may have messages that no
    /// other log has (I-98).
    Damaged(Option<LogError>),
    /// The log's disk was full, and the log accepts nothing more.
    Detached,
    /// The log has failed, and nothing more becomes durable (I-82).
    Failed(Option<LogError>),
}

impl LogPortCondition {
    /// Returns a readable reason for the condition of a log.
    pub fn reason(error: Option<LogError>, otherwise: &str) -> String {
        error.map_or_else(|| otherwise.to_string(), |error| error.to_string())
    }

    /// Whether the log permanently accepts nothing more.
    pub fn is_over(&self) -> bool {
        matches!(self, LogPortCondition::Detached | LogPortCondition::Failed(_))
    }
}

/// Log of one stream.
pub trait LogPort: Send {
    /// Identity of the log.
    fn log(&self) -> LogId;

    /// Begins a log task, ordered after all records put before and before all records put later.
    /// The previous task must have been answered. `false`: not possible now.
    fn ask(&mut self, task: &mut Option<LogTask>) -> bool;

    /// Returns the answer to the task, once it is available.
    fn answer(&mut self) -> Option<LogTaskResult>;

    /// Copies a message into the log. `false`: no space now.
    fn put(&mut self, entry: LogEntry<'_>) -> bool;

    /// Puts a mark into the log. `false`: no space now.
    fn mark(&mut self, mark: EpochMark) -> bool;

    /// Ends the records of this turn.
    fn hand_over(&mut self);

    /// Last version that no crash can remove.
    fn durable(&self) -> Version;

    /// Number of marks put so far that no crash can remove.
    fn noted(&self) -> u64;

    /// Condition of the log.
    fn condition(&self) -> LogPortCondition;
}
