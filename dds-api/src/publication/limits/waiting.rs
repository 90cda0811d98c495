//! What a writer does that RESOURCE_LIMITS do not let write: it waits, or is refused.
//!
//! Owns: the wait, and what is said when it is in vain. Never does: cost a writer without limits more than the look whether it
//! has any.

use derecho_node::clock;
use idl_xtypes::TopicData;

use super::{Admitted, Limits, Received, Refused};
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::publication::DataWriter;

impl<T: TopicData> DataWriter<T> {
    /// How far what it writes was received; `None` while it is no member.
    fn received(&self) -> Option<Received> {
        self.at_berth(|berth| (berth.life, berth.memory.given_back()))
    }

    /// The instance of a sample, if RESOURCE_LIMITS ask for it.
    #[inline(always)]
    pub(in crate::publication) fn limited_key(&self, sample: &T) -> DdsResult<Option<u128>> {
        self.limits().map(|_| self.key_of(sample)).transpose()
    }

    /// Writes a sample of this instance as far as RESOURCE_LIMITS let it, if there are any: waits, so long at most if it is said, until
    /// readers have received so many others that they do.
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
            // Nobody may receive it before the set is at its end, which must not be waited for. Its instance is counted as it comes
            // into the set.
            return write();
        }
        let admitted = self.admit(limits, key, blocking)?;
        let result = write();
        match result {
            Ok(()) => self.note(admitted),
            Err(_) => {
                drop(admitted);
                self.look_again();
            }
        }
        result
    }

    fn note(&self, admitted: Admitted<'_>) {
        let committed = self.at_berth(|berth| berth.memory.committed()).unwrap_or_default();
        admitted.written(committed);
        // Readers may have received it before that was noted: whoever they have woken did not know it.
        if self.received().is_none_or(|(_, received)| received >= committed) {
            self.look_again();
        }
    }

    /// Whoever waits looks again, tasks as well.
    fn look_again(&self) {
        self.participant.engine.act(|machine, _, _| machine.alarm(clock::now()));
    }

    fn admit<'a>(
        &self,
        limits: &'a Limits,
        key: u128,
        blocking: Timeout,
    ) -> DdsResult<Admitted<'a>> {
        let standing = &self.participant.standing;
        let deadline = blocking.deadline();
        loop {
            self.enabling.check()?;
            match self.received().map(|received| limits.admit(key, received)) {
                Some(Ok(admitted)) => return Ok(admitted),
                Some(Err(Refused::Instance)) => return Err(self.one_instance_too_many(limits)),
                None if standing.is_out_for_good() => return Err(standing.error()),
                Some(Err(Refused::Later)) | None => {}
            }
            if !self.wait_at_work(deadline, || self.is_admitted(limits, key))? {
                return Err(DdsError::Timeout(format!(
                    "readers of `{}` have not received so many samples within {blocking} that RESOURCE_LIMITS let its \
                     writer write another one: {}",
                    self.topic().name(),
                    limits.in_words()
                )));
            }
        }
    }

    /// Whether a sample of this instance would be let in now.
    pub(in crate::publication) fn is_admitted(&self, limits: &Limits, key: u128) -> bool {
        let Some(received) = self.received() else { return false };
        // One too many is refused at once.
        !matches!(limits.check(&mut limits.lock(), key, received), Err(Refused::Later))
    }

    /// Counts an instance among those that it writes, if they are limited; whether it did not count before.
    pub(in crate::publication) fn enter_instance(&self, key: u128) -> DdsResult<bool> {
        let Some(limits) = self.limits() else { return Ok(false) };
        limits.enter(key).ok_or_else(|| self.one_instance_too_many(limits))
    }

    fn one_instance_too_many(&self, limits: &Limits) -> DdsError {
        DdsError::OutOfResources(format!(
            "this writer of `{}` has {} instances to say something of, and RESOURCE_LIMITS let it have no more: unregister one, \
             or raise max_instances",
            self.topic().name(),
            limits.instances
        ))
    }
}
