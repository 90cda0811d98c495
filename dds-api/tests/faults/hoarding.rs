//! An application that holds the samples it takes: writers continue, held samples stay unchanged,
//! and samples beyond the limit are copied.

use std::path::Path;
use std::time::Instant;

use crate::support::{Actor, CheckedSample, PATIENCE, SOON, TestDomain, join, listen, role, say};
use dds_api::prelude::*;
use dds_api::topic::Bytes;

/// Number of samples held at the end: many times the capacity of the writer's memory.
const MANY: u64 = 20_000;
const MEMORY: usize = 64 << 10;

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "hoarder" => act_hoarder(&folder, |reader| reader),
        "hoarder by instances" => act_hoarder(&folder, |reader| reader.keep_all()),
        "hoarder without a limit" => act_hoarder(&folder, |reader| reader.max_held_percent(100)),
        other => panic!("no such role: {other}"),
    }
}

type Builder = dds_api::subscription::DataReaderBuilder<CheckedSample>;

/// Takes all samples and drops none; at the end all of them are unchanged.
fn act_hoarder(folder: &Path, with: impl Fn(Builder) -> Builder) {
    let participant = join(folder);
    let topic = participant.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let reader = with(participant.reader(&topic).reliable_all()).create().unwrap();
    let mut held = Vec::new();
    say("ready");
    let deadline = Instant::now() + PATIENCE;
    while (held.len() as u64) < MANY && Instant::now() < deadline {
        held.extend(reader.take_data(.., Timeout::millis(100)).unwrap());
        if reader.liveliness_changed_status().alive_count == 0 && !held.is_empty() {
            break;
        }
    }
    let borrowed = held.iter().filter(|sample| sample.is_borrowed()).count() as u64;
    for (number, sample) in (0..).zip(&held) {
        sample.assert_whole();
        assert_eq!(sample.number, number);
    }
    say(&format!("{} {borrowed} {}", held.len(), reader.copied_samples()));
    while listen().is_some() {}
    held.iter().for_each(|sample| sample.assert_whole());
}

/// Other readers and writers work as if no sample were held.
fn beside(role: &str) -> (u64, u64, u64) {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let writer = participant.writer(&topic).memory(MEMORY).in_flight(1024);
    let writer = writer.max_blocking_time(Timeout::secs(20)).create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let mut hoarder = Actor::start(module_path!(), role, &domain, 0);
    assert_eq!(hoarder.hear(), "ready");
    writer.wait_for_readers(2, SOON).unwrap();
    for number in 0..MANY {
        writer.write(&CheckedSample::new(number)).unwrap();
        let sample = reader.take_next_data(SOON).unwrap().unwrap();
        assert_eq!(*sample, CheckedSample::new(number));
    }
    assert_eq!(reader.copied_samples(), 0, "who drops what it takes gets no copies");
    let counts: Vec<u64> = hoarder.hear().split(' ').map(|word| word.parse().unwrap()).collect();
    // Held samples are not altered while the memory is reused once more.
    for number in 0..2000 {
        writer.write(&CheckedSample::new(number)).unwrap();
        drop(reader.take_next_data(SOON).unwrap());
        if number * size_of::<CheckedSample>() as u64 > MEMORY as u64 / 4 {
            break;
        }
    }
    hoarder.finish();
    drop((writer, reader, topic, participant));
    domain.assert_empty();
    (counts[0], counts[1], counts[2])
}

#[test]
fn reader_that_holds_all_samples_does_not_block_writer() {
    let (all, borrowed, copied) = beside("hoarder");
    assert_eq!((all, borrowed + copied), (MANY, MANY));
    // A quarter of the memory, and the chunk in use at that moment.
    let most = (MEMORY / size_of::<CheckedSample>() / 3) as u64;
    assert!(borrowed > 0 && borrowed < most, "{borrowed} lie in the writer's memory");
}

#[test]
fn keep_all_reader_that_holds_all_samples_does_not_block_writer() {
    let (all, borrowed, copied) = beside("hoarder by instances");
    assert_eq!((all, borrowed + copied), (MANY, MANY));
    assert!(borrowed < (MEMORY / size_of::<CheckedSample>()) as u64);
}

/// Without a limit, held samples block writers, which report it.
#[test]
fn write_times_out_when_reader_holds_samples_without_limit() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let writer = participant.writer(&topic).memory(MEMORY).in_flight(1024);
    let writer = writer.max_blocking_time(Timeout::secs(1)).create().unwrap();
    let mut hoarder = Actor::start(module_path!(), "hoarder without a limit", &domain, 0);
    assert_eq!(hoarder.hear(), "ready");
    writer.wait_for_readers(1, SOON).unwrap();
    let mut all = (0..MANY).map(|number| writer.write(&CheckedSample::new(number)));
    let error = all.find_map(Result::err).unwrap();
    assert!(
        matches!(&error, DdsError::Timeout(why) if why.contains("have not made room")),
        "{error}"
    );
    hoarder.kill();
}

/// A dropped sample frees its place in the limit, and samples as large as a part of the memory do
/// not exhaust it.
#[test]
fn dropped_samples_no_longer_count_toward_held_limit() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topics = [&here, &there].map(|by| by.topic::<Bytes>("Frames").create().unwrap());
    let writer = here.writer(&topics[0]).memory(64 << 10).max_sample_size(12 << 10);
    let writer = writer.max_blocking_time(Timeout::secs(20)).create().unwrap();
    let reader = there.reader(&topics[1]).reliable_all().create().unwrap();
    let never = there.reader(&topics[1]).reliable_all().max_held_percent(0).create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    let next = |number: u8| {
        writer.write_bytes(&[number; 10_000]).unwrap();
        let copy = never.take_next_data(SOON).unwrap().unwrap();
        assert!(!copy.is_borrowed() && **copy == [number; 10_000]);
        reader.take_next_data(SOON).unwrap().unwrap()
    };
    // One sample is held while the next is taken.
    let mut last = next(0);
    for number in 1..50 {
        last = next(number);
        assert!(last.is_borrowed(), "{number}");
    }
    assert_eq!(reader.copied_samples(), 0);
    let mut held = vec![last];
    held.extend((50..100).map(next));
    assert!(held.iter().filter(|sample| sample.is_borrowed()).count() <= 3);
    assert!(reader.copied_samples() >= 48);
    for (number, sample) in (49..).zip(&held) {
        assert_eq!(***sample, [number; 10_000]);
    }
    drop(held);
    drop(next(100));
    let copied = reader.copied_samples();
    (101..120).map(next).for_each(drop);
    assert_eq!((reader.copied_samples(), never.copied_samples()), (copied, 120));
}
