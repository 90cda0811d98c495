//! Cost of publishing and of ringing awake peers on the same host: with the peers' barriers in
//! place of the thread's fence, and with its fence; alone, and while another core polls the
//! published line.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::link::{Link, LinkEvent};
use derecho_core::memory::Replica;

const NEWS: RegionId = RegionId(1);
const PEERS: usize = 8;

fn join(folder: &Path, barriers: bool) -> ShmLink {
    let mut config = ShmConfig::new("bench");
    config.runtime_dir = Some(folder.join("run"));
    config.sleep_behind_barriers = barriers;
    config.agree_to_barriers = barriers;
    ShmLink::join(config).expect("a new domain can be joined")
}

/// Polls until the given number of peers shows their regions; returns the region of `owner`.
fn meet(link: &mut ShmLink, regions: usize, owner: NodeId) -> Option<Replica> {
    let (mut peers, mut count, mut seen) = (Vec::new(), 0, None);
    let start = Instant::now();
    while count < regions {
        assert!(start.elapsed() < Duration::from_secs(10), "the nodes do not meet");
        link.poll(&mut |event| match event {
            LinkEvent::PeerUp { node, .. } => peers.push(node),
            LinkEvent::RegionUp { peer, replica, .. } => {
                count += 1;
                if peers[peer.index()] == owner {
                    seen = Some(replica);
                }
            }
            _ => {}
        });
    }
    seen
}

/// Returns the indices of the first `count` peers.
fn places(node: &ShmLink, count: u32) -> u64 {
    (0..count).fold(0, |bits, peer| {
        bits | 1 << node.place(Peer(peer)).expect("there are places for eight")
    })
}

fn ring(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bells");
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    for (name, barriers) in [("barriers", true), ("fences", false)] {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut node = join(folder.path(), barriers);
        let own = node.open(NEWS, 8).expect("a small region opens");
        let mut peers: Vec<ShmLink> = (0..PEERS).map(|_| join(folder.path(), barriers)).collect();
        let _theirs: Vec<_> = peers.iter_mut().map(|peer| peer.open(NEWS, 8)).collect();
        let writer = node.node();
        meet(&mut node, PEERS, writer);
        let seen = meet(&mut peers[0], PEERS, writer).expect("it is a peer");
        let bells = node.bells();
        for count in [1, 8] {
            let places = places(&node, count);
            group.bench_function(format!("ring {count} awake, {name}"), |bencher| {
                bencher.iter(|| bells.ring(black_box(places)));
            });
        }
        let publish_and_ring = |places: u64| {
            own.word(0).publish(black_box(1));
            bells.ring(black_box(places));
        };
        let one = places(&node, 1);
        group.bench_function(format!("publish and ring 1 awake, {name}"), |bencher| {
            bencher.iter(|| publish_and_ring(one));
        });
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    black_box(seen.load(0));
                }
            });
            group.bench_function(format!("publish and ring 1 awake, polled, {name}"), |bencher| {
                bencher.iter(|| publish_and_ring(one));
            });
            stop.store(true, Ordering::Relaxed);
        });
    }
    group.finish();
}

criterion_group!(benches, ring);
criterion_main!(benches);
