//! One thread that moves words by plain loads and stores, until another one wants to.
//!
//! Owns: who may do so. Never does: hand the right to another thread; once it is shared it stays so.
//!
//! An atomic read-modify-write waits until all earlier stores of its thread have left the
//! processor, and these wait for lines that readers on other cores have just looked at. So a sender
//! that uses them twice for each message waits for its readers twice for each message, though
//! nobody contends for the words. Most senders write from one thread. It owns the bias:
//!
//! ```text
//!   owner                                 another thread, once
//!   inside = true                         owner = nobody's any more
//!   (no fence)                            barrier in all threads
//!   owner is still me? move the words     wait while inside
//!   inside = false                        from here on everybody uses read-modify-writes
//! ```
//! The barrier is the link's: one that makes every thread of the process pass a full fence. After
//! it, either the owner's look finds the bias gone or its `inside` is seen, as in [`crate::park`].
//! The owner is inside for a few instructions. Without such a barrier nobody ever owns the bias.

use alloc::sync::Arc;
use core::fmt;

use crate::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::link::Barrier;

/// A thread of an application, under a number that no other one has or had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread(u64);

impl Thread {
    /// Some thread, of which nothing is known.
    pub const ANY: Thread = Thread(u64::MAX - 1);

    /// The thread of this number.
    pub const fn new(number: u32) -> Thread {
        Thread(number as u64 + 1)
    }
}

/// Nobody has asked yet.
const NOBODY: u64 = 0;
/// The owner is to find out that it owns nothing any more.
const REVOKED: u64 = u64::MAX - 2;
/// Everybody uses read-modify-writes.
const SHARED: u64 = u64::MAX;

/// The right to move words without read-modify-writes.
pub(crate) struct Bias {
    owner: AtomicU64,
    inside: AtomicBool,
    barrier: Option<Arc<dyn Barrier>>,
}

impl Bias {
    /// A right that nobody has; nobody will ever have it without a barrier.
    pub(crate) fn new(barrier: Option<Arc<dyn Barrier>>) -> Bias {
        let owner = if barrier.is_some() { NOBODY } else { SHARED };
        Bias { owner: AtomicU64::new(owner), inside: AtomicBool::new(false), barrier }
    }

    /// Whether this thread may move the words alone, until it [leaves](Bias::leave). If not, it
    /// uses read-modify-writes.
    #[inline(always)]
    pub(super) fn enter(&self, me: Thread) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        if owner != me.0 {
            return owner != SHARED && self.enter_first(owner, me);
        }
        self.enter_as_owner(me)
    }

    /// As [`Bias::enter`], for what may not be entered again by who is inside.
    ///
    /// # Panics
    /// If the owner is inside.
    #[inline(always)]
    pub(crate) fn enter_once(&self, me: Thread) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        if owner != me.0 {
            return owner != SHARED && self.enter_first(owner, me);
        }
        // Its own store: nobody else makes it.
        if self.inside.load(Ordering::Relaxed) {
            entered_again();
        }
        self.enter_as_owner(me)
    }

    #[inline(always)]
    fn enter_as_owner(&self, me: Thread) -> bool {
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
    fn enter_first(&self, owner: u64, me: Thread) -> bool {
        let (yes, no) = (Ordering::AcqRel, Ordering::Relaxed);
        if owner == NOBODY
            && me != Thread::ANY
            && self.owner.compare_exchange(NOBODY, me.0, yes, no).is_ok()
        {
            return self.enter(me);
        }
        self.share();
        false
    }

    /// The words are left as others may find them.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.inside.store(false, Ordering::Release);
    }

    /// If this thread owns the bias, it does so no more: the next thread that enters does. Not while it is inside.
    pub(crate) fn hand_over(&self, me: Thread) {
        let (yes, no) = (Ordering::AcqRel, Ordering::Relaxed);
        if !self.inside.load(Ordering::Relaxed) {
            // Whoever has taken it away meanwhile keeps it.
            let _ = self.owner.compare_exchange(me.0, NOBODY, yes, no);
        }
    }

    /// From here on everybody uses read-modify-writes. Waits while the owner is inside.
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

    /// As [`Bias::share`], for those who cannot wait: `false` if the owner is inside just now.
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

/// The owner's half of the order that the barrier makes. loom knows no such barrier: there both
/// halves are fences.
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
    fn the_first_thread_owns_it_until_another_comes() {
        let bias = bias();
        let (one, two) = (Thread::new(0), Thread::new(7));
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
    fn who_hands_it_over_owns_it_no_more() {
        let bias = bias();
        let (one, two) = (Thread::new(0), Thread::new(7));
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
    fn who_is_inside_does_not_enter_again() {
        let bias = bias();
        assert!(bias.enter_once(Thread::new(0)));
        bias.enter_once(Thread::new(0));
    }

    #[test]
    fn nobody_owns_it_without_a_name_or_without_a_barrier() {
        let bias = bias();
        assert!(!bias.enter(Thread::ANY));
        assert!(!bias.enter(Thread::new(1)));
        assert!(!Bias::new(Option::None).enter(Thread::new(1)));
    }
}
