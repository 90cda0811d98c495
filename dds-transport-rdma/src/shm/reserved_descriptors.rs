//! Descriptors reserved for the link's own steps, so that a process that has reached its limit of
//! open files loses no peer, and joins its group or fails at once.
//!
//! Owns: the spare descriptors. Never does: keep the application from opening files; a thread that
//! opens a file while a spare is lent may get that descriptor.
//!
//! ```text
//!   a new node calls ── all spares there ──> one is lent for its socket, one for the check of its
//!                    │                       process, one for its doorbell
//!                    └─ some missing ──────> it is refused, with the reason
//!   a peer sends ────── one is lent for the descriptor that accompanies the packet
//!   a peer ends ─────── one is lent to check its process, and until that process is dead
//!   the host is asked ─ all are lent; they are given back when this node is a member
//! ```

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

/// Descriptors of a new node that calls: its socket.
const OF_CALLER: usize = 1;
/// Descriptors that stay when that one is lent: for the new node's doorbell, for memory that
/// accompanies a packet, for the check of a process, and for refusing the next new node.
const KEPT: usize = 4;
/// Descriptors of a question to the host: the lock, the group file, the memory with the state of
/// the group, and the check of one node.
const OF_QUESTION: usize = 4;

/// Spare descriptors of one user.
pub(crate) struct ReservedDescriptors {
    spares: Vec<OwnedFd>,
    /// Number of spares when none is lent.
    count: usize,
}

impl ReservedDescriptors {
    fn of(count: usize) -> ReservedDescriptors {
        ReservedDescriptors { spares: Vec::with_capacity(count), count }
    }

    /// Spares for the peers of a link, all of them lent.
    pub(crate) fn for_peers() -> ReservedDescriptors {
        ReservedDescriptors::of(OF_CALLER + KEPT)
    }

    /// Spares for questions to the host, all of them lent.
    pub(crate) fn for_questions() -> ReservedDescriptors {
        ReservedDescriptors::of(OF_QUESTION)
    }

    /// Whether descriptors are lent.
    pub(crate) fn is_short(&self) -> bool {
        self.spares.len() < self.count
    }

    /// Replaces lent descriptors with copies of `of`. Returns the first error.
    pub(crate) fn make_up(&mut self, of: impl AsFd) -> Result<(), Errno> {
        while self.spares.len() < self.count {
            self.spares.push(fcntl_dupfd_cloexec(&of, 0)?);
        }
        Ok(())
    }

    /// Lends the descriptor of a new node that calls.
    pub(crate) fn lend_to_newcomer(&mut self) {
        self.spares.truncate(KEPT);
    }

    /// Lends one descriptor, if there is one, until the next
    /// [`make_up`](ReservedDescriptors::make_up).
    pub(crate) fn lend_one(&mut self) {
        self.spares.pop();
    }

    /// Lends all descriptors until the next [`make_up`](ReservedDescriptors::make_up).
    pub(crate) fn lend_all(&mut self) {
        self.spares.clear();
    }

    /// Gives all descriptors back to the process for good.
    pub(crate) fn give_back(&mut self) {
        self.count = 0;
        self.spares = Vec::new();
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
