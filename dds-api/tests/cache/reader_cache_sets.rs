//! Room for coherent sets in the reader cache: a set that finds room is not rejected in parts, and
//! one that finds none would have been (I-192). Random sets are compared with a cache that takes
//! the same samples one by one.

use dds_api::prelude::InstanceHandle;
use dds_api::subscription::cache::{
    Arrival, ArrivalSummary, CacheSettings, InstanceChange, RoomShortage, SampleCache, Selection,
};

/// Pseudo-random numbers, the same on each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }

    fn limit(&mut self, bound: u64) -> usize {
        match self.below(3) {
            0 => usize::MAX >> 1,
            _ => 1 + self.below(bound) as usize,
        }
    }
}

/// Operation on a cache.
#[derive(Clone)]
enum CacheStep {
    Put(Vec<Arrival<u64>>),
    Take(usize),
}

fn put_all(cache: &mut SampleCache<u64>, now: u64, set: &[Arrival<u64>]) -> bool {
    set.iter().all(|arrival| cache.put(now, arrival.clone(), |_| Box::default()).is_ok())
}

fn take(cache: &mut SampleCache<u64>, now: u64, max: usize) {
    cache.take(now, &Selection { max, ..Selection::default() }, |_| true, &mut Vec::new());
}

/// Returns a cache after these operations, one per time step.
fn replay(settings: CacheSettings, steps: &[CacheStep]) -> SampleCache<u64> {
    let mut cache = SampleCache::new(settings);
    for (now, step) in steps.iter().enumerate() {
        match step {
            CacheStep::Put(set) => assert!(put_all(&mut cache, now as u64, set), "it did before"),
            CacheStep::Take(max) => take(&mut cache, now as u64, *max),
        }
    }
    cache
}

fn random_set(dice: &mut Dice, now: u64, has_ends: bool) -> Vec<Arrival<u64>> {
    let arrival = |dice: &mut Dice| Arrival {
        change: match dice.below(10) {
            8 => InstanceChange::Dispose,
            9 if has_ends => InstanceChange::Unregister,
            _ => InstanceChange::Alive,
        },
        key: u128::from(dice.below(6)),
        writer: InstanceHandle::from_parts(1, 1 + dice.below(2)),
        strength: 0,
        source_timestamp: now,
        expires: u64::MAX,
        data: now,
    };
    (0..1 + dice.below(7)).map(|_| arrival(dice)).collect()
}

fn room(cache: &mut SampleCache<u64>, now: u64, set: &[Arrival<u64>]) -> Result<(), RoomShortage> {
    cache.room_for(now, set.iter().map(ArrivalSummary::from))
}

#[test]
fn room_for_coherent_set_agrees_with_room_for_each_sample() {
    let mut seen = [0_u32; 3];
    for seed in 0..600 {
        let mut dice = Dice(seed);
        let settings = CacheSettings {
            depth: (dice.below(2) == 0).then(|| 1 + dice.below(3) as usize),
            max_samples: dice.limit(12),
            max_instances: dice.limit(6),
            max_samples_per_instance: dice.limit(5),
            minimum_separation: dice.below(2) * dice.below(4),
            ..CacheSettings::default()
        };
        // With these settings the counted number may exceed the stored one.
        let is_exact = settings.minimum_separation == 0 && seed % 2 == 0;
        let mut cache = SampleCache::new(settings);
        let mut steps: Vec<CacheStep> = Vec::new();
        while steps.len() < 40 {
            let now = steps.len() as u64;
            if dice.below(3) == 0 {
                let max = dice.below(6) as usize;
                take(&mut cache, now, max);
                steps.push(CacheStep::Take(max));
                continue;
            }
            let set = random_set(&mut dice, now, !is_exact);
            match room(&mut cache, now, &set) {
                Ok(()) => {
                    assert!(put_all(&mut cache, now, &set), "seed {seed}, step {now}: {set:?}");
                    steps.push(CacheStep::Put(set));
                    seen[0] += 1;
                }
                Err(shortage) => {
                    if is_exact {
                        let mut twin = replay(settings, &steps);
                        let fits = put_all(&mut twin, now, &set);
                        assert!(!fits, "seed {seed}, step {now}: {shortage:?} {set:?}");
                    }
                    let in_empty = room(&mut SampleCache::new(settings), now, &set);
                    if let RoomShortage::Always(_) = shortage {
                        assert!(matches!(in_empty, Err(RoomShortage::Always(_))), "seed {seed}");
                        seen[2] += 1;
                    } else {
                        seen[1] += 1;
                    }
                    steps.push(CacheStep::Take(0));
                    // The step was empty for the cache as well.
                    take(&mut cache, now, 0);
                }
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 500), "each comes: {seen:?}");
}
