//! What a host decides, for links that have an arbiter: one founder, one decision for a view.
//!
//! Links without one pass. Threads ask as they please, whatever else the rig can do: an arbiter says that they
//! may. Who is dead is told to an arbiter by the kernel, so what follows from a death is
//! waited for, and from nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};

use derecho_core::ids::{Peer, Rank};
use derecho_core::link::{Arbiter, Founding, Generation, Link};

use crate::{Rig, Suite};

/// How many nodes ask.
const NODES: usize = 4;

/// Nodes that have met, and the arbiter of each.
struct Court<R: Rig> {
    suite: Suite<R>,
    arbiters: Vec<Arc<dyn Arbiter>>,
}

impl<R: Rig> Court<R> {
    /// `None` if this link has no arbiter.
    fn new(seed: u64) -> Option<Court<R>> {
        let mut suite = Suite::<R>::new(NODES, seed);
        let arbiters = (0..NODES).map(|node| suite.link(node).arbiter()).collect::<Option<_>>()?;
        Some(Court { suite, arbiters })
    }

    fn ask(&self, node: usize) -> Founding {
        self.arbiters[node].found().expect("the host is well")
    }

    /// A node that founds, for there is no group.
    fn found(&self, node: usize) -> Generation {
        match self.ask(node) {
            Founding::Founded(group) => group,
            other => panic!("{other:?} where there is nobody"),
        }
    }

    fn exists(&self, node: usize, group: Generation) {
        assert_eq!(self.ask(node), Founding::Exists(group), "of node {node}");
    }

    /// A node asks until it may found.
    fn found_in_time(&mut self, node: usize) -> Generation {
        for _ in 0..self.suite.rig.patience() {
            if let Founding::Founded(group) = self.ask(node) {
                return group;
            }
            self.suite.pass();
        }
        panic!("nobody lives in the group, and yet it exists");
    }

    /// It would be found out in this time if the group were taken for dead.
    fn exists_for_long(&mut self, node: usize, group: Generation) {
        for _ in 0..20 {
            self.suite.pass();
            self.exists(node, group);
        }
    }

    fn enter(&self, node: usize, group: Generation, view: u64, slot: u8) {
        assert!(self.arbiters[node].entered(group, view, slot), "node {node} was admitted");
        assert!(self.arbiters[node].is_member(), "node {node} has entered");
    }

    fn order(&mut self) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..NODES).collect();
        (1..NODES).for_each(|place| nodes.swap(place, self.suite.random.below(place + 1)));
        nodes
    }
}

/// Whoever asks first founds, and all others hear of that group, however often they ask.
pub fn one_of_many_founds<R: Rig>(seed: u64) {
    let Some(mut court) = Court::<R>::new(seed) else { return };
    let order = court.order();
    let group = court.found(order[0]);
    assert_ne!(group, Generation::NONE);
    for round in 0..3 {
        order.iter().for_each(|&node| court.exists(node, group));
        let late = court.suite.join();
        let arbiter = court.suite.link(late).arbiter().expect("all have one");
        assert_eq!(arbiter.found(), Ok(Founding::Exists(group)), "round {round}");
    }
}

/// The same when all ask at once, from threads of their own.
pub fn one_of_many_founds_at_once<R: Rig>(seed: u64) {
    let Some(court) = Court::<R>::new(seed) else { return };
    for _ in 0..10 {
        let start = Barrier::new(NODES);
        let told: Vec<Founding> = std::thread::scope(|scope| {
            let ask = |arbiter: &Arc<dyn Arbiter>| {
                start.wait();
                arbiter.found().expect("the host is well")
            };
            let arbiters: Vec<Arc<dyn Arbiter>> = court.arbiters.clone();
            let threads: Vec<_> =
                arbiters.into_iter().map(|arbiter| scope.spawn(move || ask(&arbiter))).collect();
            threads.into_iter().map(|it| it.join().expect("nobody panics")).collect()
        });
        let founded = |told: &&Founding| matches!(told, Founding::Founded(_));
        assert_eq!(told.iter().filter(founded).count(), 1, "{told:?}");
        let groups: BTreeSet<Generation> = told
            .iter()
            .map(|told| match told {
                Founding::Founded(group) | Founding::Exists(group) => *group,
                Founding::Exhausted => panic!("so often was not asked"),
            })
            .collect();
        assert_eq!(groups.len(), 1, "{told:?}");
        court.arbiters.iter().for_each(|arbiter| arbiter.left());
    }
}

/// Of the ballots for one view one wins, and all who ask hear which.
pub fn one_ballot_wins_a_view<R: Rig>(seed: u64) {
    let Some(mut court) = Court::<R>::new(seed) else { return };
    let group = court.found(0);
    for node in 1..NODES {
        court.exists(node, group);
    }
    for view in 2..40 {
        let order = court.order();
        let ballots: Vec<Rank> = order.iter().map(|node| Rank(*node as u16 * 21)).collect();
        let winner = Some(ballots[0]);
        for (&node, &ballot) in order.iter().zip(&ballots) {
            assert_eq!(court.arbiters[node].settle(group, view, ballot), winner, "view {view}");
        }
        // It stays so.
        assert_eq!(court.arbiters[0].settle(group, view, Rank(1)), winner);
    }
}

/// The same when all ask at once: whatever happens, all hear the same.
pub fn one_ballot_wins_a_race<R: Rig>(seed: u64) {
    const VIEWS: u64 = 500;
    let Some(court) = Court::<R>::new(seed) else { return };
    let group = court.found(0);
    (1..NODES).for_each(|node| court.exists(node, group));
    let start = Barrier::new(NODES);
    let told: Vec<Vec<Option<Rank>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = court
            .arbiters
            .iter()
            .zip(0..)
            .map(|(arbiter, rank)| {
                let (arbiter, start) = (Arc::clone(arbiter), &start);
                scope.spawn(move || {
                    let settle = |view| {
                        start.wait();
                        arbiter.settle(group, view, Rank(rank))
                    };
                    (2..2 + VIEWS).map(settle).collect()
                })
            })
            .collect();
        threads.into_iter().map(|it| it.join().expect("nobody panics")).collect()
    });
    for view in 0..VIEWS as usize {
        let heard: BTreeSet<Option<Rank>> = told.iter().map(|told| told[view]).collect();
        let one = heard.len() == 1 && !heard.contains(&None);
        assert!(one, "view {} of {VIEWS}: {heard:?}", view + 2);
    }
}

/// Nobody gets an answer about a view that the group is past.
pub fn an_older_view_is_refused<R: Rig>(seed: u64) {
    let Some(court) = Court::<R>::new(seed) else { return };
    let group = court.found(0);
    court.exists(1, group);
    assert_eq!(court.arbiters[0].settle(group, 2, Rank(0)), Some(Rank(0)));
    assert_eq!(court.arbiters[1].settle(group, 3, Rank(1)), Some(Rank(1)));
    for view in [0, 1, 2] {
        assert_eq!(court.arbiters[0].settle(group, view, Rank(0)), None, "view {view}");
    }
    assert_eq!(court.arbiters[0].settle(group, 3, Rank(0)), Some(Rank(1)));
}

/// When the founder is dead, one of the others founds, and what is said of the old group comes to nothing.
pub fn who_founds_after_a_death_is_one<R: Rig>(seed: u64) {
    let Some(mut court) = Court::<R>::new(seed) else { return };
    let old = court.found(0);
    (1..NODES).for_each(|node| court.exists(node, old));
    assert_eq!(court.arbiters[0].settle(old, 9, Rank(0)), Some(Rank(0)));
    court.suite.kill(0);
    let new = court.found_in_time(1);
    assert!(new > old, "{new:?} after {old:?}");
    [2, 3].iter().for_each(|&node| court.exists(node, new));
    // Node 2 was admitted by the one that died, and is late.
    assert_eq!(court.arbiters[2].settle(old, 10, Rank(1)), None, "a ballot of the old group");
    assert!(!court.arbiters[2].entered(old, 10, 1), "a member of the old group");
    // The new one begins from the beginning, and lets in whom it admits.
    assert_eq!(court.arbiters[1].settle(new, 2, Rank(0)), Some(Rank(0)));
    court.enter(2, new, 2, 1);
    assert_eq!(court.arbiters[2].settle(new, 2, Rank(1)), Some(Rank(0)));
}

/// A group exists for as long as one of its members does, whoever founded it.
pub fn a_member_keeps_the_group<R: Rig>(seed: u64) {
    let Some(mut court) = Court::<R>::new(seed) else { return };
    let group = court.found(0);
    (1..NODES).for_each(|node| court.exists(node, group));
    court.enter(1, group, 2, 1);
    court.enter(2, group, 3, 2);
    court.suite.kill(0);
    court.exists_for_long(3, group);
    court.suite.leave(2);
    court.exists_for_long(3, group);
    court.arbiters[1].left();
    assert!(court.found_in_time(3) > group);
}

/// Who is not a member keeps no group: one that only asked, one that leaves its link.
pub fn only_members_keep_the_group<R: Rig>(seed: u64) {
    let Some(mut court) = Court::<R>::new(seed) else { return };
    let group = court.found(0);
    (1..NODES).for_each(|node| court.exists(node, group));
    court.suite.leave(0);
    let next = court.found_in_time(1);
    assert!(next > group);
    court.arbiters[1].left();
    assert!(court.found_in_time(2) > next);
}

/// Who goes on says who is a member no more; whoever has the slot since is not meant.
pub fn the_excluded_keep_no_group<R: Rig>(seed: u64) {
    let Some(mut court) = Court::<R>::new(seed) else { return };
    let group = court.found(0);
    (1..NODES).for_each(|node| court.exists(node, group));
    court.enter(1, group, 2, 1);
    // View 3 excludes node 1 and view 4 admits node 2 in its slot, while node 0 is late.
    court.arbiters[0].cleared(group, 3, 1 << 1);
    court.enter(2, group, 4, 1);
    court.arbiters[0].cleared(group, 3, 1 << 1);
    court.arbiters[0].left();
    court.exists_for_long(3, group);
    court.arbiters[3].cleared(Generation(group.0 + 1), 9, 1 << 1);
    court.arbiters[3].cleared(group, 9, !(1 << 1));
    court.exists(3, group);
    court.arbiters[3].cleared(group, 5, 1 << 1);
    // Both node 1 and node 2 live, and neither is a member.
    assert!(court.found_in_time(3) > group);
}

/// Nobody is halted who runs, who is gone, or who is not known.
pub fn who_runs_is_not_halted<R: Rig>(seed: u64) {
    let mut suite = Suite::<R>::new(3, seed);
    let (one, two) = (suite.peer(0, 1), suite.peer(0, 2));
    for _ in 0..20 {
        suite.pass();
        // Nobody is stopped; but a sleeper may well be shown as asleep.
        assert!(!suite.link(0).is_halted(one) && !suite.link(0).is_halted(two));
    }
    assert!(!suite.link(0).is_halted(Peer(99)));
    suite.kill(1);
    suite.until("it is down", |suite| suite.down(0, 1).is_some());
    assert!(!suite.link(0).is_halted(one));
}

/// Who is stopped is shown as such, until it goes on.
pub fn who_is_stopped_is_halted<R: Rig>(seed: u64) {
    let mut suite = Suite::<R>::new(3, seed);
    let (one, two) = (suite.peer(0, 1), suite.peer(0, 2));
    for _ in 0..2 {
        if !suite.rig.halt(1, true) {
            return;
        }
        assert!(suite.link(0).is_halted(one) && !suite.link(0).is_halted(two));
        suite.rig.halt(1, false);
        assert!(!suite.link(0).is_halted(one));
    }
}
