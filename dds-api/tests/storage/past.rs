//! The history of a topic, read by participants that keep no log of it: they ask others.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crate::support::{CheckedSample, SOON, TestDomain, until};
use dds_api::prelude::*;
use dds_api::subscription::Since;

/// More samples than fit in one answer.
const MANY: u64 = 10_000;

/// Returns a folder for logs.
fn logs(folder: &Path, name: &str) -> PathBuf {
    let logs = folder.parent().unwrap_or(folder).join(name);
    std::fs::create_dir_all(&logs).unwrap();
    logs
}

fn config(folder: &Path, logs: Option<&Path>) -> ParticipantConfig {
    let config = ParticipantConfig::new().runtime_dir(folder);
    match logs {
        Some(logs) => config.log_folder(logs),
        None => config,
    }
}

fn join(folder: &Path, logs: Option<&Path>) -> DomainParticipant {
    DomainParticipant::with_config(0, config(folder, logs)).unwrap()
}

fn marks(participant: &DomainParticipant) -> Topic<CheckedSample> {
    participant.topic::<CheckedSample>("Marks").persistent().keep_last(1).create().unwrap()
}

fn write(
    participant: &DomainParticipant,
    topic: &Topic<CheckedSample>,
    numbers: std::ops::Range<u64>,
) {
    let writer = participant.writer(topic).memory(1 << 20).in_flight(4096);
    let writer = writer.max_blocking_time(SOON).create().unwrap();
    numbers.for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    writer.wait_for_acknowledgments(SOON).unwrap();
}

fn both_keep_logs(topic: &Topic<CheckedSample>) {
    until("both keep logs", || topic.storage_status().is_some_and(|status| status.logs == 2));
}

#[test]
fn history_read_continues_at_another_log_keeper_when_one_leaves() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    for leaves in 0..2 {
        let roots = [logs(&folder, "here"), logs(&folder, "there")];
        let log_owners = roots.each_ref().map(|root| join(&folder, Some(root)));
        let topics = log_owners.each_ref().map(marks);
        let readers = [0, 1]
            .map(|at| log_owners[at].reader(&topics[at]).reliable().keep_last(1).create().unwrap());
        both_keep_logs(&topics[0]);
        write(&log_owners[0], &topics[0], 0..MANY);
        let without = join(&folder, None);
        let topic = marks(&without);
        let reader = without.reader(&topic).reliable_all().create().unwrap();
        reader.wait_for_historical_data(SOON).unwrap();
        both_keep_logs(&topic);
        let mut past = reader.past(Since::Sample(1)).unwrap();
        let mut seen: Vec<(u64, u64)> = Vec::new();
        let mut take = |count: usize| {
            for read in past.by_ref().take(count) {
                let (place, sample) = read.unwrap();
                let data = sample.data().unwrap();
                data.assert_whole();
                seen.push((place, data.number));
            }
        };
        take(10);
        // Either of the two may have been asked; both are tried.
        let (mut log_owners, mut topics, mut readers) =
            (log_owners.map(Some), topics.map(Some), readers.map(Some));
        (readers[leaves], topics[leaves]) = (None, None);
        log_owners[leaves] = None;
        take(usize::MAX);
        assert_eq!(seen, (0..MANY).map(|number| (number + 1, number)).collect::<Vec<_>>());
        // The same result as for a participant with a log, from a time on and at a time.
        let other = readers[1 - leaves].as_ref().unwrap();
        let number = |read: DdsResult<(u64, Sample<CheckedSample>)>| {
            read.map(|(place, sample)| (place, sample.data().unwrap().number)).unwrap()
        };
        let middle = other.past(Since::Sample(MANY / 2)).unwrap().next().unwrap().unwrap();
        let time = middle.1.info().source_timestamp;
        let [ours, theirs] = [&reader, other].map(|reader| {
            let past: Vec<_> = reader.past(Since::Time(time)).unwrap().map(number).collect();
            let state: Vec<_> =
                reader.state_at(time).unwrap().into_iter().map(|(at, _)| at).collect();
            (past, state)
        });
        assert_eq!(ours, theirs);
        assert!(ours.0.len() as u64 >= MANY / 2 && ours.1.len() == 1, "{}", ours.0.len());
        let error = reader.past(Since::Sample(MANY + 100)).map(drop).unwrap_err();
        assert!(matches!(error, DdsError::BadParameter(_)), "{error}");
        drop((reader, topic, without, readers, topics, log_owners));
        roots.iter().for_each(|root| std::fs::remove_dir_all(root).unwrap());
    }
    domain.assert_empty();
}

/// Number of samples of a log whose completion takes many times as long as a call.
const LONG: u64 = 100_000;

#[test]
fn past_is_whole_while_the_own_log_is_being_completed() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let root = logs(&folder, "here");
    let first = join(&folder, Some(&root));
    let of_first = marks(&first);
    let kept = first.reader(&of_first).reliable().keep_last(1).create().unwrap();
    write(&first, &of_first, 0..LONG);
    let mut readings_before = 0;
    // The newcomer's log is completed from the one beside it in the same root. A slow machine may
    // complete the log before the first read; then another newcomer is tried.
    for newcomer in 0..20 {
        let second = join(&folder, Some(&root));
        let topic = marks(&second);
        let reader = second.reader(&topic).reliable().keep_last(1).create().unwrap();
        let is_complete = || topic.storage_status().is_some_and(|status| status.logs == 2);
        for reading in 0.. {
            let before = !is_complete();
            if reading % 2 == 0 {
                let past = reader.past(Since::Sample(1)).unwrap();
                let numbers: Vec<u64> =
                    past.map(|read| read.unwrap().1.data().unwrap().number).collect();
                assert_eq!(numbers.len() as u64, LONG, "reading {reading} of {newcomer}");
                assert!(numbers.iter().copied().eq(0..LONG));
            } else {
                let state = reader.state_at(SystemTime::now()).unwrap();
                let numbers: Vec<u64> =
                    state.iter().map(|(_, sample)| sample.data().unwrap().number).collect();
                assert_eq!(numbers, [LONG - 1], "reading {reading} of {newcomer}");
            }
            if !before {
                break;
            }
            readings_before += 1;
        }
        drop((reader, topic, second));
        if readings_before > 0 {
            break;
        }
    }
    assert!(readings_before > 0, "no reading began before a log was complete");
    drop((kept, of_first, first));
    std::fs::remove_dir_all(root).unwrap();
    domain.assert_empty();
}

/// A participant alone waits until its own log is known to be complete, and reads the history
/// from it.
#[test]
fn past_is_whole_at_once_after_a_restart() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let root = logs(&folder, "here");
    for round in 1..=3 {
        let participant = join(&folder, Some(&root));
        let topic = marks(&participant);
        let reader = participant.reader(&topic).reliable().keep_last(1).create().unwrap();
        let numbers = |reader: &DataReader<CheckedSample>| -> Vec<u64> {
            let past = reader.past(Since::Sample(1)).unwrap();
            past.map(|read| read.unwrap().1.data().unwrap().number).collect()
        };
        let before: Vec<u64> = (0..(round - 1) * MANY).collect();
        assert_eq!(numbers(&reader), before);
        write(&participant, &topic, (round - 1) * MANY..round * MANY);
        assert_eq!(numbers(&reader), (0..round * MANY).collect::<Vec<u64>>());
    }
    std::fs::remove_dir_all(root).unwrap();
    domain.assert_empty();
}

#[test]
fn history_request_without_any_log_is_refused() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let (a, b) = (join(&folder, None), join(&folder, None));
    let (topic, other) = (marks(&a), marks(&b));
    let (reader, _other) = (
        a.reader(&topic).reliable_all().create().unwrap(),
        b.reader(&other).reliable_all().create().unwrap(),
    );
    for error in [
        reader.past(Since::Sample(1)).map(drop).unwrap_err(),
        reader.state_at(SystemTime::now()).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, DdsError::PreconditionNotMet(_)), "{error}");
        assert!(error.to_string().contains("squall store"), "{error}");
    }
}

/// A call waits for a log keeper that no longer acts for its timeout, and not longer.
#[test]
fn history_request_to_unresponsive_log_keeper_times_out() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let root = logs(&folder, "logs");
    let patient = |config: ParticipantConfig| config.member_timeout(Timeout::FOREVER);
    let log_owner = patient(config(&folder, Some(&root))).caller_drives();
    let log_owner = DomainParticipant::with_config(0, log_owner).unwrap();
    let of_keeper = marks(&log_owner);
    let kept = log_owner.reader(&of_keeper).reliable().keep_last(1).create().unwrap();
    let stands_still = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stands_still.load(Ordering::Acquire) {
                kept.take_data(.., Timeout::millis(5)).unwrap();
            }
        });
        let asker = DomainParticipant::with_config(0, patient(config(&folder, None))).unwrap();
        let topic = marks(&asker);
        let reader = asker.reader(&topic).reliable_all().create().unwrap();
        write(&asker, &topic, 0..MANY);
        let mut past = reader.past(Since::Sample(1)).unwrap().within(Timeout::millis(200));
        stands_still.store(true, Ordering::Release);
        std::thread::sleep(std::time::Duration::from_millis(50));
        let error = past.find_map(Result::err).unwrap();
        assert!(matches!(error, DdsError::Timeout(_)), "{error}");
        assert!(past.next().is_none(), "it is over then");
        stands_still.store(false, Ordering::Release);
        scope.spawn(|| {
            while !stands_still.load(Ordering::Acquire) {
                kept.take_data(.., Timeout::millis(5)).unwrap();
            }
        });
        drop((past, reader, topic, asker));
        stands_still.store(true, Ordering::Release);
    });
    drop((kept, of_keeper, log_owner));
    std::fs::remove_dir_all(root).unwrap();
    domain.assert_empty();
}
