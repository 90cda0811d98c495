//! A loaned sample, built directly in the memory that readers read.
//!
//! Owns: the claim of the room in which the sample is built. Never does: move a plain sample.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use idl_xtypes::TopicData;

use super::writer::DataWriter;
use super::writer_claim::WriterClaim;
use crate::infrastructure::DdsResult;
use crate::mapping::record::HEADER;

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
    /// In the claim of a sample of a plain type, otherwise on the heap.
    value: NonNull<T>,
    /// Room of a sample of a plain type. No destructor of a field runs, and no part of a loan is
    /// lent to a call: a loan then stays in registers, whereas a loan in memory is moved by loads
    /// that are wider than the stores before, and these wait for each other.
    claim: ManuallyDrop<Option<WriterClaim<'a>>>,
}

// SAFETY: the value belongs to this loan alone, so the loan may be sent wherever a claim and a `T`
// may be sent.
unsafe impl<T: TopicData> Send for Loan<'_, T> {}

impl<'a, T: TopicData> Loan<'a, T> {
    /// Builds a plain sample in this claim, with the content that an earlier record left there.
    #[inline(always)]
    pub(super) fn as_left(writer: &'a DataWriter<T>, mut claim: WriterClaim<'a>) -> Self {
        let value = NonNull::from(&mut claim.bytes()[HEADER..][..size_of::<T>()]).cast::<T>();
        assert!(
            value.is_aligned(),
            "records are aligned to cache lines, and plain types need less"
        );
        Loan { writer, value, claim: ManuallyDrop::new(Some(claim)) }
    }

    /// The value, and the claim if the value lies there. Both are the caller's.
    #[inline(always)]
    fn into_parts(self) -> (NonNull<T>, Option<WriterClaim<'a>>) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: nothing uses the claim afterwards, because the loan is not dropped.
        (this.value, unsafe { ManuallyDrop::take(&mut this.claim) })
    }

    /// Publishes the sample.
    #[inline(always)]
    pub fn publish(self) -> DdsResult<()> {
        let writer = self.writer;
        let (value, claim) = self.into_parts();
        let Some(claim) = claim else {
            // SAFETY: a value without a claim comes from a box, and `into_parts` handed it over.
            let value: Box<T> = unsafe { Box::from_raw(value.as_ptr()) };
            return writer.write(&value);
        };
        writer.publish_plain(claim)
    }
}

impl<'a, T: TopicData + Default> Loan<'a, T> {
    #[inline(always)]
    pub(super) fn in_place(writer: &'a DataWriter<T>, claim: WriterClaim<'a>) -> Self {
        let mut loan = Loan::as_left(writer, claim);
        *loan = T::default();
        loan
    }

    pub(super) fn on_heap(writer: &'a DataWriter<T>) -> Self {
        let value = NonNull::from(Box::leak(Box::default()));
        Loan { writer, value, claim: ManuallyDrop::new(None) }
    }
}

impl<T: TopicData> Deref for Loan<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a value on the heap is a `T` of this loan. A claim has room for a header and an
        // aligned `T`, exclusively for this loan. The memory was zeroed when it was opened and
        // contains bytes of earlier records. All bytes are initialised, and any bytes are a valid
        // value of a plain type.
        unsafe { self.value.as_ref() }
    }
}

impl<T: TopicData> DerefMut for Loan<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { self.value.as_mut() }
    }
}

impl<T: TopicData> Drop for Loan<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: nothing uses the claim afterwards.
        match unsafe { ManuallyDrop::take(&mut self.claim) } {
            Some(claim) => self.writer.give_back(claim),
            // SAFETY: a value without a claim comes from a box, and belongs to this loan.
            None => drop(unsafe { Box::from_raw(self.value.as_ptr()) }),
        }
    }
}
