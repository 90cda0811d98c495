//! A stopped process blocks no other for longer than the member timeout: at any rate, for every
//! combination of writers and readers, and in a domain without traffic.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use rustix::process::Signal;
use support::{Actor, CheckedSample, SOON, TestDomain, listen, role, say, seed, until};

const MEMBER_TIMEOUT: Duration = Duration::from_millis(500);
/// On an idle machine the others continue 100 ms after the member timeout. A test machine may
/// be busy.
const ALLOWANCE: Duration = Duration::from_secs(3);
/// Time after which a participant that has not continued never will.
const SOON_ENOUGH: Duration = Duration::from_secs(20);

/// Role of a participant in the topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TopicRole {
    Writes,
    Reads,
    WritesAndReads,
}

impl TopicRole {
    const ALL: [TopicRole; 3] = [TopicRole::Writes, TopicRole::Reads, TopicRole::WritesAndReads];

    fn writes(self) -> bool {
        self != TopicRole::Reads
    }

    fn reads(self) -> bool {
        self != TopicRole::Writes
    }
}

/// A participant with its role in the topic.
struct TestMember {
    participant: DomainParticipant,
    writer: Option<DataWriter<CheckedSample>>,
    reader: Option<DataReader<CheckedSample>>,
}

fn join(folder: &Path, member_timeout: Duration) -> DomainParticipant {
    let config = ParticipantConfig::new().runtime_dir(folder).member_timeout(member_timeout);
    DomainParticipant::with_config(0, config).unwrap()
}

impl TestMember {
    fn new(folder: &Path, part: TopicRole) -> TestMember {
        TestMember::with_patience(folder, part, MEMBER_TIMEOUT)
    }

    fn with_patience(folder: &Path, part: TopicRole, member_timeout: Duration) -> TestMember {
        let participant = join(folder, member_timeout);
        let topic = participant.topic::<CheckedSample>("Marks").atomic().create().unwrap();
        TestMember::on(participant, &topic, part)
    }

    /// Creates a member in an atomic or unordered topic.
    fn in_either(folder: &Path, part: TopicRole, is_ordered: bool) -> TestMember {
        let participant = join(folder, MEMBER_TIMEOUT);
        let topic = participant.topic::<CheckedSample>("Either").keep_all();
        let topic = if is_ordered { topic.atomic() } else { topic };
        let topic = topic.create().unwrap();
        TestMember::on(participant, &topic, part)
    }

    fn on(
        participant: DomainParticipant,
        topic: &Topic<CheckedSample>,
        part: TopicRole,
    ) -> TestMember {
        let reader = part.reads().then(|| {
            participant.reader(topic).reliable_all().max_held_percent(100).create().unwrap()
        });
        let writer = part.writes().then(|| {
            let writer = participant.writer(topic).memory(32 << 10).in_flight(64);
            writer.max_blocking_time(Timeout::millis(1)).create().unwrap()
        });
        TestMember { participant, writer, reader }
    }

    /// Writes one sample, if there is room for it.
    fn write(&self, number: u64) -> bool {
        match self.writer.as_ref().unwrap().write(&CheckedSample::new(number)) {
            Ok(()) => true,
            Err(DdsError::Timeout(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Takes the available samples. Returns the number of the last one.
    fn take(&self) -> Option<u64> {
        let reader = self.reader.as_ref()?;
        let samples = reader.take_data(.., Timeout::millis(0)).ok()?;
        samples.into_iter().map(|sample| sample.number).last()
    }
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    let member = match role.as_str() {
        "either" => TestMember::in_either(&folder, TopicRole::Reads, seed() == 1),
        _ => TestMember::new(&folder, TopicRole::ALL[seed() as usize]),
    };
    until("it is a member", || member.participant.view().1 >= 1);
    say("ready");
    let TestMember { participant: _participant, reader, writer: _writer } = member;
    let mut reader = reader;
    let mut in_hand = Vec::new();
    while let Some(order) = listen() {
        if let (Some(reader), "part") = (reader.take(), order.as_str()) {
            in_hand.extend(reader.take_data(.., Timeout::millis(0)).into_iter().flatten());
            drop(reader);
            say("parted");
        }
    }
}

fn start(domain: &TestDomain, part: TopicRole) -> Actor {
    let index = TopicRole::ALL.iter().position(|known| *known == part).unwrap();
    let mut actor = Actor::start(module_path!(), "member", domain, index as u64);
    assert_eq!(actor.hear(), "ready");
    actor
}

/// Returns the time from the stop of one participant to the first sample, written after the stop,
/// that another one reads.
fn time_to_next_sample(rate: u32, writer: TopicRole, stopped: TopicRole) -> Duration {
    let domain = TestDomain::new();
    let writing = TestMember::new(&domain.runtime_dir(), writer);
    let reading = TestMember::new(&domain.runtime_dir(), TopicRole::Reads);
    let mut child = start(&domain, stopped);
    let readers = 1 + u32::from(writer.reads()) + u32::from(stopped.reads());
    writing.writer.as_ref().unwrap().wait_for_readers(readers as usize, SOON).unwrap();
    let (interval, mut number) = (Duration::from_secs(1) / rate, 0);
    let mut write = || {
        let written = writing.write(number);
        number += u64::from(written);
        writing.take();
        (written, number)
    };
    until("a sample comes", || {
        write();
        reading.take().is_some()
    });
    child.signal(Signal::STOP);
    let begin = Instant::now();
    let first = write().1;
    let mut next = begin + interval;
    let took = loop {
        if reading.take().is_some_and(|last| last >= first) {
            break begin.elapsed();
        }
        assert!(begin.elapsed() < SOON_ENOUGH, "{}", writing.participant.describe());
        if Instant::now() >= next {
            write();
            next += interval;
        }
        std::thread::sleep(Duration::from_micros(500));
    };
    child.signal(Signal::CONT);
    child.kill();
    took
}

#[test]
fn stopped_member_delays_samples_only_until_member_timeout_at_any_rate() {
    for rate in [5, 100, 1000] {
        for writer in [TopicRole::Writes, TopicRole::WritesAndReads] {
            for stopped in TopicRole::ALL {
                let took = time_to_next_sample(rate, writer, stopped);
                println!("{rate} Hz, the writer {writer:?}, who stops {stopped:?}: {took:?}");
                let most = Duration::from_secs(1) / rate + MEMBER_TIMEOUT + ALLOWANCE;
                assert!(took < most, "{rate} Hz, {writer:?}, {stopped:?} stops: {took:?}");
            }
        }
    }
}

/// Work that a stopped reader leaves undone for a writer whose participant does not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UndoneWork {
    /// Receiving samples.
    Receiving,
    /// Releasing memory: the reader has received all, and the memory is full of samples that were
    /// not taken.
    GivingBack,
    /// Releasing memory after the reader was deleted, while the application holds the samples that
    /// fill the memory.
    Parting,
}

/// One of two participants only writes, so that nothing is delivered at the writer.
#[test]
fn writer_has_room_again_when_only_reader_exceeds_member_timeout() {
    for is_ordered in [true, false] {
        for undone in [UndoneWork::Receiving, UndoneWork::GivingBack, UndoneWork::Parting] {
            let took = time_to_room(is_ordered, undone);
            println!("ordered: {is_ordered}, {undone:?}: room again after {took:?}");
            assert!(
                took < MEMBER_TIMEOUT + ALLOWANCE,
                "ordered: {is_ordered}, {undone:?}: {took:?}"
            );
        }
    }
}

/// Returns the time from the stop of the only reader until there is room for a sample.
fn time_to_room(is_ordered: bool, undone: UndoneWork) -> Duration {
    let domain = TestDomain::new();
    let writing = TestMember::in_either(&domain.runtime_dir(), TopicRole::Writes, is_ordered);
    let mut child = Actor::start(module_path!(), "either", &domain, u64::from(is_ordered));
    assert_eq!(child.hear(), "ready");
    writing.writer.as_ref().unwrap().wait_for_readers(1, SOON).unwrap();
    let mut number = 0;
    let mut fill = || {
        while writing.write(number) {
            number += 1;
        }
    };
    if undone != UndoneWork::Receiving {
        // A running participant has by now received all samples for which there was room.
        for _ in 0..50 {
            fill();
        }
    }
    if undone == UndoneWork::Parting {
        child.tell("part");
        assert_eq!(child.hear(), "parted");
    }
    child.signal(Signal::STOP);
    let begin = Instant::now();
    fill();
    while !writing.write(number) {
        assert!(begin.elapsed() < SOON_ENOUGH, "{}", writing.participant.describe());
    }
    let took = begin.elapsed();
    child.signal(Signal::CONT);
    child.kill();
    took
}

/// A participant that is stopped for less than the member timeout is named during the standstill of
/// the order.
#[test]
fn standstill_is_reported_with_topic_and_awaited_member_until_its_end() {
    let domain = TestDomain::new();
    // The timeout is so long that the standstill lasts until it was seen.
    let folder = domain.runtime_dir();
    let writing =
        TestMember::with_patience(&folder, TopicRole::WritesAndReads, Duration::from_secs(30));
    let mut child = start(&domain, TopicRole::Reads);
    writing.writer.as_ref().unwrap().wait_for_readers(2, SOON).unwrap();
    assert_eq!(writing.participant.standstills(), []);
    child.signal(Signal::STOP);
    until("there is room for a sample", || writing.write(0));
    let mut seen = Vec::new();
    until("the standstill is told", || {
        // The child may have received samples written while the signal was on its way.
        writing.write(0);
        seen = writing.participant.standstills();
        seen.iter().any(|still| still.topic.is_some())
    });
    child.signal(Signal::CONT);
    let still = seen.iter().find(|still| still.topic.is_some()).unwrap();
    println!("{still}");
    assert_eq!(still.topic.as_deref(), Some("Marks"));
    assert!(still.lasts >= Duration::from_millis(100), "{still}");
    assert_ne!(still.awaited[0].0, writing.participant.instance_handle());
    assert_eq!(still.awaited[0].1, "has not received what was sent");
    until("the order goes on", || writing.participant.standstills().is_empty());
    child.kill();
}

/// There is no traffic in the domain, and the member that founded it is stopped: another member
/// awaits it on behalf of the newcomer.
#[test]
fn participant_joins_idle_domain_whose_first_member_is_stopped() {
    let domain = TestDomain::new();
    let mut child = start(&domain, TopicRole::Writes);
    let config = ParticipantConfig::new().runtime_dir(domain.runtime_dir());
    let config = config.member_timeout(MEMBER_TIMEOUT);
    let second = DomainParticipant::with_config(0, config.clone()).unwrap();
    until("the two are in one view", || second.view().1 == 2);
    let topic = second.topic::<CheckedSample>("Other").atomic().create().unwrap();
    let reader = second.reader(&topic).reliable_all().create().unwrap();
    // No message is in flight any more: the participants have exchanged all of them.
    std::thread::sleep(MEMBER_TIMEOUT);
    child.signal(Signal::STOP);
    let begin = Instant::now();
    let third = DomainParticipant::with_config(0, config).unwrap();
    let topic = third.topic::<CheckedSample>("Other").atomic().create().unwrap();
    let writer = third.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, Timeout::secs(20)).unwrap();
    writer.write(&CheckedSample::new(7)).unwrap();
    let sample = reader.take_next_data(Timeout::secs(20)).unwrap().expect("it was written");
    assert_eq!(sample.number, 7);
    let took = begin.elapsed();
    println!("the third participant is heard after {took:?}");
    assert!(took < MEMBER_TIMEOUT + ALLOWANCE, "{took:?}");
    child.signal(Signal::CONT);
    child.kill();
}

/// A participant that would wait for good is not created: the only process of the domain is
/// stopped.
#[test]
fn join_fails_naming_a_process_if_all_domain_processes_are_stopped() {
    let domain = TestDomain::new();
    let mut child = start(&domain, TopicRole::Writes);
    child.signal(Signal::STOP);
    let config = ParticipantConfig::new().runtime_dir(domain.runtime_dir());
    let begin = Instant::now();
    let Err(error) = DomainParticipant::with_config(0, config) else {
        panic!("there is nobody who could let it in");
    };
    let took = begin.elapsed();
    let text = error.to_string();
    let process = format!("process {}", child.pid());
    assert!(text.contains(&process) && text.contains("stopped"), "{text}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    child.signal(Signal::CONT);
    let second = join(&domain.runtime_dir(), MEMBER_TIMEOUT);
    until("the two are in one view", || second.view().1 == 2);
    child.kill();
    drop(second);
    domain.assert_empty();
}
