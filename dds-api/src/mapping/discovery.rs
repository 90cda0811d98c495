//! Mutual knowledge of all participants of a domain about their endpoints: the state that their
//! group replicates.
//!
//! Owns: the endpoints of all members, and the members of each ordered topic, which follow from
//! them. Never does: match a reader with a writer, or include an endpoint that its participant has
//! not announced.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use derecho_core::bytes::Wire;
use derecho_core::group::ReplicatedState;
use derecho_core::group::log_register::LogRegister;
use derecho_core::group::registry::{Layout, LayoutMember};
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::log::{LogId, StreamKey};
use derecho_core::membership::View;
use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_core::storage::log_election::LogElection;
use derecho_core::transfer::holders::Holders;

use super::announcement::Announcement;
use super::directory::Directory;
use super::endpoint::{Endpoint, EndpointKind};
use super::policies::EndpointPolicies;
use super::topic_endpoints::{Endpoints, ExcludedEndpoints, TopicEndpoints};
use super::topic_summary::TopicSummary;
use super::type_identity::{AnnouncedDescriptions, AnnouncedTypes};

mod kept;

/// Maximum number of endpoints of one participant. Further ones are ignored.
const MOST_ANNOUNCED: usize = 1 << 16;
/// Maximum number of ended writers of one participant whose offers are remembered: the latest ones.
const MOST_RETIRED: usize = 1 << 12;
/// Maximum number of such writers of all departed participants together.
const MOST_LEFT: usize = 1 << 10;
/// Lowest id of endpoints that stand for something other than a writer or reader.
pub(crate) const STAND_INS: u64 = 1 << 63;

/// Name of a topic in logs, by its key.
pub(crate) fn stream_of(key: u64) -> StreamKey {
    // Stream 0 is the log of views.
    StreamKey(u128::from(key) | 1 << 64)
}

/// A change of the discovery data.
#[derive(Debug)]
pub(crate) enum DiscoveryChange {
    /// An endpoint is new or has changed.
    Announced(NodeId, u64),
    /// An endpoint has ended; this is its last state.
    Retracted(NodeId, u64, Box<Endpoint>),
    /// A participant has announced itself, or is gone.
    Participant(NodeId),
    /// A participant's topic is new, has changed or has ended.
    Topic(NodeId, u64),
    /// Endpoints that were excluded from this order are part of it now.
    Admitted(u64),
    /// The whole state was replaced by a state transfer.
    Renewed,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Discovery {
    endpoints: Endpoints,
    /// The endpoints by topic name.
    names: BTreeMap<String, BTreeSet<(NodeId, u64)>>,
    /// The last endpoint that each participant has announced. Ids rise (I-170).
    latest: BTreeMap<NodeId, u64>,
    /// Ended writers of ordered topics whose offer was not the default of the topic (I-170).
    retired: Endpoints,
    /// Endpoints of each ordered topic.
    topics: TopicEndpoints,
    /// Holders of the kept samples of each topic that keeps samples.
    holders: BTreeMap<u64, Holders>,
    /// Participants that keep logs of each logged topic.
    logs: BTreeMap<u64, LogElection>,
    /// Members that keep logs, as replicated by the group.
    log_register: Option<LogRegister>,
    /// Announced types.
    types: AnnouncedTypes,
    /// Announced participants and topics.
    directory: Directory,
    /// Changes that the local participant has not taken yet.
    changes: RefCell<Vec<DiscoveryChange>>,
}

impl Discovery {
    /// The known types.
    pub(crate) fn types(&self) -> &AnnouncedTypes {
        &self.types
    }

    /// Announced participants and topics.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Changes since the last call.
    pub(crate) fn take_changes(&self) -> Vec<DiscoveryChange> {
        self.changes.take()
    }

    /// An endpoint.
    pub(crate) fn endpoint(&self, node: NodeId, id: u64) -> Option<&Endpoint> {
        self.endpoints.get(&node)?.get(&id)
    }

    /// The endpoints of one participant.
    pub(crate) fn of(&self, node: NodeId) -> impl Iterator<Item = (u64, &Endpoint)> {
        self.endpoints.get(&node).into_iter().flatten().map(|(id, endpoint)| (*id, endpoint))
    }

    /// The endpoints of topics of this name.
    pub(crate) fn of_topic(&self, topic: &str) -> impl Iterator<Item = (NodeId, u64)> {
        self.names.get(topic).into_iter().flatten().copied()
    }

    /// The topic of this name as described by its visible endpoints.
    pub(crate) fn topic_summary(
        &self,
        name: &str,
        is_seen: impl Fn(NodeId, u64, &str) -> bool,
    ) -> Option<TopicSummary> {
        let known = |(node, id)| {
            let endpoint = self.endpoint(node, id).filter(|_| is_seen(node, id, name))?;
            Some((endpoint, self.directory.topic_of(node, endpoint)))
        };
        let all = self.of_topic(name).filter_map(known);
        TopicSummary::of(all, |endpoint| self.types.find(&endpoint.data_type.digest))
    }

    /// All topics as described by their visible endpoints.
    pub(crate) fn topic_summaries(
        &self,
        is_seen: impl Fn(NodeId, u64, &str) -> bool,
    ) -> Vec<TopicSummary> {
        self.names.keys().filter_map(|name| self.topic_summary(name, &is_seen)).collect()
    }

    /// One of the endpoints in the order of this key.
    pub(crate) fn first_of(&self, key: u64) -> Option<&Endpoint> {
        self.topics.of(key).next().and_then(|(node, id)| self.endpoint(node, id))
    }

    /// Reason why an endpoint is excluded from an order because of another topic in that order;
    /// `None` if it is not.
    pub(crate) fn exclusion_by_other_topic(&self, node: NodeId, id: u64) -> Option<String> {
        let endpoint = self.endpoint(node, id)?;
        let key = endpoint.key();
        let is_others = |first: &&Endpoint| first.topic != endpoint.topic;
        self.first_of(key).filter(is_others)?;
        let is_left_out = self.topics.is_excluded(key, (node, id));
        is_left_out.then(|| self.topics.exclusion_reason(key, (node, id), &self.endpoints))?
    }

    /// The endpoints of an ordered topic of this kind.
    fn of_kind(
        &self,
        key: u64,
        kind: EndpointKind,
    ) -> impl Iterator<Item = (NodeId, u64, &Endpoint)> {
        let all = self.topics.of(key);
        let all = all.filter_map(|(node, id)| Some((node, id, self.endpoint(node, id)?)));
        all.filter(move |(_, _, endpoint)| endpoint.kind == kind)
    }

    /// The writers of an ordered topic, including ended writers whose offers are remembered.
    pub(crate) fn writers_once(&self, key: u64) -> impl Iterator<Item = (NodeId, u64, &Endpoint)> {
        let retired = each(&self.retired).filter(move |(_, _, endpoint)| endpoint.key() == key);
        self.writers_of(key).chain(retired)
    }

    /// The writers of an ordered topic.
    pub(crate) fn writers_of(&self, key: u64) -> impl Iterator<Item = (NodeId, u64, &Endpoint)> {
        self.of_kind(key, EndpointKind::Writer)
    }

    /// The readers of an ordered topic.
    pub(crate) fn readers_of(&self, key: u64) -> impl Iterator<Item = (NodeId, u64, &Endpoint)> {
        self.of_kind(key, EndpointKind::Reader)
    }

    /// The last endpoint that a participant has announced.
    pub(crate) fn latest(&self, node: NodeId) -> u64 {
        self.latest.get(&node).copied().unwrap_or(0)
    }

    /// All participants that have announced an endpoint.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.endpoints.keys().copied()
    }

    fn announced(&mut self, node: NodeId, id: u64, endpoint: Endpoint) -> Vec<u64> {
        let of_node = self.endpoints.entry(node).or_default();
        if of_node.len() >= MOST_ANNOUNCED && !of_node.contains_key(&id) {
            tracing::warn!(%node, "endpoint ignored: its participant announces too many");
            return Vec::new();
        }
        if id < STAND_INS {
            let latest = self.latest.entry(node).or_default();
            *latest = id.max(*latest);
        }
        let known = self.endpoint(node, id);
        let is_there = |known: &Endpoint| known.takes_part_as(&endpoint);
        if known.is_some_and(is_there) {
            // Only policies differ, so no endpoint's part in an order changes.
            self.endpoints.entry(node).or_default().insert(id, endpoint);
            return Vec::new();
        }
        let before = self.remove_endpoint(node, id).filter(|it| it.level.is_ordered());
        let mut changed: Vec<u64> = before.map(|it| it.key()).into_iter().collect();
        let (topic, is_ordered) = (endpoint.topic.clone(), endpoint.level.is_ordered());
        let key = endpoint.key();
        self.insert_endpoint(node, id, endpoint);
        if is_ordered {
            match self.topics.include(key, (node, id), &self.endpoints) {
                // The endpoint remains known to all, so that the owners of conflicting endpoints
                // are informed.
                Err(why) => {
                    tracing::warn!(%topic, why, "endpoint excluded from its topic's order for now");
                }
                Ok(()) if !changed.contains(&key) => changed.push(key),
                Ok(()) => {}
            }
        }
        changed.iter().for_each(|key| self.reevaluate_excluded(*key));
        changed
    }

    /// Re-evaluates the excluded endpoints and the holders of a key, after a change of
    /// its endpoints.
    fn reevaluate_excluded(&mut self, key: u64) {
        // Holders that are gone are removed before other endpoints begin.
        self.settle_holders(key);
        if self.topics.admit(key, &self.endpoints) {
            self.changes.get_mut().push(DiscoveryChange::Admitted(key));
            self.settle_holders(key);
        }
    }

    /// Adds an endpoint, without its part in an order.
    fn insert_endpoint(&mut self, node: NodeId, id: u64, endpoint: Endpoint) {
        self.names.entry(endpoint.topic.clone()).or_default().insert((node, id));
        self.endpoints.entry(node).or_default().insert(id, endpoint);
    }

    /// Removes an endpoint.
    fn remove_endpoint(&mut self, node: NodeId, id: u64) -> Option<Endpoint> {
        let endpoint = self.endpoints.get_mut(&node)?.remove(&id)?;
        if let Some(named) = self.names.get_mut(&endpoint.topic) {
            named.remove(&(node, id));
            if named.is_empty() {
                self.names.remove(&endpoint.topic);
            }
        }
        if endpoint.level.is_ordered() {
            self.topics.leave(endpoint.key(), (node, id));
        }
        Some(endpoint)
    }

    /// Removes an ended endpoint. Returns the keys of the ordered topics that change.
    fn retracted(&mut self, node: NodeId, id: u64) -> Vec<u64> {
        let Some(endpoint) = self.remove_endpoint(node, id) else { return Vec::new() };
        let changed: Vec<u64> =
            endpoint.level.is_ordered().then(|| endpoint.key()).into_iter().collect();
        changed.iter().for_each(|key| self.reevaluate_excluded(*key));
        // A type version that other endpoints of the topic do not have is not the default either.
        let is_of_all = || {
            self.topics.of(endpoint.key()).all(|(node, id)| {
                let of = |other: &Endpoint| {
                    other.topic != endpoint.topic
                        || other.data_type.digest == endpoint.data_type.digest
                };
                self.endpoint(node, id).is_none_or(of)
            })
        };
        let is_default =
            || *endpoint.policies == EndpointPolicies::offered(endpoint.level) && is_of_all();
        if endpoint.level.is_ordered() && endpoint.kind == EndpointKind::Writer && !is_default() {
            let retired = self.retired.entry(node).or_default();
            retired.insert(id, endpoint.clone());
            if retired.len() > MOST_RETIRED {
                retired.pop_first();
            }
        }
        self.changes.get_mut().push(DiscoveryChange::Retracted(node, id, Box::new(endpoint)));
        changed
    }
}

/// Each endpoint with its participant and id.
fn each(endpoints: &Endpoints) -> impl Iterator<Item = (NodeId, u64, &Endpoint)> {
    let all = endpoints.iter();
    all.flat_map(|(node, all)| all.iter().map(move |(id, endpoint)| (*node, *id, endpoint)))
}

impl Discovery {
    /// Forgets the offers of departed participants' writers if nobody has their topic any more, or
    /// if there are too many.
    fn forget_retired(&mut self, last: NodeId) {
        let is_gone = |node: &NodeId| !self.latest.contains_key(node);
        for (_, retired) in self.retired.iter_mut().filter(|(node, _)| is_gone(node)) {
            retired.retain(|_, endpoint| self.topics.has(endpoint.key()));
        }
        let of_gone = self.retired.iter().filter(|(node, _)| is_gone(node));
        let mut left: usize = of_gone.map(|(_, retired)| retired.len()).sum();
        // Any choice is correct, as long as all members choose the same.
        self.retired.retain(|node, retired| {
            let goes = left > MOST_LEFT && *node != last && is_gone(node);
            left -= if goes { retired.len() } else { 0 };
            !goes && !retired.is_empty()
        });
    }
}

impl ReplicatedState for Discovery {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u64> {
        match Announcement::from_bytes(message) {
            Some(Announcement::Endpoint(id, Some(endpoint))) => {
                let changed = self.announced(from, id, endpoint);
                self.changes.get_mut().push(DiscoveryChange::Announced(from, id));
                changed
            }
            Some(Announcement::Endpoint(id, None)) => self.retracted(from, id),
            Some(Announcement::Storage(key, motion)) => {
                self.apply_store_announcement(from, key, motion)
            }
            Some(Announcement::Type(part)) => {
                self.types.add_part(from, part);
                Vec::new()
            }
            Some(Announcement::Participant(data)) => {
                self.directory.introduced(from, data);
                self.changes.get_mut().push(DiscoveryChange::Participant(from));
                Vec::new()
            }
            Some(Announcement::Topic(id, Some(data))) => {
                self.directory.announced(from, id, data);
                self.changes.get_mut().push(DiscoveryChange::Topic(from, id));
                Vec::new()
            }
            Some(Announcement::Topic(id, None)) => {
                self.directory.retracted(from, id);
                self.changes.get_mut().push(DiscoveryChange::Topic(from, id));
                Vec::new()
            }
            None => {
                tracing::warn!(node = %from, "malformed announcement ignored");
                Vec::new()
            }
        }
    }

    fn forget(&mut self, node: NodeId) {
        let ids: Vec<u64> = self.of(node).map(|(id, _)| id).collect();
        for id in ids {
            self.retracted(node, id);
        }
        self.endpoints.remove(&node);
        self.latest.remove(&node);
        self.types.forget(node);
        let topics = self.directory.topics_of(node).into_iter();
        let changes = topics
            .map(|id| DiscoveryChange::Topic(node, id))
            .chain([DiscoveryChange::Participant(node)]);
        self.changes.get_mut().extend(changes);
        self.directory.forget(node);
        self.forget_retired(node);
    }

    fn required_logs(&self) -> BTreeSet<LogId> {
        let kept = |key| self.holders.get(key);
        let logs = self.logs.iter().filter_map(|(key, logs)| Some((logs, kept(key)?)));
        logs.flat_map(|(logs, holders)| logs.leans_on(holders)).collect()
    }

    fn note_logs(&mut self, log_register: &LogRegister) -> Vec<u64> {
        self.log_register = Some(log_register.clone());
        let keys: Vec<u64> = self.logs.keys().copied().collect();
        let waiting: Vec<u64> = keys.iter().copied().filter(|key| self.waits(*key)).collect();
        keys.into_iter().for_each(|key| self.settle_holders(key));
        // Their layouts have seats only from now on.
        waiting.into_iter().filter(|key| !self.waits(*key)).collect()
    }

    fn keys(&self) -> Vec<u64> {
        self.topics.keys().collect()
    }

    fn layout(&self, key: u64, view: &View) -> Layout {
        let mut seats: Vec<LayoutMember> = Vec::new();
        let waits = self.waits(key);
        for (node, id) in self.topics.of(key).filter(|_| !waits) {
            let Some(endpoint) = self.endpoint(node, id) else { continue };
            if view.rank_of(node).is_none() {
                continue;
            }
            let lines = RegionId(endpoint.lines);
            // A participant has one seat, independent of the number of its endpoints.
            if seats.last().is_none_or(|seat| seat.node != node) {
                seats.push(LayoutMember { node, reads: false, sends: None, lines });
            }
            let Some(seat) = seats.last_mut() else { continue };
            match endpoint.kind {
                EndpointKind::Writer => {
                    seat.sends = Some(RegionId(endpoint.stream));
                    // Writers keep samples as well, so that samples written before the first reader
                    // existed are available to late joiners.
                    seat.reads |= endpoint.level.is_kept();
                }
                EndpointKind::Reader | EndpointKind::Log => seat.reads = true,
                EndpointKind::FormerReader => {}
            }
        }
        Layout { level: DeliveryGuarantee::Atomic, members: seats }
    }

    fn snapshot(&self) -> Vec<u8> {
        let encoded = |endpoints| -> Vec<((NodeId, u64), Vec<u8>)> {
            let all = each(endpoints);
            all.map(|(node, id, endpoint)| ((node, id), endpoint.encode())).collect()
        };
        let storage = (self.holders.clone(), self.logs.clone());
        let past = (self.latest.clone(), encoded(&self.retired));
        let all = (encoded(&self.endpoints), self.topics.excluded().clone());
        let endpoints = (all, (past, (self.types.snapshot(), storage)));
        (endpoints, self.directory.snapshot()).to_bytes()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        type Storage = (BTreeMap<u64, Holders>, BTreeMap<u64, LogElection>);
        type Encoded = Vec<((NodeId, u64), Vec<u8>)>;
        type Past = (BTreeMap<NodeId, u64>, Encoded);
        type Of = ((Encoded, ExcludedEndpoints), (Past, (AnnouncedDescriptions, Storage)));
        let Some((of_endpoints, directory)) = <(Of, Vec<u8>)>::from_bytes(bytes) else {
            return false;
        };
        let ((all, left_out), ((latest, retired), (types, (holders, logs)))) = of_endpoints;
        let Some(directory) = Directory::restored(&directory) else { return false };
        self.directory = directory;
        self.types.restore(types);
        (self.endpoints, self.names, self.retired) = Default::default();
        for ((node, id), bytes) in retired {
            let Some(endpoint) = Endpoint::decode(&bytes) else { return false };
            self.retired.entry(node).or_default().insert(id, endpoint);
        }
        for ((node, id), bytes) in all {
            let Some(endpoint) = Endpoint::decode(&bytes) else { return false };
            self.insert_endpoint(node, id, endpoint);
        }
        self.topics = TopicEndpoints::restored(&self.endpoints, left_out);
        (self.holders, self.logs, self.latest) = (holders, logs, latest);
        *self.changes.get_mut() = [DiscoveryChange::Renewed].into();
        true
    }
}

#[cfg(test)]
mod tests;
