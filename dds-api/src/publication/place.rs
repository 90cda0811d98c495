//! A claim, and what keeps the memory that it is in.
//!
//! Owns: a berth that its writer may leave meanwhile. Never does: let a claim out of it outlive that.

use std::sync::Arc;

use derecho_core::multicast::bias::Thread;
use derecho_core::multicast::claim::{Claim, ClaimError};

use crate::mapping::shares::Berth;

/// Room for one record, of a writer that lives as long as `'a`.
pub(super) struct Place<'a> {
    /// Dropped before the berth.
    claim: Claim<'a>,
    /// What keeps its memory, unless the writer does to its end.
    berth: Option<Arc<Berth>>,
}

impl<'a> Place<'a> {
    /// In the memory that the writer keeps.
    #[inline(always)]
    pub(super) fn in_first(claim: Claim<'a>) -> Place<'a> {
        Place { claim, berth: None }
    }

    /// In a memory that the writer has since its participant has come in again.
    pub(super) fn in_later(
        berth: Arc<Berth>,
        thread: Thread,
        size: usize,
    ) -> Result<Place<'a>, ClaimError> {
        let claim = berth.memory.claim_on(thread, size)?;
        // SAFETY: only the lifetime changes. The claim refers to what the berth's memory keeps, which stays where
        // it is as long as there is a handle on the berth; there is one beside the claim, and whoever takes the
        // two apart keeps it until the claim is gone.
        let claim: Claim<'a> = unsafe { std::mem::transmute::<Claim<'_>, Claim<'a>>(claim) };
        Ok(Place { claim, berth: Some(berth) })
    }

    /// Where it is, unless in the memory that the writer keeps.
    #[inline(always)]
    pub(super) fn berth(&self) -> Option<&Berth> {
        self.berth.as_deref()
    }

    /// The room.
    #[inline(always)]
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.claim.bytes()
    }

    /// The same, to be looked at.
    #[inline(always)]
    pub(super) fn seen(&self) -> &[u8] {
        self.claim.seen()
    }

    /// The claim, and what has to be kept until it is gone.
    #[inline(always)]
    pub(super) fn into_parts(self) -> (Claim<'a>, Option<Arc<Berth>>) {
        (self.claim, self.berth)
    }
}
