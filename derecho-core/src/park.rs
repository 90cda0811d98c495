//! The two halves of parking: a wake-up is never lost.
//!
//! Owns: the order of the sleeper's and the writer's steps. Never does: sleep or ring; links have
//! the means for that (an eventfd, a completion queue, a socket).
//!
//! Dekker's pattern: each side stores, fences, then loads what the other stores. With both fences
//! sequentially consistent at least one side sees the other, so either the sleeper finds the news
//! or the writer finds the sleeper. With anything weaker both may miss, and the node sleeps on
//! news. loom runs exactly these functions.

use crate::atomic::{Ordering, fence};
use crate::link::Interest;
use crate::memory::Word;

/// The node sleeps; set in both of the following.
const ASLEEP: u64 = 1;
/// It wants to be woken for hints too.
const HINTS: u64 = 2;

/// The sleeper says that it will sleep, and what it wants to be woken for. It must look for that
/// once more after this.
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
/// One call serves any number of [`asleep`] looks.
#[inline]
pub fn before_looking() {
    // Pairs with the fence in `announce`.
    fence(Ordering::SeqCst);
}

/// Whether the sleeper has to be rung for news. Only meaningful after [`before_looking`].
#[inline]
pub fn asleep(parked: &Word) -> bool {
    parked.peek() & ASLEEP != 0
}

/// Whether the sleeper has to be rung for a hint. Only meaningful after [`before_looking`].
#[inline]
pub fn asleep_for_hints(parked: &Word) -> bool {
    parked.peek() & HINTS != 0
}
