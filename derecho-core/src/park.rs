//! The two halves of parking: a wake-up is never lost.
//!
//! Owns: the order of the sleeper's and the writer's steps. Never does: sleep or ring; links have
//! the means for that (an eventfd, a completion queue, a socket).
//!
//! Dekker's pattern: each side stores, fences, then loads what the other stores. With both fences
//! sequentially consistent at least one side sees the other, so either the sleeper finds the news
//! or the writer finds the sleeper. With anything weaker both may miss, and the node sleeps on
//! news. loom runs exactly these functions.
//!
//! # The sleeper's barrier in place of the writer's fence
//!
//! A fence waits until the writer's stores have left its store buffer, after every publish, for
//! the sake of a sleep that comes once in a long while. So the rare side may pay for both: a
//! system call with which the sleeper makes every thread of every process that has agreed to it
//! pass a full barrier (on Linux `membarrier`, global and expedited).
//!
//! ```text
//!   sleeper                                  writer
//!   announce(): parked = interest            publish the news
//!   barrier (system call)  - - - p - - ->    before_looking_without_fence()
//!   look once more                           look at parked
//! ```
//! Within the call every thread of a process that has agreed passes a point `p` of its program at
//! which all its memory accesses are in program order, and which lies after the sleeper's store
//! and before its look; a thread that does not run then passes one when the kernel switches it.
//! The writer's store of the news comes before its look at `parked`, so one of two holds:
//!
//! * The store of the news is before `p`. Then it is visible when the call returns, and the
//!   sleeper's look finds it.
//! * The look at `parked` is after `p`. Then it sees the sleeper's store, which was visible when
//!   the call began, and the writer rings.
//!
//! All that this asks of the writer is that the compiler keeps the two in order, and that its
//! process has agreed. All that it asks of the sleeper is that the call succeeds. So a writer
//! leaves its fence out only if its own process has agreed **and** the sleeper has said that it
//! issues the barrier; in every other pair both sides fence. A sleeper with a barrier fences as
//! well, so it serves writers of both kinds at once.
//!
//! A fence that is left out also orders nothing else. Where the set of those whom a writer looks
//! at may change, its load of that set must come after [`before_looking`] or
//! [`before_looking_without_fence`] too: then whoever is put into the set before it announces its
//! next sleep is a sleeper like any other, with the set in place of `parked` in the argument.
//!
//! loom has no such system call, so it checks the pair with two fences only. The pair with the
//! barrier is run by real processes in the tests of the link that uses it.

use crate::atomic::{Ordering, compiler_fence, fence};
use crate::link::Interest;
use crate::memory::Word;

/// The node sleeps; set in both of the following.
const ASLEEP: u64 = 1;
/// It wants to be woken for hints too.
const HINTS: u64 = 2;

/// The sleeper says that it will sleep, and what it wants to be woken for. It must look for that
/// once more after this; if it has said that it issues a barrier, it does so in between.
#[inline]
pub fn announce(parked: &Word, interest: Interest) {
    parked.put(match interest {
        Interest::News => ASLEEP,
        Interest::Hints => ASLEEP | HINTS,
    });
    // Pairs with the fence in `must_ring`.
    fence(Ordering::SeqCst);
}

/// The sleeper is awake.
#[inline]
pub fn retract(parked: &Word) {
    parked.put(0);
}

/// Called by a writer after its news is published: orders the news before the looks that follow.
/// One call serves any number of looks.
#[inline]
pub fn before_looking() {
    // Pairs with the fence in `announce`.
    fence(Ordering::SeqCst);
}

/// The same for looks at sleepers all of whom issue a barrier, in a process that has agreed to be
/// reached by it: nothing but the order of the compiled code.
#[inline]
pub fn before_looking_without_fence() {
    // The processor's part is done by the sleeper's barrier, see the module.
    compiler_fence(Ordering::SeqCst);
}

/// Whether a sleeper whose word was `parked` has to be rung for news. Only meaningful if the word was read after
/// [`before_looking`] or [`before_looking_without_fence`].
#[inline]
pub fn asleep(parked: u64) -> bool {
    parked & ASLEEP != 0
}

/// Whether a sleeper whose word was `parked` has to be rung for a hint. Only meaningful if the word was read after
/// [`before_looking`] or [`before_looking_without_fence`].
#[inline]
pub fn asleep_for_hints(parked: u64) -> bool {
    parked & HINTS != 0
}
