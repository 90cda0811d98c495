//! Barriers that a sleeper issues for all threads, in place of the writers' fences.
//!
//! Owns: the two system calls, and the word of a node's header that announces their use. Never
//! does: decide which thread fences; [`derecho_core::park`] gives the argument.

use std::sync::Arc;
use std::time::Duration;

use derecho_core::link::Barrier;
use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};

/// A node's declaration about its sleeper and its writers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Barriers {
    /// Each of the node's sleeps follows a barrier, so no thread needs to fence for this node.
    pub(crate) before_sleep: bool,
    /// The node's process has registered to be reached by the barriers of other processes, so its
    /// threads need not fence for nodes that issue barriers.
    pub(crate) agreed: bool,
}

/// Pause in which awaited threads may run.
const PAUSE: Duration = Duration::from_micros(20);
/// Pause that replaces a barrier that the system refuses.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

const BEFORE_SLEEP: u64 = 1;
const AGREED: u64 = 2;

impl Barriers {
    /// Determines which of the wanted barriers the system allows.
    ///
    /// Sandboxes and old kernels refuse; then the node fences, and other nodes fence for it.
    pub(crate) fn prepare(before_sleep: bool, agree: bool) -> Barriers {
        let register = MembarrierCommand::RegisterGlobalExpedited;
        Barriers {
            before_sleep: before_sleep && issue().is_ok(),
            agreed: agree && membarrier(register).is_ok(),
        }
    }

    /// Encodes the declaration for a header. Releases without barriers have zero in this word.
    pub(crate) fn to_word(self) -> u64 {
        let bit = |set: bool, bit| if set { bit } else { 0 };
        bit(self.before_sleep, BEFORE_SLEEP) | bit(self.agreed, AGREED)
    }

    /// Decodes a peer's declaration. A peer that declares falsely misses its own wake-ups and
    /// nobody else's.
    pub(crate) fn from_word(word: u64) -> Barriers {
        Barriers { before_sleep: word & BEFORE_SLEEP != 0, agreed: word & AGREED != 0 }
    }
}

/// Makes every thread of every registered process pass a full barrier before this function returns.
pub(crate) fn issue() -> Result<(), Errno> {
    membarrier(MembarrierCommand::GlobalExpedited)
}

/// Barrier of [`Link::barrier`](derecho_core::link::Link::barrier).
struct ProcessBarrier;

impl Barrier for ProcessBarrier {
    fn issue(&self) {
        if let Err(errno) = issue() {
            // The barrier was allowed when this node joined. Stores leave a processor within
            // microseconds, so after this pause no store from before it is under way.
            tracing::warn!(%errno, "membarrier refused since the join; this node waits instead");
            std::thread::sleep(REFUSED_PAUSE);
        }
    }

    fn pause(&self) {
        // A sleep: a yield would not let a thread of a lower priority run.
        std::thread::sleep(PAUSE);
    }
}

/// Returns the barrier, if this process has registered to be reached by it.
pub(crate) fn own(barriers: Barriers) -> Option<Arc<dyn Barrier>> {
    (barriers.agreed && barriers.before_sleep).then(|| Arc::new(ProcessBarrier) as Arc<dyn Barrier>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barrier_declaration_round_trips_through_header_word() {
        for word in 0..4 {
            assert_eq!(Barriers::from_word(word).to_word(), word);
        }
        let nothing = Barriers { before_sleep: false, agreed: false };
        assert_eq!(Barriers::prepare(false, false), nothing);
        assert_eq!(Barriers::from_word(0), nothing);
    }
}
