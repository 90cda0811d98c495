//! Peers that violate the protocol are refused or disconnected, and no other node notices.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod support;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::wire::{self, Greeting, Message, RefusalReason};
use dds_transport_rdma::shm::{JoinError, ShmLink};
use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::{Evidence, Link};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{SealFlags, fcntl_add_seals, ftruncate, open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mprotect, munmap};
use rustix::net::SendFlags;
use support::raw::{ARENA, RawPeer, honest_memory, memory};
use support::{PATIENCE, TestDomain, TestNode};

/// Checks that the node still meets others, which notice nothing.
fn assert_unharmed(meeting: &TestDomain, mut node: TestNode) {
    let before = node.up.len();
    let mut other = meeting.join();
    other.until("an honest node is met", |node| !node.up.is_empty());
    node.until("an honest node is met", |node| node.up.len() > before);
    drop(node);
    other.until("it has left", |node| node.down.iter().any(|it| it.1 == Evidence::Left));
    drop(other);
    meeting.assert_empty();
}

#[test]
fn peer_can_neither_write_nor_resize_received_arena() {
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let own = node.link.open(RegionId(1), 8).unwrap();
    own.word(0).publish(1);
    let raw = RawPeer::connect(&meeting, &node);
    let arena = raw.introduce(&honest_memory(), ARENA);
    let length = rustix::fs::fstat(&arena).unwrap().st_size as usize;
    let map = |memory: &OwnedFd, protection| {
        // SAFETY: the kernel chooses the address.
        unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, memory, 0) }
    };
    let write = ProtFlags::READ | ProtFlags::WRITE;
    assert_eq!(map(&arena, write).err(), Some(Errno::PERM));
    // A newly opened descriptor cannot write either.
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", arena.as_raw_fd());
    let flags = rustix::fs::OFlags::RDWR;
    let again = open(path, flags, rustix::fs::Mode::empty()).unwrap();
    assert_eq!(map(&again, write).err(), Some(Errno::PERM));
    assert_eq!(rustix::io::pwrite(&again, b"x", 0), Err(Errno::PERM));
    // A mapping cannot become writable later.
    let readable = map(&arena, ProtFlags::READ).unwrap();
    // SAFETY: the range was just mapped and nobody else uses it.
    let changed = unsafe { mprotect(readable, length, rustix::mm::MprotectFlags::WRITE) };
    assert_eq!(changed, Err(Errno::ACCESS));
    // SAFETY: as above.
    unsafe { munmap(readable, length) }.unwrap();
    assert_eq!(ftruncate(&arena, 0), Err(Errno::PERM));
    assert_eq!(ftruncate(&arena, 2 * length as u64), Err(Errno::PERM));
    assert_eq!(
        rustix::fs::fallocate(
            &arena,
            rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE,
            0,
            4096
        ),
        Err(Errno::PERM)
    );
    assert_eq!(fcntl_add_seals(&arena, SealFlags::WRITE), Err(Errno::PERM));
    own.word(0).publish(2);
    assert_eq!(own.word(0).load(), 2);
    drop((raw, own));
    assert_unharmed(&meeting, node);
}

#[test]
fn node_refuses_arena_without_size_seals_or_with_wrong_size() {
    let cases = [
        ("sealed", memory(ARENA, SealFlags::empty())),
        ("sealed", memory(ARENA, SealFlags::SHRINK)),
        ("sealed", memory(ARENA, SealFlags::GROW)),
        ("announced", memory(ARENA / 2, SealFlags::SHRINK | SealFlags::GROW)),
        ("announced", memory(ARENA * 2, SealFlags::SHRINK | SealFlags::GROW)),
        ("sealed", eventfd(0, EventfdFlags::empty()).unwrap()),
        ("sealed", tempfile::tempfile().unwrap().into()),
    ];
    for (_, bad) in &cases {
        // As the first arena: the sender does not become a peer.
        let meeting = TestDomain::new();
        let mut node = meeting.join();
        let raw = RawPeer::connect(&meeting, &node);
        raw.hello(wire::VERSIONS, |_| {});
        raw.send(&Message::Accept { version: wire::VERSIONS[0] }, None);
        raw.send(&Message::Arena { index: 0, bytes: ARENA }, Some(bad));
        raw.verdict();
        node.poll();
        assert!(node.up.is_empty());
        assert_unharmed(&meeting, node);
    }
    for (why, bad) in &cases {
        // As a later arena: the sender is disconnected.
        let said =
            cut_off_for(|raw| raw.send(&Message::Arena { index: 1, bytes: ARENA }, Some(bad)));
        assert!(said.contains(why), "{said}");
    }
}

/// Returns the reason that a node sends to a peer that performs `act`.
fn cut_off_for(act: impl FnOnce(&RawPeer)) -> String {
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let raw = RawPeer::connect(&meeting, &node);
    raw.introduce(&honest_memory(), ARENA);
    node.until("it is a peer", |node| node.up.len() == 1);
    act(&raw);
    let given_reason = raw.verdict();
    node.until("it is down", |node| node.down == [(Peer(0), Evidence::Uncertain)]);
    assert!(node.link.note(Peer(0), b"?").is_err());
    drop(raw);
    assert_unharmed(&meeting, node);
    given_reason
}

fn region(serial: u64, region: u64, arena: u32, offset: u64, words: u64) -> Message<'static> {
    Message::Region { serial, region, arena, offset, words }
}

#[test]
fn region_outside_arena_is_refused() {
    for bad in [
        region(0, 1, 0, ARENA, 1),
        region(0, 1, 0, ARENA - 64, 9),
        region(0, 1, 0, 4096, u64::MAX),
        region(0, 1, 0, u64::MAX - 63, 8),
        region(0, 1, 0, 4096, 1 << 61),
        region(0, 1, 0, 4100, 1),
        region(0, 1, 0, 0, 1),
    ] {
        let said = cut_off_for(|raw| raw.send(&bad, None));
        assert!(said.contains("does not lie"), "{said}");
    }
    let said = cut_off_for(|raw| raw.send(&region(0, 1, 7, 0, 1), None));
    assert!(said.contains("unknown"), "{said}");
}

#[test]
fn invalid_message_disconnects_sender_with_reason() {
    let twice = |raw: &RawPeer| {
        raw.send(&region(0, 1, 0, 4096, 1), None);
        raw.send(&region(1, 1, 0, 4096, 1), None);
    };
    assert!(cut_off_for(twice).contains("open already"));
    let old_serial = |raw: &RawPeer| {
        raw.send(&region(5, 1, 0, 4096, 1), None);
        raw.send(&region(5, 2, 0, 4096, 1), None);
    };
    assert!(cut_off_for(old_serial).contains("serial"));
    let arena = Message::Arena { index: 1, bytes: ARENA };
    assert!(cut_off_for(|raw| raw.send(&arena, None)).contains("without its memory"));
    let again = Message::Arena { index: 0, bytes: ARENA };
    let said = cut_off_for(|raw| raw.send(&again, Some(&honest_memory())));
    assert!(said.contains("there before"), "{said}");
    assert!(cut_off_for(|raw| raw.send(&Message::Close { serial: 3 }, None)).contains("not open"));
    assert!(cut_off_for(|raw| raw.send(&Message::Retire { index: 0 }, None)).contains("retired"));
    assert!(cut_off_for(|raw| raw.hello(wire::VERSIONS, |_| {})).contains("greets again"));
    assert!(cut_off_for(|raw| raw.send_bytes(&[200, 1, 2], None)).contains("unknown kind"));
    assert!(cut_off_for(|raw| raw.send_bytes(&[9; 18_000], None)).contains("no node sends"));
}

#[test]
fn garbage_packet_closes_only_connection_of_sender() {
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x01", b"\x01SQUALLSH\xff", &[0; 19_000]] {
        let raw = RawPeer::connect(&meeting, &node);
        raw.send_bytes(garbage, None);
        raw.verdict();
        // End without a message.
        drop(RawPeer::connect(&meeting, &node));
    }
    node.poll();
    assert!(node.up.is_empty());
    assert_unharmed(&meeting, node);
}

#[test]
fn silent_connections_are_closed_and_block_no_other_node() {
    let meeting = TestDomain::new();
    let mut config = meeting.config();
    config.hello_limit = Duration::from_millis(100);
    let node = TestNode::join(config);
    let silent: Vec<RawPeer> = (0..100).map(|_| RawPeer::connect(&meeting, &node)).collect();
    let start = Instant::now();
    silent.iter().for_each(|raw| drop(raw.verdict()));
    assert!(start.elapsed() < PATIENCE);
    assert_unharmed(&meeting, node);
}

#[test]
fn incompatible_hello_is_refused_with_reason() {
    let meeting = TestDomain::new();
    let node = meeting.join();
    let refusal_reason = |versions: &[u16], change: &dyn Fn(&mut Greeting<'_>)| {
        let raw = RawPeer::connect(&meeting, &node);
        raw.hello(versions, change);
        raw.verdict()
    };
    assert!(refusal_reason(wire::VERSIONS, &|it| it.platform.page = 65536).contains("platform"));
    assert!(
        refusal_reason(wire::VERSIONS, &|it| it.platform.order = 0x0403_0201).contains("platform")
    );
    assert!(refusal_reason(wire::VERSIONS, &|it| it.platform.word = 4).contains("platform"));
    assert!(refusal_reason(wire::VERSIONS, &|it| it.domain = "other").contains("other"));
    assert!(refusal_reason(&[7, 9], &|_| {}).contains("[7, 9]"));
    let own = node.link.node().0;
    assert!(refusal_reason(wire::VERSIONS, &|it| it.node = own).contains("used before"));
    // A doorbell that is missing, and one that is another kind of file.
    for other in [None, Some("none")] {
        let raw = RawPeer::connect(&meeting, &node);
        std::fs::remove_file(&raw.bell_path).unwrap();
        if let Some(text) = other {
            std::fs::write(&raw.bell_path, text).unwrap();
        }
        raw.hello(wire::VERSIONS, |_| {});
        assert!(raw.verdict().contains("doorbell"));
    }
    assert_unharmed(&meeting, node);
}

#[test]
fn refused_join_reports_protocol_versions_of_both_nodes() {
    let meeting = TestDomain::new();
    let node = meeting.join();
    let mut config = meeting.config();
    config.versions = vec![7, 9];
    let error = ShmLink::join(config).err().expect("no version in common");
    assert_eq!(
        error,
        JoinError::Version {
            ours: vec![7, 9],
            theirs: wire::VERSIONS.to_vec(),
            pid: std::process::id().cast_signed(),
        }
    );
    let text = error.to_string();
    let spoken = format!("{:?}", wire::VERSIONS);
    assert!(text.contains("[7, 9]") && text.contains(&spoken), "{text}");
    // A node that speaks one version more is accepted.
    let mut config = meeting.config();
    config.versions = vec![wire::VERSIONS[0], 9];
    let mut newer = TestNode::join(config);
    newer.until("they meet", |node| node.up.len() == 1);
    drop(newer);
    assert_unharmed(&meeting, node);
}

#[test]
fn refusal_packet_lists_supported_versions() {
    let meeting = TestDomain::new();
    let node = meeting.join();
    let raw = RawPeer::connect(&meeting, &node);
    raw.hello(&[42], |_| {});
    let mut refusal = None;
    while let Some((packet, _)) = raw.receive() {
        if let Ok(Message::Refuse { versions, reason, .. }) = wire::decode(&packet) {
            refusal = Some((versions, reason));
        }
    }
    assert_eq!(refusal, Some((wire::VERSIONS.to_vec(), RefusalReason::Version)));
    assert_unharmed(&meeting, node);
}

#[test]
fn flood_of_notes_does_not_grow_node_that_does_not_poll() {
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let raw = RawPeer::connect(&meeting, &node);
    raw.introduce(&honest_memory(), ARENA);
    node.until("it is a peer", |node| node.up.len() == 1);
    rustix::io::ioctl_fionbio(&raw.socket, true).unwrap();
    let note = wire::encode(&Message::Note(&[7; 16_000]));
    let mut sent = 0;
    let mut last = Instant::now();
    // Until the node has taken no note for a while.
    while last.elapsed() < Duration::from_millis(300) {
        if rustix::net::send(&raw.socket, &note, SendFlags::NOSIGNAL).is_ok() {
            (sent, last) = (sent + 1, Instant::now());
        }
        assert!(sent < 2000, "the node takes everything");
    }
    assert!(sent > 100);
    // All notes that the node took arrive, and it takes more once it has polled.
    node.until("all is taken", |node| node.notes.len() == sent);
    rustix::net::send(&raw.socket, &note, SendFlags::NOSIGNAL).unwrap();
    node.until("one more is taken", |node| node.notes.len() == sent + 1);
    drop(raw);
    assert_unharmed(&meeting, node);
}
