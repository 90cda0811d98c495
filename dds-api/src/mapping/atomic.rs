//! Topics whose samples come in one order: this participant's part in each of them.
//!
//! Owns: the participant's memberships in ordered topics, each from its first endpoint to its last.
//! Never does: decide who else is a member; that follows from the announcements.
//!
//! ```text
//!   first endpoint     opens lines, and memory for writers; shared with the group, then announced
//!   Begun              an epoch has begun: readers have queues, and know the senders
//!   last endpoint      retracted once no records are held any more; until then a stand-in exists
//!   Left               the memory is released; endpoints added meanwhile begin another membership
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::bytes::Wire;
use derecho_core::group::registry::Layout;
use derecho_core::group::report::StreamId;
use derecho_core::group::{Group, SubgroupRegions};
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::link::Link;
use derecho_core::machine::Effects;
use derecho_core::memory::{LINE_WORDS, OwnRegion};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::SUBGROUP_LINES;
use derecho_core::node::{PriorityTarget, StreamOrigin, SubgroupId};
use derecho_core::storage::store_set::{StoreSet, transfer_geometry};

use super::announcement::Announcement;
use super::discovery::Discovery;
use super::endpoint::{Endpoint, EndpointKind};
use super::ignored::IgnoredEntities;
use super::kept_replay::{GONE_SENDER, ReplayControl};
use super::level::{TopicLevel, TopicRetention};
use super::shares::{
    EndpointRefusal, NewReader, NewWriter, ReaderShared, ReaderSource, SourceId, WriterShared,
};
use super::topic_logs::TopicLogs;

mod kept;
mod known_endpoints;
mod logged;

/// Group of a domain.
pub(super) type DomainGroup = Group<Discovery>;

/// A local reader of the topic.
struct OrderedReader {
    shared: Arc<ReaderShared>,
    inbox: Option<Arc<Inbox>>,
    /// Replay of kept samples, until the reader has reached their end.
    replay: Option<ReplayControl>,
    /// Whether the reader wants samples that were kept before it joined.
    wants_history: bool,
}

/// Progress of a membership towards its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ExitPhase {
    /// The membership has endpoints.
    Active,
    /// The membership has no endpoints, but the application still holds samples. A stand-in with
    /// this id is announced.
    HoldingSamples(u64),
    /// All announcements are withdrawn, this id last. `true` once all members know that.
    Leaving(u64, bool),
}

/// A memory without writers. An epoch may still contain its stream.
struct OldMemory {
    region: RegionId,
    /// The writer that was deleted last, and whether all members know of its end. No epoch that
    /// begins after that contains this stream.
    last: u64,
    is_retracted: bool,
}

/// A participant's membership in the subgroup of a topic.
struct TopicMembership {
    lines: (RegionId, OwnRegion),
    memory: Option<(RegionId, SenderMemory)>,
    /// Memories without writers, as long as an epoch may contain their streams.
    old_memories: Vec<OldMemory>,
    /// Endpoints in their announced form.
    endpoints: BTreeMap<u64, Endpoint>,
    readers: BTreeMap<u64, OrderedReader>,
    writers: BTreeMap<u64, Arc<WriterShared>>,
    /// Whether the membership was announced to the group.
    announced: bool,
    exit: ExitPhase,
    subgroup: Option<SubgroupId>,
    /// Senders of all epochs so far, indexed by the queues' sender numbers.
    senders: Vec<StreamId>,
    /// Senders of the epoch.
    sending: Arc<[StreamId]>,
    /// Participants that read and are known to have begun this epoch, or an earlier one, as far as
    /// they are still members: all of them receive what is written from now on.
    begun: BTreeSet<NodeId>,
    /// Level of the topic, common to all its endpoints.
    level: TopicLevel,
    /// How samples of this topic are kept, if they are kept.
    retention: TopicRetention,
    /// Highest TRANSPORT_PRIORITY of the topic's writers, as far as it is known here.
    priority: i32,
}

/// This participant's memberships in ordered topics, by topic key. For each topic, the membership
/// that the group knows, and a next one that waits for its end.
#[derive(Default)]
pub(crate) struct AtomicTopics {
    memberships: BTreeMap<u64, VecDeque<TopicMembership>>,
    /// Whether a membership waits for a condition that no event reports.
    leaving: bool,
    /// Kept samples of topics.
    stores: StoreSet,
    /// Topics of which a reader has a queue, or an epoch has begun somewhere, since the last call
    /// of [`AtomicTopics::take_unsettled`].
    unsettled: BTreeSet<u64>,
    /// Topics with a reader that replays kept samples.
    replaying: BTreeSet<u64>,
    /// Logs of this participant, if it keeps any.
    logs: Option<TopicLogs>,
    /// Reused buffer for the topics with newly durable samples.
    newly_durable: Vec<u64>,
    /// Entities that this participant ignores.
    ignored: Arc<IgnoredEntities>,
}

impl AtomicTopics {
    /// The membership for an endpoint, which is begun if necessary; and whether it is the topic's
    /// first membership.
    fn membership(
        &mut self,
        domain: &mut DomainGroup,
        link: &mut impl Link,
        endpoint: &Endpoint,
        effects: &mut Effects,
    ) -> Result<(&mut TopicMembership, bool), EndpointRefusal> {
        let key = endpoint.key();
        if endpoint.level.is_kept() && !self.stores.has_stream() {
            let (region, geometry) = (domain.node_mut().fresh_region(), transfer_geometry());
            let memory = SenderMemory::new(link.open(region, geometry.words())?, geometry);
            self.stores.bring(domain, region, memory.with_barrier(link.barrier()), effects);
        }
        let memberships = self.memberships.entry(key).or_default();
        if memberships.back().is_none_or(|stay| !stay.accepts(endpoint)) {
            let region = domain.node_mut().fresh_region();
            let lines = link.open(region, SUBGROUP_LINES * LINE_WORDS)?;
            memberships.push_back(TopicMembership::new(region, lines, endpoint));
        }
        let is_first = memberships.len() == 1;
        Ok((memberships.back_mut().expect("last membership of the topic exists"), is_first))
    }

    /// Adds a writer. Returns its memory, which all local writers of this topic share.
    pub(super) fn add_writer(
        &mut self,
        domain: &mut DomainGroup,
        link: &mut impl Link,
        new: &NewWriter,
        effects: &mut Effects,
    ) -> Result<(Endpoint, SenderMemory), EndpointRefusal> {
        let (id, mut endpoint, geometry) = (new.id, new.endpoint.clone(), new.geometry);
        let fresh = domain.node_mut().fresh_region();
        let (membership, is_first) = self.membership(domain, link, &endpoint, effects)?;
        let (region, memory) = match membership.memory.clone() {
            Some(known) => known,
            None => {
                let memory = link.open(fresh, geometry.words())?;
                let memory = SenderMemory::with_nulls(memory, geometry);
                let memory = domain.node_mut().count_changes(memory.with_barrier(link.barrier()));
                membership.memory = Some((fresh, memory.clone()));
                (fresh, memory)
            }
        };
        (endpoint.stream, endpoint.lines) = (region.0, membership.lines.0.0);
        membership.writers.insert(id, Arc::clone(&new.shared));
        membership.add(domain, id, endpoint.clone(), is_first);
        self.keep(domain, &endpoint);
        Ok((endpoint, memory))
    }

    /// Adds a reader.
    pub(super) fn add_reader(
        &mut self,
        domain: &mut DomainGroup,
        link: &mut impl Link,
        new: &NewReader,
        effects: &mut Effects,
    ) -> Result<Endpoint, EndpointRefusal> {
        let (id, mut endpoint, key) = (new.id, new.endpoint.clone(), new.endpoint.key());
        let (membership, is_first) = self.membership(domain, link, &endpoint, effects)?;
        endpoint.lines = membership.lines.0.0;
        let (inbox, replay) = (None, None);
        let (shared, wants_history) = (Arc::clone(&new.shared), new.wants_history);
        membership.readers.insert(id, OrderedReader { shared, inbox, replay, wants_history });
        membership.add(domain, id, endpoint.clone(), is_first);
        self.keep(domain, &endpoint);
        self.update_known_endpoints(domain, key);
        self.connect(domain, key);
        Ok(endpoint)
    }

    /// Removes an endpoint. `stand_in` is the id of a stand-in for samples that the application
    /// still holds.
    pub(super) fn remove(
        &mut self,
        domain: &mut DomainGroup,
        key: u64,
        id: u64,
        stand_in: u64,
        effects: &mut Effects,
    ) {
        let Some(memberships) = self.memberships.get_mut(&key) else { return };
        let Some(index) =
            memberships.iter().position(|membership| membership.endpoints.contains_key(&id))
        else {
            return;
        };
        let membership = &mut memberships[index];
        membership.remove(domain, id, stand_in);
        if !membership.announced && membership.endpoints.is_empty() {
            // No member knows of the membership.
            memberships.remove(index).into_iter().for_each(|membership| membership.close(effects));
        }
        self.leaving = true;
    }

    /// Whether all readers have acknowledged everything that a writer wrote. The caller waits
    /// for that.
    pub(super) fn is_acknowledged(&mut self, domain: &DomainGroup, key: u64, id: u64) -> bool {
        let mut memberships = self.memberships.get(&key).into_iter().flatten();
        let Some(membership) = memberships.find(|stay| stay.writers.contains_key(&id)) else {
            return true;
        };
        let written = membership.memory.as_ref().map_or(0, |(_, memory)| memory.committed());
        let sends = |subgroup| {
            let mut senders = domain.node().senders(subgroup).into_iter();
            let region = membership.memory.as_ref().map(|(region, _)| *region);
            senders.any(|(_, origin, of)| origin == StreamOrigin::Own && Some(of) == region)
        };
        let is_acknowledged = match membership.subgroup {
            // Before the stream has begun in an epoch, no reader has received anything from it.
            Some(subgroup) if written > 0 && !sends(subgroup) => false,
            Some(subgroup) if membership.level.is_logged() && written > 0 => {
                domain.node().is_subgroup_acknowledged(subgroup) && self.stores.is_durable(key)
            }
            Some(subgroup) => domain.node().is_subgroup_acknowledged(subgroup),
            // Before the topic has begun here, no reader has received anything.
            None => written == 0,
        };
        if let Some((_, memory)) = membership.memory.as_ref().filter(|_| !is_acknowledged) {
            memory.hurry();
        }
        is_acknowledged
    }

    /// Handles the beginning of an epoch.
    pub(super) fn epoch_begun(
        &mut self,
        domain: &mut DomainGroup,
        key: u64,
        id: SubgroupId,
        epoch: u64,
        layout: &Layout,
        effects: &mut Effects,
    ) {
        let me = domain.node().id();
        let Some(membership) = self.memberships.get_mut(&key).and_then(VecDeque::front_mut) else {
            return;
        };
        self.stores.begun(domain, key, id, epoch, layout);
        membership.subgroup = Some(id);
        domain.node_mut().set_priority(PriorityTarget::Subgroup(id), membership.priority);
        membership.sending = layout.streams().collect();
        let reads = |node: &NodeId| layout.member(*node).is_some_and(|member| member.reads);
        membership.begun.retain(reads);
        membership.note_begun(domain);
        for (number, origin, region) in domain.node().senders(id) {
            let node = domain.node().node_at(origin);
            let number = usize::from(number);
            membership.senders.resize(membership.senders.len().max(number + 1), GONE_SENDER);
            membership.senders[number] = node.map_or(GONE_SENDER, |node| StreamId { node, region });
        }
        let ended = std::mem::take(&mut membership.old_memories).into_iter();
        let (needed, over) = ended.partition(|old| {
            let region = old.region;
            let announced = domain.state().of(me).any(|(_, endpoint)| endpoint.stream == region.0);
            !old.is_retracted || announced || domain.sends(key, region)
        });
        membership.old_memories = needed;
        let over: Vec<OldMemory> = over;
        over.into_iter().for_each(|old| effects.close(old.region));
        self.connect(domain, key);
    }

    /// Handles the report that more participants have begun the epoch.
    pub(super) fn readers_begun(&mut self, domain: &DomainGroup, key: u64) {
        let membership = self.memberships.get_mut(&key).and_then(VecDeque::front_mut);
        membership.into_iter().for_each(|membership| membership.note_begun(domain));
        self.unsettled.insert(key);
    }

    /// Handles the departure of this participant from a topic's subgroup.
    pub(super) fn left(&mut self, domain: &mut DomainGroup, key: u64, effects: &mut Effects) {
        let Some(memberships) = self.memberships.get_mut(&key) else { return };
        if let Some(over) = memberships.pop_front() {
            self.stores.left(key);
            over.close(effects);
        }
        match memberships.front_mut() {
            Some(next) => {
                next.begin(domain, key);
                // The samples kept in the earlier membership were dropped with it.
                let endpoint = next.endpoints.values().next().cloned();
                endpoint.into_iter().for_each(|endpoint| self.keep(domain, &endpoint));
            }
            None => drop(self.memberships.remove(&key)),
        }
    }

    /// Subgroup of a topic, once there is one.
    #[cfg(test)]
    pub(super) fn subgroup(&self, key: u64) -> Option<SubgroupId> {
        self.memberships.get(&key)?.front()?.subgroup
    }

    /// Sets the priority of a topic. Topics of higher priority are served first.
    pub(super) fn prioritize(&mut self, domain: &mut DomainGroup, key: u64, priority: i32) {
        let Some(membership) = self.memberships.get_mut(&key).and_then(VecDeque::front_mut) else {
            return;
        };
        membership.priority = priority;
        if let Some(id) = membership.subgroup {
            domain.node_mut().set_priority(PriorityTarget::Subgroup(id), priority);
        }
    }

    /// Handles the withdrawal of a local endpoint, once all members know of it.
    pub(super) fn retracted(&mut self, id: u64) {
        for membership in self.memberships.values_mut().filter_map(VecDeque::front_mut) {
            if let ExitPhase::Leaving(last, is_known) = &mut membership.exit {
                *is_known |= *last == id;
            }
            for old in membership.old_memories.iter_mut().filter(|old| old.last == id) {
                old.is_retracted = true;
            }
        }
    }

    /// Whether a membership waits for its end. The wait is checked periodically.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Advances memberships that wait for their end. Returns the number of steps taken.
    pub(super) fn leave(&mut self, domain: &mut DomainGroup, effects: &mut Effects) -> usize {
        let (mut done, mut leaving, mut over) = (0, false, Vec::new());
        for (&key, memberships) in &mut self.memberships {
            let Some(membership) = memberships.front_mut() else { continue };
            match membership.exit {
                ExitPhase::Active => continue,
                ExitPhase::HoldingSamples(stand_in) => {
                    if !membership.subgroup.is_some_and(|id| domain.node().holds(id)) {
                        retract(domain, stand_in);
                        (membership.exit, done) = (ExitPhase::Leaving(stand_in, false), done + 1);
                    }
                }
                ExitPhase::Leaving(_, is_known) => {
                    // The membership began and ended between two views: no epoch included it.
                    if is_known && !domain.is_in_subgroup(key) {
                        over.push(key);
                    }
                }
            }
            leaving = true;
        }
        self.leaving = leaving;
        for key in over {
            done += 1;
            self.left(domain, key, effects);
        }
        done
    }
}

impl TopicMembership {
    fn new(region: RegionId, lines: OwnRegion, endpoint: &Endpoint) -> TopicMembership {
        TopicMembership {
            lines: (region, lines),
            memory: None,
            old_memories: Vec::new(),
            endpoints: BTreeMap::new(),
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            announced: false,
            exit: ExitPhase::Active,
            subgroup: None,
            senders: Vec::new(),
            sending: Arc::new([]),
            begun: BTreeSet::new(),
            level: endpoint.level,
            retention: endpoint.retention,
            priority: 0,
        }
    }

    /// Whether an endpoint can join the membership. A membership that only holds samples takes no
    /// endpoint whose samples are kept in another way, although its own endpoints are gone.
    fn accepts(&self, endpoint: &Endpoint) -> bool {
        let is_alike = self.level == endpoint.level && self.retention == endpoint.retention;
        match self.exit {
            ExitPhase::Active => true,
            ExitPhase::HoldingSamples(_) => is_alike,
            ExitPhase::Leaving(..) => false,
        }
    }

    /// Adds an endpoint. It is announced now, or when the membership before this one is over.
    fn add(&mut self, domain: &mut DomainGroup, id: u64, endpoint: Endpoint, is_first: bool) {
        let key = endpoint.key();
        self.endpoints.insert(id, endpoint.clone());
        if self.announced {
            self.share_regions(domain, key);
            announce(domain, id, endpoint);
            if let ExitPhase::HoldingSamples(stand_in) = self.exit {
                retract(domain, stand_in);
                self.exit = ExitPhase::Active;
            }
        } else if is_first {
            self.begin(domain, key);
        }
    }

    fn share_regions(&self, domain: &mut DomainGroup, key: u64) {
        domain.add_regions(
            key,
            SubgroupRegions { lines: self.lines.clone(), memory: self.memory.clone() },
        );
    }

    /// Shares lines and memory with the group, and announces all endpoints.
    fn begin(&mut self, domain: &mut DomainGroup, key: u64) {
        self.share_regions(domain, key);
        self.announced = true;
        for (&id, endpoint) in &self.endpoints {
            announce(domain, id, endpoint.clone());
        }
    }

    fn remove(&mut self, domain: &mut DomainGroup, id: u64, stand_in: u64) {
        self.writers.remove(&id);
        if let Some(OrderedReader { inbox: Some(inbox), .. }) = self.readers.remove(&id)
            && let Some(subgroup) = self.subgroup
        {
            domain.node_mut().remove_subgroup_reader(subgroup, &inbox);
        }
        let Some(endpoint) = self.endpoints.remove(&id) else { return };
        if !self.announced {
            return;
        }
        if self.endpoints.is_empty() {
            // A member that leaves must not hold any records.
            self.exit = match self.subgroup.is_some_and(|id| domain.node().holds(id)) {
                true => {
                    let (stream, lines) = (endpoint.stream, endpoint.lines);
                    let reader = endpoint.stand_in(EndpointKind::FormerReader, stream, lines);
                    announce(domain, stand_in, reader);
                    ExitPhase::HoldingSamples(stand_in)
                }
                false => ExitPhase::Leaving(id, false),
            };
        }
        if self.writers.is_empty() {
            // The stream ends with its last writer. A later writer begins another stream.
            let old = |(region, _)| OldMemory { region, last: id, is_retracted: false };
            self.old_memories.extend(self.memory.take().map(old));
        }
        retract(domain, id);
    }

    /// Notes which participants are known to have begun.
    fn note_begun(&mut self, domain: &DomainGroup) {
        let (node, Some(subgroup)) = (domain.node(), self.subgroup) else { return };
        self.begun.extend(node.begun_readers(subgroup).filter_map(|it| node.node_at(it)));
    }

    /// Updates the senders that are known to the readers of a topic whose samples are kept.
    fn update_known_senders(&mut self) {
        if self.subgroup.is_none() {
            return;
        }
        let writers: Arc<[StreamId]> = self.senders.as_slice().into();
        for (&id, reader) in &self.readers {
            let shared = &reader.shared;
            let mut sources = shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
            let of_it = |source: &&mut ReaderSource| source.id == SourceId::Atomic(id);
            for source in sources.iter_mut().filter(of_it).filter(|source| !source.ended) {
                source.writers = Arc::clone(&writers);
            }
            drop(sources);
            shared.set_sending(&self.sending);
            shared.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether this participant continues to deliver without a break. It does not if it delivers
    /// only for endpoints that have ended: then an epoch in which it does not read follows, and the
    /// present readers begin with the epoch after that. In a kept subgroup writers read as well.
    fn continues_delivery(&self, domain: &DomainGroup, key: u64) -> bool {
        let announced = domain.state().of(domain.node().id());
        let is_for = |(id, _): (u64, &Endpoint)| match self.level.is_kept() {
            true => self.endpoints.contains_key(&id),
            false => self.readers.contains_key(&id),
        };
        domain.reads_on(key, domain.node().id()) && announced.into_iter().any(is_for)
    }

    /// Gives queues to the readers that have none, if this participant delivers, and updates the
    /// senders that are known to all readers.
    fn connect(&mut self, domain: &mut DomainGroup, key: u64) {
        let Some(subgroup) = self.subgroup else { return };
        let delivers_on = self.continues_delivery(domain, key);
        let writers: Arc<[StreamId]> = self.senders.as_slice().into();
        for (&reader, OrderedReader { shared, inbox, .. }) in &mut self.readers {
            let id = SourceId::Atomic(reader);
            let is_dead = |inbox: &Arc<Inbox>| !domain.node().has_subgroup_reader(subgroup, inbox);
            let life = *shared.life.lock().unwrap_or_else(PoisonError::into_inner);
            let mut sources = shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
            let of_it = |source: &&mut ReaderSource| source.id == id && !source.ended;
            if inbox.as_ref().is_some_and(is_dead) {
                // Delivery was interrupted for an epoch, so no more samples are added to
                // this queue.
                sources.iter_mut().filter(of_it).for_each(|source| source.ended = true);
                *inbox = None;
            }
            if inbox.is_none() && delivers_on {
                *inbox = domain.node_mut().add_subgroup_reader(subgroup);
            }
            let ended = false;
            if let Some(inbox) = inbox {
                let (writers, inbox) = (Arc::clone(&writers), Arc::clone(inbox));
                match sources.iter_mut().find(of_it) {
                    Some(source) => source.writers = writers,
                    None => {
                        let (ended_at, offset) = (0, 0);
                        let source =
                            ReaderSource { id, writers, inbox, ended, ended_at, life, offset };
                        sources.push(source);
                    }
                }
            }
            drop(sources);
            shared.set_sending(&self.sending);
            shared.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Releases the memory. The link keeps the parts to which others still refer.
    fn close(self, effects: &mut Effects) {
        effects.close(self.lines.0);
        let memory = self.memory.map(|(region, _)| region);
        let old = self.old_memories.into_iter().map(|old| old.region);
        old.chain(memory).for_each(|region| effects.close(region));
    }
}

/// Announces an endpoint to all members.
pub(super) fn announce(domain: &mut DomainGroup, id: u64, endpoint: Endpoint) {
    for part in domain.state().types().parts_to_announce(&endpoint.data_type) {
        domain.submit(&Announcement::Type(part).to_bytes());
    }
    domain.submit(&Announcement::Endpoint(id, Some(endpoint)).to_bytes());
}

/// Withdraws the announcement of an endpoint.
pub(super) fn retract(domain: &mut DomainGroup, id: u64) {
    domain.submit(&Announcement::Endpoint(id, None).to_bytes());
}
