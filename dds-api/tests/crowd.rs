//! A domain with as many participants as there can be, and one more.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use dds_api::prelude::*;
use support::{Actor, Meeting, listen, role, say, until};

/// The most participants of a domain, in so many processes: each has a descriptor or two for every other one.
const MOST: usize = 64;
const PROCESSES: usize = 16;

/// Nobody is missed: so many on one machine may be slow.
fn config(folder: &Path) -> ParticipantConfig {
    ParticipantConfig::new().runtime_dir(folder).member_timeout(Timeout::FOREVER)
}

/// What a child process does; nothing when the test program is run as such.
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

#[test]
fn the_participant_that_is_one_too_many_is_told_so() {
    let meeting = Meeting::new();
    let mut actors = Vec::new();
    for seed in 0..PROCESSES as u64 {
        let mut actor = Actor::start("crowd", &meeting, seed);
        assert_eq!(actor.hear(), "there");
        actors.push(actor);
    }
    let error = DomainParticipant::with_config(0, config(&meeting.runtime_dir())).err().unwrap();
    let text = error.to_string();
    assert!(matches!(error, DdsError::OutOfResources(_)), "{text}");
    assert!(text.contains("domain 0 has 64 participants"), "{text}");
    // With one less there is a place.
    actors[0].tell("go");
    assert_eq!(actors[0].hear(), "one less");
    let participant = DomainParticipant::with_config(0, config(&meeting.runtime_dir())).unwrap();
    until("it is let in", || participant.view().1 == MOST);
    drop(participant);
    actors.into_iter().for_each(Actor::finish);
    meeting.assert_empty();
}
