//! Lives aimed at view changes: one change follows the other, and a fault waits at a step of each.
//!
//! Owns: the moments for which faults wait, so that rare ones are met as often as others. Never
//! does: cause a fault; the fault injector does.

use derecho_sim::NodeIndex;

use crate::fault_injector::FaultMoment;
use crate::faults::Fault;
use crate::member::LifeMember;
use crate::report::ViewChangeStep;
use crate::world::World;

/// Moments to draw from: each step, of any node or of the leader; rarer moments appear more often.
const MOMENTS: [FaultMoment; 20] = [
    of_anybody(ViewChangeStep::Wedged),
    of_anybody(ViewChangeStep::Reported),
    of_anybody(ViewChangeStep::Proposed),
    of_anybody(ViewChangeStep::Proposed),
    of_anybody(ViewChangeStep::Accepted),
    of_anybody(ViewChangeStep::Accepted),
    of_anybody(ViewChangeStep::Accepted),
    of_anybody(ViewChangeStep::Decided),
    of_anybody(ViewChangeStep::Installed),
    of_leader(ViewChangeStep::Wedged),
    of_leader(ViewChangeStep::Wedged),
    of_leader(ViewChangeStep::Reported),
    of_leader(ViewChangeStep::Decided),
    of_leader(ViewChangeStep::Decided),
    of_leader(ViewChangeStep::Installed),
    of_leader(ViewChangeStep::Installed),
    // A leader that has accepted another leader's proposal is that one's successor.
    FaultMoment::Succession,
    FaultMoment::Succession,
    FaultMoment::Succession,
    FaultMoment::Walk,
];

const fn of_anybody(step: ViewChangeStep) -> FaultMoment {
    FaultMoment::Step { step, leader: false }
}

const fn of_leader(step: ViewChangeStep) -> FaultMoment {
    FaultMoment::Step { step, leader: true }
}

impl World {
    /// Runs a part of a life that is aimed at view changes.
    pub(crate) fn aimed_round(&mut self, nodes: usize) {
        self.injector.aimed = true;
        self.random_change();
        self.random_come_and_go(nodes);
        if !self.injector.lies_in_wait() {
            self.aim();
            self.disturb(nodes);
        } else if self.random.one_in(3) {
            self.disturb(nodes);
        }
        self.write_for(2);
        let mut checker = self.checker.borrow_mut();
        checker.journal.now = self.cluster.now();
        checker.journal.sum_up();
    }

    /// Sets a fault to wait for a moment.
    fn aim(&mut self) {
        let moment = MOMENTS[self.random.below(MOMENTS.len() as u64) as usize];
        // A stopped node has a successor only when no node waits for it any more, and is past that
        // moment then.
        let stops = !matches!(moment, FaultMoment::Succession) && self.random.one_in(2);
        let stops = stops && self.injector.has(Fault::Pause);
        let fits = |fault| match stops {
            true => fault == Fault::Pause,
            false => matches!(fault, Fault::Crash | Fault::Restart),
        };
        if let Some(fault) = self.random_fault(fits) {
            self.lay_at(moment, fault);
        }
    }

    /// Causes a view change, while layouts change.
    fn disturb(&mut self, nodes: usize) {
        (0..self.random.below(3)).for_each(|_| self.random_change());
        let living: Vec<NodeIndex> = self.living();
        // Larger groups cause no other kind of view change, only a slower one.
        match (self.random.below(2), self.one_of(&living)) {
            (_, None) => self.come(nodes),
            _ if living.len() <= nodes => self.come(nodes),
            (0, Some(node)) if self.injector.has(Fault::Crash) => self.crash(node),
            (_, Some(node)) => self.inject(node, LifeMember::leave),
        }
    }
}
