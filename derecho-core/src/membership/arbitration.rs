//! When a decision is final: the two rules, one for groups on a network and one for those on a host.
//!
//! Owns: the conditions. Never does: ask the kernel; the driver does, and says what it answered.

use super::{RankSet, View};
use crate::fault::{Fault, planted};

/// How a group comes to a final decision; fixed when it is founded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Arbitration {
    /// Members on several hosts: a decision is final when a primary partition has accepted it.
    Network,
    /// All members on one host: the first one whose word the kernel takes. Any survivors go on.
    Local,
}

/// What a rule says of a decision that some have accepted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// Not yet.
    Wait,
    /// The kernel is to be asked whether it is the one.
    Ask,
    /// It is final.
    Final,
}

/// What one member knows, as the rules need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Whom it suspects.
    pub suspects: RankSet,
    /// Those of them of whom the kernel says that they are gone, or stopped.
    pub gone: RankSet,
}

impl Arbitration {
    /// Whether a member that suspects these may say so: those who are left could still decide (I-45). So the reports that a
    /// leader waits for are those of a primary partition (I-43).
    pub(super) fn allows(self, view: &View, known: Known) -> bool {
        let left = view.ranks().without(known.suspects);
        match self {
            Arbitration::Network if planted(Fault::DeadDoNotCount) => {
                is_share(left, view.ranks().without(known.gone))
            }
            Arbitration::Network => view.is_primary(left),
            Arbitration::Local => is_share(left, view.ranks().without(known.gone)),
        }
    }

    /// What follows from a decision that keeps `kept` and that `accepted` have accepted.
    pub(super) fn judge(
        self,
        view: &View,
        known: Known,
        kept: RankSet,
        accepted: RankSet,
    ) -> Verdict {
        match self {
            Arbitration::Network if planted(Fault::DeadDoNotCount) => {
                let living = view.ranks().without(known.gone);
                if is_share(accepted, living) { Verdict::Final } else { Verdict::Wait }
            }
            Arbitration::Network if view.is_primary(accepted) => Verdict::Final,
            Arbitration::Network => Verdict::Wait,
            Arbitration::Local => {
                let living = view.ranks().without(known.gone);
                // Whoever goes on can read what was decided, even if all others are gone by then.
                let all_have_it = accepted.covers(kept.without(known.suspects));
                // Those who do not are dead, or fewer than those who do. Who died after it had accepted was
                // alive when it did.
                let enough = living.and(kept) == living || is_share(accepted, living.or(accepted));
                if !all_have_it || !enough {
                    return Verdict::Wait;
                }
                if planted(Fault::WithoutKernel) { Verdict::Final } else { Verdict::Ask }
            }
        }
    }
}

/// More than half of the living, or half with the lowest-ranked.
fn is_share(some: RankSet, living: RankSet) -> bool {
    let (some, all) = (some.and(living), living.count());
    2 * some.count() > all
        || (2 * some.count() == all && living.lowest().is_some_and(|lowest| some.has(lowest)))
}
