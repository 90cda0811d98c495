//! A claim together with a handle that keeps the claimed memory alive.
//!
//! Owns: a handle on the writer's memory of one membership, which the writer may leave meanwhile.
//! Never does: let a claim outlive that memory.

use std::sync::Arc;

use derecho_core::multicast::bias::ThreadToken;
use derecho_core::multicast::claim::{Claim, ClaimError};

use crate::mapping::shares::WriterMemory;

/// Room for one record, of a writer that lives for at least `'a`.
pub(super) struct WriterClaim<'a> {
    /// Declared first, so that it is dropped before the memory.
    claim: Claim<'a>,
    /// Keeps the claimed memory alive; `None` if the writer does so until its end.
    writer_memory: Option<Arc<WriterMemory>>,
}

impl<'a> WriterClaim<'a> {
    /// A claim in the memory that the writer keeps until its end.
    #[inline(always)]
    pub(super) fn in_first(claim: Claim<'a>) -> WriterClaim<'a> {
        WriterClaim { claim, writer_memory: None }
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
        Ok(WriterClaim { claim, writer_memory: Some(writer_memory) })
    }

    /// The writer memory of the claim; `None` for the memory that the writer keeps until its end.
    #[inline(always)]
    pub(super) fn writer_memory(&self) -> Option<&WriterMemory> {
        self.writer_memory.as_deref()
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
        (self.claim, self.writer_memory)
    }
}
