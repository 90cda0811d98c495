//! Matching of this participant's readers and writers with all endpoints, including its own.
//!
//! ```text
//!   own endpoint made          compared with all announced endpoints
//!   endpoint announced         compared with all own endpoints of the topic; again after a change
//!   samples reach the reader   the match is told, if both are compatible (I-179)
//!   samples reach it no more   the match is told to be lost
//! ```
//! Owns: subscriptions to the streams of unordered topics, the knowledge of readers of ordered
//! topics about writers, and the statuses of matching. Never does: connect an ordered topic; its
//! subgroup does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::group::report::StreamId;
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::multicast::inbox::Inbox;
use derecho_core::node::{StreamOrigin, SubscriptionId};
use derecho_node::clock;

use super::{LocalReader, LocalWriter, ParticipantMachine};
use crate::infrastructure::InstanceHandle;
use crate::infrastructure::status::StatusKind;
use crate::infrastructure::status_board::StatusBoard;
use crate::mapping::discovery::DiscoveryChange;
use crate::mapping::endpoint::{Endpoint, EndpointKind};
use crate::mapping::kept_replay::GONE_SENDER;
use crate::mapping::partners::MatchOutcome;
use crate::mapping::shares::{ReaderSource, SourceId};
use crate::mapping::topic_summary::TopicSummary;
use crate::mapping::type_identity::AnnouncedTypes;

/// A reader's subscription to the stream of a writer on an unordered topic.
pub(super) struct WriterSubscription {
    pub(super) origin: StreamOrigin,
    pub(super) writer: u64,
    /// Whether the writer's participant counts the reader: the stream's samples come from now on.
    is_accepted: bool,
}

/// State of the match of a local endpoint with another one that it is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MatchService {
    /// Each sample that the writer writes from now on reaches the reader.
    Served,
    /// Samples may not reach the reader yet.
    Unserved,
    /// The other endpoint has ended, and nothing of it comes any more.
    Over,
}

impl ParticipantMachine {
    /// Handles the discovery changes of endpoints.
    pub(super) fn discover(&mut self) {
        self.atomic.changed(&mut self.group);
        let mut changed = BTreeSet::new();
        for change in self.group.state().take_changes() {
            self.report_change(&change);
            match change {
                DiscoveryChange::Announced(node, id) => {
                    changed.extend(self.match_with(node, id));
                    self.report_exclusion(node, id);
                    self.look_for_logs(node, Some(id));
                }
                DiscoveryChange::Retracted(node, id, endpoint) => {
                    changed.extend(endpoint.level.is_ordered().then(|| endpoint.key()));
                    self.end_matches(node, id, &endpoint);
                }
                DiscoveryChange::Admitted(key) => changed.extend([key]),
                DiscoveryChange::Participant(_) | DiscoveryChange::Topic(..) => {}
                DiscoveryChange::Renewed => {
                    self.match_anew();
                    let nodes: Vec<NodeId> = self.group.state().nodes().collect();
                    nodes.into_iter().for_each(|node| self.look_for_logs(node, None));
                }
            }
        }
        changed.into_iter().for_each(|key| self.atomic.update_known_endpoints(&self.group, key));
    }

    /// Matches all endpoints again, after a complete state transfer.
    fn match_anew(&mut self) {
        self.unsettled.extend(self.readers.keys().chain(self.writers.keys()));
        let all: Vec<Endpoint> = self.readers.values().map(|it| it.endpoint.clone()).collect();
        all.iter().for_each(|endpoint| self.schedule_priority_update(endpoint));
        let state = self.group.state();
        let nodes: Vec<NodeId> = state.nodes().collect();
        let readers: Vec<u64> = self.readers.keys().copied().collect();
        readers.into_iter().for_each(|reader| self.add_departed_writers(reader));
        nodes.into_iter().for_each(|node| self.match_all_of(node));
        self.atomic.update_all_known(&self.group);
    }

    /// Matches the local endpoints with all endpoints of a participant.
    pub(super) fn match_all_of(&mut self, node: NodeId) {
        let ids: Vec<u64> = self.group.state().of(node).map(|(id, _)| id).collect();
        for id in ids {
            self.match_with(node, id);
        }
    }

    /// Matches a new or changed local endpoint with all endpoints of its topic.
    pub(super) fn match_own(&mut self, own: u64) {
        let Some(endpoint) = self.own(own).cloned() else { return };
        let me = self.group.node().id();
        self.add_departed_writers(own);
        self.schedule_priority_update(&endpoint);
        // This participant's endpoints may not have been announced yet.
        for other in self.own_of(&endpoint.topic) {
            let Some(there) = self.own(other).cloned() else { continue };
            self.match_pair(own, InstanceHandle { node: me, entity: other }, &there);
            self.match_pair(other, InstanceHandle { node: me, entity: own }, &endpoint);
        }
        let named: Vec<(NodeId, u64)> = self.group.state().of_topic(&endpoint.topic).collect();
        for (node, id) in named.into_iter().filter(|(node, _)| *node != me) {
            let there = self.group.state().endpoint(node, id).cloned();
            let other = InstanceHandle { node, entity: id };
            there.into_iter().for_each(|there| self.match_pair(own, other, &there));
        }
        self.settle_matches();
    }

    /// Adds departed writers, whose samples may remain in a topic's order, to a reader's knowledge.
    fn add_departed_writers(&mut self, own: u64) {
        let Some(reader) = self.readers.get(&own).filter(|it| it.endpoint.level.is_ordered())
        else {
            return;
        };
        let state = self.group.state();
        // Kept samples may come from writers of which nothing else is known.
        let layouts = state.types().layouts(&reader.endpoint.data_type.digest);
        layouts.into_iter().for_each(|layout| reader.shared.layouts.learn(layout));
        state
            .writers_once(reader.endpoint.key())
            .for_each(|(_, _, writer)| reader.prepare_for(writer, state.types()));
    }

    /// An endpoint of this participant.
    pub(super) fn own(&self, id: u64) -> Option<&Endpoint> {
        let reader = self.readers.get(&id).map(|reader| &reader.endpoint);
        reader.or_else(|| self.writers.get(&id).map(|writer| &writer.endpoint))
    }

    /// This participant's endpoints of topics of this name.
    fn own_of(&self, topic: &str) -> Vec<u64> {
        self.by_topic.get(topic).into_iter().flatten().copied().collect()
    }

    /// Matches the local endpoints with an endpoint. Returns the key of its topic if that
    /// is ordered.
    fn match_with(&mut self, node: NodeId, id: u64) -> Option<u64> {
        let endpoint = self.group.state().endpoint(node, id)?;
        let own = self.own_of(&endpoint.topic);
        let key = endpoint.level.is_ordered().then(|| endpoint.key());
        if !own.is_empty() {
            let endpoint = endpoint.clone();
            let other = InstanceHandle { node, entity: id };
            own.into_iter().for_each(|own| self.match_pair(own, other, &endpoint));
        }
        key
    }

    /// Matches a local endpoint with another one, if one of them is a reader and the other one
    /// a writer.
    fn match_pair(&mut self, own: u64, partner: InstanceHandle, other: &Endpoint) {
        self.schedule_priority_update(other);
        if self.is_hidden(partner, &other.topic) {
            return self.unmatch_ignored(own, partner);
        }
        let outcome = if let Some(reader) = self.readers.get_mut(&own)
            && other.kind == EndpointKind::Writer
        {
            let verdict = reader.endpoint.matches(other, self.group.state().types());
            let outcome = reader.partners.judge(&reader.shared.board, partner, other, verdict);
            if let MatchOutcome::Inconsistent(why) = &outcome {
                reader.shared.refuse(why);
            }
            reader.prepare_for(other, self.group.state().types());
            if !other.level.is_ordered() && !reader.endpoint.level.is_ordered() {
                self.subscribe(own, partner, RegionId(other.stream));
            }
            outcome
        } else if let Some(writer) = self.writers.get_mut(&own)
            && other.kind == EndpointKind::Reader
        {
            let verdict = other.matches(&writer.endpoint, self.group.state().types());
            writer.partners.judge(&writer.shared.board, partner, other, verdict)
        } else {
            return;
        };
        self.unsettled.insert(own);
        if let MatchOutcome::Inconsistent(why) = outcome {
            self.inconsistent(&other.topic, partner, why);
        }
    }

    /// Unmatches a local endpoint from an ignored one. Queued samples of an ignored writer remain
    /// unread.
    fn unmatch_ignored(&mut self, own: u64, partner: InstanceHandle) {
        let subscription = self.subscription(own, partner);
        if let Some(writer) = self.writers.get_mut(&own) {
            writer.partners.remove(&writer.shared.board, partner);
        } else if let Some(reader) = self.readers.get_mut(&own) {
            let was_matched = reader.partners.has(partner);
            reader.partners.remove(&reader.shared.board, partner);
            if let Some(subscription) = subscription {
                reader.end(subscription);
                reader.shared.drop_source(SourceId::Stream(subscription));
                self.group.node_mut().unsubscribe(subscription);
            }
            // Comes last: the reader accepts no samples of the writer from then on.
            if was_matched {
                reader.shared.ignore_writer(partner);
            }
        }
    }

    /// A reader's subscription to a writer's stream, if it has one.
    fn subscription(&self, reader: u64, writer: InstanceHandle) -> Option<SubscriptionId> {
        let origin = match writer.node == self.group.node().id() {
            true => StreamOrigin::Own,
            false => StreamOrigin::Peer(*self.peers.get(&writer.node)?),
        };
        self.readers.get(&reader)?.subscription_to(origin, writer.entity)
    }

    /// Reports an endpoint whose topic is inconsistent with the topic of the same name here.
    fn inconsistent(&mut self, topic: &str, partner: InstanceHandle, why: String) {
        if !self.inconsistent.insert(partner) {
            return;
        }
        tracing::warn!(%why, "topic is inconsistent with another participant's");
        if let Some(board) = self.topics.get(topic) {
            board.note(StatusKind::InconsistentTopic, |all| {
                all.inconsistent_topic.count(1);
                all.inconsistent_topic.last_reason = Some(why);
            });
        }
    }

    /// Reports a local endpoint that is excluded from an order because of another topic. No pair of
    /// a writer and a reader would report that.
    fn report_exclusion(&mut self, node: NodeId, id: u64) {
        if node == self.group.node().id()
            && let Some(why) = self.group.state().exclusion_by_other_topic(node, id)
            && let Some(topic) = self.own(id).map(|endpoint| endpoint.topic.clone())
        {
            self.inconsistent(&topic, InstanceHandle { node, entity: id }, why);
        }
    }

    /// The topic of this name as seen by this participant.
    pub(crate) fn topic_summary(&self, name: &str) -> Option<TopicSummary> {
        self.group.state().topic_summary(name, self.sees())
    }

    /// All topics as seen by this participant.
    pub(crate) fn topic_summaries(&self) -> Vec<TopicSummary> {
        self.group.state().topic_summaries(self.sees())
    }

    fn sees(&self) -> impl Fn(NodeId, u64, &str) -> bool {
        |node, entity, topic| !self.is_hidden(InstanceHandle { node, entity }, topic)
    }

    /// Status board of a topic of this name.
    pub(crate) fn topic_board(&mut self, topic: &str) -> Arc<StatusBoard> {
        // Nobody reads the statuses of a topic to which no handle is left.
        self.topics.retain(|name, board| Arc::strong_count(board) > 1 || name == topic);
        Arc::clone(self.topics.entry(topic.to_owned()).or_default())
    }

    /// Handles the end of an endpoint.
    fn end_matches(&mut self, node: NodeId, id: u64, endpoint: &Endpoint) {
        self.inconsistent.remove(&InstanceHandle { node, entity: id });
        self.schedule_priority_update(endpoint);
        for own in self.by_topic.get(&endpoint.topic).into_iter().flatten() {
            if let Some(reader) = self.readers.get(own) {
                // The endpoint may have been announced, have written and have ended since the
                // last check.
                reader.prepare_for(endpoint, self.group.state().types());
            }
            self.unsettled.insert(*own);
        }
        match node == self.group.node().id() {
            true => self.atomic.retracted(id),
            false => self.withdrawn(node, id),
        }
    }

    /// Handles the withdrawal of a writer of another participant. A stream that is being read shows
    /// its end by itself; a stream that never appeared does not.
    fn withdrawn(&mut self, node: NodeId, id: u64) {
        let Some(&peer) = self.peers.get(&node) else { return };
        let origin = StreamOrigin::Peer(peer);
        let of_it = self.readers.values().filter_map(|it| it.subscription_to(origin, id));
        let node = self.group.node_mut();
        of_it.for_each(|subscription| node.withdrawn(subscription));
    }

    /// Subscribes a matched reader to a writer's stream, or ends the subscription if they are no
    /// longer matched.
    fn subscribe(&mut self, reader: u64, writer: InstanceHandle, stream: RegionId) {
        let (node, id) = (writer.node, writer.entity);
        let origin = match node == self.group.node().id() {
            true => StreamOrigin::Own,
            // A writer of a participant that is not connected yet is matched after the connection.
            false => match self.peers.get(&node) {
                Some(&peer) => StreamOrigin::Peer(peer),
                None => return,
            },
        };
        let entity = reader;
        let Some(reader) = self.readers.get_mut(&reader) else { return };
        match (reader.partners.has(writer), reader.subscription_to(origin, id)) {
            (true, None) => {
                let node = self.group.node_mut();
                // RELIABILITY: the writer does not wait for best-effort readers.
                let subscription = match reader.endpoint.policies.is_best_effort() {
                    true => node.subscribe_untethered(origin, stream, entity),
                    false => node.subscribe(origin, stream, entity),
                };
                match subscription {
                    Some(subscription) => {
                        let new = WriterSubscription { origin, writer: id, is_accepted: false };
                        reader.subscriptions.insert(subscription, new);
                    }
                    None => tracing::error!(
                        topic = %reader.endpoint.topic,
                        "writer not matched: this participant has the maximum of matched writers"
                    ),
                }
            }
            (false, Some(subscription)) => {
                self.group.node_mut().unsubscribe(subscription);
                reader.end(subscription);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    pub(super) fn subscribed(&mut self, subscription: SubscriptionId, inbox: Arc<Inbox>) {
        let mut readers = self.readers.iter();
        let found = readers.find_map(|(id, reader)| {
            let WriterSubscription { origin, writer, .. } =
                reader.subscriptions.get(&subscription)?;
            Some((*id, *origin, *writer))
        });
        let Some((reader, origin, writer)) = found else { return };
        let me = self.group.node().id();
        let node = self.group.node().node_at(origin).unwrap_or(me);
        // A writer of this participant may not be announced yet.
        let own = || self.writers.get(&writer).filter(|_| node == me).map(|it| &it.endpoint);
        let endpoint = self.group.state().endpoint(node, writer).or_else(own);
        let region = endpoint.map(|it| RegionId(it.stream));
        let writer = StreamId { node, region: region.unwrap_or(GONE_SENDER.region) };
        let id = SourceId::Stream(subscription);
        let (writers, life) = (Arc::new([writer]), self.life);
        let (ended, ended_at, offset) = (false, 0, 0);
        let source = ReaderSource { id, writers, inbox, ended, ended_at, life, offset };
        self.unsettled.insert(reader);
        let Some(LocalReader { shared, subscriptions, .. }) = self.readers.get_mut(&reader) else {
            return;
        };
        subscriptions.entry(subscription).and_modify(|it| it.is_accepted = true);
        shared.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
        shared.changes.fetch_add(1, Ordering::Release);
    }

    /// Counts samples lost by a reader for which the writer does not wait.
    pub(super) fn count_lost(&self, subscription: SubscriptionId, count: u64) {
        let reader = self.readers.values().find(|r| r.subscriptions.contains_key(&subscription));
        if let Some(reader) = reader {
            let board = &reader.shared.board;
            board.note(StatusKind::SampleLost, |all| all.sample_lost.count(count));
        }
    }

    pub(super) fn ended(&mut self, subscription: SubscriptionId) {
        let mut readers = self.readers.iter_mut();
        let found = readers.find(|(_, it)| it.subscriptions.contains_key(&subscription));
        if let Some((id, reader)) = found {
            reader.end(subscription);
            self.unsettled.insert(*id);
        }
    }
}

impl ParticipantMachine {
    /// Tells each match that has come about or is lost: the only place at which matches are told
    /// (I-179). Returns the number of them.
    pub(super) fn settle_matches(&mut self) -> usize {
        self.unsettled.append(&mut self.atomic.take_unsettled());
        let mut told = 0;
        while let Some(own) = self.unsettled.pop_first() {
            let services = self.services(own);
            let (partners, board) = if let Some(writer) = self.writers.get_mut(&own) {
                (&mut writer.partners, &writer.shared.board)
            } else if let Some(reader) = self.readers.get_mut(&own) {
                (&mut reader.partners, &reader.shared.board)
            } else {
                continue;
            };
            for (partner, service) in services {
                let is_served = service == MatchService::Served;
                told += usize::from(partners.serve(board, partner, is_served));
                if service == MatchService::Over {
                    partners.remove(board, partner);
                }
            }
        }
        told
    }

    /// State of each match of a local endpoint.
    fn services(&self, own: u64) -> Vec<(InstanceHandle, MatchService)> {
        if let Some(writer) = self.writers.get(&own) {
            return self.services_of_writer(own, writer);
        }
        match self.readers.get(&own) {
            Some(reader) if reader.endpoint.level.is_ordered() => {
                self.services_of_ordered_reader(own, reader)
            }
            Some(reader) => self.services_of_unordered_reader(reader),
            None => Vec::new(),
        }
    }

    /// Whether an endpoint exists. This participant's endpoints may not have been announced yet.
    fn exists(&self, endpoint: InstanceHandle) -> bool {
        let InstanceHandle { node, entity } = endpoint;
        let is_own = || node == self.group.node().id() && self.own(entity).is_some();
        self.group.state().endpoint(node, entity).is_some() || is_own()
    }

    fn services_of_writer(
        &self,
        own: u64,
        LocalWriter { endpoint, partners, .. }: &LocalWriter,
    ) -> Vec<(InstanceHandle, MatchService)> {
        let (mut nodes, mut readers) = (BTreeSet::new(), BTreeSet::new());
        match endpoint.level.is_ordered() {
            true => nodes = self.atomic.reached_by(&self.group, endpoint.key(), own),
            false => {
                let served = self.group.node().served(RegionId(endpoint.stream));
                readers.extend(served.filter_map(|(origin, entity)| {
                    Some(InstanceHandle { node: self.group.node().node_at(origin)?, entity })
                }));
            }
        }
        let (me, key) = (self.group.node().id(), endpoint.key());
        // A reader of this participant may come after the participant has begun to read.
        let has_queue = |reader: InstanceHandle| {
            reader.node != me || !self.atomic.received_by(key, reader.entity).is_empty()
        };
        let service = |(reader, _): (InstanceHandle, RegionId)| {
            let is_reached = nodes.contains(&reader.node) && has_queue(reader);
            let is_served = is_reached || readers.contains(&reader);
            match self.exists(reader) {
                true if is_served => (reader, MatchService::Served),
                true => (reader, MatchService::Unserved),
                false => (reader, MatchService::Over),
            }
        };
        partners.known().map(service).collect()
    }

    /// A writer that has ended is matched until its stream has ended, because its samples may still
    /// come.
    fn services_of_unordered_reader(
        &self,
        LocalReader { partners, subscriptions, .. }: &LocalReader,
    ) -> Vec<(InstanceHandle, MatchService)> {
        let subscriptions = subscriptions.values();
        let accepted =
            subscriptions.filter_map(|WriterSubscription { origin, writer, is_accepted }| {
                let writer =
                    InstanceHandle { node: self.group.node().node_at(*origin)?, entity: *writer };
                Some((writer, *is_accepted))
            });
        let accepted: BTreeMap<InstanceHandle, bool> = accepted.collect();
        let service = |(writer, _): (InstanceHandle, RegionId)| match accepted.get(&writer) {
            Some(true) => (writer, MatchService::Served),
            None if !self.exists(writer) => (writer, MatchService::Over),
            Some(false) | None => (writer, MatchService::Unserved),
        };
        partners.known().map(service).collect()
    }

    /// The last writer of a stream is matched until its stream has left the order, because its
    /// samples may still come. Any other writer that has ended is lost at once.
    fn services_of_ordered_reader(
        &self,
        own: u64,
        LocalReader { endpoint, partners, .. }: &LocalReader,
    ) -> Vec<(InstanceHandle, MatchService)> {
        let key = endpoint.key();
        let received = self.atomic.received_by(key, own);
        let service = |(writer, region): (InstanceHandle, RegionId)| {
            let stream = StreamId { node: writer.node, region };
            let has_other_writers = || {
                let mut writers = self.group.state().writers_of(key);
                writers
                    .any(|(node, _, it)| stream == StreamId { node, region: RegionId(it.stream) })
            };
            match (self.exists(writer), received.contains(&stream)) {
                (true, true) => (writer, MatchService::Served),
                (true, false) => (writer, MatchService::Unserved),
                (false, true) if !has_other_writers() => (writer, MatchService::Served),
                (false, _) => (writer, MatchService::Over),
            }
        };
        partners.known().map(service).collect()
    }
}

impl LocalReader {
    /// The subscription to a writer's stream, if there is one.
    fn subscription_to(&self, origin: StreamOrigin, writer: u64) -> Option<SubscriptionId> {
        let mut all = self.subscriptions.iter();
        let of_it = |it: &WriterSubscription| (it.origin, it.writer) == (origin, writer);
        all.find(|(_, it)| of_it(it)).map(|(&subscription, _)| subscription)
    }

    /// Prepares the reader for a writer's records before the first one arrives. A topic's order
    /// contains samples of all versions of its type. Samples of writers whose type the reader does
    /// not understand are left out (I-173). If a writer's values have another memory layout, the
    /// announced layout is used to read them (I-174).
    fn prepare_for(&self, writer: &Endpoint, types: &AnnouncedTypes) {
        let (ours, theirs) = (&self.endpoint.data_type, &writer.data_type);
        if writer.kind != EndpointKind::Writer || ours.mark() == theirs.mark() {
            return;
        }
        let is_understood = self.endpoint.type_conflict(writer, types).is_none();
        match theirs.evolves {
            true if writer.level.is_ordered() && !is_understood => {
                self.shared.refuse_mark(theirs.mark());
            }
            false if is_understood => {
                types.layout(theirs).into_iter().for_each(|it| self.shared.layouts.learn(it));
            }
            _ => {}
        }
    }

    /// Ends a subscription. No more samples are added to the queue.
    fn end(&mut self, subscription: SubscriptionId) {
        self.subscriptions.remove(&subscription);
        let mut sources = self.shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let of_it = |s: &&mut ReaderSource| s.id == SourceId::Stream(subscription) && !s.ended;
        let source = sources.iter_mut().find(of_it);
        if let Some(source) = source {
            (source.ended, source.ended_at) = (true, clock::wall(clock::now()));
            self.shared.changes.fetch_add(1, Ordering::Release);
        }
    }
}
