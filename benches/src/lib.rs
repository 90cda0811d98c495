//! Benchmarks of the hot paths, each alone, in one process: `cargo bench -p squall-benches`.
//!
//! | bench | what it times |
//! | --- | --- |
//! | `multicast` | one record through a node: claim, commit, turn, take, release |
//! | `beyond` | what `write` and a batched `take` cost beyond that |
//! | `sst` | a predicate over the rows of a shared state table |
//! | `park` | what parking costs a writer and a sleeper that never really sleeps |
//! | `clock` | a look at the clock, beside the system's |
//! | `cdr` | structs and long rows to CDR and back, beside memcpy and the crates `cdr` and `cdr-encoding` |
//! | `dds` | a sample from write to take, through the public API |
//!
//! What happens between processes is measured by `squall perf`, beside the bare machine.

use std::sync::Arc;

use derecho_core::ids::{NodeId, Time};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::node::{ACKS_WORDS, Node, NodeEvent, Origin};

/// A node alone, over heap memory, that reads what it writes: the multicast without anything around it.
pub struct Alone {
    node: Node,
    /// What it writes into.
    pub memory: SenderMemory,
    /// What has come.
    pub inbox: Arc<Inbox>,
    effects: Effects,
}

impl Alone {
    /// One that has subscribed to its own stream.
    pub fn over_heap() -> Alone {
        let mut effects = Effects::new();
        let mut node = Node::new(NodeId(1), OwnRegion::heap(ACKS_WORDS), Arc::new(|| ()));
        let geometry = Geometry::fitting(1 << 20, 8192, 64 << 10).expect("a usual shape");
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let stream = node.fresh_region();
        node.add_stream(stream, memory.clone(), &mut effects);
        node.subscribe(Origin::Own, stream).expect("the first subscription");
        let inbox = loop {
            node.turn(Time(0), &mut effects);
            effects.clear();
            if let Some(NodeEvent::Subscribed(_, inbox)) = node.next_event() {
                break inbox;
            }
        };
        Alone { node, memory, inbox, effects }
    }

    /// Turns once; says how much there was to do.
    pub fn turn(&mut self) -> usize {
        let done = self.node.turn(Time(0), &mut self.effects);
        self.effects.clear();
        done
    }
}
