//! RELIABILITY BEST_EFFORT: no writer waits for such a reader. Received samples are whole and in
//! their writer's order, and missed samples are counted (I-220 to I-224).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::legs::{self, Leg, coherent, route};
use crate::support::{
    Actor, CheckedSample, PATIENCE, ReceivedSequence, SOON, TestDomain, join, listen, reader_of,
    role, say, seed, take_to_the_end, until, writer_of,
};
use dds_api::infrastructure::{DataReaderListener, SampleLostStatus, StatusKind, WaitSet};
use dds_api::prelude::*;
use dds_api::qos::{DataReaderQos, LifespanQosPolicy, ReliabilityQosPolicyKind, TopicQos};
use rustix::process::Signal;

const TOPIC: &str = "Marks";

/// A keyed, encoded sample of any length.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Letter {
    #[dds(key)]
    to: u32,
    number: u64,
    text: Vec<u8>,
}

/// Maximum length; some samples take nearly a whole chunk.
const LONGEST: usize = 4000;

impl Letter {
    fn new(number: u64) -> Letter {
        let length = match number % 3 {
            0 => LONGEST - (number % 50) as usize,
            _ => (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize,
        };
        let text = (0..length as u64).map(|at| (number ^ at.wrapping_mul(number | 1)) as u8);
        Letter { to: (number % 4) as u32, number, text: text.collect() }
    }

    fn assert_whole(&self) {
        assert!(*self == Letter::new(self.number), "letter {} is corrupt", self.number);
    }
}

fn letters(participant: &DomainParticipant) -> Topic<Letter> {
    participant.topic::<Letter>("Letters").create().unwrap()
}

fn letter_writer(participant: &DomainParticipant) -> DataWriter<Letter> {
    let writer = participant.writer(&letters(participant)).memory(64 << 10).in_flight(256);
    let writer = writer.max_sample_size(2 * LONGEST).max_blocking_time(Timeout::millis(200));
    writer.create().unwrap()
}

/// Samples that a best-effort reader has received from one writer.
#[derive(Default)]
struct SampleCounts {
    got: u64,
    next: u64,
}

impl SampleCounts {
    fn take_in(&mut self, number: u64) {
        assert!(self.got == 0 || number >= self.next, "{number} after {}", self.next);
        (self.got, self.next) = (self.got + 1, number + 1);
    }

    /// Takes the available samples.
    fn take_all(&mut self, reader: &DataReader<CheckedSample>) {
        while let Some(sample) = reader.take_next_data(Timeout::NOW).unwrap() {
            sample.assert_whole();
            self.take_in(sample.number);
        }
    }
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "best effort" => act_best_effort(&folder),
        "reliable" => act_reliable(&folder),
        "writer" => act_writer(&folder),
        "letters" => act_letters(&folder),
        "last letters" => act_last_letters(&folder),
        "some letters" => act_some_letters(&folder),
        "sets" => act_sets(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Takes, with a pause after each sample, until it is told that all is written; then takes the
/// rest. Returns the number of lost samples.
fn take_all<T: DdsType>(reader: &DataReader<T>, mut take_in: impl FnMut(&ValidSample<T>)) -> u64 {
    let over = Arc::new(AtomicBool::new(false));
    let told = std::thread::spawn({
        let over = Arc::clone(&over);
        move || {
            listen();
            over.store(true, Ordering::Release);
        }
    });
    say("ready");
    loop {
        let is_over = over.load(Ordering::Acquire);
        let sample = reader.take_next_data(Timeout::millis(100)).unwrap();
        match &sample {
            Some(sample) => take_in(sample),
            // The end is checked before the take, so that all samples written by then are taken.
            None if is_over => break,
            None => {}
        }
        if !is_over && seed() > 0 {
            std::thread::sleep(Duration::from_micros(seed()));
        }
    }
    told.join().unwrap();
    reader.sample_lost_status().total_count
}

fn act_best_effort(folder: &Path) {
    let participant = join(folder);
    let topic = participant.topic::<CheckedSample>(TOPIC).create().unwrap();
    let reader = participant.reader(&topic).best_effort().keep_all().create().unwrap();
    let mut seen = SampleCounts::default();
    let lost = take_all(&reader, |sample| {
        sample.assert_whole();
        seen.take_in(sample.number);
    });
    say(&format!("{} {lost} {}", seen.got, seen.next));
    while listen().is_some() {}
}

fn act_reliable(folder: &Path) {
    let participant = join(folder);
    let reader = reader_of(&participant, TOPIC);
    say("ready");
    let mut got = ReceivedSequence::default();
    take_to_the_end(&reader, &mut got);
    assert_eq!(reader.sample_lost_status().total_count, 0);
    say(&format!("{} {}", got.first.unwrap(), got.next));
    while listen().is_some() {}
}

/// Writes endlessly, and periodically reports the number.
fn act_writer(folder: &Path) {
    let participant = join(folder);
    let writer = writer_of(&participant, TOPIC);
    writer.wait_for_readers(1, SOON).unwrap();
    for number in 0.. {
        writer.write(&CheckedSample::new(number)).unwrap();
        if number % 1000 == 999 {
            say(&(number + 1).to_string());
        }
    }
}

fn act_letters(folder: &Path) {
    let participant = join(folder);
    let reader =
        participant.reader(&letters(&participant)).best_effort().keep_all().create().unwrap();
    let mut seen = SampleCounts::default();
    let lost = take_all(&reader, |letter| {
        letter.assert_whole();
        seen.take_in(letter.number);
    });
    say(&format!("{} {lost} {}", seen.got, seen.next));
    while listen().is_some() {}
}

/// Keeps the last letter to each address, and takes them when all are written.
fn act_last_letters(folder: &Path) {
    let participant = join(folder);
    let reader = participant.reader(&letters(&participant)).best_effort().keep_last(1);
    let reader = reader.create().unwrap();
    say("ready");
    listen();
    let end = listen().unwrap().parse::<u64>().unwrap();
    let mut last = [0; 4];
    until("the last letter to each has come", || {
        for letter in reader.take_data(.., Timeout::NOW).unwrap() {
            letter.assert_whole();
            last[letter.to as usize] = letter.number;
        }
        last.iter().all(|number| number + 4 >= end)
    });
    say(&reader.sample_lost_status().total_count.to_string());
    while listen().is_some() {}
}

/// Reads only letters to one address.
fn act_some_letters(folder: &Path) {
    let participant = join(folder);
    let topic = letters(&participant);
    let some = participant.content_filtered_topic("Some", &topic, "to = 1", &[]).unwrap();
    let reader = participant.reader(&some).best_effort().keep_all().create().unwrap();
    let mut seen = SampleCounts::default();
    let lost = take_all(&reader, |letter| {
        letter.assert_whole();
        assert_eq!(letter.to, 1);
        seen.take_in(letter.number);
    });
    say(&format!("{} {lost} {}", seen.got, seen.next));
    while listen().is_some() {}
}

/// Receives three samples of each set, or none.
fn act_sets(folder: &Path) {
    let participant = join(folder);
    let subscriber = participant.subscriber().presentation(coherent()).create().unwrap();
    let topic = legs::topic::<Leg>(&participant, "unordered");
    let reader = subscriber.reader(&topic).best_effort().keep_all().create().unwrap();
    let (mut seen, mut legs) = (SampleCounts::default(), 0);
    let lost = take_all(&reader, |leg| {
        assert_eq!(u64::from(leg.number), legs % 3, "route {}", leg.route);
        match leg.number {
            0 => seen.take_in(leg.route),
            _ => assert_eq!(leg.route + 1, seen.next),
        }
        legs += 1;
    });
    assert_eq!(legs % 3, 0, "a part of a set");
    say(&format!("{} {lost} {}", seen.got, seen.next));
    while listen().is_some() {}
}

fn actor(role: &str, domain: &TestDomain, seed: u64) -> Actor {
    let mut actor = Actor::start(module_path!(), role, domain, seed);
    assert_eq!(actor.hear(), "ready");
    actor
}

/// Reads the final report of a best-effort reader: the number of received samples, of lost samples,
/// and the next number.
fn hear_numbers(actor: &mut Actor) -> [u64; 3] {
    let line = actor.hear();
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// Checks that received and lost samples add up to all written ones. Returns the number of
/// lost samples.
fn assert_counted(mut actor: Actor, written: u64) -> u64 {
    actor.tell("over");
    let [got, lost, next] = hear_numbers(&mut actor);
    assert_eq!(got + lost, written, "{got} got, {lost} lost");
    assert_eq!(next, written, "the last one is there");
    actor.finish();
    lost
}

/// Creates a writer that would fail if it ever waited long.
fn hasty_writer(participant: &DomainParticipant) -> DataWriter<CheckedSample> {
    let topic = participant.topic::<CheckedSample>(TOPIC).create().unwrap();
    let writer = participant.writer(&topic).memory(64 << 10).in_flight(256);
    writer.max_blocking_time(Timeout::millis(200)).create().unwrap()
}

#[test]
fn stopped_best_effort_reader_blocks_no_writer() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = hasty_writer(&participant);
    let actor = actor("best effort", &domain, 0);
    writer.wait_for_readers(1, SOON).unwrap();
    let mut number = 0;
    for _ in 0..5 {
        actor.signal(Signal::STOP);
        for _ in 0..20_000 {
            writer.write(&CheckedSample::new(number)).unwrap();
            number += 1;
        }
        writer.wait_for_acknowledgments(Timeout::millis(200)).unwrap();
        assert_eq!(writer.matched_readers(), 1, "it is matched all the same");
        actor.signal(Signal::CONT);
        for _ in 0..2000 {
            writer.write(&CheckedSample::new(number)).unwrap();
            number += 1;
        }
    }
    let lost = assert_counted(actor, number);
    assert!(lost > 50_000, "{lost}");
    drop((writer, participant));
    domain.assert_empty();
}

#[test]
fn slow_best_effort_reader_receives_or_counts_each_sample() {
    const COUNT: u64 = 60_000;
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = hasty_writer(&participant);
    let actors = [0, 50, 500].map(|pause| actor("best effort", &domain, pause));
    writer.wait_for_readers(3, SOON).unwrap();
    (0..COUNT).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    let lost = actors.map(|actor| assert_counted(actor, COUNT));
    assert!(lost[2] > 0 && lost[2] < COUNT - 100, "{lost:?}");
    drop((writer, participant));
    domain.assert_empty();
}

/// The reliable reader receives all samples while the best-effort one sleeps.
#[test]
fn reliable_reader_receives_all_samples_beside_stopped_best_effort_reader() {
    const COUNT: u64 = 50_000;
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = writer_of(&participant, TOPIC);
    let (mut reliable, sleeper) = (actor("reliable", &domain, 0), actor("best effort", &domain, 0));
    let near = participant.reader(writer.topic()).best_effort().keep_all().create().unwrap();
    writer.wait_for_readers(3, SOON).unwrap();
    sleeper.signal(Signal::STOP);
    (0..COUNT).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    writer.write(&CheckedSample::last(COUNT)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(reliable.hear(), format!("0 {}", COUNT + 1));
    // The reader is resumed before a participant leaves: a view change needs all members, and a
    // sleeping one is evicted.
    sleeper.signal(Signal::CONT);
    reliable.finish();
    assert!(assert_counted(sleeper, COUNT + 1) > 0);
    // A reader from which nothing is taken, in the writer's participant.
    let mut seen = SampleCounts::default();
    until("each is there or counted", || {
        seen.take_all(&near);
        seen.got + near.sample_lost_status().total_count == COUNT + 1
    });
    assert!(seen.got > 100 && seen.got < COUNT);
    drop((near, writer, participant));
    domain.assert_empty();
}

#[test]
fn killed_reader_blocks_no_writer_and_new_reader_counts_each_sample() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = hasty_writer(&participant);
    let mut reliable = actor("reliable", &domain, 0);
    let mut number = 0;
    for round in 0..5 {
        let mut victim = actor("best effort", &domain, 0);
        writer.wait_for_readers(2, SOON).unwrap();
        if round % 2 == 0 {
            victim.signal(Signal::STOP);
        }
        for _ in 0..5000 {
            writer.write(&CheckedSample::new(number)).unwrap();
            number += 1;
        }
        victim.kill();
        until("it is matched no more", || writer.matched_readers() == 1);
    }
    let first = number;
    let late = actor("best effort", &domain, 0);
    writer.wait_for_readers(2, SOON).unwrap();
    (0..5000).for_each(|more| writer.write(&CheckedSample::new(first + more)).unwrap());
    number += 5000;
    writer.write(&CheckedSample::last(number)).unwrap();
    assert_eq!(reliable.hear(), format!("0 {}", number + 1));
    reliable.finish();
    let mut late = late;
    late.tell("over");
    let [got, lost, next] = hear_numbers(&mut late);
    assert_eq!((got + lost, next), (number + 1 - first, number + 1), "since it was matched");
    late.finish();
    drop((writer, participant));
    domain.assert_empty();
}

#[test]
fn reader_receives_or_counts_samples_of_each_killed_writer() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<CheckedSample>(TOPIC).create().unwrap();
    let reader = participant.reader(&topic).best_effort().keep_all().create().unwrap();
    let mut lost_before = 0;
    for _ in 0..4 {
        let mut writer = Actor::start(module_path!(), "writer", &domain, 0);
        let mut seen = SampleCounts::default();
        while seen.got < 3000 {
            if let Some(sample) = reader.take_next_data(Timeout::millis(100)).unwrap() {
                sample.assert_whole();
                seen.take_in(sample.number);
            }
        }
        writer.kill();
        until("it is matched no more", || reader.matched_writers() == 0);
        seen.take_all(&reader);
        let lost = reader.sample_lost_status().total_count;
        assert!(seen.got + lost - lost_before >= seen.next, "{} to {}", seen.got, seen.next);
        lost_before = lost;
    }
    drop((reader, topic, participant));
    domain.assert_empty();
}

/// Sends letters to readers of every kind, which are stopped in between.
fn letters_to(role: &str, end: impl FnOnce(Actor, u64)) {
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = letter_writer(&participant);
    let actor = actor(role, &domain, 0);
    writer.wait_for_readers(1, SOON).unwrap();
    let mut number = 0;
    for _ in 0..4 {
        for count in [300, 700, 50] {
            if count == 700 {
                actor.signal(Signal::STOP)
            } else {
                actor.signal(Signal::CONT)
            }
            for _ in 0..count {
                writer.write(&Letter::new(number)).unwrap();
                number += 1;
            }
        }
    }
    end(actor, number);
    drop((writer, participant));
    domain.assert_empty();
}

#[test]
fn large_encoded_samples_arrive_whole_or_are_counted() {
    letters_to("letters", |actor, written| assert!(assert_counted(actor, written) > 1000));
}

#[test]
fn best_effort_reader_receives_last_sample_of_each_instance() {
    letters_to("last letters", |mut actor, written| {
        actor.tell("over");
        actor.tell(&written.to_string());
        let lost: u64 = actor.hear().parse().unwrap();
        assert!(lost > 0 && lost < written, "{lost}");
        actor.finish();
    });
}

#[test]
fn samples_that_pass_a_content_filter_arrive_whole() {
    letters_to("some letters", |mut actor, written| {
        actor.tell("over");
        let [got, lost, next] = hear_numbers(&mut actor);
        assert!(got > 0 && 4 * got < written && lost > 1000, "{got} and {lost}");
        assert!(next + 4 > written, "the last one to it is not lost: {next} of {written}");
        actor.finish();
    });
}

/// A set is one record: it is received as a whole, or lost as a whole.
#[test]
fn coherent_set_is_received_whole_or_lost_whole() {
    const SETS: u64 = 9000;
    let domain = TestDomain::new();
    let participant = domain.join();
    let publisher = legs::publisher(&participant);
    let topic = legs::topic::<Leg>(&participant, "unordered");
    let writer = publisher.writer(&topic).memory(64 << 10).in_flight(256);
    let writer = writer.max_blocking_time(Timeout::millis(200)).create().unwrap();
    let actor = actor("sets", &domain, 0);
    writer.wait_for_readers(1, SOON).unwrap();
    for set in 0..SETS {
        match set % 3000 {
            500 => actor.signal(Signal::STOP),
            2500 => actor.signal(Signal::CONT),
            _ => {}
        }
        publisher.begin_coherent_changes().unwrap();
        legs::write(&writer, &route(set, 3));
        publisher.end_coherent_changes().unwrap();
    }
    assert!(assert_counted(actor, SETS) > 1000);
    drop((writer, publisher, topic, participant));
    domain.assert_empty();
}

struct LossCounter(Arc<AtomicU64>);

impl DataReaderListener<CheckedSample> for LossCounter {
    fn on_sample_lost(&mut self, _: &DataReader<CheckedSample>, status: &SampleLostStatus) {
        self.0.fetch_add(status.total_count_change, Ordering::Relaxed);
    }
}

/// Nothing is taken, so most samples are lost: the status reports it, through its condition, its
/// listener and its counts.
#[test]
fn lost_samples_are_reported() {
    const COUNT: u64 = 20_000;
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let writer = hasty_writer(&here);
    let topic = there.topic::<CheckedSample>(TOPIC).create().unwrap();
    let reader = there.reader(&topic).best_effort().keep_all().create().unwrap();
    let heard = there.reader(&topic).best_effort().keep_all().create().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    heard.set_listener(LossCounter(Arc::clone(&count)), StatusKind::SampleLost).unwrap();
    let reliable = reader_of(&there, "Other");
    writer.wait_for_readers(2, SOON).unwrap();
    let condition = reader.status_condition();
    condition.set_enabled_statuses(StatusKind::SampleLost);
    let wait_set = WaitSet::new();
    wait_set.attach(&condition).unwrap();
    assert!(wait_set.wait(Timeout::millis(5)).is_err(), "nothing is lost yet");
    (0..COUNT).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    wait_set.wait(SOON).unwrap();
    assert!(reader.status_changes().contains(StatusKind::SampleLost));
    let status = reader.sample_lost_status();
    assert!(status.total_count > 0 && status.total_count == status.total_count_change);
    let (mut seen, mut last) = (SampleCounts::default(), status);
    until("each is there or counted", || {
        seen.take_all(&reader);
        let lost = reader.sample_lost_status();
        assert_eq!(lost.total_count_change, lost.total_count - last.total_count);
        last = lost;
        seen.got + last.total_count == COUNT
    });
    assert_eq!(seen.next, COUNT, "the last one waits with its writer until there is room");
    assert_eq!(reader.sample_lost_status().total_count_change, 0);
    let mut seen = SampleCounts::default();
    until("the listener is told of all", || {
        seen.take_all(&heard);
        seen.got + count.load(Ordering::Relaxed) == COUNT
    });
    assert_eq!(reliable.sample_lost_status(), SampleLostStatus::default());
}

/// A best-effort writer is for best-effort readers, and waits for none of them, not even for the
/// short time that others would.
#[test]
fn a_best_effort_writer_never_waits() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<CheckedSample>(TOPIC).qos(&TopicQos::default());
    let topic = topic.create().unwrap();
    let writer = participant.writer(&topic).best_effort().memory(64 << 10).in_flight(256);
    let writer = writer.max_blocking_time(Timeout::NOW).create().unwrap();
    assert_eq!(writer.qos().reliability.kind, ReliabilityQosPolicyKind::BestEffort);
    let readers = [
        participant.reader(&topic).best_effort().keep_all().create().unwrap(),
        participant.reader(&topic).qos(&DataReaderQos::default()).create().unwrap(),
    ];
    let reliable = participant.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    for number in 0..50_000 {
        writer.write(&CheckedSample::new(number)).unwrap();
    }
    assert_eq!(reliable.requested_incompatible_qos_status().total_count, 1);
    assert_eq!(reliable.matched_writers(), 0);
    let mut seen = SampleCounts::default();
    let held: Vec<_> = readers[0].take_data(.., Timeout::NOW).unwrap().collect();
    held.iter().for_each(|sample| seen.take_in(sample.number));
    for number in 50_000..60_000 {
        writer.write(&CheckedSample::new(number)).unwrap();
    }
    held.iter().for_each(|sample| sample.assert_whole());
    drop(held);
    until("each is there or counted", || {
        seen.take_all(&readers[0]);
        seen.got + readers[0].sample_lost_status().total_count == 60_000
    });
    assert_eq!(seen.next, 60_000);
    until("the last one is kept", || {
        let last = readers[1].take_data(.., Timeout::NOW).unwrap().last();
        last.is_some_and(|sample| sample.number == 59_999)
    });
    let reliable = participant.writer(&topic).reliable().create().unwrap();
    assert_eq!(reliable.qos().reliability.kind, ReliabilityQosPolicyKind::Reliable);
    reliable.wait_for_readers(3, SOON).unwrap();
}

/// Samples that have expired when their reader wakes up are not delivered, and a late sample misses
/// its deadline.
#[test]
fn lifespan_and_deadline_hold_for_best_effort_reader() {
    const PERIOD: Duration = Duration::from_millis(50);
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = |participant: &DomainParticipant| {
        participant.topic::<CheckedSample>(TOPIC).deadline(PERIOD).create().unwrap()
    };
    let writer = here.writer(&topic(&here)).create().unwrap();
    let mut qos = writer.qos();
    qos.lifespan = LifespanQosPolicy { duration: Some(PERIOD).into() };
    writer.set_qos(&qos).unwrap();
    let reader = there.reader(&topic(&there)).best_effort().keep_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    (0..10).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    until("the deadline is missed", || reader.requested_deadline_missed_status().total_count > 0);
    std::thread::sleep(2 * PERIOD);
    assert_eq!(reader.take_data(.., Timeout::NOW).unwrap().count(), 0, "all of it is out of date");
    assert_eq!(reader.sample_lost_status().total_count, 0, "which is no loss");
    writer.write(&CheckedSample::new(10)).unwrap();
    let next = reader.take_next_data(Timeout::from(PATIENCE)).unwrap();
    assert!(next.is_none_or(|sample| sample.number == 10));
}
