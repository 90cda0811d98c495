//! A keyed sample into the reader cache and out again, with one instance and with ten thousand.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dds_api::prelude::InstanceHandle;
use dds_api::subscription::States;
use dds_api::subscription::cache::{
    Arrival, CacheSettings, InstanceChange, InstanceScope, Key, NEVER, ReturnedSample, SampleCache,
    Selection,
};

/// As large as a reference into a writer's memory.
type Data = [u64; 4];

/// Numbers of instances to compare; the cost of a sample should be the same.
const INSTANCES: [u64; 3] = [1, 100, 10_000];

fn put(cache: &mut SampleCache<Data>, number: u64, instances: u64) {
    let arrival = Arrival {
        change: InstanceChange::Alive,
        // Like the hash of a 32-bit key, which is in the first bytes.
        key: Key::from(number * 7 % instances) << 96,
        writer: InstanceHandle::from_parts(1, 1),
        strength: 0,
        source_timestamp: number,
        expires: NEVER,
        data: [number; 4],
    };
    let put = cache.put(number, arrival, |_| Box::default());
    black_box(put.is_ok());
}

fn cache_of(settings: CacheSettings, instances: u64) -> SampleCache<Data> {
    let mut cache = SampleCache::new(settings);
    (0..instances).for_each(|number| put(&mut cache, number, instances));
    cache
}

fn through(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reader cache");
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    group.throughput(Throughput::Elements(1));
    let keep_last =
        CacheSettings { depth: Some(1), across_instances: false, ..CacheSettings::default() };
    for instances in INSTANCES {
        let mut out: Vec<ReturnedSample<Data>> = Vec::new();
        let mut cache = cache_of(CacheSettings::default(), instances);
        cache.take(0, &Selection::default(), |_| true, &mut out);
        let mut number = 0;
        group.bench_function(format!("put, take: {instances} instances"), |bencher| {
            bencher.iter(|| {
                number += 1;
                put(&mut cache, number, instances);
                out.clear();
                cache.take(number, &Selection::default(), |_| true, &mut out);
                assert_eq!(out.len(), 1);
            });
        });
        let mut cache = cache_of(keep_last, instances);
        group.bench_function(format!("put over the last: {instances} instances"), |bencher| {
            bencher.iter(|| {
                number += 1;
                put(&mut cache, number, instances);
            });
        });
        let unread = Selection { states: States::not_read(), ..Selection::default() };
        cache.read(0, &unread, |_| true, &mut out);
        group.bench_function(format!("put, read unread: {instances} instances"), |bencher| {
            bencher.iter(|| {
                number += 1;
                put(&mut cache, number, instances);
                out.clear();
                cache.read(number, &unread, |_| true, &mut out);
                assert_eq!(out.len(), 1);
            });
        });
        group.bench_function(format!("read instance: {instances} instances"), |bencher| {
            bencher.iter(|| {
                number += 1;
                out.clear();
                let scope = InstanceScope::Instance(Key::from(number * 7 % instances) << 96);
                cache.read(0, &Selection { scope, ..Selection::default() }, |_| true, &mut out);
                assert_eq!(out.len(), 1);
            });
        });
    }
    // A batch: the cost of a sample when many arrive and are taken at once.
    const BATCH: u64 = 1000;
    group.throughput(Throughput::Elements(BATCH));
    for instances in INSTANCES {
        let mut cache = cache_of(CacheSettings::default(), instances);
        let (mut number, mut out) = (0, Vec::new());
        cache.take(0, &Selection::default(), |_| true, &mut out);
        group.bench_function(
            format!("put, take {BATCH} at once: {instances} instances"),
            |bencher| {
                bencher.iter(|| {
                    for _ in 0..BATCH {
                        number += 1;
                        put(&mut cache, number, instances);
                    }
                    out.clear();
                    cache.take(number, &Selection::default(), |_| true, &mut out);
                    assert_eq!(out.len() as u64, BATCH);
                });
            },
        );
    }
    group.finish();
}

criterion_group!(benches, through);
criterion_main!(benches);
