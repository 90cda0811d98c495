//! The log of a group's views: what a host that comes back knows of who was there.
//!
//! Owns: a view as a record, in a log like a stream's. Never does: decide who restarts; that is
//! [`restart`](super::restart).

use alloc::vec::Vec;

use super::record::Entry;
use super::stream::{Limits, StreamLog};
use super::{
    Check, Disk, EpochId, KeyHash, Kind, LogError, LogId, Owner, Recovery, StreamKey, Version,
    WallTime,
};
use crate::bytes::{Reader, Wire, in_order};
use crate::ids::NodeId;

/// The stream that views are logged as.
pub const VIEWS: StreamKey = StreamKey(0);
/// Views are small and seldom; so many bytes of them are in a file.
const FILE_BYTES: u64 = 1 << 20;

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
    /// Its number.
    pub number: u64,
    /// Who is in it.
    pub members: Vec<LoggedMember>,
}

in_order! {
    LoggedMember { node, log, votes, weight }
    LoggedView { number, members }
}

/// The views that a log folder has seen.
pub struct ViewLog {
    log: StreamLog,
    /// The last one that was appended.
    last: u64,
}

impl ViewLog {
    /// Opens the folder's log of views, or begins it.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn open(disk: &mut impl Disk, owner: Owner) -> Result<(ViewLog, Recovery), LogError> {
        let limits = Limits { segment_bytes: FILE_BYTES };
        let (log, recovery) = StreamLog::open(disk, (owner, VIEWS), limits, Check::All)?;
        let last = log.tail().epoch.view;
        Ok((ViewLog { log, last }, recovery))
    }

    /// Logs a view; when this answers it is durable, and the member may show that it has installed it. One that
    /// was logged before, or for which there was no room, may be logged again.
    ///
    /// # Errors
    /// As of [`StreamLog::commit`].
    pub fn log(
        &mut self,
        disk: &mut impl Disk,
        view: &LoggedView,
        now: WallTime,
    ) -> Result<(), LogError> {
        let payload = view.to_bytes();
        if view.number > self.last {
            let entry = Entry {
                kind: Kind::View,
                epoch: EpochId { view: view.number, sequence: 0 },
                writer: NodeId(0),
                writer_sequence: view.number,
                source_time: now,
                reception_time: now,
                key: KeyHash::default(),
                payload: &payload,
            };
            self.log.append(entry, disk)?;
            self.last = view.number;
        }
        self.log.commit(disk).map(|_| ())
    }

    /// All views that were logged, in order.
    ///
    /// # Errors
    /// What is wrong with the log, and where.
    pub fn views(&self, disk: &mut impl Disk) -> Result<Vec<LoggedView>, LogError> {
        let mut views = Vec::new();
        let mut cursor = self.log.after(Version(self.log.complete_from().0 - 1))?;
        while let Some(record) = cursor.next(disk, &self.log)? {
            // Whatever has a right sum was written by this program.
            views.extend(LoggedView::decode(&mut Reader::new(record.entry.payload)));
        }
        Ok(views)
    }
}
