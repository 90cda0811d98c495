//! Benchmarks of the hot paths, each alone, in one process: `cargo bench -p squall-benches`.
//!
//! | bench | measured operation |
//! | --- | --- |
//! | `multicast` | one record through a node: claim, commit, turn, take, release |
//! | `beyond` | cost of `write` and a batched `take` beyond that |
//! | `sst` | a predicate over the rows of a shared state table |
//! | `park` | cost of parking to a writer and to a sleeper that never really sleeps |
//! | `clock` | reading the clock, beside the system's |
//! | `cdr` | structs and long rows to CDR and back, beside memcpy and two other crates |
//! | `dds` | a sample from write to take, through the public API |
//!
//! `squall perf` measures communication between processes, beside the bare machine.

use std::sync::Arc;

use derecho_core::ids::{NodeId, Time};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::node::{ACKS_WORDS, Node, NodeEvent, StreamOrigin};

/// A node alone, over heap memory, that reads its own stream: the multicast without other layers.
pub struct LoneNode {
    node: Node,
    /// Memory that the node writes into.
    pub memory: SenderMemory,
    /// Queue of received records.
    pub inbox: Arc<Inbox>,
    effects: Effects,
}

impl LoneNode {
    /// Makes a node that has subscribed to its own stream.
    pub fn over_heap() -> LoneNode {
        let mut effects = Effects::new();
        let mut node = Node::new(NodeId(1), OwnRegion::heap(ACKS_WORDS), Arc::new(|| ()));
        let geometry = Geometry::fitting(1 << 20, 8192, 64 << 10).expect("a usual shape");
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let stream = node.fresh_region();
        node.add_stream(stream, memory.clone(), &mut effects);
        node.subscribe(StreamOrigin::Own, stream, 0).expect("the first subscription");
        let inbox = loop {
            node.turn(Time(0), &mut effects);
            effects.clear();
            if let Some(NodeEvent::Subscribed(_, inbox)) = node.next_event() {
                break inbox;
            }
        };
        LoneNode { node, memory, inbox, effects }
    }

    /// Runs one turn; returns the amount of work done.
    pub fn turn(&mut self) -> usize {
        let done = self.node.turn(Time(0), &mut self.effects);
        self.effects.clear();
        done
    }
}
