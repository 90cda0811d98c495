//! The log of a group's views: what a host that comes back knows of who was there.
//!
//! Owns: a view as a record, and the last one that a log has. Never does: decide who restarts; that is
//! [`restart`](super::restart).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::stream::StreamLog;
use super::{Disk, Entry, EpochId, KeyHash, Kind, LogError, LogId, StreamKey, Version, WallTime};
use crate::bytes::{Wire, in_order};
use crate::ids::NodeId;

/// The stream that views are logged as.
pub const VIEWS: StreamKey = StreamKey(0);

/// A member, as its group logs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedMember {
    /// Who.
    pub node: NodeId,
    /// Where it keeps logs, if it does.
    pub log: Option<LogId>,
    /// What it counts in this view.
    pub votes: u16,
    /// What it counts from the next view on.
    pub weight: u16,
}

/// A view, as its members log it: in the order of ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedView {
    /// Which life of the group it is of: a group that was founded again numbers its views anew.
    pub era: u64,
    /// Its number.
    pub number: u64,
    /// Who is in it.
    pub members: Vec<LoggedMember>,
    /// Logs that have to be back as well: those of the life before that were not back yet, those that may not know
    /// of whoever has logged this (I-152), and those that have what no other log has (I-156).
    pub awaits: Vec<LogId>,
}

in_order! {
    LoggedMember { node, log, votes, weight }
    LoggedView { era, number, members, awaits }
}

impl LoggedView {
    /// Which of two views is the later one.
    pub fn place(&self) -> (u64, u64) {
        (self.era, self.number)
    }

    /// The logs of its members.
    pub fn keepers(&self) -> impl Iterator<Item = LogId> + '_ {
        self.members.iter().filter_map(|member| member.log)
    }

    /// All logs that it names.
    pub fn names(&self) -> BTreeSet<LogId> {
        self.keepers().chain(self.awaits.iter().copied()).collect()
    }

    /// These logs have to be back as well.
    pub fn await_more(&mut self, logs: impl IntoIterator<Item = LogId>) {
        let known = self.names();
        self.awaits.extend(logs.into_iter().filter(|log| !known.contains(log)));
    }

    /// What is put into the log of views; `payload` are its bytes.
    pub fn entry<'a>(&self, payload: &'a [u8], now: WallTime) -> Entry<'a> {
        Entry {
            kind: Kind::View,
            epoch: EpochId { view: self.era, sequence: self.number },
            writer: NodeId(0),
            writer_sequence: self.number,
            source_time: now,
            reception_time: now,
            key: KeyHash::default(),
            payload,
        }
    }

    /// What a record of the log of views says. Whatever has a right sum was written by this program.
    pub fn of(entry: &Entry<'_>) -> Option<LoggedView> {
        (entry.kind == Kind::View).then(|| LoggedView::from_bytes(entry.payload)).flatten()
    }
}

/// The last view in a log of views.
///
/// # Errors
/// What is wrong with the log, and where.
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

/// All views in a log of views, in order.
///
/// # Errors
/// As of [`last`].
pub fn all(log: &StreamLog, disk: &mut impl Disk) -> Result<Vec<LoggedView>, LogError> {
    let mut views = Vec::new();
    let mut cursor = log.after(Version(log.complete_from().0 - 1))?;
    while let Some(record) = cursor.next(disk, log)? {
        views.extend(LoggedView::of(&record.entry));
    }
    Ok(views)
}
