//! The simulated network: nodes, the channels between them, and everything under way.
//!
//! Owns: virtual time, the event queue, every replica, and the random stream. Never does: run a
//! machine; a driver puts its own events into the queue and gets them back when they are due.
//!
//! ```text
//!   channel A -> B
//!     control   announcements, notes        in order among themselves
//!     writes    A's words to B's replica    each write whole before the next begins to land
//!     reads     A's words, fetched by B     likewise
//! ```
//! Nothing orders the three lanes of a channel among each other, nor one channel and another; but
//! the end of a peer comes last.

mod control;
mod fault;
mod transfer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::link::{
    Evidence, LinkCounters, LinkError, LinkEvent, ReadId, Sharing, WordRange,
};
use derecho_core::machine::Post;
use derecho_core::memory::{OwnRegion, Replica};

use crate::cost::CostModel;
use crate::host::SimHost;
use crate::link::{EvidenceRules, NetworkMode};
use crate::queue::Queue;
use crate::random::{Random, mix};
use control::Control;
use fault::CutSilence;
pub(crate) use fault::SlowDown;
use transfer::{Lane, Transfer, TransferRef};

/// Event that a driver has put into the queue.
pub(crate) enum DriverEvent {
    /// Next turn of a thread. Ignored if the turn was postponed since, because its number is then
    /// outdated. `stood`: how long the node had stood still when the turn was planned.
    Turn { node: usize, thread: usize, number: u64, stood: u64 },
    /// Moment of a post within a turn; `stood` as for a turn.
    Post { node: usize, post: Post, stood: u64 },
    /// End of a turn or an act: bells for peers; `stood` as for a turn.
    Ring { node: usize, rung: RungPeers, stood: u64 },
    /// Action of an application thread.
    Action { node: usize, action: u64 },
}

impl DriverEvent {
    /// Returns the same event, planned when its node had stood still for `stood` nanoseconds.
    pub(crate) fn planned_after(self, stood: u64) -> DriverEvent {
        match self {
            DriverEvent::Turn { node, thread, number, .. } => {
                DriverEvent::Turn { node, thread, number, stood }
            }
            DriverEvent::Post { node, post, .. } => DriverEvent::Post { node, post, stood },
            DriverEvent::Ring { node, rung, .. } => DriverEvent::Ring { node, rung, stood },
            action @ DriverEvent::Action { .. } => action,
        }
    }
}

/// Peers whose bells a node rings at the end of a turn or an act.
#[derive(Default)]
pub(crate) struct RungPeers {
    /// Peers that have news.
    pub(crate) news: Vec<Peer>,
    /// Peers that may wait for a hint.
    pub(crate) hints: Vec<Peer>,
}

/// Event of the network.
enum Event {
    /// Reads the words of a piece at their source.
    Source { spot: TransferRef, piece: usize },
    /// Lands the words of a piece.
    Land { spot: TransferRef, piece: usize },
    /// A transfer asks for its sender's port.
    Queue { spot: TransferRef },
    /// A transfer begins to leave through its sender's port; its source is read.
    Depart { spot: TransferRef },
    /// The first bytes of a transfer reach the receiver's port.
    Ingress { spot: TransferRef },
    /// The oldest control message of a channel arrives.
    Control { from: usize, to: usize, plan: u32 },
    /// A bell rung by another node arrives.
    Bell { from: usize, to: usize, hint: bool },
    /// A node learns that another one is gone, unless the silence behind this has ended.
    Evidence { at: usize, about: usize, evidence: Evidence, silence: Option<CutSilence> },
    /// Event of a driver.
    Driver(DriverEvent),
}

/// Result of a step.
pub(crate) enum NetworkStep {
    /// Nothing that a node could notice.
    Unseen,
    /// Something arrived at a node.
    Arrived(usize),
    /// A bell was rung for a node, for news or for a hint.
    Rung { node: usize, hint: bool },
    /// A driver's event is due.
    Driver(DriverEvent),
}

/// State of one node in the network.
struct NetworkNode {
    id: NodeId,
    /// False once the node has crashed or left.
    up: bool,
    /// True while the node's threads stand still.
    halted: bool,
    /// Node of each peer handle.
    peers: Vec<usize>,
    /// Peer handle of each node, once that node is up here.
    handles: Vec<Option<Peer>>,
    /// `None` for a closed region: names are not reused.
    regions: BTreeMap<RegionId, Option<Replica>>,
    inbox: VecDeque<LinkEvent>,
    counters: LinkCounters,
    reads: u64,
    /// Reads, in the order of posting, whose completion was not reported yet.
    reading: VecDeque<PendingRead>,
    egress_free_at: u64,
    ingress_free_at: u64,
    /// Arrival of the last control message from or to this node that took longer than
    /// [`control::HELD_UP_NS`].
    held_up_until: u64,
}

/// A read whose completion was not reported yet.
struct PendingRead {
    read: ReadId,
    owner: usize,
    landed: bool,
}

/// One node's view of another node's region.
struct RegionCopy {
    /// The owner's memory, from which reads fetch. Kept until the reader learns of the closing.
    source: Replica,
    /// Memory in which writes and reads land; `None` where the reader sees the owner's
    /// memory itself.
    memory: Option<OwnRegion>,
}

/// Everything on the way from one node to another.
#[derive(Default)]
struct Channel {
    /// True once the receiver knows that the sender is up.
    up: bool,
    /// True once the receiver knows that the sender is gone; nothing arrives any more.
    down: bool,
    /// True while nothing passes.
    cut: bool,
    /// Number of cuts so far, which invalidates evidence of a healed cut.
    cuts: u32,
    /// True for a pair that is slow in this run.
    slow: bool,
    /// Additional temporary slow-down.
    hampered: Option<SlowDown>,
    control: VecDeque<Control>,
    control_plan: u32,
    control_last: u64,
    writes: Lane,
    reads: Lane,
    /// The sender's regions as the receiver sees them.
    replicas: BTreeMap<RegionId, RegionCopy>,
    /// The sender's regions that, as the sender knows, the receiver can receive.
    ready: BTreeSet<RegionId>,
}

/// State behind every [`SimLink`](crate::link::SimLink).
pub(crate) struct Network {
    now: u64,
    queue: Queue<Event>,
    random: Random,
    mode: NetworkMode,
    /// Whether replicas are the owners' memory itself or copies.
    sharing: Sharing,
    costs: CostModel,
    rules: EvidenceRules,
    nodes: Vec<NetworkNode>,
    /// Channels by sender, then by receiver.
    channels: Vec<Vec<Channel>>,
    host: SimHost,
    trace: u64,
    events: u64,
}

impl Network {
    pub(crate) fn new(
        seed: u64,
        mode: NetworkMode,
        costs: CostModel,
        rules: EvidenceRules,
    ) -> Network {
        Network {
            now: 0,
            queue: Queue::new(),
            random: Random::new(seed),
            mode,
            sharing: Sharing::Copied,
            costs,
            rules,
            nodes: Vec::new(),
            channels: Vec::new(),
            host: SimHost::default(),
            trace: mix(seed),
            events: 0,
        }
    }

    /// Makes replicas refer to the owners' memory itself. For a network without nodes.
    pub(crate) fn share_memory(&mut self) {
        assert!(self.nodes.is_empty(), "nodes have met over memory that is copied");
        self.sharing = Sharing::Shared;
    }

    pub(crate) fn shares_memory(&self) -> bool {
        self.sharing == Sharing::Shared
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.queue.next_at()
    }

    pub(crate) fn trace_hash(&self) -> u64 {
        self.trace
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    pub(crate) fn node_id(&self, node: usize) -> NodeId {
        self.nodes[node].id
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn counters(&self, node: usize) -> LinkCounters {
        self.nodes[node].counters
    }

    pub(crate) fn peer_of(&self, node: usize, other: usize) -> Option<Peer> {
        self.nodes[node].handles.get(other).copied().flatten()
    }

    /// Returns the host of all nodes.
    pub(crate) fn host(&self) -> &SimHost {
        &self.host
    }

    /// Sets whether the node's threads stand still.
    pub(crate) fn set_halted(&mut self, node: usize, halted: bool) {
        self.nodes[node].halted = halted;
    }

    /// Whether a peer's threads stand still. False for a crashed node, which is gone.
    pub(crate) fn is_halted(&self, node: usize, peer: Peer) -> bool {
        let other = self.check_peer(node, peer).map(|other| &self.nodes[other]);
        other.is_ok_and(|other| other.up && other.halted)
    }

    /// Lets time pass in which nothing happens.
    pub(crate) fn idle_until(&mut self, at: u64) {
        debug_assert!(self.queue.next_at().is_none_or(|next| next >= at));
        self.now = self.now.max(at);
    }

    /// Schedules a driver's event at `at`.
    pub(crate) fn drive(&mut self, at: u64, event: DriverEvent) {
        self.schedule(at, Event::Driver(event));
    }

    /// Applies the next event; returns `None` if none is left.
    pub(crate) fn step(&mut self) -> Option<NetworkStep> {
        let (at, event) = self.queue.pop()?;
        self.now = self.now.max(at);
        Some(match event {
            Event::Source { spot: transfer_ref, piece } => self.read_source(transfer_ref, piece),
            Event::Land { spot: transfer_ref, piece } => self.land(transfer_ref, piece),
            Event::Queue { spot: transfer_ref } => self.queue_for_egress(transfer_ref),
            Event::Depart { spot: transfer_ref } => self.depart(transfer_ref),
            Event::Ingress { spot: transfer_ref } => self.ingress(transfer_ref),
            Event::Control { from, to, plan } => self.deliver_control(from, to, plan),
            Event::Bell { from, to, hint } => self.hear_bell(from, to, hint),
            Event::Evidence { at, about, evidence, silence } => {
                self.deliver_evidence(at, about, evidence, silence)
            }
            Event::Driver(event) => NetworkStep::Driver(event),
        })
    }

    /// Adds a node; all nodes that are up learn of the new node, and the new node learns of them.
    pub(crate) fn add_node(&mut self) -> usize {
        let node = self.nodes.len();
        let id = u128::from(self.random.next_word()) << 64 | u128::from(self.random.next_word());
        self.nodes.push(NetworkNode {
            id: NodeId(id),
            up: true,
            halted: false,
            peers: Vec::new(),
            handles: Vec::new(),
            regions: BTreeMap::new(),
            inbox: VecDeque::new(),
            counters: LinkCounters::default(),
            reads: 0,
            reading: VecDeque::new(),
            egress_free_at: 0,
            ingress_free_at: 0,
            held_up_until: 0,
        });
        self.host.add_node();
        for node_state in &mut self.nodes {
            node_state.handles.resize(node + 1, None);
        }
        for from in 0..node {
            let channel = self.new_channel();
            self.channels[from].push(channel);
        }
        let row = (0..=node).map(|_| self.new_channel()).collect();
        self.channels.push(row);
        for other in (0..node).filter(|&other| self.nodes[other].up).collect::<Vec<_>>() {
            self.send_control(other, node, Control::Up);
            self.send_control(node, other, Control::Up);
        }
        node
    }

    fn new_channel(&mut self) -> Channel {
        let slow = match &self.mode {
            NetworkMode::Adversarial(adversary) => self.random.one_in(adversary.slow_pair_one_in),
            NetworkMode::Costed => false,
        };
        Channel { slow, ..Channel::default() }
    }

    pub(crate) fn open(
        &mut self,
        node: usize,
        region: RegionId,
        words: usize,
    ) -> Result<OwnRegion, LinkError> {
        self.check_up(node)?;
        let node_state = &mut self.nodes[node];
        if node_state.regions.contains_key(&region) {
            return Err(LinkError::RegionExists(region));
        }
        let own = OwnRegion::heap(words);
        // A read-only replica: the owner may give its own handle to a sender's memory, which
        // permits no other handle beside it.
        node_state.regions.insert(region, Some(own.replica()));
        for other in self.live_peers(node) {
            self.send_control(node, other, Control::Region(region, own.replica()));
        }
        Ok(own)
    }

    pub(crate) fn close(&mut self, node: usize, region: RegionId) -> Result<(), LinkError> {
        self.check_up(node)?;
        match self.nodes[node].regions.get_mut(&region) {
            Some(open @ Some(_)) => *open = None,
            _ => return Err(LinkError::NoRegion(region)),
        }
        for other in self.live_peers(node) {
            self.send_control(node, other, Control::Closed(region));
        }
        Ok(())
    }

    pub(crate) fn write(
        &mut self,
        node: usize,
        peer: Peer,
        region: RegionId,
        range: WordRange,
    ) -> Result<(), LinkError> {
        let to = self.check_peer(node, peer)?;
        let Some(Some(source)) = self.nodes[node].regions.get(&region).cloned() else {
            return Err(LinkError::NoRegion(region));
        };
        check_range(region, range, source.words())?;
        let channel = &self.channels[node][to];
        if !channel.ready.contains(&region) {
            return Err(LinkError::NotReady(peer, region));
        }
        // No target exists if the peer has crashed, or has given up this node.
        let target = channel.replicas.get(&region).and_then(|copy| copy.memory.clone());
        let counters = &mut self.nodes[node].counters;
        counters.writes += 1;
        counters.written_bytes += bytes_of(range);
        self.note_trace(&[1, node as u64, to as u64, region.0, range.first as u64]);
        // Where memory is shared, the peer has seen the words already.
        if let Some(target) = target {
            let transfer = Transfer::new(source, target, range, None);
            self.post_transfer(node, to, transfer);
        }
        Ok(())
    }

    pub(crate) fn read(
        &mut self,
        node: usize,
        peer: Peer,
        region: RegionId,
        range: WordRange,
    ) -> Result<ReadId, LinkError> {
        let owner = self.check_peer(node, peer)?;
        let channel = &self.channels[owner][node];
        let Some(RegionCopy { source, memory }) = channel.replicas.get(&region) else {
            return Err(LinkError::NoRegion(region));
        };
        let source = source.clone();
        check_range(region, range, source.words())?;
        // Where memory is shared, the words are here already, and the fetched ones are discarded.
        let target = memory.clone().unwrap_or_else(|| OwnRegion::heap(source.words()));
        let node_state = &mut self.nodes[node];
        let read = ReadId(node_state.reads);
        node_state.reads += 1;
        node_state.reading.push_back(PendingRead { read, owner, landed: false });
        node_state.counters.reads += 1;
        node_state.counters.read_bytes += bytes_of(range);
        self.note_trace(&[2, node as u64, owner as u64, region.0, range.first as u64]);
        if self.nodes[owner].up && !self.channels[node][owner].down {
            let transfer = Transfer::new(source, target, range, Some(read));
            self.post_transfer(owner, node, transfer);
        }
        Ok(read)
    }

    /// Returns the next event for a node's link.
    pub(crate) fn poll(&mut self, node: usize) -> Option<LinkEvent> {
        self.nodes[node].inbox.pop_front()
    }

    fn check_up(&self, node: usize) -> Result<(), LinkError> {
        if self.nodes[node].up {
            return Ok(());
        }
        let text = "this node has crashed or left: add a new node to the network instead";
        Err(LinkError::System(text.into()))
    }

    /// Returns the node behind a handle, if that peer is not known to be gone.
    fn check_peer(&self, node: usize, peer: Peer) -> Result<usize, LinkError> {
        self.check_up(node)?;
        match self.nodes[node].peers.get(peer.index()) {
            Some(&other) if !self.channels[other][node].down => Ok(other),
            _ => Err(LinkError::PeerGone(peer)),
        }
    }

    /// Returns the nodes that `node` knows and does not know to be gone.
    fn live_peers(&self, node: usize) -> Vec<usize> {
        let peers = &self.nodes[node].peers;
        peers.iter().copied().filter(|&other| !self.channels[other][node].down).collect()
    }

    fn schedule(&mut self, at: u64, event: Event) {
        // A turn sees everything that lands at its moment, and turns of one moment are ordered by
        // node, whenever they were planned: whether a thread polled or was woken must not matter.
        let rank = match event {
            Event::Driver(DriverEvent::Turn { node, thread, .. }) => {
                1 + ((node as u64) << 32) + thread as u64
            }
            _ => 0,
        };
        self.queue.push(at.max(self.now), rank, event);
    }

    fn tell(&mut self, node: usize, event: LinkEvent) {
        self.nodes[node].inbox.push_back(event);
    }

    fn handle(&self, node: usize, other: usize) -> Peer {
        self.peer_of(node, other).expect("events name only peers that are up here")
    }

    /// Adds an event to the trace.
    fn note_trace(&mut self, what: &[u64]) {
        let mut trace = mix(self.trace ^ self.now);
        for word in what {
            trace = mix(trace.rotate_left(1) ^ word);
        }
        self.trace = trace;
    }

    /// Draws an adversarial delay between two nodes.
    fn adverse_delay(&mut self, from: usize, to: usize) -> u64 {
        let NetworkMode::Adversarial(adversary) = &self.mode else { return 0 };
        let (low, high) = adversary.delay_ns;
        let mut delay = self.random.between(low, high);
        if self.random.one_in(adversary.heavy_one_in) {
            let doublings = self.random.between(0, u64::from(adversary.heavy_doublings.min(32)));
            delay = delay.saturating_mul(1 << doublings);
        }
        let channel = &self.channels[from][to];
        if channel.slow {
            delay = delay.saturating_mul(adversary.slow_factor);
        }
        match channel.hampered {
            Some(SlowDown { factor, later }) => {
                let later = self.random.between(0, later);
                delay.saturating_mul(factor).saturating_add(later)
            }
            None => delay,
        }
    }
}

fn check_range(region: RegionId, range: WordRange, words: usize) -> Result<(), LinkError> {
    match range.end() {
        Some(end) if end <= words => Ok(()),
        _ => Err(LinkError::OutOfRegion(region, range)),
    }
}

fn bytes_of(range: WordRange) -> u64 {
    (range.count * derecho_core::memory::WORD) as u64
}
