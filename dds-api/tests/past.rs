//! The past of a topic, read by participants that keep no log of it: others are asked.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use dds_api::prelude::*;
use dds_api::subscription::Since;
use support::{Mark, Meeting, SOON, until};

/// More than are told at once.
const MANY: u64 = 10_000;

/// A folder for logs.
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

fn marks(participant: &DomainParticipant) -> Topic<Mark> {
    participant.topic::<Mark>("Marks").persistent().keep_last(1).create().unwrap()
}

fn write(participant: &DomainParticipant, topic: &Topic<Mark>, numbers: std::ops::Range<u64>) {
    let writer = participant.writer(topic).memory(1 << 20).in_flight(4096);
    let writer = writer.max_blocking_time(SOON).create().unwrap();
    numbers.for_each(|number| writer.write(&Mark::new(number)).unwrap());
    writer.wait_for_acknowledgments(SOON).unwrap();
}

fn both_keep_logs(topic: &Topic<Mark>) {
    until("both keep logs", || topic.storage_status().is_some_and(|status| status.logs == 2));
}

#[test]
fn who_keeps_no_log_asks_one_that_does_and_then_another() {
    let meeting = Meeting::new();
    let folder = meeting.runtime_dir();
    for leaves in 0..2 {
        let roots = [logs(&folder, "here"), logs(&folder, "there")];
        let keepers = roots.each_ref().map(|root| join(&folder, Some(root)));
        let topics = keepers.each_ref().map(marks);
        let readers =
            [0, 1].map(|at| keepers[at].reader(&topics[at]).keep_last(1).create().unwrap());
        both_keep_logs(&topics[0]);
        write(&keepers[0], &topics[0], 0..MANY);
        let without = join(&folder, None);
        let topic = marks(&without);
        let reader = without.reader(&topic).create().unwrap();
        reader.wait_for_historical_data(SOON).unwrap();
        both_keep_logs(&topic);
        let mut past = reader.past(Since::Sample(1)).unwrap();
        let mut seen: Vec<(u64, u64)> = Vec::new();
        let mut take = |count: usize| {
            for read in past.by_ref().take(count) {
                let (place, mark) = read.unwrap();
                mark.assert_whole();
                seen.push((place, mark.number));
            }
        };
        take(10);
        // One of the two was asked; both are tried.
        let (mut keepers, mut topics, mut readers) =
            (keepers.map(Some), topics.map(Some), readers.map(Some));
        (readers[leaves], topics[leaves]) = (None, None);
        keepers[leaves] = None;
        take(usize::MAX);
        assert_eq!(seen, (0..MANY).map(|number| (number + 1, number)).collect::<Vec<_>>());
        // The same as whoever has a log reads, from a time on and at a time.
        let other = readers[1 - leaves].as_ref().unwrap();
        let number = |read: DdsResult<(u64, Sample<Mark>)>| {
            read.map(|(place, mark)| (place, mark.number)).unwrap()
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
        drop((reader, topic, without, readers, topics, keepers));
        roots.iter().for_each(|root| std::fs::remove_dir_all(root).unwrap());
    }
    meeting.assert_empty();
}

#[test]
fn where_nobody_keeps_a_log_it_is_said() {
    let meeting = Meeting::new();
    let folder = meeting.runtime_dir();
    let (a, b) = (join(&folder, None), join(&folder, None));
    let (topic, other) = (marks(&a), marks(&b));
    let (reader, _other) = (a.reader(&topic).create().unwrap(), b.reader(&other).create().unwrap());
    for error in [
        reader.past(Since::Sample(1)).map(drop).unwrap_err(),
        reader.state_at(SystemTime::now()).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, DdsError::PreconditionNotMet(_)), "{error}");
        assert!(error.to_string().contains("squall store"), "{error}");
    }
}

/// One that keeps a log and does nothing any more is waited for as long as it was said, and not longer.
#[test]
fn one_that_does_not_answer_is_not_waited_for_for_ever() {
    let meeting = Meeting::new();
    let folder = meeting.runtime_dir();
    let root = logs(&folder, "logs");
    let patient = |config: ParticipantConfig| config.member_timeout(Timeout::FOREVER);
    let keeper = patient(config(&folder, Some(&root))).caller_drives();
    let keeper = DomainParticipant::with_config(0, keeper).unwrap();
    let of_keeper = marks(&keeper);
    let kept = keeper.reader(&of_keeper).keep_last(1).create().unwrap();
    let stands_still = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stands_still.load(Ordering::Acquire) {
                kept.take(.., Timeout::millis(5)).unwrap();
            }
        });
        let asker = DomainParticipant::with_config(0, patient(config(&folder, None))).unwrap();
        let topic = marks(&asker);
        let reader = asker.reader(&topic).create().unwrap();
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
                kept.take(.., Timeout::millis(5)).unwrap();
            }
        });
        drop((past, reader, topic, asker));
        stands_still.store(true, Ordering::Release);
    });
    drop((kept, of_keeper, keeper));
    std::fs::remove_dir_all(root).unwrap();
    meeting.assert_empty();
}
