//! Descriptors that the link keeps for its peers, so that a process that has opened all it may loses none of them.
//!
//! Owns: the spare descriptors. Never does: keep the application from opening files; whoever opens one at the moment at
//! which a spare is lent may get it.
//!
//! ```text
//!   a newcomer calls ── all spares are there ──> one is lent for its socket, one for a look at its process, one for its doorbell
//!                    └─ some are missing ──────> it is refused, with the reason
//!   a peer sends ───── one is lent for what comes with the packet
//!   a peer ends ────── one is lent for a look at its process, and until that process is dead
//! ```

use std::os::fd::OwnedFd;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// Descriptors of a newcomer that calls: its socket.
const OF_CALLER: usize = 1;
/// Descriptors that stay when that is lent: for the newcomer's doorbell, for memory that comes with a packet, for a look at a
/// process, and to refuse the next newcomer with.
const KEPT: usize = 4;

/// The spare descriptors of a link.
#[derive(Default)]
pub(crate) struct Spares(Vec<OwnedFd>);

impl Spares {
    /// Makes up for those that were lent, with copies of this descriptor. Whether all are there.
    pub(crate) fn make_up(&mut self, of: &OwnedFd) -> bool {
        while self.0.len() < OF_CALLER + KEPT {
            match fcntl_dupfd_cloexec(of, 0) {
                Ok(spare) => self.0.push(spare),
                Err(_) => return false,
            }
        }
        true
    }

    /// Lends that of a newcomer that calls.
    pub(crate) fn lend_to_newcomer(&mut self) {
        self.0.truncate(KEPT);
    }

    /// Lends one for as long as something is done, if there is one.
    pub(crate) fn lend_one(&mut self) {
        self.0.pop();
    }

    /// Why a newcomer is refused, for it and for this process.
    pub(crate) fn shortage() -> String {
        let limit = getrlimit(Resource::Nofile).current;
        let limit = limit.map_or("any number".to_owned(), |limit| limit.to_string());
        format!(
            "it has no descriptors left for another peer: it may have {limit} open; raise its limit (ulimit -n), or have it \
             close files"
        )
    }
}
