//! A claim together with a handle that keeps the claimed memory alive.
//!
//! Owns: a handle on the writer's memory of one membership, which the writer may leave meanwhile.
//! Never does: let a claim outlive that memory.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use derecho_core::multicast::bias::ThreadToken;
use derecho_core::multicast::claim::{Claim, ClaimError};

use crate::mapping::shares::WriterMemory;

/// Room for one record, of a writer that lives for at least `'a`.
pub(super) struct WriterClaim<'a> {
    /// Declared first, so that it is dropped before the memory.
    claim: Claim<'a>,
    memory: LaterMemory,
}

/// Keeps the claimed memory alive; `None` if the writer does so until its end. The destructor lends
/// no part of the handle to a call, so that claims stay in registers.
struct LaterMemory(ManuallyDrop<Option<Arc<WriterMemory>>>);

impl LaterMemory {
    #[inline(always)]
    fn new(writer_memory: Option<Arc<WriterMemory>>) -> LaterMemory {
        LaterMemory(ManuallyDrop::new(writer_memory))
    }
}

impl Drop for LaterMemory {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: nothing uses the handle afterwards.
        if let Some(writer_memory) = unsafe { ManuallyDrop::take(&mut self.0) } {
            release(writer_memory);
        }
    }
}

#[cold]
fn release(writer_memory: Arc<WriterMemory>) {
    drop(writer_memory);
}

impl<'a> WriterClaim<'a> {
    /// A claim in the memory that the writer keeps until its end.
    #[inline(always)]
    pub(super) fn in_first(claim: Claim<'a>) -> WriterClaim<'a> {
        WriterClaim { claim, memory: LaterMemory::new(None) }
    }

    /// A claim in memory that the writer opened after its participant rejoined.
    pub(super) fn in_later(
        writer_memory: Arc<WriterMemory>,
        thread: ThreadToken,
        size: usize,
    ) -> Result<WriterClaim<'a>, ClaimError> {
        let claim = writer_memory.memory.claim_on(thread, size)?;
        // SAFETY: only the lifetime changes. The claim refers to memory that the writer memory
        // keeps and that does not move while a handle on the writer memory exists. Such a handle
        // lies beside the claim, and code that separates the two keeps the handle until the claim
        // is gone.
        let claim: Claim<'a> = unsafe { std::mem::transmute::<Claim<'_>, Claim<'a>>(claim) };
        Ok(WriterClaim { claim, memory: LaterMemory::new(Some(writer_memory)) })
    }

    /// The claim itself, which lies in the memory that the writer keeps until its end.
    #[inline(always)]
    pub(super) fn into_first(self) -> Claim<'a> {
        assert!(self.memory.0.is_none(), "the claim lies in the first memory");
        let _nothing = ManuallyDrop::new(self.memory);
        self.claim
    }

    /// The writer memory of the claim; `None` for the memory that the writer keeps until its end.
    #[inline(always)]
    pub(super) fn writer_memory(&self) -> Option<&WriterMemory> {
        self.memory.0.as_deref()
    }

    /// The claimed bytes.
    #[inline(always)]
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.claim.bytes()
    }

    /// The claimed bytes, read-only.
    #[inline(always)]
    pub(super) fn seen(&self) -> &[u8] {
        self.claim.seen()
    }

    /// Splits into the claim and the handle that must be kept until the claim is gone.
    #[inline(always)]
    pub(super) fn into_parts(self) -> (Claim<'a>, Option<Arc<WriterMemory>>) {
        let mut memory = ManuallyDrop::new(self.memory);
        // SAFETY: nothing uses the handle afterwards, because `memory` is not dropped.
        (self.claim, unsafe { ManuallyDrop::take(&mut memory.0) })
    }
}
