//! The participant's state machine: its part in the domain's group, and the matching of its readers
//! with all writers.
//!
//! Owns: the subscriptions of local readers to streams. Never does: block, or call an application.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use derecho_core::group::{Group, GroupEvent};
use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Arbiter, Interest, Link, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::membership::{ExitReason, View};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::node::{Node, NodeEvent, SubscriptionId};

use super::atomic::{AtomicTopics, announce, retract};
use super::builtin::RegisteredSink;
use super::discovery::Discovery;
use super::endpoint::Endpoint;
use super::ignored::IgnoredEntities;
use super::membership_state::{Life, MembershipSnapshot, MembershipState};
use super::partners::{MatchSide, MatchedPartners};
use super::past::{PastMessage, SharedPastRequests};
use super::shares::{
    EndpointRefusal, NewReader, NewWriter, ReaderShared, WriterMemory, WriterShared,
};
use super::topic_logs::TopicLogs;
use crate::infrastructure::status_board::StatusBoard;
use crate::infrastructure::{InstanceHandle, StorageStatus};

mod builtin;
mod introductions;
mod matching;
mod past;
mod policies;
mod priority_updates;
mod rejoin;
mod standstills;

pub(crate) use introductions::FoundTopic;
use matching::WriterSubscription;
pub(crate) use policies::policy_metadata_of;

/// Interval in nanoseconds between checks whether the application has released what keeps a
/// participant in a topic.
const LEAVE_INTERVAL: u64 = 10_000_000;

struct LocalReader {
    endpoint: Endpoint,
    shared: Arc<ReaderShared>,
    wants_history: bool,
    subscriptions: BTreeMap<SubscriptionId, WriterSubscription>,
    partners: MatchedPartners,
}

struct LocalWriter {
    endpoint: Endpoint,
    geometry: Geometry,
    /// Memory in which the writer writes in this life of the participant.
    memory: WriterMemory,
    shared: Arc<WriterShared>,
    partners: MatchedPartners,
}

/// See the [module](self).
pub(crate) struct ParticipantMachine {
    group: Group<Discovery>,
    membership: Arc<MembershipState>,
    host: Option<Arc<dyn Arbiter>>,
    life: Life,
    readers: BTreeMap<u64, LocalReader>,
    writers: BTreeMap<u64, LocalWriter>,
    /// Readers and writers by topic name.
    by_topic: BTreeMap<String, BTreeSet<u64>>,
    /// Status boards of topics, by topic name.
    topics: BTreeMap<String, Arc<StatusBoard>>,
    /// Local endpoints of which a match may have to be told, or to be told as lost.
    unsettled: BTreeSet<u64>,
    /// Endpoints whose topic is inconsistent with the topic of the same name here.
    inconsistent: BTreeSet<InstanceHandle>,
    priority_updates: priority_updates::PriorityUpdates,
    atomic: AtomicTopics,
    standstills: standstills::Standstills,
    /// Readers of builtin topics.
    sinks: BTreeMap<u64, RegisteredSink>,
    ignored: Arc<IgnoredEntities>,
    /// Whether those readers know facts from an earlier life.
    has_uncertain_facts: bool,
    peers: BTreeMap<NodeId, Peer>,
    /// Members of the view.
    members: Vec<NodeId>,
    next_endpoint: u64,
    /// Announcements of this participant and of its topics.
    own_announcements: introductions::OwnAnnouncements,
    leave_check_at: Option<Time>,
    /// Time at which waiting threads and tasks must check again, even without other events.
    alarm: Option<Time>,
    /// Number of tasks that wait for samples, or for readers to release samples.
    pub(crate) hints_wanted: usize,
    /// Time of the next check of writers' deadlines and leases.
    timeliness_check_at: Option<Time>,
    has_retired: bool,
    /// Whether all memory to which samples refer is private (I-335). Then no more turns follow.
    has_privatized: bool,
    leaves: bool,
    /// Endpoints of other participants' topics that must be logged here.
    to_log: Vec<Endpoint>,
    /// Whether some of those topics lacked memory for a log.
    lacks_memory: bool,
    /// Whether there are such endpoints. Shared with the thread that begins the logs.
    has_to_log: Arc<AtomicBool>,
    /// Requests for the history of topics.
    past: SharedPastRequests,
    /// Thread that ends the logs of a participant that is out for good.
    ending: Option<JoinHandle<()>>,
}

impl ParticipantMachine {
    pub(crate) fn new(
        group: Group<Discovery>,
        membership: Arc<MembershipState>,
        host: Option<Arc<dyn Arbiter>>,
        life: Life,
    ) -> Self {
        membership.set_snapshot(MembershipSnapshot::default());
        ParticipantMachine {
            group,
            membership,
            host,
            life,
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            by_topic: BTreeMap::new(),
            topics: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            inconsistent: BTreeSet::new(),
            priority_updates: priority_updates::PriorityUpdates::default(),
            atomic: AtomicTopics::default(),
            standstills: standstills::Standstills::default(),
            sinks: BTreeMap::new(),
            ignored: Arc::default(),
            has_uncertain_facts: false,
            peers: BTreeMap::new(),
            members: Vec::new(),
            next_endpoint: 1,
            own_announcements: introductions::OwnAnnouncements::default(),
            leave_check_at: None,
            alarm: None,
            hints_wanted: 0,
            timeliness_check_at: None,
            has_retired: false,
            has_privatized: false,
            leaves: false,
            to_log: Vec::new(),
            lacks_memory: false,
            has_to_log: Arc::default(),
            past: Arc::default(),
            ending: None,
        }
    }

    /// Keeps logs of the logged topics here.
    pub(crate) fn keep_logs(&mut self, logs: TopicLogs) {
        self.atomic.keep_logs(logs);
    }

    /// Ends the logs of a participant that is out for good, so that others may use its log folder.
    fn retire(&mut self) {
        if self.membership.is_out_for_good()
            && let Some(logs) = self.end_logs()
        {
            // Writing the remaining data may take time.
            self.ending = Some(std::thread::spawn(move || drop(logs)));
        }
    }

    /// The thread that ends the logs. The code that ends the participant waits for it. It ends
    /// within the time for which logs linger.
    pub(crate) fn take_ending(&mut self) -> Option<JoinHandle<()>> {
        self.ending.take()
    }

    /// Whether topics of other participants must be logged here. Then
    /// [`ParticipantMachine::log_topics`] must be called.
    pub(crate) fn has_to_log(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_to_log)
    }

    /// Joins the topics that must be logged here.
    pub(crate) fn log_topics(&mut self, link: &mut impl Link, effects: &mut Effects) {
        self.has_to_log.store(false, Ordering::Release);
        for endpoint in std::mem::take(&mut self.to_log) {
            if !self.atomic.log(&mut self.group, link, &endpoint, effects) {
                if !self.lacks_memory {
                    tracing::error!(topic = %endpoint.topic, "no memory for its log; will retry");
                }
                self.to_log.push(endpoint);
            }
        }
        // The calling thread retries after a while.
        self.lacks_memory = !self.to_log.is_empty();
        self.has_to_log.store(self.lacks_memory, Ordering::Release);
    }

    /// Storage status of a topic, as far as it is known here; `None` if the topic is not kept.
    pub(crate) fn storage(&mut self, key: u64) -> Option<StorageStatus> {
        self.atomic.storage(&self.group, key)
    }

    /// Names, types and storage statuses of the topics that are kept here.
    pub(crate) fn stored(&mut self) -> Vec<(String, String, StorageStatus)> {
        self.atomic.stored(&self.group)
    }

    fn look_for_logs(&mut self, node: NodeId, only: Option<u64>) {
        let of_it =
            self.group.state().of(node).filter(|(id, _)| only.is_none_or(|only| only == *id));
        let wanted = of_it.map(|(_, endpoint)| endpoint).filter(|it| self.atomic.wants(it));
        let wanted: Vec<Endpoint> = wanted.cloned().collect();
        if !wanted.is_empty() {
            self.to_log.extend(wanted);
            self.has_to_log.store(true, Ordering::Release);
        }
    }

    fn node(&mut self) -> &mut Node {
        self.group.node_mut()
    }

    /// Schedules a wake-up of the threads and tasks that wait for events, because entities have
    /// work at this time.
    pub(crate) fn alarm(&mut self, at: Time) {
        self.alarm = self.alarm.into_iter().chain([at]).min();
    }

    /// Publishes the view and the number of peers to threads that do not lock the machine.
    fn publish_membership(&self) {
        let view = self.group.view();
        let view = (view.number, view.members.len());
        self.membership.set_snapshot(MembershipSnapshot { view, peers: self.peers.len() });
    }

    /// Description of the machine's state, for diagnosis.
    pub(crate) fn describe(&self) -> String {
        let me = self.group.node().id();
        let (status, error) = (self.group.status(), self.group.founding_error());
        let error = error.map(|error| format!(" ({error})")).unwrap_or_default();
        format!("{me}: {status:?}{error}, {:?}, {}", self.peers, self.group.describe())
    }

    /// Replaces the memory of other participants by private memory where samples refer to it
    /// (I-335). No more samples are received.
    pub(crate) fn privatize(&mut self, effects: &mut Effects) {
        self.has_privatized = true;
        self.group.privatize(effects);
    }

    /// Starts leaving the domain. [`MembershipState`] shows when the participant has left.
    pub(crate) fn leave(&mut self) {
        self.leaves = true;
        self.group.leave();
    }

    /// Whether all readers have received everything that a writer wrote. The caller waits for that,
    /// so pending commits are sent in the next turn.
    pub(crate) fn is_acknowledged(&mut self, id: u64) -> bool {
        let Some(LocalWriter { endpoint, .. }) = self.writers.get(&id) else { return true };
        match endpoint.level.is_ordered() {
            true => self.atomic.is_acknowledged(&self.group, endpoint.key(), id),
            false => {
                let (node, stream) = (self.group.node(), RegionId(endpoint.stream));
                let is_acknowledged = node.is_acknowledged(stream);
                if !is_acknowledged {
                    node.hurry(stream);
                }
                is_acknowledged
            }
        }
    }

    /// Whether other writers of this participant continue to use a writer's stream after the
    /// writer's end.
    pub(crate) fn shares_stream(&self, id: u64) -> bool {
        self.writers.get(&id).is_some_and(|writer| {
            let of_stream = |other: &&LocalWriter| other.endpoint.stream == writer.endpoint.stream;
            writer.endpoint.level.is_ordered()
                && self.writers.values().filter(of_stream).count() > 1
        })
    }

    fn fresh_endpoint(&mut self) -> u64 {
        self.next_endpoint += 1;
        self.next_endpoint - 1
    }

    /// Checks an endpoint against this participant's endpoints of the same topic or order.
    fn check(&self, endpoint: &Endpoint) -> Result<(), EndpointRefusal> {
        if self.membership.is_out() {
            return Err(EndpointRefusal::Isolated);
        }
        policies::check_length(endpoint).map_err(EndpointRefusal::TooLarge)?;
        let readers = self.readers.values().map(|reader| &reader.endpoint);
        let own = readers.chain(self.writers.values().map(|writer| &writer.endpoint));
        let mut ordered = own.filter(|own| own.level.is_ordered() && endpoint.level.is_ordered());
        let contradiction = ordered.find_map(|known| match known.topic == endpoint.topic {
            true => known.contradicts(endpoint),
            false if known.order.common().is_some() && known.order == endpoint.order => {
                known.sharing_conflict(endpoint)
            }
            false => None,
        });
        // A topic that differs elsewhere under the same name is reported to both sides. A conflict
        // with another topic in the same order would be reported to nobody, so it is refused here.
        let elsewhere = || {
            let known = self.group.state().first_of(endpoint.key());
            known
                .filter(|it| it.order.common().is_some())
                .and_then(|it| it.sharing_conflict(endpoint))
        };
        let why = contradiction.or_else(elsewhere);
        why.map_or(Ok(()), |why| Err(EndpointRefusal::Mismatch(why)))
    }

    /// Adds a writer. Returns its id, and the memory in which it writes. All writers of one
    /// participant on an atomic topic share one memory.
    pub(crate) fn add_writer(
        &mut self,
        link: &mut impl Link,
        endpoint: Endpoint,
        geometry: Geometry,
        shared: Arc<WriterShared>,
        effects: &mut Effects,
    ) -> Result<(u64, WriterMemory), EndpointRefusal> {
        self.check(&endpoint)?;
        let id = self.fresh_endpoint();
        let new = NewWriter { id, endpoint, geometry, shared };
        Ok((id, self.create_writer(link, new, effects)?))
    }

    /// Adds a writer.
    fn create_writer(
        &mut self,
        link: &mut impl Link,
        mut new: NewWriter,
        effects: &mut Effects,
    ) -> Result<WriterMemory, EndpointRefusal> {
        let memory;
        if new.endpoint.level.is_ordered() {
            (new.endpoint, memory) =
                self.atomic.add_writer(&mut self.group, link, &new, effects)?;
        } else {
            let region = self.node().fresh_region();
            let own = link.open(region, new.geometry.words())?;
            memory = SenderMemory::new(own, new.geometry).with_barrier(link.barrier());
            new.endpoint.stream = region.0;
            self.node().add_stream(region, memory.clone(), effects);
            announce(&mut self.group, new.id, new.endpoint.clone());
        }
        let NewWriter { id, endpoint, geometry, shared } = new;
        self.by_topic.entry(endpoint.topic.clone()).or_default().insert(id);
        if shared.timeliness.is_kept() {
            self.schedule_timeliness();
        }
        let partners = MatchedPartners::new(MatchSide::Writer);
        let memory = WriterMemory { memory, bells: link.bells(), life: self.life };
        let own = memory.clone();
        let writer = LocalWriter { endpoint, geometry, memory: own, shared, partners };
        self.writers.insert(id, writer);
        self.match_own(id);
        Ok(memory)
    }

    pub(crate) fn remove_writer(&mut self, id: u64, effects: &mut Effects) {
        let Some(LocalWriter { endpoint, .. }) = self.writers.remove(&id) else { return };
        self.forget_name(&endpoint.topic, id);
        if endpoint.level.is_ordered() {
            let stand_in = self.fresh_endpoint();
            return self.atomic.remove(&mut self.group, endpoint.key(), id, stand_in, effects);
        }
        retract(&mut self.group, id);
        self.node().end_stream(RegionId(endpoint.stream), effects);
    }

    /// Adds a reader. Returns its id.
    pub(crate) fn add_reader(
        &mut self,
        link: &mut impl Link,
        endpoint: Endpoint,
        shared: Arc<ReaderShared>,
        wants_history: bool,
        effects: &mut Effects,
    ) -> Result<u64, EndpointRefusal> {
        self.check(&endpoint)?;
        *shared.life.lock().unwrap_or_else(PoisonError::into_inner) = self.life;
        let id = self.fresh_endpoint();
        let new = NewReader { id, endpoint, shared, wants_history };
        self.create_reader(link, new, effects)?;
        Ok(id)
    }

    /// Adds a reader.
    fn create_reader(
        &mut self,
        link: &mut impl Link,
        mut new: NewReader,
        effects: &mut Effects,
    ) -> Result<(), EndpointRefusal> {
        if new.endpoint.level.is_ordered() {
            new.endpoint = self.atomic.add_reader(&mut self.group, link, &new, effects)?;
        } else {
            announce(&mut self.group, new.id, new.endpoint.clone());
        }
        let NewReader { id, endpoint, shared, wants_history } = new;
        self.by_topic.entry(endpoint.topic.clone()).or_default().insert(id);
        let (subscriptions, partners) = (BTreeMap::new(), MatchedPartners::new(MatchSide::Reader));
        let reader = LocalReader { endpoint, shared, wants_history, subscriptions, partners };
        self.readers.insert(id, reader);
        self.match_own(id);
        Ok(())
    }

    fn forget_name(&mut self, topic: &str, id: u64) {
        if let Some(named) = self.by_topic.get_mut(topic) {
            named.remove(&id);
            if named.is_empty() {
                self.by_topic.remove(topic);
            }
        }
    }

    pub(crate) fn remove_reader(&mut self, id: u64, effects: &mut Effects) {
        self.sinks.remove(&id);
        let Some(reader) = self.readers.remove(&id) else { return };
        self.forget_name(&reader.endpoint.topic, id);
        if reader.endpoint.level.is_ordered() {
            let stand_in = self.fresh_endpoint();
            let key = reader.endpoint.key();
            return self.atomic.remove(&mut self.group, key, id, stand_in, effects);
        }
        retract(&mut self.group, id);
        for &subscription in reader.subscriptions.keys() {
            self.node().unsubscribe(subscription);
        }
    }

    fn handle_group_event(&mut self, event: GroupEvent, effects: &mut Effects) {
        match event {
            GroupEvent::Installed(view) => self.installed(&view),
            GroupEvent::Changed => self.discover(),
            GroupEvent::Out(reason) => {
                // If several participants leave at once, one of them may get no confirmation that
                // it has left.
                let reason = if self.leaves { ExitReason::Left } else { reason };
                self.membership.end_membership(self.life, reason);
                self.retire();
                match reason {
                    ExitReason::Left => tracing::debug!("this participant has left its domain"),
                    _ => tracing::error!(?reason, "this participant is isolated from its domain"),
                }
            }
            GroupEvent::Begun { key, subgroup, epoch, layout, .. } => {
                let domain = &mut self.group;
                self.atomic.epoch_begun(domain, key, subgroup, epoch, &layout, effects);
            }
            GroupEvent::Gathered { key } => self.atomic.readers_begun(&self.group, key),
            GroupEvent::Left { key } => self.atomic.left(&mut self.group, key, effects),
            GroupEvent::Stuck { wait, answer } => self.report_stuck(wait, answer),
            GroupEvent::Direct { from, bytes, .. } => match PastMessage::from_bytes(&bytes) {
                Some(message) => self.receive_past_message(from, message, effects),
                None => self.atomic.handle_direct_message(&mut self.group, from, &bytes),
            },
            GroupEvent::Node(event) if self.atomic.handle_stream_event(&event) => {}
            GroupEvent::Node(event) => self.take_in_from_node(event),
        }
    }

    /// Takes over a new view. Shuts out former members, even if they still run.
    fn installed(&mut self, view: &View) {
        self.publish_membership();
        self.membership.set_obstacle(None);
        self.membership.begin_membership(self.life, self.host.as_ref());
        self.past.retain(|node| view.rank_of(node).is_some());
        let members: Vec<NodeId> = view.members.iter().map(|member| member.node).collect();
        let before = std::mem::replace(&mut self.members, members);
        for node in before.into_iter().filter(|node| view.rank_of(*node).is_none()) {
            if let Some(&peer) = self.peers.get(&node) {
                self.node().shut_out(peer);
            }
        }
        // The endpoints of departed members are withdrawn.
        self.discover();
        if self.has_uncertain_facts {
            // A participant that founds a group receives no state, so old facts are withdrawn from
            // the readers of builtin topics.
            self.has_uncertain_facts = false;
            self.report_all();
        }
        // Announcements of departed members are no longer awaited.
        self.atomic.update_all_known(&self.group);
        tracing::debug!(
            view = view.number,
            members = view.members.len(),
            "view of the domain installed"
        );
    }

    fn take_in_from_node(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::PeerUp { peer, node } => {
                tracing::debug!(%node, "participant connected");
                self.peers.insert(node, peer);
                self.publish_membership();
                self.match_all_of(node);
            }
            NodeEvent::PeerDown { peer, node, evidence } => {
                tracing::debug!(%node, ?evidence, "participant disconnected");
                if self.peers.get(&node) == Some(&peer) {
                    self.peers.remove(&node);
                    self.publish_membership();
                }
            }
            NodeEvent::Readers { stream, .. } => {
                let of_it = |(_, writer): &(_, &LocalWriter)| writer.endpoint.stream == stream.0;
                self.unsettled.extend(self.writers.iter().find(of_it).map(|(id, _)| *id));
            }
            NodeEvent::Subscribed(subscription, inbox) => self.subscribed(subscription, inbox),
            NodeEvent::Lost(subscription, count) => self.count_lost(subscription, count),
            NodeEvent::Ended(subscription) => self.ended(subscription),
            NodeEvent::Faulty { peer, fault } => {
                let node = self.group.node().node_of(peer);
                let node = node.as_ref().map(NodeId::to_string).unwrap_or_default();
                tracing::error!(%node, %fault, "participant excluded: it broke the protocol");
            }
            NodeEvent::Announced { peer, .. } | NodeEvent::Retracted { peer, .. } => {
                tracing::warn!(?peer, "announcement without a local listener ignored");
            }
            // Events for the group.
            NodeEvent::Founded(_)
            | NodeEvent::Gathered { .. }
            | NodeEvent::Stalled(_)
            | NodeEvent::Begun { .. }
            | NodeEvent::Left(_)
            | NodeEvent::Told { .. } => {}
        }
    }
}

impl Machine for ParticipantMachine {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        self.group.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        if self.has_privatized || self.membership.is_over(self.life) {
            // Nothing is delivered and no changes are seen any more.
            self.privatize(effects);
            self.retire();
            // Waiting threads and tasks must notice this.
            return usize::from(!std::mem::replace(&mut self.has_retired, true));
        }
        let mut done = self.group.turn(now, effects);
        if self.group.view().number == 0 {
            self.membership.set_obstacle(self.group.founding_error());
        }
        while let Some(event) = self.group.next_event() {
            self.handle_group_event(event, effects);
            done += 1;
        }
        if self.has_priority_update() {
            self.update_priorities();
        }
        done += self.atomic.turn(&mut self.group, now, effects);
        if self.atomic.is_leaving() && self.leave_check_at.is_none_or(|at| done > 0 || now >= at) {
            self.leave_check_at = Some(now.after(LEAVE_INTERVAL));
            done += self.atomic.leave(&mut self.group, effects);
        }
        done += self.settle_matches();
        done += self.check_timeliness(now);
        self.check_standstills(now);
        done + usize::from(self.alarm.take_if(|at| now >= *at).is_some())
    }

    fn interest(&self) -> Interest {
        match self.hints_wanted > 0 || self.atomic.awaits_room() {
            true => Interest::Hints,
            false => self.group.interest(),
        }
    }

    fn awaits_others(&self) -> bool {
        self.group.awaits_others()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        if self.has_privatized || self.membership.is_over(self.life) {
            return None;
        }
        let look = self.leave_check_at.filter(|_| self.atomic.is_leaving());
        let kept = self.atomic.wants_turn_at();
        let own = look.into_iter().chain(kept).chain(self.alarm).chain(self.timeliness_check_at);
        self.group.wants_turn_at().into_iter().chain(own).min()
    }
}
