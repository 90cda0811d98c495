//! Times without writes, before, between and after changes, and messages sent when the
//! subgroup rests.

use crate::NodeIndex;
use derecho_core::multicast::subgroup::epoch::EpochPhase;

use super::oracle::DECIDED;
use super::{LONGEST, Rule, World};

/// Counts of rests in a run.
#[derive(Clone, Copy, Default, Debug)]
pub struct RestCounts {
    /// Number of members that did not look at the subgroup.
    pub resting: usize,
    /// Number of changes that began while a member did not look.
    pub changes: usize,
    /// Number of messages sent while the writer did not look, in a later epoch than the first.
    pub resumed: usize,
}

impl World {
    /// Runs as [`World::run_changes`], with times in which the subgroup comes to rest.
    pub fn run_with_rests(&mut self) -> (Vec<(Rule, String)>, RestCounts) {
        let mut rests = RestCounts::default();
        for node in 0..self.setting.scenario.nodes {
            self.act(node, |member, effects| member.found_others(effects));
        }
        self.found();
        for _ in 0..self.setting.scenario.changes {
            if self.random.one_in(3) {
                self.pass(60_000);
            } else {
                self.rest(&mut rests);
                if self.random.one_in(2) {
                    self.hear_one(&mut rests);
                    self.rest(&mut rests);
                }
            }
            rests.changes += usize::from(self.resting() > 0);
            // The change may be announced to resting members, or writers may resume at that time.
            let lull = self.random.one_in(2) && self.checker.borrow().lull;
            self.checker.borrow_mut().lull = lull;
            if self.is_fine() {
                self.change();
            }
            if self.is_fine() && self.random.one_in(2) {
                self.rest(&mut rests);
                self.hear_one(&mut rests);
            }
        }
        self.checker.borrow_mut().lull = false;
        (self.finish_run(), rests)
    }

    /// Lets enough time pass without a message for streams to become quiet.
    fn rest(&mut self, rests: &mut RestCounts) {
        self.checker.borrow_mut().lull = true;
        let time = self.random.between(1_000_000, 6_000_000);
        self.run(time);
        rests.resting += self.resting();
    }

    fn resting(&self) -> usize {
        let members = self.setting.oracle.epoch.roles.iter().map(|role| role.node);
        members.filter(|&node| self.rests(node)).count()
    }

    fn rests(&self, node: usize) -> bool {
        let member = self.member(node);
        let at_work = member.phase() == Some(EpochPhase::Open);
        self.is_running(node) && at_work && member.node.subgroups_looked_at() == 0
    }

    /// Sends one message, without any other reason to look: all readers get it, if none is missing.
    fn hear_one(&mut self, rests: &mut RestCounts) {
        let plan = self.setting.oracle.epoch.clone();
        let there = |node: usize| {
            let member = self.member(node);
            let open = member.phase() == Some(EpochPhase::Open);
            let is_here = open && member.part().epoch == Some(plan.number);
            self.is_running(node) && is_here && !self.is_evicted(node)
        };
        let mut writers: Vec<_> =
            plan.roles.iter().filter(|role| role.writer.is_some()).map(|p| p.node).collect();
        if writers.is_empty() || !plan.roles.iter().all(|role| there(role.node)) {
            return;
        }
        let node = writers.swap_remove(self.random.below(writers.len() as u64) as usize);
        let rested = self.rests(node);
        if !self.call(node, |member, effects| member.commit(DECIDED, LONGEST as usize, effects)) {
            return;
        }
        rests.resumed += usize::from(rested && plan.number > 0);
        let writer = plan.role_of(node).and_then(|place| place.writer).unwrap();
        let committed = self.checker.borrow().writers[writer].committed;
        self.wait("a message after a rest", move |cluster| {
            plan.roles.iter().filter(|role| role.reads).all(|place| {
                let readers = cluster.machine(NodeIndex(place.node), 0).part().readers.last();
                readers.and_then(|readers| readers.next.get(&writer)) == Some(&committed)
            })
        });
    }
}
