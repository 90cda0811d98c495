//! Barriers that a sleeper issues for everybody, in place of the writers' fences.
//!
//! Owns: the two system calls, and the word of a node's header that says what it does. Never does:
//! decide who fences; the argument is [`derecho_core::park`]'s.

use std::sync::Arc;
use std::time::Duration;

use derecho_core::link::Barrier;
use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};

/// What a node says about its sleeper and its writers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Barriers {
    /// Each of its sleeps comes after a barrier, so nobody needs to fence for its sake.
    pub(crate) before_sleep: bool,
    /// Its process has agreed to be reached by the barriers of others, so its threads need not
    /// fence for the sake of those who issue them.
    pub(crate) agreed: bool,
}

/// How long others may run who are waited for.
const PAUSE: Duration = Duration::from_micros(20);
/// How long a barrier takes that the system refuses.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

const BEFORE_SLEEP: u64 = 1;
const AGREED: u64 = 2;

impl Barriers {
    /// Finds out what the system allows, of what is wanted.
    ///
    /// Sandboxes and old kernels refuse; then the node fences, and others fence for it.
    pub(crate) fn prepare(before_sleep: bool, agree: bool) -> Barriers {
        let register = MembarrierCommand::RegisterGlobalExpedited;
        Barriers {
            before_sleep: before_sleep && issue().is_ok(),
            agreed: agree && membarrier(register).is_ok(),
        }
    }

    /// As a header carries it. A header of a release that knew no barriers carries zero.
    pub(crate) fn to_word(self) -> u64 {
        let bit = |set: bool, bit| if set { bit } else { 0 };
        bit(self.before_sleep, BEFORE_SLEEP) | bit(self.agreed, AGREED)
    }

    /// What a peer says. One that lies misses its own wake-ups and nobody else's.
    pub(crate) fn from_word(word: u64) -> Barriers {
        Barriers { before_sleep: word & BEFORE_SLEEP != 0, agreed: word & AGREED != 0 }
    }
}

/// Lets every thread of every process that has agreed pass a full barrier before this returns.
pub(crate) fn issue() -> Result<(), Errno> {
    membarrier(MembarrierCommand::GlobalExpedited)
}

/// The barrier of [`Link::barrier`](derecho_core::link::Link::barrier).
struct ProcessBarrier;

impl Barrier for ProcessBarrier {
    fn issue(&self) {
        if let Err(errno) = issue() {
            // It was allowed when this node joined. Stores leave a processor within microseconds,
            // so after this pause nothing is under way that was before it.
            tracing::warn!(%errno, "membarrier is refused since the join; waiting instead");
            std::thread::sleep(REFUSED_PAUSE);
        }
    }

    fn pause(&self) {
        // A sleep: a yield would not let a thread of a lower priority run.
        std::thread::sleep(PAUSE);
    }
}

/// The barrier, if this process has agreed to be reached by it.
pub(crate) fn own(barriers: Barriers) -> Option<Arc<dyn Barrier>> {
    (barriers.agreed && barriers.before_sleep).then(|| Arc::new(ProcessBarrier) as Arc<dyn Barrier>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_is_what_others_read() {
        for word in 0..4 {
            assert_eq!(Barriers::from_word(word).to_word(), word);
        }
        let nothing = Barriers { before_sleep: false, agreed: false };
        assert_eq!(Barriers::prepare(false, false), nothing);
        assert_eq!(Barriers::from_word(0), nothing);
    }
}
