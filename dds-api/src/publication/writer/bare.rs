//! The fast path for samples of plain types.
//!
//! Owns: a write that needs nothing beside the sample itself. Never does: wait, or handle any
//! other write.

use derecho_node::clock;
use idl_xtypes::TopicData;

use super::DataWriter;
use crate::infrastructure::this_thread::this_thread;
use crate::mapping::record::{HEADER, RecordEffect, is_plain, write_bare_metadata, write_payload};

impl<T: TopicData> DataWriter<T> {
    /// Writes a plain sample of a writer without policy metadata, kept samples or limits, if there
    /// is room in the writer's first memory. Returns `false` if the general path must be taken.
    /// Most writes qualify; the general path costs some hundred instructions.
    #[inline(always)]
    pub(super) fn write_bare(&self, sample: &T, time: Option<u64>) -> bool {
        let is_bare = is_plain::<T>() && !self.shared.has_policy_metadata() && !self.is_in_set();
        let Some(started) = self.enabling.started().filter(|_| is_bare) else { return false };
        let membership = &self.participant.membership;
        let (first, thread) = (&started.first_memory, this_thread());
        let states_commit = time.is_some() && started.states_commits;
        if started.kept || started.limits.is_some() || states_commit || !self.is_active(first) {
            return false;
        }
        let Ok(mut claim) = first.memory.claim_on(thread, HEADER + size_of::<T>()) else {
            return false;
        };
        let Ok(size) = write_payload(sample, claim.bytes(), || started.encoding) else {
            return false;
        };
        if !membership.is_in(first.life) && membership.may_rejoin() {
            // The general path writes the sample in the next membership.
            return false;
        }
        let now = clock::now();
        let timestamp = time.unwrap_or_else(|| clock::wall(now));
        if self.shared.timeliness.is_kept() {
            self.update_timeliness((None, RecordEffect::Alive), now);
        }
        let number = claim.commit_on(thread, size, |_, record| {
            write_bare_metadata(record, started.id as u32, timestamp, self.mark);
        });
        self.notify_readers(first, number, now);
        true
    }
}
