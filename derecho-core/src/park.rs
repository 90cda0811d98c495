//! The two halves of parking, which never lose a wake-up (I-13).
//!
//! Owns: the order of the sleeper's and the writer's steps. Never does: sleep or ring; links have
//! the means for that (an eventfd, a completion queue, a socket).
//!
//! This is Dekker's pattern: each side stores, fences, then loads what the other side stores. With
//! both fences sequentially consistent, at least one side sees the other: either the sleeper finds
//! the news, or the writer finds the sleeper. With anything weaker, both may miss, and the node
//! sleeps although there is news. loom runs exactly these functions.
//!
//! # The sleeper's barrier in place of the writer's fence
//!
//! A fence waits until the writer's stores have left its store buffer. The writer would pay for it
//! after every publish, although a sleep is rare. So the sleeper may pay for both sides with a
//! system call that makes every thread of every process that has registered for it pass a full
//! barrier (on Linux `membarrier`, global and expedited).
//!
//! ```text
//!   sleeper                                  writer
//!   announce(): parked = interest            publish the news
//!   barrier (system call)  - - - p - - ->    before_looking_without_fence()
//!   look once more                           look at parked
//! ```
//! During the call, every thread of a registered process passes a point `p` of its program at which
//! all its memory accesses are in program order. The point lies after the sleeper's store and
//! before its look. A thread that is not running passes such a point when the kernel switches to
//! it. The writer's store of the news comes before its look at `parked`, so one of two cases holds:
//!
//! * The store of the news is before `p`. Then it is visible when the call returns, and the
//!   sleeper's look finds it.
//! * The look at `parked` is after `p`. Then it sees the sleeper's store, which was visible when
//!   the call began, and the writer rings.
//!
//! The writer only needs the compiler to keep its store and its look in order, and its process to
//! be registered. The sleeper only needs the call to succeed. So a writer omits its fence only if
//! its own process is registered **and** the sleeper has said that it issues the barrier; in every
//! other pair, both sides fence. A sleeper with a barrier also fences, so it serves writers of both
//! kinds at once.
//!
//! An omitted fence also orders nothing else. If the set of sleepers that a writer looks at may
//! change, its load of that set must also come after [`before_looking`] or
//! [`before_looking_without_fence`]. A node that is put into the set before it announces its next
//! sleep is then a sleeper like any other, with the set in place of `parked` in the argument.
//!
//! loom has no such system call, so it checks only the pair with two fences. Real processes check
//! the pair with the barrier in the tests of the link that uses it.

use crate::atomic::{Ordering, compiler_fence, fence};
use crate::link::Interest;
use crate::memory::AtomicWord;

/// The node sleeps; set for both kinds of interest.
const ASLEEP: u64 = 1;
/// The node also wants to be woken for hints.
const HINTS: u64 = 2;

/// Announces that the sleeper will sleep, and what should wake it. The sleeper must look for that
/// once more afterwards. If it has said that it issues a barrier, it does so in between.
#[inline]
pub fn announce(parked: &AtomicWord, interest: Interest) {
    parked.put(match interest {
        Interest::News => ASLEEP,
        Interest::Hints => ASLEEP | HINTS,
    });
    // Pairs with the fence in `before_looking`.
    fence(Ordering::SeqCst);
}

/// Announces that the sleeper is awake.
#[inline]
pub fn retract(parked: &AtomicWord) {
    parked.put(0);
}

/// Orders a writer's published news before its looks at sleepers that follow. One call serves any
/// number of looks.
#[inline]
pub fn before_looking() {
    // Pairs with the fence in `announce`.
    fence(Ordering::SeqCst);
}

/// As [`before_looking`], for sleepers that all issue a barrier, in a process that is registered
/// for it: orders only the compiled code.
#[inline]
pub fn before_looking_without_fence() {
    // The sleeper's barrier orders the processor's accesses, see the module.
    compiler_fence(Ordering::SeqCst);
}

/// Whether a sleeper whose word was `parked` must be rung for news. Only meaningful if the word was
/// read after [`before_looking`] or [`before_looking_without_fence`].
#[inline]
pub fn asleep(parked: u64) -> bool {
    parked & ASLEEP != 0
}

/// Whether a sleeper whose word was `parked` must be rung for a hint. Only meaningful if the word
/// was read after [`before_looking`] or [`before_looking_without_fence`].
#[inline]
pub fn asleep_for_hints(parked: u64) -> bool {
    parked & HINTS != 0
}
