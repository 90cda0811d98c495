//! In steady state the reader cache allocates nothing: slots are reused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/counting.rs"]
mod counting;

use counting::allocations;
use dds_api::prelude::InstanceHandle;
use dds_api::subscription::States;
use dds_api::subscription::cache::{
    Arrival, CacheSettings, InstanceChange, ReturnedSample, SampleCache, Selection,
};

const INSTANCES: u64 = 1000;
const LIFESPAN: u64 = 5000;

fn run(
    cache: &mut SampleCache<u64>,
    numbers: std::ops::Range<u64>,
    found: &mut Vec<ReturnedSample<u64>>,
) {
    let unread = Selection { states: States::not_read(), ..Selection::default() };
    for number in numbers {
        let arrival = Arrival {
            change: if number % 10 == 9 { InstanceChange::Dispose } else { InstanceChange::Alive },
            key: u128::from(number * 7 % INSTANCES),
            writer: InstanceHandle::from_parts(1 + u128::from(number % 3), 1),
            strength: 0,
            source_timestamp: number,
            expires: number + LIFESPAN,
            data: number,
        };
        cache.put(number, arrival, |_| Box::default()).unwrap();
        if number % 100 == 0 {
            found.clear();
            match number % 1000 {
                0 => cache.take(number, &Selection::default(), |_| true, found),
                _ => cache.read(number, &unread, |_| true, found),
            }
        }
    }
}

/// Stores samples of three instances, each of which replaces the previous one; none ever expires.
fn replace(cache: &mut SampleCache<u64>, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let arrival = Arrival {
            change: InstanceChange::Alive,
            key: u128::from(number % 3),
            writer: InstanceHandle::from_parts(1, 1),
            strength: 0,
            source_timestamp: number,
            expires: 1 << 60,
            data: number,
        };
        cache.put(number, arrival, |_| Box::default()).unwrap();
    }
}

#[test]
fn reader_cache_allocates_nothing_in_steady_state() {
    let settings = CacheSettings {
        depth: Some(3),
        by_source: true,
        minimum_separation: 2000,
        disposed_delay: 3000,
        ..CacheSettings::default()
    };
    let mut cache = SampleCache::new(settings);
    let mut found = Vec::with_capacity(4096);
    run(&mut cache, 0..100_000, &mut found);
    let asked = allocations(|| run(&mut cache, 100_000..200_000, &mut found));
    assert_eq!(asked, 0, "{asked} allocations for 100000 samples");
    // Void timers are removed from the queue of timers. This is not counted first, because the
    // thread that started this one also allocates briefly.
    let mut cache = SampleCache::new(CacheSettings { depth: Some(1), ..CacheSettings::default() });
    replace(&mut cache, 0..1000);
    let asked = allocations(|| replace(&mut cache, 1000..100_000));
    assert_eq!(asked, 0, "{asked} allocations for 99000 samples that were replaced");
}
