//! A participant that goes mad: it joins and is matched as any other, and then scribbles over all
//! the memory that it has shared and says whatever comes to its mind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::Link;
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::node::{ACKS, ACKS_WORDS, Node, NodeEvent, Origin};
use derecho_core::note::Note;
use derecho_node::clock;
use derecho_node::duty::Duty;
use support::{
    Actor, Dice, Got, Mark, Meeting, PATIENCE, SOON, join, listen, reader_of, role, say, seed,
    until, write_until, writer_of,
};

/// What a child process does; nothing when the test program is run as such.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "echo" => act_echo(&folder),
        "mad" => act_mad(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// A good one: sends everything back, and tells what it got.
fn act_echo(folder: &Path) {
    let participant = join(folder);
    let reader = reader_of(&participant, "Marks");
    let writer = writer_of(&participant, &format!("Echo {}", seed()));
    writer.wait_for_readers(1, SOON).unwrap();
    say("ready");
    let mut got = Got::default();
    while !got.ended {
        let Some(sample) = reader.take_next(Timeout::millis(100)).unwrap() else { continue };
        // The mad one may have passed for a writer of this topic.
        if sample.check != Mark::new(sample.number).check {
            continue;
        }
        got.take_in(&sample);
        writer.write(&sample).unwrap();
    }
    say(&format!("{} {}", got.first.unwrap(), got.next));
    while listen().is_some() {}
}

/// Is matched with everybody as a node that knows the protocol, and then goes mad.
fn act_mad(folder: &Path) {
    let mut config = ShmConfig::new("domain-0");
    config.runtime_dir = Some(folder.to_owned());
    let mut link = ShmLink::join(config).unwrap();
    let acks = link.open(ACKS, ACKS_WORDS).unwrap();
    let mut node = Node::new(link.node(), acks.clone(), Arc::new(|| {}));
    let stream = node.fresh_region();
    let geometry = Geometry::fitting(16 << 10, 64, 256).unwrap();
    let region = link.open(stream, geometry.words()).unwrap();
    let memory = SenderMemory::new(region.clone(), geometry);
    let mut duty = Duty::new(node, link);
    let sent = memory.clone();
    duty.act(|node, _, effects| node.add_stream(stream, sent, effects));
    let peers = mingle(&mut duty, stream, &memory);
    say("matched");
    scribble(&mut duty, &peers, &[acks, region]);
    say("mad enough");
    while listen().is_some() {}
}

/// Reads every stream of everybody, and passes for a writer of whatever they write: all first
/// streams have the same name. Until it reads and is read; then it writes a little.
fn mingle(duty: &mut Duty<Node, ShmLink>, stream: RegionId, memory: &SenderMemory) -> Vec<Peer> {
    let start = Instant::now();
    let (mut subscribed, mut announced, mut peers) = (0, 0, Vec::new());
    while subscribed == 0 || duty.machine.readers(stream) == 0 {
        assert!(start.elapsed() < PATIENCE, "nobody wants to have to do with it");
        duty.turn(clock::now());
        while let Some(event) = duty.machine.next_event() {
            match event {
                NodeEvent::PeerUp { peer, .. } => peers.push(peer),
                NodeEvent::Announced { peer, bytes, .. } => duty.act(|node, _, effects| {
                    announced += 1;
                    node.announce(announced, bytes, effects);
                    (0..4).for_each(|n| {
                        let _ = node.subscribe(Origin::Peer(peer), RegionId(stream.0 + n));
                    });
                }),
                NodeEvent::Subscribed(..) => subscribed += 1,
                _ => {}
            }
        }
    }
    for _ in 0..5 {
        if let Ok(claim) = memory.claim(200) {
            claim.commit(200, |_, _| {});
        }
        duty.turn(clock::now());
    }
    peers
}

fn scribble(duty: &mut Duty<Node, ShmLink>, peers: &[Peer], regions: &[OwnRegion]) {
    let mut dice = Dice(seed());
    let end = Instant::now() + Duration::from_millis(150);
    while Instant::now() < end {
        for _ in 0..200 {
            let region = &regions[dice.below(2) as usize];
            let some = if dice.below(2) == 0 { 64 } else { region.words() as u64 };
            let word = region.word(dice.below(some) as usize);
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
            6 => Note::Attach { reader, stream: RegionId(slot), acks: ACKS, line: number() },
            _ => Note::Announce { id: reader, bytes: vec![0xff; 40] },
        };
        // Nonsense only now and then, for after it nobody listens any more.
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
fn nobody_suffers_from_a_participant_that_goes_mad() {
    const ROUNDS: u64 = 12;
    let meeting = Meeting::new();
    let participant = meeting.join();
    let writer = writer_of(&participant, "Marks");
    let echoes = [0, 1].map(|n| reader_of(&participant, &format!("Echo {n}")));
    let mut good: Vec<Actor> = (0..2).map(|n| Actor::start("echo", &meeting, n)).collect();
    good.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "ready"));
    writer.wait_for_readers(2, SOON).unwrap();
    let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let count = std::thread::scope(|scope| {
        let writing = scope.spawn(|| write_until(&over, &written, &writer));
        let taking = echoes.each_ref().map(|reader| {
            scope.spawn(|| {
                let mut got = Got::default();
                take_only_whole(reader, &mut got);
                got
            })
        });
        for round in 0..ROUNDS {
            let mut mad = Actor::start("mad", &meeting, round);
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
    meeting.assert_empty();
}

/// As `take_to_the_end`, but for what the mad one has sent under another one's name.
fn take_only_whole(reader: &DataReader<Mark>, got: &mut Got) {
    let deadline = Instant::now() + PATIENCE;
    while !got.ended {
        assert!(Instant::now() < deadline, "the last sample does not come: {got:?}");
        if let Some(sample) = reader.take_next(Timeout::millis(100)).unwrap()
            && sample.check == Mark::new(sample.number).check
        {
            got.take_in(&sample);
        }
    }
}
