//! How long the bells of what was committed may wait: LATENCY_BUDGET (I-202, I-203).
//!
//! ```text
//!   commit, budget 0        bells ring at once
//!   commit, budget b        bells ring by now + b; the first of a batch sees to it that a turn comes by then
//!   turn                    rings when that time has come, or sooner if the memory is half full, somebody waits for
//!                           acknowledgements, or others of a subgroup wait for what was put off
//! ```
//! Owns: when the bells of a memory have to ring. Never does: ring one, or hide what was committed: whoever is awake
//! sees that as ever.

use crate::atomic::{AtomicU64, Ordering};
use crate::ids::Time;

/// No bells have been put off.
const NOTHING: u64 = u64::MAX;
/// The longest that bells are put off, in nanoseconds: a wake-up in such a time costs nothing any more, and nobody
/// is taken for stopped because nobody has woken it.
pub const LONGEST: u64 = 50_000_000;

/// What a turn is to do about the bells of a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bells {
    /// Those have to know of what the turn takes in who do not know it yet.
    AsEver,
    /// Nobody is to be woken yet.
    PutOff,
    /// All are to be woken who may not know of what was put off.
    Due,
}

/// When the bells of a memory have to ring.
pub(super) struct Budget(AtomicU64);

impl Budget {
    pub(super) fn new() -> Budget {
        Budget(AtomicU64::new(NOTHING))
    }

    /// Puts off the bells of what this thread has committed before, by so many nanoseconds at most. Returns whether they
    /// are the first that are put off: then a turn has to come by that time.
    ///
    /// Always a change: whoever takes the time away afterwards sees what was committed before it (I-203).
    pub(super) fn put_off(&self, now: Time, nanos: u64) -> bool {
        // Not the one that stands for nothing.
        let due = now.after(nanos.min(LONGEST)).0.min(NOTHING - 1);
        let sooner = |known: u64| Some(known.min(due));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, sooner) == Ok(NOTHING)
    }

    /// When bells have to ring that were put off.
    pub(super) fn due(&self) -> Option<Time> {
        let due = self.0.load(Ordering::Relaxed);
        (due != NOTHING).then_some(Time(due))
    }

    /// What was put off waits no more: the next turn rings.
    pub(super) fn hurry(&self) {
        let now = |known: u64| (known != NOTHING).then_some(0);
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, now);
    }

    /// What is to be done at this time; `at_once` if nothing may be put off any more.
    #[inline]
    pub(super) fn bells(&self, now: Time, at_once: impl FnOnce() -> bool) -> Bells {
        match self.due() {
            None => Bells::AsEver,
            Some(due) if now < due && !at_once() => Bells::PutOff,
            Some(_) => {
                self.0.swap(NOTHING, Ordering::AcqRel);
                Bells::Due
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bells_ring_when_the_oldest_is_due() {
        let budget = Budget::new();
        assert_eq!(budget.bells(Time(0), || true), Bells::AsEver);
        assert!(budget.put_off(Time(100), 50));
        assert!(!budget.put_off(Time(120), 50), "a turn comes already");
        assert_eq!(budget.due(), Some(Time(150)));
        assert_eq!(budget.bells(Time(149), || false), Bells::PutOff);
        assert_eq!(budget.bells(Time(150), || false), Bells::Due);
        assert_eq!(budget.bells(Time(150), || false), Bells::AsEver);
        assert!(budget.put_off(Time(160), 100));
        assert!(!budget.put_off(Time(170), 10), "whoever may wait less long is the one who says");
        assert_eq!(budget.due(), Some(Time(180)));
        assert_eq!(budget.bells(Time(161), || true), Bells::Due);
    }

    #[test]
    fn who_waits_for_acknowledgements_waits_for_no_budget() {
        let budget = Budget::new();
        budget.hurry();
        assert_eq!(budget.bells(Time(0), || false), Bells::AsEver);
        budget.put_off(Time(10), u64::MAX);
        assert_eq!(budget.due(), Some(Time(10 + LONGEST)));
        budget.hurry();
        assert_eq!(budget.bells(Time(11), || false), Bells::Due);
    }
}
