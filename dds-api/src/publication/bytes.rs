//! Byte strings that are built directly in the memory that readers read.
//!
//! Owns: the framing of the bytes within their record. Never does: move a byte that the application
//! has written.

use std::ops::{Deref, DerefMut};

use idl_cdr::CdrError;

use super::writer::DataWriter;
use super::writer_claim::WriterClaim;
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::record::HEADER;
use crate::topic::{BYTES_AT, Bytes};

/// Bytes in the writer's memory, to be filled in and published. Dropping the loan discards
/// the bytes.
///
/// ```
/// # use dds_api::prelude::*;
/// # use dds_api::topic::Bytes;
/// # fn example(writer: &DataWriter<Bytes>, mut read: impl FnMut(&mut [u8]) -> usize) -> DdsResult<()> {
/// let mut frame = writer.loan_bytes(1500)?;
/// let length = read(&mut frame);
/// frame.truncate(length);
/// frame.publish()?;
/// # Ok(())
/// # }
/// ```
/// Published bytes belong to the readers and cannot be changed any more:
/// ```compile_fail,E0382
/// # use dds_api::prelude::*;
/// # use dds_api::topic::Bytes;
/// # fn example(writer: &DataWriter<Bytes>) -> DdsResult<()> {
/// let mut frame = writer.loan_bytes(1500)?;
/// frame.publish()?;
/// frame[0] = 7;
/// # Ok(())
/// # }
/// ```
pub struct ByteLoan<'a> {
    writer: &'a DataWriter<Bytes>,
    claim: Option<WriterClaim<'a>>,
    length: usize,
}

impl ByteLoan<'_> {
    /// Limits the published bytes to the first `length`. Has no effect if there are fewer bytes.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Publishes the bytes.
    pub fn publish(mut self) -> DdsResult<()> {
        let (writer, length) = (self.writer, self.length);
        writer.enabling.check()?;
        let size = HEADER + payload_size(writer, length)?;
        let metadata = writer.metadata_of(&Bytes::default())?;
        let key = writer.limited_key(&Bytes::default())?;
        let Some(claim) = &mut self.claim else { return Ok(()) };
        let framed = Bytes::frame(length, &mut claim.bytes()[HEADER..size], writer.encoding());
        framed.map_err(|error| unfit(writer, &error))?;
        let Some(claim) = self.claim.take() else { return Ok(()) };
        writer.publish_built(claim, size, metadata, key, None)
    }
}

impl Deref for ByteLoan<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let bytes = self.claim.as_ref().map(WriterClaim::seen).unwrap_or_default();
        bytes.get(HEADER + BYTES_AT..).and_then(|rest| rest.get(..self.length)).unwrap_or_default()
    }
}

impl DerefMut for ByteLoan<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = self.claim.as_mut().map(WriterClaim::bytes).unwrap_or_default();
        let rest = bytes.get_mut(HEADER + BYTES_AT..).unwrap_or_default();
        rest.get_mut(..self.length).unwrap_or_default()
    }
}

impl Drop for ByteLoan<'_> {
    fn drop(&mut self) {
        self.claim.take().into_iter().for_each(|claim| self.writer.give_back(claim));
    }
}

impl DataWriter<Bytes> {
    /// Writes bytes, which are copied once, into the memory that readers read. Waits for room as
    /// [`write`](DataWriter::write) does.
    pub fn write_bytes(&self, bytes: &[u8]) -> DdsResult<()> {
        let mut loan = self.loan_bytes_as_left(bytes.len())?;
        loan.copy_from_slice(bytes);
        loan.publish()
    }

    /// Loans `length` zeroed bytes in the memory that readers read. See [`ByteLoan`].
    ///
    /// # Errors
    /// [`DdsError::OutOfResources`] if a sample of this length never fits into the writer's memory;
    /// [`DdsError::Timeout`] if there is no room within max_blocking_time.
    pub fn loan_bytes(&self, length: usize) -> DdsResult<ByteLoan<'_>> {
        let mut loan = self.loan_bytes_as_left(length)?;
        loan.fill(0);
        Ok(loan)
    }

    /// As [`loan_bytes`](Self::loan_bytes), but the bytes contain leftovers of earlier samples. For
    /// callers that fill in every byte anyway.
    ///
    /// # Errors
    /// See [`loan_bytes`](Self::loan_bytes).
    pub fn loan_bytes_as_left(&self, length: usize) -> DdsResult<ByteLoan<'_>> {
        self.loan_bytes_within(length, None)
    }

    pub(super) fn loan_bytes_within(
        &self,
        length: usize,
        blocking: Option<Timeout>,
    ) -> DdsResult<ByteLoan<'_>> {
        let claim = self.claim_for(self.room_for_bytes(length)?, blocking)?;
        Ok(ByteLoan { writer: self, claim: Some(claim), length })
    }

    /// Size of the record of a sample of `length` bytes.
    pub(super) fn room_for_bytes(&self, length: usize) -> DdsResult<usize> {
        Ok(HEADER + payload_size(self, length)? + self.metadata_size())
    }

    /// Builds `length` bytes in place, zeroed at first, and publishes them: a
    /// [loan](Self::loan_bytes) in one call. If `fill` panics, nothing is published.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # use dds_api::topic::Bytes;
    /// # fn example(writer: &DataWriter<Bytes>) -> DdsResult<()> {
    /// writer.write_bytes_with(8, |slot| slot.copy_from_slice(&7_u64.to_be_bytes()))
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`loan_bytes`](Self::loan_bytes).
    pub fn write_bytes_with(&self, length: usize, fill: impl FnOnce(&mut [u8])) -> DdsResult<()> {
        let mut loan = self.loan_bytes(length)?;
        fill(&mut loan);
        loan.publish()
    }
}

fn payload_size(writer: &DataWriter<Bytes>, length: usize) -> DdsResult<usize> {
    let too_long = || unfit(writer, &CdrError::TooLong { offset: 4, length });
    Bytes::payload_size(length).ok_or_else(too_long)
}

fn unfit(writer: &DataWriter<Bytes>, error: &CdrError) -> DdsError {
    writer.not_encodable(error)
}
