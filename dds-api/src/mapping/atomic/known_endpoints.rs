//! Mutual knowledge of the readers and writers of ordered topics.
//!
//! Owns: the times at which that knowledge is updated. Never does: filter samples; the reader does,
//! by its knowledge.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::ids::NodeId;
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
                let shares_order = reader.order.common().is_some();
                let known_writers = &ordered_reader.shared.known_writers;
                let mut known_writers =
                    known_writers.lock().unwrap_or_else(PoisonError::into_inner);
                let reader = (reader, known_writers.as_deref());
                let here = (domain.node().id(), &self.ignored);
                let known = KnownWriters::new(reader, (domain.state(), domain.view()), here);
                *known_writers = Some(Arc::new(known));
                drop(known_writers);
                if shares_order
                    && (ordered_reader.inbox.is_some() || ordered_reader.replay.is_some())
                {
                    // A sender may have got its first writer of this topic, or lost its last one,
                    // and continues to send in the shared order.
                    let writing = membership.writing(domain.state(), key, *id);
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
    /// Updates each writer's number of participants that receive its samples: those that have
    /// begun, except those whose readers do not match the writer.
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
        let counted = match holders.filter(|_| self.level == TopicLevel::Kept) {
            // I-232: a newcomer may receive the samples that are kept at its arrival, and not all
            // samples that are written now.
            Some(holders) => {
                readers.retain(|node, _| holders.names().contains(node));
                readers.len() as u32
            }
            // A member of a topic that is kept may have only writers at first. It does not become a
            // member again with its first reader.
            None if self.level.is_kept() && self.all_begun => readers.len() as u32,
            None => self.readers_begun,
        };
        for (id, shared) in &self.writers {
            let Some(writer) = self.endpoints.get(id) else { continue };
            let without = |readers: &&Vec<&Endpoint>| {
                !readers.iter().any(|reader| {
                    reader.matches(writer, domain.state().types()) == MatchVerdict::Yes
                })
            };
            let without = readers.values().filter(without).count() as u32;
            shared.matched.store(counted.saturating_sub(without), Ordering::Release);
        }
    }
}
