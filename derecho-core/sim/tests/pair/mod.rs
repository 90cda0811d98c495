//! Nodes that have met and know each other's region, without a machine on top.

use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::{Link, LinkEvent, WordRange};
use derecho_core::memory::{OwnRegion, Replica};
use derecho_sim::{NodeIndex, SimLink, SimNetwork};

/// Name of the region of each node.
pub(crate) const REGION: RegionId = RegionId(1);

/// Some nodes, each with one region that all others see.
pub(crate) struct Nodes {
    pub(crate) network: SimNetwork,
    pub(crate) links: Vec<SimLink>,
    pub(crate) own: Vec<OwnRegion>,
    /// Replicas by reader, then by owner.
    seen: Vec<Vec<Option<Replica>>>,
    /// Events after the meeting, by node.
    pub(crate) events: Vec<Vec<LinkEvent>>,
}

impl Nodes {
    pub(crate) fn meet(network: SimNetwork, count: usize, words: usize) -> Nodes {
        let mut links: Vec<SimLink> = (0..count).map(|_| network.add_node()).collect();
        let own = links
            .iter_mut()
            .map(|link| link.open(REGION, words).expect("a new region opens"))
            .collect();
        while network.advance_once() {}
        let mut seen = vec![vec![None; count]; count];
        for reader in 0..count {
            links[reader].poll(&mut |event| {
                if let LinkEvent::RegionUp { peer, replica, .. } = event {
                    seen[reader][peer.index()] = Some(replica);
                }
            });
            let by_peer = std::mem::replace(&mut seen[reader], vec![None; count]);
            for owner in (0..count).filter(|&owner| owner != reader) {
                let peer = links[reader].peer(NodeIndex(owner)).expect("the nodes have met");
                seen[reader][owner] = by_peer[peer.index()].clone();
            }
        }
        let events = (0..count).map(|_| Vec::new()).collect();
        Nodes { network, links, own, seen, events }
    }

    pub(crate) fn peer(&self, at: usize, other: usize) -> Peer {
        self.links[at].peer(NodeIndex(other)).expect("the nodes have met")
    }

    pub(crate) fn seen(&self, at: usize, owner: usize) -> &Replica {
        self.seen[at][owner].as_ref().expect("the nodes have met")
    }

    pub(crate) fn write(&mut self, from: usize, to: usize, first: usize, count: usize) {
        let peer = self.peer(from, to);
        self.links[from]
            .write(peer, REGION, WordRange::new(first, count))
            .expect("the peer is ready");
    }

    /// Takes steps until a condition holds; returns the time. Fails if it never holds.
    pub(crate) fn until(&mut self, holds: impl Fn(&Nodes) -> bool) -> u64 {
        while !holds(self) {
            assert!(
                self.network.advance_once(),
                "no event is left, and the condition does not hold"
            );
        }
        self.network.now().0
    }

    pub(crate) fn settle(&mut self) {
        while self.network.advance_once() {}
        for (link, events) in self.links.iter_mut().zip(&mut self.events) {
            link.poll(&mut |event| events.push(event));
        }
    }
}
