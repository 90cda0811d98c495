//! Control messages of peers to a node with a stream, read by some of them, and a subscription.
//! Whether a message is valid or not, a turn does a bounded amount of work, and a valid message can
//! be written and read again as the same.

use std::sync::Arc;

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{LinkEvent, Sharing};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::node::{ACKS, ACKS_WORDS, Node, StreamOrigin};
use derecho_core::note::Note;

use crate::frames::frames;
use crate::outcome::{Outcome, OutcomeBuilder};

/// Number of peers that send.
const PEERS: u8 = 3;
/// Maximum work in one turn of a node of this size.
const MOST_WORK: usize = 4096;

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    let mut effects = Effects::new();
    let acks = OwnRegion::heap(ACKS_WORDS);
    let mut node = Node::new(NodeId(1), acks, Arc::new(|| {}));
    let geometry = Geometry::fitting(2048, 16, 128).expect("a small shape");
    let stream = node.fresh_region();
    let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
    node.add_stream(stream, memory, &mut effects);
    for index in 0..PEERS {
        let (peer, node_id) = (Peer(index.into()), NodeId(u128::from(index) + 2));
        let sharing = if index == 0 { Sharing::Copied } else { Sharing::Shared };
        node.handle(LinkEvent::PeerUp { peer, node: node_id, sharing, place: None }, &mut effects);
        for region in [ACKS, stream] {
            let words = if region == ACKS { ACKS_WORDS } else { geometry.words() };
            let replica = OwnRegion::heap(words).replica();
            node.handle(LinkEvent::RegionUp { peer, region, replica }, &mut effects);
            node.handle(LinkEvent::RegionReady { peer, region }, &mut effects);
        }
        node.subscribe(StreamOrigin::Peer(peer), stream, 0);
    }
    for (who, said) in frames(bytes) {
        if let Some(note) = Note::decode(said) {
            assert_eq!(Note::decode(&note.encode()).as_ref(), Some(&note), "read as written");
            outcome.kind(core::mem::discriminant(&note));
        }
        let peer = Peer(u32::from(who % PEERS));
        node.handle(LinkEvent::Note { peer, bytes: said.to_vec() }, &mut effects);
        let done = node.turn(Time(1), &mut effects);
        assert!(done <= MOST_WORK, "a turn did {done} things");
        outcome.size(effects.take_posts().count());
        effects.clear();
        while let Some(event) = node.next_event() {
            outcome.kind(core::mem::discriminant(&event));
        }
    }
    outcome.size(node.readers(RegionId(stream.0))).outcome()
}
