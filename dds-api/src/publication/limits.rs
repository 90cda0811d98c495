//! RESOURCE_LIMITS of a writer.
//!
//! Owns: the limited samples that readers have not received yet, and the limited instances of the
//! writer. Never does: wait.

mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use qos_profiles::{DataWriterQos, Length};

use crate::mapping::membership_state::Life;

/// Limits of a writer that has any.
pub(super) struct WriterLimits {
    samples: usize,
    of_instance: usize,
    instances: usize,
    state: Mutex<LimitState>,
}

#[derive(Default)]
struct LimitState {
    /// The membership in which the samples were written. The fate of samples of an earlier
    /// membership is unknown.
    life: Option<Life>,
    /// Samples that readers may not have received yet, in the order of their admission.
    open: VecDeque<OpenSample>,
    /// Number of samples admitted before the first of `open`.
    before: u64,
    /// Number of open samples of each instance.
    each: BTreeMap<u128, usize>,
    /// Instances that count towards the limit, and whether each was ever written or registered.
    instances: BTreeMap<u128, bool>,
}

struct OpenSample {
    key: u128,
    /// Number of messages of the stream that must be received before the sample counts as received.
    /// `None` while the sample is being written.
    until: Option<u64>,
}

/// Reason why a sample is not admitted.
enum LimitRefusal {
    /// Readers must receive other samples first.
    Later,
    /// The instance exceeds the limit.
    Instance,
}

/// Progress of a writer's stream: the membership, and the number of messages that all readers
/// have received.
type ReceivedPosition = (Life, u64);

impl WriterLimits {
    /// The limits that policies set, if any.
    pub(super) fn new(qos: &DataWriterQos) -> Option<WriterLimits> {
        let most = |length: Length| length.limit().map_or(usize::MAX, |limit| limit as usize);
        let limits = &qos.resource_limits;
        let (samples, instances) = (most(limits.max_samples), most(limits.max_instances));
        let of_instance = most(limits.max_samples_per_instance);
        let are_some = [samples, instances, of_instance].iter().any(|limit| *limit < usize::MAX);
        are_some.then(|| WriterLimits { samples, of_instance, instances, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, LimitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a sample of this instance may be written now.
    fn check(
        &self,
        state: &mut LimitState,
        key: u128,
        received: ReceivedPosition,
    ) -> Result<(), LimitRefusal> {
        state.forget_received(received);
        if !state.instances.contains_key(&key) && state.instances.len() >= self.instances {
            return Err(LimitRefusal::Instance);
        }
        let of_it = state.each.get(&key).copied().unwrap_or_default();
        match state.open.len() < self.samples && of_it < self.of_instance {
            true => Ok(()),
            false => Err(LimitRefusal::Later),
        }
    }

    fn admit(
        &self,
        key: u128,
        received: ReceivedPosition,
    ) -> Result<WritePermit<'_>, LimitRefusal> {
        let mut state = self.lock();
        self.check(&mut state, key, received)?;
        state.instances.entry(key).or_default();
        *state.each.entry(key).or_default() += 1;
        let ticket = state.before + state.open.len() as u64;
        state.open.push_back(OpenSample { key, until: None });
        Ok(WritePermit { limits: self, key, ticket, until: None })
    }

    /// Counts an instance from now on. Returns whether it did not count before, or `None` if it
    /// exceeds the limit.
    fn count_instance(&self, key: u128) -> Option<bool> {
        let instances = &mut self.lock().instances;
        let is_known = instances.contains_key(&key);
        let has_room = is_known || instances.len() < self.instances;
        has_room.then(|| instances.insert(key, true).is_none())
    }

    /// Stops counting an instance. Returns whether it was counted.
    pub(super) fn uncount_instance(&self, key: u128) -> bool {
        self.lock().instances.remove(&key).is_some()
    }

    /// Counts an instance again whose unregistration was discarded.
    pub(super) fn count_again(&self, key: u128) {
        self.lock().instances.insert(key, true);
    }
}

impl LimitState {
    /// Stops counting an instance that was never written nor registered, unless another write of it
    /// is in progress.
    fn forget_unwritten(&mut self, key: u128) {
        let is_busy = self.open.iter().any(|open| open.key == key && open.until.is_none());
        if !is_busy && self.instances.get(&key) == Some(&false) {
            self.instances.remove(&key);
        }
    }

    /// Forgets samples that have been received.
    fn forget_received(&mut self, (life, received): ReceivedPosition) {
        let is_new_membership = self.life.replace(life).is_some_and(|before| before != life);
        while let Some(first) = self.open.front() {
            if !is_new_membership && first.until.is_none_or(|until| until > received) {
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

/// Permission to write one sample.
pub(super) struct WritePermit<'a> {
    limits: &'a WriterLimits,
    key: u128,
    ticket: u64,
    /// Number of messages that must be received before the sample counts as received; `None` if it
    /// was not written.
    until: Option<u64>,
}

impl WritePermit<'_> {
    /// Notes that the sample was written, and that `committed` messages of its stream are
    /// committed now.
    pub(super) fn written(mut self, committed: u64) {
        self.until = Some(committed);
    }
}

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        let state = &mut *self.limits.lock();
        // Not found if the sample belongs to an earlier membership.
        let index = self.ticket.checked_sub(state.before).and_then(|it| usize::try_from(it).ok());
        if let Some(open) = index.and_then(|place| state.open.get_mut(place)) {
            open.until = Some(self.until.unwrap_or_default());
        }
        match (self.until, state.instances.get_mut(&self.key)) {
            (Some(_), Some(is_known)) => *is_known = true,
            (Some(_), None) => {}
            (None, _) => state.forget_unwritten(self.key),
        }
    }
}

impl WriterLimits {
    fn in_words(&self) -> String {
        let named = [("max_samples", self.samples), ("max_samples_per_instance", self.of_instance)];
        let limited = named.iter().filter(|(_, limit)| *limit < usize::MAX);
        let limited: Vec<String> =
            limited.map(|(name, limit)| format!("{name} is {limit}")).collect();
        limited.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use qos_profiles::ResourceLimitsQosPolicy;

    use super::*;
    use crate::mapping::membership_state::MembershipState;

    fn limits(samples: usize, of_instance: usize, instances: usize) -> WriterLimits {
        WriterLimits { samples, of_instance, instances, state: Mutex::default() }
    }

    #[test]
    fn received_samples_make_room_in_any_order_of_writing() {
        let (limits, life) = (limits(2, 2, 9), MembershipState::new(false).life());
        let first = limits.admit(1, (life, 0)).ok().unwrap();
        let second = limits.admit(1, (life, 0)).ok().unwrap();
        assert!(matches!(limits.admit(2, (life, 0)), Err(LimitRefusal::Later)));
        // The second sample was committed before the first.
        second.written(1);
        assert!(matches!(limits.admit(2, (life, 1)), Err(LimitRefusal::Later)));
        first.written(2);
        let third = limits.admit(2, (life, 2)).ok().unwrap();
        drop(third);
        assert!(limits.admit(2, (life, 2)).is_ok(), "unwritten sample takes no room");
    }

    #[test]
    fn each_limit_counts_independently() {
        let (limits, life) = (limits(9, 1, 2), MembershipState::new(false).life());
        limits.admit(1, (life, 0)).ok().unwrap().written(1);
        assert!(matches!(limits.admit(1, (life, 0)), Err(LimitRefusal::Later)));
        limits.admit(2, (life, 0)).ok().unwrap().written(2);
        assert!(matches!(limits.admit(3, (life, 9)), Err(LimitRefusal::Instance)));
        assert_eq!((limits.count_instance(3), limits.count_instance(1)), (None, Some(false)));
        limits.admit(1, (life, 9)).ok().unwrap().written(3);
        assert!(limits.uncount_instance(1) && !limits.uncount_instance(1));
        limits.count_again(1);
        assert!(limits.uncount_instance(1), "instance 1 has entered again");
        assert_eq!(limits.count_instance(1), Some(true), "instance 1 counts as new");
        limits.uncount_instance(1);
        assert!(limits.admit(3, (life, 9)).is_ok());
    }

    #[test]
    fn instance_never_written_nor_registered_does_not_count() {
        let (limits, life) = (limits(9, 9, 1), MembershipState::new(false).life());
        let (first, second) = (limits.admit(1, (life, 0)), limits.admit(1, (life, 0)));
        drop(first);
        assert!(
            matches!(limits.admit(2, (life, 0)), Err(LimitRefusal::Instance)),
            "instance 1 still has an unwritten sample"
        );
        drop(second);
        limits.admit(2, (life, 0)).ok().unwrap().written(1);
        drop(limits.admit(2, (life, 0)));
        assert!(
            matches!(limits.admit(1, (life, 1)), Err(LimitRefusal::Instance)),
            "instance 2 has a written sample"
        );
        assert!(limits.uncount_instance(2));
        assert_eq!(limits.count_instance(1), Some(true));
        drop(limits.admit(1, (life, 1)));
        assert_eq!(limits.count_instance(2), None, "instance 1 is registered");
    }

    #[test]
    fn unreceived_samples_of_an_instance_still_count() {
        let (limits, life) = (limits(9, 2, 9), MembershipState::new(false).life());
        for committed in 1..=2 {
            limits.admit(1, (life, 0)).ok().unwrap().written(committed);
        }
        assert!(matches!(limits.admit(1, (life, 0)), Err(LimitRefusal::Later)));
        limits.admit(1, (life, 1)).ok().unwrap().written(3);
        assert!(
            matches!(limits.admit(1, (life, 1)), Err(LimitRefusal::Later)),
            "second sample is not received"
        );
    }

    #[test]
    fn only_limits_set_in_resource_limits_apply() {
        let mut qos = DataWriterQos::default();
        assert!(WriterLimits::new(&qos).is_none());
        let most = usize::MAX;
        for (place, expected, words) in [
            (0, (3, most, most), "max_samples is 3"),
            (1, (most, 3, most), "max_samples_per_instance is 3"),
            (2, (most, most, 3), ""),
        ] {
            qos.resource_limits = ResourceLimitsQosPolicy::default();
            let resources = &mut qos.resource_limits;
            *[
                &mut resources.max_samples,
                &mut resources.max_samples_per_instance,
                &mut resources.max_instances,
            ][place] = Length::of(3);
            let limits = WriterLimits::new(&qos).unwrap();
            assert_eq!((limits.samples, limits.of_instance, limits.instances), expected);
            assert_eq!(limits.in_words(), words);
        }
    }

    /// Samples of an earlier membership take no room, even if their write ends later.
    #[test]
    fn new_membership_starts_with_no_samples_in_flight() {
        let limits = limits(2, 2, 9);
        let life = MembershipState::new(false).life();
        let (first, second) = (limits.admit(1, (life, 0)), limits.admit(2, (life, 0)));
        second.ok().unwrap().written(7);
        let late = first.ok().unwrap();
        let third = limits.admit(3, (life.next(), 0)).ok().unwrap();
        late.written(9);
        assert!(limits.admit(4, (life.next(), 9)).is_ok(), "third sample is still being written");
        assert!(
            matches!(limits.admit(5, (life.next(), 9)), Err(LimitRefusal::Later)),
            "fourth claim is behind the unwritten third"
        );
        third.written(10);
        assert!(matches!(limits.admit(5, (life.next(), 9)), Err(LimitRefusal::Later)));
        assert!(limits.admit(5, (life.next(), 10)).is_ok());
    }
}
