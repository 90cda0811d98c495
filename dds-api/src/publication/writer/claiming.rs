//! Claiming of room for a record.
//!
//! Owns: the claim, and the wait for room. Never does: write into the room.

use derecho_core::ids::Time;
use derecho_core::link::Interest;
use derecho_core::multicast::claim::ClaimError;
use derecho_node::WaitOutcome;
use idl_xtypes::TopicData;

use super::{DataWriter, WriterCore};
use crate::infrastructure::this_thread::this_thread;
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::record::HEADER;
use crate::mapping::shares::WriterMemory;
use crate::publication::writer_claim::WriterClaim;

impl<T: TopicData> DataWriter<T> {
    #[inline(always)]
    pub(in crate::publication) fn claim(&self, size: usize) -> DdsResult<WriterClaim<'_>> {
        self.claim_within(size, self.max_blocking())
    }

    /// As `claim`, waiting for up to `blocking` if it is given.
    pub(in crate::publication) fn claim_for(
        &self,
        size: usize,
        blocking: Option<Timeout>,
    ) -> DdsResult<WriterClaim<'_>> {
        self.claim_within(size, blocking.unwrap_or(self.max_blocking()))
    }

    #[inline(always)]
    pub(super) fn claim_within(
        &self,
        size: usize,
        blocking: Timeout,
    ) -> DdsResult<WriterClaim<'_>> {
        // The slow call returns its claim in memory. The claim of the usual case must not share
        // that memory: it would be stored in parts and loaded as a whole, which waits.
        let claim = match self.claim_at_once(size) {
            Some(claim) => claim,
            None => self.claim_slowly(size, blocking)?,
        };
        Ok(claim)
    }

    /// Claims room in the memory of the first membership, if that membership and the writer still
    /// exist and there is room.
    #[inline(always)]
    pub(super) fn claim_at_once(&self, size: usize) -> Option<WriterClaim<'_>> {
        self.first()?.memory.claim_on(this_thread(), size).ok().map(WriterClaim::in_first)
    }

    #[cold]
    pub(super) fn claim_slowly(
        &self,
        size: usize,
        blocking: Timeout,
    ) -> DdsResult<WriterClaim<'_>> {
        let membership = &self.participant.membership;
        let deadline = blocking.deadline();
        loop {
            self.enabling.check()?;
            match self.try_claim(size) {
                Some(Ok(claim)) => return Ok(claim),
                Some(Err(ClaimError::TooLong { largest, .. })) => {
                    return Err(DdsError::OutOfResources(format!(
                        "a sample of {} bytes does not fit a writer of `{}`, which takes up to {} \
                         bytes: create the writer with .max_sample_size({0})",
                        size - HEADER,
                        self.topic.name(),
                        largest - HEADER
                    )));
                }
                None if membership.is_out_for_good() => return Err(membership.error()),
                // Readers must make room, or the participant must rejoin first.
                Some(Err(ClaimError::Full)) | None => {}
            }
            if blocking == Timeout::NOW {
                // The memory may contain samples that no reader needs any more. The next turn
                // finds them.
                self.participant.engine.poke();
            }
            // Another thread may take the room first.
            if !self.wait_while_active(deadline, || self.has_room(size))? {
                // A log on a full disk blocks its topic.
                let waiting = match self.topic.is_logged() {
                    true => self.topic.waiting(),
                    false => String::new(),
                };
                return Err(DdsError::Timeout(format!(
                    "readers of `{}` have not made room for a sample of {} bytes within {}: let \
                     the readers take faster, or give the writer more .memory() or a longer \
                     .max_blocking_time(){waiting}",
                    self.topic.name(),
                    size - HEADER,
                    blocking
                )));
            }
        }
    }

    /// Waits until `ready`, or until it can never become true. Returns `false` on time-out.
    pub(in crate::publication) fn wait_while_active(
        &self,
        deadline: Option<Time>,
        ready: impl FnMut() -> bool,
    ) -> DdsResult<bool> {
        let waited = self.enabling.wait(&self.participant, Interest::Hints, deadline, ready)?;
        match waited {
            WaitOutcome::TimedOut if self.participant.membership.is_out() => {
                Err(self.participant.membership.error())
            }
            waited => Ok(waited == WaitOutcome::Ready),
        }
    }

    /// A claim in the current membership; `None` if the participant is no member.
    fn try_claim(&self, size: usize) -> Option<Result<WriterClaim<'_>, ClaimError>> {
        let membership = &self.participant.membership;
        if let Some(first) = self.first() {
            return Some(first.memory.claim_on(this_thread(), size).map(WriterClaim::in_first));
        }
        let writer_memory =
            self.shared.writer_memory().filter(|berth| membership.is_in(berth.life))?;
        Some(WriterClaim::in_later(writer_memory, this_thread(), size))
    }

    /// Abandons a claim, and wakes threads that sleep until there is room.
    #[cold]
    pub(in crate::publication) fn give_back(&self, claim: WriterClaim<'_>) {
        drop(claim);
        self.notify_room();
    }

    /// Wakes threads that sleep until there is room, because a claim was given back unused.
    pub(in crate::publication) fn notify_room(&self) {
        self.participant.engine.announce();
    }
}

impl<T: TopicData> WriterCore<T> {
    /// Whether a claim of this size might succeed now.
    #[inline]
    pub(super) fn has_room(&self, size: usize) -> bool {
        self.with_memory(|writer_memory| writer_memory.memory.has_room(size)).unwrap_or_default()
    }

    /// Applies a closure to the writer's memory in the current membership; `None` if the
    /// participant is no member.
    #[inline]
    pub(in crate::publication) fn with_memory<R>(
        &self,
        use_memory: impl FnOnce(&WriterMemory) -> R,
    ) -> Option<R> {
        if let Some(first) = self.first() {
            return Some(use_memory(first));
        }
        let membership = &self.participant.membership;
        let writer_memory =
            self.shared.writer_memory().filter(|berth| membership.is_in(berth.life))?;
        Some(use_memory(&writer_memory))
    }
}
