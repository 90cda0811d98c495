//! A process that contacts the participants of a domain without ever asking to join, and sends
//! every harmful message about their group.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::bytes::Wire;
use derecho_core::group::report::{GroupCut, MemberReport};
use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::link::{Generation, Link};
use derecho_core::membership::{Decision, View, ViewChangeMessage, ViewMember};
use derecho_core::node::{ACKS, ACKS_WORDS, Node, NodeEvent};
use derecho_core::note::Note;
use derecho_node::clock;
use derecho_node::event_loop::EventLoop;
use support::{
    Actor, CheckedSample, PATIENCE, ReceivedSequence, SOON, TestDomain, join, listen, reader_of,
    role, say, take_to_the_end, writer_of,
};

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "reader" => act_reader(&folder),
        "stranger" => act_stranger(&folder),
        other => panic!("no such role: {other}"),
    }
}

fn act_reader(folder: &Path) {
    let participant = join(folder);
    let reader = reader_of(&participant, "Marks");
    say("ready");
    let mut got = ReceivedSequence::default();
    take_to_the_end(&reader, &mut got);
    say(&format!("{:?} {}", got.first, got.next));
    while listen().is_some() {}
}

/// Returns a message of the group: its kind, and the contents.
fn word(kind: u8, what: &impl Wire) -> Vec<u8> {
    let word = [vec![kind], what.to_bytes()].concat();
    Note::Fragment { left: 0, bytes: word }.encode()
}

fn rule(message: &ViewChangeMessage<MemberReport>) -> Vec<u8> {
    word(0, &[vec![0], message.to_bytes()].concat())
}

/// Returns messages that would admit nodes that do not exist, end the group, and fill the memory of
/// its members.
fn words(me: NodeId) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let member = |node, slot| ViewMember { node, slot, votes: 1, weight: 1 };
    for number in 2..12 {
        // The first group founded in the domain; its views have low numbers.
        let next = View { group: Generation(1), number, members: vec![member(me, 40)] };
        words.push(rule(&ViewChangeMessage::Decided(Decision { next, cut: GroupCut::default() })));
    }
    for number in 0..40 {
        let node = NodeId(0xbad << 64 | number);
        words.push(rule(&ViewChangeMessage::Join { node, weight: 1 }));
    }
    for number in 0..1000_u64 {
        let start = |key: u64| ((number << 32 | key, 0_u64), ((RegionId(key), 0_u64), 0_u64));
        words.push(word(2, &(0..300).map(start).collect::<Vec<_>>()));
        words.push(word(3, &(number % 12, vec![7_u8; 12_000])));
        words.push(word(3, &(2 + number, vec![7_u8; 12_000])));
        words.push(word(3, &(1_u64 << 40, vec![7_u8; 12_000])));
    }
    words
}

fn act_stranger(folder: &Path) {
    let mut config = ShmConfig::new("domain-0");
    config.runtime_dir = Some(folder.to_owned());
    let mut link = ShmLink::join(config).unwrap();
    let acks = link.open(ACKS, ACKS_WORDS).unwrap();
    let me = link.node();
    let mut duty = EventLoop::new(Node::new(me, acks, Arc::new(|| {})), link);
    let (mut peers, deadline) = (BTreeSet::<Peer>::new(), Instant::now() + 3 * PATIENCE);
    let turn = |duty: &mut EventLoop<Node, ShmLink>, peers: &mut BTreeSet<Peer>| {
        duty.turn(clock::now());
        while let Some(event) = duty.machine.next_event() {
            match event {
                NodeEvent::PeerUp { peer, .. } => drop(peers.insert(peer)),
                // A node that sends too much is ignored.
                NodeEvent::PeerDown { peer, .. } => drop(peers.remove(&peer)),
                _ => {}
            }
        }
        assert!(Instant::now() < deadline, "the others neither come nor listen");
    };
    while peers.len() < 2 {
        turn(&mut duty, &mut peers);
        std::thread::sleep(Duration::from_micros(100));
    }
    let all: Vec<Peer> = peers.iter().copied().collect();
    for word in words(me) {
        for &peer in &all {
            while peers.contains(&peer) && duty.link.note(peer, &word).is_err() {
                turn(&mut duty, &mut peers);
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        duty.link.ring(&all, &[]);
        turn(&mut duty, &mut peers);
    }
    say("said");
    while listen().is_some() {
        turn(&mut duty, &mut peers);
    }
}

/// Returns the bytes of memory that this process uses.
fn memory() -> u64 {
    let status = read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn messages_of_non_member_do_not_affect_group() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = writer_of(&participant, "Marks");
    let mut reader = Actor::start(module_path!(), "reader", &domain, 0);
    assert_eq!(reader.hear(), "ready");
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&CheckedSample::new(0)).unwrap();
    let before = memory();
    let mut stranger = Actor::start(module_path!(), "stranger", &domain, 0);
    assert_eq!(stranger.hear(), "said");
    for number in 1..2000 {
        writer.write(&CheckedSample::new(number)).unwrap();
    }
    // The members do not wait for nodes that do not exist: another process joins as usual.
    let mut other = Actor::start(module_path!(), "reader", &domain, 1);
    assert_eq!(other.hear(), "ready");
    writer.wait_for_readers(2, SOON).unwrap();
    let grown = memory().saturating_sub(before);
    assert!(grown < 24 << 20, "a stranger takes {grown} bytes");
    writer.write(&CheckedSample::last(2000)).unwrap();
    assert_eq!(reader.hear(), "Some(0) 2001");
    let told = other.hear();
    assert!(told.ends_with(" 2001"), "{told}");
    stranger.kill();
    reader.finish();
    other.finish();
    drop((writer, participant));
    domain.assert_empty();
}
