//! Toy machine: nodes in a ring pass on a count, each adding one.

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Link, LinkEvent, Sharing, WordRange};
use derecho_core::machine::{Effects, Machine, Target};
use derecho_core::memory::{OwnRegion, Replica};
use derecho_sim::{Cluster, NodeIndex, SimLink};

const COUNT: RegionId = RegionId(1);

/// State of one node.
pub(crate) struct Counter {
    id: NodeId,
    own: OwnRegion,
    others: Vec<(Peer, NodeId, Option<Replica>, bool)>,
    nodes: usize,
    pub(crate) count: u64,
    /// Last count that the machine passes on.
    pub(crate) limit: u64,
    pub(crate) turns: Vec<Time>,
    pub(crate) received: usize,
    /// Requests every turn, so that no idle one is skipped.
    pub(crate) restless: bool,
    pub(crate) wants: Option<Time>,
}

impl Counter {
    /// Creates one of `nodes` nodes.
    pub(crate) fn new(link: &mut SimLink, nodes: usize, limit: u64) -> Counter {
        Counter {
            id: link.node(),
            own: link.open(COUNT, 8).expect("a new region opens"),
            others: Vec::new(),
            nodes,
            count: 0,
            limit,
            turns: Vec::new(),
            received: 0,
            restless: false,
            wants: None,
        }
    }

    /// Creates a second thread's machine, which only listens.
    pub(crate) fn watcher(link: &SimLink) -> Counter {
        Counter {
            id: link.node(),
            own: OwnRegion::heap(8),
            others: Vec::new(),
            nodes: usize::MAX,
            count: 0,
            limit: 0,
            turns: Vec::new(),
            received: 0,
            restless: false,
            wants: None,
        }
    }

    fn met(&self) -> bool {
        self.others.len() == self.nodes - 1
            && self.others.iter().all(|(_, _, seen, ready)| seen.is_some() && *ready)
    }

    /// Adds one and publishes the count to all nodes.
    pub(crate) fn pass_on(&mut self, count: u64, effects: &mut Effects) {
        self.count = count;
        self.own.word(0).publish(count);
        for &(peer, ..) in &self.others {
            let target = Target { peer, sharing: Sharing::Copied };
            effects.write(target, COUNT, WordRange::new(0, 1));
        }
    }

    /// Whether it is this node's turn to add to `count`: nodes take turns in the order of
    /// their ids.
    fn is_mine(&self, count: u64) -> bool {
        let rank = self.others.iter().filter(|(_, id, ..)| *id < self.id).count();
        count % self.nodes as u64 == rank as u64
    }
}

impl Machine for Counter {
    fn handle(&mut self, event: LinkEvent, _: &mut Effects) {
        self.received += 1;
        let at = |peer: Peer| peer.index();
        match event {
            LinkEvent::PeerUp { peer, node, .. } => self.others.push((peer, node, None, false)),
            LinkEvent::RegionUp { peer, replica, .. } => self.others[at(peer)].2 = Some(replica),
            LinkEvent::RegionReady { peer, .. } => self.others[at(peer)].3 = true,
            _ => {}
        }
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        self.turns.push(now);
        effects.work().predicates += 1;
        effects.work().cells += self.others.len() as u64;
        if !self.met() {
            return 0;
        }
        let seen = self.others.iter().filter_map(|(_, _, seen, _)| seen.as_ref());
        let highest = seen.map(|seen| seen.load(0)).max().unwrap_or(0).max(self.count);
        if !self.is_mine(highest) || highest >= self.limit {
            return 0;
        }
        self.pass_on(highest + 1, effects);
        1
    }

    fn wants_turn_at(&self) -> Option<Time> {
        if self.restless { Some(Time(0)) } else { self.wants }
    }
}

/// Adds `nodes` nodes that count to `limit`.
pub(crate) fn populate(cluster: &mut Cluster<Counter>, nodes: usize, limit: u64, restless: bool) {
    for _ in 0..nodes {
        cluster.add_node(|link| {
            let counter = Counter::new(link, nodes, limit);
            vec![Counter { restless, ..counter }]
        });
    }
}

/// Whether the count has reached its limit.
pub(crate) fn done(cluster: &Cluster<Counter>) -> bool {
    (0..cluster.nodes()).any(|node| {
        let machine = cluster.machine(NodeIndex(node), 0);
        machine.count == machine.limit
    })
}
