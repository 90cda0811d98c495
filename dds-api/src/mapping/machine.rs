//! The participant's machine: the node, and the matching of its readers with everyone's writers.
//!
//! Owns: which local reader is subscribed to which stream. Never does: block, or call an
//! application.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::LinkEvent;
use derecho_core::machine::{Effects, Machine};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::node::{Node, NodeEvent, Origin, SubscriptionId};

use super::endpoint::{Endpoint, EndpointKind, Match};

/// Writers that one participant may announce. It is left out with whatever comes beyond that.
const MOST_ANNOUNCED: usize = 1 << 16;

/// What a reader shares with the machine.
#[derive(Default)]
pub(crate) struct ReaderShared {
    /// The queues of the writers that it is matched with.
    pub(crate) sources: Mutex<Vec<ReaderSource>>,
    /// Counts changes of `sources`, so that a reader takes its lock only after one.
    pub(crate) changes: AtomicU64,
    /// Writers that it is matched with.
    pub(crate) matched: AtomicU32,
    /// Writers of the same topic that it cannot be matched with.
    pub(crate) inconsistent: AtomicU32,
}

/// One writer, as a reader sees it.
#[derive(Clone)]
pub(crate) struct ReaderSource {
    pub(crate) subscription: SubscriptionId,
    pub(crate) writer: NodeId,
    pub(crate) inbox: Arc<Inbox>,
    /// The writer is gone: what is queued is the last of it.
    pub(crate) ended: bool,
}

/// What a writer shares with the machine.
#[derive(Default)]
pub(crate) struct WriterShared {
    /// Readers that it is matched with.
    pub(crate) matched: AtomicU32,
}

struct LocalReader {
    endpoint: Endpoint,
    shared: Arc<ReaderShared>,
    subscriptions: BTreeMap<SubscriptionId, (Origin, u64)>,
}

struct LocalWriter {
    endpoint: Endpoint,
    shared: Arc<WriterShared>,
}

/// See the [module](self).
pub(crate) struct ParticipantMachine {
    node: Node,
    readers: BTreeMap<u64, LocalReader>,
    writers: BTreeMap<u64, LocalWriter>,
    /// Writers that peers have announced.
    remote: BTreeMap<Peer, BTreeMap<u64, Endpoint>>,
    peers: BTreeMap<Peer, NodeId>,
    next_endpoint: u64,
}

impl ParticipantMachine {
    pub(crate) fn new(node: Node) -> Self {
        ParticipantMachine {
            node,
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            remote: BTreeMap::new(),
            peers: BTreeMap::new(),
            next_endpoint: 1,
        }
    }

    pub(crate) fn fresh_region(&mut self) -> RegionId {
        self.node.fresh_region()
    }

    /// How many other participants there are.
    pub(crate) fn peer_count(&self) -> usize {
        self.peers.len()
    }

    /// Whether every reader has received all that a writer wrote.
    pub(crate) fn is_acknowledged(&self, writer: u64) -> bool {
        let stream = self.writers.get(&writer).map(|writer| RegionId(writer.endpoint.stream));
        stream.is_none_or(|stream| self.node.is_acknowledged(stream))
    }

    fn fresh_endpoint(&mut self) -> u64 {
        self.next_endpoint += 1;
        self.next_endpoint - 1
    }

    /// Adds a writer whose stream lies in its region. Returns its id.
    pub(crate) fn add_writer(
        &mut self,
        endpoint: Endpoint,
        memory: SenderMemory,
        shared: Arc<WriterShared>,
        effects: &mut Effects,
    ) -> u64 {
        let id = self.fresh_endpoint();
        let stream = RegionId(endpoint.stream);
        self.node.add_stream(stream, memory, effects);
        self.node.announce(id, endpoint.encode(), effects);
        for reader in self.readers.values_mut() {
            subscribe(&mut self.node, reader, Origin::Own, id, &endpoint);
        }
        self.writers.insert(id, LocalWriter { endpoint, shared });
        id
    }

    pub(crate) fn remove_writer(&mut self, id: u64, effects: &mut Effects) {
        if let Some(writer) = self.writers.remove(&id) {
            self.node.retract(id, effects);
            self.node.end_stream(RegionId(writer.endpoint.stream), effects);
        }
    }

    /// Adds a reader. Returns its id.
    pub(crate) fn add_reader(
        &mut self,
        endpoint: Endpoint,
        shared: Arc<ReaderShared>,
        effects: &mut Effects,
    ) -> u64 {
        let id = self.fresh_endpoint();
        self.node.announce(id, endpoint.encode(), effects);
        let mut reader = LocalReader { endpoint, shared, subscriptions: BTreeMap::new() };
        for (&writer, local) in &self.writers {
            subscribe(&mut self.node, &mut reader, Origin::Own, writer, &local.endpoint);
        }
        for (&peer, announced) in &self.remote {
            for (&writer, endpoint) in announced {
                subscribe(&mut self.node, &mut reader, Origin::Peer(peer), writer, endpoint);
            }
        }
        self.readers.insert(id, reader);
        id
    }

    pub(crate) fn remove_reader(&mut self, id: u64, effects: &mut Effects) {
        if let Some(reader) = self.readers.remove(&id) {
            self.node.retract(id, effects);
            for &subscription in reader.subscriptions.keys() {
                self.node.unsubscribe(subscription);
            }
        }
    }

    fn take_in(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::PeerUp { peer, node } => {
                tracing::debug!(%node, "a participant is there");
                self.peers.insert(peer, node);
            }
            NodeEvent::PeerDown { peer, node, evidence } => {
                tracing::debug!(%node, ?evidence, "a participant is gone");
                self.peers.remove(&peer);
                self.remote.remove(&peer);
            }
            NodeEvent::Announced { peer, id, bytes } => self.announced(peer, id, &bytes),
            NodeEvent::Retracted { peer, id } => {
                if let Some(announced) = self.remote.get_mut(&peer) {
                    announced.remove(&id);
                }
            }
            NodeEvent::Readers { stream, count } => {
                let mut writers = self.writers.values();
                if let Some(writer) = writers.find(|writer| writer.endpoint.stream == stream.0) {
                    writer.shared.matched.store(count as u32, Ordering::Release);
                }
            }
            NodeEvent::Subscribed(subscription, inbox) => self.subscribed(subscription, inbox),
            NodeEvent::Ended(subscription) => self.ended(subscription),
            NodeEvent::Founded(_) | NodeEvent::Gathered { .. } | NodeEvent::Wedged(_) => {}
            NodeEvent::Faulty { peer, fault } => {
                let node = self.peers.get(&peer).map(NodeId::to_string).unwrap_or_default();
                tracing::error!(%node, %fault, "a participant broke the protocol and is left out");
                self.remote.remove(&peer);
            }
        }
    }

    fn announced(&mut self, peer: Peer, id: u64, bytes: &[u8]) {
        let Some(endpoint) = Endpoint::decode(bytes) else {
            tracing::warn!(?peer, "an announcement makes no sense and is left out");
            return;
        };
        if endpoint.kind == EndpointKind::Reader {
            return;
        }
        let announced = self.remote.entry(peer).or_default();
        if announced.len() >= MOST_ANNOUNCED {
            tracing::warn!(?peer, "a participant announces too many writers; the rest is left out");
            return;
        }
        for reader in self.readers.values_mut() {
            subscribe(&mut self.node, reader, Origin::Peer(peer), id, &endpoint);
        }
        announced.insert(id, endpoint);
    }

    fn subscribed(&mut self, subscription: SubscriptionId, inbox: Arc<Inbox>) {
        let reader = self.readers.values().find(|r| r.subscriptions.contains_key(&subscription));
        let Some(reader) = reader else { return };
        let writer = match reader.subscriptions[&subscription].0 {
            Origin::Own => self.node.id(),
            Origin::Peer(peer) => self.peers.get(&peer).copied().unwrap_or(self.node.id()),
        };
        let source = ReaderSource { subscription, writer, inbox, ended: false };
        reader.shared.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
        reader.shared.changes.fetch_add(1, Ordering::Release);
        reader.shared.matched.fetch_add(1, Ordering::Release);
    }

    fn ended(&mut self, subscription: SubscriptionId) {
        let readers = &mut self.readers;
        let reader = readers.values_mut().find(|r| r.subscriptions.contains_key(&subscription));
        let Some(reader) = reader else { return };
        reader.subscriptions.remove(&subscription);
        let mut sources = reader.shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let source = sources.iter_mut().find(|source| source.subscription == subscription);
        if let Some(source) = source {
            source.ended = true;
            reader.shared.matched.fetch_sub(1, Ordering::Release);
            reader.shared.changes.fetch_add(1, Ordering::Release);
        }
    }
}

/// Subscribes a reader to a writer if the two match.
fn subscribe(
    node: &mut Node,
    reader: &mut LocalReader,
    origin: Origin,
    id: u64,
    writer: &Endpoint,
) {
    match reader.endpoint.matches(writer) {
        Match::OtherTopic => {}
        Match::Inconsistent(why) => {
            tracing::warn!(%why, "a writer and a reader of one topic cannot be matched");
            reader.shared.inconsistent.fetch_add(1, Ordering::Release);
        }
        Match::Yes if reader.subscriptions.values().any(|&known| known == (origin, id)) => {}
        Match::Yes => match node.subscribe(origin, RegionId(writer.stream)) {
            Some(subscription) => {
                reader.subscriptions.insert(subscription, (origin, id));
            }
            None => tracing::error!(
                topic = %writer.topic,
                "this participant is matched with as many writers as it can be"
            ),
        },
    }
}

impl Machine for ParticipantMachine {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        self.node.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        let mut done = self.node.turn(now, effects);
        while let Some(event) = self.node.next_event() {
            self.take_in(event);
            done += 1;
        }
        done
    }

    fn wants_turn_at(&self) -> Option<Time> {
        self.node.wants_turn_at()
    }
}
