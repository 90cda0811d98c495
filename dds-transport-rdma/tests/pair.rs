//! Two nodes in one process: the minimum that must work.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::time::{Duration, Instant};

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::ids::RegionId;
use derecho_core::link::{Evidence, Link, LinkEvent, Sharing, WordRange};

fn join(dir: &std::path::Path) -> ShmLink {
    let mut config = ShmConfig::new("pair");
    config.runtime_dir = Some(dir.join("run"));
    ShmLink::join(config).unwrap()
}

fn next(link: &mut ShmLink) -> LinkEvent {
    let mut events = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(5);
    while events.is_empty() {
        link.poll(&mut |event| events.push(event));
        assert!(Instant::now() < deadline, "nothing happened");
    }
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0)
}

#[test]
fn two_nodes_meet_share_region_and_leave() {
    let dir = tempfile::tempdir().unwrap();
    let mut a = join(dir.path());
    let mut b = join(dir.path());
    let LinkEvent::PeerUp { peer: b_at_a, node, sharing, .. } = next(&mut a) else { panic!() };
    assert_eq!((node, sharing), (b.node(), Sharing::Shared));
    let LinkEvent::PeerUp { peer: a_at_b, .. } = next(&mut b) else { panic!() };
    let own = a.open(RegionId(7), 100).unwrap();
    let LinkEvent::RegionUp { peer, region: RegionId(7), replica } = next(&mut b) else { panic!() };
    assert_eq!((peer, replica.words()), (a_at_b, 100));
    assert!(matches!(next(&mut a), LinkEvent::RegionReady { region: RegionId(7), .. }));
    own.word(99).publish(42);
    a.write(b_at_a, RegionId(7), WordRange::new(99, 1)).unwrap();
    assert_eq!(replica.load(99), 42);
    a.note(b_at_a, b"hello").unwrap();
    assert!(matches!(next(&mut b), LinkEvent::Note { bytes, .. } if bytes == b"hello"));
    drop(a);
    assert!(matches!(next(&mut b), LinkEvent::PeerDown { evidence: Evidence::Left, .. }));
    assert_eq!(replica.load(99), 42);
    drop(b);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn link_is_send_and_parker_is_sync() {
    fn assert_send<T: Send>() {}
    fn assert_sync<T: Send + Sync>() {}
    assert_send::<ShmLink>();
    assert_sync::<dds_transport_rdma::shm::ShmParker>();
}
