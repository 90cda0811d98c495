//! The fast path for samples of plain types.
//!
//! Owns: a write that needs nothing beside the sample itself. Never does: wait, or handle any
//! other write.

use derecho_core::multicast::claim::Claim;
use derecho_node::clock;
use idl_xtypes::TopicData;

use super::{DataWriter, EnabledWriter};
use crate::infrastructure::DdsResult;
use crate::infrastructure::this_thread::this_thread;
use crate::mapping::record::{HEADER, RecordEffect, is_plain, write_bare_metadata, write_payload};
use crate::publication::writer_claim::WriterClaim;

impl<T: TopicData> DataWriter<T> {
    /// State of the writer, if its samples are plain and need no policy metadata, no key, no limits
    /// and no set, and if its first memory is active. Most writes qualify; the general path costs
    /// some hundred instructions.
    #[inline(always)]
    fn bare(&self) -> Option<&EnabledWriter> {
        let is_bare = is_plain::<T>() && !self.shared.has_policy_metadata() && !self.is_in_set();
        let started = self.enabling.started().filter(|_| is_bare)?;
        let states_keys = !T::NEVER_KEYED && self.states_keys();
        let is_bare = !states_keys && started.limits.is_none();
        (is_bare && self.is_active(&started.first_memory)).then_some(started)
    }

    /// Writes a sample of a [bare](DataWriter::bare) writer, if there is room. Returns `false` if
    /// the general path must be taken.
    #[inline(always)]
    pub(super) fn write_bare(&self, sample: &T, time: Option<u64>) -> bool {
        let Some(started) = self.bare() else { return false };
        if time.is_some() && started.states_commits {
            return false;
        }
        let membership = &self.participant.membership;
        let (first, size) = (&started.first_memory, HEADER + size_of::<T>());
        let Ok(mut claim) = first.memory.claim_on(this_thread(), size) else { return false };
        if write_payload(sample, claim.bytes(), || started.encoding).is_err() {
            return false;
        }
        if !membership.is_in(first.life) && membership.may_rejoin() {
            // The general path writes the sample in the next membership.
            return false;
        }
        self.commit_bare(started, claim, time);
        true
    }

    /// Publishes a plain sample that was built in this claim.
    #[inline(always)]
    pub(in crate::publication) fn publish_plain(
        &self,
        mut claim: WriterClaim<'_>,
    ) -> DdsResult<()> {
        let size = HEADER + size_of::<T>();
        if let Some(layout) = T::LAYOUT {
            layout.clear_padding(&mut claim.bytes()[HEADER..size]);
        }
        let Some(started) = self.bare().filter(|_| claim.writer_memory().is_none()) else {
            return self.publish_with_metadata(claim);
        };
        if !T::NEVER_KEYED && self.known.has_key() {
            return self.publish_keyed(started, claim.into_first());
        }
        self.commit_bare(started, claim.into_first(), None);
        Ok(())
    }

    /// Publishes a sample of a type with a key, and makes its instance known.
    #[inline(always)]
    fn publish_keyed(&self, started: &EnabledWriter, claim: Claim<'_>) -> DdsResult<()> {
        match self.built_instance(self.built_in(claim.seen())) {
            Ok(instance) => {
                self.commit_bare(started, claim, None);
                self.note_built(instance);
                Ok(())
            }
            Err(error) => {
                self.give_back(WriterClaim::in_first(claim));
                Err(error)
            }
        }
    }

    /// The plain sample that was built in these bytes of a claim.
    fn built_in<'a>(&self, bytes: &'a [u8]) -> &'a T {
        let place = bytes[HEADER..][..size_of::<T>()].as_ptr().cast::<T>();
        assert!(is_plain::<T>() && place.is_aligned(), "a plain sample was built there");
        // SAFETY: as in `Loan::deref`; the bytes are borrowed, so nothing changes them.
        unsafe { &*place }
    }

    /// Commits a sample that lies in a claim of the first memory.
    #[inline(always)]
    fn commit_bare(&self, started: &EnabledWriter, claim: Claim<'_>, time: Option<u64>) {
        let (now, size) = (clock::now(), HEADER + size_of::<T>());
        let timestamp = time.unwrap_or_else(|| clock::wall(now));
        if self.shared.timeliness.is_kept() {
            self.update_timeliness(None, RecordEffect::Alive, now);
        }
        let number = claim.commit_on(this_thread(), size, |_, record| {
            // The cast is lossless: a participant creates fewer than 2^32 endpoints.
            write_bare_metadata(record, started.id as u32, timestamp, self.mark);
        });
        self.notify_readers(&started.first_memory, number, now);
    }

    /// Publishes a plain sample that was built in this claim, with its metadata.
    #[cold]
    fn publish_with_metadata(&self, claim: WriterClaim<'_>) -> DdsResult<()> {
        let sample = self.built_in(claim.seen());
        let facts = || {
            let with = self.metadata_of(sample)?;
            Ok((with, self.limited_key(sample)?, self.built_instance(sample)?))
        };
        match facts() {
            Ok((metadata, key, instance)) => {
                self.publish_built(claim, HEADER + size_of::<T>(), metadata, key, instance)
            }
            Err(error) => {
                self.give_back(claim);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use idl_cdr::DdsType;

    use crate::domain::{DomainParticipant, ParticipantConfig};
    use crate::mapping::record::KEY;

    #[derive(DdsType, Clone, Copy, Default)]
    #[dds(crate = "idl_cdr", extensibility = "final")]
    #[repr(C)]
    struct Reading {
        value: u64,
    }

    #[derive(DdsType, Clone, Copy, Default)]
    #[dds(crate = "idl_cdr", extensibility = "final")]
    #[repr(C)]
    struct TrackReading {
        #[dds(key)]
        track: u64,
        value: u64,
    }

    /// Stores know the one key of a topic without keys, so that its samples are written as those of
    /// an atomic topic.
    #[test]
    fn kept_samples_without_key_carry_no_metadata() {
        let folder = tempfile::tempdir().unwrap();
        let config = ParticipantConfig::new().runtime_dir(folder.path().join("run"));
        let participant = DomainParticipant::with_config(0, config).unwrap();
        let keyless = participant.topic::<Reading>("Reading").transient_local().create().unwrap();
        let keyless = participant.writer(&keyless).create().unwrap();
        let keyed = participant.topic::<TrackReading>("Track").transient_local().create().unwrap();
        let keyed = participant.writer(&keyed).create().unwrap();
        assert!(keyless.bare().is_some() && keyed.bare().is_none());
        assert_eq!((keyless.metadata_size(), keyed.metadata_size()), (0, KEY));
    }
}
