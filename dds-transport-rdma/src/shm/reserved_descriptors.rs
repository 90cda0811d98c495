//! Descriptors for the link and its peers: enough of them must be free when a node joins, and a few
//! are reserved, so that a process that reaches its limit of open files later loses no peer.
//!
//! Owns: the spare descriptors. Never does: keep the application from opening files; a thread that
//! opens a file while a spare is lent may get that descriptor.
//!
//! A node that could not meet a whole group does not join. A process with a low limit therefore
//! refuses no other process; only one whose application opens files after the join may.
//!
//! ```text
//!   this node joins ─── all free ────────────> it joins
//!                    └─ some missing ──────> its join fails, with the numbers
//!   a new node calls ── all spares there ──> one is lent for its socket, one for the check of its
//!                    │                       process, one for its doorbell
//!                    └─ some missing ──────> it is refused, with the reason
//!   a peer sends ────── one is lent for the descriptor that accompanies the packet
//!   a peer ends ─────── one is lent to check its process, and until that process is dead
//! ```

use std::fs;
use std::os::fd::OwnedFd;

use derecho_core::membership::RankSet;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

use super::error::JoinError;

/// Descriptors of a peer that is connected: its socket and its doorbell.
const OF_PEER: usize = 2;
/// Descriptors of a node without peers: its sockets, folders, memory and bells, and the spares.
const OF_NODE: usize = 34;
/// Number of free descriptors with which a node can join and meet a whole group.
const OF_GROUP: usize = OF_NODE + OF_PEER * (RankSet::MOST - 1);
/// Descriptors of a new node that calls: its socket.
const OF_CALLER: usize = 1;
/// Descriptors that stay when that one is lent: for the new node's doorbell, for memory that
/// accompanies a packet, for the check of a process, and for refusing the next new node.
const KEPT: usize = 4;

/// Spare descriptors of a link.
#[derive(Default)]
pub(crate) struct ReservedDescriptors(Vec<OwnedFd>);

/// Checks that this process can open the files of a node and of all peers that a group can have.
/// Opens none of them, so that no other thread fails for lack of a descriptor meanwhile. Where the
/// open files cannot be counted (no `/proc`), only the later steps of the join fail.
///
/// # Errors
/// [`JoinError::Descriptors`]: too few are free.
pub(crate) fn check_free_descriptors() -> Result<(), JoinError> {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    let open = match fs::read_dir("/proc/self/fd") {
        Ok(files) => files.count() - 1,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => limit as usize,
        Err(_) => return Ok(()),
    };
    match (limit as usize).saturating_sub(open) {
        free if free < OF_GROUP => Err(JoinError::Descriptors { free, needed: OF_GROUP, limit }),
        _ => Ok(()),
    }
}

impl ReservedDescriptors {
    /// Replaces lent descriptors with copies of `of`. Returns whether all spares are there.
    pub(crate) fn make_up(&mut self, of: &OwnedFd) -> bool {
        while self.0.len() < OF_CALLER + KEPT {
            match fcntl_dupfd_cloexec(of, 0) {
                Ok(spare) => self.0.push(spare),
                Err(_) => return false,
            }
        }
        true
    }

    /// Lends the descriptor of a new node that calls.
    pub(crate) fn lend_to_newcomer(&mut self) {
        self.0.truncate(KEPT);
    }

    /// Lends one descriptor, if there is one, until the next
    /// [`make_up`](ReservedDescriptors::make_up).
    pub(crate) fn lend_one(&mut self) {
        self.0.pop();
    }

    /// Text of the refusal of a new node, for that node and for this process.
    pub(crate) fn shortage() -> String {
        let limit = getrlimit(Resource::Nofile).current;
        let limit = limit.map_or("any number".to_owned(), |limit| limit.to_string());
        format!(
            "the refusing process has no descriptors left for another peer: it may have {limit} \
             open; raise its limit (ulimit -n), or have it close files"
        )
    }
}
