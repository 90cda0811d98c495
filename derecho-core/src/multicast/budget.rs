//! Latency budget: time for which the wake-ups after a commit may be delayed
//! (LATENCY_BUDGET; I-202, I-203).
//!
//! ```text
//!   commit, budget 0        bells ring at once
//!   commit, budget b        bells ring by now + b; the first commit of a batch ensures that a turn
//!                           comes by then
//!   turn                    rings when that time has come, or sooner if the memory is half full, a
//!                           thread waits for acknowledgements, or other members of a subgroup wait
//!                           for the delayed messages
//! ```
//! Owns: the time by which the bells of a memory must ring. Never does: ring a bell, or hide a
//! commit: a node that is awake sees it as usual.

use crate::atomic::{AtomicU64, Ordering};
use crate::ids::Time;

/// No bells are delayed.
const NOTHING: u64 = u64::MAX;
/// Maximum delay of bells, in nanoseconds. One wake-up in that time costs nothing noticeable, and
/// no member is suspected merely because no bell has woken it.
pub const LONGEST: u64 = 50_000_000;

/// Treatment of the bells of a memory in a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BellAction {
    /// Ring for peers that do not know of the entries that this turn takes in.
    AsUsual,
    /// Ring for nobody yet.
    Delayed,
    /// Ring for all peers that may not know of delayed commits.
    Due,
}

/// Time by which the bells of a memory must ring.
pub(super) struct BellDeadline(AtomicU64);

impl BellDeadline {
    pub(super) fn new() -> BellDeadline {
        BellDeadline(AtomicU64::new(NOTHING))
    }

    /// Delays the bells for earlier commits of this thread, by `nanos` nanoseconds at most. Returns
    /// whether these bells are the first delayed ones: if so, a turn must come by that time.
    ///
    /// Always modifies the word: a thread that clears the time afterwards sees the commits before
    /// this call (I-203).
    pub(super) fn put_off(&self, now: Time, nanos: u64) -> bool {
        // Avoids the value that stands for no time.
        let due = now.after(nanos.min(LONGEST)).0.min(NOTHING - 1);
        let sooner = |known: u64| Some(known.min(due));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, sooner) == Ok(NOTHING)
    }

    /// Time by which delayed bells must ring.
    pub(super) fn due(&self) -> Option<Time> {
        let due = self.0.load(Ordering::Relaxed);
        (due != NOTHING).then_some(Time(due))
    }

    /// Ends the delay: the next turn rings.
    pub(super) fn hurry(&self) {
        let now = |known: u64| (known != NOTHING).then_some(0);
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, now);
    }

    /// Treatment of the bells at this time. `at_once`: whether no bell may be delayed any longer.
    #[inline]
    pub(super) fn bells(&self, now: Time, at_once: impl FnOnce() -> bool) -> BellAction {
        match self.due() {
            None => BellAction::AsUsual,
            Some(due) if now < due && !at_once() => BellAction::Delayed,
            Some(_) => {
                self.0.swap(NOTHING, Ordering::AcqRel);
                BellAction::Due
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bells_ring_when_earliest_deadline_is_due() {
        let deadline = BellDeadline::new();
        assert_eq!(deadline.bells(Time(0), || true), BellAction::AsUsual);
        assert!(deadline.put_off(Time(100), 50));
        assert!(!deadline.put_off(Time(120), 50), "a turn comes already");
        assert_eq!(deadline.due(), Some(Time(150)));
        assert_eq!(deadline.bells(Time(149), || false), BellAction::Delayed);
        assert_eq!(deadline.bells(Time(150), || false), BellAction::Due);
        assert_eq!(deadline.bells(Time(150), || false), BellAction::AsUsual);
        assert!(deadline.put_off(Time(160), 100));
        assert!(!deadline.put_off(Time(170), 10), "whoever may wait less long is the one who says");
        assert_eq!(deadline.due(), Some(Time(180)));
        assert_eq!(deadline.bells(Time(161), || true), BellAction::Due);
    }

    #[test]
    fn wait_for_acknowledgements_rings_delayed_bells_at_once() {
        let deadline = BellDeadline::new();
        deadline.hurry();
        assert_eq!(deadline.bells(Time(0), || false), BellAction::AsUsual);
        deadline.put_off(Time(10), u64::MAX);
        assert_eq!(deadline.due(), Some(Time(10 + LONGEST)));
        deadline.hurry();
        assert_eq!(deadline.bells(Time(11), || false), BellAction::Due);
    }
}
