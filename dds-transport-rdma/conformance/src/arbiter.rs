//! Decisions of a host, for links that have an arbiter: one founder, one decision for each view.
//!
//! Links without an arbiter pass. Threads call the arbiter concurrently even if the rig is not
//! parallel, because every arbiter permits that. An arbiter learns of deaths only from the kernel,
//! so the clauses wait for the consequences of a death and for nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};

use derecho_core::ids::{Peer, Rank};
use derecho_core::link::{Arbiter, Founding, Generation, Link};

use crate::{LinkRig, Suite};

/// Number of nodes that ask.
const NODES: usize = 4;

/// Nodes that have met, and the arbiter of each.
struct ArbiterSuite<R: LinkRig> {
    suite: Suite<R>,
    arbiters: Vec<Arc<dyn Arbiter>>,
}

impl<R: LinkRig> ArbiterSuite<R> {
    /// Returns `None` if this link has no arbiter.
    fn new(seed: u64) -> Option<ArbiterSuite<R>> {
        let mut suite = Suite::<R>::new(NODES, seed);
        let arbiters = (0..NODES).map(|node| suite.link(node).arbiter()).collect::<Option<_>>()?;
        Some(ArbiterSuite { suite, arbiters })
    }

    fn ask(&self, node: usize) -> Founding {
        self.arbiters[node].found().expect("the host is well")
    }

    /// Founds a group at a node, while there is no group.
    fn found(&self, node: usize) -> Generation {
        match self.ask(node) {
            Founding::Founded(group) => group,
            other => panic!("{other:?} where there is nobody"),
        }
    }

    fn exists(&self, node: usize, group: Generation) {
        assert_eq!(self.ask(node), Founding::Exists(group), "of node {node}");
    }

    /// Asks at a node until it may found.
    fn found_in_time(&mut self, node: usize) -> Generation {
        for _ in 0..self.suite.rig.patience() {
            if let Founding::Founded(group) = self.ask(node) {
                return group;
            }
            self.suite.pass();
        }
        panic!("nobody lives in the group, and yet it exists");
    }

    /// Checks for some time that the group is not wrongly taken for dead.
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

/// The first node to ask founds; all others learn of that group, however often they ask.
pub fn one_of_many_founds<R: LinkRig>(seed: u64) {
    let Some(mut arbiter_suite) = ArbiterSuite::<R>::new(seed) else { return };
    let order = arbiter_suite.order();
    let group = arbiter_suite.found(order[0]);
    assert_ne!(group, Generation::NONE);
    for round in 0..3 {
        order.iter().for_each(|&node| arbiter_suite.exists(node, group));
        let late = arbiter_suite.suite.join();
        let arbiter = arbiter_suite.suite.link(late).arbiter().expect("all have one");
        assert_eq!(arbiter.found(), Ok(Founding::Exists(group)), "round {round}");
    }
}

/// As `one_of_many_founds`, with all nodes asking at once, from threads of their own.
pub fn one_of_many_founds_at_once<R: LinkRig>(seed: u64) {
    let Some(arbiter_suite) = ArbiterSuite::<R>::new(seed) else { return };
    for _ in 0..10 {
        let start = Barrier::new(NODES);
        let told: Vec<Founding> = std::thread::scope(|scope| {
            let ask = |arbiter: &Arc<dyn Arbiter>| {
                start.wait();
                arbiter.found().expect("the host is well")
            };
            let arbiters: Vec<Arc<dyn Arbiter>> = arbiter_suite.arbiters.clone();
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
                Founding::Exhausted => panic!("founding exhausted after few requests"),
            })
            .collect();
        assert_eq!(groups.len(), 1, "{told:?}");
        arbiter_suite.arbiters.iter().for_each(|arbiter| arbiter.left());
    }
}

/// One of the ballots for a view wins, and all nodes that ask learn which.
pub fn one_ballot_wins_a_view<R: LinkRig>(seed: u64) {
    let Some(mut arbiter_suite) = ArbiterSuite::<R>::new(seed) else { return };
    let group = arbiter_suite.found(0);
    for node in 1..NODES {
        arbiter_suite.exists(node, group);
    }
    for view in 2..40 {
        let order = arbiter_suite.order();
        let ballots: Vec<Rank> = order.iter().map(|node| Rank(*node as u16 * 21)).collect();
        let winner = Some(ballots[0]);
        for (&node, &ballot) in order.iter().zip(&ballots) {
            assert_eq!(
                arbiter_suite.arbiters[node].settle(group, view, ballot),
                winner,
                "view {view}"
            );
        }
        // The decision stays the same.
        assert_eq!(arbiter_suite.arbiters[0].settle(group, view, Rank(1)), winner);
    }
}

/// As `one_ballot_wins_a_view`, with all nodes asking at once: every node learns the same winner.
pub fn one_ballot_wins_a_race<R: LinkRig>(seed: u64) {
    const VIEWS: u64 = 500;
    let Some(arbiter_suite) = ArbiterSuite::<R>::new(seed) else { return };
    let group = arbiter_suite.found(0);
    (1..NODES).for_each(|node| arbiter_suite.exists(node, group));
    let start = Barrier::new(NODES);
    let answers: Vec<Vec<Option<Rank>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = arbiter_suite
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
        let heard: BTreeSet<Option<Rank>> = answers.iter().map(|told| told[view]).collect();
        let one = heard.len() == 1 && !heard.contains(&None);
        assert!(one, "view {} of {VIEWS}: {heard:?}", view + 2);
    }
}

/// No node gets an answer about a view older than the group's current one.
pub fn an_older_view_is_refused<R: LinkRig>(seed: u64) {
    let Some(arbiter_suite) = ArbiterSuite::<R>::new(seed) else { return };
    let group = arbiter_suite.found(0);
    arbiter_suite.exists(1, group);
    assert_eq!(arbiter_suite.arbiters[0].settle(group, 2, Rank(0)), Some(Rank(0)));
    assert_eq!(arbiter_suite.arbiters[1].settle(group, 3, Rank(1)), Some(Rank(1)));
    for view in [0, 1, 2] {
        assert_eq!(arbiter_suite.arbiters[0].settle(group, view, Rank(0)), None, "view {view}");
    }
    assert_eq!(arbiter_suite.arbiters[0].settle(group, 3, Rank(0)), Some(Rank(1)));
}

/// After the founder's death one of the other nodes founds, and operations on the old group have
/// no effect.
pub fn who_founds_after_a_death_is_one<R: LinkRig>(seed: u64) {
    let Some(mut arbiter_suite) = ArbiterSuite::<R>::new(seed) else { return };
    let old = arbiter_suite.found(0);
    (1..NODES).for_each(|node| arbiter_suite.exists(node, old));
    assert_eq!(arbiter_suite.arbiters[0].settle(old, 9, Rank(0)), Some(Rank(0)));
    arbiter_suite.suite.kill(0);
    let new = arbiter_suite.found_in_time(1);
    assert!(new > old, "{new:?} after {old:?}");
    [2, 3].iter().for_each(|&node| arbiter_suite.exists(node, new));
    // The dead node had admitted node 2, which is late.
    assert_eq!(
        arbiter_suite.arbiters[2].settle(old, 10, Rank(1)),
        None,
        "a ballot of the old group"
    );
    assert!(!arbiter_suite.arbiters[2].entered(old, 10, 1), "a member of the old group");
    // The new group starts from its first view, and admits the nodes that it chooses.
    assert_eq!(arbiter_suite.arbiters[1].settle(new, 2, Rank(0)), Some(Rank(0)));
    arbiter_suite.enter(2, new, 2, 1);
    assert_eq!(arbiter_suite.arbiters[2].settle(new, 2, Rank(1)), Some(Rank(0)));
}

/// A group exists while one of its members lives, whoever founded it.
pub fn a_member_keeps_the_group<R: LinkRig>(seed: u64) {
    let Some(mut arbiter_suite) = ArbiterSuite::<R>::new(seed) else { return };
    let group = arbiter_suite.found(0);
    (1..NODES).for_each(|node| arbiter_suite.exists(node, group));
    arbiter_suite.enter(1, group, 2, 1);
    arbiter_suite.enter(2, group, 3, 2);
    arbiter_suite.suite.kill(0);
    arbiter_suite.exists_for_long(3, group);
    arbiter_suite.suite.leave(2);
    arbiter_suite.exists_for_long(3, group);
    arbiter_suite.arbiters[1].left();
    assert!(arbiter_suite.found_in_time(3) > group);
}

/// Non-members keep no group: neither a node that only asked, nor one that leaves its link.
pub fn only_members_keep_the_group<R: LinkRig>(seed: u64) {
    let Some(mut arbiter_suite) = ArbiterSuite::<R>::new(seed) else { return };
    let group = arbiter_suite.found(0);
    (1..NODES).for_each(|node| arbiter_suite.exists(node, group));
    arbiter_suite.suite.leave(0);
    let next = arbiter_suite.found_in_time(1);
    assert!(next > group);
    arbiter_suite.arbiters[1].left();
    assert!(arbiter_suite.found_in_time(2) > next);
}

/// A surviving member removes excluded members; a later owner of the same slot is not affected.
pub fn the_excluded_keep_no_group<R: LinkRig>(seed: u64) {
    let Some(mut arbiter_suite) = ArbiterSuite::<R>::new(seed) else { return };
    let group = arbiter_suite.found(0);
    (1..NODES).for_each(|node| arbiter_suite.exists(node, group));
    arbiter_suite.enter(1, group, 2, 1);
    // View 3 excludes node 1, and view 4 admits node 2 in the same slot, while node 0 is late.
    arbiter_suite.arbiters[0].cleared(group, 3, 1 << 1);
    arbiter_suite.enter(2, group, 4, 1);
    arbiter_suite.arbiters[0].cleared(group, 3, 1 << 1);
    arbiter_suite.arbiters[0].left();
    arbiter_suite.exists_for_long(3, group);
    arbiter_suite.arbiters[3].cleared(Generation(group.0 + 1), 9, 1 << 1);
    arbiter_suite.arbiters[3].cleared(group, 9, !(1 << 1));
    arbiter_suite.exists(3, group);
    arbiter_suite.arbiters[3].cleared(group, 5, 1 << 1);
    // Both node 1 and node 2 are alive, and neither is a member.
    assert!(arbiter_suite.found_in_time(3) > group);
}

/// A node that runs, is gone, or is unknown is not reported as halted.
pub fn who_runs_is_not_halted<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(3, seed);
    let (one, two) = (suite.peer(0, 1), suite.peer(0, 2));
    for _ in 0..20 {
        suite.pass();
        // No node is stopped; but a sleeping one may well be shown as asleep.
        assert!(!suite.link(0).is_halted(one) && !suite.link(0).is_halted(two));
    }
    assert!(!suite.link(0).is_halted(Peer(99)));
    suite.kill(1);
    suite.until("it is down", |suite| suite.down(0, 1).is_some());
    assert!(!suite.link(0).is_halted(one));
}

/// A stopped node is reported as halted until it continues.
pub fn who_is_stopped_is_halted<R: LinkRig>(seed: u64) {
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
