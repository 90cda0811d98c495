//! Topics that are kept in logs: durable samples are present again after all participants were
//! gone, in the same order.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::support::{
    self, Actor, CheckedSample, Dice, PATIENCE, SOON, TestDomain, role, say, until,
};
use dds_api::infrastructure::{LogCondition, LogRetention};
use dds_api::prelude::*;
use dds_api::qos::DurabilityServiceQosPolicy;
use dds_api::subscription::Since;

/// Returns a folder for logs.
fn logs(folder: &Path, name: &str) -> PathBuf {
    let logs = folder.parent().unwrap_or(folder).join(name);
    std::fs::create_dir_all(&logs).unwrap();
    logs
}

fn join(folder: &Path, logs: Option<&Path>) -> DomainParticipant {
    let mut config = ParticipantConfig::new().runtime_dir(folder);
    if let Some(logs) = logs {
        config = config.log_folder(logs);
    }
    DomainParticipant::with_config(0, config).unwrap()
}

fn marks(participant: &DomainParticipant, durable_first: bool) -> Topic<CheckedSample> {
    let topic = participant.topic::<CheckedSample>("Marks").persistent().keep_all();
    if durable_first { topic.durable_first() } else { topic }.create().unwrap()
}

fn writer_of(
    participant: &DomainParticipant,
    topic: &Topic<CheckedSample>,
) -> DataWriter<CheckedSample> {
    let writer = participant.writer(topic).memory(64 << 10).in_flight(256);
    writer.max_blocking_time(SOON).create().unwrap()
}

/// Returns a sample of one of several writers.
fn mark(writer: u64, number: u64) -> CheckedSample {
    CheckedSample { last: writer, ..CheckedSample::new(number) }
}

type SeenSamples = Vec<(u64, u64)>;

fn take_into(seen: &mut SeenSamples, reader: &DataReader<CheckedSample>, wait: Duration) {
    for sample in reader.take_data(.., wait).unwrap() {
        sample.assert_whole();
        seen.push((sample.last, sample.number));
    }
}

/// Returns all kept samples as a late joiner receives them.
fn history(reader: &DataReader<CheckedSample>, topic: &Topic<CheckedSample>) -> SeenSamples {
    reader.wait_for_historical_data(SOON).unwrap();
    let (mut seen, deadline) = (SeenSamples::new(), Instant::now() + PATIENCE);
    let whole = |seen: &SeenSamples| seen.len() as u64 == topic.storage_status().unwrap().samples;
    while !whole(&seen) {
        assert!(Instant::now() < deadline, "{} of {:?}", seen.len(), topic.storage_status());
        take_into(&mut seen, reader, Duration::from_millis(10));
    }
    seen
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "writer" => act_writer(&folder, false),
        "strict" => act_writer(&folder, true),
        other => panic!("no such role: {other}"),
    }
}

/// Writes until it is killed, and reports the durable samples, and the samples it has read.
fn act_writer(folder: &Path, durable_first: bool) {
    let id = support::seed();
    let participant = join(folder, Some(&logs(folder, "logs")));
    let topic = marks(&participant, durable_first);
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = writer_of(&participant, &topic);
    reader.wait_for_historical_data(SOON).unwrap();
    let mut seen = SeenSamples::new();
    say("begins");
    for number in 0.. {
        writer.write(&mark(id, number)).unwrap();
        take_into(&mut seen, &reader, Duration::ZERO);
        if number % 50 == 49 {
            writer.wait_for_acknowledgments(SOON).unwrap();
            say(&format!("durable {number}"));
        }
        if durable_first && let Some((writer, number)) = seen.last() {
            say(&format!("read {writer} {number}"));
        }
    }
}

/// Returns the last reports of killed actors: the last durable, or read, sample of each writer.
fn last_words(actors: &mut [Actor], ids: &[u64]) -> SeenSamples {
    let mut last = SeenSamples::new();
    for (actor, id) in actors.iter_mut().zip(ids) {
        actor.kill();
        while let Some(line) = actor.try_hear() {
            last.extend(word(*id, &line));
        }
    }
    last
}

/// Parses an actor's report of a sample: durable, or read.
fn word(id: u64, line: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["durable", number] => Some((id, number.parse().unwrap())),
        ["read", writer, number] => Some((writer.parse().unwrap(), number.parse().unwrap())),
        _ => None,
    }
}

/// Kills all of three writing processes, repeatedly: the recovered samples begin with those
/// recovered before, and contain all that were reported as durable, or read if samples are
/// durable first.
fn everything_is_killed(role: &str, rounds: u64) {
    let (domain, mut dice) = (TestDomain::new(), Dice(7));
    let mut before = SeenSamples::new();
    for round in 0..rounds {
        let ids: Vec<u64> = (0..3).map(|actor| 1 + 10 * round + actor).collect();
        let mut actors: Vec<Actor> =
            ids.iter().map(|id| Actor::start(module_path!(), role, &domain, *id)).collect();
        actors.iter_mut().for_each(|actor| while actor.hear() != "begins" {});
        let mut durable = SeenSamples::new();
        for (actor, id) in actors.iter_mut().zip(&ids) {
            durable.extend(loop {
                let line = actor.hear();
                if line.starts_with("durable") {
                    break word(*id, &line);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(50));
        dice.pause(Duration::from_millis(200));
        durable.extend(last_words(&mut actors, &ids));
        // The returning participant is alone.
        let folder = domain.runtime_dir();
        let participant = join(&folder, Some(&logs(&folder, "logs")));
        let topic = marks(&participant, role == "strict");
        let reader = participant.reader(&topic).reliable_all().create().unwrap();
        let now = history(&reader, &topic);
        assert!(durable.len() >= 3, "{durable:?}");
        assert!(now.starts_with(&before), "what was there is there, in its order");
        for word in &durable {
            assert!(now.contains(word), "{word:?} was durable, and is not there");
        }
        for id in &ids {
            let of_it = now.iter().filter(|(writer, _)| writer == id).map(|(_, number)| *number);
            assert!(of_it.eq(0..now.iter().filter(|(writer, _)| writer == id).count() as u64));
        }
        before = now;
        drop((reader, topic, participant));
    }
    std::fs::remove_dir_all(logs(&domain.runtime_dir(), "logs")).unwrap();
    domain.assert_empty();
}

#[test]
fn durable_samples_are_recovered_after_all_processes_are_killed() {
    everything_is_killed("writer", 5);
}

#[test]
fn samples_read_from_durable_first_topic_are_recovered_after_kill() {
    everything_is_killed("strict", 3);
}

/// Without a participant that keeps logs the topic does not begin, and reports it; with one
/// it does.
#[test]
fn topic_without_logs_waits_and_reports_that_no_log_is_kept() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let without = join(&folder, None);
    let topic = marks(&without, false);
    let reader = without.reader(&topic).reliable_all().create().unwrap();
    let writer = writer_of(&without, &topic);
    writer.write(&mark(1, 0)).unwrap();
    let error = writer.wait_for_acknowledgments(Timeout::millis(50)).unwrap_err().to_string();
    assert!(error.contains("keeps logs") && error.contains("squall store"), "{error}");
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none());
    let with = join(&folder, Some(&logs(&folder, "logs")));
    let log = marks(&with, false);
    let log_reader = with.reader(&log).reliable_all().create().unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(topic.storage_status().unwrap().durable, 1);
    let status = log.storage_status().unwrap();
    assert_eq!((status.logs, status.log, status.waits_for.len()), (1, Some(LogCondition::Open), 0));
    for reader in [&reader, &log_reader] {
        assert_eq!(reader.take_next_data(SOON).unwrap().map(|sample| sample.number), Some(0));
    }
}

/// Folders as on two hosts: a participant that returns alone waits for the other one's log, and
/// names it.
#[test]
fn returning_participant_waits_for_the_log_of_an_absent_member() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let (here, there) = (logs(&folder, "here"), logs(&folder, "there"));
    {
        let (a, b) = (join(&folder, Some(&here)), join(&folder, Some(&there)));
        let (of_a, of_b) = (marks(&a, false), marks(&b, false));
        let (writer, reader) =
            (writer_of(&a, &of_a), b.reader(&of_b).reliable_all().create().unwrap());
        until("both keep logs", || of_b.storage_status().is_some_and(|status| status.logs == 2));
        writer.wait_for_readers(1, SOON).unwrap();
        (0..100).for_each(|number| writer.write(&mark(1, number)).unwrap());
        writer.wait_for_acknowledgments(SOON).unwrap();
        drop((reader, of_b));
        drop(b);
        // The remaining participant is the only one with the log.
        until("it is one alone", || a.view().1 == 1);
        (100..200).for_each(|number| writer.write(&mark(1, number)).unwrap());
        writer.wait_for_acknowledgments(SOON).unwrap();
    }
    let b = join(&folder, Some(&there));
    let of_b = marks(&b, false);
    let reader = b.reader(&of_b).reliable_all().create().unwrap();
    let error = reader.wait_for_historical_data(Timeout::millis(300)).unwrap_err().to_string();
    assert!(error.contains("waits for") && error.contains("squall store"), "{error}");
    assert_eq!(of_b.storage_status().unwrap().waits_for.len(), 1);
    let a = join(&folder, Some(&here));
    let all = history(&reader, &of_b);
    assert_eq!(all, (0..200).map(|number| (1, number)).collect::<SeenSamples>());
    drop((a, reader, of_b, b));
    for logs in [here, there] {
        std::fs::remove_dir_all(logs).unwrap();
    }
    domain.assert_empty();
}

/// A participant that was down for a while is brought up to date, and has all samples when the
/// others are gone for good.
#[test]
fn returning_participant_receives_all_missed_samples() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    for (name, elsewhere) in [("one root", false), ("two roots", true)] {
        let here = logs(&folder, name);
        let there = if elsewhere { logs(&folder, "other root") } else { here.clone() };
        let a = join(&folder, Some(&here));
        let of_a = marks(&a, false);
        let writer = writer_of(&a, &of_a);
        let join_b = || {
            let b = join(&folder, Some(&there));
            let of_b = marks(&b, false);
            let reader = b.reader(&of_b).reliable_all().create().unwrap();
            (reader, of_b, b)
        };
        (0..100).for_each(|number| writer.write(&mark(1, number)).unwrap());
        let b = join_b();
        until("it has all of it", || {
            b.1.storage_status().is_some_and(|status| status.logs == 2 && status.durable >= 100)
        });
        drop(b);
        (100..200).for_each(|number| writer.write(&mark(1, number)).unwrap());
        writer.wait_for_acknowledgments(SOON).unwrap();
        let b = join_b();
        (200..300).for_each(|number| writer.write(&mark(1, number)).unwrap());
        until("it keeps a log again", || b.1.storage_status().is_some_and(|it| it.logs == 2));
        writer.wait_for_readers(1, SOON).unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        // The participant that was present all the time leaves for good.
        drop((writer, of_a));
        drop(a);
        until("it is one alone", || b.2.view().1 == 1);
        drop(b);
        match elsewhere {
            true => std::fs::remove_dir_all(&here).unwrap(),
            false => std::fs::remove_dir_all(here.join("domain-0").join("0")).unwrap(),
        }
        let (reader, of_b, b) = join_b();
        let all = history(&reader, &of_b);
        assert_eq!(all, (0..300).map(|number| (1, number)).collect::<SeenSamples>(), "{name}");
        drop((reader, of_b));
        drop(b);
        std::fs::remove_dir_all(there).unwrap();
    }
    domain.assert_empty();
}

/// A value with a key.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Reading {
    #[dds(key)]
    sensor: u32,
    value: u32,
}

/// Samples that are no longer kept for late joiners can be read from the log: from a sample on,
/// from a time on, and as the state at a time.
#[test]
fn samples_no_longer_kept_can_be_read_from_the_log() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let with = join(&folder, Some(&logs(&folder, "logs")));
    let topic = with.topic::<Reading>("Readings").persistent().create().unwrap();
    let reader = with.reader(&topic).reliable_all().create().unwrap();
    let writer = with.writer(&topic).create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    let mut times = Vec::new();
    for value in 0..300 {
        writer.write(&Reading { sensor: value % 3, value }).unwrap();
        let sample = reader.take_next_data(SOON).unwrap().unwrap();
        times.push(sample.info().source_timestamp);
    }
    writer.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(topic.storage_status().unwrap().kept, 3, "the last of each");
    let values = |since: Since| -> Vec<(u64, u32)> {
        let past = reader.past(since).unwrap().map(|read| read.unwrap());
        past.map(|(place, sample)| (place, sample.data().unwrap().value)).collect()
    };
    let all = values(Since::Sample(1));
    assert_eq!(all, (0..300).map(|value| (u64::from(value) + 1, value)).collect::<Vec<_>>());
    assert_eq!(values(Since::Sample(250)), all[249..]);
    assert_eq!(values(Since::Time(times[100])), all[100..]);
    let state = reader.state_at(times[100]).unwrap();
    let state: Vec<(u64, u32)> =
        state.iter().map(|(place, it)| (*place, it.data().unwrap().value)).collect();
    assert_eq!(state, all[98..101], "of each sensor the last one then");
    assert!(matches!(reader.past(Since::Sample(302)), Err(DdsError::BadParameter(_))));
    let without = join(&folder, None);
    let topic = without.topic::<Reading>("Readings").persistent().create().unwrap();
    let late = without.reader(&topic).reliable_all().create().unwrap();
    // The late reader asks the participant that keeps a log.
    assert_eq!(late.past(Since::Sample(1)).unwrap().map(Result::unwrap).count(), 300);
}

/// In a participant that is alone, samples are durable at the moment when they are reported
/// as durable.
#[test]
fn acknowledged_sample_is_reported_as_durable() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let here = logs(&folder, "logs");
    let a = join(&folder, Some(&here));
    let topic = marks(&a, false);
    let writer = writer_of(&a, &topic);
    for number in 0..500 {
        writer.write(&mark(1, number)).unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        let status = topic.storage_status().unwrap();
        assert_eq!(status.durable, number + 1, "{status:?}");
    }
    drop((writer, topic, a));
    std::fs::remove_dir_all(here).unwrap();
    domain.assert_empty();
}

/// A writer that joins a topic that has already begun here is acknowledged when its samples are
/// durable, not before its stream exists.
#[test]
fn late_writer_is_acknowledged_only_when_its_samples_are_durable() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let here = logs(&folder, "logs");
    let a = join(&folder, Some(&here));
    let topic = marks(&a, false);
    let reader = a.reader(&topic).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    for number in 0..10 {
        let writer = writer_of(&a, &topic);
        writer.write(&mark(1, number)).unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        assert_eq!(topic.storage_status().unwrap().durable, number + 1);
        drop(writer);
        assert_eq!(reader.take_next_data(SOON).unwrap().map(|sample| sample.number), Some(number));
    }
    drop((reader, topic, a));
    std::fs::remove_dir_all(here).unwrap();
    domain.assert_empty();
}

/// After a participant has been dropped, no work of it continues, whichever thread was active: its
/// log folder is free for the next one.
#[test]
fn dropped_participant_releases_its_log_folder() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let here = logs(&folder, "logs");
    for number in 0..30 {
        let a = join(&folder, Some(&here));
        let topic = marks(&a, false);
        let writer = writer_of(&a, &topic);
        writer.write(&mark(1, number)).unwrap();
        drop((writer, topic, a));
        let lock = std::fs::File::open(here.join("domain-0").join("0").join("lock")).unwrap();
        let locked = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        assert!(locked.is_ok(), "{number}: {locked:?}");
    }
    std::fs::remove_dir_all(here).unwrap();
    domain.assert_empty();
}

/// A new reader of a kept topic that is created before the previous one has fully left receives
/// the samples.
#[test]
fn reader_created_right_after_a_dropped_reader_receives_samples() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    for persistent in [false, true] {
        let here = logs(&folder, "logs");
        let (a, b) = (join(&folder, Some(&here)), join(&folder, None));
        let topic = |of: &DomainParticipant| {
            let topic = of.topic::<CheckedSample>("Marks").keep_all();
            if persistent { topic.persistent() } else { topic.transient_local() }.create().unwrap()
        };
        let (of_a, of_b) = (topic(&a), topic(&b));
        let writer = writer_of(&a, &of_a);
        let mut number = 0;
        for _ in 0..5 {
            let reader = b.reader(&of_b).reliable_all().create().unwrap();
            number += 1;
            writer.write(&mark(1, number)).unwrap();
            let deadline = Instant::now() + Duration::from_secs(5);
            loop {
                let taken = reader.take_next_data(Timeout::millis(100)).unwrap();
                if taken.is_some_and(|sample| sample.number == number) {
                    break;
                }
                assert!(
                    Instant::now() < deadline,
                    "{persistent}: {number} of {:?}",
                    of_b.storage_status()
                );
            }
        }
    }
}

/// An unreadable folder beside the own one may have the decisive data: no topic begins without it.
#[test]
fn unreadable_log_folder_is_reported_and_awaited() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let here = logs(&folder, "logs");
    let beside = here.join("domain-0").join("7");
    std::fs::create_dir_all(&beside).unwrap();
    std::fs::write(beside.join("identity"), "nobody's").unwrap();
    let a = join(&folder, Some(&here));
    let topic = marks(&a, false);
    let reader = a.reader(&topic).reliable_all().create().unwrap();
    let failed = |log: Option<LogCondition>| matches!(log, Some(LogCondition::Failed(_)));
    until("it says so", || topic.storage_status().is_some_and(|status| failed(status.log)));
    assert_eq!(topic.storage_status().unwrap().waits_for.len(), 1);
    drop((reader, topic, a));
    std::fs::remove_dir_all(here).unwrap();
    domain.assert_empty();
}

/// Ten thousand bytes, with a key.
#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
struct Frame {
    #[dds(key)]
    camera: u64,
    number: u64,
    bytes: [u64; 1250],
}

/// Old samples are removed from the log, but not those that late joiners need, even after all
/// participants have left; a request for removed samples is refused with the reason.
#[test]
fn log_drops_old_samples_and_keeps_the_state() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let here = logs(&folder, "logs");
    let topic_of = |participant: &DomainParticipant| {
        let topic = participant.topic::<Frame>("Frames").persistent();
        topic.log_retention(LogRetention::new().samples(100)).create().unwrap()
    };
    let frame = |number: u64| {
        // The first sample is never replaced.
        let camera = if number == 0 { 99 } else { number % 5 };
        Frame { camera, number, bytes: [!number; 1250] }
    };
    const COUNT: u64 = 15_000;
    let at_first = SystemTime::now();
    {
        let a = join(&folder, Some(&here));
        let topic = topic_of(&a);
        let reader = a.reader(&topic).reliable_all().create().unwrap();
        let writer = a.writer(&topic).max_blocking_time(Duration::from_millis(5));
        let writer = writer.autodispose_unregistered_instances(false).create().unwrap();
        reader.wait_for_historical_data(SOON).unwrap();
        for number in 0..COUNT {
            loop {
                while reader.take_next_data(Timeout::NOW).unwrap().is_some() {}
                match writer.write(&frame(number)) {
                    Err(DdsError::Timeout(_)) => {}
                    other => break other.unwrap(),
                }
            }
        }
        writer.wait_for_acknowledgments(SOON).unwrap();
        // Old durable samples are removed when the log's thread has time for it.
        until("the log drops what is old", || reader.past(Since::Sample(1)).is_err());
        let error = reader.past(Since::Sample(1)).err().unwrap().to_string();
        assert!(error.contains("log_retention"), "{error}");
        let from: u64 =
            error.rsplit("sample ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
        let past = reader.past(Since::Sample(from)).unwrap().map(|read| read.unwrap());
        let past: Vec<u64> =
            past.map(|(place, frame)| frame.data().unwrap().number + 1 - place).collect();
        assert!(past.len() as u64 == COUNT + 1 - from && past.iter().all(|differ| *differ == 0));
        assert!(from > 1_000 && past.len() >= 100, "from {from}");
        assert!(reader.past(Since::Time(at_first)).is_err(), "some of it is gone");
        assert!(reader.state_at(at_first).is_err());
    }
    let a = join(&folder, Some(&here));
    let topic = topic_of(&a);
    let reader = a.reader(&topic).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    let mut state: Vec<u64> =
        reader.take_data(.., SOON).unwrap().map(|frame| frame.number).collect();
    state.sort_unstable();
    assert_eq!(state, [0, COUNT - 5, COUNT - 4, COUNT - 3, COUNT - 2, COUNT - 1]);
    assert_eq!(topic.storage_status().unwrap().samples, COUNT);
    let late = a.topic::<Frame>("Others").persistent().keep_all();
    let error = late.log_retention(LogRetention::new().samples(1)).create().err().unwrap();
    assert!(error.to_string().contains("keep less"), "{error}");
    drop((reader, topic, a));
    std::fs::remove_dir_all(here).unwrap();
    domain.assert_empty();
}

/// DURABILITY_SERVICE.service_cleanup_delay of a topic that returns from its log: forgotten
/// instances do not reappear; instances that ended more recently do, and are forgotten
/// later (I-240).
#[test]
fn forgotten_instance_does_not_return_from_the_log() {
    const COUNT: u32 = 10_000;
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let here = logs(&folder, "logs");
    let topic_of = |participant: &DomainParticipant| {
        let service = DurabilityServiceQosPolicy {
            service_cleanup_delay: Duration::from_secs(100).into(),
            ..DurabilityServiceQosPolicy::default()
        };
        let topic = participant.topic::<Reading>("Readings").persistent();
        topic.durability_service(service).create().unwrap()
    };
    let begin = SystemTime::now() - Duration::from_secs(2 * u64::from(COUNT));
    let at = |seconds: u32| begin + Duration::from_secs(seconds.into());
    let of = |sensor| Reading { sensor, value: 1 };
    // The notice of a disposing writer's end would be later than all samples.
    let writer_of = |participant: &DomainParticipant, topic: &Topic<Reading>| {
        let writer = participant.writer(topic).autodispose_unregistered_instances(false);
        writer.max_blocking_time(SOON).create().unwrap()
    };
    let lives = |topic: &Topic<Reading>, participant: &DomainParticipant| {
        let reader = participant.reader(topic).reliable_all().create().unwrap();
        reader.wait_for_historical_data(SOON).unwrap();
        let taken = reader.take(.., SOON).unwrap();
        taken.map(|it| (it.key_value().sensor, it.data().is_some())).collect::<Vec<_>>()
    };
    // Disposed one second apart, the last at COUNT: those of the last 100 seconds are kept.
    let left: Vec<(u32, bool)> =
        [(0, true)].into_iter().chain((COUNT - 99..=COUNT).map(|sensor| (sensor, false))).collect();
    {
        let a = join(&folder, Some(&here));
        let topic = topic_of(&a);
        let writer = writer_of(&a, &topic);
        writer.write_w_timestamp(&of(0), at(0)).unwrap();
        for sensor in 1..=COUNT {
            writer.write_w_timestamp(&of(sensor), at(sensor)).unwrap();
            writer.dispose_w_timestamp(&of(sensor), at(sensor)).unwrap();
        }
        writer.wait_for_acknowledgments(SOON).unwrap();
        assert_eq!(topic.storage_status().unwrap().kept, left.len() as u64);
        assert_eq!(lives(&topic, &a), left);
    }
    for round in 0..2 {
        let a = join(&folder, Some(&here));
        let topic = topic_of(&a);
        let writer = writer_of(&a, &topic);
        let reader = a.reader(&topic).reliable_all().create().unwrap();
        reader.wait_for_historical_data(SOON).unwrap();
        let status = topic.storage_status().unwrap();
        let left = &left[round * 50..];
        let left: Vec<_> = match round {
            0 => left.to_vec(),
            _ => [(0, true)].into_iter().chain(left[1..].iter().copied()).collect(),
        };
        assert_eq!(status.kept, left.len() as u64, "round {round}");
        let mut told = lives(&topic, &a);
        told.sort_unstable();
        // The writer of the previous run is gone.
        told.retain(|it| *it != (0, false));
        assert_eq!(told, left, "round {round}");
        writer.write_w_timestamp(&of(0), at(COUNT + 50)).unwrap();
        until("what is over for long is forgotten", || topic.storage_status().unwrap().kept == 51);
    }
    std::fs::remove_dir_all(here).unwrap();
    domain.assert_empty();
}
