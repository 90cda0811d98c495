//! A loaned sample, built directly in the memory that readers read.
//!
//! Owns: the claim of the room in which the sample is built. Never does: move a plain sample.

use std::ops::{Deref, DerefMut};

use idl_xtypes::TopicData;

use super::writer::DataWriter;
use super::writer_claim::WriterClaim;
use crate::infrastructure::DdsResult;
use crate::mapping::record::{HEADER, PolicyMetadata};

/// A sample to be filled in and published. Dropping the loan discards the sample.
///
/// A sample of a plain type is built in the sender's memory. Any other sample is built on the heap
/// and encoded when it is published.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
/// let mut track = writer.loan()?;
/// track.id = 7;
/// track.height = 3000.0;
/// track.publish()?;
/// # Ok(())
/// # }
/// ```
/// A published sample belongs to the readers and cannot be changed any more:
/// ```compile_fail,E0382
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
/// let mut track = writer.loan()?;
/// track.publish()?;
/// track.height = 3000.0;
/// # Ok(())
/// # }
/// ```
pub struct Loan<'a, T: TopicData> {
    writer: &'a DataWriter<T>,
    build: LoanStorage<'a, T>,
    /// Declared last, so that it is dropped after the sample.
    room: RoomGuard<'a, T>,
}

/// Notifies waiting threads that room has become free, unless the sample was published.
struct RoomGuard<'a, T: TopicData>(Option<&'a DataWriter<T>>);

impl<T: TopicData> Drop for RoomGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(writer) = self.0 {
            writer.notify_room();
        }
    }
}

enum LoanStorage<'a, T> {
    InPlace { place: WriterClaim<'a>, value: *mut T, policy_metadata: PolicyMetadata },
    Heap(Box<T>),
}

// SAFETY: the pointer points into the claim beside it and is used only through this loan, so the
// loan may be sent wherever a claim and a `T` may be sent.
unsafe impl<T: TopicData> Send for Loan<'_, T> {}

impl<'a, T: TopicData> Loan<'a, T> {
    /// Builds a plain sample in this claim, with the content that an earlier record left there.
    #[inline(always)]
    pub(super) fn as_left(
        writer: &'a DataWriter<T>,
        mut claim: WriterClaim<'a>,
        policy_metadata: PolicyMetadata,
    ) -> Self {
        let value = claim.bytes()[HEADER..].as_mut_ptr().cast::<T>();
        assert!(
            value.is_aligned(),
            "records are aligned to cache lines, and plain types need less"
        );
        Loan {
            writer,
            build: LoanStorage::InPlace { place: claim, value, policy_metadata },
            room: RoomGuard(Some(writer)),
        }
    }
}

impl<'a, T: TopicData + Default> Loan<'a, T> {
    #[inline(always)]
    pub(super) fn in_place(
        writer: &'a DataWriter<T>,
        claim: WriterClaim<'a>,
        policy_metadata: PolicyMetadata,
    ) -> Self {
        let mut loan = Loan::as_left(writer, claim, policy_metadata);
        *loan = T::default();
        loan
    }

    pub(super) fn on_heap(writer: &'a DataWriter<T>) -> Self {
        Loan { writer, build: LoanStorage::Heap(Box::default()), room: RoomGuard(None) }
    }
}

impl<T: TopicData> Loan<'_, T> {
    /// Publishes the sample.
    #[inline(always)]
    pub fn publish(mut self) -> DdsResult<()> {
        self.writer.enabling.check()?;
        // With the policy metadata for which room was claimed.
        let policy_metadata = match &mut self.build {
            LoanStorage::InPlace { policy_metadata: terms, .. } => std::mem::take(terms),
            LoanStorage::Heap(_) => PolicyMetadata::default(),
        };
        let writer = self.writer;
        let metadata = writer.metadata_with(&self, policy_metadata)?;
        let key = match &self.build {
            LoanStorage::InPlace { .. } => writer.limited_key(&self)?,
            // A sample on the heap goes through the ordinary write, which checks the limits.
            LoanStorage::Heap(_) => None,
        };
        let mut fresh = match &self.build {
            LoanStorage::InPlace { .. } => writer.fresh_instance(&self)?,
            LoanStorage::Heap(_) => None,
        };
        match self.build {
            LoanStorage::InPlace { mut place, .. } => {
                let size = HEADER + size_of::<T>();
                if let Some(layout) = T::LAYOUT {
                    layout.clear_padding(&mut place.bytes()[HEADER..size]);
                }
                let mut is_held = false;
                let write = || {
                    let fill = |record: &mut [u8]| {
                        record[HEADER..size].copy_from_slice(&place.bytes()[HEADER..size]);
                        Ok(size)
                    };
                    if let Some(held) = writer.hold(
                        &metadata,
                        None,
                        size,
                        || writer.entering(key, fresh.take()),
                        fill,
                    ) {
                        is_held = true;
                        return held;
                    }
                    writer.commit(place, size, metadata)?;
                    fresh.take().into_iter().for_each(|fresh| {
                        writer.known.enter(fresh);
                    });
                    Ok(())
                };
                writer.within_limits(key, None, write)?;
                if !is_held {
                    // An open set copies the sample; the room is given back.
                    self.room.0 = None;
                }
                Ok(())
            }
            LoanStorage::Heap(value) => writer.write(&value),
        }
    }
}

impl<T: TopicData> Deref for Loan<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        match &self.build {
            // SAFETY: the claim has room for a header and an aligned `T`, exclusively for this
            // loan. The memory was zeroed when it was opened and contains bytes of earlier records.
            // All bytes are initialised, and any bytes are a valid value of a plain type.
            LoanStorage::InPlace { value, .. } => unsafe { &**value },
            LoanStorage::Heap(value) => value,
        }
    }
}

impl<T: TopicData> DerefMut for Loan<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.build {
            // SAFETY: as in `deref`, and `self` is borrowed mutably.
            LoanStorage::InPlace { value, .. } => unsafe { &mut **value },
            LoanStorage::Heap(value) => value,
        }
    }
}
