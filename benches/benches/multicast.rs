//! One record through a node over heap memory: claim, commit, turns (one sends, the next receives),
//! take, and, now and then, release and reclaim. No link and no thread: what the protocol itself
//! costs.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use derecho_core::ids::{NodeId, Time};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::node::{ACKS_WORDS, Node, NodeEvent, Origin};

/// A node that reads its own stream.
struct Loop {
    node: Node,
    memory: SenderMemory,
    inbox: Arc<Inbox>,
    effects: Effects,
}

impl Loop {
    fn new() -> Loop {
        let mut effects = Effects::new();
        let mut node = Node::new(NodeId(1), OwnRegion::heap(ACKS_WORDS), Arc::new(|| ()));
        let geometry = Geometry::fitting(1 << 20, 8192, 64 << 10).expect("a usual shape");
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let stream = node.fresh_region();
        node.add_stream(stream, memory.clone(), &mut effects);
        node.subscribe(Origin::Own, stream).expect("the first subscription");
        let inbox = loop {
            node.turn(Time(0), &mut effects);
            effects.clear();
            if let Some(NodeEvent::Subscribed(_, inbox)) = node.next_event() {
                break inbox;
            }
        };
        Loop { node, memory, inbox, effects }
    }

    fn write(&self, length: usize) {
        let mut claim = self.memory.claim(length).expect("everything was taken");
        claim.bytes()[0] = 1;
        claim.commit(length, |_, _| ());
    }

    fn turn(&mut self) -> usize {
        let done = self.node.turn(Time(0), &mut self.effects);
        self.effects.clear();
        done
    }

    /// Turns until something has arrived.
    fn deliver(&mut self) {
        while self.inbox.is_empty() {
            self.turn();
        }
    }

    fn take_all(&self) -> usize {
        let mut taken = 0;
        while let Some(record) = self.inbox.take() {
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
        let mut ring = Loop::new();
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("write, turns, take", length), |bencher| {
            bencher.iter(|| {
                ring.write(length);
                ring.deliver();
                assert_eq!(ring.take_all(), 1);
            });
        });
    }
    const BATCH: usize = 64;
    let mut ring = Loop::new();
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("64 writes, turns, 64 takes", |bencher| {
        bencher.iter(|| {
            (0..BATCH).for_each(|_| ring.write(64));
            ring.deliver();
            assert_eq!(ring.take_all(), BATCH);
        });
    });
    let mut ring = Loop::new();
    while ring.turn() > 0 {}
    group.throughput(Throughput::Elements(1));
    group.bench_function("idle turn", |bencher| bencher.iter(|| ring.turn()));
    group.finish();
}

criterion_group!(benches, one_record);
criterion_main!(benches);
