//! Writers and readers in processes of their own, which are killed, stopped and resumed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use rustix::process::Signal;
use support::{
    Actor, CheckedSample, Dice, ReceivedSequence, SOON, TestDomain, join, listen, reader_of, role,
    say, seed, take_to_the_end, until, write_until, writer_of,
};

const TOPIC: &str = "Marks";

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "reader" => act_reader(&folder),
        "holder" => act_holder(&folder),
        "writer" => act_writer(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Reads to the end and reports the samples. Stays until it is told to leave.
fn act_reader(folder: &Path) {
    let participant = join(folder);
    let reader = reader_of(&participant, TOPIC);
    say("ready");
    let mut got = ReceivedSequence::default();
    take_to_the_end(&reader, &mut got);
    say(&format!("{} {}", got.first.unwrap(), got.next));
    while listen().is_some() {}
}

/// Reads endlessly, holding some samples, until it is killed.
fn act_holder(folder: &Path) {
    let participant = join(folder);
    let reader = reader_of(&participant, TOPIC);
    let (mut got, mut held, mut dice) = (ReceivedSequence::default(), Vec::new(), Dice(seed()));
    say("ready");
    loop {
        if let Some(sample) = reader.take_next_data(Timeout::millis(100)).unwrap() {
            got.take_in(&sample);
            held.push(sample);
        }
        if held.len() > 8 {
            held.swap_remove(dice.below(8) as usize).assert_whole();
        }
    }
}

/// Writes until it is killed, and periodically reports the number that all readers have received.
fn act_writer(folder: &Path) {
    let participant = join(folder);
    let writer = writer_of(&participant, TOPIC);
    writer.wait_for_readers(seed() as usize, SOON).unwrap();
    for number in 0.. {
        writer.write(&CheckedSample::new(number)).unwrap();
        if number % 500 == 499 {
            writer.wait_for_acknowledgments(SOON).unwrap();
            say(&(number + 1).to_string());
        }
    }
}

fn readers(domain: &TestDomain, count: u64) -> Vec<Actor> {
    let mut actors: Vec<Actor> =
        (0..count).map(|n| Actor::start(module_path!(), "reader", domain, n)).collect();
    actors.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "ready"));
    actors
}

/// Checks that every reader has received all samples from `first` on.
fn assert_all_got(actors: Vec<Actor>, first: u64, end: u64) {
    for mut actor in actors {
        assert_eq!(actor.hear(), format!("{first} {end}"));
        actor.finish();
    }
}

/// Writes on another thread while `act` runs here, and then one last sample. Returns the
/// total number.
fn in_full_flow(writer: &DataWriter<CheckedSample>, act: impl FnOnce(&AtomicU64)) -> u64 {
    let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| write_until(&over, &written, writer));
        act(&written);
        over.store(true, Ordering::Relaxed);
        writing.join().unwrap()
    })
}

#[test]
fn readers_in_three_processes_receive_all_samples_in_order() {
    const COUNT: u64 = 50_000;
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = writer_of(&participant, TOPIC);
    let actors = readers(&domain, 3);
    writer.wait_for_readers(3, SOON).unwrap();
    (0..COUNT).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    writer.write(&CheckedSample::last(COUNT)).unwrap();
    assert_all_got(actors, 0, COUNT + 1);
    drop((writer, participant));
    domain.assert_empty();
}

#[test]
fn other_readers_lose_no_sample_when_reader_is_killed_under_load() {
    const ROUNDS: u64 = 20;
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = writer_of(&participant, TOPIC);
    let actors = readers(&domain, 2);
    writer.wait_for_readers(2, SOON).unwrap();
    let mut dice = Dice(1);
    let count = in_full_flow(&writer, |written| {
        for round in 0..ROUNDS {
            let mut victim = Actor::start(module_path!(), "holder", &domain, round);
            assert_eq!(victim.hear(), "ready");
            until("it is matched", || writer.matched_readers() == 3);
            dice.pause(Duration::from_millis(20));
            victim.kill();
            until("it is counted no more", || writer.matched_readers() == 2);
            let before = written.load(Ordering::Relaxed);
            until("the flow goes on", || written.load(Ordering::Relaxed) > before + 100);
        }
    });
    assert_all_got(actors, 0, count);
    drop((writer, participant));
    domain.assert_empty();
}

#[test]
fn readers_lose_no_sample_when_joining_process_is_killed() {
    const ROUNDS: u64 = 40;
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = writer_of(&participant, TOPIC);
    let actors = readers(&domain, 2);
    writer.wait_for_readers(2, SOON).unwrap();
    let mut dice = Dice(2);
    let mut ready = 0;
    let count = in_full_flow(&writer, |written| {
        for round in 0..ROUNDS {
            let mut victim = Actor::start(module_path!(), "holder", &domain, round);
            // The kill comes at any time from the start of the program until some time after
            // the match.
            dice.pause(Duration::from_millis(30));
            victim.kill();
            ready += u64::from(victim.try_hear().is_some());
            let before = written.load(Ordering::Relaxed);
            until("the flow goes on", || written.load(Ordering::Relaxed) > before + 100);
        }
        until("all are counted no more", || writer.matched_readers() == 2);
    });
    assert!(ready < ROUNDS, "all were ready before they were killed");
    assert_all_got(actors, 0, count);
    drop((writer, participant));
    domain.assert_empty();
}

#[test]
fn reader_keeps_acknowledged_and_held_samples_of_killed_writer() {
    const ROUNDS: u64 = 8;
    let domain = TestDomain::new();
    let participant = domain.join();
    let reader = reader_of(&participant, TOPIC);
    let mut dice = Dice(3);
    for _ in 0..ROUNDS {
        let mut victim = Actor::start(module_path!(), "writer", &domain, 1);
        let (mut got, mut held, mut acknowledged) = (ReceivedSequence::default(), Vec::new(), 0);
        let heard = std::thread::scope(|scope| {
            let hearing = scope.spawn(|| {
                for _ in 0..1 + dice.below(4) {
                    acknowledged = victim.hear().parse().unwrap();
                }
                dice.pause(Duration::from_millis(5));
                victim.kill();
                while let Some(line) = victim.try_hear() {
                    acknowledged = line.parse().unwrap();
                }
                acknowledged
            });
            while !hearing.is_finished() {
                let Some(sample) = reader.take_next_data(Timeout::millis(10)).unwrap() else {
                    continue;
                };
                got.take_in(&sample);
                // Few enough samples are held for the writer to continue.
                if sample.number % 100 == 0 && held.len() < 4 {
                    held.push(sample);
                }
            }
            hearing.join().unwrap()
        });
        until("the writer is known to be gone", || reader.matched_writers() == 0);
        while let Some(sample) = reader.take_next_data(Timeout::NOW).unwrap() {
            got.take_in(&sample);
            held.push(sample);
        }
        assert_eq!(got.first, Some(0));
        assert!(got.next >= heard, "{} of {heard} that were received", got.next);
        held.iter().for_each(|sample| sample.assert_whole());
        let numbers: Vec<u64> = held.iter().map(|sample| sample.number).collect();
        assert!(numbers.is_sorted() && !numbers.is_empty());
    }
    drop((reader, participant));
    domain.assert_empty();
}

#[test]
fn write_waits_then_times_out_while_reader_is_stopped() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<CheckedSample>(TOPIC).create().unwrap();
    let writer = participant.writer(&topic).memory(64 << 10).in_flight(256);
    let writer = writer.max_blocking_time(Timeout::millis(200)).create().unwrap();
    let actors = readers(&domain, 2);
    writer.wait_for_readers(2, SOON).unwrap();
    let mut number = 0;
    for _ in 0..3 {
        actors[0].signal(Signal::STOP);
        let error = loop {
            match writer.write(&CheckedSample::new(number)) {
                Ok(()) => number += 1,
                Err(error) => break error,
            }
        };
        let DdsError::Timeout(text) = &error else { panic!("{error}") };
        assert!(text.contains(TOPIC) && text.contains("have not made room"), "{text}");
        actors[0].signal(Signal::CONT);
        for _ in 0..1000 {
            writer.write(&CheckedSample::new(number)).unwrap();
            number += 1;
        }
    }
    writer.write(&CheckedSample::last(number)).unwrap();
    assert_all_got(actors, 0, number + 1);
    drop((writer, topic, participant));
    domain.assert_empty();
}

#[test]
fn late_joiner_receives_all_samples_after_its_match() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = writer_of(&participant, TOPIC);
    let early = readers(&domain, 1);
    writer.wait_for_readers(1, SOON).unwrap();
    let mut late = Vec::new();
    let mut bounds = Vec::new();
    let count = in_full_flow(&writer, |written| {
        for number in 0..4 {
            let before = written.load(Ordering::Relaxed);
            until("there is a past", || written.load(Ordering::Relaxed) > before + 500);
            late.extend(readers(&domain, 1));
            until("it is matched", || writer.matched_readers() == number + 2);
            // The reader receives the samples written from here on.
            bounds.push((before, written.load(Ordering::Relaxed) + 1));
        }
    });
    assert_all_got(early, 0, count);
    for (mut actor, (after, before)) in late.into_iter().zip(bounds) {
        let line = actor.hear();
        let (first, end) = line.split_once(' ').unwrap();
        let (first, end): (u64, u64) = (first.parse().unwrap(), end.parse().unwrap());
        assert!(after <= first && first <= before, "{first} is not between {after} and {before}");
        assert_eq!(end, count);
        actor.finish();
    }
    drop((writer, participant));
    domain.assert_empty();
}

/// Returns the CPU time that a process has used, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, in parentheses, may contain spaces.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// An upper bound on the CPU use of idle participants, not a measurement: a busy host gets
/// several attempts.
#[test]
fn idle_participants_use_little_cpu_and_wake_at_once() {
    const ATTEMPTS: usize = 3;
    let domain = TestDomain::new();
    let mut actors = readers(&domain, 2);
    let mut writers = [Actor::start(module_path!(), "writer", &domain, 3)];
    // The writer waits for a third reader; all processes sleep.
    let mut busiest = (0..ATTEMPTS).map(|_| {
        std::thread::sleep(Duration::from_secs(1));
        let pids: Vec<u32> = actors.iter().chain(&writers).map(Actor::pid).collect();
        let before: Vec<u64> = pids.iter().map(|&pid| ticks(pid)).collect();
        std::thread::sleep(Duration::from_secs(3));
        let used = pids.iter().zip(before).map(|(&pid, before)| ticks(pid) - before);
        used.max().unwrap()
    });
    assert!(busiest.any(|used| used < 3), "an idle process uses more than a percent of a core");
    writers[0].kill();
    let participant = domain.join();
    let writer = writer_of(&participant, TOPIC);
    writer.wait_for_readers(2, SOON).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let start = Instant::now();
    writer.write(&CheckedSample::last(0)).unwrap();
    actors.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "0 1"));
    assert!(start.elapsed() < Duration::from_secs(1), "woken after {:?}", start.elapsed());
    actors.into_iter().for_each(Actor::finish);
    drop((writer, participant));
    domain.assert_empty();
}
