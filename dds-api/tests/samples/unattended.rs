//! Readers that are not read: one that keeps the last samples blocks no writer (I-144), one that
//! keeps all does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::{CheckedSample, PATIENCE, SOON, TestDomain};
use dds_api::prelude::*;
use dds_api::topic::TopicBuilder;

/// A writer's memory; the samples are fifty times as large.
const MEMORY: usize = 32 << 10;
const MANY: u64 = 50 * (MEMORY / size_of::<CheckedSample>()) as u64;
const BLOCKING: Timeout = Timeout::secs(20);

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    number: u64,
    rest: [u64; 6],
}

fn track(id: u32, number: u64) -> Track {
    Track { id, number, rest: [number; 6] }
}

/// Two participants, one of which writes.
struct Two {
    writer: DataWriter<Track>,
    topic: Topic<Track>,
    participants: [DomainParticipant; 2],
    meeting: TestDomain,
}

impl Two {
    fn new(level: fn(TopicBuilder<Track>) -> TopicBuilder<Track>) -> Two {
        let domain = TestDomain::new();
        let participants = [domain.join(), domain.join()];
        let [here, topic] =
            participants.each_ref().map(|one| level(one.topic("Tracks")).create().unwrap());
        let writer = participants[0].writer(&here).memory(MEMORY).in_flight(100);
        let writer = writer.max_blocking_time(BLOCKING).create().unwrap();
        Two { writer, topic, participants, meeting: domain }
    }

    fn reader(&self) -> DataReader<Track> {
        let reader =
            self.participants[1].reader(&self.topic).reliable().keep_last(2).create().unwrap();
        self.writer.wait_for_readers(1, SOON).unwrap();
        reader
    }

    fn write(&self, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| self.writer.write(&track(number as u32 % 3, number)).unwrap());
    }
}

/// Returns the numbers of the available samples, the last ones of each track.
fn numbers(reader: &DataReader<Track>) -> Vec<u64> {
    let samples = reader.read_data(.., Timeout::NOW).unwrap();
    let mut numbers: Vec<u64> = samples.iter().map(|sample| sample.number).collect();
    numbers.sort_unstable();
    numbers
}

fn nobody_looks(level: fn(TopicBuilder<Track>) -> TopicBuilder<Track>) {
    let two = Two::new(level);
    let reader = two.reader();
    two.write(0..MANY);
    two.writer.wait_for_acknowledgments(SOON).unwrap();
    let last: Vec<u64> = (MANY - 6..MANY).collect();
    let deadline = Instant::now() + Duration::from_secs(20);
    while numbers(&reader) != last {
        assert!(Instant::now() < deadline, "{:?} is there, not {last:?}", numbers(&reader));
    }
}

#[test]
fn unread_keep_last_reader_blocks_no_writer() {
    nobody_looks(|topic| topic);
}

#[test]
fn unread_keep_last_reader_of_atomic_topic_blocks_no_writer() {
    nobody_looks(TopicBuilder::atomic);
}

#[test]
fn unread_keep_last_reader_of_kept_topic_blocks_no_writer() {
    nobody_looks(TopicBuilder::transient_local);
}

#[test]
fn unread_keep_all_reader_blocks_its_writer_and_loses_no_sample() {
    let domain = TestDomain::new();
    let [here, there] = [domain.join(), domain.join()];
    let [topic, same] =
        [&here, &there].map(|one| one.topic::<CheckedSample>("Marks").create().unwrap());
    let writer = here.writer(&topic).memory(MEMORY).in_flight(100);
    let writer = writer.max_blocking_time(Timeout::millis(200)).create().unwrap();
    let reader = there.reader(&same).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let mut written = 0;
    let error = loop {
        match writer.write(&CheckedSample::new(written)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < MANY, "nothing holds the writer up");
    };
    assert!(matches!(error, DdsError::Timeout(_)), "{error}");
    let taken: Vec<u64> = reader.take_data(.., SOON).unwrap().map(|sample| sample.number).collect();
    assert!(taken.iter().copied().eq(0..written), "{} of {written} came", taken.len());
    writer.write(&CheckedSample::new(written)).unwrap();
}

#[test]
fn held_samples_stay_unchanged_while_the_writer_continues() {
    let two = Two::new(|topic| topic);
    let reader = two.reader();
    two.write(0..3);
    let mut held = Vec::new();
    while held.len() < 3 {
        held = reader.read_data(.., SOON).unwrap();
    }
    two.write(3..MANY);
    for sample in held {
        assert!(sample.number < 3);
        assert_eq!(*sample, track(sample.number as u32 % 3, sample.number));
    }
}

/// A waiting thread also receives samples that another thread has stored first: another thread
/// drives, so that the waiting one must be woken for each sample.
#[test]
fn waiting_thread_receives_each_sample() {
    const ROUNDS: u64 = 4000;
    let two = Two::new(|topic| topic);
    let reader = two.reader();
    let got = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let over = || got.load(Ordering::Acquire) == ROUNDS;
            assert!(two.participants[1].wait_until(PATIENCE, over).unwrap());
        });
        scope.spawn(|| {
            for number in 0..ROUNDS {
                let sample = reader.take_next_data(Timeout::secs(5)).unwrap();
                let sample =
                    sample.expect("a sample was written, and whoever waits for it not told");
                assert_eq!(sample.number, number);
                got.store(number + 1, Ordering::Release);
            }
        });
        for number in 0..ROUNDS {
            two.write(number..number + 1);
            let deadline = Instant::now() + PATIENCE;
            while got.load(Ordering::Acquire) <= number && Instant::now() < deadline {
                std::thread::yield_now();
            }
        }
    });
}

/// One thread waits all the time, while samples arrive at any rate.
#[test]
fn waiting_thread_receives_the_last_sample_at_any_rate() {
    let two = Two::new(|topic| topic);
    let reader = two.reader();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut last = None;
            while last != Some(MANY - 1) {
                let samples = reader.take_data(.., SOON).unwrap();
                last = samples.map(|sample| sample.number).max().or(last);
            }
            over.store(true, Ordering::Release);
        });
        for number in 0..MANY {
            two.write(number..number + 1);
            if number % 64 == 0 {
                std::thread::sleep(Duration::from_micros(300));
            }
        }
        waits.join().unwrap();
    });
    assert!(over.load(Ordering::Acquire));
}

#[test]
fn readers_can_be_dropped_while_their_caches_are_filled() {
    let two = Two::new(|topic| topic);
    for _ in 0..20 {
        let reader = two.reader();
        two.write(0..1000);
        drop(reader);
    }
    let Two { writer, topic, participants, meeting: domain } = two;
    drop((writer, topic, participants));
    domain.assert_empty();
}
