//! A peer's memory that contains held records becomes private before the peer continues without
//! this node (I-335).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{LinkEvent, Sharing};
use derecho_core::machine::{Effects, Machine, PostKind};
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::node::{ACKS, ACKS_WORDS, Node, NodeEvent, StreamOrigin};

const WRITER: usize = 0;
const READER: usize = 1;

/// A node that writes a stream and one that reads it, over memory that they share.
struct Pair {
    nodes: [Node; 2],
    memory: SenderMemory,
    inbox: Option<Arc<Inbox>>,
}

impl Pair {
    fn new() -> Pair {
        let acks = [(); 2].map(|()| OwnRegion::heap(ACKS_WORDS));
        let node =
            |index: usize| Node::new(NodeId(index as u128), acks[index].clone(), Arc::new(|| {}));
        let mut nodes = [node(WRITER), node(READER)];
        let geometry = Geometry::fitting(4096, 16, 64).unwrap();
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let mut effects = Effects::new();
        let stream = nodes[WRITER].fresh_region();
        nodes[WRITER].add_stream(stream, memory.clone(), &mut effects);
        for (at, node) in nodes.iter_mut().enumerate() {
            let (peer, sharing) = (Peer(1 - at as u32), Sharing::Shared);
            let up = |region, replica| LinkEvent::RegionUp { peer, region, replica };
            let ready = |region: RegionId| LinkEvent::RegionReady { peer, region };
            let there =
                LinkEvent::PeerUp { peer, node: NodeId(1 - at as u128), sharing, place: None };
            let shown = [there, up(ACKS, acks[1 - at].replica()), ready(ACKS)];
            let of_stream = if at == READER { up(stream, memory.replica()) } else { ready(stream) };
            let events = shown.into_iter().chain([of_stream]);
            events.for_each(|event| node.handle(event, &mut effects));
        }
        nodes[READER].subscribe(StreamOrigin::Peer(Peer(WRITER as u32)), stream, 0).unwrap();
        let mut pair = Pair { nodes, memory, inbox: None };
        pair.turn();
        assert!(pair.inbox.is_some(), "the reader reads");
        pair
    }

    /// Turns both nodes until nothing happens.
    fn turn(&mut self) {
        let mut done = true;
        while std::mem::take(&mut done) {
            for at in [WRITER, READER] {
                let mut effects = Effects::new();
                done |= self.nodes[at].turn(Time(0), &mut effects) > 0;
                while let Some(event) = self.nodes[at].next_event() {
                    if let NodeEvent::Subscribed(_, inbox) = event {
                        self.inbox = Some(inbox);
                    }
                }
                for post in effects.take_posts().collect::<Vec<_>>() {
                    let PostKind::Note(bytes) = post.kind else { continue };
                    let note = LinkEvent::Note { peer: Peer(at as u32), bytes };
                    self.nodes[1 - at].handle(note, &mut Effects::new());
                    done = true;
                }
            }
        }
    }

    fn write(&mut self, count: u8) {
        for number in 0..count {
            let mut claim = self.memory.claim(40).unwrap();
            claim.bytes().fill(number);
            claim.commit(40, |_, _| ());
        }
        self.turn();
    }

    fn take(&self) -> Record {
        self.inbox.as_ref().unwrap().take().unwrap()
    }

    fn waiting(&self) -> usize {
        self.inbox.as_ref().unwrap().len()
    }

    /// Offset of a record in the stream's region.
    fn place_of(&self, record: &Record) -> usize {
        let base = self.memory.replica().bytes(0, 0).unwrap().as_ptr() as usize;
        record.bytes().as_ptr() as usize - base
    }

    /// Returns the ranges of the stream's region that become private.
    fn privatize(&mut self) -> Vec<std::ops::Range<usize>> {
        let mut effects = Effects::new();
        self.nodes[READER].privatize(&mut effects);
        let private = effects.take_privatized();
        private
            .map(|(replica, bytes)| {
                assert!(replica.is_same(&self.memory.replica()));
                bytes
            })
            .collect()
    }
}

#[test]
fn memory_of_records_becomes_private_once_and_ends_reception() {
    let mut pair = Pair::new();
    pair.write(3);
    let held = pair.take();
    assert_eq!(pair.waiting(), 2);
    let private = pair.privatize();
    let [bytes] = private.as_slice() else { panic!("one chunk is in use: {private:?}") };
    let place = pair.place_of(&held);
    assert!(bytes.contains(&place) && bytes.contains(&(place + 39)), "{place} in {bytes:?}");
    assert!(bytes.len() < 4096 / 2, "the rest of the memory stays shared: {bytes:?}");
    assert_eq!(pair.privatize(), []);
    pair.write(3);
    assert_eq!(pair.waiting(), 2, "nothing is received from memory that may be stale");
    let queued = [pair.take(), pair.take()].map(|record| bytes.contains(&pair.place_of(&record)));
    assert_eq!(queued, [true; 2]);
}

#[test]
fn memory_of_excluded_writer_with_held_record_becomes_private() {
    let mut pair = Pair::new();
    pair.write(1);
    let held = pair.take();
    // The writer is no longer a member, and its subscription is forgotten.
    pair.nodes[READER].shut_out(Peer(WRITER as u32));
    pair.turn();
    let place = pair.place_of(&held);
    let private = pair.privatize();
    assert!(private.iter().any(|bytes| bytes.contains(&place)), "{place} in {private:?}");
}

#[test]
fn memory_without_records_stays_shared() {
    let mut pair = Pair::new();
    pair.write(2);
    drop([pair.take(), pair.take()]);
    pair.turn();
    assert_eq!(pair.privatize(), []);
}
