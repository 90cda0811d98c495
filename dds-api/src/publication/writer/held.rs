//! Writes of a writer whose publisher holds changes back.
//!
//! Owns: the way of a sample into a coherent set, and of the set into the writer's memory. Never
//! does: decide when.

use std::sync::{Arc, Weak};

use derecho_node::clock;
use idl_xtypes::TopicData;

use super::{DataWriter, WriterCore};
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::record::{
    HEADER, NEVER, PayloadKind, PolicyMetadata, RecordEffect, RecordMetadata, write_metadata,
};
use crate::mapping::set::{GatheredSamples, footprint};
use crate::publication::Publisher;
use crate::publication::changes::{HeldBackWriter, HeldChanges, SampleSideEffect, SetWriterCount};

impl<T: TopicData> DataWriter<T> {
    /// Adds a record to the open set: `size` bytes written by `fill`, with this metadata. `None` if
    /// no set is open. `affect` applies the side effect of the sample, if that is permitted.
    #[inline(always)]
    pub(in crate::publication) fn hold(
        &self,
        metadata: &RecordMetadata,
        time: Option<u64>,
        size: usize,
        affect: impl FnOnce() -> DdsResult<Option<SampleSideEffect>>,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, T::Error>,
    ) -> Option<DdsResult<()>> {
        let changes = self.publisher.as_ref().map(Publisher::changes);
        let changes = changes.filter(|changes| changes.is_in_set())?;
        self.hold_in(changes, metadata, time, size, affect, fill)
    }

    #[cold]
    fn hold_in(
        &self,
        changes: &HeldChanges,
        metadata: &RecordMetadata,
        time: Option<u64>,
        size: usize,
        affect: impl FnOnce() -> DdsResult<Option<SampleSideEffect>>,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, T::Error>,
    ) -> Option<DdsResult<()>> {
        let membership = &self.participant.membership;
        if let Err(error) = self.enabling.check() {
            return Some(Err(error));
        }
        if membership.is_out_for_good() {
            return Some(Err(membership.error()));
        }
        let (now, around) = (clock::now(), self.size_around_set());
        let timestamp = time.unwrap_or_else(|| clock::wall(now));
        // The partitions and the time of the commit belong to the set as a whole.
        let tag = if self.states_commits() { 0 } else { metadata.policies.tag };
        let policy_metadata = PolicyMetadata { partition: None, tag, ..metadata.policies.clone() };
        let own = RecordMetadata { policies: policy_metadata, ..metadata.clone() };
        let length = size + own.size();
        let largest = self.started().first_memory.memory.geometry().largest();
        let held = changes.gather(
            self.enabling.id(),
            || self.held_back(),
            |gathered, effects| {
                if HEADER + gathered.size() + footprint(length) + around > largest {
                    return Err(self.too_large(gathered, largest));
                }
                let effect = affect()?;
                let added = gathered.add(timestamp, length, |record| {
                    fill(record)?;
                    write_metadata::<T>(record, self.enabling.id() as u32, timestamp, &own);
                    Ok(())
                });
                match added {
                    Ok(()) => effects.extend(effect),
                    Err(_) => effect.into_iter().for_each(|effect| self.revert(effect)),
                }
                added.map_err(|error| self.not_encodable(&error))
            },
        );
        if held.as_ref().is_some_and(Result::is_ok) && self.shared.timeliness.is_kept() {
            self.update_timeliness(metadata.key, metadata.effect, now);
        }
        held
    }

    fn too_large(&self, gathered: &GatheredSamples, largest: usize) -> DdsError {
        DdsError::OutOfResources(format!(
            "the open coherent set already has {} samples of `{}`, in {} bytes, and no room for \
             another one: a writer's part of a set is one record of up to {largest} bytes; create \
             the writer with a larger .max_sample_size()",
            gathered.samples(),
            self.topic.name(),
            gathered.size()
        ))
    }

    fn held_back(&self) -> Weak<dyn HeldBackWriter> {
        let core: Weak<WriterCore<T>> = Arc::downgrade(&self.0);
        core
    }

    /// Metadata of a set. Its samples carry their own metadata.
    fn metadata_of_set(
        &self,
        gathered: &GatheredSamples,
        writer_count: SetWriterCount,
    ) -> RecordMetadata {
        let mut policy_metadata = self.policies_of_set();
        let (mut kind, mut mark) = (PayloadKind::Set, self.mark);
        if writer_count == SetWriterCount::Several {
            // The writer's own lifespan, or its absence, does not apply to samples of other
            // writers.
            policy_metadata.lifespan = Some(NEVER);
            (policy_metadata.tag, kind, mark) = (0, PayloadKind::SetOfSeveral, 0);
        }
        policy_metadata.lifespan =
            policy_metadata.lifespan.map(|_| gathered.lifespan()).filter(|it| *it < NEVER);
        RecordMetadata {
            kind,
            effect: RecordEffect::Alive,
            mark,
            policies: policy_metadata,
            key: None,
        }
    }

    /// Whether written samples go into a set.
    #[inline(always)]
    pub(in crate::publication) fn is_in_set(&self) -> bool {
        self.publisher.as_ref().is_some_and(|publisher| publisher.changes().is_in_set())
    }

    /// Whether the wake-up for the sample just written is held back.
    #[inline(always)]
    pub(super) fn is_quiet(&self) -> bool {
        let changes = self.publisher.as_ref().map(Publisher::changes);
        let changes = changes.filter(|changes| changes.is_suspended());
        changes.is_some_and(|changes| changes.wakes_later(self.enabling.id(), || self.held_back()))
    }
}

impl<T: TopicData> WriterCore<T> {
    /// Policy metadata of a set. The time of a set is that of its latest sample, so the set states
    /// when it was committed.
    fn policies_of_set(&self) -> PolicyMetadata {
        let policy_metadata = self.shared.policy_metadata().of_set();
        match self.states_commits() {
            true => policy_metadata.stating_commit(),
            false => policy_metadata,
        }
    }

    /// Maximum number of bytes of a set's metadata.
    fn size_around_set(&self) -> usize {
        // Another sample of the set may have a lifespan that ends.
        PolicyMetadata { lifespan: Some(NEVER), ..self.policies_of_set() }.size()
    }
}

impl<T: TopicData> HeldBackWriter for WriterCore<T> {
    fn publish(
        self: Arc<Self>,
        gathered: &GatheredSamples,
        writer_count: SetWriterCount,
        blocking: Option<Timeout>,
    ) -> DdsResult<()> {
        let writer = DataWriter::of(self);
        let (metadata, size) =
            (writer.metadata_of_set(gathered, writer_count), HEADER + gathered.size());
        let blocking = blocking.unwrap_or(writer.max_blocking());
        let mut claim = writer.claim_within(size + metadata.size(), blocking)?;
        claim.bytes()[HEADER..size].copy_from_slice(gathered.bytes());
        writer.commit_at(claim, size, metadata, Some(gathered.latest()))
    }

    fn has_room_for_set(&self, gathered: &GatheredSamples) -> bool {
        self.has_room(HEADER + gathered.size() + self.size_around_set())
    }

    fn wake(&self) {
        let writer_memory = self.shared.writer_memory();
        let first = self.enabling.started().map(|started| &started.first_memory);
        let Some(writer_memory) = writer_memory.as_deref().or(first) else { return };
        writer_memory.ring();
        self.participant.engine.poke();
    }

    fn revert(self: Arc<Self>, effect: SampleSideEffect) {
        DataWriter::of(self).revert(effect);
    }
}
