//! Atomic topics: the same samples in the same order at every reader, all or nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::time::Instant;

use dds_api::prelude::*;
use support::{Mark, Meeting, PATIENCE, SOON, join};

fn topic(participant: &DomainParticipant, writers: u32, readers: u32) -> Topic<Mark> {
    participant.topic::<Mark>("Marks").atomic(writers, readers).create().unwrap()
}

fn writer(participant: &DomainParticipant, topic: &Topic<Mark>) -> DataWriter<Mark> {
    let writer = participant.writer(topic).memory(32 << 10).in_flight(100);
    writer.max_blocking_time(SOON).create().unwrap()
}

/// What one member takes: who wrote it, and its number.
fn take(reader: &DataReader<Mark>, count: usize) -> Vec<(InstanceHandle, u64)> {
    let deadline = Instant::now() + PATIENCE;
    let mut order = Vec::new();
    while order.len() < count {
        assert!(Instant::now() < deadline, "only {} of {count} came", order.len());
        for sample in reader.take(.., Timeout::millis(100)).unwrap() {
            sample.assert_whole();
            order.push((sample.info().publication_handle, sample.number));
        }
    }
    order
}

/// Every member writes and reads, with far less memory than data, in threads of their own.
#[test]
fn members_that_all_write_and_read_see_one_order() {
    const MEMBERS: u32 = 3;
    const EACH: u64 = 3_000;
    let meeting = Meeting::new();
    let folder = meeting.runtime_dir();
    let orders = std::thread::scope(|scope| {
        let members: Vec<_> = (0..MEMBERS)
            .map(|_| {
                scope.spawn(|| {
                    let participant = join(&folder);
                    let topic = topic(&participant, MEMBERS, MEMBERS);
                    let reader = participant.reader(&topic).create().unwrap();
                    let writer = writer(&participant, &topic);
                    writer.wait_for_readers(MEMBERS as usize, SOON).unwrap();
                    let order = std::thread::scope(|inner| {
                        inner.spawn(|| {
                            (0..EACH).for_each(|number| writer.write(&Mark::new(number)).unwrap());
                        });
                        take(&reader, (EACH * u64::from(MEMBERS)) as usize)
                    });
                    // Others may still need what this one has to say.
                    writer.wait_for_acknowledgments(SOON).unwrap();
                    (participant, order)
                })
            })
            .collect();
        let done: Vec<_> = members.into_iter().map(|member| member.join().unwrap()).collect();
        done.into_iter().map(|(_, order)| order).collect::<Vec<_>>()
    });
    for order in &orders {
        assert_eq!(*order, orders[0], "one order");
        let mut next = BTreeMap::new();
        for (writer, number) in order {
            let expected = next.entry(*writer).or_insert(0);
            assert_eq!(number, expected, "each writer's own order, without a gap");
            *expected += 1;
        }
    }
}

/// A member that is silent holds nobody up, and one writer is enough.
#[test]
fn a_silent_writer_holds_nobody_up() {
    let meeting = Meeting::new();
    let (one, two) = (meeting.join(), meeting.join());
    let (here, there) = (topic(&one, 2, 1), topic(&two, 2, 1));
    let silent = writer(&one, &here);
    let reader = one.reader(&here).create().unwrap();
    let busy = writer(&two, &there);
    busy.wait_for_readers(1, SOON).unwrap();
    let order = std::thread::scope(|scope| {
        scope.spawn(|| (0..1_000).for_each(|number| busy.write(&Mark::new(number)).unwrap()));
        take(&reader, 1_000)
    });
    assert!(order.iter().map(|(_, number)| *number).eq(0..1_000));
    drop(silent);
    busy.write(&Mark::new(1_000)).unwrap();
    assert_eq!(take(&reader, 1)[0].1, 1_000, "its participant stays a member");
}

#[test]
fn what_was_written_before_the_others_came_is_delivered() {
    let meeting = Meeting::new();
    let one = meeting.join();
    let here = topic(&one, 1, 2);
    let writer = writer(&one, &here);
    (0..10).for_each(|number| writer.write(&Mark::new(number)).unwrap());
    let reader = one.reader(&here).create().unwrap();
    assert!(reader.take_next(Timeout::millis(20)).unwrap().is_none(), "not all are there");
    let two = meeting.join();
    let late = two.reader(&topic(&two, 1, 2)).create().unwrap();
    for reader in [&reader, &late] {
        assert!(take(reader, 10).iter().map(|(_, number)| *number).eq(0..10));
    }
}

#[test]
fn when_a_reader_is_gone_writers_and_readers_are_told() {
    let meeting = Meeting::new();
    let (one, two, three) = (meeting.join(), meeting.join(), meeting.join());
    let writer = writer(&one, &topic(&one, 1, 2));
    let stays = two.reader(&topic(&two, 1, 2)).create().unwrap();
    let goes = three.reader(&topic(&three, 1, 2)).create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    writer.write(&Mark::new(0)).unwrap();
    assert_eq!(take(&goes, 1)[0].1, 0);
    drop((goes, three));
    let deadline = Instant::now() + PATIENCE;
    let error = loop {
        assert!(Instant::now() < deadline, "the writer is never told");
        if let Err(error) = writer.write(&Mark::new(1)) {
            break error;
        }
    };
    assert!(error.to_string().contains("gone"), "{error}");
    // What all had received is delivered first.
    assert_eq!(take(&stays, 1)[0].1, 0);
    while let Ok(sample) = stays.take_next(Timeout::millis(10)) {
        assert!(Instant::now() < deadline, "the reader is never told");
        assert!(sample.is_none_or(|sample| sample.number == 1));
    }
}

#[test]
fn participants_that_do_not_agree_are_not_matched() {
    let meeting = Meeting::new();
    let (one, two) = (meeting.join(), meeting.join());
    let reader = one.reader(&topic(&one, 1, 1)).create().unwrap();
    let unordered = two.topic::<Mark>("Marks").create().unwrap();
    let writer = two.writer(&unordered).create().unwrap();
    assert!(writer.wait_for_readers(1, Timeout::millis(50)).is_err());
    let deadline = Instant::now() + PATIENCE;
    while reader.inconsistent_writers() == 0 {
        assert!(Instant::now() < deadline, "nobody is told");
        let _ = reader.take_next(Timeout::millis(1));
    }
    let error = one.topic::<Mark>("None").atomic(0, 1).create().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("at least one"), "{error}");
    let late = one.writer(&topic(&one, 2, 1)).create().map(|_| ()).unwrap_err();
    assert!(late.to_string().contains("atomic for"), "{late}");
}

#[derive(DdsType, Clone, Copy, Debug)]
struct Long {
    number: u64,
    rest: [u64; 15],
}

/// Records that do not fill their chunks to the last line.
#[test]
fn chunks_of_which_a_part_stays_unused_come_back() {
    let meeting = Meeting::new();
    let (one, two) = (meeting.join(), meeting.join());
    let topic = |participant: &DomainParticipant| {
        participant.topic::<Long>("Long").atomic(1, 1).create().unwrap()
    };
    let reader = two.reader(&topic(&two)).create().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = one.writer(&topic(&one)).max_blocking_time(SOON).create().unwrap();
            for number in 0..100_000 {
                writer.write(&Long { number, rest: [number; 15] }).unwrap();
            }
            writer.wait_for_acknowledgments(SOON).unwrap();
        });
        let deadline = Instant::now() + PATIENCE;
        let mut next = 0;
        while next < 100_000 {
            assert!(Instant::now() < deadline, "only {next} came");
            for sample in reader.take(.., Timeout::millis(100)).unwrap() {
                assert_eq!((sample.number, sample.rest), (next, [next; 15]));
                next += 1;
            }
        }
    });
}
