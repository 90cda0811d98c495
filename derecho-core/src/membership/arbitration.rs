//! Rules that make a decision final: one for groups on a network and one for groups on
//! a single host.
//!
//! Owns: the conditions. Never does: access the host's decision word; the driver does, and
//! reports the answer.

use super::{RankSet, View};
use crate::fault::{Fault, planted};

/// Rule by which a group comes to a final decision; fixed when the group is founded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Arbitration {
    /// Members on several hosts: a decision is final when a primary partition has accepted it.
    Network,
    /// All members on one host: the first ballot in the host's decision word is final. Any
    /// survivors go on.
    Local,
}

/// Verdict of a rule on a decision that some members have accepted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArbitrationVerdict {
    /// Not final yet.
    Wait,
    /// Submit the ballot to the host's decision word.
    Ask,
    /// The decision is final.
    Final,
}

/// Knowledge of one member that the rules need.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailureKnowledge {
    /// Members that this member suspects.
    pub suspects: RankSet,
    /// Suspects that the kernel reports as gone or stopped.
    pub gone: RankSet,
}

impl Arbitration {
    /// Whether a member with these suspicions may publish them: the remaining members could
    /// still decide (I-45). Therefore the reports that a leader waits for come from a
    /// primary partition (I-43).
    pub(super) fn allows(self, view: &View, failures: FailureKnowledge) -> bool {
        let left = view.ranks().without(failures.suspects);
        match self {
            Arbitration::Network if planted(Fault::DeadDoNotCount) => {
                is_share(left, view.ranks().without(failures.gone))
            }
            Arbitration::Network => view.is_primary(left),
            Arbitration::Local => is_share(left, view.ranks().without(failures.gone)),
        }
    }

    /// Verdict on a decision whose next view contains `kept` and that the members in
    /// `accepted` have accepted.
    pub(super) fn judge(
        self,
        view: &View,
        failures: FailureKnowledge,
        kept: RankSet,
        accepted: RankSet,
    ) -> ArbitrationVerdict {
        match self {
            Arbitration::Network if planted(Fault::DeadDoNotCount) => {
                let living = view.ranks().without(failures.gone);
                if is_share(accepted, living) {
                    ArbitrationVerdict::Final
                } else {
                    ArbitrationVerdict::Wait
                }
            }
            Arbitration::Network if view.is_primary(accepted) => ArbitrationVerdict::Final,
            Arbitration::Network => ArbitrationVerdict::Wait,
            Arbitration::Local => {
                let living = view.ranks().without(failures.gone);
                // Every member that goes on can read the decision, even if all others are
                // gone by then.
                let all_have_it = accepted.covers(kept.without(failures.suspects));
                // Members without the decision are dead, or fewer than those that have it. A member
                // that died after it had accepted was alive when it accepted.
                let enough = living.and(kept) == living || is_share(accepted, living.or(accepted));
                if !all_have_it || !enough {
                    return ArbitrationVerdict::Wait;
                }
                if planted(Fault::WithoutKernel) {
                    ArbitrationVerdict::Final
                } else {
                    ArbitrationVerdict::Ask
                }
            }
        }
    }
}

/// Whether `some` are more than half of the living members, or half including the lowest-ranked.
fn is_share(some: RankSet, living: RankSet) -> bool {
    let (some, all) = (some.and(living), living.count());
    2 * some.count() > all
        || (2 * some.count() == all && living.lowest().is_some_and(|lowest| some.has(lowest)))
}
