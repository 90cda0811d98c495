//! Threads that take from one reader: one after the other, several at once, and others that only
//! query it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{CheckedSample, SOON, TestDomain, until};
use dds_api::prelude::*;

const EACH: u64 = 20_000;

fn writer_and_reader(
    participant: &DomainParticipant,
    is_atomic: bool,
) -> (DataWriter<CheckedSample>, DataReader<CheckedSample>) {
    let topic = participant.topic::<CheckedSample>("Marks");
    let topic = if is_atomic { topic.atomic() } else { topic }.create().unwrap();
    let writer = participant.writer(&topic).max_blocking_time(SOON).create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    (writer, reader)
}

fn write(writer: &DataWriter<CheckedSample>, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
}

/// The first taking thread has exclusive access to the queues; a later thread removes this, even
/// during a take.
#[test]
fn each_sample_goes_to_exactly_one_of_several_taking_threads() {
    for round in 0..20 {
        let domain = TestDomain::new();
        let here = domain.join();
        let (writer, reader) = writer_and_reader(&here, round % 2 == 0);
        let (taken, all) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        let take = |begin: u64| {
            until("it is its turn", || taken.load(Ordering::Relaxed) >= begin);
            let mut mine = Vec::new();
            while taken.load(Ordering::Relaxed) < EACH {
                let mut took = |number| {
                    mine.push(number);
                    taken.fetch_add(1, Ordering::Relaxed);
                };
                match begin % 2 {
                    0 => reader
                        .take_data(.., Timeout::millis(1))
                        .unwrap()
                        .for_each(|sample| took(sample.number)),
                    _ => reader
                        .take_next_data(Timeout::NOW)
                        .unwrap()
                        .into_iter()
                        .for_each(|sample| took(sample.number)),
                }
            }
            assert!(mine.is_sorted(), "of one writer they come to each thread in their order");
            all.lock().unwrap().extend(mine);
        };
        std::thread::scope(|scope| {
            for begin in [0, EACH / 4 + round, EACH / 2 + 1] {
                scope.spawn(move || take(begin));
            }
            scope.spawn(|| write(&writer, 0..EACH));
        });
        let mut all = all.into_inner().unwrap();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..EACH), "each once");
    }
}

/// Queries of the queues, and the deletion of the reader, do not disturb a taking thread.
#[test]
fn queries_do_not_disturb_a_take_and_deletion_of_the_reader_ends_it() {
    for _ in 0..20 {
        let domain = TestDomain::new();
        let here = domain.join();
        let (writer, reader) = writer_and_reader(&here, false);
        let (is_over, seen) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let takes = scope.spawn(|| {
                let mut next = 0;
                loop {
                    match reader.take_next_data(SOON) {
                        Ok(Some(sample)) => {
                            assert_eq!(sample.number, next);
                            next += 1;
                            seen.store(next, Ordering::Relaxed);
                        }
                        Ok(None) => panic!("something comes all the time"),
                        Err(error) => break error,
                    }
                }
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(reader.discarded_samples(), 0);
                    let _ = reader.has_samples();
                }
            });
            scope.spawn(|| {
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    write(&writer, number..number + 10);
                    number += 10;
                }
            });
            until("some have come", || seen.load(Ordering::Relaxed) > 5_000);
            reader.clone().delete();
            let error = takes.join().unwrap();
            assert!(matches!(error, DdsError::AlreadyDeleted(_)), "{error}");
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
