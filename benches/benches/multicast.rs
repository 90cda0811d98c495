//! One record through a node over heap memory: claim, commit, turns (one sends, the next receives),
//! take, and periodically release and reclaim. There is no link and no thread, so the result is the
//! cost of the protocol itself.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use squall_benches::LoneNode;

/// A node that reads its own stream.
struct SelfReader(LoneNode);

impl SelfReader {
    fn new() -> SelfReader {
        SelfReader(LoneNode::over_heap())
    }

    fn write(&self, length: usize) {
        let mut claim = self.0.memory.claim(length).expect("everything was taken");
        claim.bytes()[0] = 1;
        claim.commit(length, |_, _| ());
    }

    fn turn(&mut self) -> usize {
        self.0.turn()
    }

    /// Runs turns until something has arrived.
    fn deliver(&mut self) {
        while self.0.inbox.is_empty() {
            self.turn();
        }
    }

    fn take_all(&self) -> usize {
        let mut taken = 0;
        // SAFETY: one thread does all of this.
        let taking = unsafe { self.0.inbox.consumer_unchecked() };
        while let Some(record) = taking.take() {
            black_box(record.bytes()[0]);
            taken += 1;
        }
        taken
    }
}

fn one_record(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("multicast");
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    for length in [64, 1024, 10240] {
        let mut reader = SelfReader::new();
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("write, turns, take", length), |bencher| {
            bencher.iter(|| {
                reader.write(length);
                reader.deliver();
                assert_eq!(reader.take_all(), 1);
            });
        });
    }
    const BATCH: usize = 64;
    let mut reader = SelfReader::new();
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("64 writes, turns, 64 takes", |bencher| {
        bencher.iter(|| {
            (0..BATCH).for_each(|_| reader.write(64));
            reader.deliver();
            assert_eq!(reader.take_all(), BATCH);
        });
    });
    let mut reader = SelfReader::new();
    while reader.turn() > 0 {}
    group.throughput(Throughput::Elements(1));
    group.bench_function("idle turn", |bencher| bencher.iter(|| reader.turn()));
    group.finish();
}

criterion_group!(benches, one_record);
criterion_main!(benches);
