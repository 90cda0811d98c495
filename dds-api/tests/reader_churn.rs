//! A process that permanently creates and deletes its reader of an atomic topic: the writer and the
//! other readers are not affected.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dds_api::prelude::*;
use support::{
    Actor, Dice, ReceivedSequence, SOON, TestDomain, join, role, say, seed, take_to_the_end,
    write_until,
};
use support::{CheckedSample, listen};

/// Number of times that the process creates and deletes its reader.
const ROUNDS: u64 = 150;

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "reads steadily" => act_reads(&folder),
        "comes and goes" => act_comes_and_goes(&folder),
        "comes and goes, and writes" => act_comes_and_goes_beside_a_writer(&folder),
        other => panic!("no such role: {other}"),
    }
}

fn topic(participant: &DomainParticipant) -> Topic<CheckedSample> {
    participant.topic::<CheckedSample>("Marks").atomic().create().unwrap()
}

fn act_reads(folder: &Path) {
    let participant = join(folder);
    let reader = participant.reader(&topic(&participant)).reliable_all().create().unwrap();
    say("ready");
    let mut got = ReceivedSequence::default();
    take_to_the_end(&reader, &mut got);
    say(&format!("{} {}", got.first.unwrap(), got.next));
    listen();
}

fn act_comes_and_goes(folder: &Path) {
    let participant = join(folder);
    let topic = topic(&participant);
    let mut dice = Dice(seed());
    for _ in 0..ROUNDS {
        let reader = participant.reader(&topic).reliable_all().create().unwrap();
        let mut held = Vec::new();
        let mut got = ReceivedSequence::default();
        // The first sample shows that the reader takes part; some of the following ones are taken.
        for _ in 0..=dice.below(8) {
            let sample = reader.take_next_data(SOON).unwrap().unwrap();
            got.take_in(&sample);
            held.push(sample);
        }
        drop(reader);
        held.iter().for_each(|sample| sample.assert_whole());
    }
    say("over");
    listen();
}

/// Creates and deletes a reader beside a permanent writer of the same participant.
fn act_comes_and_goes_beside_a_writer(folder: &Path) {
    let participant = join(folder);
    let topic = topic(&participant);
    let writer = participant.writer(&topic).in_flight(64);
    let writer = writer.max_blocking_time(SOON).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let (over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| write_until(&over, &written, &writer));
        for _ in 0..ROUNDS {
            let reader = participant.reader(&topic).reliable_all().create().unwrap();
            let mut got: BTreeMap<_, ReceivedSequence> = BTreeMap::new();
            for _ in 0..400 {
                let sample = reader.take_next_data(SOON).unwrap().unwrap();
                got.entry(sample.info().publication_handle).or_default().take_in(&sample);
            }
        }
        over.store(true, Ordering::Relaxed);
        writing.join().expect("the writer is not isolated");
    });
    say("over");
    listen();
}

/// Regression: a reader that replaced a deleted one received the end of the deleted one's samples,
/// and lacked the following ones.
#[test]
fn reader_that_replaces_deleted_reader_lacks_no_sample() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let reader = participant.reader(&topic(&participant)).reliable_all().create().unwrap();
    let mut restless = Actor::start(module_path!(), "comes and goes, and writes", &domain, 3);
    let (mut got, ended) = (ReceivedSequence::default(), AtomicBool::new(false));
    let line = std::thread::scope(|scope| {
        let taking = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let samples = reader.take_data(.., Timeout::millis(10)).unwrap();
                samples.for_each(|sample| got.take_in(&sample));
            }
        });
        let line = restless.try_hear();
        ended.store(true, Ordering::Relaxed);
        taking.join().unwrap();
        line
    });
    assert_eq!(line.as_deref(), Some("over"), "no reader lacks anything");
    restless.finish();
    drop((reader, participant));
    domain.assert_empty();
}

/// Regression: a deleted reader still had samples to take; the sender had reused their memory, and
/// was reported as faulty.
#[test]
fn repeated_reader_creation_and_deletion_evicts_no_member() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = participant.writer(&topic(&participant)).in_flight(64);
    let writer = writer.max_blocking_time(SOON).create().unwrap();
    let mut steady = Actor::start(module_path!(), "reads steadily", &domain, 1);
    assert_eq!(steady.hear(), "ready");
    writer.wait_for_readers(1, SOON).unwrap();
    let mut restless = Actor::start(module_path!(), "comes and goes", &domain, 2);
    let (over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let count = std::thread::scope(|scope| {
        let writing = scope.spawn(|| write_until(&over, &written, &writer));
        let end = restless.try_hear();
        over.store(true, Ordering::Relaxed);
        let count = writing.join().expect("the writer is not isolated");
        assert_eq!(end.as_deref(), Some("over"), "the restless reader goes on to its end");
        count
    });
    assert_eq!(steady.hear(), format!("0 {count}"), "the steady reader gets all, in order");
    steady.finish();
    restless.finish();
    drop((writer, participant));
    domain.assert_empty();
}
