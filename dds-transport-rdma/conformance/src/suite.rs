//! Support for every clause: nodes that have met, and an observer that checks each event.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::link::{Evidence, Link, LinkEvent, ReadId, Sharing, WordRange};
use derecho_core::memory::{OwnRegion, Replica};

use crate::LinkRig;

/// Small generator of numbers that follow from a seed (splitmix64).
pub struct Random(u64);

impl Random {
    /// Creates the generator of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed ^ 0x5eed)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound as u64) as usize
    }
}

/// Events that one node has been told, with the rules that hold for all event sequences.
#[derive(Default)]
struct EventObserver {
    nodes: Vec<NodeId>,
    sharing: Vec<Sharing>,
    down: BTreeMap<Peer, Evidence>,
    replicas: BTreeMap<(Peer, RegionId), Replica>,
    seen_regions: BTreeSet<(Peer, RegionId)>,
    ready: BTreeSet<(Peer, RegionId)>,
    notes: VecDeque<(Peer, Vec<u8>)>,
    /// Regions, closings and notes in the order of their arrival.
    ordered: Vec<(Peer, OrderedEvent)>,
    reads: Vec<(Peer, ReadId)>,
}

/// Events whose mutual order is checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OrderedEvent {
    Up(RegionId),
    Down(RegionId),
    Note(Vec<u8>),
}

impl EventObserver {
    fn take(&mut self, event: LinkEvent) {
        let (LinkEvent::PeerUp { peer, .. }
        | LinkEvent::RegionUp { peer, .. }
        | LinkEvent::RegionReady { peer, .. }
        | LinkEvent::RegionDown { peer, .. }
        | LinkEvent::Note { peer, .. }
        | LinkEvent::ReadDone { peer, .. }
        | LinkEvent::PeerDown { peer, .. }) = event;
        assert!(!self.down.contains_key(&peer), "an event after PeerDown: {event:?}");
        if !matches!(event, LinkEvent::PeerUp { .. }) {
            assert!(peer.index() < self.nodes.len(), "an event before PeerUp: {event:?}");
        }
        match event {
            LinkEvent::PeerUp { peer, node, sharing, .. } => {
                assert_eq!(peer.index(), self.nodes.len(), "handles are given out in order");
                assert!(!self.nodes.contains(&node), "{node} is up twice");
                self.nodes.push(node);
                self.sharing.push(sharing);
            }
            LinkEvent::RegionUp { peer, region, replica } => {
                assert!(self.seen_regions.insert((peer, region)), "{region:?} is up twice");
                self.replicas.insert((peer, region), replica);
                self.ordered.push((peer, OrderedEvent::Up(region)));
            }
            LinkEvent::RegionDown { peer, region } => {
                let known = self.replicas.remove(&(peer, region));
                assert!(known.is_some(), "{region:?} is down and was not up");
                self.ordered.push((peer, OrderedEvent::Down(region)));
            }
            LinkEvent::RegionReady { peer, region } => {
                assert!(self.ready.insert((peer, region)), "{region:?} is ready twice");
            }
            LinkEvent::Note { peer, bytes } => {
                self.ordered.push((peer, OrderedEvent::Note(bytes.clone())));
                self.notes.push_back((peer, bytes));
            }
            LinkEvent::ReadDone { peer, read } => {
                let last = self.reads.last().map(|(_, last)| *last);
                assert!(last.is_none_or(|last| last < read), "{read:?} is done after {last:?}");
                self.reads.push((peer, read));
            }
            LinkEvent::PeerDown { peer, evidence } => {
                self.down.insert(peer, evidence);
            }
        }
    }
}

/// Nodes, and the events that each has been told.
pub struct Suite<R: LinkRig> {
    /// Rig under test.
    pub rig: R,
    /// Random choices of the clause.
    pub random: Random,
    ids: Vec<NodeId>,
    observers: Vec<EventObserver>,
    gone: BTreeSet<usize>,
}

impl<R: LinkRig> Suite<R> {
    /// Creates `nodes` nodes that have met.
    pub fn new(nodes: usize, seed: u64) -> Suite<R> {
        let mut rig = R::new(nodes, seed);
        let ids = (0..nodes).map(|node| rig.link(node).node()).collect();
        let observers = (0..nodes).map(|_| EventObserver::default()).collect();
        let mut suite =
            Suite { rig, random: Random::new(seed), ids, observers, gone: BTreeSet::new() };
        suite.meet();
        suite
    }

    /// Adds a node and waits until it has met all the others.
    pub fn join(&mut self) -> usize {
        let node = self.rig.join();
        assert_eq!(node, self.ids.len(), "nodes are numbered in order");
        let id = self.rig.link(node).node();
        self.ids.push(id);
        self.observers.push(EventObserver::default());
        self.meet();
        node
    }

    fn meet(&mut self) {
        self.until("all nodes have met", |suite| {
            let living = suite.living();
            living.iter().all(|&a| {
                living.iter().all(|&b| a == b || suite.observers[a].nodes.contains(&suite.ids[b]))
            })
        });
    }

    /// Returns the nodes that are neither killed nor gone.
    pub fn living(&self) -> Vec<usize> {
        (0..self.ids.len()).filter(|node| !self.gone.contains(node)).collect()
    }

    /// Returns the link of a node.
    pub fn link(&mut self, node: usize) -> &mut R::Link {
        self.rig.link(node)
    }

    /// Returns the id of a node.
    pub fn id(&self, node: usize) -> NodeId {
        self.ids[node]
    }

    /// Returns the handle that `at` has for `node`.
    pub fn peer(&self, at: usize, node: usize) -> Peer {
        let index = self.observers[at].nodes.iter().position(|id| *id == self.ids[node]);
        Peer(index.expect("the nodes have met") as u32)
    }

    /// Returns how `node` sees the writes of `at`.
    pub fn sharing(&self, at: usize, node: usize) -> Sharing {
        self.observers[at].sharing[self.peer(at, node).index()]
    }

    /// Kills a node.
    pub fn kill(&mut self, node: usize) {
        self.rig.kill(node);
        self.gone.insert(node);
    }

    /// Makes a node leave.
    pub fn leave(&mut self, node: usize) {
        self.rig.leave(node);
        self.gone.insert(node);
    }

    /// Lets a little time pass and polls every node.
    pub fn pass(&mut self) {
        self.rig.pass();
        for node in self.living() {
            self.poll(node);
        }
    }

    /// Polls one node.
    pub fn poll(&mut self, node: usize) {
        let observer = &mut self.observers[node];
        let mut count = 0;
        let handed = self.rig.link(node).poll(&mut |event| {
            observer.take(event);
            count += 1;
        });
        assert_eq!(handed, count, "poll says how many events it handed over");
    }

    /// Lets time pass until `holds` returns true.
    ///
    /// # Panics
    /// If it does not hold within the rig's patience.
    pub fn until(&mut self, what: &str, holds: impl Fn(&Suite<R>) -> bool) {
        for _ in 0..self.rig.patience() {
            if holds(self) {
                return;
            }
            self.pass();
        }
        panic!("the condition did not become true: {what}");
    }

    /// Opens a region at `owner` and waits until all other nodes see it and the owner knows.
    pub fn open(&mut self, owner: usize, region: RegionId, words: usize) -> OwnRegion {
        let own = self.link(owner).open(region, words).expect("a new region opens");
        assert_eq!(own.words(), words);
        self.until_ready(owner, region);
        own
    }

    /// Waits until all other nodes see a region and its owner knows.
    pub fn until_ready(&mut self, owner: usize, region: RegionId) {
        let others = self.living();
        let others: Vec<usize> = others.into_iter().filter(|node| *node != owner).collect();
        self.until("all have the region", |suite| {
            others.iter().all(|&node| {
                suite.replica(node, owner, region).is_some() && suite.is_ready(owner, node, region)
            })
        });
    }

    /// Returns the replica that `at` has of a region of `owner`.
    pub fn replica(&self, at: usize, owner: usize, region: RegionId) -> Option<Replica> {
        self.observers[at].replicas.get(&(self.peer(at, owner), region)).cloned()
    }

    /// Whether `owner` knows that `node` can receive a region.
    pub fn is_ready(&self, owner: usize, node: usize, region: RegionId) -> bool {
        self.observers[owner].ready.contains(&(self.peer(owner, node), region))
    }

    /// Returns how certain `at` is that `node` is gone, if `node` is down.
    pub fn down(&self, at: usize, node: usize) -> Option<Evidence> {
        self.observers[at].down.get(&self.peer(at, node)).copied()
    }

    /// Returns the notes of `from` that `at` has been told of, in order.
    pub fn notes(&self, at: usize, from: usize) -> Vec<Vec<u8>> {
        let peer = self.peer(at, from);
        let notes = self.observers[at].notes.iter();
        notes.filter(|(sender, _)| *sender == peer).map(|(_, bytes)| bytes.clone()).collect()
    }

    pub(crate) fn ordered_events(&self, at: usize, from: usize) -> Vec<OrderedEvent> {
        let peer = self.peer(at, from);
        let ordered_events = self.observers[at].ordered.iter();
        ordered_events.filter(|(sender, _)| *sender == peer).map(|(_, it)| it.clone()).collect()
    }

    /// Returns the completed reads of `at`, in order.
    pub fn reads_done(&self, at: usize) -> Vec<(Peer, ReadId)> {
        self.observers[at].reads.clone()
    }

    /// Posts words of an own region to one other node, which is ready for them.
    pub fn write(&mut self, owner: usize, node: usize, region: RegionId, range: WordRange) {
        let peer = self.peer(owner, node);
        self.link(owner).write(peer, region, range).expect("the peer is up and ready");
    }

    /// Drops the replica that the observer holds.
    pub fn forget_replica(&mut self, at: usize, owner: usize, region: RegionId) {
        let peer = self.peer(at, owner);
        self.observers[at].replicas.remove(&(peer, region));
        self.observers[at].ordered.push((peer, OrderedEvent::Down(region)));
    }
}
