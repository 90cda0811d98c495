//! A malicious participant: it joins and matches like any other, and then overwrites all its shared
//! memory and sends arbitrary messages.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    Actor, CheckedSample, Dice, PATIENCE, ReceivedSequence, SOON, TestDomain, join, listen,
    reader_of, role, say, seed, until, write_until, writer_of,
};
use dds_api::prelude::*;
use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::bytes::Wire;
use derecho_core::group::membership_service::{HostInterface, JoinMode};
use derecho_core::group::registry::Layout;
use derecho_core::group::silence_detector::MemberTimeouts;
use derecho_core::group::{
    CONTROL_LINES, CONTROL_STREAM, Group, GroupConfig, GroupEvent, ReplicatedState,
    SubgroupRegions, control_geometry,
};
use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::link::Link;
use derecho_core::membership::View;
use derecho_core::memory::{LINE_WORDS, Replica};
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SUBGROUP_LINES};
use derecho_core::node::{ACKS, ACKS_WORDS, Node, NodeEvent, StreamOrigin};
use derecho_core::note::Note;
use derecho_core::storage::log_election::LogElection;
use derecho_core::transfer::holders::Holders;
use derecho_node::clock;
use derecho_node::event_loop::EventLoop;

type MaliciousEngine = EventLoop<Group<OverheardState>, ShmLink>;

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "echo" => act_echo(&folder),
        "mad" => act_malicious(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// A correct participant: sends everything back, and reports the samples it received.
fn act_echo(folder: &Path) {
    let participant = join(folder);
    let reader = reader_of(&participant, "Marks");
    let writer = writer_of(&participant, &format!("Echo {}", seed()));
    writer.wait_for_readers(1, SOON).unwrap();
    say("ready");
    let mut got = ReceivedSequence::default();
    while !got.ended {
        let Some(sample) = reader.take_next_data(Timeout::millis(100)).unwrap() else { continue };
        // The malicious participant may have appeared as a writer of this topic.
        if sample.check != CheckedSample::new(sample.number).check {
            continue;
        }
        got.take_in(&sample);
        writer.write(&sample).unwrap();
    }
    say(&format!("{} {}", got.first.unwrap(), got.next));
    while listen().is_some() {}
}

/// Knowledge of the malicious participant about the others: the announcements of each, unmodified.
#[derive(Default)]
struct OverheardState {
    announcements: RefCell<Vec<(NodeId, Vec<u8>)>>,
}

impl ReplicatedState for OverheardState {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u64> {
        // No participant here keeps samples; the messages are about endpoints.
        let announcement = message.strip_prefix(&[0]).and_then(<(u64, Vec<u8>)>::from_bytes);
        self.announcements.get_mut().extend(announcement.map(|(_, endpoint)| (from, endpoint)));
        Vec::new()
    }

    fn forget(&mut self, _node: NodeId) {}

    fn keys(&self) -> Vec<u64> {
        Vec::new()
    }

    fn layout(&self, _key: u64, _view: &View) -> Layout {
        Layout { level: DeliveryGuarantee::Atomic, members: Vec::new() }
    }

    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        type Storage = (BTreeMap<u64, Holders>, BTreeMap<u64, LogElection>);
        type Endpoints = Vec<((NodeId, u64), Vec<u8>)>;
        type PartialDescriptions = Vec<(NodeId, ((u32, u32), Vec<u8>))>;
        type TypeAnnouncements = (Vec<(NodeId, Vec<u8>)>, PartialDescriptions);
        type ExcludedEndpoints = BTreeMap<u64, Vec<(NodeId, u64)>>;
        type TopicEndpoints = (Endpoints, ExcludedEndpoints);
        type DomainSnapshot =
            (TopicEndpoints, ((BTreeMap<NodeId, u64>, Endpoints), (TypeAnnouncements, Storage)));
        let (((endpoints, _), _), _) = <(DomainSnapshot, Vec<u8>)>::from_bytes(bytes).unwrap();
        let endpoints = endpoints.into_iter().map(|((node, _), endpoint)| (node, endpoint));
        self.announcements.get_mut().extend(endpoints);
        true
    }
}

/// Matches with all others as a correct member, and then becomes malicious.
fn act_malicious(folder: &Path) {
    let mut config = ShmConfig::new("domain-0");
    config.runtime_dir = Some(folder.to_owned());
    let mut link = ShmLink::join(config).unwrap();
    let acks = link.open(ACKS, ACKS_WORDS).unwrap();
    let mut node = Node::new(link.node(), acks.clone(), Arc::new(|| {}));
    let stream = node.fresh_region();
    let geometry = Geometry::fitting(16 << 10, 64, 256).unwrap();
    let region = link.open(stream, geometry.words()).unwrap();
    let memory = SenderMemory::new(region, geometry);
    let lines = link.open(CONTROL_LINES, SUBGROUP_LINES * LINE_WORDS).unwrap();
    let control = control_geometry();
    let control =
        SenderMemory::with_nulls(link.open(CONTROL_STREAM, control.words()).unwrap(), control);
    let control =
        SubgroupRegions { lines: (CONTROL_LINES, lines), memory: Some((CONTROL_STREAM, control)) };
    let group_config = GroupConfig {
        join_mode: JoinMode::Local,
        weight: 1,
        timeouts: MemberTimeouts::default(),
        ablation: Ablation::default(),
    };
    let host = HostInterface { arbiter: link.arbiter().unwrap(), is_halted: link.halts() };
    let group = Group::new(node, group_config, OverheardState::default(), control, Some(host));
    let mut duty = EventLoop::new(group, link);
    let sent = memory.clone();
    duty.act(|group, _, effects| group.node_mut().add_stream(stream, sent, effects));
    let peers = mingle(&mut duty, stream, &memory);
    say("matched");
    scribble(&mut duty, &peers, &[acks.replica(), memory.replica()]);
    say("mad enough");
    while listen().is_some() {}
}

/// Reads every stream of all others, and appears as a writer of their topics: all first streams
/// have the same name. When it reads and is read, it writes a little.
fn mingle(duty: &mut MaliciousEngine, stream: RegionId, memory: &SenderMemory) -> Vec<Peer> {
    let start = Instant::now();
    let (mut subscribed, mut announced, mut peers) = (0, 0_u64, BTreeMap::new());
    while subscribed == 0 || duty.machine.node().readers(stream) == 0 {
        assert!(start.elapsed() < PATIENCE, "nobody wants to have to do with it");
        duty.turn(clock::now());
        while let Some(event) = duty.machine.next_event() {
            match event {
                GroupEvent::Node(NodeEvent::PeerUp { peer, node }) => {
                    peers.insert(node, peer);
                }
                GroupEvent::Node(NodeEvent::Subscribed(..)) => subscribed += 1,
                _ => {}
            }
        }
        let me = duty.machine.node().id();
        for (from, endpoint) in duty.machine.state().announcements.take() {
            let Some(&peer) = peers.get(&from).filter(|_| from != me) else { continue };
            announced += 1;
            duty.machine.submit(&[vec![0], (announced, endpoint).to_bytes()].concat());
            // It begins to send a type and does not continue, or continues where nothing was begun.
            for (whole, at) in
                [(40_u32, 0_u32), (40, 9), (40, 0), (u32::MAX, 0), (99, u32::MAX), (5, 0)]
            {
                let part = ((whole, at), vec![0x5a_u8; 5]).to_bytes();
                duty.machine.submit(&[vec![2], part].concat());
            }
            (0..4).for_each(|n| {
                let stream = RegionId(stream.0 + n);
                let node = duty.machine.node_mut();
                let _ = node.subscribe(StreamOrigin::Peer(peer), stream, 0);
                let _ = node.subscribe_untethered(StreamOrigin::Peer(peer), stream, 0);
            });
        }
    }
    for _ in 0..5 {
        if let Ok(claim) = memory.claim(200) {
            claim.commit(200, |_, _| {});
        }
        duty.turn(clock::now());
    }
    peers.into_values().collect()
}

fn scribble(duty: &mut MaliciousEngine, peers: &[Peer], regions: &[Replica]) {
    let mut dice = Dice(seed());
    let end = Instant::now() + Duration::from_millis(150);
    while Instant::now() < end {
        for _ in 0..200 {
            let region = &regions[dice.below(2) as usize];
            let some = if dice.below(2) == 0 { 64 } else { region.words() as u64 };
            // SAFETY: both regions belong to this process, and only this thread uses them: it has
            // no slice of a claim or of a record here.
            let word = unsafe { region.word(dice.below(some) as usize) };
            word.publish(match dice.below(4) {
                0 => dice.roll(),
                1 => dice.below(64),
                2 => word.peek() ^ 1 << dice.below(64),
                _ => word.peek().wrapping_add(dice.below(4)),
            });
        }
        let mut number = || if dice.below(3) == 0 { dice.roll() } else { dice.below(24) };
        let (reader, slot) = (number(), number());
        let note = match number() % 8 {
            0 => Note::Announce { id: reader, bytes: slot.to_le_bytes().to_vec() },
            1 => Note::Retract { id: reader },
            2 => Note::Accept { reader, entry: slot, message: slot },
            3 => Note::End { reader, entry: slot },
            4 => Note::Detach { reader, stream: RegionId(slot) },
            5 => Note::Detached { reader },
            6 => {
                let (stream, line, tethered) = (RegionId(slot), number(), number() % 2 == 0);
                Note::Attach { reader, entity: reader, stream, acks: ACKS, line, tethered }
            }
            _ => Note::Announce { id: reader, bytes: vec![0xff; 40] },
        };
        // Invalid messages are rare, because the others ignore the sender after one.
        let bytes = if dice.below(50) == 0 { vec![0xee; 9] } else { note.encode() };
        for &peer in peers {
            let _ = duty.link.note(peer, &bytes);
        }
        duty.link.poll(&mut |_| {});
        duty.link.ring(peers, &[]);
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn malicious_participant_does_not_affect_other_participants() {
    const ROUNDS: u64 = 12;
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = writer_of(&participant, "Marks");
    let echoes = [0, 1].map(|n| reader_of(&participant, &format!("Echo {n}")));
    let mut good: Vec<Actor> =
        (0..2).map(|n| Actor::start(module_path!(), "echo", &domain, n)).collect();
    good.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "ready"));
    writer.wait_for_readers(2, SOON).unwrap();
    let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let count = std::thread::scope(|scope| {
        let writing = scope.spawn(|| write_until(&over, &written, &writer));
        let taking = echoes.each_ref().map(|reader| {
            scope.spawn(|| {
                let mut got = ReceivedSequence::default();
                take_only_whole(reader, &mut got);
                got
            })
        });
        for round in 0..ROUNDS {
            let mut mad = Actor::start(module_path!(), "mad", &domain, round);
            assert_eq!(mad.hear(), "matched");
            assert_eq!(mad.hear(), "mad enough");
            if round % 2 == 0 {
                mad.kill();
            } else {
                mad.finish();
            }
            let before = written.load(Ordering::Relaxed);
            until("the flow goes on", || written.load(Ordering::Relaxed) > before + 1000);
        }
        over.store(true, Ordering::Relaxed);
        let count = writing.join().unwrap();
        for got in taking.map(|taking| taking.join().unwrap()) {
            assert_eq!((got.first, got.next), (Some(0), count));
        }
        count
    });
    for mut actor in good {
        assert_eq!(actor.hear(), format!("0 {count}"));
        actor.finish();
    }
    drop((writer, echoes, participant));
    domain.assert_empty();
}

/// Takes like `take_to_the_end`, except for samples that the malicious participant has sent under
/// another name.
fn take_only_whole(reader: &DataReader<CheckedSample>, got: &mut ReceivedSequence) {
    let deadline = Instant::now() + PATIENCE;
    while !got.ended {
        assert!(Instant::now() < deadline, "the last sample does not come: {got:?}");
        if let Some(sample) = reader.take_next_data(Timeout::millis(100)).unwrap()
            && sample.check == CheckedSample::new(sample.number).check
        {
            got.take_in(&sample);
        }
    }
}
