//! RESOURCE_LIMITS of a writer.
//!
//! Owns: which of its samples readers have not received yet, and which instances it writes, as far as they are limited. Never
//! does: cost a writer without limits more than the look whether it has any.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use derecho_node::clock;
use idl_xtypes::TopicData;
use qos_profiles::{DataWriterQos, Length};

use super::writer::DataWriter;
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::standing::Life;

/// The limits of a writer that has any.
pub(super) struct Limits {
    samples: usize,
    of_instance: usize,
    instances: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The membership in which they were written: what became of those of an earlier one nobody can say.
    life: Option<Life>,
    /// Samples that readers may not have received yet, in the order in which they were let in.
    open: VecDeque<Open>,
    /// How many were let in before the first of them.
    before: u64,
    /// How many of them each instance has.
    each: BTreeMap<u128, usize>,
    /// Instances that this writer has to say something of.
    instances: BTreeSet<u128>,
}

struct Open {
    key: u128,
    /// Once so many messages of its stream are received, so is it. None: it is being written.
    until: Option<u64>,
}

/// Why a sample is not let in.
enum Refused {
    /// Readers have to receive others first.
    Later,
    /// It is of one instance too many.
    Instance,
}

/// How far a writer's stream has come: in which membership, and how many of its messages all readers have received.
type Received = (Life, u64);

impl Limits {
    /// Those that policies set, if they set any.
    pub(super) fn new(qos: &DataWriterQos) -> Option<Limits> {
        let most = |length: Length| length.limit().map_or(usize::MAX, |limit| limit as usize);
        let limits = &qos.resource_limits;
        let (samples, instances) = (most(limits.max_samples), most(limits.max_instances));
        let of_instance = most(limits.max_samples_per_instance);
        let are_some = [samples, instances, of_instance].iter().any(|limit| *limit < usize::MAX);
        are_some.then(|| Limits { samples, of_instance, instances, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a sample of this instance may be written now.
    fn check(&self, state: &mut State, key: u128, received: Received) -> Result<(), Refused> {
        state.pass(received);
        if !state.instances.contains(&key) && state.instances.len() >= self.instances {
            return Err(Refused::Instance);
        }
        let of_it = state.each.get(&key).copied().unwrap_or_default();
        match state.open.len() < self.samples && of_it < self.of_instance {
            true => Ok(()),
            false => Err(Refused::Later),
        }
    }

    fn admit(&self, key: u128, received: Received) -> Result<Admitted<'_>, Refused> {
        let mut state = self.lock();
        self.check(&mut state, key, received)?;
        state.instances.insert(key);
        *state.each.entry(key).or_default() += 1;
        let ticket = state.before + state.open.len() as u64;
        state.open.push_back(Open { key, until: None });
        Ok(Admitted { limits: self, ticket, until: 0 })
    }

    /// This writer has something to say of an instance from now on. `false` if it is one too many.
    fn enter(&self, key: u128) -> bool {
        let instances = &mut self.lock().instances;
        let has_room = instances.contains(&key) || instances.len() < self.instances;
        if has_room {
            instances.insert(key);
        }
        has_room
    }

    /// It has no more to say of an instance.
    pub(super) fn leave(&self, key: u128) {
        self.lock().instances.remove(&key);
    }
}

impl State {
    /// Forgets what has been received.
    fn pass(&mut self, (life, received): Received) {
        let is_anew = self.life.replace(life).is_some_and(|before| before != life);
        while let Some(first) = self.open.front() {
            if !is_anew && first.until.is_none_or(|until| until > received) {
                return;
            }
            let key = first.key;
            self.open.pop_front();
            self.before += 1;
            if let Some(count) = self.each.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.each.remove(&key);
                }
            }
        }
    }
}

/// The leave to write one sample.
pub(super) struct Admitted<'a> {
    limits: &'a Limits,
    ticket: u64,
    until: u64,
}

impl Admitted<'_> {
    /// It was written, and so many messages of its stream are committed since.
    pub(super) fn written(mut self, committed: u64) {
        self.until = committed;
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let state = &mut *self.limits.lock();
        // Not if it was of an earlier membership.
        let place = self.ticket.checked_sub(state.before).and_then(|it| usize::try_from(it).ok());
        if let Some(open) = place.and_then(|place| state.open.get_mut(place)) {
            open.until = Some(self.until);
        }
    }
}

impl<T: TopicData> DataWriter<T> {
    /// How far what it writes was received; `None` while it is no member.
    fn received(&self) -> Option<Received> {
        self.at_berth(|berth| (berth.life, berth.memory.given_back()))
    }

    /// The instance of a sample, if RESOURCE_LIMITS ask for it.
    #[inline(always)]
    pub(super) fn limited_key(&self, sample: &T) -> DdsResult<Option<u128>> {
        self.limits().map(|_| self.key_of(sample)).transpose()
    }

    /// Writes a sample of this instance as far as RESOURCE_LIMITS let it, if there are any: waits, so long at most if it is said, until
    /// readers have received so many others that they do.
    #[inline(always)]
    pub(super) fn within_limits(
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
            // Nobody may receive it before the set is at its end, which must not be waited for.
            self.enter_instance(limits, key)?;
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
    pub(super) fn is_admitted(&self, limits: &Limits, key: u128) -> bool {
        let Some(received) = self.received() else { return false };
        // One too many is refused at once.
        !matches!(limits.check(&mut limits.lock(), key, received), Err(Refused::Later))
    }

    /// Counts an instance among those that it writes.
    pub(super) fn enter_instance(&self, limits: &Limits, key: u128) -> DdsResult<()> {
        match limits.enter(key) {
            true => Ok(()),
            false => Err(self.one_instance_too_many(limits)),
        }
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

impl Limits {
    fn in_words(&self) -> String {
        let named = [("max_samples", self.samples), ("max_samples_per_instance", self.of_instance)];
        let said = named.iter().filter(|(_, limit)| *limit < usize::MAX);
        let said: Vec<String> = said.map(|(name, limit)| format!("{name} is {limit}")).collect();
        said.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::standing::Standing;

    fn limits(samples: usize, of_instance: usize, instances: usize) -> Limits {
        Limits { samples, of_instance, instances, state: Mutex::default() }
    }

    #[test]
    fn what_is_received_makes_room_in_whatever_order_it_was_written() {
        let (limits, life) = (limits(2, 2, 9), Standing::new(false).life());
        let first = limits.admit(1, (life, 0)).ok().unwrap();
        let second = limits.admit(1, (life, 0)).ok().unwrap();
        assert!(matches!(limits.admit(2, (life, 0)), Err(Refused::Later)));
        // The second one came before the first.
        second.written(1);
        assert!(matches!(limits.admit(2, (life, 1)), Err(Refused::Later)));
        first.written(2);
        let third = limits.admit(2, (life, 2)).ok().unwrap();
        drop(third);
        assert!(limits.admit(2, (life, 2)).is_ok(), "what was not written takes no room");
    }

    #[test]
    fn each_limit_counts_for_itself() {
        let (limits, life) = (limits(9, 1, 2), Standing::new(false).life());
        limits.admit(1, (life, 0)).ok().unwrap().written(1);
        assert!(matches!(limits.admit(1, (life, 0)), Err(Refused::Later)));
        limits.admit(2, (life, 0)).ok().unwrap().written(2);
        assert!(matches!(limits.admit(3, (life, 9)), Err(Refused::Instance)));
        assert!(!limits.enter(3) && limits.enter(1));
        limits.leave(1);
        assert!(limits.admit(3, (life, 9)).is_ok());
    }
}
