//! Atomic topics: the same samples in the same order at every reader, all or nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::support::{
    CheckedSample, PATIENCE, ReceivedSequence, SOON, TestDomain, join, take_to_the_end, until,
    write_until,
};
use dds_api::prelude::*;

fn topic(participant: &DomainParticipant) -> Topic<CheckedSample> {
    participant.topic::<CheckedSample>("Marks").atomic().create().unwrap()
}

fn writer(
    participant: &DomainParticipant,
    topic: &Topic<CheckedSample>,
) -> DataWriter<CheckedSample> {
    let writer = participant.writer(topic).memory(32 << 10).in_flight(100);
    writer.max_blocking_time(SOON).create().unwrap()
}

/// Takes at one member; returns the writer and number of each sample.
fn take(reader: &DataReader<CheckedSample>, count: usize) -> Vec<(InstanceHandle, u64)> {
    let deadline = Instant::now() + PATIENCE;
    let mut order = Vec::new();
    while order.len() < count {
        assert!(Instant::now() < deadline, "only {} of {count} came", order.len());
        for sample in reader.take_data(.., Timeout::millis(100)).unwrap() {
            sample.assert_whole();
            order.push((sample.info().publication_handle, sample.number));
        }
    }
    order
}

/// Every member writes and reads, with far less memory than data, in threads of its own.
#[test]
fn members_that_all_write_and_read_see_one_order() {
    const MEMBERS: u32 = 3;
    const EACH: u64 = 3_000;
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let orders = std::thread::scope(|scope| {
        let members: Vec<_> = (0..MEMBERS)
            .map(|_| {
                scope.spawn(|| {
                    let participant = join(&folder);
                    let topic = topic(&participant);
                    let reader = participant.reader(&topic).reliable_all().create().unwrap();
                    let writer = writer(&participant, &topic);
                    writer.wait_for_readers(MEMBERS as usize, SOON).unwrap();
                    let order = std::thread::scope(|inner| {
                        inner.spawn(|| {
                            (0..EACH).for_each(|number| {
                                writer.write(&CheckedSample::new(number)).unwrap()
                            });
                        });
                        take(&reader, (EACH * u64::from(MEMBERS)) as usize)
                    });
                    // Others may still need messages of this member.
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

/// The papers' baseline is slow, but it is a group: a member without messages blocks no other.
#[cfg(feature = "laboratory")]
#[test]
fn participants_meet_and_agree_with_all_optimisations_switched_off() {
    let domain = TestDomain::new();
    let join = || {
        let config = ParticipantConfig::new().runtime_dir(domain.runtime_dir());
        let config = config.ablation(dds_api::Ablation::all());
        DomainParticipant::with_config(0, config).unwrap()
    };
    let [here, there] = [join(), join()];
    let writer = writer(&here, &topic(&here));
    let reader = there.reader(&topic(&there)).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    (0..100).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    let order = take(&reader, 100);
    assert!(order.iter().map(|(_, number)| *number).eq(0..100));
}

/// A silent member blocks no other, and one writer is sufficient.
#[test]
fn silent_writer_blocks_no_other_member() {
    let domain = TestDomain::new();
    let (one, two) = (domain.join(), domain.join());
    let (here, there) = (topic(&one), topic(&two));
    let silent = writer(&one, &here);
    let reader = one.reader(&here).reliable_all().create().unwrap();
    let busy = writer(&two, &there);
    busy.wait_for_readers(1, SOON).unwrap();
    let order = std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..1_000).for_each(|number| busy.write(&CheckedSample::new(number)).unwrap())
        });
        take(&reader, 1_000)
    });
    assert!(order.iter().map(|(_, number)| *number).eq(0..1_000));
    drop(silent);
    busy.write(&CheckedSample::new(1_000)).unwrap();
    assert_eq!(take(&reader, 1)[0].1, 1_000, "its participant stays a member");
}

/// Participants join a busy topic: each receives all samples from some sample on, in the one order.
#[test]
fn late_reader_receives_every_sample_from_some_sample_on() {
    let domain = TestDomain::new();
    let (one, two) = (domain.join(), domain.join());
    let writer = writer(&one, &topic(&one));
    let early = two.reader(&topic(&two)).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let (over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let all = scope.spawn(|| write_until(&over, &written, &writer));
        let late = scope.spawn(|| {
            let three = domain.join();
            let reader = three.reader(&topic(&three)).reliable_all().create().unwrap();
            let mut got = ReceivedSequence::default();
            until("many have come", || {
                let samples = reader.take_data(.., Timeout::millis(100)).unwrap();
                samples.for_each(|sample| got.take_in(&sample));
                got.first.is_some_and(|first| got.next > first + 20_000)
            });
            over.store(true, Ordering::Relaxed);
            take_to_the_end(&reader, &mut got);
            got
        });
        let mut got = ReceivedSequence::default();
        take_to_the_end(&early, &mut got);
        let all = all.join().unwrap();
        assert_eq!((got.first, got.next), (Some(0), all));
        let late = late.join().unwrap();
        assert!(late.first.unwrap() < all && late.next == all, "without a gap to the end");
    });
}

/// Samples that the others do not need any more are not kept for a member that is gone.
#[test]
fn topic_continues_after_a_participant_leaves() {
    let domain = TestDomain::new();
    let (one, two, three) = (domain.join(), domain.join(), domain.join());
    let writer = writer(&one, &topic(&one));
    let stays = two.reader(&topic(&two)).reliable_all().create().unwrap();
    let goes = three.reader(&topic(&three)).reliable_all().create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    writer.write(&CheckedSample::new(0)).unwrap();
    assert_eq!(take(&goes, 1)[0].1, 0);
    drop((goes, three));
    for number in 1..2_000 {
        writer.write(&CheckedSample::new(number)).unwrap();
        if number % 64 == 0 {
            let expected = if number == 64 { 65 } else { 64 };
            assert_eq!(take(&stays, expected).len(), expected);
        }
    }
    assert_eq!(writer.matched_readers(), 1);
}

/// A participant that reads, stops reading with samples available, and reads again.
#[test]
fn participant_leaves_a_topic_and_joins_it_again() {
    let domain = TestDomain::new();
    let (one, two) = (domain.join(), domain.join());
    let writer = writer(&one, &topic(&one));
    let mut number = 0;
    let mut held = Vec::new();
    for round in 0..20 {
        let reader = two.reader(&topic(&two)).reliable_all().create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        writer.write(&CheckedSample::new(number)).unwrap();
        let sample = reader.take_next_data(SOON).unwrap().unwrap();
        assert_eq!(sample.number, number, "round {round}");
        number += 1;
        // From time to time its application keeps its samples.
        if round % 3 == 0 {
            held.push(sample);
        }
        drop(reader);
        let deadline = Instant::now() + PATIENCE;
        while writer.matched_readers() > 0 {
            assert!(Instant::now() < deadline, "the reader is never gone");
            writer.write(&CheckedSample::new(number)).unwrap();
            number += 1;
        }
    }
    held.iter().for_each(|sample| sample.assert_whole());
}

#[test]
fn participants_with_conflicting_topic_levels_are_not_matched() {
    let domain = TestDomain::new();
    let (one, two) = (domain.join(), domain.join());
    let reader = one.reader(&topic(&one)).reliable_all().create().unwrap();
    let unordered = two.topic::<CheckedSample>("Marks").create().unwrap();
    let writer = two.writer(&unordered).create().unwrap();
    assert!(writer.wait_for_readers(1, Timeout::millis(50)).is_err());
    let deadline = Instant::now() + PATIENCE;
    while reader.inconsistent_writers() == 0 {
        assert!(Instant::now() < deadline, "nobody is told");
        let _ = reader.take_next_data(Timeout::millis(1));
    }
}

#[derive(DdsType, Clone, Copy, Debug)]
struct Long {
    number: u64,
    rest: [u64; 15],
}

/// Records that do not fill their chunks to the last line.
#[test]
fn partly_unused_chunks_are_reclaimed() {
    let domain = TestDomain::new();
    let (one, two) = (domain.join(), domain.join());
    let topic = |participant: &DomainParticipant| {
        participant.topic::<Long>("Long").atomic().create().unwrap()
    };
    let reader = two.reader(&topic(&two)).reliable_all().create().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = one.writer(&topic(&one)).max_blocking_time(SOON).create().unwrap();
            writer.wait_for_readers(1, SOON).unwrap();
            for number in 0..100_000 {
                writer.write(&Long { number, rest: [number; 15] }).unwrap();
            }
            writer.wait_for_acknowledgments(SOON).unwrap();
        });
        let deadline = Instant::now() + PATIENCE;
        let mut next = 0;
        while next < 100_000 {
            assert!(Instant::now() < deadline, "only {next} came");
            for sample in reader.take_data(.., Timeout::millis(100)).unwrap() {
                assert_eq!((sample.number, sample.rest), (next, [next; 15]));
                next += 1;
            }
        }
    });
}

/// The others are not affected when a participant gets another writer, which counts their readers
/// all the same.
#[test]
fn second_writer_of_a_participant_counts_existing_readers() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let (ours, theirs) = (topic(&here), topic(&there));
    let first = writer(&here, &ours);
    let reader = there.reader(&theirs).reliable_all().create().unwrap();
    first.wait_for_readers(1, SOON).unwrap();
    let second = writer(&here, &ours);
    second.wait_for_readers(1, SOON).unwrap();
    second.write(&CheckedSample::new(0)).unwrap();
    assert_eq!(take(&reader, 1)[0].1, 0);
    drop(first);
    writer(&here, &ours).wait_for_readers(1, SOON).unwrap();
}

/// Participants begin and end writing, and each time another epoch begins: its readers have
/// read before.
#[test]
fn reader_count_stays_constant_while_writers_come_and_go() {
    let domain = TestDomain::new();
    let all = [domain.join(), domain.join(), domain.join()];
    let topics = all.each_ref().map(topic);
    let readers: Vec<_> = all
        .iter()
        .zip(&topics)
        .map(|(one, topic)| one.reader(topic).reliable_all().create().unwrap())
        .collect();
    let observer = writer(&all[0], &topics[0]);
    observer.wait_for_readers(3, SOON).unwrap();
    let (is_over, mut fewest) = (AtomicBool::new(false), 3);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..30 {
                let passing = writer(&all[1 + round % 2], &topics[1 + round % 2]);
                passing.wait_for_readers(3, SOON).unwrap();
                readers[0].wait_for_writers(2, SOON).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            fewest = observer.matched_readers().min(fewest);
            std::thread::yield_now();
        }
    });
    assert_eq!(fewest, 3);
}
