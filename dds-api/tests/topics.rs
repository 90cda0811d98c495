//! Topics that are created and deleted, and large numbers of topics.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use support::{
    CheckedSample, PATIENCE, ReceivedSequence, SOON, TestDomain, take_to_the_end, until,
    write_until,
};

fn topic(participant: &DomainParticipant, name: &str) -> Topic<CheckedSample> {
    participant.topic::<CheckedSample>(name).atomic().create().unwrap()
}

/// A stream at full speed is not interrupted while a hundred topics are created and deleted on the
/// same members: its own epoch stays the one in which it began, and its longest pause is no longer
/// than without them.
#[test]
fn stream_continues_while_hundred_topics_are_created_and_deleted() {
    const TOPICS: u64 = 100;
    let domain = TestDomain::new();
    let (one, two) = (domain.join(), domain.join());
    let writer = one.writer(&topic(&one, "Steady")).max_blocking_time(SOON).create().unwrap();
    let reader = two.reader(&topic(&two, "Steady")).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let (views, _) = one.view();
    let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| write_until(&over, &written, &writer));
        let taking = scope.spawn(|| {
            let mut got = ReceivedSequence::default();
            while !got.ended {
                for sample in reader.take_data(.., Timeout::millis(100)).unwrap() {
                    got.take_in(&sample);
                }
                taken.store(got.next, Ordering::Relaxed);
            }
            got
        });
        for number in 0..TOPICS {
            let name = format!("Passing {}", number % 7);
            let to = one.writer(&topic(&one, &name)).create().unwrap();
            let from = two.reader(&topic(&two, &name)).reliable_all().create().unwrap();
            to.wait_for_readers(1, SOON).unwrap();
            to.write(&CheckedSample::new(number)).unwrap();
            assert_eq!(from.take_next_data(SOON).unwrap().unwrap().number, number);
            let before = taken.load(Ordering::Relaxed);
            until("the stream goes on", || taken.load(Ordering::Relaxed) > before + 1000);
        }
        over.store(true, Ordering::Relaxed);
        let got = taking.join().unwrap();
        assert_eq!(got.first, Some(0), "from the first sample to the last");
    });
    assert_eq!(one.view().0, views, "topics need no view");
    drop((writer, reader, one, two));
    domain.assert_empty();
}

/// A thousand topics over four participants: one participant writes each, and all read it.
#[test]
fn thousand_topics_deliver_samples_and_use_little_cpu_when_idle() {
    const TOPICS: usize = 1_000;
    let domain = TestDomain::new();
    let participants: Vec<DomainParticipant> = (0..4).map(|_| domain.join()).collect();
    let start = Instant::now();
    let readers: Vec<Vec<DataReader<CheckedSample>>> = participants
        .iter()
        .map(|participant| {
            let reader = |number| {
                let topic = topic(participant, &format!("Topic {number}"));
                participant.reader(&topic).reliable_all().create().unwrap()
            };
            (0..TOPICS).map(reader).collect()
        })
        .collect();
    let writers: Vec<DataWriter<CheckedSample>> = (0..TOPICS)
        .map(|number| {
            let participant = &participants[number % 4];
            let topic = topic(participant, &format!("Topic {number}"));
            let writer = participant.writer(&topic).memory(4 << 10).in_flight(16);
            writer.max_blocking_time(SOON).create().unwrap()
        })
        .collect();
    writers.iter().for_each(|writer| writer.wait_for_readers(4, SOON).unwrap());
    eprintln!("{TOPICS} topics over 4 participants are there after {:?}", start.elapsed());
    for (number, writer) in writers.iter().enumerate() {
        writer.write(&CheckedSample::last(number as u64)).unwrap();
    }
    for readers in &readers {
        for (number, reader) in readers.iter().enumerate() {
            let mut got = ReceivedSequence::default();
            take_to_the_end(reader, &mut got);
            assert_eq!(got.first, Some(number as u64));
        }
    }
    // Idle topics cost almost no CPU time: everything is in this one process.
    std::thread::sleep(Duration::from_millis(100));
    let used = || {
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(clock.tv_sec as u64, clock.tv_nsec as u32)
    };
    let (before, wall) = (used(), Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    let share = (used() - before).as_secs_f64() / wall.elapsed().as_secs_f64();
    eprintln!("idle they take {:.3} % of a processor", 100.0 * share);
    assert!(share < 0.04, "four idle participants take {share} of a processor");
    assert!(start.elapsed() < PATIENCE);
}
