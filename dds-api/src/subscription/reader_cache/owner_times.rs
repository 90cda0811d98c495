//! Owners of instances that are silent for too long: the reader's own judgement on its DEADLINE
//! and its lease.
//!
//! Owns: when the owner of each instance last wrote it. Never does: decide who the next owner is;
//! the cache does that.

use std::collections::HashMap;
use std::sync::Arc;

use crate::infrastructure::InstanceHandle;
use crate::mapping::membership_state::MembershipState;
use crate::subscription::cache::{ArrivalOutcome, CacheSettings, Key, SampleCache};

/// Number of entries above which those of forgotten instances are removed.
const FEW: usize = 64;

/// Commit times of the last records of owners, for a reader with exclusive ownership on a topic
/// without order. The participant of a writer measures the writer's DEADLINE and lease as well, but
/// a process that is stopped measures nothing (I-348).
pub(super) struct OwnerTimes {
    times: HashMap<Key, OwnerTime>,
    membership: Arc<MembershipState>,
}

struct OwnerTime {
    owner: InstanceHandle,
    committed: u64,
    /// Commit time of the last record that made the reader ask whether the owner is stopped.
    asked: u64,
}

/// Record of a writer on an instance.
pub(super) struct WrittenRecord {
    pub(super) key: Key,
    pub(super) writer: InstanceHandle,
    /// Time of the commit, if it is known.
    pub(super) committed: Option<u64>,
}

impl OwnerTimes {
    pub(super) fn new(membership: &Arc<MembershipState>) -> OwnerTimes {
        OwnerTimes { times: HashMap::new(), membership: Arc::clone(membership) }
    }

    /// The owner of an instance, if its process is stopped, and it has written nothing for longer
    /// than the DEADLINE when another writer wrote this record, or for longer than the lease when
    /// another writer wrote this record not long before `now`.
    pub(super) fn silent_owner(
        &mut self,
        record: &WrittenRecord,
        settings: &CacheSettings,
        now: u64,
    ) -> Option<InstanceHandle> {
        let last = self.times.get_mut(&record.key).filter(|last| last.owner != record.writer)?;
        let committed = record.committed?;
        let is_late = |limit: u64| committed > last.committed.saturating_add(limit);
        let is_recent = committed.saturating_add(settings.lease / 4) > now;
        if !(is_late(settings.deadline) || is_late(settings.lease) && is_recent) {
            return None;
        }
        // The kernel is not asked for each record.
        let pause = settings.deadline.min(settings.lease) / 4;
        if committed < last.asked.saturating_add(pause) {
            return None;
        }
        last.asked = committed;
        self.membership.is_stopped(last.owner.node).then_some(last.owner)
    }

    /// Notes the outcome of a record's arrival in the cache.
    pub(super) fn note<S>(
        &mut self,
        record: &WrittenRecord,
        outcome: ArrivalOutcome,
        now: u64,
        cache: &SampleCache<S>,
    ) {
        let committed = record.committed.unwrap_or(now);
        match outcome {
            ArrivalOutcome::NotOwner => {}
            ArrivalOutcome::Late | ArrivalOutcome::Expired => {
                let own =
                    self.times.get_mut(&record.key).filter(|last| last.owner == record.writer);
                own.into_iter().for_each(|last| last.committed = last.committed.max(committed));
            }
            ArrivalOutcome::Stored | ArrivalOutcome::Waits | ArrivalOutcome::Unnoticed => {
                if self.times.len() > 2 * cache.instances() + FEW {
                    self.times.retain(|key, _| cache.knows(*key));
                }
                let time = OwnerTime { owner: record.writer, committed, asked: 0 };
                self.times.insert(record.key, time);
            }
        }
    }
}
