//! Samples that an application still has when their reader is gone: they stay as they are, while the writer goes on.

use std::path::Path;
use std::time::Instant;

use crate::support::{
    self, Actor, Mark, Meeting, SOON, join, listen, reader_of, role, say, writer_of,
};
use dds_api::prelude::*;

/// Samples that go through the writer's memory several times.
const MANY: usize = 4_000;

/// What a child process does; nothing when the test program is run as such.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "writer" => act_writer(&folder),
        other => panic!("no such role: {other}"),
    }
}

fn ordered_topic(participant: &DomainParticipant) -> Topic<Mark> {
    participant.topic::<Mark>("Ordered").atomic().create().unwrap()
}

/// Writes to both topics until the director has gone.
fn act_writer(folder: &Path) {
    let participant = join(folder);
    let ordered = participant.writer(&ordered_topic(&participant)).memory(64 << 10).in_flight(256);
    let writers =
        [ordered.max_blocking_time(SOON).create().unwrap(), writer_of(&participant, "Plain")];
    say("ready");
    let director = std::thread::spawn(|| listen().is_some());
    let mut number = 0;
    while !director.is_finished() {
        for writer in &writers {
            writer.write(&Mark::new(number)).unwrap();
        }
        number += 1;
    }
}

/// Takes so many samples.
fn take(reader: &DataReader<Mark>, count: usize) {
    let deadline = Instant::now() + support::PATIENCE;
    let mut taken = 0;
    while taken < count {
        assert!(Instant::now() < deadline, "{taken} samples of {count} came");
        taken += reader.take(.., Timeout::millis(100)).unwrap().count();
    }
}

fn check_held(readers_of: impl Fn(&DomainParticipant) -> DataReader<Mark>) {
    let meeting = Meeting::new();
    let mut writer = Actor::start(module_path!(), "writer", &meeting, 0);
    assert_eq!(writer.hear(), "ready");
    let observer = meeting.join();
    let observing = readers_of(&observer);
    let participant = meeting.join();
    let reader = readers_of(&participant);
    let (mut samples, deadline) = (Vec::new(), Instant::now() + support::PATIENCE);
    while samples.len() < 4 {
        assert!(Instant::now() < deadline, "no sample comes");
        samples.extend(reader.take_next(Timeout::millis(1)).unwrap());
        // The writer waits for both.
        observing.take(.., Timeout::NOW).unwrap().for_each(drop);
    }
    let numbers: Vec<u64> = samples.iter().map(|sample| sample.number).collect();
    drop(reader);
    for _ in 0..5 {
        take(&observing, MANY);
        for (sample, number) in samples.iter().zip(&numbers) {
            let sample = std::hint::black_box(&**sample);
            sample.assert_whole();
            assert_eq!(sample.number, *number, "the sample in hand is another one");
        }
    }
    drop(samples);
    // Nothing is kept for samples that are not in hand any more.
    take(&observing, MANY);
    drop((participant, observing, observer));
    writer.finish();
    meeting.assert_empty();
}

#[test]
fn samples_of_an_ordered_topic_outlive_their_reader() {
    check_held(|participant| participant.reader(&ordered_topic(participant)).create().unwrap());
}

#[test]
fn samples_of_an_unordered_topic_outlive_their_reader() {
    check_held(|participant| reader_of(participant, "Plain"));
}
