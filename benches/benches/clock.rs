//! Cost of reading the time: the clock of the product, the wall clock's time derived from it, and
//! the system's clock for comparison.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use derecho_node::clock;

fn looks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("clock");
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    group.bench_function("now", |bencher| bencher.iter(|| black_box(clock::now())));
    group.bench_function("in order", |bencher| bencher.iter(|| black_box(clock::in_order())));
    group.bench_function("now, and the wall clock", |bencher| {
        bencher.iter(|| black_box(clock::wall(clock::now())));
    });
    group
        .bench_function("the system's clock", |bencher| bencher.iter(|| black_box(Instant::now())));
    group.finish();
}

criterion_group!(benches, looks);
criterion_main!(benches);
