//! Views in logs: the last members are awaited, also for topics of which no returned participant
//! has a log.

use std::path::{Path, PathBuf};

use crate::support::{CheckedSample, PATIENCE, SOON, TestDomain, until};
use dds_api::prelude::*;
use derecho_core::log::restart_permission::{RestartPermission, grant};
use derecho_core::log::views::{self, LoggedView, VIEWS};
use derecho_core::log::{LogKey, RecoveryCheck, StreamLog, WallTime, aside, folder};
use derecho_node::logs::LogFolder;

/// Returns a folder for logs.
fn logs(folder: &Path, name: &str) -> PathBuf {
    let logs = folder.parent().unwrap_or(folder).join(name);
    std::fs::create_dir_all(&logs).unwrap();
    logs
}

fn join(folder: &Path, logs: &Path) -> DomainParticipant {
    let config = ParticipantConfig::new().runtime_dir(folder).log_folder(logs);
    DomainParticipant::with_config(0, config).unwrap()
}

fn marks(participant: &DomainParticipant) -> Topic<CheckedSample> {
    participant.topic::<CheckedSample>("Marks").persistent().keep_all().create().unwrap()
}

fn writer_of(
    participant: &DomainParticipant,
    topic: &Topic<CheckedSample>,
) -> DataWriter<CheckedSample> {
    let writer = participant.writer(topic).memory(64 << 10).in_flight(256);
    writer.max_blocking_time(SOON).create().unwrap()
}

/// Returns the last view in the first folder of this root.
fn last_view(root: &Path) -> Option<LoggedView> {
    let mut disk = LogFolder::read(&root.join("domain-0").join("0")).ok()?;
    let owner = folder::owner(&mut disk).ok()??;
    let (log, _) =
        StreamLog::read(&mut disk, LogKey { owner, stream: VIEWS }, RecoveryCheck::Last).ok()?;
    views::last(&log, &mut disk).ok()?
}

fn write(writer: &DataWriter<CheckedSample>, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    writer.wait_for_acknowledgments(SOON).unwrap();
}

/// Takes the given number of samples and returns their numbers.
fn take(reader: &DataReader<CheckedSample>, count: usize) -> Vec<u64> {
    let (mut seen, deadline) = (Vec::new(), std::time::Instant::now() + PATIENCE);
    while seen.len() < count {
        assert!(std::time::Instant::now() < deadline, "{} of {count}", seen.len());
        let some = reader.take_data(.., Timeout::millis(10)).unwrap();
        seen.extend(some.into_iter().map(|sample| sample.number));
    }
    seen
}

#[test]
fn all_members_that_keep_logs_log_views() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let (here, there) = (logs(&folder, "here"), logs(&folder, "there"));
    let mut eras = Vec::new();
    for _ in 0..2 {
        let a = join(&folder, &here);
        until("a view of one is logged", || {
            last_view(&here).is_some_and(|view| {
                !eras.contains(&view.era)
                    && view.members.len() == 1
                    && view.member_logs().count() == 1
            })
        });
        let b = join(&folder, &there);
        let both = |view: &LoggedView| view.members.len() == 2 && view.member_logs().count() == 2;
        for root in [&here, &there] {
            until("both have a view of both", || last_view(root).as_ref().is_some_and(both));
        }
        let (one, other) = (last_view(&here).unwrap(), last_view(&there).unwrap());
        assert_eq!((one.place(), &one.members), (other.place(), &other.members));
        assert!(eras.iter().all(|era| *era < one.era), "each life is a later era");
        assert!(one.members.iter().all(|member| (member.votes, member.weight) != (0, 0)));
        eras.push(one.era);
        drop(a);
        until("it is one alone", || last_view(&there).unwrap().members.len() == 1);
        drop(b);
    }
    for logs in [here, there] {
        std::fs::remove_dir_all(logs).unwrap();
    }
    domain.assert_empty();
}

/// A participant that was in the group, and kept no log of the topic, does not begin the topic
/// again while the participants that did are away.
#[test]
fn topic_unknown_to_returned_members_waits_for_the_last_view() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let (here, there) = (logs(&folder, "here"), logs(&folder, "there"));
    {
        let (a, b) = (join(&folder, &here), join(&folder, &there));
        let of_a = marks(&a);
        let writer = writer_of(&a, &of_a);
        write(&writer, 0..50);
        until("both are logged", || {
            last_view(&there).is_some_and(|it| it.member_logs().count() == 2)
        });
        drop(b);
        write(&writer, 50..100);
    }
    let b = join(&folder, &there);
    let of_b = marks(&b);
    let reader = b.reader(&of_b).reliable_all().create().unwrap();
    let error = reader.wait_for_historical_data(Timeout::millis(300)).unwrap_err().to_string();
    let awaited = of_b.storage_status().unwrap().waits_for;
    assert!(awaited.len() == 1 && error.contains(&awaited[0]), "{error}");
    let a = join(&folder, &here);
    let of_a = marks(&a);
    reader.wait_for_historical_data(SOON).unwrap();
    assert_eq!(take(&reader, 100), (0..100).collect::<Vec<u64>>());
    drop((of_a, a, reader, of_b, b));
    for logs in [here, there] {
        std::fs::remove_dir_all(logs).unwrap();
    }
    domain.assert_empty();
}

/// The operator decides that a topic continues without a log; that log is put aside when it
/// returns, and awaited again later.
#[test]
fn topic_continues_without_a_log_on_the_word_of_the_operator() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let (here, there) = (logs(&folder, "here"), logs(&folder, "there"));
    {
        let (a, b) = (join(&folder, &here), join(&folder, &there));
        let (of_a, of_b) = (marks(&a), marks(&b));
        let (writer, reader) =
            (writer_of(&a, &of_a), b.reader(&of_b).reliable_all().create().unwrap());
        until("both keep logs", || of_b.storage_status().is_some_and(|it| it.logs == 2));
        write(&writer, 0..50);
        drop((reader, of_b, b));
        write(&writer, 50..100);
    }
    let without = last_view(&here).unwrap().members[0].log.unwrap();
    let wait_alone = || {
        let b = join(&folder, &there);
        let of_b = marks(&b);
        let writer = writer_of(&b, &of_b);
        until("it waits", || {
            of_b.storage_status().is_some_and(|it| it.waits_for == [without.to_string()])
        });
        (writer, of_b, b)
    };
    let (writer, of_b, b) = wait_alone();
    let home = there.join("domain-0");
    let after = last_view(&there).unwrap().place();
    let word = RestartPermission {
        without,
        after,
        at: WallTime(1),
        by: "operator".to_owned(),
        damaged: Vec::new(),
    };
    grant(&mut LogFolder::open(&home).unwrap(), word).unwrap();
    write(&writer, 100..120);
    assert_eq!(of_b.storage_status().unwrap().logs, 1);
    // Samples that only A had are in no log; they have been put aside.
    let a = join(&folder, &here);
    let of_a = marks(&a);
    let reader = a.reader(&of_a).reliable_all().create().unwrap();
    let seen = take(&reader, 70);
    assert_eq!(seen, (0..50).chain(100..120).collect::<Vec<u64>>());
    until("both keep logs", || of_b.storage_status().is_some_and(|it| it.logs == 2));
    let mut disk = LogFolder::read(&here.join("domain-0").join("0")).unwrap();
    assert_eq!(aside::asides(&mut disk).unwrap().len(), 1);
    let noted = |view: LoggedView| view.member_logs().any(|log| log == without);
    until("it is noted that it is back", || last_view(&there).is_some_and(noted));
    drop((reader, of_a));
    drop((writer, of_b));
    drop(b);
    drop(a);
    drop(wait_alone());
    for logs in [here, there] {
        std::fs::remove_dir_all(logs).unwrap();
    }
    domain.assert_empty();
}
