//! Cost of parking to threads that do not sleep: a writer that checks whether it must ring, and a
//! reader that announces its sleep and finds new data instead.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use derecho_core::link::Interest;
use derecho_core::memory::AtomicWord;
use derecho_core::park;

fn handshake(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("park");
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    let (news, parked) = (AtomicWord::new(0), AtomicWord::new(0));
    group.bench_function("publish without looking", |bencher| {
        bencher.iter(|| black_box(&news).publish(black_box(1)));
    });
    group.bench_function("publish and look at one peer", |bencher| {
        bencher.iter(|| {
            black_box(&news).publish(black_box(1));
            park::before_looking();
            black_box(park::asleep(black_box(&parked).peek()))
        });
    });
    group.bench_function("announce, look, retract", |bencher| {
        bencher.iter(|| {
            park::announce(black_box(&parked), Interest::News);
            let seen = black_box(&news).load();
            park::retract(black_box(&parked));
            seen
        });
    });
    group.finish();
}

criterion_group!(benches, handshake);
criterion_main!(benches);
