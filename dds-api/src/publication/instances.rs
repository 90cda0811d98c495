//! The instances of a writer: registering, unregistering, disposing.
//!
//! Owns: the set of instances that the application has registered. Never does: track instances that
//! are only written; writing an instance does not require registration.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use idl_xtypes::TopicData;

use super::changes::SampleSideEffect;
use super::writer::DataWriter;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle};
use crate::mapping::record::{HEADER, RecordEffect, RecordMetadata, key_payload};

/// Keys of the registered instances, by key hash.
#[derive(Default)]
pub(super) struct RegisteredInstances(Mutex<BTreeMap<u128, Box<[u8]>>>);

impl RegisteredInstances {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u128, Box<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn contains(&self, key: u128) -> bool {
        self.lock().contains_key(&key)
    }
}

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
        let mut registered = self.registered.lock();
        if let std::collections::btree_map::Entry::Vacant(new) = registered.entry(key) {
            let value = key_payload(sample).map_err(|error| self.not_encodable(&error))?;
            new.insert(value.into_boxed_slice());
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

    /// The handle of an instance that is currently [registered](DataWriter::register_instance).
    pub fn lookup_instance(&self, sample: &T) -> Option<InstanceHandle> {
        let key = self.key_of(sample).ok()?;
        let known = self.registered.contains(key);
        known.then(|| InstanceHandle::of_instance(key))
    }

    /// A sample with the key of a registered instance. Members outside the key have default values.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the handle belongs to no registered instance of this writer.
    pub fn get_key_value(&self, handle: InstanceHandle) -> DdsResult<T> {
        let key = handle.instance_key();
        let registered = self.registered.lock();
        let value = key
            .and_then(|key| registered.get(&key))
            .and_then(|key| T::read_key(self.topic().support(), key).ok());
        value.ok_or_else(|| self.unknown_instance(handle))
    }

    pub(super) fn unknown_instance(&self, handle: InstanceHandle) -> DdsError {
        DdsError::BadParameter(format!(
            "{handle} is not an instance that this writer of `{}` has registered: register the \
             instance first",
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

    /// Writes the disposal or unregistration of an instance.
    fn end(&self, sample: &T, effect: RecordEffect, time: Option<u64>) -> DdsResult<()> {
        let payload = sample.key_cdr(self.encoding());
        let payload = payload.map_err(|error| self.not_encodable(&error))?;
        let metadata = RecordMetadata { effect, ..self.metadata_of(sample)? };
        let size = HEADER + payload.len();
        let fill = |record: &mut [u8]| record[HEADER..size].copy_from_slice(&payload);
        let leave = || match effect {
            RecordEffect::Disposed => Ok(None),
            _ => self.key_of(sample).map(|key| Some(self.leave_instance(key))),
        };
        let held = self.hold(&metadata, time, size, leave, |record| {
            fill(record);
            Ok(size)
        });
        if let Some(held) = held {
            return held;
        }
        let mut claim = self.claim(size + metadata.size())?;
        fill(claim.bytes());
        self.commit_at(claim, size, (metadata, time))?;
        leave().map(drop)
    }

    /// Removes an instance from the registered and counted ones.
    fn leave_instance(&self, key: u128) -> SampleSideEffect {
        let registered = self.registered.lock().remove(&key);
        let counted = self.limits().is_some_and(|limits| limits.uncount_instance(key));
        SampleSideEffect::Left { key, registered, counted }
    }

    /// Reverts the effect of a sample whose set was discarded.
    pub(super) fn revert(&self, effect: SampleSideEffect) {
        match effect {
            // The application may have registered the instance since.
            SampleSideEffect::Entered(key) if self.registered.lock().contains_key(&key) => {}
            SampleSideEffect::Entered(key) => self.limits().into_iter().for_each(|limits| {
                limits.uncount_instance(key);
            }),
            SampleSideEffect::Left { key, registered, counted } => {
                if let Some(value) = registered {
                    self.registered.lock().insert(key, value);
                }
                let limits = self.limits().filter(|_| counted);
                limits.into_iter().for_each(|limits| limits.count_again(key));
            }
        }
    }
}
