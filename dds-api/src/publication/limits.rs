//! RESOURCE_LIMITS of a writer.
//!
//! Owns: which of its samples readers have not received yet, and which instances it writes, as far as they are limited. Never
//! does: cost a writer without limits more than the look whether it has any.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use derecho_node::{Waited, clock};
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
        let standing = &self.participant.standing;
        let first = self.enabling.started().map(|started| &started.first);
        if let Some(first) = first.filter(|first| standing.is_in(first.life)) {
            return Some((first.life, first.memory.given_back()));
        }
        let berth = self.shared.berth().filter(|berth| standing.is_in(berth.life))?;
        Some((berth.life, berth.memory.given_back()))
    }

    /// How many messages were committed where it writes.
    fn committed(&self) -> u64 {
        let first = self.enabling.started().map(|started| &started.first);
        match first.filter(|first| self.participant.standing.is_in(first.life)) {
            Some(first) => first.memory.committed(),
            None => self.shared.berth().map_or(0, |berth| berth.memory.committed()),
        }
    }

    /// Writes a sample of an instance as far as RESOURCE_LIMITS let it: waits until readers have received so many others that
    /// they do.
    #[cold]
    pub(super) fn within_limits(
        &self,
        limits: &Limits,
        key: u128,
        blocking: Timeout,
        write: impl FnOnce() -> DdsResult<()>,
    ) -> DdsResult<()> {
        if self.is_in_set() {
            // Nobody may receive it before the set is at its end, which must not be waited for.
            self.enter_instance(limits, key)?;
            return write();
        }
        let admitted = self.admit(limits, key, blocking)?;
        let result = write();
        match result {
            Ok(()) => self.was_written(Some(admitted)),
            Err(_) => {
                drop(admitted);
                self.look_again();
            }
        }
        result
    }

    /// The leave to write a sample whose place is claimed already.
    #[cold]
    pub(super) fn admit_sample<'a>(
        &self,
        limits: &'a Limits,
        sample: &T,
    ) -> DdsResult<Admitted<'a>> {
        self.admit(limits, self.key_of(sample)?, self.max_blocking())
    }

    /// What was let in is written.
    #[inline(always)]
    pub(super) fn was_written(&self, admitted: Option<Admitted<'_>>) {
        if let Some(admitted) = admitted {
            self.note(admitted);
        }
    }

    #[cold]
    fn note(&self, admitted: Admitted<'_>) {
        let committed = self.committed();
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
            let ready = || {
                standing.is_out_for_good() || !self.is_enabled() || self.is_admitted(limits, key)
            };
            match self.participant.engine.wait(deadline, ready) {
                Waited::Ready => {}
                Waited::Stopped => return Err(self.deleted()),
                Waited::TimedOut if standing.is_out() => return Err(standing.error()),
                Waited::TimedOut => {
                    return Err(DdsError::Timeout(format!(
                        "readers of `{}` have not received so many samples within {blocking} that RESOURCE_LIMITS let its \
                         writer write another one: {}",
                        self.topic().name(),
                        limits.in_words()
                    )));
                }
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
