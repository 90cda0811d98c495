//! Mutual knowledge of the readers and writers of ordered topics.
//!
//! Owns: the times at which that knowledge is updated. Never does: filter samples; the reader does,
//! by its knowledge.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::group::report::StreamId;
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::storage::store_set::StoreGroupState;

use super::{AtomicTopics, DomainGroup, TopicMembership, announce};
use crate::mapping::endpoint::{Endpoint, MatchVerdict};
use crate::mapping::ignored::IgnoredEntities;
use crate::mapping::known_writers::KnownWriters;
use crate::mapping::level::TopicLevel;

impl AtomicTopics {
    /// Updates the knowledge of a topic's readers about writers, and of its writers about readers,
    /// after a change of its endpoints.
    pub(in crate::mapping) fn update_known_endpoints(&self, domain: &DomainGroup, key: u64) {
        for membership in self.memberships.get(&key).into_iter().flatten() {
            for (id, ordered_reader) in &membership.readers {
                let Some(reader) = membership.endpoints.get(id) else { continue };
                let known_writers = &ordered_reader.shared.known_writers;
                let mut known_writers =
                    known_writers.lock().unwrap_or_else(PoisonError::into_inner);
                let reader = (reader, known_writers.as_deref());
                let here = (domain.node().id(), &self.ignored);
                let known = KnownWriters::new(reader, (domain.state(), domain.view()), here);
                *known_writers = Some(Arc::new(known));
                drop(known_writers);
                if ordered_reader.inbox.is_some() || ordered_reader.replay.is_some() {
                    // A participant that continues to send has a writer more or less.
                    let writing = membership.writing(domain, key, &self.ignored, *id);
                    ordered_reader.shared.matched.store(writing, Ordering::Release);
                }
                ordered_reader.shared.changes.fetch_add(1, Ordering::Release);
            }
        }
        if let Some(membership) = self.memberships.get(&key).and_then(VecDeque::front) {
            membership.update_matched_readers(domain, key, &self.ignored);
        }
    }

    /// Sets the ignored entities.
    pub(in crate::mapping) fn ignore(&mut self, ignored: Arc<IgnoredEntities>) {
        self.ignored = ignored;
    }

    /// As `update_known_endpoints`, for all topics.
    pub(in crate::mapping) fn update_all_known(&self, domain: &DomainGroup) {
        self.memberships.keys().for_each(|key| self.update_known_endpoints(domain, *key));
    }

    /// Changes the policies of an endpoint.
    pub(in crate::mapping) fn change(
        &mut self,
        domain: &mut DomainGroup,
        key: u64,
        (id, new): (u64, Endpoint),
    ) {
        let mut memberships = self.memberships.get_mut(&key).into_iter().flatten();
        let Some(membership) = memberships.find(|stay| stay.endpoints.contains_key(&id)) else {
            return;
        };
        let Some(endpoint) = membership.endpoints.get_mut(&id) else { return };
        endpoint.clone_from(&new);
        if membership.announced {
            announce(domain, id, new);
        }
        self.update_known_endpoints(domain, key);
    }
}

impl TopicMembership {
    /// Updates each writer's number of matched readers that receive its samples: those of
    /// participants that have begun. If it is only known how many participants have begun, and not
    /// which, the number is the least possible one.
    pub(super) fn update_matched_readers(
        &self,
        domain: &DomainGroup,
        key: u64,
        ignored: &IgnoredEntities,
    ) {
        if self.writers.is_empty() {
            return;
        }
        let mut readers: BTreeMap<NodeId, Vec<&Endpoint>> = BTreeMap::new();
        let me = domain.node().id();
        for (node, id, reader) in domain.state().readers_of(key) {
            let of_node = readers.entry(node).or_default();
            // A participant with only ignored readers is part of the order, but is not counted as
            // a match.
            if node == me || !ignored.hides(node, id, &reader.topic) {
                of_node.push(reader);
            }
        }
        let holders = domain.state().holders(key);
        let holders = holders.filter(|_| self.level == TopicLevel::Kept);
        let has_begun = |node: &NodeId| match &holders {
            // I-232: a newcomer may receive the samples that are kept at its arrival, and not all
            // samples that are written now.
            Some(holders) => holders.names().contains(node),
            // A member of a topic that is kept may have only writers at first. It does not become a
            // member again with its first reader.
            None if self.level.is_kept() && self.all_begun => true,
            None => self.begun.contains(node),
        };
        // Participants that have begun, but are not among those that are known by name.
        let unnamed = match holders.is_none() {
            true => (self.readers_begun as usize).saturating_sub(self.begun.len()),
            false => 0,
        };
        let types = domain.state().types();
        for (id, shared) in &self.writers {
            let Some(writer) = self.endpoints.get(id) else { continue };
            let matched = |readers: &Vec<&Endpoint>| {
                let all = readers.iter();
                all.filter(|reader| reader.matches(writer, types) == MatchVerdict::Yes).count()
            };
            let (begun, others): (Vec<_>, Vec<_>) =
                readers.iter().partition(|(node, _)| has_begun(node));
            let certain: usize = begun.into_iter().map(|(_, readers)| matched(readers)).sum();
            let mut others: Vec<usize> =
                others.into_iter().map(|(_, readers)| matched(readers)).collect();
            others.sort_unstable();
            let least: usize = others.into_iter().take(unnamed).sum();
            shared.matched.store((certain + least) as u32, Ordering::Release);
        }
    }

    /// Number of matched writers whose samples a reader receives now: those whose streams are part
    /// of the epoch. If the last writer of a stream is no longer announced, it counts until the
    /// stream has ended, because its samples may still come. In a shared order such a writer may be
    /// of another topic, and does not count.
    pub(super) fn writing(
        &self,
        domain: &DomainGroup,
        key: u64,
        ignored: &IgnoredEntities,
        reader: u64,
    ) -> u32 {
        let Some(reader) = self.endpoints.get(&reader) else { return 0 };
        let (state, me) = (domain.state(), domain.node().id());
        let counts = |(node, id, writer): &(NodeId, u64, &Endpoint)| {
            (*node == me || !ignored.hides(*node, *id, &writer.topic))
                && reader.matches(writer, state.types()) == MatchVerdict::Yes
        };
        let of_stream = |stream: &StreamId| {
            let sends = |(node, _, writer): &(NodeId, u64, &Endpoint)| {
                *stream == StreamId { node: *node, region: RegionId(writer.stream) }
            };
            let mut writers = state.writers_of(key).filter(sends).peekable();
            match writers.peek() {
                Some(_) => writers.filter(counts).count() as u32,
                None => u32::from(reader.order.common().is_none()),
            }
        };
        self.sending.iter().map(of_stream).sum()
    }

    /// Result of `writing` for each reader.
    pub(super) fn writing_to_each(
        &self,
        domain: &DomainGroup,
        key: u64,
        ignored: &IgnoredEntities,
    ) -> BTreeMap<u64, u32> {
        let each = self.readers.keys();
        each.map(|id| (*id, self.writing(domain, key, ignored, *id))).collect()
    }
}
