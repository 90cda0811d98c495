//! The instances of a writer: registering, unregistering, disposing.
//!
//! Owns: these calls, and what they do to the instances that the writer knows. Never does: require
//! that an instance be registered before it is written or disposed; these calls register it.

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use idl_xtypes::TopicData;

use super::changes::SampleSideEffect;
use super::known_instances::{BuiltInstance, FreshInstance};
use super::writer::DataWriter;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle};
use crate::mapping::record::{HEADER, RecordEffect, RecordMetadata, key_payload, keyless_payload};

/// Nanoseconds since 1970.
fn nanos(time: SystemTime) -> DdsResult<u64> {
    let since = time.duration_since(UNIX_EPOCH).ok();
    since.and_then(|since| u64::try_from(since.as_nanos()).ok()).ok_or_else(|| {
        DdsError::BadParameter(format!(
            "{time:?} is not a valid time stamp: time stamps range from 1970 to 2554"
        ))
    })
}

/// Instances. Each call takes a sample of which only the key counts. Each call has a variant with a
/// source timestamp, for readers that [order by source
/// timestamp](crate::subscription::DataReaderBuilder::by_source_timestamp).
///
/// ```no_run
/// use dds_api::prelude::*;
///
/// #[derive(DdsType, Clone, Debug, Default)]
/// struct Track { #[dds(key)] id: u32, height: f64 }
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let topic = participant.topic::<Track>("Tracks").atomic().create()?;
/// let writer = participant.writer(&topic).create()?;
///
/// let track = Track { id: 7, height: 3000.0 };
/// let handle = writer.register_instance(&track)?;    // not needed, but gives the handle
/// writer.write(&track)?;
/// assert_eq!(writer.get_key_value(handle)?.id, 7);
/// writer.dispose(&track)?;                           // track 7 is no more
/// writer.unregister_instance(&track)?;               // and this writer has nothing to say of it
/// # Ok(())
/// # }
/// ```
impl<T: TopicData> DataWriter<T> {
    /// Registers an instance that this writer will write. Nothing is sent.
    pub fn register_instance(&self, sample: &T) -> DdsResult<InstanceHandle> {
        self.enabling.check()?;
        let key = self.key_of(sample)?;
        self.enter_instance(key)?;
        if self.known.has_key() {
            self.known.register(self.encoded_instance(key, sample)?);
        }
        Ok(InstanceHandle::of_instance(key))
    }

    /// As [`DataWriter::register_instance`]. The time has no effect, because nothing is sent.
    pub fn register_instance_w_timestamp(
        &self,
        sample: &T,
        time: SystemTime,
    ) -> DdsResult<InstanceHandle> {
        nanos(time)?;
        self.register_instance(sample)
    }

    /// Declares that this writer stops updating an instance, and also disposes the instance [by
    /// default](super::DataWriterBuilder::autodispose_unregistered_instances). Readers see an
    /// instance without any remaining writer as [without
    /// writers](crate::subscription::InstanceState::NotAliveNoWriters).
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if this writer has neither registered nor written nor
    /// disposed the instance, or has unregistered it since.
    pub fn unregister_instance(&self, sample: &T) -> DdsResult<()> {
        self.end(sample, self.effect_of_unregister(), None)
    }

    /// As [`DataWriter::unregister_instance`], with a source timestamp.
    pub fn unregister_instance_w_timestamp(&self, sample: &T, time: SystemTime) -> DdsResult<()> {
        self.end(sample, self.effect_of_unregister(), Some(nanos(time)?))
    }

    /// Disposes an instance. The instance becomes alive again when it is written again.
    pub fn dispose(&self, sample: &T) -> DdsResult<()> {
        self.end(sample, RecordEffect::Disposed, None)
    }

    /// As [`DataWriter::dispose`], with a source timestamp.
    pub fn dispose_w_timestamp(&self, sample: &T, time: SystemTime) -> DdsResult<()> {
        self.end(sample, RecordEffect::Disposed, Some(nanos(time)?))
    }

    /// Writes the last sample of an instance, then disposes the instance.
    pub fn write_dispose(&self, sample: &T) -> DdsResult<()> {
        self.write(sample)?;
        self.dispose(sample)
    }

    /// As [`DataWriter::write_dispose`], with a source timestamp.
    pub fn write_dispose_w_timestamp(&self, sample: &T, time: SystemTime) -> DdsResult<()> {
        self.write_w_timestamp(sample, time)?;
        self.dispose_w_timestamp(sample, time)
    }

    /// As [`DataWriter::write`], with a source timestamp.
    pub fn write_w_timestamp(&self, sample: &T, time: SystemTime) -> DdsResult<()> {
        self.write_at(sample, Some(nanos(time)?))
    }

    /// The handle of an instance that this writer has
    /// [registered](DataWriter::register_instance), written or disposed, and not unregistered
    /// since.
    pub fn lookup_instance(&self, sample: &T) -> Option<InstanceHandle> {
        let key = self.key_of(sample).ok()?;
        self.known.knows(key).then(|| InstanceHandle::of_instance(key))
    }

    /// A sample with the key of an instance that [`lookup_instance`](DataWriter::lookup_instance)
    /// finds. Members outside the key have default values.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the handle belongs to no such instance.
    pub fn get_key_value(&self, handle: InstanceHandle) -> DdsResult<T> {
        let read = |value: &[u8]| T::read_key(self.topic().support(), value).ok();
        let value = match handle.instance_key() {
            Some(0) if !self.known.has_key() => {
                read(&keyless_payload(T::extensibility(self.topic().support())))
            }
            key => key.and_then(|key| self.known.value(key, read)).flatten(),
        };
        value.ok_or_else(|| self.unknown_instance(handle))
    }

    pub(super) fn unknown_instance(&self, handle: InstanceHandle) -> DdsError {
        DdsError::BadParameter(format!(
            "{handle} is not an instance that this writer of `{}` has registered or written: \
             register the instance first",
            self.topic().name()
        ))
    }

    pub(super) fn key_of(&self, sample: &T) -> DdsResult<u128> {
        let hash = sample.hash_of_key().map_err(|error| self.not_encodable(&error))?;
        Ok(u128::from_be_bytes(hash))
    }

    fn effect_of_unregister(&self) -> RecordEffect {
        if self.shared.autodispose.load(Ordering::Relaxed) {
            RecordEffect::DisposedAndUnregistered
        } else {
            RecordEffect::Unregistered
        }
    }

    /// Notes that a sample was written or its instance disposed: the writer knows the instance from
    /// now on. Costs nothing for types that have no key.
    #[inline(always)]
    pub(super) fn note_written(&self, sample: &T) {
        // A sample that was written has a key that can be encoded.
        self.note_fresh(self.fresh_instance(sample).unwrap_or_default());
    }

    /// Makes the instance of a sample known that was written.
    #[inline(always)]
    pub(super) fn note_fresh(&self, fresh: Option<FreshInstance>) {
        if let Some(fresh) = fresh {
            self.known.enter(fresh);
        }
    }

    /// The instance of a sample, if the writer does not know it yet.
    #[inline(always)]
    pub(super) fn fresh_instance(&self, sample: &T) -> DdsResult<Option<FreshInstance>> {
        if T::NEVER_KEYED || !self.known.has_key() {
            return Ok(None);
        }
        self.fresh_instance_of(self.key_of(sample)?, sample)
    }

    /// The instance with this key, if the writer does not know it yet.
    #[inline(always)]
    fn fresh_instance_of(&self, key: u128, sample: &T) -> DdsResult<Option<FreshInstance>> {
        if self.known.is_recent(key) { Ok(None) } else { self.seldom_instance(key, sample) }
    }

    /// The instance of a sample that is built, for [`note_built`](Self::note_built); `None` for a
    /// type without a key.
    #[inline(always)]
    pub(super) fn built_instance(&self, sample: &T) -> DdsResult<Option<BuiltInstance>> {
        if T::NEVER_KEYED || !self.known.has_key() {
            return Ok(None);
        }
        let (departures, key) = (self.known.departures(), self.key_of(sample)?);
        let fresh = self.fresh_instance_of(key, sample)?;
        Ok(Some(BuiltInstance { key, departures, fresh }))
    }

    /// Makes the instance of a sample known that was built and is published. Another thread may
    /// have left the instance before.
    #[inline(always)]
    pub(super) fn note_built(&self, built: Option<BuiltInstance>) {
        let Some(BuiltInstance { key, departures, fresh }) = built else { return };
        self.note_fresh(fresh);
        if self.known.departures() != departures {
            self.known.enter_left(key);
        }
    }

    #[cold]
    fn seldom_instance(&self, key: u128, sample: &T) -> DdsResult<Option<FreshInstance>> {
        match self.known.touch(key) {
            true => Ok(None),
            false => self.encoded_instance(key, sample).map(Some),
        }
    }

    fn encoded_instance(&self, key: u128, sample: &T) -> DdsResult<FreshInstance> {
        let value = key_payload(sample).map_err(|error| self.not_encodable(&error))?;
        Ok(FreshInstance { key, value })
    }

    /// Side effect of adding a sample to a set: the instance may be a new one.
    pub(super) fn entering_sample(&self, sample: &T) -> DdsResult<Option<SampleSideEffect>> {
        self.entering(self.limited_key(sample)?, self.fresh_instance(sample)?)
    }

    /// As `entering_sample`. `limited` is the instance of the sample, if there are RESOURCE_LIMITS,
    /// and `fresh` the same if the writer may not know the instance.
    pub(super) fn entering(
        &self,
        limited: Option<u128>,
        fresh: Option<FreshInstance>,
    ) -> DdsResult<Option<SampleSideEffect>> {
        let is_counted = limited.map_or(Ok(false), |key| self.enter_instance(key))?;
        let entered = fresh.map(|fresh| (fresh.key, self.known.enter(fresh)));
        let key = entered.filter(|(_, is_new)| *is_new).map(|(key, _)| key);
        let counted = limited.filter(|_| is_counted);
        Ok(key.map(SampleSideEffect::Entered).or(counted.map(SampleSideEffect::Counted)))
    }

    /// Returns an error if the writer does not know an instance.
    fn check_known(&self, sample: &T) -> DdsResult<()> {
        if !self.known.has_key() {
            return Ok(());
        }
        match self.known.knows(self.key_of(sample)?) {
            true => Ok(()),
            false => Err(DdsError::PreconditionNotMet(format!(
                "this writer of `{}` has not registered or written the instance, or has \
                 unregistered it: register or write the instance first",
                self.topic().name()
            ))),
        }
    }

    /// Writes the disposal or unregistration of an instance.
    fn end(&self, sample: &T, effect: RecordEffect, time: Option<u64>) -> DdsResult<()> {
        self.enabling.check()?;
        if effect != RecordEffect::Disposed {
            self.check_known(sample)?;
        }
        let payload = sample.key_cdr(self.encoding());
        let payload = payload.map_err(|error| self.not_encodable(&error))?;
        let metadata = RecordMetadata { effect, ..self.metadata_at(sample, time)? };
        let size = HEADER + payload.len();
        let fill = |record: &mut [u8]| record[HEADER..size].copy_from_slice(&payload);
        let affect = || match effect {
            RecordEffect::Disposed => self.entering_sample(sample),
            _ => self.key_of(sample).map(|key| Some(self.leave_instance(key))),
        };
        let held = self.hold(&metadata, time, size, affect, |record| {
            fill(record);
            Ok(size)
        });
        if let Some(held) = held {
            return held;
        }
        if effect == RecordEffect::Disposed {
            // The instance counts before the commit, and is known after it.
            let counted = self.entering(self.limited_key(sample)?, None)?;
            let claim = self.claim(size + metadata.size());
            let committed = claim.and_then(|mut claim| {
                fill(claim.bytes());
                self.commit_at(claim, size, metadata, time)
            });
            return committed.map(|()| self.note_written(sample)).inspect_err(|_| {
                counted.into_iter().for_each(|counted| self.revert(counted));
            });
        }
        let mut claim = self.claim(size + metadata.size())?;
        fill(claim.bytes());
        // The instance is forgotten before the commit, and a write makes it known after its own: a
        // write that comes later than this record finds the instance unknown.
        let left = affect()?;
        self.commit_at(claim, size, metadata, time).inspect_err(|_| {
            left.into_iter().for_each(|left| self.revert(left));
        })
    }

    /// Removes an instance from the known and counted ones.
    fn leave_instance(&self, key: u128) -> SampleSideEffect {
        let known = self.known.leave(key);
        let counted = self.limits().is_some_and(|limits| limits.uncount_instance(key));
        SampleSideEffect::Left { key, known, counted }
    }

    /// Reverts the effect of a sample whose set was discarded.
    pub(super) fn revert(&self, effect: SampleSideEffect) {
        match effect {
            SampleSideEffect::Entered(key) if !self.known.revert_entry(key) => {}
            SampleSideEffect::Entered(key) | SampleSideEffect::Counted(key) => {
                self.limits().into_iter().for_each(|limits| {
                    limits.uncount_instance(key);
                });
            }
            SampleSideEffect::Left { key, known, counted } => {
                known.into_iter().for_each(|known| self.known.enter_again(key, known));
                let limits = self.limits().filter(|_| counted);
                limits.into_iter().for_each(|limits| limits.count_again(key));
            }
        }
    }
}
