//! Streams of greater priority go first (I-241): over links that copy, they are posted before the
//! other streams of the turn.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::Time;
use derecho_core::node::PriorityTarget;
use derecho_sim::world::streams::{PlantedApp, World, has, tiny};
use derecho_sim::{Cluster, Config, NodeIndex};

/// Streams written in this order before a turn, each with the same number of records.
const STREAMS: u64 = 4;
const RECORDS: u64 = 5;

/// Whether a node has received a record of this stream that it has not taken.
fn has_come(cluster: &Cluster<PlantedApp>, node: NodeIndex, tag: u64) -> bool {
    let mut readers = cluster.machine(node, 0).readers.iter();
    let inbox = readers.find(|reader| reader.tag == tag).and_then(|reader| reader.inbox.as_ref());
    inbox.is_some_and(|inbox| !inbox.is_empty())
}

/// Returns the streams that had arrived when the first one had, with these priorities.
fn first_ones(seed: u64, priorities: [i32; STREAMS as usize]) -> Vec<u64> {
    let mut world = World::new(Config::adversarial(seed));
    let (writer, reader) = (world.add(false), world.add(true));
    for tag in 0..STREAMS {
        world.act(writer, move |app, effects| app.open(tag, tiny(), effects));
    }
    world.until("all streams are read", |cluster| {
        cluster.machine(writer, 0).writers.iter().all(|writer| writer.readers == 1)
    });
    // Earlier posts may carry later records with them.
    let quiet = world.cluster.now().after(5_000_000);
    world.cluster.run_until(quiet);
    world.act(writer, move |app, _| {
        for (at, priority) in priorities.into_iter().enumerate() {
            let stream = PriorityTarget::Stream(app.writers[at].region);
            app.node.set_priority(stream, priority);
        }
        (0..STREAMS as usize).for_each(|at| assert_eq!(app.write(at, RECORDS), RECORDS));
    });
    let mut first = Vec::new();
    world.until("a record has arrived", |cluster| {
        first = (0..STREAMS).filter(|tag| has_come(cluster, reader, *tag)).collect();
        !first.is_empty()
    });
    world.takes(reader, Time(200_000_000));
    world.until("all records are taken", |cluster| {
        (0..STREAMS).all(|tag| has(cluster, reader, tag, RECORDS))
    });
    world.assert_no_complaints();
    (0..STREAMS).for_each(|tag| world.assert_all(reader, tag, Some(0), RECORDS));
    first
}

#[test]
fn stream_with_higher_priority_arrives_first() {
    let (mut usual, mut alone) = (0, 0);
    for seed in 0..80 {
        // Without priorities, streams arrive in the order of their creation.
        usual += u64::from(!first_ones(seed, [0; 4]).contains(&2));
        let first = first_ones(seed, [0, 0, 7, 0]);
        assert!(first.contains(&2), "seed {seed}: {first:?} came first");
        alone += u64::from(first == [2]);
        let first = first_ones(seed, [-3, 4, 7, 5]);
        assert!(first.contains(&2), "seed {seed}: {first:?} came first");
        // The lowest priority goes last, even if the others have none.
        let first = first_ones(seed, [-1, 0, 0, 0]);
        assert!(first.iter().any(|tag| *tag > 0), "seed {seed}: {first:?} came first");
    }
    assert!(usual > 10 && alone > 10, "{usual} without it, {alone} alone");
}
