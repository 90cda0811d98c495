//! A participant without free descriptors stays a member; a newcomer is refused, with the reason.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Actor, CheckedSample, SOON, TestDomain, listen, role, say, until};
use dds_api::prelude::*;
use rustix::process::{Resource, getrlimit, setrlimit};

fn participant(folder: &Path) -> DdsResult<DomainParticipant> {
    DomainParticipant::with_config(0, ParticipantConfig::new().runtime_dir(folder))
}

/// Lowers the limit, so that the remaining descriptors can be opened.
fn limit_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let current = Some(limit.maximum.unwrap_or(256).min(256));
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current, ..limit }).unwrap();
}

/// Opens files until no descriptor is left.
fn open_files() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "newcomer" => return join_with_few_descriptors(&folder),
        "limited" => return join_under_low_limits(&folder),
        _ => {}
    }
    let participant = participant(&folder).unwrap();
    let topic = participant.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let mut files = Vec::new();
    say("ready");
    while let Some(order) = listen() {
        match order.as_str() {
            "open files" => {
                limit_descriptors();
                files.extend(open_files());
                say("none left");
            }
            "close files" => {
                files.clear();
                say("closed");
            }
            _ => {
                let sample = reader.take_next_data(SOON).unwrap().expect("it was written");
                say(&format!("{} in a view of {}", sample.number, participant.view().1));
            }
        }
    }
}

/// Joins under limits that leave fewer descriptors than a whole group takes, and says whether each
/// join failed at once with the numbers.
fn join_under_low_limits(folder: &Path) {
    let limit = getrlimit(Resource::Nofile);
    let mut refused = 0;
    for current in [24, 28, 34, 64, 128] {
        setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(current), ..limit })
            .unwrap();
        let begin = Instant::now();
        let error = participant(folder).map(drop).unwrap_err();
        assert!(matches!(error, DdsError::OutOfResources(_)), "limit {current}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("limit of {current} open files")), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(1), "{text}");
        refused += 1;
    }
    say(&format!("{refused} refused"));
}

/// Joins with no free descriptor, then with one, and so on, until a participant is created, which
/// must then become a member. Says how many joins failed, and the longest time that one took.
fn join_with_few_descriptors(folder: &Path) {
    limit_descriptors();
    let (mut failed, mut longest) = (0, Duration::ZERO);
    for free in 0.. {
        let mut files = open_files();
        files.truncate(files.len() - free);
        let begin = Instant::now();
        let joined = participant(folder);
        longest = longest.max(begin.elapsed());
        match joined {
            Ok(participant) => {
                until("the participant is a member", || participant.view().1 == 2);
                break;
            }
            Err(DdsError::OutOfResources(_)) => failed += 1,
            // The file of profiles comes before the join, and its error names the cause.
            Err(DdsError::BadParameter(why)) if why.contains("Too many open files") => {}
            Err(error) => panic!("with {free} free descriptors: {error:?}"),
        }
    }
    say(&format!("{failed} {}", longest.as_millis()));
}

fn ask(actor: &mut Actor, order: &str) -> String {
    actor.tell(order);
    actor.hear()
}

#[test]
fn participant_is_refused_when_member_has_no_free_descriptors() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let first = participant(&folder).unwrap();
    let topic = first.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let writer = first.writer(&topic).create().unwrap();
    let mut child = Actor::start(module_path!(), "member", &domain, 0);
    assert_eq!(child.hear(), "ready");
    writer.wait_for_readers(1, SOON).unwrap();
    assert_eq!(ask(&mut child, "open files"), "none left");
    for number in 0..5 {
        let refused = participant(&folder).map(|_| ()).unwrap_err().to_string();
        println!("{refused}");
        assert!(refused.contains(&format!("process {}", child.pid())), "{refused}");
        assert!(refused.contains("no descriptors left"), "{refused}");
        assert!(refused.contains("ulimit -n"), "{refused}");
        writer.write(&CheckedSample::new(number)).unwrap();
        assert_eq!(ask(&mut child, "take"), format!("{number} in a view of 2"));
    }
    assert_eq!(ask(&mut child, "close files"), "closed");
    let second = participant(&folder).unwrap();
    until("all are in one view", || second.view().1 == 3 && first.view().1 == 3);
    let topic = second.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let writer = second.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&CheckedSample::new(7)).unwrap();
    assert_eq!(ask(&mut child, "take"), "7 in a view of 3");
    child.kill();
}

/// A process that could not meet a whole group is no member, so it refuses nobody.
#[test]
fn process_with_low_limit_is_refused_at_its_join_and_refuses_nobody() {
    let domain = TestDomain::new();
    let first = participant(&domain.runtime_dir()).unwrap();
    let mut limited = Actor::start(module_path!(), "limited", &domain, 0);
    let others: Vec<_> =
        (0..6).map(|_| participant(&domain.runtime_dir()).expect("nobody refuses it")).collect();
    assert_eq!(limited.hear(), "5 refused");
    until("all are members", || first.view().1 == 1 + others.len());
    limited.finish();
}

/// The member that hands over the state of the group runs, so that no join waits for it.
#[test]
fn join_with_too_few_own_descriptors_fails_at_once_with_the_reason() {
    let domain = TestDomain::new();
    let first = participant(&domain.runtime_dir()).unwrap();
    until("there is a view", || first.view().1 == 1);
    let mut child = Actor::start(module_path!(), "newcomer", &domain, 0);
    let answer = child.hear();
    println!("failed joins, and milliseconds of the longest: {answer}");
    let (failed, longest) = answer.split_once(' ').unwrap();
    assert!(failed.parse::<u32>().unwrap() > 3, "{answer}");
    assert!(longest.parse::<u32>().unwrap() < 3000, "{answer}");
    child.finish();
}
