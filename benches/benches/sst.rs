//! A predicate over all rows of a shared state table, on one node; all rows are on the heap.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use derecho_core::ids::{NodeId, Peer, Time};
use derecho_core::link::{LinkEvent, Sharing};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::OwnRegion;
use derecho_core::sst::{Sst, Strategy};
use sst_programs::detection::{self, Elements};

type OneElementRow = Elements<1>;

/// Returns the first node of a table with a number of rows, with a predicate that always holds. The
/// other nodes need no further turns once this one has started.
fn table(rows: u16) -> Sst<OneElementRow> {
    let mut effects = Effects::new();
    let mut members: Vec<(Sst<OneElementRow>, OwnRegion)> = (0..rows)
        .map(|rank| {
            let own = OwnRegion::heap(Sst::<OneElementRow>::REGION_WORDS);
            let predicate = detection::spin(0..=rows - 1, || {
                black_box(());
            });
            let (me, all) = (NodeId(u128::from(rank)), usize::from(rows));
            let sst = Sst::new(
                me,
                own.clone(),
                all,
                Strategy::Writes,
                OneElementRow::HELD,
                move |scope| {
                    if rank == 0 {
                        predicate(scope);
                    }
                },
            );
            (sst, own)
        })
        .collect();
    let regions: Vec<OwnRegion> = members.iter().map(|(_, own)| own.clone()).collect();
    let region = Sst::<OneElementRow>::region(0);
    for (me, (sst, _)) in members.iter_mut().enumerate() {
        for (other, own) in regions.iter().enumerate().filter(|(other, _)| *other != me) {
            let (peer, node) = (Peer(other as u32), NodeId(other as u128));
            for event in [
                LinkEvent::PeerUp { peer, node, sharing: Sharing::Shared, place: None },
                LinkEvent::RegionUp { peer, region, replica: own.replica() },
                LinkEvent::RegionReady { peer, region },
            ] {
                sst.handle(event, &mut effects);
            }
        }
    }
    while members[0].0.table().is_none() {
        for (sst, _) in &mut members {
            sst.turn(Time(0), &mut effects);
            effects.clear();
        }
    }
    members.swap_remove(0).0
}

fn evaluation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sst evaluation");
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    group.throughput(Throughput::Elements(1));
    for rows in [2, 8, 32] {
        let mut sst = table(rows);
        let mut effects = Effects::new();
        group.bench_function(BenchmarkId::new("rows", rows), |bencher| {
            bencher.iter(|| {
                assert_eq!(sst.turn(Time(0), &mut effects), 1);
                effects.clear();
            });
        });
    }
    group.finish();
}

criterion_group!(benches, evaluation);
criterion_main!(benches);
