//! The participant's machine: the node, and the matching of its readers with everyone's writers.
//!
//! Owns: which local reader is subscribed to which stream. Never does: block, or call an
//! application.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Interest, Link, LinkError, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::LINE_WORDS;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::node::{Node, NodeEvent, Origin, SubgroupId, SubscriptionId};

use super::endpoint::{Endpoint, EndpointKind, Match};
use super::group::Group;

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
    /// Its topic's order has ended: a participant is gone without whom nothing can be agreed on.
    pub(crate) broken: AtomicBool,
}

/// One writer, or all writers of an ordered topic, as a reader sees them.
#[derive(Clone)]
pub(crate) struct ReaderSource {
    pub(crate) id: SourceId,
    /// Who sends what is in the queue, by the queue's numbers for them.
    pub(crate) writers: Arc<[NodeId]>,
    pub(crate) inbox: Arc<Inbox>,
    /// The writer is gone: what is queued is the last of it.
    pub(crate) ended: bool,
}

/// Where a queue comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceId {
    /// A stream of one writer.
    Stream(SubscriptionId),
    /// The order of a topic, for the reader of this number.
    Group(u64),
}

/// Why an endpoint of an ordered topic was not made.
pub(crate) enum Refusal {
    /// The link has no memory for it.
    Link(LinkError),
    /// It does not go with what is there.
    Mismatch(String),
}

impl From<LinkError> for Refusal {
    fn from(error: LinkError) -> Refusal {
        Refusal::Link(error)
    }
}

/// What a writer shares with the machine.
#[derive(Default)]
pub(crate) struct WriterShared {
    /// Readers that it is matched with.
    pub(crate) matched: AtomicU32,
    /// Its topic's order has ended: a participant is gone without whom nothing can be agreed on.
    pub(crate) broken: AtomicBool,
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
    /// Memberships in ordered topics, by topic.
    groups: BTreeMap<String, Group>,
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
            groups: BTreeMap::new(),
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
        let Some(writer) = self.writers.get(&writer) else { return true };
        if writer.endpoint.founders.is_ordered() {
            let group = self.groups.get(&writer.endpoint.topic);
            // Before the topic has begun nobody has received anything.
            let subgroup = group.and_then(Group::subgroup);
            return subgroup.is_some_and(|subgroup| self.node.is_subgroup_acknowledged(subgroup));
        }
        self.node.is_acknowledged(RegionId(writer.endpoint.stream))
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

    /// This participant's membership in an ordered topic, made if need be.
    fn group(
        &mut self,
        link: &mut impl Link,
        endpoint: &Endpoint,
        ablation: Ablation,
    ) -> Result<&mut Group, Refusal> {
        if !self.groups.contains_key(&endpoint.topic) {
            let founders = endpoint.founders;
            let (region, members) = (self.node.fresh_region(), founders.writers + founders.readers);
            let lines = (region, link.open(region, members as usize * LINE_WORDS)?);
            let group = Group::new(endpoint.clone(), founders, lines, ablation);
            self.groups.insert(endpoint.topic.clone(), group);
        }
        let group = self.groups.get_mut(&endpoint.topic).expect("it was just made");
        group.check(endpoint).map_err(Refusal::Mismatch)?;
        if group.is_late(endpoint.kind) {
            return Err(Refusal::Mismatch(format!(
                "topic `{}` has begun without this participant's {}: make all of its endpoints \
                 before the others are there, or make it for more participants",
                endpoint.topic,
                match endpoint.kind {
                    EndpointKind::Writer => "writer",
                    EndpointKind::Reader => "reader",
                }
            )));
        }
        Ok(group)
    }

    /// Adds a writer of an ordered topic. Returns its id, and the memory that it shares with the
    /// topic's other writers of this participant.
    pub(crate) fn add_group_writer(
        &mut self,
        link: &mut impl Link,
        mut endpoint: Endpoint,
        (geometry, ablation): (Geometry, Ablation),
        shared: Arc<WriterShared>,
        effects: &mut Effects,
    ) -> Result<(u64, SenderMemory), Refusal> {
        let id = self.fresh_endpoint();
        let fresh = self.node.fresh_region();
        let known = self.group(link, &endpoint, ablation)?.memory().cloned();
        let (region, memory) = match known {
            Some(known) => known,
            None => {
                let memory = link.open(fresh, geometry.words())?;
                let memory = SenderMemory::with_nulls(memory, geometry);
                (fresh, self.node.count_changes(memory.with_barrier(link.barrier())))
            }
        };
        let group = self.group(link, &endpoint, ablation)?;
        group.add_writer(id, Arc::clone(&shared), (region, memory.clone()));
        (endpoint.stream, endpoint.lines) = (region.0, group.lines().0);
        self.node.announce(id, endpoint.encode(), effects);
        let topic = endpoint.topic.clone();
        self.writers.insert(id, LocalWriter { endpoint, shared });
        self.try_found(&topic, effects);
        Ok((id, memory))
    }

    /// Adds a reader of an ordered topic. Returns its id.
    pub(crate) fn add_group_reader(
        &mut self,
        link: &mut impl Link,
        mut endpoint: Endpoint,
        ablation: Ablation,
        shared: Arc<ReaderShared>,
        effects: &mut Effects,
    ) -> Result<u64, Refusal> {
        let id = self.fresh_endpoint();
        let lines = self.group(link, &endpoint, ablation)?.lines();
        endpoint.lines = lines.0;
        self.node.announce(id, endpoint.encode(), effects);
        let topic = endpoint.topic.clone();
        if let Some(group) = self.groups.get_mut(&topic) {
            group.add_reader(id, Arc::clone(&shared), &mut self.node);
        }
        let subscriptions = BTreeMap::new();
        self.readers.insert(id, LocalReader { endpoint, shared, subscriptions });
        self.try_found(&topic, effects);
        Ok(id)
    }

    fn try_found(&mut self, topic: &str, effects: &mut Effects) {
        let ParticipantMachine { groups, node, peers, remote, .. } = self;
        if let Some(group) = groups.get_mut(topic) {
            group.try_found(node, peers, remote, effects);
        }
    }

    fn group_of(&mut self, subgroup: SubgroupId) -> Option<(&mut Group, &mut Node)> {
        let group = self.groups.values_mut().find(|group| group.subgroup() == Some(subgroup));
        group.map(|group| (group, &mut self.node))
    }

    pub(crate) fn remove_writer(&mut self, id: u64, effects: &mut Effects) {
        if let Some(writer) = self.writers.remove(&id) {
            if let Some(group) = self.groups.get_mut(&writer.endpoint.topic) {
                // The participant stays a member, silent, for the others cannot go on without it.
                group.remove(id, &mut self.node);
                return;
            }
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
            if let Some(group) = self.groups.get_mut(&reader.endpoint.topic) {
                group.remove(id, &mut self.node);
                return;
            }
            self.node.retract(id, effects);
            for &subscription in reader.subscriptions.keys() {
                self.node.unsubscribe(subscription);
            }
        }
    }

    fn take_in(&mut self, event: NodeEvent, effects: &mut Effects) {
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
            NodeEvent::Announced { peer, id, bytes } => self.announced(peer, id, &bytes, effects),
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
            NodeEvent::Founded(subgroup) => {
                if let Some((group, node)) = self.group_of(subgroup) {
                    group.founded(node);
                }
            }
            NodeEvent::Gathered { subgroup, readers, .. } => {
                if let Some((group, _)) = self.group_of(subgroup) {
                    group.gathered(readers);
                }
            }
            NodeEvent::Begun { .. } | NodeEvent::Left(_) => {}
            NodeEvent::Stalled(subgroup) => {
                if let Some((group, _)) = self.group_of(subgroup) {
                    group.wedged();
                }
            }
            NodeEvent::Told { peer, .. } => {
                tracing::warn!(?peer, "a participant tells what nobody here listens to");
            }
            NodeEvent::Faulty { peer, fault } => {
                let node = self.peers.get(&peer).map(NodeId::to_string).unwrap_or_default();
                tracing::error!(%node, %fault, "a participant broke the protocol and is left out");
                self.remote.remove(&peer);
            }
        }
    }

    fn announced(&mut self, peer: Peer, id: u64, bytes: &[u8], effects: &mut Effects) {
        let Some(endpoint) = Endpoint::decode(bytes) else {
            tracing::warn!(?peer, "an announcement makes no sense and is left out");
            return;
        };
        let ordered = endpoint.founders.is_ordered();
        if endpoint.kind == EndpointKind::Reader && !ordered {
            return;
        }
        let announced = self.remote.entry(peer).or_default();
        if announced.len() >= MOST_ANNOUNCED {
            tracing::warn!(?peer, "a participant announces too many writers; the rest is left out");
            return;
        }
        if endpoint.kind == EndpointKind::Writer {
            for reader in self.readers.values_mut() {
                subscribe(&mut self.node, reader, Origin::Peer(peer), id, &endpoint);
            }
        }
        let topic = endpoint.topic.clone();
        announced.insert(id, endpoint);
        if ordered {
            self.try_found(&topic, effects);
        }
    }

    fn subscribed(&mut self, subscription: SubscriptionId, inbox: Arc<Inbox>) {
        let reader = self.readers.values().find(|r| r.subscriptions.contains_key(&subscription));
        let Some(reader) = reader else { return };
        let writer: NodeId = match reader.subscriptions[&subscription].0 {
            Origin::Own => self.node.id(),
            Origin::Peer(peer) => self.peers.get(&peer).copied().unwrap_or(self.node.id()),
        };
        let id = SourceId::Stream(subscription);
        let source = ReaderSource { id, writers: Arc::new([writer]), inbox, ended: false };
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
        let source = sources.iter_mut().find(|s| s.id == SourceId::Stream(subscription));
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
        // Its topic's subgroup brings it.
        Match::Yes if writer.founders.is_ordered() => {}
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
            self.take_in(event, effects);
            done += 1;
        }
        done
    }

    fn interest(&self) -> Interest {
        self.node.interest()
    }

    fn awaits_others(&self) -> bool {
        self.node.awaits_others()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        self.node.wants_turn_at()
    }
}
