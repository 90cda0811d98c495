//! Owners of instances that are late: the reader's own judgement on its DEADLINE.
//!
//! Owns: when the owner of each instance last wrote it. Never does: decide who the next owner is;
//! the cache does that.

use std::collections::HashMap;

use crate::infrastructure::InstanceHandle;
use crate::subscription::cache::{ArrivalOutcome, Key};

/// Number of entries above which those of forgotten instances are removed.
const FEW: usize = 64;

/// Commit times of the last records of owners, for a reader with exclusive ownership on a topic
/// without order. The participant of a writer measures the writer's DEADLINE as well, but a process
/// that is stopped measures nothing (I-348).
#[derive(Default)]
pub(super) struct OwnerTimes(HashMap<Key, OwnerTime>);

struct OwnerTime {
    owner: InstanceHandle,
    committed: u64,
}

/// Record of a writer on an instance.
pub(super) struct WrittenRecord {
    pub(super) key: Key,
    pub(super) writer: InstanceHandle,
    /// Time of the commit, if it is known.
    pub(super) committed: Option<u64>,
}

impl OwnerTimes {
    /// The owner of an instance, if it has written nothing for longer than the `deadline` when
    /// another writer wrote this record.
    pub(super) fn overdue(&self, record: &WrittenRecord, deadline: u64) -> Option<InstanceHandle> {
        let last = self.0.get(&record.key).filter(|last| last.owner != record.writer)?;
        let is_overdue = record.committed? > last.committed.saturating_add(deadline);
        is_overdue.then_some(last.owner)
    }

    /// Notes the outcome of a record's arrival in the cache, which knows `instances` instances.
    pub(super) fn note(
        &mut self,
        record: &WrittenRecord,
        outcome: ArrivalOutcome,
        now: u64,
        instances: usize,
        is_known: impl Fn(Key) -> bool,
    ) {
        let committed = record.committed.unwrap_or(now);
        match outcome {
            ArrivalOutcome::NotOwner => {}
            ArrivalOutcome::Late | ArrivalOutcome::Expired => {
                let own = self.0.get_mut(&record.key).filter(|last| last.owner == record.writer);
                own.into_iter().for_each(|last| last.committed = last.committed.max(committed));
            }
            ArrivalOutcome::Stored | ArrivalOutcome::Waits | ArrivalOutcome::Unnoticed => {
                if self.0.len() > 2 * instances + FEW {
                    self.0.retain(|key, _| is_known(*key));
                }
                self.0.insert(record.key, OwnerTime { owner: record.writer, committed });
            }
        }
    }
}
