//! Waiting or refusal of a write that exceeds RESOURCE_LIMITS.
//!
//! Owns: the wait, and the error if it fails. Never does: cost a writer without limits more than
//! one check.

use derecho_node::clock;
use idl_xtypes::TopicData;

use super::{LimitRefusal, ReceivedPosition, WritePermit, WriterLimits};
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::publication::DataWriter;

impl<T: TopicData> DataWriter<T> {
    /// The part of the writer's stream that readers have received; `None` while the participant is
    /// no member.
    fn received(&self) -> Option<ReceivedPosition> {
        self.with_memory(|writer_memory| (writer_memory.life, writer_memory.memory.given_back()))
    }

    /// The instance of a sample, if there are RESOURCE_LIMITS.
    #[inline(always)]
    pub(in crate::publication) fn limited_key(&self, sample: &T) -> DdsResult<Option<u128>> {
        self.limits().map(|_| self.key_of(sample)).transpose()
    }

    /// Writes a sample of this instance within RESOURCE_LIMITS. If the sample exceeds a
    /// limit, waits until readers have received other samples, for up to `blocking` or
    /// else max_blocking_time.
    #[inline(always)]
    pub(in crate::publication) fn within_limits(
        &self,
        key: Option<u128>,
        blocking: Option<Timeout>,
        write: impl FnOnce() -> DdsResult<()>,
    ) -> DdsResult<()> {
        match key {
            None => write(),
            Some(key) => self.within(key, blocking.unwrap_or(self.max_blocking()), write),
        }
    }

    #[cold]
    fn within(
        &self,
        key: u128,
        blocking: Timeout,
        write: impl FnOnce() -> DdsResult<()>,
    ) -> DdsResult<()> {
        let Some(limits) = self.limits() else { return write() };
        if self.is_in_set() {
            // No reader can receive the sample before the set ends, so a wait here would never end.
            // The instance is counted when the sample is added to the set.
            return write();
        }
        let admitted = self.admit(limits, key, blocking)?;
        let result = write();
        match result {
            Ok(()) => self.note(admitted),
            Err(_) => {
                drop(admitted);
                self.recheck_waiters();
            }
        }
        result
    }

    fn note(&self, admitted: WritePermit<'_>) {
        let committed =
            self.with_memory(|writer_memory| writer_memory.memory.committed()).unwrap_or_default();
        admitted.written(committed);
        // Readers may have received the sample before that was noted. Threads woken by them did not
        // see the note.
        if self.received().is_none_or(|(_, received)| received >= committed) {
            self.recheck_waiters();
        }
    }

    /// Makes all waiting threads and tasks check again.
    fn recheck_waiters(&self) {
        self.participant.engine.act(|machine, _, _| machine.alarm(clock::now()));
    }

    fn admit<'a>(
        &self,
        limits: &'a WriterLimits,
        key: u128,
        blocking: Timeout,
    ) -> DdsResult<WritePermit<'a>> {
        let membership = &self.participant.membership;
        let deadline = blocking.deadline();
        loop {
            self.enabling.check()?;
            match self.received().map(|received| limits.admit(key, received)) {
                Some(Ok(admitted)) => return Ok(admitted),
                Some(Err(LimitRefusal::Instance)) => return Err(self.one_instance_too_many(limits)),
                None if membership.is_out_for_good() => return Err(membership.error()),
                Some(Err(LimitRefusal::Later)) | None => {}
            }
            if !self.wait_while_active(deadline, || self.is_admitted(limits, key))? {
                return Err(DdsError::Timeout(format!(
                    "a writer of `{}` timed out after {blocking}: RESOURCE_LIMITS allow no more \
                     samples that readers have not received ({}); raise the limit or \
                     max_blocking_time",
                    self.topic().name(),
                    limits.in_words()
                )));
            }
        }
    }

    /// Whether a sample of this instance does not have to wait for admission now.
    pub(in crate::publication) fn is_admitted(&self, limits: &WriterLimits, key: u128) -> bool {
        let Some(received) = self.received() else { return false };
        // A sample of an instance above the limit is refused at once.
        !matches!(limits.check(&mut limits.lock(), key, received), Err(LimitRefusal::Later))
    }

    /// Counts an instance, if instances are limited. Returns whether it did not count before.
    pub(in crate::publication) fn enter_instance(&self, key: u128) -> DdsResult<bool> {
        let Some(limits) = self.limits() else { return Ok(false) };
        limits.count_instance(key).ok_or_else(|| self.one_instance_too_many(limits))
    }

    fn one_instance_too_many(&self, limits: &WriterLimits) -> DdsError {
        DdsError::OutOfResources(format!(
            "this writer of `{}` has {} instances, and RESOURCE_LIMITS allow no more: unregister \
             one, or raise max_instances",
            self.topic().name(),
            limits.instances
        ))
    }
}
