//! LATENCY_BUDGET: sleeping readers may sleep on for a while after a write (I-202).

use std::time::{Duration, Instant};

use crate::support::{
    Actor, CheckedSample, SOON, TestDomain, join, listen, role, say, seed, until,
};
use dds_api::infrastructure::StatusKind;
use dds_api::prelude::*;
use dds_api::qos::{LatencyBudgetQosPolicy, TopicQos};

const LEVELS: [&str; 3] = ["unordered", "atomic", "kept"];
/// Longer than any delay of bells.
const HOUR: Duration = Duration::from_secs(3600);
/// Maximum delay of bells.
const LONGEST: Duration = Duration::from_millis(50);

/// Creates a topic that offers and requests a budget of an hour.
fn topic(participant: &DomainParticipant, level: &str) -> Topic<CheckedSample> {
    let latency_budget = LatencyBudgetQosPolicy { duration: HOUR.into() };
    let topic = participant
        .topic::<CheckedSample>(level)
        .qos(&TopicQos { latency_budget, ..TopicQos::default() });
    let topic = match level {
        "unordered" => topic,
        "atomic" => topic.atomic(),
        _ => topic.transient_local().keep_all(),
    };
    topic.create().unwrap()
}

fn set_budget(writer: &DataWriter<CheckedSample>, budget: Duration) {
    let mut qos = writer.qos();
    qos.latency_budget.duration = budget.into();
    writer.set_qos(&qos).unwrap();
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    assert_eq!(role, "writer");
    let participant = join(&folder);
    let level = LEVELS[seed() as usize];
    let writer = participant.writer(&topic(&participant, level)).create().unwrap();
    assert_eq!(writer.qos().latency_budget.duration, HOUR.into());
    writer.wait_for_readers(1, SOON).unwrap();
    say("ready");
    let mut number = 0;
    let mut write = || {
        writer.write(&CheckedSample::new(number)).unwrap();
        number += 1;
    };
    while let Some(word) = listen() {
        match word.as_str() {
            // This process does nothing in the meantime.
            "one" => write(),
            "many" => {
                for _ in 0..100 {
                    write();
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            "acknowledged" => {
                let rounds = (0..20).map(|_| {
                    std::thread::sleep(Duration::from_millis(3));
                    write();
                    let began = Instant::now();
                    writer.wait_for_acknowledgments(SOON).unwrap();
                    began.elapsed()
                });
                say(&rounds.min().unwrap().as_micros().to_string());
            }
            "none" => set_budget(&writer, Duration::ZERO),
            other => panic!("no such word: {other}"),
        }
        say("done");
    }
}

/// Creates a writer in a process of its own, and a reader here.
fn pair(domain: &TestDomain, level: &str) -> (DomainParticipant, DataReader<CheckedSample>, Actor) {
    let here = domain.join();
    let reader = here.reader(&topic(&here, level)).reliable_all().create().unwrap();
    let seed = LEVELS.iter().position(|it| *it == level).unwrap();
    let mut actor = Actor::start(module_path!(), "writer", domain, seed as u64);
    assert_eq!(actor.hear(), "ready");
    (here, reader, actor)
}

fn sleeps(participant: &DomainParticipant) -> u64 {
    participant.counters().parks()
}

/// A thread waits for each sample, and sleeps until it is woken: no other write could wake it.
#[test]
fn sleeping_reader_receives_sample_that_no_other_write_follows() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, reader, mut actor) = pair(&domain, level);
        for number in 0..10 {
            std::thread::scope(|scope| {
                let before = sleeps(&here);
                let takes = scope.spawn(|| reader.take_next_data(SOON).unwrap());
                until("the reader sleeps", || sleeps(&here) > before);
                actor.tell("one");
                assert_eq!(actor.hear(), "done");
                let sample = takes.join().unwrap().expect("it never comes");
                assert_eq!(*sample, CheckedSample::new(number), "{level}");
            });
        }
        drop(reader);
        actor.finish();
    }
}

/// Returns how often a participant sleeps while it takes a hundred samples written in a row.
fn sleeps_in_round(
    here: &DomainParticipant,
    reader: &DataReader<CheckedSample>,
    actor: &mut Actor,
) -> u64 {
    let before = sleeps(here);
    actor.tell("many");
    let mut taken = 0;
    while taken < 100 {
        taken += reader.take_data(.., SOON).unwrap().count();
    }
    assert_eq!(actor.hear(), "done");
    sleeps(here) - before
}

/// A reader that takes in a loop sleeps once for many samples; without a budget, once for
/// nearly each.
#[test]
fn readers_that_sleep_are_woken_once_for_many_samples() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, reader, mut actor) = pair(&domain, level);
        until("it is woken seldom", || sleeps_in_round(&here, &reader, &mut actor) <= 30);
        actor.tell("none");
        assert_eq!(actor.hear(), "done");
        until("it is woken often", || sleeps_in_round(&here, &reader, &mut actor) >= 50);
        drop(reader);
        actor.finish();
    }
}

/// Each of these calls would take as long as bells are delayed.
#[test]
fn wait_for_acknowledgments_is_not_delayed_by_latency_budget() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (_here, reader, mut actor) = pair(&domain, level);
        std::thread::scope(|scope| {
            let takes = scope.spawn(|| {
                for number in 0..20 {
                    assert_eq!(
                        *reader.take_next_data(SOON).unwrap().unwrap(),
                        CheckedSample::new(number)
                    );
                }
            });
            actor.tell("acknowledged");
            let fastest = Duration::from_micros(actor.hear().parse().unwrap());
            assert_eq!(actor.hear(), "done");
            assert!(fastest < LONGEST / 2, "{level}: {fastest:?}");
            takes.join().unwrap();
        });
        drop(reader);
        actor.finish();
    }
}

/// A writer that offers a larger budget than requested is not matched, as for any policy.
#[test]
fn latency_budget_larger_than_requested_prevents_match() {
    let domain = TestDomain::new();
    let here = domain.join();
    let topic = here.topic::<CheckedSample>("Marks").create().unwrap();
    let writer = here.writer(&topic).create().unwrap();
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    set_budget(&writer, HOUR);
    until("they part", || writer.matched_readers() == 0);
    assert_eq!(reader.requested_incompatible_qos_status().total_count, 1);
    let condition = reader.status_condition();
    condition.set_enabled_statuses(StatusKind::SubscriptionMatched);
    set_budget(&writer, Duration::ZERO);
    writer.wait_for_readers(1, SOON).unwrap();
}
