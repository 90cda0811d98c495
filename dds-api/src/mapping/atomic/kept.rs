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
use crate::mapping::level::TopicLevel;
use crate::mapping::shares::{ReaderSource, SourceId};

impl AtomicTopics {
    /// Handles a change of the group's replicated state.
    pub(in crate::mapping) fn changed(&mut self, domain: &mut DomainGroup) {
        self.depot.changed(domain);
        // I-232: the holders may have changed.
        let kept = |stay: &&TopicMembership| stay.level == TopicLevel::VolatileStorage;
        for (key, stay) in &self.memberships {
            let stay = stay.front().filter(kept);
            stay.into_iter().for_each(|stay| stay.tell_writers(domain, *key, &self.ignored));
        }
        // A reader that waited for the end of what delivery was for may go on in the same epoch.
        let waits = |reading: &OrderedReader| reading.inbox.is_none() && reading.replay.is_none();
        let waiting = self.memberships.iter().filter(|(_, stays)| {
            stays.front().is_some_and(|stay| stay.readers.values().any(waits))
        });
        for key in waiting.map(|(key, _)| *key).collect::<Vec<u64>>() {
            self.connect(domain, key);
        }
    }

    /// Handles a direct message of another participant.
    pub(in crate::mapping) fn direct(
        &mut self,
        domain: &mut DomainGroup,
        from: NodeId,
        bytes: &[u8],
    ) {
        if !self.depot.direct(domain, from, bytes) {
            tracing::warn!(node = %from, "malformed direct message ignored");
        }
    }

    /// Handles an event of a stream. Returns `true` if the stream belongs to the store set.
    pub(in crate::mapping) fn take_in(&mut self, event: &NodeEvent) -> bool {
        self.depot.take_in(event)
    }

    /// Keeps delivered samples, and advances the readers that replay them.
    pub(in crate::mapping) fn turn(
        &mut self,
        domain: &mut DomainGroup,
        now: Time,
        effects: &mut Effects,
    ) -> usize {
        let (mut done, whole) = self.depot.turn(domain, now, effects);
        self.count_durable();
        for key in whole {
            self.connect(domain, key);
        }
        for key in self.replaying.iter().copied().collect::<Vec<u64>>() {
            done += self.bring_on(domain, key);
        }
        done
    }

    /// Latest time of the next turn.
    pub(in crate::mapping) fn wants_turn_at(&self) -> Option<Time> {
        self.depot.wants_turn_at()
    }

    /// Gives queues to the readers of a topic that have none.
    pub(super) fn connect(&mut self, domain: &mut DomainGroup, key: u64) {
        let Some(stay) = self.memberships.get_mut(&key).and_then(VecDeque::front_mut) else {
            return;
        };
        if !stay.level.is_kept() {
            return stay.connect(domain, key);
        }
        // All samples delivered so far are in the store before any reader begins to replay it.
        self.depot.catch_up(key);
        let limit = stay.limit(&self.depot, key);
        let Some(keeper) = self.depot.store_mut(key) else { return };
        stay.tell_of_senders(domain.state(), key);
        if !keeper.is_complete() {
            return;
        }
        // A store that ends with the epoch is replayed by no reader that begins now (I-103).
        let begins = stay.delivers_on(domain, key);
        for reading in stay.readers.values_mut() {
            if let Some(catching) = &mut reading.replay {
                // Shows the end of departed streams, because no later event may do so.
                catching.show((keeper.store(), limit), &reading.shared);
            }
            if reading.inbox.is_some() || reading.replay.is_some() || !begins {
                continue;
            }
            let cursor = keeper.opening().unwrap_or_else(|| keeper.store().cursor());
            let reader = (&*reading.shared, reading.wants_history);
            reading.replay = Some(ReplayControl::begin(cursor, (keeper.store(), limit), reader));
            self.replaying.insert(key);
        }
        if begins {
            keeper.close_opening();
        }
    }

    /// Shows new samples to replaying readers. Gives queues to readers that have reached the end of
    /// the kept samples or are too far behind.
    pub(super) fn bring_on(&mut self, domain: &mut DomainGroup, key: u64) -> usize {
        let mut done = 0;
        let stay = self.memberships.get_mut(&key).and_then(VecDeque::front_mut);
        let (Some(stay), Some(keeper)) = (stay, self.depot.store(key)) else {
            self.replaying.remove(&key);
            return 0;
        };
        let Some(subgroup) = stay.subgroup else { return 0 };
        let writers = Arc::<[StreamId]>::from(stay.senders.as_slice());
        let writing = stay.writing_to_each(domain.state(), key);
        let (limit, mut left) = (stay.limit(&self.depot, key), false);
        for (&id, reading) in &mut stay.readers {
            let Some(catching) = &mut reading.replay else { continue };
            done += catching.show((keeper.store(), limit), &reading.shared);
            if stay.retention.durable_first || !catching.is_over() {
                left = true;
                continue;
            }
            let Some(inbox) = domain.node_mut().add_subgroup_reader(subgroup) else { continue };
            // Everything below this version is in the store; everything else comes by the queue.
            catching.end(keeper.store(), &reading.shared);
            let OrderedReader { shared, .. } = &*reading;
            let sending = writing.get(&id).copied().unwrap_or(0);
            let (id, ended) = (SourceId::Atomic(id), false);
            let life = *shared.life.lock().unwrap_or_else(PoisonError::into_inner);
            let source = ReaderSource {
                id,
                writers: Arc::clone(&writers),
                inbox: Arc::clone(&inbox),
                ended,
                life,
                offset: keeper.store().version().wrapping_sub(inbox.began()),
            };
            shared.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
            shared.changes.fetch_add(1, Ordering::Release);
            shared.matched.store(sending, Ordering::Release);
            (reading.inbox, reading.replay, done) = (Some(inbox), None, done + 1);
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
    fn limit(&self, depot: &StoreSet, key: u64) -> u64 {
        match self.retention.durable_first {
            true => depot.durable(key),
            false => u64::MAX,
        }
    }
}
