//! A domain with the maximum number of participants, and one more.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use dds_api::prelude::*;
use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::link::{Founding, Link};
use support::{Actor, CheckedSample, TestDomain, listen, role, say, until};

/// Maximum number of participants of a domain, in as many processes: each has one or two
/// descriptors for every other one.
const MOST: usize = 64;
const PROCESSES: usize = 16;

/// The timeouts are long, because many processes on one machine may be slow.
fn config(folder: &Path) -> ParticipantConfig {
    ParticipantConfig::new().runtime_dir(folder).member_timeout(Timeout::FOREVER)
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    assert_eq!(role, "crowd");
    let mut crowd: Vec<_> = (0..MOST / PROCESSES)
        .map(|_| DomainParticipant::with_config(0, config(&folder)).unwrap())
        .collect();
    for participant in &crowd {
        until("it is let in", || participant.view().0 > 0);
    }
    say("there");
    while listen().is_some() {
        crowd.pop();
        say("one less");
    }
}

fn assert_told_so(error: &DdsError) {
    let text = error.to_string();
    assert!(matches!(error, DdsError::OutOfResources(_)), "{text}");
    assert!(text.contains("domain 0 has 64 participants"), "{text}");
}

/// Members that have only joined and do not run.
#[test]
fn participant_beyond_domain_limit_is_refused_with_reason() {
    let test_domain = TestDomain::new();
    let domain = || {
        let mut config = ShmConfig::new("domain-0".to_owned());
        config.runtime_dir = Some(test_domain.runtime_dir());
        ShmLink::join(config).unwrap()
    };
    let mut members: Vec<ShmLink> = (0..MOST).map(|_| domain()).collect();
    let arbiter = |index: usize| members[index].arbiter().unwrap();
    let Founding::Founded(group) = arbiter(0).found().unwrap() else { panic!("nobody was there") };
    for index in 0..MOST {
        assert!(index == 0 || arbiter(index).found().unwrap() == Founding::Exists(group));
        assert!(arbiter(index).entered(group, 1, index as u8));
    }
    let join = || DomainParticipant::with_config(0, config(&test_domain.runtime_dir()));
    assert_told_so(&join().err().unwrap());
    // With one member less there is room, although no member here admits the newcomer.
    members.pop();
    let participant = join().unwrap();
    let topic = participant.topic::<CheckedSample>("Marks").create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let error = writer.wait_for_readers(1, Timeout::millis(50)).unwrap_err().to_string();
    assert!(error.contains("has not admitted this participant yet"), "{error}");
    drop((writer, topic, participant, members));
    test_domain.assert_empty();
}

/// Members that run.
#[test]
#[ignore = "keeps two cores busy for half a minute"]
fn participant_beyond_limit_of_running_domain_is_refused_with_reason() {
    let domain = TestDomain::new();
    let mut actors = Vec::new();
    for seed in 0..PROCESSES as u64 {
        let mut actor = Actor::start(module_path!(), "crowd", &domain, seed);
        assert_eq!(actor.hear(), "there");
        actors.push(actor);
    }
    let error = DomainParticipant::with_config(0, config(&domain.runtime_dir())).err().unwrap();
    assert_told_so(&error);
    // With one member less there is room.
    actors[0].tell("go");
    assert_eq!(actors[0].hear(), "one less");
    let participant = DomainParticipant::with_config(0, config(&domain.runtime_dir())).unwrap();
    until("it is let in", || participant.view().1 == MOST);
    drop(participant);
    actors.into_iter().for_each(Actor::finish);
    domain.assert_empty();
}
