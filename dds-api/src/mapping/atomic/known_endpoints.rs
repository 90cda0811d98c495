//! Mutual knowledge of the readers and writers of ordered topics.
//!
//! Owns: the times at which that knowledge is updated. Never does: filter samples; the reader does,
//! by its knowledge.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::group::report::StreamId;
use derecho_core::ids::NodeId;
use derecho_core::storage::store_set::StoreGroupState;

use super::{AtomicTopics, DomainGroup, TopicMembership, announce};
use crate::mapping::endpoint::Endpoint;
use crate::mapping::ignored::IgnoredEntities;
use crate::mapping::known_writers::KnownWriters;

impl AtomicTopics {
    /// Updates the knowledge of a topic's readers about writers, after a change of its endpoints.
    pub(in crate::mapping) fn update_known_endpoints(&self, domain: &DomainGroup, key: u64) {
        for membership in self.memberships.get(&key).into_iter().flatten() {
            for (id, ordered_reader) in &membership.readers {
                let Some(reader) = membership.endpoints.get(id) else { continue };
                let known_writers = &ordered_reader.shared.known_writers;
                let mut known_writers =
                    known_writers.lock().unwrap_or_else(PoisonError::into_inner);
                let known = KnownWriters::new(
                    reader,
                    known_writers.as_deref(),
                    domain.state(),
                    domain.view(),
                    domain.node().id(),
                    &self.ignored,
                );
                *known_writers = Some(Arc::new(known));
                drop(known_writers);
                ordered_reader.shared.changes.fetch_add(1, Ordering::Release);
            }
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
    pub(in crate::mapping) fn change(&mut self, domain: &mut DomainGroup, id: u64, new: Endpoint) {
        let key = new.key();
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

impl AtomicTopics {
    /// Local endpoints of which a match may have come about or be lost since the last call.
    pub(in crate::mapping) fn take_unsettled(&mut self) -> BTreeSet<u64> {
        let keys = std::mem::take(&mut self.unsettled);
        let memberships = keys.iter().filter_map(|key| self.memberships.get(key)).flatten();
        memberships.flat_map(|membership| membership.endpoints.keys().copied()).collect()
    }

    /// Participants whose readers receive each sample that a writer writes from now on: those that
    /// have begun, and continue to read.
    pub(in crate::mapping) fn reached_by(
        &self,
        domain: &DomainGroup,
        key: u64,
        writer: u64,
    ) -> BTreeSet<NodeId> {
        let membership = self.memberships.get(&key).and_then(VecDeque::front);
        let membership = membership.filter(|membership| membership.writers.contains_key(&writer));
        let Some(membership) = membership else { return BTreeSet::new() };
        match domain.state().holders(key) {
            // I-232: a newcomer may receive the samples that are kept at its arrival, and not all
            // samples that are written now.
            Some(holders) => holders.names().iter().copied().collect(),
            None => {
                let begun = membership.begun.iter().copied();
                begun.filter(|node| domain.reads_on(key, *node)).collect()
            }
        }
    }

    /// Streams of which a reader receives each sample that is written from now on.
    pub(in crate::mapping) fn received_by(&self, key: u64, reader: u64) -> &[StreamId] {
        let membership = self.memberships.get(&key).and_then(VecDeque::front);
        let has_queue = |membership: &&TopicMembership| {
            let reader = membership.readers.get(&reader);
            reader.is_some_and(|reader| reader.inbox.is_some() || reader.replay.is_some())
        };
        membership.filter(has_queue).map_or(&[], |membership| &membership.sending)
    }
}
