//! The simulated link: one node's end of a simulated network.
//!
//! Owns: the public interface of the network and of its faults. Never does: guarantee more than the
//! contract in [`derecho_core::link`]. [`NetworkMode::Adversarial`] uses everything that the
//! contract leaves open:
//!
//! | the contract leaves open | behaviour here |
//! | --- | --- |
//! | when a source word is read | each word at a random moment from the post to its landing |
//! | the order of words in a write | random, spread over time; a crash may leave any part |
//! | the order to different peers | delays are drawn per peer, at times far longer than usual |
//! | notes against writes | delays of their own |
//! | content of a new replica | zeros or the words as they are |
//! | values fetched by a read | each word as it was at a moment of its own, in any order |
//! | report of a peer's end | after everything on its way was dropped or has landed |
//!
//! In [`NetworkMode::Costed`] nothing is random: a write's words are read when it leaves its
//! sender's port and land together when they have passed the receiver's; every delay is the price
//! in the [`CostModel`].

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{
    Arbiter, Evidence, Link, LinkCounters, LinkError, LinkEvent, ReadId, WordRange,
};
use derecho_core::memory::OwnRegion;

use crate::cost::CostModel;
use crate::network::{Network, NetworkStep, SlowDown};

/// A node of a simulated network: its index in the order in which nodes were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub usize);

impl From<usize> for NodeIndex {
    fn from(index: usize) -> NodeIndex {
        NodeIndex(index)
    }
}

/// Behaviour of the network.
#[derive(Clone, PartialEq, Debug)]
pub enum NetworkMode {
    /// As adverse as the contract allows.
    Adversarial(Adversary),
    /// As fast as the cost model says, the same each time.
    Costed,
}

/// Treatment of a message by the adversarial network. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Adversary {
    /// Usual delay, minimum and maximum.
    pub delay_ns: (u64, u64),
    /// One message in this many is delayed far longer; zero for none.
    pub heavy_one_in: u64,
    /// Maximum number of doublings of such a delay (at most 32).
    pub heavy_doublings: u32,
    /// Time within which the words of one write or read land.
    pub spread_ns: u64,
    /// One ordered pair of nodes in this many is slow for the whole run; zero for none.
    pub slow_pair_one_in: u64,
    /// Factor by which a slow pair is slower.
    pub slow_factor: u64,
}

impl Default for Adversary {
    fn default() -> Adversary {
        Adversary {
            delay_ns: (100, 5_000),
            heavy_one_in: 24,
            heavy_doublings: 6,
            spread_ns: 2_000,
            slow_pair_one_in: 16,
            slow_factor: 6,
        }
    }
}

/// Reports of a fault to nodes, with the minimum and maximum delay in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvidenceRules {
    /// Evidence of a crash for every peer; `None` for silence.
    pub crash: Option<(Evidence, (u64, u64))>,
    /// Time after which an end of a cut connection concludes, uncertainly, that the other is
    /// gone, if the cut has not healed by then; `None` for never. The other end then learns of
    /// this likewise.
    pub cut: Option<(u64, u64)>,
}

impl Default for EvidenceRules {
    /// Certain evidence of a crash within 100 µs; a cut breaks the connection within 2 ms.
    fn default() -> EvidenceRules {
        EvidenceRules {
            crash: Some((Evidence::Certain, (10_000, 100_000))),
            cut: Some((500_000, 2_000_000)),
        }
    }
}

/// Simulated network. Clones are handles on the same network.
#[derive(Clone)]
pub struct SimNetwork {
    inner: Rc<RefCell<Network>>,
}

impl SimNetwork {
    /// Creates a network without nodes, at time zero.
    pub fn new(
        seed: u64,
        mode: NetworkMode,
        costs: CostModel,
        evidence: EvidenceRules,
    ) -> SimNetwork {
        SimNetwork { inner: Rc::new(RefCell::new(Network::new(seed, mode, costs, evidence))) }
    }

    /// Makes the nodes share memory: a peer sees a store at once and without a post, and
    /// [rings](Link::ring) wake it. For a network without nodes.
    ///
    /// # Panics
    /// If the network has nodes.
    pub fn share_memory(&self) {
        self.with(Network::share_memory);
    }

    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Network) -> R) -> R {
        act(&mut self.inner.borrow_mut())
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        Time(self.with(|network| network.now()))
    }

    /// Number of nodes ever added.
    pub fn nodes(&self) -> usize {
        self.with(|network| network.node_count())
    }

    /// Adds a node. Its index is never reused.
    pub fn add_node(&self) -> SimLink {
        let node = self.with(Network::add_node);
        self.link(NodeIndex(node))
    }

    /// Returns a further handle on a node's end.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn link(&self, node: NodeIndex) -> SimLink {
        assert!(node.0 < self.nodes(), "there is no node {}", node.0);
        SimLink { network: self.clone(), node: node.0 }
    }

    /// Applies all events up to `at`. Not for the network of a cluster, whose threads would miss
    /// their turns.
    pub fn advance_to(&self, at: Time) {
        self.with(|network| {
            while network.next_at().is_some_and(|next| next <= at.0) {
                network.step();
            }
            network.idle_until(at.0);
        });
    }

    /// Applies the next event; returns false if none is left. Not for the network of a cluster,
    /// as [`advance_to`](SimNetwork::advance_to).
    pub fn advance_once(&self) -> bool {
        self.with(|network| network.step().is_some())
    }

    pub(crate) fn step(&self) -> Option<NetworkStep> {
        self.with(Network::step)
    }

    /// Returns a running hash over all posts, landings, deliveries and faults, with their moments.
    /// Equal for equal seeds and equal use.
    pub fn trace_hash(&self) -> u64 {
        self.with(|network| network.trace_hash())
    }

    /// Number of landed writes and reads, arrived control messages, and faults.
    pub fn events(&self) -> u64 {
        self.with(|network| network.events())
    }

    /// Returns the sum of all nodes' counters.
    pub fn counters(&self) -> LinkCounters {
        self.with(|network| {
            let mut sum = LinkCounters::default();
            for node in 0..network.node_count() {
                let one = network.counters(node);
                sum.writes += one.writes;
                sum.written_bytes += one.written_bytes;
                sum.reads += one.reads;
                sum.read_bytes += one.read_bytes;
                sum.notes += one.notes;
                sum.rings += one.rings;
            }
            sum
        })
    }

    /// Stops a node at this moment. A prefix of its posts to each peer arrives: in adversarial mode
    /// a random prefix and a random part of the next write; in costed mode everything that has left
    /// its port.
    pub fn crash(&self, node: NodeIndex) {
        self.with(|network| network.crash(node.0));
    }

    /// Makes a node say goodbye; all its posts arrive before the goodbye.
    pub fn leave(&self, node: NodeIndex) {
        self.with(|network| network.leave(node.0));
    }

    /// Sets whether the node's host shows it as stopped. A cluster calls this for the nodes that
    /// it pauses.
    pub fn show_halted(&self, node: NodeIndex, halted: bool) {
        self.with(|network| network.set_halted(node.0, halted));
    }

    /// Stops all words and notes from one node to another; everything on its way is held back.
    /// Reads need both directions.
    pub fn cut(&self, from: NodeIndex, to: NodeIndex) {
        self.with(|network| network.cut(from.0, to.0));
    }

    /// Cuts both directions.
    pub fn cut_both(&self, a: NodeIndex, b: NodeIndex) {
        self.cut(a, b);
        self.cut(b, a);
    }

    /// Ends a cut; held-back messages continue, unless the connection was given up meanwhile.
    pub fn heal(&self, from: NodeIndex, to: NodeIndex) {
        self.with(|network| network.heal(from.0, to.0));
    }

    /// Heals both directions.
    pub fn heal_both(&self, a: NodeIndex, b: NodeIndex) {
        self.heal(a, b);
        self.heal(b, a);
    }

    /// Slows down all later posts from one node to another: `factor` times as long, plus a random
    /// time up to `later` nanoseconds. Their order is kept. Adversarial networks only.
    pub fn hamper(&self, from: NodeIndex, to: NodeIndex, factor: u64, later: u64) {
        self.with(|network| network.hamper(from.0, to.0, Some(SlowDown { factor, later })));
    }

    /// Ends the slow-down of [`hamper`](SimNetwork::hamper).
    pub fn unhamper(&self, from: NodeIndex, to: NodeIndex) {
        self.with(|network| network.hamper(from.0, to.0, None));
    }

    /// Whether one of two nodes has given up the connection between them.
    pub fn is_broken(&self, a: NodeIndex, b: NodeIndex) -> bool {
        self.with(|network| network.is_broken(a.0, b.0))
    }

    /// Time until which control messages from or to a node took so long that the node may have been
    /// taken for silent; zero if none did.
    pub fn held_up_until(&self, node: NodeIndex) -> Time {
        self.with(|network| Time(network.held_up_until(node.0)))
    }

    /// Reports to `at` after `after` nanoseconds that `about` is gone, whether or not it is.
    pub fn conclude(&self, at: NodeIndex, about: NodeIndex, evidence: Evidence, after: u64) {
        self.with(|network| network.conclude(at.0, about.0, evidence, after));
    }
}

impl fmt::Debug for SimNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimNetwork({} nodes at {} ns)", self.nodes(), self.now().0)
    }
}

/// One node's end of a simulated network. Clones are handles on the same end.
#[derive(Clone, Debug)]
pub struct SimLink {
    network: SimNetwork,
    node: usize,
}

impl SimLink {
    /// Returns the index of this node.
    pub fn index(&self) -> NodeIndex {
        NodeIndex(self.node)
    }

    /// Returns the network.
    pub fn network(&self) -> &SimNetwork {
        &self.network
    }

    /// Returns this link's handle for another node, once that node is up here.
    pub fn peer(&self, other: NodeIndex) -> Option<Peer> {
        self.network.with(|network| network.peer_of(self.node, other.0))
    }
}

impl Link for SimLink {
    fn node(&self) -> NodeId {
        self.network.with(|network| network.node_id(self.node))
    }

    fn open(&mut self, region: RegionId, words: usize) -> Result<OwnRegion, LinkError> {
        self.network.with(|network| network.open(self.node, region, words))
    }

    fn close(&mut self, region: RegionId) -> Result<(), LinkError> {
        self.network.with(|network| network.close(self.node, region))
    }

    fn write(&mut self, peer: Peer, region: RegionId, range: WordRange) -> Result<(), LinkError> {
        self.network.with(|network| network.write(self.node, peer, region, range))
    }

    fn read(
        &mut self,
        peer: Peer,
        region: RegionId,
        range: WordRange,
    ) -> Result<ReadId, LinkError> {
        self.network.with(|network| network.read(self.node, peer, region, range))
    }

    fn note(&mut self, peer: Peer, bytes: &[u8]) -> Result<(), LinkError> {
        self.network.with(|network| network.note(self.node, peer, bytes))
    }

    /// Does nothing where memory is copied: landings wake the threads there.
    fn ring(&mut self, news: &[Peer], hints: &[Peer]) {
        self.network.with(|network| {
            if network.shares_memory() {
                network.ring(self.node, news, false);
                network.ring(self.node, hints, true);
            }
        });
    }

    fn arbiter(&self) -> Option<Arc<dyn Arbiter>> {
        Some(self.network.with(|network| network.host().arbiter(self.node)))
    }

    fn is_halted(&self, peer: Peer) -> bool {
        self.network.with(|network| network.is_halted(self.node, peer))
    }

    fn poll(&mut self, sink: &mut dyn FnMut(LinkEvent)) -> usize {
        let mut taken = 0;
        // The borrow of the network ends before the sink runs, which may use this very link.
        while let Some(event) = self.network.with(|network| network.poll(self.node)) {
            taken += 1;
            sink(event);
        }
        taken
    }

    fn counters(&self) -> LinkCounters {
        self.network.with(|network| network.counters(self.node))
    }
}
