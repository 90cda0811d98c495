//! Check whether a cache has room for several samples at once.
//!
//! Owns: that count. Never does: insert anything.

use std::collections::BTreeMap;

use super::arrival::{Arrival, InstanceChange, LimitReached};
use super::{Key, SampleCache};

/// The part of an arrival that matters for room.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalSummary {
    change: InstanceChange,
    key: Key,
}

impl<S> From<&Arrival<S>> for ArrivalSummary {
    fn from(arrival: &Arrival<S>) -> Self {
        ArrivalSummary { change: arrival.change, key: arrival.key }
    }
}

/// Reason why there is no room for several samples at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoomShortage {
    /// There is no room while the present samples remain.
    Now(LimitReached),
    /// There is no room even in an empty cache.
    Always(LimitReached),
}

impl<S> SampleCache<S> {
    /// Checks that there is room for all of these, one after the other. Each counts as if it were
    /// stored, including arrivals that will be late, or whose writer does not own the instance.
    /// After a positive answer none of them is rejected.
    ///
    /// # Errors
    /// The reason why there is no room.
    pub fn room_for(
        &mut self,
        now: u64,
        arrivals: impl Iterator<Item = ArrivalSummary>,
    ) -> Result<(), RoomShortage> {
        self.advance(now);
        // Number of samples for each instance. An instance that is only unregistered needs no room.
        let mut counts: BTreeMap<Key, usize> = BTreeMap::new();
        for ArrivalSummary { change, key } in arrivals {
            match change {
                InstanceChange::Alive => *counts.entry(key).or_default() += 1,
                InstanceChange::Dispose => _ = counts.entry(key).or_default(),
                InstanceChange::Unregister => {}
            }
        }
        if self.settings.minimum_separation > 0 {
            // One sample is stored, and the last of the others waits.
            counts.values_mut().for_each(|count| *count = (*count).min(2));
        }
        let settings = &self.settings;
        let mut more = [0, 0];
        let mut instances = 0;
        for (key, count) in &counts {
            let known = self.instances.find(*key).map(|at| self.instances.get(at));
            instances += usize::from(known.is_none());
            let before = known.map_or(0, |it| it.len + usize::from(it.waiting.is_some()));
            for (more, before) in more.iter_mut().zip([before, 0]) {
                let after = self.share(before + count);
                if after > settings.max_samples_per_instance {
                    let is_alone = self.share(*count) > settings.max_samples_per_instance;
                    return Err(shortage(is_alone, LimitReached::SamplesPerInstance));
                }
                *more += after - self.share(before);
            }
        }
        let [more, alone] = more;
        if self.instances.len() + instances > settings.max_instances {
            return Err(shortage(counts.len() > settings.max_instances, LimitReached::Instances));
        }
        if self.held + more > settings.max_samples {
            return Err(shortage(alone > settings.max_samples, LimitReached::Samples));
        }
        Ok(())
    }
}

fn shortage(is_always: bool, reason: LimitReached) -> RoomShortage {
    if is_always { RoomShortage::Always(reason) } else { RoomShortage::Now(reason) }
}
