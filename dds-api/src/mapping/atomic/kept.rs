//! Samples kept for late joiners: readers replay them and then get queues.
//!
//! Owns: when a reader begins a replay, and when it gets its queue. Never does: keep samples; the
//! store set does.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::group::report::StreamId;
use derecho_core::ids::{NodeId, Time};
use derecho_core::machine::Effects;
use derecho_core::node::NodeEvent;
use derecho_core::storage::store_set::StoreSet;

use super::{AtomicTopics, DomainGroup, OrderedReader, TopicMembership};
use crate::mapping::kept_replay::ReplayControl;
use crate::mapping::shares::{ReaderSource, SourceId};

impl AtomicTopics {
    /// Whether kept samples are sent to another participant, which makes room by what it takes.
    pub(in crate::mapping) fn awaits_room(&self) -> bool {
        self.stores.awaits_room()
    }

    /// Handles a change of the group's replicated state.
    pub(in crate::mapping) fn changed(&mut self, domain: &mut DomainGroup) {
        self.stores.changed(domain);
        // I-232: the holders may have changed.
        let is_kept = |membership: &TopicMembership| membership.level.is_kept();
        let kept = self.memberships.iter().filter(|(_, all)| all.front().is_some_and(is_kept));
        self.unsettled.extend(kept.map(|(key, _)| *key));
        // A reader that waited for the end of what delivery was for may go on in the same epoch.
        let waits = |ordered_reader: &OrderedReader| {
            ordered_reader.inbox.is_none() && ordered_reader.replay.is_none()
        };
        let waiting = self.memberships.iter().filter(|(_, memberships)| {
            memberships.front().is_some_and(|membership| membership.readers.values().any(waits))
        });
        for key in waiting.map(|(key, _)| *key).collect::<Vec<u64>>() {
            self.connect(domain, key);
        }
    }

    /// Handles a direct message of another participant.
    pub(in crate::mapping) fn handle_direct_message(
        &mut self,
        domain: &mut DomainGroup,
        from: NodeId,
        bytes: &[u8],
    ) {
        if !self.stores.direct(domain, from, bytes) {
            tracing::warn!(node = %from, "malformed direct message ignored");
        }
    }

    /// Handles an event of a stream. Returns `true` if the stream belongs to the store set.
    pub(in crate::mapping) fn handle_stream_event(&mut self, event: &NodeEvent) -> bool {
        self.stores.take_in(event)
    }

    /// Keeps delivered samples, and advances the readers that replay them.
    pub(in crate::mapping) fn turn(
        &mut self,
        domain: &mut DomainGroup,
        now: Time,
        effects: &mut Effects,
    ) -> usize {
        let (mut done, completed) = self.stores.turn(domain, now, effects);
        self.count_durable();
        for key in completed {
            self.connect(domain, key);
        }
        for key in self.replaying.iter().copied().collect::<Vec<u64>>() {
            done += self.advance_replays(domain, key);
        }
        done
    }

    /// Latest time of the next turn.
    pub(in crate::mapping) fn wants_turn_at(&self) -> Option<Time> {
        self.stores.wants_turn_at()
    }

    /// Gives queues to the readers of a topic that have none.
    pub(super) fn connect(&mut self, domain: &mut DomainGroup, key: u64) {
        self.unsettled.insert(key);
        let Some(membership) = self.memberships.get_mut(&key).and_then(VecDeque::front_mut) else {
            return;
        };
        if !membership.level.is_kept() {
            return membership.connect(domain, key);
        }
        // All samples delivered so far are in the store before any reader begins to replay it.
        self.stores.catch_up(key);
        let limit = membership.limit(&self.stores, key);
        let Some(store) = self.stores.store_mut(key) else { return };
        membership.update_known_senders();
        if !store.is_complete() {
            return;
        }
        // A store that ends with the epoch is replayed by no reader that begins now (I-103).
        let begins = membership.continues_delivery(domain, key);
        for ordered_reader in membership.readers.values_mut() {
            if let Some(replay) = &mut ordered_reader.replay {
                // Shows the end of departed streams, because no later event may do so.
                replay.show(store.store(), limit, &ordered_reader.shared);
            }
            if ordered_reader.inbox.is_some() || ordered_reader.replay.is_some() || !begins {
                continue;
            }
            let cursor = store.opening().unwrap_or_else(|| store.store().cursor());
            let (shared, wants_history) = (&ordered_reader.shared, ordered_reader.wants_history);
            let replay = ReplayControl::begin(cursor, store.store(), limit, shared, wants_history);
            ordered_reader.replay = Some(replay);
            self.replaying.insert(key);
        }
        if begins {
            store.close_opening();
        }
    }

    /// Shows new samples to replaying readers. Gives queues to readers that have reached the end of
    /// the kept samples or are too far behind.
    pub(super) fn advance_replays(&mut self, domain: &mut DomainGroup, key: u64) -> usize {
        let mut done = 0;
        let membership = self.memberships.get_mut(&key).and_then(VecDeque::front_mut);
        let limit = membership.as_ref().map_or(0, |it| it.limit(&self.stores, key));
        let (Some(membership), Some(store)) = (membership, self.stores.store_mut(key)) else {
            self.replaying.remove(&key);
            return 0;
        };
        let Some(subgroup) = membership.subgroup else { return 0 };
        let writers = Arc::<[StreamId]>::from(membership.senders.as_slice());
        let mut left = false;
        for (&id, ordered_reader) in &mut membership.readers {
            let Some(replay) = &mut ordered_reader.replay else { continue };
            done += replay.show(store.store(), limit, &ordered_reader.shared);
            if membership.retention.durable_first || !replay.is_over() {
                left = true;
                continue;
            }
            let Some(inbox) = domain.node_mut().add_subgroup_reader(subgroup) else { continue };
            // Everything below this version is in the store; everything else comes by the queue.
            replay.end(store.store(), &ordered_reader.shared);
            let OrderedReader { shared, .. } = &*ordered_reader;
            let (id, ended) = (SourceId::Atomic(id), false);
            let life = *shared.life.lock().unwrap_or_else(PoisonError::into_inner);
            let source = ReaderSource {
                id,
                writers: Arc::clone(&writers),
                inbox: Arc::clone(&inbox),
                ended,
                ended_at: 0,
                life,
                offset: store.store().version().wrapping_sub(inbox.began()),
            };
            shared.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
            shared.changes.fetch_add(1, Ordering::Release);
            (ordered_reader.inbox, ordered_reader.replay, done) = (Some(inbox), None, done + 1);
        }
        if !left {
            self.replaying.remove(&key);
        }
        done
    }
}

impl TopicMembership {
    /// The version up to which readers may see kept samples: if samples must be durable before they
    /// are delivered, as far as they are durable everywhere (I-107).
    fn limit(&self, stores: &StoreSet, key: u64) -> u64 {
        match self.retention.durable_first {
            true => stores.durable(key),
            false => u64::MAX,
        }
    }
}
