//! Biased access: one thread moves words by plain loads and stores, until another
//! thread needs them (I-25).
//!
//! Owns: the right to do so. Never does: transfer the right from a thread to another one on demand;
//! once the words are shared, they stay shared.
//!
//! An atomic read-modify-write waits until all earlier stores of its thread have left the
//! processor. These stores wait for lines that readers on other cores have just read. A sender with
//! two such operations for each message therefore waits for its readers twice for each message,
//! even without contention for the words. Most senders write from one thread, which owns the bias:
//!
//! ```text
//!   owner                                 another thread, once
//!   inside = true                         owner = REVOKED
//!   (no fence)                            barrier in all threads
//!   owner is still me? move the words     wait while inside
//!   inside = false                        from here on all threads use read-modify-writes
//! ```
//! The barrier belongs to the link and makes every thread of the process pass a full fence. After
//! the barrier, either the owner's load finds the bias gone, or the owner's `inside` is visible, as
//! in [`crate::park`]. The owner is inside for a few instructions. Without such a barrier no thread
//! ever owns the bias.

use alloc::sync::Arc;
use core::fmt;

use crate::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::link::Barrier;

/// Application thread, identified by a number that no other thread has or had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadToken(u64);

impl ThreadToken {
    /// Unidentified thread.
    pub const ANY: ThreadToken = ThreadToken(u64::MAX - 1);

    /// Returns the thread with this number.
    pub const fn new(number: u32) -> ThreadToken {
        ThreadToken(number as u64 + 1)
    }
}

/// No thread has asked yet.
const NOBODY: u64 = 0;
/// The owner has lost the bias and must find this out.
const REVOKED: u64 = u64::MAX - 2;
/// All threads use read-modify-writes.
const SHARED: u64 = u64::MAX;

/// Right to move words without read-modify-writes.
pub(crate) struct Bias {
    owner: AtomicU64,
    inside: AtomicBool,
    barrier: Option<Arc<dyn Barrier>>,
}

impl Bias {
    /// Creates a right without an owner. Without a barrier there is never an owner.
    pub(crate) fn new(barrier: Option<Arc<dyn Barrier>>) -> Bias {
        let owner = if barrier.is_some() { NOBODY } else { SHARED };
        Bias { owner: AtomicU64::new(owner), inside: AtomicBool::new(false), barrier }
    }

    /// Whether this thread may move the words alone, until it [leaves](Bias::leave). Otherwise the
    /// thread uses read-modify-writes.
    #[inline(always)]
    pub(super) fn enter(&self, me: ThreadToken) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        if owner != me.0 {
            return owner != SHARED && self.enter_first(owner, me);
        }
        self.enter_as_owner(me)
    }

    /// Enters as [`Bias::enter`] does, but not recursively.
    ///
    /// # Panics
    /// If the owner is already inside.
    #[inline(always)]
    pub(crate) fn enter_once(&self, me: ThreadToken) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        if owner != me.0 {
            return owner != SHARED && self.enter_first(owner, me);
        }
        // Only the owner stores this flag.
        if self.inside.load(Ordering::Relaxed) {
            entered_again();
        }
        self.enter_as_owner(me)
    }

    #[inline(always)]
    fn enter_as_owner(&self, me: ThreadToken) -> bool {
        self.inside.store(true, Ordering::Relaxed);
        without_fence();
        if self.owner.load(Ordering::Relaxed) == me.0 {
            return true;
        }
        self.leave();
        self.share();
        false
    }

    #[cold]
    fn enter_first(&self, owner: u64, me: ThreadToken) -> bool {
        let (yes, no) = (Ordering::AcqRel, Ordering::Relaxed);
        if owner == NOBODY
            && me != ThreadToken::ANY
            && self.owner.compare_exchange(NOBODY, me.0, yes, no).is_ok()
        {
            return self.enter(me);
        }
        self.share();
        false
    }

    /// Ends exclusive access: other threads may use the words in their present state.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.inside.store(false, Ordering::Release);
    }

    /// Gives the bias up if this thread owns it: the next thread that enters owns it. Does nothing
    /// while the owner is inside.
    pub(crate) fn hand_over(&self, me: ThreadToken) {
        let (yes, no) = (Ordering::AcqRel, Ordering::Relaxed);
        if !self.inside.load(Ordering::Relaxed) {
            // A thread that has revoked the bias meanwhile is not overwritten.
            let _ = self.owner.compare_exchange(me.0, NOBODY, yes, no);
        }
    }

    /// Makes all threads use read-modify-writes from here on. Waits while the owner is inside.
    #[cold]
    fn share(&self) {
        while !self.try_share() {
            if let Some(barrier) = &self.barrier {
                barrier.pause();
            }
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }

    /// Does the same as [`Bias::share`] without waiting: `false` if the owner is inside
    /// at the moment.
    #[inline]
    pub(super) fn try_share(&self) -> bool {
        self.owner.load(Ordering::Acquire) == SHARED || self.revoke()
    }

    #[cold]
    fn revoke(&self) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
        if owner == SHARED {
            return true;
        }
        if owner != REVOKED && self.owner.compare_exchange(owner, REVOKED, yes, no).is_err() {
            return false;
        }
        if let Some(barrier) = &self.barrier {
            barrier.issue();
        }
        if self.inside.load(Ordering::Acquire) {
            return false;
        }
        self.owner.store(SHARED, Ordering::Release);
        true
    }
}

#[cold]
fn entered_again() -> ! {
    panic!("a thread takes a lock that it holds")
}

impl fmt::Debug for Bias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner.load(Ordering::Relaxed) {
            NOBODY => f.write_str("Bias(nobody)"),
            REVOKED | SHARED => f.write_str("Bias(shared)"),
            owner => write!(f, "Bias(thread {})", owner - 1),
        }
    }
}

/// Orders the owner's store before its load, together with the barrier in other threads. loom has
/// no such barrier: there, both halves are fences.
#[inline]
pub(super) fn without_fence() {
    #[cfg(not(loom))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    crate::atomic::fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct None;
    impl Barrier for None {
        fn issue(&self) {}
    }

    fn bias() -> Bias {
        Bias::new(Some(Arc::new(None)))
    }

    #[test]
    fn first_thread_owns_bias_until_second_thread_enters() {
        let bias = bias();
        let (one, two) = (ThreadToken::new(0), ThreadToken::new(7));
        for _ in 0..3 {
            assert!(bias.enter(one));
            bias.leave();
        }
        assert!(bias.enter(one));
        assert!(!bias.try_share(), "it is inside");
        bias.leave();
        assert!(!bias.enter(two));
        assert!(!bias.enter(one), "it is nobody's any more");
        assert!(bias.try_share());
    }

    #[test]
    fn thread_no_longer_owns_bias_after_hand_over() {
        let bias = bias();
        let (one, two) = (ThreadToken::new(0), ThreadToken::new(7));
        assert!(bias.enter_once(one));
        bias.hand_over(one);
        assert!(!bias.try_share(), "who is inside hands nothing over");
        let bias = self::bias();
        assert!(bias.enter_once(one));
        bias.leave();
        bias.hand_over(two);
        assert!(bias.enter_once(one), "it was not the other one's");
        bias.leave();
        bias.hand_over(one);
        assert!(bias.enter_once(two));
        bias.leave();
        assert!(!bias.enter_once(one));
        bias.hand_over(two);
        assert!(!bias.enter_once(two), "it is everybody's");
    }

    #[test]
    #[should_panic = "a lock that it holds"]
    fn thread_inside_bias_cannot_enter_again() {
        let bias = bias();
        assert!(bias.enter_once(ThreadToken::new(0)));
        bias.enter_once(ThreadToken::new(0));
    }

    #[test]
    fn no_thread_owns_bias_without_identity_or_barrier() {
        let bias = bias();
        assert!(!bias.enter(ThreadToken::ANY));
        assert!(!bias.enter(ThreadToken::new(1)));
        assert!(!Bias::new(Option::None).enter(ThreadToken::new(1)));
    }
}
