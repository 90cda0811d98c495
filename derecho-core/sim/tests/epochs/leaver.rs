//! A leaver that stands still while the others go through two changes of layout without it.
//!
//! ```text
//!   epoch 0   the leaver is a member; all close, and the others show that all is received
//!   epoch 1   begins without the leaver, which stands still and has not seen what the others show
//!   epoch 2   a newcomer has the line slot of the leaver: begins only when the leaver has finished
//!             epoch 0 (I-33)
//! ```

use std::rc::Rc;

use derecho_core::multicast::stream::Beginning;
use derecho_core::multicast::subgroup::epoch::Phase;
use derecho_sim::NodeIndex;

use super::court::{Checker, Place, Plan};
use super::{Member, World};

/// Virtual time in which the others begin an epoch, if nothing prevents it.
const ENOUGH: u64 = 2_000_000;

impl World {
    /// Runs the scene. Returns whether the leaver stood still before it had seen what the others
    /// show, and the violations of the run.
    pub(crate) fn run_with_a_slow_leaver(&mut self) -> (bool, Vec<(Checker, String)>) {
        self.oracle.peace = true;
        let nodes = self.shape.nodes;
        let [leaver, newcomer] = [1, 2].map(|after| (self.oracle.anchor + after) % nodes);
        let mut places: Vec<Place> = Vec::new();
        for node in (0..nodes).filter(|node| *node != newcomer) {
            places.push(self.whole_place(node, node));
        }
        let start = Beginning { entry: 0, message: 0 };
        let starts = places.iter().filter_map(|place| Some((place.writer?, start))).collect();
        let first = self.decide(Plan { number: 0, places: places.clone(), starts });
        (0..nodes).filter(|node| *node != newcomer).for_each(|node| self.join(node, &first));
        self.wait_for(&first);
        self.pass(100_000);
        // The end of an epoch needs a place in each stream, which no reader frees without the
        // leaver (I-260).
        self.court.borrow_mut().lull = true;
        self.pass(100_000);
        places.retain(|place| place.node != leaver);
        let second = self.decide(Plan { number: 1, places: places.clone(), starts: [].into() });
        self.tell_layout(&first, &second);
        let is_late = self.pause_before_it_sees(leaver);
        self.wait_for(&second);
        self.with_cuts(&first, &second);
        let second = Rc::new(self.oracle.plan.clone());
        places.push(self.whole_place(newcomer, leaver));
        let third = self.decide(Plan { number: 2, places, starts: [].into() });
        self.tell_layout(&second, &third);
        self.let_pass(ENOUGH);
        self.cluster.resume(NodeIndex(leaver));
        self.court.borrow_mut().lull = false;
        self.wait("the end of the leaver", |cluster| {
            cluster.machine(NodeIndex(leaver), 0).id.is_none()
        });
        if self.wait_for_starts(&second, &third, false) {
            let third = self.with_cuts(&second, &third);
            self.join(newcomer, &third);
            self.wait_for(&third);
            self.with_cuts(&second, &third);
        }
        (is_late, self.finish_run())
    }

    /// Creates the place of a node that reads and sends.
    fn whole_place(&mut self, node: usize, slot: usize) -> Place {
        let lines = self.member_mut(node).open_lines();
        let writer = Some(self.new_writer(node));
        Place { node, slot, reads: true, writer, lines }
    }

    /// Tells the members of an epoch the next one.
    fn tell_layout(&mut self, epoch: &Plan, next: &Rc<Plan>) {
        for node in epoch.places.iter().map(|place| place.node) {
            let told = Rc::clone(next);
            self.act(node, move |member, effects| member.change_layout(&told, effects));
        }
    }

    /// Pauses the leaver as soon as another member knows that all have received everything. Returns
    /// whether the leaver did not know that yet.
    fn pause_before_it_sees(&mut self, leaver: usize) -> bool {
        let closes = |member: &Member| {
            member.epoch == Some(0)
                && member.id.and_then(|id| member.node.phase(id)) != Some(Phase::Complete)
        };
        let others: Vec<NodeIndex> =
            self.oracle.plan.places.iter().map(|place| NodeIndex(place.node)).collect();
        let until = self.cluster.now().after(10 * ENOUGH);
        self.cluster.run_until_or(until, |cluster| {
            others.iter().any(|node| !closes(cluster.machine(*node, 0)))
        });
        self.cluster.pause(NodeIndex(leaver));
        closes(self.member(leaver))
    }
}
