//! Times in which nobody writes, before, between and after changes, and what is sent when the subgroup rests.

use derecho_core::multicast::subgroup::epoch::Phase;
use derecho_sim::NodeIndex;

use super::court::Checker;
use super::{LONGEST, World};

/// What came to rest in a run.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Rests {
    /// Members that did not look at the subgroup.
    pub(crate) resting: usize,
    /// Changes at the beginning of which somebody did not.
    pub(crate) changes: usize,
    /// Messages that were sent when the writer did not, in another epoch than the first.
    pub(crate) heard: usize,
}

impl World {
    /// As [`World::run`], with times in which the subgroup comes to rest.
    pub(crate) fn run_with_rests(&mut self) -> (Vec<(Checker, String)>, Rests) {
        let mut rests = Rests::default();
        for node in 0..self.shape.nodes {
            self.act(node, |member, effects| member.found_others(effects));
        }
        self.found();
        for _ in 0..self.shape.changes {
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
            // Whoever rests may be told, or writers may go on just then.
            let lull = self.random.one_in(2) && self.court.borrow().lull;
            self.court.borrow_mut().lull = lull;
            if self.is_fine() {
                self.change();
            }
            if self.is_fine() && self.random.one_in(2) {
                self.rest(&mut rests);
                self.hear_one(&mut rests);
            }
        }
        self.court.borrow_mut().lull = false;
        (self.finish_run(), rests)
    }

    /// Lets so much time pass without a message that streams are quiet.
    fn rest(&mut self, rests: &mut Rests) {
        self.court.borrow_mut().lull = true;
        let time = self.random.between(1_000_000, 6_000_000);
        self.let_pass(time);
        rests.resting += self.resting();
    }

    fn resting(&self) -> usize {
        let members = self.oracle.plan.places.iter().map(|place| place.node);
        members.filter(|&node| self.rests(node)).count()
    }

    fn rests(&self, node: usize) -> bool {
        let member = self.member(node);
        let at_work = member.id.and_then(|id| member.node.phase(id)) == Some(Phase::Open);
        self.is_running(node) && at_work && member.node.subgroups_looked_at() == 0
    }

    /// A message, and nothing else that could make anybody look: all readers get it, if nobody is missing.
    fn hear_one(&mut self, rests: &mut Rests) {
        let plan = self.oracle.plan.clone();
        let there = |node: usize| {
            let member = self.member(node);
            let open = member.id.and_then(|id| member.node.phase(id)) == Some(Phase::Open);
            self.is_running(node) && open && member.epoch == Some(plan.number) && !member.evicted
        };
        let mut writers: Vec<_> =
            plan.places.iter().filter(|place| place.writer.is_some()).map(|p| p.node).collect();
        if writers.is_empty() || !plan.places.iter().all(|place| there(place.node)) {
            return;
        }
        let node = writers.swap_remove(self.random.below(writers.len() as u64) as usize);
        let rested = self.rests(node);
        if !self.act(node, |member, effects| member.commit(LONGEST as usize, effects)) {
            return;
        }
        rests.heard += usize::from(rested && plan.number > 0);
        let writer = plan.place(node).and_then(|place| place.writer).unwrap();
        let committed = self.court.borrow().writers[writer].committed;
        self.wait("a message after a rest", move |cluster| {
            plan.places.iter().filter(|place| place.reads).all(|place| {
                let readers = cluster.machine(NodeIndex(place.node), 0).readers.last();
                readers.and_then(|readers| readers.next.get(&writer)) == Some(&committed)
            })
        });
    }
}
