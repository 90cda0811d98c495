//! A leaver that stands still while the others go through two changes of layout without it.
//!
//! ```text
//!   epoch 0   the leaver is a member; all close, and the others show that all is received
//!   epoch 1   begins without the leaver, which stands still and has not seen what the others show
//!   epoch 2   a newcomer has the line slot of the leaver: begins only when the leaver has finished
//!             epoch 0 (I-33)
//! ```

use std::rc::Rc;

use crate::NodeIndex;
use derecho_core::multicast::subgroup::epoch::EpochPhase;

use super::checker::{DecidedEpoch, EpochRole};
use super::oracle::DECIDED;
use super::{Rule, SubgroupMember, World};

/// Virtual time in which the others begin an epoch, if nothing prevents it.
const ENOUGH: u64 = 2_000_000;

impl World {
    /// Runs the scene. Returns whether the leaver stood still before it had seen what the others
    /// show, and the violations of the run.
    pub fn run_with_a_slow_leaver(&mut self) -> (bool, Vec<(Rule, String)>) {
        self.setting.oracle.peace = true;
        let nodes = self.setting.scenario.nodes;
        let [leaver, newcomer] = [1, 2].map(|after| (self.setting.oracle.anchor + after) % nodes);
        let mut roles: Vec<EpochRole> = Vec::new();
        for node in (0..nodes).filter(|node| *node != newcomer) {
            roles.push(self.member_mut(node).new_role(node, true, true));
        }
        let first = self.decide(DecidedEpoch::first(DECIDED, roles.clone()));
        (0..nodes).filter(|node| *node != newcomer).for_each(|node| self.join(node, &first));
        self.wait_for(&first);
        self.pass(100_000);
        // The end of an epoch needs a place in each stream, which no reader frees without the
        // leaver (I-260).
        self.checker.borrow_mut().lull = true;
        self.pass(100_000);
        roles.retain(|role| role.node != leaver);
        let second = DecidedEpoch { number: 1, roles: roles.clone(), ..DecidedEpoch::default() };
        let second = self.decide(second);
        self.tell_layout(&first, &second);
        let is_late = self.pause_before_it_sees(leaver);
        self.wait_for(&second);
        self.with_cuts(&first, &second);
        let second = Rc::new(self.setting.oracle.epoch.clone());
        roles.push(self.member_mut(newcomer).new_role(leaver, true, true));
        let third = self.decide(DecidedEpoch { number: 2, roles, ..DecidedEpoch::default() });
        self.tell_layout(&second, &third);
        self.run(ENOUGH);
        self.cluster.resume(NodeIndex(leaver));
        self.checker.borrow_mut().lull = false;
        self.wait("the end of the leaver", |cluster| {
            cluster.machine(NodeIndex(leaver), 0).part().id.is_none()
        });
        if self.wait_for_starts(&second, &third, false) {
            let third = self.with_cuts(&second, &third);
            self.join(newcomer, &third);
            self.wait_for(&third);
            self.with_cuts(&second, &third);
        }
        (is_late, self.finish_run())
    }

    /// Announces the next epoch to the members of an epoch.
    fn tell_layout(&mut self, epoch: &DecidedEpoch, next: &Rc<DecidedEpoch>) {
        for node in epoch.roles.iter().map(|role| role.node) {
            let announced = Rc::clone(next);
            self.act(node, move |member, effects| member.change_layout(&announced, effects));
        }
    }

    /// Pauses the leaver as soon as another member knows that all have received everything. Returns
    /// whether the leaver did not know that yet.
    fn pause_before_it_sees(&mut self, leaver: usize) -> bool {
        let closes = |member: &SubgroupMember| {
            member.part().epoch == Some(0) && member.phase() != Some(EpochPhase::Complete)
        };
        let others: Vec<NodeIndex> =
            self.setting.oracle.epoch.roles.iter().map(|role| NodeIndex(role.node)).collect();
        let until = self.cluster.now().after(10 * ENOUGH);
        self.cluster.run_until_or(until, |cluster| {
            others.iter().any(|node| !closes(cluster.machine(*node, 0)))
        });
        self.cluster.pause(NodeIndex(leaver));
        closes(self.member(leaver))
    }
}
