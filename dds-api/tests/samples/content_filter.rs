//! Content-filtered topics and query conditions: selection of samples by their content.

use std::path::Path;
use std::sync::Arc;

use crate::support::{Actor, SOON, TestDomain, join, listen, role, say};
use dds_api::infrastructure::{GuardCondition, WaitSet};
use dds_api::prelude::*;
use dds_api::subscription::{InstanceState, ReadCondition, States};
use dds_api::topic::ContentFilteredTopic;

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    callsign: String,
    altitude: i32,
}

fn track(callsign: &str, altitude: i32) -> Track {
    Track { callsign: callsign.to_owned(), altitude }
}

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "writer" => act_writer(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Writes samples on order: callsign and altitude.
fn act_writer(folder: &Path) {
    let participant = join(folder);
    let topic = participant.topic::<Track>("Tracks").create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    say("ready");
    while let Some(order) = listen() {
        let (callsign, altitude) = order.split_once(' ').unwrap();
        match altitude.parse() {
            Ok(altitude) => writer.write(&track(callsign, altitude)).unwrap(),
            Err(_) => writer.dispose(&track(callsign, 0)).unwrap(),
        }
    }
}

fn topic_of(participant: &DomainParticipant) -> Topic<Track> {
    participant.topic::<Track>("Tracks").create().unwrap()
}

fn low(participant: &DomainParticipant) -> ContentFilteredTopic<Track> {
    let (topic, expression) = (topic_of(participant), "altitude < %0 AND callsign LIKE 'F-%'");
    participant.content_filtered_topic("Low", &topic, expression, &strings(&["1000"])).unwrap()
}

#[test]
fn reader_of_filtered_topic_receives_only_samples_that_pass() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let low = low(&participant);
    let (some, all) = (
        participant.reader(&low).reliable_all(),
        participant.reader(low.related_topic()).reliable_all(),
    );
    let (some, all) = (some.create().unwrap(), all.create().unwrap());
    let mut actor = Actor::start(module_path!(), "writer", &domain, 0);
    assert_eq!(actor.hear(), "ready");
    all.wait_for_writers(1, SOON).unwrap();
    some.wait_for_writers(1, SOON).unwrap();
    // A filtered-out sample wakes no thread: the reader waits until one passes.
    for told in ["D-A 5", "F-A 1000", "F-A 2000", "F-B 999"] {
        actor.tell(told);
    }
    let next = some.take_next_data(SOON).unwrap().unwrap();
    assert_eq!(*next, track("F-B", 999));
    low.set_expression_parameters(&strings(&["3000"])).unwrap();
    assert_eq!(low.expression_parameters(), ["3000"]);
    actor.tell("F-A 2999");
    actor.tell("F-A 3000");
    assert_eq!(*some.take_next_data(SOON).unwrap().unwrap(), track("F-A", 2999));
    // The end of an instance is reported whatever the filter.
    actor.tell("F-A dispose");
    let over = some.take_next(SOON).unwrap().unwrap();
    assert_eq!(over.info().instance_state, InstanceState::NotAliveDisposed);
    assert!(some.take_next(Timeout::millis(5)).unwrap().is_none());
    assert_eq!(all.take_data(.., SOON).unwrap().count(), 6);
    drop((some, all));
    actor.finish();
}

#[test]
fn a_wrong_expression_is_refused_with_its_place() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = topic_of(&participant);
    let made = participant.content_filtered_topic("Low", &topic, "height < 3", &[]);
    let Err(DdsError::BadParameter(why)) = made else { panic!("it was made") };
    assert!(why.contains("at character 1: `Track` has no member `height`"), "{why}");
    let low = low(&participant);
    let Err(DdsError::BadParameter(why)) = low.set_expression_parameters(&[]) else {
        panic!("it was taken")
    };
    assert!(why.contains("there is no parameter %0"), "{why}");
    assert_eq!(low.expression_parameters(), ["1000"], "all stays as it was");
    let other = domain.join();
    let made = other.content_filtered_topic("Low", &topic, "altitude < 3", &[]);
    assert!(matches!(made, Err(DdsError::PreconditionNotMet(_))));
}

#[test]
fn query_condition_returns_samples_in_its_order() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = topic_of(&participant);
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    for (callsign, altitude) in [("A", 300), ("B", 100), ("C", 5000), ("D", 200)] {
        writer.write(&track(callsign, altitude)).unwrap();
    }
    writer.wait_for_acknowledgments(SOON).unwrap();
    let expression = "altitude < %0 ORDER BY altitude";
    let low = ReadCondition::query(States::any(), expression, &strings(&["1000"])).unwrap();
    assert!(reader.wait_for_condition(&low, SOON).unwrap());
    let names = |samples: &[Sample<Track>]| -> String {
        samples.iter().map(|sample| sample.data().unwrap().callsign.as_str()).collect()
    };
    assert_eq!(names(&reader.read_w_condition(.., &low).unwrap()), "BDA");
    low.set_query_parameters(&strings(&["250"])).unwrap();
    assert_eq!(names(&reader.take_w_condition(.., &low).unwrap()), "BD");
    assert_eq!(low.query_expression().unwrap(), expression);
    assert!(!reader.wait_for_condition(&low, Timeout::NOW).unwrap());
    let plain = ReadCondition::<Track>::new(States::any());
    assert!(matches!(plain.set_query_parameters(&[]), Err(DdsError::PreconditionNotMet(_))));
    assert_eq!(names(&reader.take_w_condition(.., &plain).unwrap()), "AC");
}

#[test]
fn a_wait_set_waits_for_samples_of_several_readers_and_participants() {
    let domain = TestDomain::new();
    let participants = [domain.join(), domain.join()];
    let readers = participants.each_ref().map(|participant| {
        Arc::new(participant.reader(&topic_of(participant)).reliable_all().create().unwrap())
    });
    let low = ReadCondition::query(States::not_read(), "altitude < 1000", &[]).unwrap();
    let there = readers.each_ref().map(|reader| reader.condition(&low));
    let (wait_set, stop) = (WaitSet::new(), GuardCondition::new());
    there.iter().for_each(|condition| wait_set.attach(condition).unwrap());
    wait_set.attach(&stop).unwrap();
    let mut actor = Actor::start(module_path!(), "writer", &domain, 0);
    readers.iter().for_each(|reader| reader.wait_for_writers(1, SOON).unwrap());
    assert_eq!(actor.hear(), "ready");
    // A participant without a waiting thread receives samples as well.
    for (index, reader) in readers.iter().enumerate().cycle().take(6) {
        actor.tell("F-A 5000");
        actor.tell("F-B 10");
        let mut left = vec![0, 1];
        while !left.is_empty() {
            let ready = wait_set.wait(SOON).unwrap();
            left.retain(|&index| {
                let is_there = ready.contains(&there[index]);
                if is_there {
                    assert_eq!(readers[index].take_w_condition(.., &low).unwrap().len(), 1);
                }
                !is_there
            });
        }
        assert!(!there[index].trigger_value());
        assert!(matches!(wait_set.wait(Timeout::millis(2)), Err(DdsError::Timeout(_))));
        assert!(
            !reader.read_data(.., Timeout::NOW).unwrap().is_empty(),
            "the high ones are still there"
        );
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_set.wait(SOON));
        stop.set_trigger_value(true);
        assert!(waiting.join().unwrap().unwrap().contains(stop.as_ref()));
    });
    wait_set.conditions().iter().for_each(|condition| wait_set.detach(condition).unwrap());
    drop((there, readers));
    actor.finish();
}
