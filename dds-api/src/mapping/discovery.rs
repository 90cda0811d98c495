//! What all participants of a domain know of each other's endpoints: the state that their group replicates.
//!
//! Owns: the endpoints of all members, and who takes part in which atomic topic, which follows from them.
//! Never does: match a reader with a writer, or speak of an endpoint that its participant has not announced.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use derecho_core::bytes::Wire;
use derecho_core::group::State;
use derecho_core::group::book::Book;
use derecho_core::group::registry::{Layout, Seat};
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::log::{LogId, StreamKey};
use derecho_core::membership::View;
use derecho_core::multicast::subgroup::Level;
use derecho_core::storage::holders::Holders;
use derecho_core::storage::logbook::LogBook;

use super::announcement::Announcement;
use super::directory::Directory;
use super::endpoint::{Endpoint, EndpointKind};
use super::participation::{Endpoints, LeftOut, Participation};
use super::policies::Policies;
use super::sight::Sight;
use super::type_identity::{AllTold, Types};

mod kept;

/// Endpoints that one participant may announce. It is left out with whatever comes beyond that.
const MOST_ANNOUNCED: usize = 1 << 16;
/// Writers that are no more, and of which it is remembered what they offered, of one participant: the last ones.
const MOST_RETIRED: usize = 1 << 12;
/// The same of participants that are gone, together.
const MOST_LEFT: usize = 1 << 10;
/// Endpoints that stand for something else than a writer or reader are called so, and above.
pub(crate) const STAND_INS: u64 = 1 << 63;

/// What a topic is called in logs, by its key.
pub(crate) fn stream_of(key: u64) -> StreamKey {
    // Stream 0 is the log of views.
    StreamKey(u128::from(key) | 1 << 64)
}

/// What has become of the endpoints.
#[derive(Debug)]
pub(crate) enum News {
    /// There is one more, or it is another one now.
    Announced(NodeId, u64),
    /// It is no more; this is what it was.
    Retracted(NodeId, u64, Box<Endpoint>),
    /// A participant says something of itself, or is gone.
    Participant(NodeId),
    /// It has this topic, which is another one now, or is no more.
    Topic(NodeId, u64),
    /// In this order are others now that were left out of it.
    LetIn(u64),
    /// All was taken over as a whole.
    Renewed,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Discovery {
    endpoints: Endpoints,
    /// The same by the names of topics.
    names: BTreeMap<String, BTreeSet<(NodeId, u64)>>,
    /// Of each participant the last endpoint that it has announced: they are called by rising numbers (I-170).
    latest: BTreeMap<NodeId, u64>,
    /// Writers of ordered topics that are no more, and offered something else than what is usual there (I-170).
    retired: Endpoints,
    /// Of each ordered topic its endpoints.
    topics: Participation,
    /// Of each topic that is kept who has what is kept.
    holders: BTreeMap<u64, Holders>,
    /// Of each topic that is logged who keeps logs.
    logs: BTreeMap<u64, LogBook>,
    /// Which members keep logs, as all know.
    book: Option<Book>,
    /// What all have told of their types.
    types: Types,
    /// What all have said of themselves and of their topics.
    directory: Directory,
    /// What its participant has not heard of yet.
    news: RefCell<Vec<News>>,
}

impl Discovery {
    /// What is known of types.
    pub(crate) fn types(&self) -> &Types {
        &self.types
    }

    /// What all have said of themselves and of their topics.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What has happened since the last call.
    pub(crate) fn take_news(&self) -> Vec<News> {
        self.news.take()
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

    /// What is seen of the topic of this name, as far as its endpoints are to be seen.
    pub(crate) fn sight(
        &self,
        name: &str,
        is_seen: impl Fn(NodeId, u64, &str) -> bool,
    ) -> Option<Sight> {
        let known = |(node, id)| {
            let endpoint = self.endpoint(node, id).filter(|_| is_seen(node, id, name))?;
            Some((endpoint, self.directory.topic_of(node, endpoint)))
        };
        let all = self.of_topic(name).filter_map(known);
        Sight::of(all, |endpoint| self.types.find(&endpoint.data_type.digest))
    }

    /// What is seen of all topics.
    pub(crate) fn sights(&self, is_seen: impl Fn(NodeId, u64, &str) -> bool) -> Vec<Sight> {
        self.names.keys().filter_map(|name| self.sight(name, &is_seen)).collect()
    }

    /// One of those that are in the order of this key.
    pub(crate) fn first_of(&self, key: u64) -> Option<&Endpoint> {
        self.topics.of(key).next().and_then(|(node, id)| self.endpoint(node, id))
    }

    /// Why an endpoint is left out of the order of another topic that it names, if it is.
    pub(crate) fn left_out_by_another_topic(&self, node: NodeId, id: u64) -> Option<String> {
        let endpoint = self.endpoint(node, id)?;
        let key = endpoint.key();
        let is_others = |first: &&Endpoint| first.topic != endpoint.topic;
        self.first_of(key).filter(is_others)?;
        let is_left_out = self.topics.is_left_out(key, (node, id));
        is_left_out.then(|| self.topics.objection(key, (node, id), &self.endpoints))?
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

    /// The writers of an ordered topic, those included that are no more and of which it is remembered what they offered.
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

    /// All participants that have announced something.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.endpoints.keys().copied()
    }

    fn announced(&mut self, node: NodeId, id: u64, endpoint: Endpoint) -> Vec<u64> {
        let of_node = self.endpoints.entry(node).or_default();
        if of_node.len() >= MOST_ANNOUNCED && !of_node.contains_key(&id) {
            tracing::warn!(%node, "a participant announces too many endpoints; the rest is left out");
            return Vec::new();
        }
        if id < STAND_INS {
            let latest = self.latest.entry(node).or_default();
            *latest = id.max(*latest);
        }
        let known = self.endpoint(node, id);
        let is_there = |known: &Endpoint| known.takes_part_as(&endpoint);
        if known.is_some_and(is_there) {
            // It offers or requests something else: nobody's place is another one by that.
            self.endpoints.entry(node).or_default().insert(id, endpoint);
            return Vec::new();
        }
        let before = self.taken_out(node, id).filter(|it| it.level.is_ordered());
        let mut changed: Vec<u64> = before.map(|it| it.key()).into_iter().collect();
        let (topic, is_ordered) = (endpoint.topic.clone(), endpoint.level.is_ordered());
        let key = endpoint.key();
        self.put_in(node, id, endpoint);
        if is_ordered {
            match self.topics.enter((key, (node, id)), &self.endpoints) {
                // All know of it, so that whoever means something else is told.
                Err(why) => {
                    tracing::warn!(%topic, why, "an endpoint is left out of a topic's order for now");
                }
                Ok(()) if !changed.contains(&key) => changed.push(key),
                Ok(()) => {}
            }
        }
        changed.iter().for_each(|key| self.let_in(*key));
        changed
    }

    /// The endpoints of a key are others: so may be those that are left out of it, and who has what is kept.
    fn let_in(&mut self, key: u64) {
        // What was kept for those that are gone is forgotten before others begin.
        self.settle_holders(key);
        if self.topics.let_in(key, &self.endpoints) {
            self.news.get_mut().push(News::LetIn(key));
            self.settle_holders(key);
        }
    }

    /// How many participants have readers of a topic.
    pub(crate) fn readers(&self, key: u64) -> usize {
        self.readers_of(key).map(|(node, ..)| node).collect::<BTreeSet<_>>().len()
    }

    /// Puts an endpoint in, apart from what it takes part in.
    fn put_in(&mut self, node: NodeId, id: u64, endpoint: Endpoint) {
        self.names.entry(endpoint.topic.clone()).or_default().insert((node, id));
        self.endpoints.entry(node).or_default().insert(id, endpoint);
    }

    /// Takes an endpoint out.
    fn taken_out(&mut self, node: NodeId, id: u64) -> Option<Endpoint> {
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

    /// An endpoint is no more; the ordered topics that are others by that are returned.
    fn retracted(&mut self, node: NodeId, id: u64) -> Vec<u64> {
        let Some(endpoint) = self.taken_out(node, id) else { return Vec::new() };
        let changed: Vec<u64> =
            endpoint.level.is_ordered().then(|| endpoint.key()).into_iter().collect();
        changed.iter().for_each(|key| self.let_in(*key));
        // Nor is a type that others there do not have.
        let is_of_all = || {
            self.topics.of(endpoint.key()).all(|(node, id)| {
                let of = |other: &Endpoint| {
                    other.topic != endpoint.topic
                        || other.data_type.digest == endpoint.data_type.digest
                };
                self.endpoint(node, id).is_none_or(of)
            })
        };
        let is_usual = || *endpoint.policies == Policies::offered(endpoint.level) && is_of_all();
        if endpoint.level.is_ordered() && endpoint.kind == EndpointKind::Writer && !is_usual() {
            let retired = self.retired.entry(node).or_default();
            retired.insert(id, endpoint.clone());
            if retired.len() > MOST_RETIRED {
                retired.pop_first();
            }
        }
        self.news.get_mut().push(News::Retracted(node, id, Box::new(endpoint)));
        changed
    }
}

/// Each endpoint, with who has it and what that calls it.
fn each(endpoints: &Endpoints) -> impl Iterator<Item = (NodeId, u64, &Endpoint)> {
    let all = endpoints.iter();
    all.flat_map(|(node, all)| all.iter().map(move |(id, endpoint)| (*node, *id, endpoint)))
}

impl Discovery {
    /// What writers of participants that are gone have offered is remembered as long as somebody has their topic.
    fn forget_retired(&mut self, last: NodeId) {
        let is_gone = |node: &NodeId| !self.latest.contains_key(node);
        for (_, retired) in self.retired.iter_mut().filter(|(node, _)| is_gone(node)) {
            retired.retain(|_, endpoint| self.topics.has(endpoint.key()));
        }
        let of_gone = self.retired.iter().filter(|(node, _)| is_gone(node));
        let mut left: usize = of_gone.map(|(_, retired)| retired.len()).sum();
        // Which one goes does not matter, as long as all choose the same.
        self.retired.retain(|node, retired| {
            let goes = left > MOST_LEFT && *node != last && is_gone(node);
            left -= if goes { retired.len() } else { 0 };
            !goes && !retired.is_empty()
        });
    }
}

impl State for Discovery {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u64> {
        match Announcement::from_bytes(message) {
            Some(Announcement::Endpoint(id, Some(endpoint))) => {
                let changed = self.announced(from, id, endpoint);
                self.news.get_mut().push(News::Announced(from, id));
                changed
            }
            Some(Announcement::Endpoint(id, None)) => self.retracted(from, id),
            Some(Announcement::Storage(key, motion)) => self.moved(from, key, motion),
            Some(Announcement::Type(part)) => {
                self.types.take_in(from, part);
                Vec::new()
            }
            Some(Announcement::Participant(data)) => {
                self.directory.introduced(from, data);
                self.news.get_mut().push(News::Participant(from));
                Vec::new()
            }
            Some(Announcement::Topic(id, Some(data))) => {
                self.directory.announced(from, id, data);
                self.news.get_mut().push(News::Topic(from, id));
                Vec::new()
            }
            Some(Announcement::Topic(id, None)) => {
                self.directory.retracted(from, id);
                self.news.get_mut().push(News::Topic(from, id));
                Vec::new()
            }
            None => {
                tracing::warn!(node = %from, "an announcement makes no sense and is left out");
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
        let news = topics.map(|id| News::Topic(node, id)).chain([News::Participant(node)]);
        self.news.get_mut().extend(news);
        self.directory.forget(node);
        self.forget_retired(node);
    }

    fn leans_on(&self) -> BTreeSet<LogId> {
        let kept = |key| self.holders.get(key);
        let logs = self.logs.iter().filter_map(|(key, logs)| Some((logs, kept(key)?)));
        logs.flat_map(|(logs, holders)| logs.leans_on(holders)).collect()
    }

    fn note_logs(&mut self, book: &Book) -> Vec<u64> {
        self.book = Some(book.clone());
        let keys: Vec<u64> = self.logs.keys().copied().collect();
        let waiting: Vec<u64> = keys.iter().copied().filter(|key| self.waits(*key)).collect();
        keys.into_iter().for_each(|key| self.settle_holders(key));
        // They have seats only now.
        waiting.into_iter().filter(|key| !self.waits(*key)).collect()
    }

    fn keys(&self) -> Vec<u64> {
        self.topics.keys().collect()
    }

    fn layout(&self, key: u64, view: &View) -> Layout {
        let mut seats: Vec<Seat> = Vec::new();
        let waits = self.waits(key);
        for (node, id) in self.topics.of(key).filter(|_| !waits) {
            let Some(endpoint) = self.endpoint(node, id) else { continue };
            if view.rank_of(node).is_none() {
                continue;
            }
            let lines = RegionId(endpoint.lines);
            // A participant has one seat, whatever it has there.
            if seats.last().is_none_or(|seat| seat.node != node) {
                seats.push(Seat { node, reads: false, sends: None, lines });
            }
            let Some(seat) = seats.last_mut() else { continue };
            match endpoint.kind {
                EndpointKind::Writer => {
                    seat.sends = Some(RegionId(endpoint.stream));
                    // Writers keep as well: what they have written is there for whoever comes when no
                    // reader was there yet.
                    seat.reads |= endpoint.level.is_kept();
                }
                EndpointKind::Reader | EndpointKind::Keeper => seat.reads = true,
                EndpointKind::Guest => {}
            }
        }
        Layout { level: Level::Atomic, seats }
    }

    fn snapshot(&self) -> Vec<u8> {
        let encoded = |endpoints| -> Vec<((NodeId, u64), Vec<u8>)> {
            let all = each(endpoints);
            all.map(|(node, id, endpoint)| ((node, id), endpoint.encode())).collect()
        };
        let storage = (self.holders.clone(), self.logs.clone());
        let past = (self.latest.clone(), encoded(&self.retired));
        let all = (encoded(&self.endpoints), self.topics.left_out().clone());
        let endpoints = (all, (past, (self.types.snapshot(), storage)));
        (endpoints, self.directory.snapshot()).to_bytes()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        type Storage = (BTreeMap<u64, Holders>, BTreeMap<u64, LogBook>);
        type Encoded = Vec<((NodeId, u64), Vec<u8>)>;
        type Past = (BTreeMap<NodeId, u64>, Encoded);
        type Of = ((Encoded, LeftOut), (Past, (AllTold, Storage)));
        let Some((of_endpoints, directory)) = <(Of, Vec<u8>)>::from_bytes(bytes) else {
            return false;
        };
        let ((all, left_out), ((latest, retired), (told, (holders, logs)))) = of_endpoints;
        let Some(directory) = Directory::restored(&directory) else { return false };
        self.directory = directory;
        self.types.restore(told);
        (self.endpoints, self.names, self.retired) = Default::default();
        for ((node, id), bytes) in retired {
            let Some(endpoint) = Endpoint::decode(&bytes) else { return false };
            self.retired.entry(node).or_default().insert(id, endpoint);
        }
        for ((node, id), bytes) in all {
            let Some(endpoint) = Endpoint::decode(&bytes) else { return false };
            self.put_in(node, id, endpoint);
        }
        self.topics = Participation::restored(&self.endpoints, left_out);
        (self.holders, self.logs, self.latest) = (holders, logs, latest);
        *self.news.get_mut() = [News::Renewed].into();
        true
    }
}

#[cfg(test)]
mod tests;
