//! Readers without back-pressure, beside others, over shared memory: FIFO, nothing twice, nothing
//! corrupt, and losses are counted, in random orders of turns.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "of what the tests of nodes share a part is used")]

use std::collections::VecDeque;
use std::sync::Arc;

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Evidence, LinkEvent, Sharing};
use derecho_core::machine::{Effects, Machine, PostKind};
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::node::{ACKS, ACKS_WORDS, Node, NodeEvent, StreamOrigin, SubscriptionId};
use derecho_sim::Random;
use derecho_sim::world::streams::{content_of, tiny};

/// Index of the writing node, which also reads its own stream, without waiting for itself.
const WRITER: usize = 0;
/// Index of the only reader with back-pressure.
const TETHERED: usize = 1;
const NODES: usize = 4;

struct Reader {
    subscription: SubscriptionId,
    inbox: Option<Arc<Inbox>>,
    first: Option<u64>,
    next: u64,
    got: u64,
    lost: u64,
    ended: bool,
    held: Vec<Record>,
}

struct TestMember {
    node: Node,
    inbox: VecDeque<LinkEvent>,
    effects: Effects,
    acks: OwnRegion,
    reader: Option<Reader>,
}

struct TestGroup {
    seed: u64,
    members: Vec<TestMember>,
    stream: RegionId,
    memory: SenderMemory,
    written: u64,
}

fn peer(index: usize) -> Peer {
    Peer(index as u32)
}

impl TestGroup {
    fn new(seed: u64) -> TestGroup {
        let mut members: Vec<TestMember> = (0..NODES)
            .map(|index| {
                let acks = OwnRegion::heap(ACKS_WORDS);
                let node = Node::new(NodeId(index as u128), acks.clone(), Arc::new(|| {}));
                let (inbox, effects, reader) = (VecDeque::new(), Effects::new(), None);
                TestMember { node, inbox, effects, acks, reader }
            })
            .collect();
        let stream = members[WRITER].node.fresh_region();
        let memory = SenderMemory::new(OwnRegion::heap(tiny().words()), tiny());
        let TestMember { node, effects, .. } = &mut members[WRITER];
        node.add_stream(stream, memory.clone(), effects);
        for at in 0..NODES {
            for about in (0..NODES).filter(|&about| about != at) {
                let (id, node, sharing) = (peer(about), NodeId(about as u128), Sharing::Shared);
                let acks = members[about].acks.replica();
                let inbox = &mut members[at].inbox;
                inbox.push_back(LinkEvent::PeerUp { peer: id, node, sharing, place: None });
                inbox.push_back(LinkEvent::RegionUp { peer: id, region: ACKS, replica: acks });
                if about == WRITER {
                    let replica = memory.replica();
                    inbox.push_back(LinkEvent::RegionUp { peer: id, region: stream, replica });
                }
                inbox.push_back(LinkEvent::RegionReady { peer: id, region: ACKS });
                if at == WRITER {
                    inbox.push_back(LinkEvent::RegionReady { peer: id, region: stream });
                }
            }
        }
        TestGroup { seed, members, stream, memory, written: 0 }
    }

    fn join(&mut self, at: usize) {
        let (origin, stream) = match at {
            WRITER => (StreamOrigin::Own, self.stream),
            _ => (StreamOrigin::Peer(peer(WRITER)), self.stream),
        };
        let node = &mut self.members[at].node;
        let subscription = match at {
            TETHERED => node.subscribe(origin, stream, 0).unwrap(),
            _ => node.subscribe_untethered(origin, stream, 0).unwrap(),
        };
        let (inbox, first, held) = (None, None, Vec::new());
        let (next, got, lost, ended) = (0, 0, 0, false);
        let reader = Reader { subscription, inbox, first, next, got, lost, ended, held };
        self.members[at].reader = Some(reader);
    }

    fn turn(&mut self, at: usize) -> usize {
        let TestMember { node, inbox, effects, reader, .. } = &mut self.members[at];
        inbox.drain(..).for_each(|event| node.handle(event, effects));
        let done = node.turn(Time(0), effects);
        while let Some(event) = node.next_event() {
            match (event, reader.as_mut()) {
                (NodeEvent::Subscribed(id, inbox), Some(reader)) if id == reader.subscription => {
                    reader.inbox = Some(inbox);
                }
                (NodeEvent::Lost(id, count), Some(reader)) if id == reader.subscription => {
                    reader.lost += count;
                }
                (NodeEvent::Ended(id), Some(reader)) if id == reader.subscription => {
                    reader.ended = true;
                }
                (NodeEvent::Faulty { fault, .. }, _) => panic!("seed {}: {fault}", self.seed),
                _ => {}
            }
        }
        let posts: Vec<_> = effects.take_posts().collect();
        effects.clear();
        for post in posts {
            if let PostKind::Note(bytes) = post.kind {
                let note = LinkEvent::Note { peer: peer(at), bytes };
                self.members[post.peer.index()].inbox.push_back(note);
            }
        }
        done
    }

    /// Writes until there is no room, at most `count` records. Returns whether there was no room.
    fn write(&mut self, count: u64) -> bool {
        for _ in 0..count {
            let content = content_of(1, self.written);
            let Ok(mut claim) = self.memory.claim(content.len()) else { return true };
            claim.bytes().copy_from_slice(&content);
            claim.commit(content.len(), |_, _| {});
            self.written += 1;
        }
        false
    }

    fn take(&mut self, at: usize, count: u64, keep: bool) {
        let seed = self.seed;
        let Some(reader) = &mut self.members[at].reader else { return };
        let Some(inbox) = &reader.inbox else { return };
        for record in core::iter::from_fn(|| inbox.take()).take(count as usize) {
            let number = record.number();
            assert!(reader.first.is_none() || number >= reader.next, "seed {seed}: twice, or back");
            assert!(
                at != TETHERED || reader.first.is_none() || number == reader.next,
                "seed {seed}"
            );
            assert_eq!(record.bytes(), content_of(1, number), "seed {seed}: record {number}");
            reader.first.get_or_insert(number);
            (reader.next, reader.got) = (number + 1, reader.got + 1);
            if keep {
                reader.held.push(record);
            }
        }
        if !keep {
            for record in reader.held.drain(..) {
                assert_eq!(record.bytes(), content_of(1, record.number()), "seed {seed}: held");
            }
        }
    }

    fn settle(&mut self, who: &[usize]) {
        for _ in 0..200 {
            who.iter().for_each(|at| {
                self.turn(*at);
                self.take(*at, u64::MAX, false);
            });
        }
    }

    fn reader(&self, at: usize) -> &Reader {
        self.members[at].reader.as_ref().unwrap()
    }
}

const ALL: [usize; NODES] = [0, 1, 2, 3];

#[test]
fn received_and_lost_records_add_up_to_written_records() {
    let (mut lost, mut got) = (0, 0);
    for seed in 0..300 {
        let (mut bus, mut random) = (TestGroup::new(seed), Random::new(seed));
        ALL.into_iter().for_each(|at| bus.join(at));
        bus.settle(&ALL);
        // Each node has its own pace.
        let paces: [u64; NODES] = std::array::from_fn(|_| random.between(1, 30));
        for _ in 0..600 {
            let at = random.below(NODES as u64) as usize;
            bus.write(random.between(0, 6));
            bus.turn(WRITER);
            if random.one_in(paces[at]) {
                bus.turn(at);
                bus.take(at, random.between(0, 40), random.one_in(3));
            }
        }
        bus.settle(&ALL);
        for at in ALL {
            let reader = bus.reader(at);
            assert_eq!(reader.got + reader.lost, bus.written, "seed {seed}, node {at}");
            assert!(at != TETHERED || reader.lost == 0);
            (lost, got) = (lost + reader.lost, got + reader.got);
        }
    }
    assert!(lost > 1000 && got > 10_000, "{got} got, {lost} lost");
}

/// A writer does not wait for sleeping readers, whatever it does (I-223).
#[test]
fn writer_continues_while_untethered_readers_sleep() {
    for seed in 0..100 {
        let (mut bus, mut random) = (TestGroup::new(seed), Random::new(seed));
        for at in [2, 3] {
            bus.join(at);
        }
        bus.settle(&ALL);
        for _ in 0..300 {
            if bus.write(random.between(1, 12)) {
                bus.turn(WRITER);
                assert!(!bus.write(1), "seed {seed}: the writer waits for a sleeping reader");
            }
        }
        bus.settle(&[WRITER]);
        let node = &mut bus.members[WRITER].node;
        assert!(node.is_acknowledged(bus.stream), "seed {seed}");
        assert_eq!((node.lagging_readers().count(), node.lagging_readers().count()), (0, 0));
        assert!(!node.awaits_readers());
        assert_eq!(node.readers(bus.stream), 2, "sleeping readers do not count as readers");
        bus.settle(&ALL);
        for at in [2, 3] {
            let reader = bus.reader(at);
            assert_eq!(reader.got + reader.lost, bus.written, "seed {seed}");
            assert!(reader.lost > 0 && reader.got > 0, "seed {seed}");
        }
    }
}

/// Readers leave and come back, and the writer ends the stream or dies.
#[test]
fn untethered_reader_leaves_and_rejoins_and_sees_stream_end() {
    for seed in 0..200 {
        let (mut bus, mut random) = (TestGroup::new(seed), Random::new(seed));
        bus.join(2);
        bus.settle(&ALL);
        for _ in 0..6 {
            bus.write(random.between(1, 60));
            bus.turn(WRITER);
            let (id, written) = (bus.reader(2).subscription, bus.written);
            bus.members[2].node.unsubscribe(id);
            bus.settle(&ALL);
            assert_eq!(bus.members[WRITER].node.readers(bus.stream), 0, "seed {seed}");
            bus.join(2);
            bus.settle(&ALL);
            bus.write(3);
            bus.settle(&ALL);
            let reader = bus.reader(2);
            assert!(
                reader.first.unwrap() >= written
                    && reader.got == bus.written - reader.first.unwrap()
            );
        }
        let before = bus.reader(2).got + bus.reader(2).lost;
        let more = random.between(0, 100);
        (0..more).for_each(|_| {
            bus.write(1);
            bus.turn(WRITER);
        });
        if seed % 2 == 0 {
            let TestMember { node, effects, .. } = &mut bus.members[WRITER];
            node.end_stream(bus.stream, effects);
        } else {
            let (peer, evidence) = (peer(WRITER), Evidence::Certain);
            bus.members[2].inbox.push_back(LinkEvent::PeerDown { peer, evidence });
        }
        bus.settle(&ALL);
        let reader = bus.reader(2);
        assert!(reader.ended, "seed {seed}");
        assert_eq!(reader.got + reader.lost, before + more, "seed {seed}");
        if seed % 2 == 0 {
            assert_eq!(bus.members[WRITER].node.readers(bus.stream), 0, "seed {seed}");
        }
    }
}
