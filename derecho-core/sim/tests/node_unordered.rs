//! The unordered level of whole nodes over a simulated link, as adverse as its contract allows:
//! FIFO, no loss, no duplicate, every byte, with far less memory than data.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::{RegionId, Time};
use derecho_core::node::StreamOrigin;
use derecho_sim::world::streams::{PlantedApp, World, has, tiny};
use derecho_sim::{Cluster, Config, NodeIndex, StopReason};

/// Virtual time within which every test ends.
const END: Time = Time(400_000_000);

fn adversarial(seed: u64) -> Config {
    Config { deadline: END, ..Config::adversarial(seed) }
}

/// Creates one writer with a memory far smaller than its data, and some readers.
fn one_writer(config: Config, readers: usize, goal: u64) -> (World, NodeIndex, Vec<NodeIndex>) {
    let mut world = World::new(config);
    let writer = world.add(false);
    let readers: Vec<NodeIndex> = (0..readers).map(|_| world.add(true)).collect();
    world.act(writer, |app, effects| app.open(1, tiny(), effects));
    world.writes(writer, goal, 6, readers.len());
    readers.iter().for_each(|&reader| world.takes(reader, Time(END.0 / 2)));
    (world, writer, readers)
}

fn all_have(cluster: &Cluster<PlantedApp>, nodes: &[NodeIndex], tag: u64, count: u64) -> bool {
    nodes.iter().all(|&node| has(cluster, node, tag, count))
}

fn written(cluster: &Cluster<PlantedApp>, node: NodeIndex) -> u64 {
    cluster.machine(node, 0).writers[0].written
}

#[test]
fn many_readers_receive_all_records_with_far_less_memory_than_data() {
    const GOAL: u64 = 300;
    for seed in 0..120 {
        let (mut world, _, readers) = one_writer(adversarial(seed), 4, GOAL);
        world.until("all records are taken", |cluster| all_have(cluster, &readers, 1, GOAL));
        world.assert_no_complaints();
        readers.iter().for_each(|&reader| world.assert_all(reader, 1, Some(0), GOAL));
    }
}

/// I-222: a reader cannot tell whether a copy is still complete, so the sender waits.
#[test]
fn untethered_reader_loses_no_record_over_copied_memory() {
    const GOAL: u64 = 300;
    for seed in 0..60 {
        let (mut world, _, readers) = one_writer(adversarial(seed), 3, GOAL);
        world.cluster.machine_mut(readers[1], 0).untethered = true;
        world.until("all records are taken", |cluster| all_have(cluster, &readers, 1, GOAL));
        world.assert_no_complaints();
        readers.iter().for_each(|&reader| world.assert_all(reader, 1, Some(0), GOAL));
        assert!(
            readers.iter().all(|&reader| world.app(reader).readers[0].lost == 0),
            "seed {seed}"
        );
    }
}

#[test]
fn each_writer_receives_all_records_of_all_writers() {
    const GOAL: u64 = 120;
    for seed in 0..100 {
        let mut world = World::new(adversarial(seed));
        let nodes: Vec<NodeIndex> = (0..3).map(|_| world.add(true)).collect();
        for &node in &nodes {
            world.act(node, move |app, effects| app.open(node.0 as u64, tiny(), effects));
            world.writes(node, GOAL, 5, nodes.len());
            world.takes(node, Time(END.0 / 2));
        }
        world.until("all records are taken", |cluster| {
            nodes.iter().all(|from| all_have(cluster, &nodes, from.0 as u64, GOAL))
        });
        world.assert_no_complaints();
        for &node in &nodes {
            (0..3).for_each(|tag| world.assert_all(node, tag, Some(0), GOAL));
        }
    }
}

/// A reader joins and leaves, also the stream that it has just left; its records in between have no
/// gap, the other readers miss nothing, and no line serves two subscriptions at a time (I-11).
#[test]
fn readers_that_join_or_leave_mid_stream_cause_no_gap() {
    const GOAL: u64 = 400;
    let mut joins = 0;
    for seed in 0..120 {
        let (mut world, writer, readers) = one_writer(adversarial(seed), 2, GOAL);
        let restless: Vec<NodeIndex> = (0..2).map(|_| world.add(false)).collect();
        for &node in &restless {
            world.takes(node, Time(END.0 / 2));
        }
        world.until("the stream begins", |cluster| written(cluster, writer) > 0);
        while written(&world.cluster, writer) < GOAL * 3 / 4 {
            let pause = world.random.between(1_000, 60_000);
            let later = world.cluster.now().after(pause);
            assert_eq!(world.cluster.run_until(later), StopReason::Reached, "seed {seed}");
            let node = restless[world.random.below(2) as usize];
            world.act(node, |app, _| if app.reads { app.part() } else { app.join() });
            joins += 1;
        }
        restless.iter().for_each(|&node| world.act(node, |app, _| app.join()));
        world.until("all records are taken", |cluster| all_have(cluster, &readers, 1, GOAL));
        // Once it is quiet, all leavers are gone and all joiners are present.
        world.drain();
        assert_eq!(world.app(writer).writers[0].readers, 4, "seed {seed}");
        world.act(writer, |app, _| assert_eq!(app.write(0, 1), 1));
        world.drain();
        restless.iter().for_each(|&reader| world.assert_all(reader, 1, None, GOAL + 1));
        world.assert_no_complaints();
        readers.iter().for_each(|&reader| world.assert_all(reader, 1, Some(0), GOAL + 1));
    }
    assert!(joins > 2_000, "only {joins} joins and leaves");
}

#[test]
fn readers_receive_ended_stream_completely_and_detach() {
    for seed in 0..100 {
        let (mut world, writer, readers) = one_writer(adversarial(seed), 3, u64::MAX);
        let end = world.random.between(0, 200);
        world.until("enough records are written", |cluster| written(cluster, writer) >= end);
        world.act(writer, |app, effects| app.end(0, effects));
        let count = written(&world.cluster, writer);
        world.until("all streams have ended", |cluster| {
            readers.iter().all(|&reader| {
                let mut known = cluster.machine(reader, 0).readers.iter();
                known.all(|reader| reader.ended && (reader.next == count || count == 0))
            })
        });
        world.until("no reader is awaited", |cluster| {
            let app = cluster.machine(writer, 0);
            app.node.readers(app.writers[0].region) == 0
        });
        world.assert_no_complaints();
        for &reader in readers.iter().filter(|_| count > 0) {
            world.assert_all(reader, 1, Some(0), count);
        }
    }
}

/// One line of acknowledgements serves consecutive streams, and the same peer sees the values that
/// the last stream has left in it.
#[test]
fn consecutive_streams_are_not_confused() {
    const STREAMS: u64 = 6;
    for seed in 0..60 {
        let mut world = World::new(adversarial(seed));
        let (writer, reader) = (world.add(false), world.add(true));
        world.takes(reader, Time(END.0 / 2));
        for tag in 0..STREAMS {
            world.act(writer, move |app, effects| {
                app.writers.clear();
                app.open(tag, tiny(), effects);
            });
            let goal = world.random.between(1, 150);
            world.writes(writer, goal, 6, 1);
            world.until("all records are taken", |cluster| has(cluster, reader, tag, goal));
            world.act(writer, |app, effects| app.end(0, effects));
            world.until("the stream has ended", |cluster| {
                let mut readers = cluster.machine(reader, 0).readers.iter();
                readers.any(|reader| reader.tag == tag && reader.ended)
            });
            world.assert_all(reader, tag, Some(0), goal);
        }
        world.assert_no_complaints();
    }
}

/// A stream may be gone before any reader has read its header.
#[test]
fn stream_that_ends_at_once_ends_for_its_subscribers() {
    for seed in 0..60 {
        let mut world = World::new(adversarial(seed));
        let (writer, reader) = (world.add(false), world.add(true));
        for tag in 0..5 {
            world.act(writer, move |app, effects| app.open(tag, tiny(), effects));
            let later = world.cluster.now().after(world.random.between(1, 20_000));
            world.cluster.run_until(later);
            world.act(writer, move |app, effects| app.end(tag as usize, effects));
        }
        world.drain();
        world.assert_no_complaints();
        let readers = &world.app(reader).readers;
        let open = readers.iter().filter(|reader| !reader.ended).count();
        assert_eq!(open, 0, "seed {seed}: {open} of {} wait for ever", readers.len());
    }
}

/// The announcement of a stream may arrive before the link reports the stream's region.
#[test]
fn stream_announced_before_its_region_is_read_from_its_beginning() {
    const GOAL: u64 = 40;
    let mut overtaken = 0;
    for seed in 0..100 {
        let mut world = World::new(adversarial(seed));
        let (writer, reader) = (world.add(false), world.add(false));
        world.until("the nodes meet", |cluster| {
            [writer, reader].iter().all(|&node| !cluster.machine(node, 0).met.is_empty())
        });
        let peer = world.app(reader).met[0];
        world.act(writer, |app, effects| app.open(1, tiny(), effects));
        world.writes(writer, GOAL, 6, 1);
        let stream = world.app(writer).writers[0].region;
        overtaken += u32::from(world.app(reader).known.is_empty());
        world.act(reader, move |app, _| app.subscribe(StreamOrigin::Peer(peer), stream, 1));
        world.takes(reader, Time(END.0 / 2));
        world.until("all records are taken", |cluster| all_have(cluster, &[reader], 1, GOAL));
        // One stream that is announced and never comes, and one that came and went.
        world.act(writer, |app, effects| app.end(0, effects));
        world.until("the stream has ended", |cluster| cluster.machine(reader, 0).readers[0].ended);
        for never in [stream, RegionId(stream.0 + 99)] {
            world.act(reader, move |app, _| app.subscribe(StreamOrigin::Peer(peer), never, 1));
        }
        world.drain();
        assert!(!world.app(reader).readers[2].ended, "seed {seed}: no end was announced");
        world.act(reader, |app, _| {
            for index in 1..3 {
                let subscription = app.readers[index].subscription;
                app.node.withdrawn(subscription);
            }
        });
        world.drain();
        world.assert_no_complaints();
        assert!(world.app(reader).readers.iter().all(|reader| reader.ended), "seed {seed}");
    }
    assert!(overtaken > 50, "{overtaken}");
}

#[test]
fn crash_of_a_reader_costs_other_readers_no_record() {
    const GOAL: u64 = 300;
    for seed in 0..100 {
        let (mut world, writer, readers) = one_writer(adversarial(seed), 4, GOAL);
        let (survivors, victims) = readers.split_at(2);
        world.until("the stream begins", |cluster| written(cluster, writer) > 0);
        for &victim in victims {
            let more = world.random.between(0, GOAL / 2);
            let goal = written(&world.cluster, writer) + more;
            world.until("the stream is at full rate", |cluster| {
                written(cluster, writer) >= goal.min(GOAL)
            });
            world.cluster.crash(victim);
        }
        world.until("all records are taken", |cluster| all_have(cluster, survivors, 1, GOAL));
        world.drain();
        world.assert_no_complaints();
        survivors.iter().for_each(|&reader| world.assert_all(reader, 1, Some(0), GOAL));
        assert_eq!(world.app(writer).writers[0].readers, 2, "seed {seed}");
    }
}

#[test]
fn readers_of_crashed_writer_end_and_another_writer_continues() {
    const GOAL: u64 = 150;
    let mut cut_short = 0;
    for seed in 0..100 {
        let (mut world, victim, readers) = one_writer(adversarial(seed), 3, u64::MAX);
        let other = world.add(false);
        world.act(other, |app, effects| app.open(2, tiny(), effects));
        world.writes(other, GOAL, 4, readers.len());
        let after = world.random.between(0, 200);
        world.until("the stream is at full rate", |cluster| written(cluster, victim) >= after);
        let count = written(&world.cluster, victim);
        world.cluster.crash(victim);
        world.until("the other writer's records are taken", |cluster| {
            all_have(cluster, &readers, 2, GOAL)
        });
        world.drain();
        world.assert_no_complaints();
        for &reader in &readers {
            world.assert_all(reader, 2, Some(0), GOAL);
            for reader in world.app(reader).readers.iter().filter(|reader| reader.tag == 1) {
                assert!(reader.ended && reader.next <= count, "seed {seed}");
                cut_short += u64::from(reader.next < count);
            }
        }
    }
    assert!(cut_short > 50, "hardly a crash cut anything short: {cut_short}");
}

/// Silence causes no posts.
#[test]
fn posts_stop_after_the_last_record() {
    const GOAL: u64 = 50;
    for seed in 0..20 {
        for config in [adversarial(seed), Config { deadline: END, ..Config::costed(seed) }] {
            let (mut world, _, readers) = one_writer(config, 3, GOAL);
            world.until("all records are taken", |cluster| all_have(cluster, &readers, 1, GOAL));
            assert_eq!(world.cluster.run_until_met(|_| false), StopReason::Quiet, "seed {seed}");
            let (posted, steps) = (world.cluster.network().counters(), world.cluster.steps());
            world.cluster.run_until(END);
            assert_eq!(world.cluster.network().counters(), posted, "seed {seed}");
            assert_eq!(world.cluster.steps(), steps, "seed {seed}");
        }
    }
}

/// A writer faster than its turns pays for turns, not for records: at most one or two writes for
/// the bytes (the memory may wrap around), and as many for the entries.
#[test]
fn records_of_one_turn_share_their_writes() {
    const BATCH: u64 = 64;
    const BATCHES: u64 = 50;
    let mut config = Config::costed(1);
    config.start_spread_ns = 0;
    let mut world = World::new(config);
    let (writer, reader) = (world.add(false), world.add(true));
    let geometry =
        derecho_core::multicast::geometry::Geometry::fitting(1 << 20, 1024, 256).unwrap();
    world.act(writer, move |app, effects| app.open(1, geometry, effects));
    world.until("the stream is read", |cluster| cluster.machine(writer, 0).writers[0].readers == 1);
    world.drain();
    let before = (world.cluster.counters(writer).writes, world.cluster.counters(reader).writes);
    for batch in 1..=BATCHES {
        world.act(writer, |app, _| assert_eq!(app.write(0, BATCH), BATCH));
        world.drain();
        world.assert_all(reader, 1, Some(0), batch * BATCH);
    }
    world.assert_no_complaints();
    let sent = world.cluster.counters(writer).writes - before.0;
    let acknowledged = world.cluster.counters(reader).writes - before.1;
    assert!((2 * BATCHES..=4 * BATCHES).contains(&sent), "{sent} writes for {BATCHES} batches");
    // One write at the reception, and one or two when taken records are released.
    assert!(acknowledged <= 3 * BATCHES, "{acknowledged} acknowledgements");
}
