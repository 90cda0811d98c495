//! Descriptors reserved for the link's peers, so that a process that has reached its limit of open
//! files loses no peer.
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
//! ```

use std::os::fd::OwnedFd;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// Descriptors of a new node that calls: its socket.
const OF_CALLER: usize = 1;
/// Descriptors that stay when that one is lent: for the new node's doorbell, for memory that
/// accompanies a packet, for the check of a process, and for refusing the next new node.
const KEPT: usize = 4;

/// Spare descriptors of a link.
#[derive(Default)]
pub(crate) struct ReservedDescriptors(Vec<OwnedFd>);

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
