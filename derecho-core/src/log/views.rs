//! The log of a group's views: what a returning host knows of the members that were there.
//!
//! Owns: a view as a record, and the last view that a log has. Never does: decide which members
//! restart; that is [`restart`](super::restart).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::stream::StreamLog;
use super::{
    Disk, EpochId, KeyHash, LogEntry, LogError, LogId, RecordKind, StreamKey, Version, WallTime,
};
use crate::bytes::{Wire, in_order};
use crate::ids::NodeId;

/// Stream under which views are logged.
pub const VIEWS: StreamKey = StreamKey(0);

/// A member, as its group logs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedMember {
    /// Node of the member.
    pub node: NodeId,
    /// Folder in which the member keeps logs, if it does.
    pub log: Option<LogId>,
    /// Votes of the member in this view.
    pub votes: u16,
    /// Votes of the member from the next view on.
    pub weight: u16,
}

/// A view, as its members log it, in the order of ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedView {
    /// Era of the group that the view belongs to: a group that was founded again numbers its views
    /// from the start.
    pub era: u64,
    /// Number of the view.
    pub number: u64,
    /// Members of the view.
    pub members: Vec<LoggedMember>,
    /// Further logs that must be back for a restart: logs of the previous era that were not back
    /// yet, logs that may not know of the member that logged this view (I-152), and logs with
    /// content that no other log has (I-156).
    pub awaits: Vec<LogId>,
}

in_order! {
    LoggedMember { node, log, votes, weight }
    LoggedView { era, number, members, awaits }
}

impl LoggedView {
    /// Key that orders views: the later view has the greater one.
    pub fn place(&self) -> (u64, u64) {
        (self.era, self.number)
    }

    /// Returns the logs of its members.
    pub fn member_logs(&self) -> impl Iterator<Item = LogId> + '_ {
        self.members.iter().filter_map(|member| member.log)
    }

    /// Returns all logs named in this view.
    pub fn names(&self) -> BTreeSet<LogId> {
        self.member_logs().chain(self.awaits.iter().copied()).collect()
    }

    /// Adds logs that must be back as well.
    pub fn await_more(&mut self, logs: impl IntoIterator<Item = LogId>) {
        let known = self.names();
        self.awaits.extend(logs.into_iter().filter(|log| !known.contains(log)));
    }

    /// Returns the entry for the log of views; `payload` is the encoded view.
    pub fn entry<'a>(&self, payload: &'a [u8], now: WallTime) -> LogEntry<'a> {
        LogEntry {
            kind: RecordKind::View,
            epoch: EpochId { view: self.era, sequence: self.number },
            writer: NodeId(0),
            writer_sequence: self.number,
            source_time: now,
            reception_time: now,
            key: KeyHash::default(),
            payload,
        }
    }

    /// Decodes a record of the log of views. Every record with a matching checksum was written by
    /// this program.
    pub fn of(entry: &LogEntry<'_>) -> Option<LoggedView> {
        (entry.kind == RecordKind::View).then(|| LoggedView::from_bytes(entry.payload)).flatten()
    }
}

/// Returns the last view in a log of views.
///
/// # Errors
/// Any defect of the log, and its location.
pub fn last(log: &StreamLog, disk: &mut impl Disk) -> Result<Option<LoggedView>, LogError> {
    let end = log.durable();
    if end < log.complete_from() {
        return Ok(None);
    }
    let mut last = None;
    let mut cursor = log.after(Version(end.0 - 1))?;
    while let Some(record) = cursor.next(disk, log)? {
        last = LoggedView::of(&record.entry).or(last);
    }
    Ok(last)
}

/// Returns all views in a log of views, in order.
///
/// # Errors
/// The errors of [`last`].
pub fn all(log: &StreamLog, disk: &mut impl Disk) -> Result<Vec<LoggedView>, LogError> {
    let mut views = Vec::new();
    let mut cursor = log.after(Version(log.complete_from().0 - 1))?;
    while let Some(record) = cursor.next(disk, log)? {
        views.extend(LoggedView::of(&record.entry));
    }
    Ok(views)
}
