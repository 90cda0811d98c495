//! Resources that a participant takes of its host, memory and descriptors, and files it
//! leaves behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use dds_api::prelude::*;
use support::{
    Actor, CheckedSample, ReceivedSequence, SOON, TestDomain, join, listen, reader_of, role, say,
    seed, take_to_the_end, writer_of,
};

/// Maximum resident bytes of a participant beyond its rings.
const MEMORY_LIMIT: u64 = 16 << 20;
/// Maximum number of open descriptors of a participant, however many topics it has.
const DESCRIPTOR_LIMIT: u64 = 64;

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "modest" => act_modest(&folder),
        "busy" => act_busy(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Has one topic, writes and reads some samples, and reports the memory used.
fn act_modest(folder: &Path) {
    let participant = join(folder);
    let topic = participant.topic::<CheckedSample>("Marks").create().unwrap();
    let (writer, reader) = (
        participant.writer(&topic).max_blocking_time(SOON).create().unwrap(),
        participant.reader(&topic).reliable_all().create().unwrap(),
    );
    writer.wait_for_readers(2, SOON).unwrap();
    let mut got = ReceivedSequence::default();
    for number in 0..20_000 {
        writer.write(&CheckedSample::new(number)).unwrap();
        got.take_in(&reader.take_next_data(SOON).unwrap().unwrap());
    }
    writer.write(&CheckedSample::last(20_000)).unwrap();
    take_to_the_end(&reader, &mut got);
    say(&format!("{} {}", resident("RssAnon") + resident("RssFile"), resident("RssShmem")));
    while listen().is_some() {}
}

/// Has many topics, each with a writer and a reader, and reports the number of descriptors.
fn act_busy(folder: &Path) {
    let participant = join(folder);
    let mut all = Vec::new();
    for number in 0..seed() {
        let topic =
            participant.topic::<CheckedSample>(&format!("Marks {number}")).create().unwrap();
        let writer = participant.writer(&topic).memory(4096).in_flight(16).create().unwrap();
        all.push((writer, participant.reader(&topic).reliable_all().create().unwrap()));
    }
    for (number, (writer, reader)) in all.iter().enumerate() {
        writer.wait_for_readers(1, SOON).unwrap();
        writer.write(&CheckedSample::new(number as u64)).unwrap();
        let sample = reader.take_next_data(SOON).unwrap().unwrap();
        assert_eq!(sample.number, number as u64);
    }
    say(&std::fs::read_dir("/proc/self/fd").unwrap().count().to_string());
    while listen().is_some() {}
}

/// Returns the resident bytes of this process, of one kind.
fn resident(kind: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(kind)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn participant_with_one_topic_uses_little_memory() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let reader = reader_of(&participant, "Marks");
    let mut actor = Actor::start(module_path!(), "modest", &domain, 0);
    take_to_the_end(&reader, &mut ReceivedSequence::default());
    let line = actor.hear();
    let (own, shared) = line.split_once(' ').unwrap();
    let (own, shared): (u64, u64) = (own.parse().unwrap(), shared.parse().unwrap());
    assert!(own < MEMORY_LIMIT, "{own} bytes beyond the rings");
    // The writer's megabyte and its entries, and the lines of acknowledgements on both sides.
    assert!(shared < 4 << 20, "{shared} bytes of shared memory");
    actor.finish();
    drop((reader, participant));
    domain.assert_empty();
}

#[test]
fn descriptors_do_not_grow_with_topics() {
    for topics in [200, 1000] {
        let domain = TestDomain::new();
        let participant = domain.join();
        let writer = writer_of(&participant, "Marks 7");
        let mut actor = Actor::start(module_path!(), "busy", &domain, topics);
        let open: u64 = actor.hear().parse().unwrap();
        assert!(open < DESCRIPTOR_LIMIT, "{open} descriptors for {topics} topics");
        writer.wait_for_readers(1, Timeout::secs(60)).unwrap();
        actor.finish();
        drop((writer, participant));
        domain.assert_empty();
    }
}
