//! Samples that an application still holds when their reader is gone: they stay unchanged, while
//! the writer continues.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    Actor, CheckedSample, PATIENCE, ReceivedSequence, SOON, TestDomain, join, listen, reader_of,
    role, say, seed, until, writer_of,
};
use dds_api::prelude::*;
use dds_api::topic::Bytes;
use dds_api::types::TopicData;
use rustix::process::Signal;

/// Number of samples that fill the writer's memory several times.
const MANY: usize = 4_000;
/// Number of readers that are made beside held samples of a deleted one.
const ROUNDS_OF_READERS: usize = 20;
/// Number of words of a byte sample; each is the sample's number.
const WORDS: usize = 8;

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "writer" => act_writer(&folder),
        "holder" => act_holder(&folder),
        other => panic!("no such role: {other}"),
    }
}

fn ordered_topic(participant: &DomainParticipant) -> Topic<CheckedSample> {
    participant.topic::<CheckedSample>("Ordered").atomic().create().unwrap()
}

fn ordered_reader(participant: &DomainParticipant) -> DataReader<CheckedSample> {
    participant.reader(&ordered_topic(participant)).reliable_all().create().unwrap()
}

fn unordered_reader(participant: &DomainParticipant) -> DataReader<CheckedSample> {
    reader_of(participant, "Plain")
}

fn byte_topic(participant: &DomainParticipant) -> Topic<Bytes> {
    participant.topic::<Bytes>("Bytes").create().unwrap()
}

fn byte_reader(participant: &DomainParticipant) -> DataReader<Bytes> {
    participant.reader(&byte_topic(participant)).reliable_all().create().unwrap()
}

fn join_with(folder: &Path, member_timeout: Duration) -> DomainParticipant {
    let config = ParticipantConfig::new().runtime_dir(folder).member_timeout(member_timeout);
    DomainParticipant::with_config(0, config).unwrap()
}

/// Joins with a short member timeout, for a participant whose eviction is awaited, and for those
/// that evict it.
fn join_impatiently(folder: &Path) -> DomainParticipant {
    join_with(folder, Duration::from_millis(500))
}

/// Writes to all topics until the director has gone.
fn act_writer(folder: &Path) {
    let participant = match seed() {
        IMPATIENT => join_impatiently(folder),
        _ => join(folder),
    };
    let ordered = participant.writer(&ordered_topic(&participant)).memory(64 << 10).in_flight(256);
    let writers =
        [ordered.max_blocking_time(SOON).create().unwrap(), writer_of(&participant, "Plain")];
    let bytes = participant.writer(&byte_topic(&participant)).memory(64 << 10).in_flight(256);
    let bytes = bytes.max_blocking_time(SOON).create().unwrap();
    say("ready");
    let director = std::thread::spawn(|| listen().is_some());
    let mut number = 0_u64;
    while !director.is_finished() {
        for writer in &writers {
            writer.write(&CheckedSample::new(number)).unwrap();
        }
        bytes.write_bytes(&[number; WORDS].map(u64::to_ne_bytes).concat()).unwrap();
        number += 1;
    }
}

/// Seed of a writer with a short member timeout, and seed of any other one.
const IMPATIENT: u64 = 1;
const PATIENT: u64 = 0;

/// Takes the given number of samples of each of these readers. The writer waits for all of them.
fn take<T: TopicData>(readers: &[DataReader<T>], count: usize) {
    let deadline = Instant::now() + PATIENCE;
    let mut taken = vec![0; readers.len()];
    while taken.iter().any(|taken| *taken < count) {
        assert!(Instant::now() < deadline, "{taken:?} samples of {count} came");
        for (reader, taken) in readers.iter().zip(&mut taken) {
            *taken += reader.take_data(.., Timeout::millis(10)).unwrap().count();
        }
    }
}

/// A sample with a number, which must be whole.
trait Numbered: TopicData {
    fn number(&self) -> u64;
}

impl Numbered for CheckedSample {
    fn number(&self) -> u64 {
        self.assert_whole();
        self.number
    }
}

impl Numbered for Bytes {
    fn number(&self) -> u64 {
        let words = self
            .in_place()
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        let words: Vec<u64> = words.collect();
        assert!(words.len() == WORDS && words.iter().all(|word| *word == words[0]), "{words:?}");
        words[0]
    }
}

/// Held samples, with the numbers that they had when they were taken.
struct HeldSamples<T> {
    samples: Vec<ValidSample<T>>,
    numbers: Vec<u64>,
}

impl<T: Numbered> HeldSamples<T> {
    /// Takes a few samples, while another reader that the writer waits for takes all samples.
    fn take(reader: &DataReader<T>, observing: &DataReader<T>) -> HeldSamples<T> {
        let (mut samples, deadline) = (Vec::new(), Instant::now() + PATIENCE);
        while samples.len() < 4 {
            assert!(Instant::now() < deadline, "no sample comes");
            samples.extend(reader.take_next_data(Timeout::millis(1)).unwrap());
            observing.take_data(.., Timeout::NOW).unwrap().for_each(drop);
        }
        assert!(
            samples.iter().all(ValidSample::is_borrowed),
            "samples are read where they were built"
        );
        let numbers = samples.iter().map(|sample| sample.number()).collect();
        HeldSamples { samples, numbers }
    }

    /// Fails if a sample has changed.
    fn check(&self) {
        for (sample, number) in self.samples.iter().zip(&self.numbers) {
            let sample = std::hint::black_box(&**sample);
            assert_eq!(sample.number(), *number, "the sample in hand is another one");
        }
    }
}

/// Entity that is dropped before the samples.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DroppedFirst {
    Reader,
    Participant,
}

fn check_held<T: Numbered>(
    goes: DroppedFirst,
    readers_of: impl Fn(&DomainParticipant) -> DataReader<T>,
) {
    let domain = TestDomain::new();
    let mut writer = Actor::start(module_path!(), "writer", &domain, PATIENT);
    assert_eq!(writer.hear(), "ready");
    let observer = domain.join();
    let observing = readers_of(&observer);
    let participant = domain.join();
    let reader = readers_of(&participant);
    let held = HeldSamples::take(&reader, &observing);
    drop(reader);
    let participant = Some(participant).filter(|_| goes == DroppedFirst::Reader);
    for _ in 0..5 {
        take(std::slice::from_ref(&observing), MANY);
        held.check();
    }
    drop(held);
    // No memory is kept for samples that are not held any more.
    take(std::slice::from_ref(&observing), MANY);
    drop((participant, observing, observer));
    writer.finish();
    domain.assert_empty();
}

#[test]
fn samples_of_an_ordered_topic_outlive_their_reader() {
    check_held(DroppedFirst::Reader, ordered_reader);
}

#[test]
fn samples_of_an_unordered_topic_outlive_their_reader() {
    check_held(DroppedFirst::Reader, unordered_reader);
}

#[test]
fn samples_of_an_ordered_topic_outlive_their_participant() {
    check_held(DroppedFirst::Participant, ordered_reader);
}

#[test]
fn samples_of_an_unordered_topic_outlive_their_participant() {
    check_held(DroppedFirst::Participant, unordered_reader);
}

#[test]
fn byte_samples_outlive_their_participant() {
    check_held(DroppedFirst::Participant, byte_reader);
}

/// The participant is dropped before or after its writer is killed.
fn check_killed(is_killed_first: bool) {
    let domain = TestDomain::new();
    let mut writer = Actor::start(module_path!(), "writer", &domain, PATIENT);
    assert_eq!(writer.hear(), "ready");
    let participant = domain.join();
    let (ordered, plain) = (ordered_reader(&participant), unordered_reader(&participant));
    // The writer waits for both readers.
    let of_ordered = HeldSamples::take(&ordered, &plain);
    let of_plain = HeldSamples::take(&plain, &ordered);
    drop((ordered, plain));
    let mut participant = Some(participant);
    if !is_killed_first {
        drop(participant.take());
    }
    writer.kill();
    std::fs::remove_dir_all(domain.runtime_dir()).unwrap();
    drop(participant);
    of_ordered.check();
    of_plain.check();
    // Dropped in another thread than the one that took them.
    std::thread::spawn(move || drop((of_ordered, of_plain))).join().unwrap();
    assert!(!domain.runtime_dir().exists(), "the folder is gone and nobody makes it again");
}

#[test]
fn samples_outlive_their_participant_and_then_the_process_of_their_writer() {
    check_killed(false);
}

#[test]
fn samples_outlive_the_process_of_their_writer_and_then_their_participant() {
    check_killed(true);
}

/// The writer leads the view, and is stopped: it answers neither the observer, which leaves first,
/// nor the participant, which by then has reported for the next view.
#[test]
fn samples_outlive_a_participant_that_leaves_without_an_answer() {
    let domain = TestDomain::new();
    let mut writer = Actor::start(module_path!(), "writer", &domain, PATIENT);
    assert_eq!(writer.hear(), "ready");
    // No member evicts the writer.
    let [observer, participant] = [(); 2].map(|()| join_with(&domain.runtime_dir(), PATIENCE));
    let (ordered, plain) = (ordered_reader(&participant), unordered_reader(&participant));
    let of_ordered = HeldSamples::take(&ordered, &plain);
    let of_plain = HeldSamples::take(&plain, &ordered);
    drop((ordered, plain));
    writer.signal(Signal::STOP);
    drop(observer);
    drop(participant);
    writer.signal(Signal::CONT);
    let observer = join_with(&domain.runtime_dir(), PATIENCE);
    let observing = [ordered_reader(&observer), unordered_reader(&observer)];
    for _ in 0..5 {
        take(&observing, MANY);
        of_ordered.check();
        of_plain.check();
    }
    drop((of_ordered, of_plain, observing, observer));
    writer.finish();
    domain.assert_empty();
}

/// Holds samples while it is stopped. Once it detects its eviction, they do not change any more.
fn act_holder(folder: &Path) {
    let participant = join_impatiently(folder);
    let (ordered, plain) = (ordered_reader(&participant), unordered_reader(&participant));
    let of_ordered = HeldSamples::take(&ordered, &plain);
    let of_plain = HeldSamples::take(&plain, &ordered);
    of_ordered.check();
    of_plain.check();
    say("holds");
    until("the participant learns that it is excluded", || participant.is_isolated());
    // One turn processes all consequences.
    participant.describe();
    let words = |sample: &ValidSample<CheckedSample>| -> [u64; 8] {
        let CheckedSample { number, check, last } = *std::hint::black_box(&**sample);
        let mut words = [number; 8];
        words[1..7].copy_from_slice(&check);
        words[7] = last;
        words
    };
    let look = || -> Vec<[u64; 8]> {
        of_ordered.samples.iter().chain(&of_plain.samples).map(words).collect()
    };
    let before = look();
    say("isolated");
    while listen().is_some_and(|order| order == "look") {
        say(if look() == before { "same" } else { "changed" });
    }
    drop((ordered, plain, participant));
    assert!(look() == before, "the samples outlive the participant that was isolated");
}

/// Waits for this line of an actor while `go_on` runs.
fn hear_meanwhile(actor: &mut Actor, line: &str, go_on: impl Fn(&mut dyn FnMut() -> bool)) {
    let received = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let said = actor.try_hear();
            received.store(true, Ordering::Release);
            assert_eq!(said.as_deref(), Some(line));
        });
        go_on(&mut || received.load(Ordering::Acquire));
    });
}

#[test]
fn samples_of_excluded_process_stay_unchanged_once_exclusion_is_detected() {
    let domain = TestDomain::new();
    let mut writer = Actor::start(module_path!(), "writer", &domain, IMPATIENT);
    assert_eq!(writer.hear(), "ready");
    let observer = join_impatiently(&domain.runtime_dir());
    let observing = [ordered_reader(&observer), unordered_reader(&observer)];
    let mut holder = Actor::start(module_path!(), "holder", &domain, 0);
    let look_on = |done: &mut dyn FnMut() -> bool| {
        let deadline = Instant::now() + PATIENCE;
        while !done() {
            assert!(Instant::now() < deadline, "the writer is held up");
            for reader in &observing {
                reader.take_data(.., Timeout::millis(1)).unwrap().for_each(drop);
            }
        }
    };
    hear_meanwhile(&mut holder, "holds", look_on);
    holder.signal(Signal::STOP);
    look_on(&mut || observer.view().1 == 2);
    take(&observing, MANY);
    holder.signal(Signal::CONT);
    hear_meanwhile(&mut holder, "isolated", look_on);
    for _ in 0..3 {
        take(&observing, MANY);
        holder.tell("look");
        assert_eq!(holder.hear(), "same", "a sample of an isolated participant changes");
    }
    holder.finish();
    drop((observing, observer));
    writer.finish();
    domain.assert_empty();
}

/// A reader that is deleted while its samples are held is not matched any more, in any participant,
/// and no writer waits for it.
#[test]
fn deleted_reader_is_not_matched_while_its_samples_are_held() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    for readers in [[&here, &here], [&there, &there], [&here, &there]] {
        let writer = writer_of(&here, "Plain");
        let [first, second] = readers.map(unordered_reader);
        writer.wait_for_readers(2, SOON).unwrap();
        writer.write(&CheckedSample::new(7)).unwrap();
        let held = [&first, &second].map(|reader| reader.take_next_data(SOON).unwrap().unwrap());
        first.delete();
        until("one reader is matched", || writer.matched_readers() == 1);
        second.delete();
        until("no reader is matched", || writer.matched_readers() == 0);
        writer.wait_for_acknowledgments(SOON).unwrap();
        // Several times the capacity of the writer's memory.
        for number in 0..MANY as u64 {
            writer.write(&CheckedSample::new(number)).unwrap();
        }
        assert!(held.iter().all(|sample| **sample == CheckedSample::new(7)));
    }
}

/// Ends a thread when the test ends, also if it fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A participant that only holds samples stays in the topic without reading. A reader that it makes
/// meanwhile begins with the epoch in which it reads again, not in the one that ends.
#[test]
fn new_reader_beside_held_samples_of_deleted_reader_has_no_gap() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topics = [&here, &there].map(|participant| {
        participant.topic::<CheckedSample>("Kept").transient_local().keep_last(1).create().unwrap()
    });
    let writer = here.writer(&topics[0]).max_blocking_time(SOON).create().unwrap();
    let ends = AtomicBool::new(false);
    let new_reader = || there.reader(&topics[1]).reliable_all().create().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..).take_while(|_| !ends.load(Ordering::Relaxed)) {
                writer.write(&CheckedSample::new(number)).unwrap();
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let _end = EndOnDrop(&ends);
        for round in 0..ROUNDS_OF_READERS {
            let reader = new_reader();
            let mut got = ReceivedSequence::default();
            let held = loop {
                let sample = reader.take_next_data(SOON).unwrap().unwrap();
                got.take_in(&sample);
                // The samples of a replay lie in this participant's own store.
                if got.next > got.first.unwrap_or_default() + 50 {
                    break sample;
                }
            };
            drop(reader);
            let (reader, mut got) = (new_reader(), ReceivedSequence::default());
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until || got.first.is_none() {
                let sample = reader.take_next_data(SOON).unwrap().unwrap();
                got.take_in(&sample);
                assert!(sample.number >= held.number, "round {round}: out of the past");
            }
            held.assert_whole();
            drop((held, reader));
        }
    });
    drop((topics, writer, here, there));
    domain.assert_empty();
}
