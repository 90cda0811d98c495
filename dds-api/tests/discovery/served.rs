//! Promise of a match: from the moment at which it is told, each written sample reaches the reader
//! (I-179). Readers are in new processes, and each writer writes as soon as its match is told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{
    self, Actor, CheckedSample, SOON, TestDomain, listen, role, say, seed, until,
};
use dds_api::infrastructure::{DataWriterListener, PublicationMatchedStatus, StatusKind};
use dds_api::prelude::*;

/// Topics of one participant: as many matches that are told at nearly the same time.
const TOPICS: usize = 16;
/// New processes for each way of telling.
const ROUNDS: u64 = 4;
/// Readers of each topic that follow one another in one participant.
const REPLACEMENTS: u64 = 12;
/// Names of the levels, by the seed of the actor.
const LEVELS: [&str; 4] = ["unordered", "best-effort", "atomic", "kept"];

fn topics(participant: &DomainParticipant, level: usize) -> Vec<Topic<CheckedSample>> {
    let topic = |number| {
        let topic = participant.topic::<CheckedSample>(&format!("Marks {number}"));
        match LEVELS[level] {
            "atomic" => topic.atomic(),
            "kept" => topic.transient_local().keep_all(),
            _ => topic,
        }
        .create()
        .unwrap()
    };
    (0..TOPICS).map(topic).collect()
}

fn readers(participant: &DomainParticipant, level: usize) -> Vec<DataReader<CheckedSample>> {
    let reader = |topic: Topic<CheckedSample>| match LEVELS[level] {
        "best-effort" => participant.reader(&topic).best_effort().keep_all().create().unwrap(),
        // A reader that wants no kept samples relies on the match.
        "kept" => participant.reader(&topic).volatile().reliable_all().create().unwrap(),
        _ => participant.reader(&topic).reliable_all().create().unwrap(),
    };
    topics(participant, level).into_iter().map(reader).collect()
}

/// Numbers of the topics of which the sample with this number does not come.
fn missing(readers: &[DataReader<CheckedSample>], number: u64) -> String {
    let comes = |reader: &DataReader<CheckedSample>| {
        let mut next = || Some(reader.take_next_data(Timeout::secs(5)).unwrap()?.number);
        std::iter::from_fn(&mut next).any(|it| it == number)
    };
    let missing = readers.iter().enumerate().filter(|(_, reader)| !comes(reader));
    format!("missing: {:?}", missing.map(|(topic, _)| topic).collect::<Vec<usize>>())
}

/// Process of the readers. Says the numbers of topics of which no sample came; before that, in the
/// role `telling`, the number of each topic as soon as the reader's match is told. In the role
/// `replacing`, new readers follow at once.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    let there = support::join(&folder);
    if role == "replacing" {
        for number in 1..=REPLACEMENTS {
            let readers = readers(&there, seed() as usize);
            listen().unwrap();
            say(&missing(&readers, number));
        }
        return;
    }
    let readers = readers(&there, seed() as usize);
    if role == "telling" {
        let mut untold: Vec<usize> = (0..TOPICS).collect();
        while !untold.is_empty() {
            untold.retain(|&topic| {
                let is_told = readers[topic].subscription_matched_status().current_count > 0;
                if is_told {
                    say(&topic.to_string());
                }
                !is_told
            });
        }
    }
    // All writers have written.
    listen().unwrap();
    say(&missing(&readers, 1));
    listen();
}

/// Writes as soon as a match is told.
struct AnsweringWriter;

impl DataWriterListener<CheckedSample> for AnsweringWriter {
    fn on_publication_matched(
        &mut self,
        writer: &DataWriter<CheckedSample>,
        status: &PublicationMatchedStatus,
    ) {
        if status.current_count > 0 && status.current_count_change > 0 {
            writer.write(&CheckedSample::new(1)).unwrap();
        }
    }
}

/// Writes for new processes, each writer as soon as its match is told in this way, and checks that
/// all samples come.
fn check(level: usize, how: &str, is_told: impl Fn(&DataWriter<CheckedSample>) -> bool) {
    let domain = TestDomain::new();
    let here = domain.join();
    let writers: Vec<DataWriter<CheckedSample>> =
        topics(&here, level).iter().map(|topic| here.writer(topic).create().unwrap()).collect();
    for writer in &writers {
        writer.status_condition().set_enabled_statuses(StatusKind::PublicationMatched);
        if how == "listener" {
            writer.set_listener(AnsweringWriter, StatusKind::PublicationMatched).unwrap();
        }
    }
    for round in 0..ROUNDS {
        let is_told_by_reader = how == "reader";
        let role = if is_told_by_reader { "telling" } else { "silent" };
        let mut actor = Actor::start(module_path!(), role, &domain, level as u64);
        let mut unwritten: Vec<&DataWriter<CheckedSample>> = writers.iter().collect();
        while !unwritten.is_empty() {
            if is_told_by_reader {
                let topic: usize = actor.hear().parse().unwrap();
                writers[topic].write(&CheckedSample::new(1)).unwrap();
                unwritten.pop();
                continue;
            }
            unwritten.retain(|writer| {
                let is_told = is_told(writer);
                if is_told && how != "listener" {
                    writer.write(&CheckedSample::new(1)).unwrap();
                }
                !is_told
            });
        }
        for writer in &writers {
            writer.wait_for_acknowledgments(SOON).unwrap();
        }
        actor.tell("written");
        assert_eq!(actor.hear(), "missing: []", "{} {how}, process {round}", LEVELS[level]);
        actor.finish();
        until("the readers are gone", || {
            writers.iter().all(|writer| {
                writer.matched_readers() == 0
                    && writer.publication_matched_status().current_count == 0
            })
        });
    }
}

#[test]
fn sample_written_when_status_counts_new_reader_reaches_it() {
    for level in 0..LEVELS.len() {
        check(level, "status", |writer| writer.publication_matched_status().current_count > 0);
    }
}

#[test]
fn sample_written_when_condition_is_true_reaches_new_reader() {
    for level in 0..LEVELS.len() {
        check(level, "condition", |writer| writer.status_condition().trigger_value());
    }
}

#[test]
fn sample_written_when_reader_is_listed_reaches_it() {
    for level in 0..LEVELS.len() {
        check(level, "list", |writer| !writer.matched_subscriptions().is_empty());
    }
}

#[test]
fn sample_written_by_listener_reaches_new_reader() {
    for level in 0..LEVELS.len() {
        check(level, "listener", |writer| writer.matched_readers() > 0);
    }
}

#[test]
fn sample_written_when_new_reader_knows_its_writer_reaches_it() {
    for level in 0..LEVELS.len() {
        check(level, "reader", |_| false);
    }
}

/// A reader that follows another one of its participant is matched anew.
#[test]
fn sample_written_when_replaced_reader_is_counted_reaches_it() {
    for (level, name) in LEVELS.iter().enumerate() {
        let domain = TestDomain::new();
        let here = domain.join();
        let writers: Vec<DataWriter<CheckedSample>> =
            topics(&here, level).iter().map(|topic| here.writer(topic).create().unwrap()).collect();
        let mut actor = Actor::start(module_path!(), "replacing", &domain, level as u64);
        for number in 1..=REPLACEMENTS {
            let mut unwritten: Vec<&DataWriter<CheckedSample>> = writers.iter().collect();
            while !unwritten.is_empty() {
                unwritten.retain(|writer| {
                    let is_told = writer.publication_matched_status().total_count == number;
                    if is_told {
                        writer.write(&CheckedSample::new(number)).unwrap();
                    }
                    !is_told
                });
            }
            actor.tell("written");
            assert_eq!(actor.hear(), "missing: []", "{name}, reader {number}");
        }
        actor.finish();
    }
}

/// All counts of matches are one: none is ahead of another.
#[test]
fn all_counts_of_a_writer_agree_while_readers_come_and_go() {
    let domain = TestDomain::new();
    let here = domain.join();
    let topic = here.topic::<CheckedSample>("Marks").create().unwrap();
    let writer = here.writer(&topic).create().unwrap();
    let _ = writer.publication_matched_status();
    for round in 1..=8 {
        let there = domain.join();
        let topic = there.topic::<CheckedSample>("Marks").create().unwrap();
        let reader = there.reader(&topic).reliable_all().create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        assert_eq!(writer.matched_subscriptions().len(), 1);
        let status = writer.publication_matched_status();
        assert_eq!((status.total_count, status.current_count), (round, 1));
        reader.wait_for_writers(1, SOON).unwrap();
        assert_eq!(reader.matched_publications().len(), 1);
        assert_eq!(reader.subscription_matched_status().current_count, 1);
        drop(reader);
        until("the reader is gone", || writer.matched_readers() == 0);
        assert_eq!(writer.matched_subscriptions().len(), 0);
        assert_eq!(writer.publication_matched_status().current_count, 0);
    }
}

/// A reader of the writer's own participant is matched once it has a queue, while the readers of
/// another participant come and go.
#[test]
fn sample_written_when_own_reader_is_counted_reaches_it() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = |participant: &DomainParticipant| {
        participant.topic::<CheckedSample>("Own").atomic().create().unwrap()
    };
    let writer = here.writer(&topic(&here)).create().unwrap();
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Limited, because a failure of the other thread does not end this one.
            for _ in 0..20_000 {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let reader = there.reader(&topic(&there)).reliable_all().create().unwrap();
                std::thread::sleep(Duration::from_millis(3));
                drop(reader);
            }
        });
        let mut wrong = Vec::new();
        for number in 0..300 {
            let reader = here.reader(&topic(&here)).reliable_all().create().unwrap();
            until("the reader is counted", || {
                writer.matched_subscriptions().contains(&reader.instance_handle())
            });
            writer.write(&CheckedSample::new(number)).unwrap();
            let first = reader.take_next_data(Timeout::secs(2)).unwrap().map(|it| it.number);
            wrong.extend((first != Some(number)).then_some((number, first)));
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(wrong, [], "samples since the match, and what came first");
    });
}
