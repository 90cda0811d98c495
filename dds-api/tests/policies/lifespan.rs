//! LIFESPAN: expired samples are not delivered, at any level. Times come from the writer's
//! clock and are judged by the reader's clock. Differing clocks are simulated by times in the
//! past or future.

use std::time::{Duration, SystemTime};

use crate::legs::{self, Leg, publisher, subscriber};
use crate::support::{Actor, SOON, TestDomain, join, listen, role, say, until};
use dds_api::infrastructure::{StatusKind, WaitSet};
use dds_api::prelude::*;
use dds_api::qos::LifespanQosPolicy;
use dds_api::subscription::{InstanceState, ReadCondition, States};

/// Plain, with a key.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Fix {
    #[dds(key)]
    id: u32,
    number: u32,
}

/// A type that is encoded.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Note {
    #[dds(key)]
    id: u32,
    text: String,
}

const LEVELS: [&str; 3] = ["unordered", "atomic", "kept"];
const HOUR: Duration = Duration::from_secs(3600);

fn topic<T: DdsType>(participant: &DomainParticipant, name: &str, level: &str) -> Topic<T> {
    let topic = participant.topic(&format!("{name} {level}"));
    match level {
        "atomic" => topic.atomic(),
        "kept" => topic.transient_local().keep_all(),
        _ => topic,
    }
    .create()
    .unwrap()
}

fn set_lifespan<T: DdsType>(writer: &DataWriter<T>, lifespan: Option<Duration>) {
    let mut qos = writer.qos();
    qos.lifespan = LifespanQosPolicy { duration: lifespan.into() };
    writer.set_qos(&qos).unwrap();
}

/// Creates a writer whose samples expire after an hour.
fn hourly<T: DdsType>(participant: &DomainParticipant, topic: &Topic<T>) -> DataWriter<T> {
    let writer = participant.writer(topic).create().unwrap();
    set_lifespan(&writer, Some(HOUR));
    writer
}

/// Waits until the readers of one participant receive new samples. For an ordered topic they count
/// as one.
fn meet<T: DdsType>(writer: &DataWriter<T>, readers: &[DataReader<T>], level: &str) {
    let count = if level == "unordered" { readers.len() } else { 1 };
    writer.wait_for_readers(count, SOON).unwrap();
    readers.iter().for_each(|reader| reader.wait_for_writers(1, SOON).unwrap());
}

fn ago(time: Duration) -> SystemTime {
    SystemTime::now() - time
}

fn numbers(samples: impl IntoIterator<Item = ValidSample<Fix>>) -> Vec<u32> {
    samples.into_iter().map(|fix| fix.number).collect()
}

/// Two participants stand for two processes: an explicit time stamp replaces a wrong clock.
#[test]
fn expired_sample_is_delivered_to_no_reader() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let writer = hourly(&here, &topic::<Fix>(&here, "Fixes", level));
        let notes = hourly(&here, &topic::<Note>(&here, "Notes", level));
        let topics = [topic::<Fix>(&here, "Fixes", level), topic::<Fix>(&there, "Fixes", level)];
        let readers = [
            here.reader(&topics[0]).reliable_all().create().unwrap(),
            there.reader(&topics[1]).reliable_all().create().unwrap(),
            there.reader(&topics[1]).reliable_all().create().unwrap(),
            there.reader(&topics[1]).reliable().keep_last(10).create().unwrap(),
        ];
        let reader =
            there.reader(&topic::<Note>(&there, "Notes", level)).reliable_all().create().unwrap();
        // For an ordered topic, the readers of one participant count as one.
        writer.wait_for_readers(if level == "unordered" { 4 } else { 2 }, SOON).unwrap();
        notes.wait_for_readers(1, SOON).unwrap();
        let second = Duration::from_secs(1);
        // A clock that is two hours behind, one that is half an hour behind, the right one, one
        // that is ahead.
        for (number, time) in [
            ago(2 * HOUR),
            ago(HOUR / 2),
            SystemTime::now(),
            SystemTime::now() + 2 * HOUR,
            ago(HOUR + second),
        ]
        .into_iter()
        .enumerate()
        {
            let number = number as u32;
            writer.write_w_timestamp(&Fix { id: number, number }, time).unwrap();
            let text = format!("note {number}");
            notes.write_w_timestamp(&Note { id: number, text }, time).unwrap();
        }
        // The notice that an instance has ended never expires.
        writer.dispose_w_timestamp(&Fix { id: 9, number: 9 }, ago(3 * HOUR)).unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        notes.wait_for_acknowledgments(SOON).unwrap();
        for (index, reader) in readers.iter().enumerate() {
            let mut all = Vec::new();
            until("all came", || {
                all.extend(reader.take(.., Timeout::millis(20)).unwrap());
                all.len() >= 4
            });
            let over = all.pop().unwrap();
            assert_eq!(
                (over.key_value().id, over.info().instance_state),
                (9, InstanceState::NotAliveDisposed)
            );
            assert_eq!(
                numbers(all.into_iter().filter_map(Sample::into_data)),
                [1, 2, 3],
                "{level} {index}"
            );
            assert!(!reader.has_samples(), "{level} {index}");
        }
        let mut texts = Vec::new();
        until("all notes came", || {
            let taken = reader.take_data(.., Timeout::millis(20)).unwrap();
            texts.extend(taken.map(|note| note.text.clone()));
            texts.len() >= 3
        });
        assert_eq!(texts, ["note 1", "note 2", "note 3"], "{level}");
    }
}

/// Samples expire in the queue of a direct reader, and in the cache of one that follows instances;
/// then the conditions for available data become false.
#[test]
fn sample_that_expires_while_it_waits_is_not_delivered() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let (ours, theirs) =
            (topic::<Fix>(&here, "Fixes", level), topic::<Fix>(&there, "Fixes", level));
        let writer = hourly(&here, &ours);
        let readers = [
            there.reader(&theirs).reliable_all().create().unwrap(),
            there.reader(&theirs).reliable_all().create().unwrap(),
        ];
        meet(&writer, &readers, level);
        for reader in &readers {
            let unread = reader.condition(&ReadCondition::new(States::not_read()));
            let status = reader.status_condition();
            status.set_enabled_statuses(StatusKind::DataAvailable);
            let wait_set = WaitSet::new();
            wait_set.attach(&unread).unwrap();
            wait_set.attach(&status).unwrap();
            // Each of them has some hundred milliseconds left.
            let left = Duration::from_millis(700);
            let ends = SystemTime::now() + left;
            for number in 0..50 {
                writer.write_w_timestamp(&Fix { id: number % 5, number }, ends - HOUR).unwrap();
            }
            writer.wait_for_acknowledgments(SOON).unwrap();
            until("they are there", || reader.has_samples() || SystemTime::now() >= ends);
            let triggers = || wait_set.wait(Timeout::NOW).map_or(0, |held| held.len());
            let held = triggers();
            if SystemTime::now() < ends {
                assert_eq!(held, 2, "{level}");
            }
            // An entry counts as a sample until the reader has checked it.
            until("nothing is there any more", || triggers() == 0 && !reader.has_samples());
            assert!(SystemTime::now() >= ends, "{level}: gone too early");
            assert_eq!(triggers(), 0, "{level}");
            assert_eq!(reader.take_data(.., Timeout::millis(5)).unwrap().count(), 0, "{level}");
            // A valid sample is found after expired ones.
            writer.write(&Fix { id: 1, number: 77 }).unwrap();
            assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, 77, "{level}");
            readers.iter().for_each(|reader| drop(reader.take_data(.., Timeout::NOW).unwrap()));
            until("all are empty", || {
                readers
                    .iter()
                    .for_each(|it| it.take_data(.., Timeout::NOW).unwrap().for_each(drop));
                readers.iter().all(|it| !it.has_samples())
            });
        }
    }
}

/// A thread that waits for samples receives no expired one, and continues to wait.
#[test]
fn expired_sample_does_not_end_the_wait_of_a_reader() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let writer = hourly(&here, &topic::<Fix>(&here, "Fixes", level));
        let reader =
            there.reader(&topic::<Fix>(&there, "Fixes", level)).reliable_all().create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| numbers(reader.take_data(.., SOON).unwrap()));
            for number in 0..20 {
                writer.write_w_timestamp(&Fix { id: 0, number }, ago(2 * HOUR)).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!waits.is_finished(), "{level}");
            writer.write(&Fix { id: 0, number: 20 }).unwrap();
            assert_eq!(waits.join().unwrap(), [20], "{level}");
        });
    }
}

/// Each sample has the lifespan that its writer had when it wrote the sample.
#[test]
fn changed_lifespan_applies_to_samples_written_afterwards() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let writer = here.writer(&topic::<Fix>(&here, "Fixes", level)).create().unwrap();
        let reader =
            there.reader(&topic::<Fix>(&there, "Fixes", level)).reliable_all().create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        let old = ago(2 * HOUR);
        let lifespans = [None, Some(HOUR), Some(3 * HOUR), Some(Duration::ZERO), None];
        for (number, lifespan) in lifespans.into_iter().enumerate() {
            set_lifespan(&writer, lifespan);
            let number = number as u32;
            writer.write_w_timestamp(&Fix { id: number, number }, old).unwrap();
        }
        writer.wait_for_acknowledgments(SOON).unwrap();
        let mut got = Vec::new();
        until("the last came", || {
            got.extend(numbers(reader.take_data(.., Timeout::millis(20)).unwrap()));
            got.last() == Some(&4)
        });
        assert_eq!(got, [0, 2, 4], "{level}");
    }
}

/// LIFESPAN of the topic applies to its writers, and to its samples at every level.
#[test]
fn writers_inherit_lifespan_of_their_topic() {
    let domain = TestDomain::new();
    let here = domain.join();
    for level in ["unordered", "atomic"] {
        let topic = here.topic::<Fix>(level).lifespan(HOUR);
        let topic = if level == "atomic" { topic.atomic() } else { topic };
        let topic = topic.create().unwrap();
        let writer = here.writer(&topic).create().unwrap();
        assert_eq!(writer.qos().lifespan.duration, HOUR.into());
        let reader = here.reader(&topic).reliable_all().create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        writer.write_w_timestamp(&Fix { id: 1, number: 1 }, ago(2 * HOUR)).unwrap();
        writer.write(&Fix { id: 1, number: 2 }).unwrap();
        assert_eq!(numbers(reader.take_next_data(SOON).unwrap()), [2], "{level}");
    }
}

/// A late joiner receives the kept samples that have not expired.
#[test]
fn late_joiner_receives_no_expired_sample() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let writer = hourly(&here, &topic::<Fix>(&here, "Fixes", "kept"));
    for (number, age) in [(1, HOUR / 2), (2, 2 * HOUR), (3, Duration::ZERO)] {
        writer.write_w_timestamp(&Fix { id: number, number }, ago(age)).unwrap();
    }
    let reader =
        there.reader(&topic::<Fix>(&there, "Fixes", "kept")).reliable_all().create().unwrap();
    let mut got = Vec::new();
    until("the last came", || {
        got.extend(numbers(reader.take_data(.., Timeout::millis(20)).unwrap()));
        got.last() == Some(&3)
    });
    assert_eq!(got, [1, 3]);
}

/// A sample in a coherent set has its own lifespan; an expired one is not part of the visible set.
#[test]
fn coherent_set_shows_only_unexpired_samples() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let (publisher, subscriber) = (publisher(&here), subscriber(&there));
        let writer = legs::writer(&publisher, &legs::topic(&here, level));
        set_lifespan(&writer, Some(HOUR));
        let readers = [
            subscriber.reader(&legs::topic::<Leg>(&there, level)).reliable_all().create().unwrap(),
            subscriber.reader(&legs::topic::<Leg>(&there, level)).reliable_all().create().unwrap(),
        ];
        meet(&writer, &readers, level);
        let write = |number, age| {
            writer.write_w_timestamp(&Leg { number, route: 1 }, ago(age)).unwrap();
        };
        // All samples of this set have expired when they arrive.
        publisher.begin_coherent_changes().unwrap();
        (0..3).for_each(|number| write(number, 2 * HOUR));
        publisher.end_coherent_changes().unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        readers.iter().for_each(|reader| assert_eq!(legs::taken(reader), [], "{level}"));
        until("it is gone", || readers.iter().all(|reader| !reader.has_samples()));
        publisher.begin_coherent_changes().unwrap();
        write(4, Duration::ZERO);
        write(5, 2 * HOUR);
        write(6, HOUR / 2);
        publisher.end_coherent_changes().unwrap();
        for reader in &readers {
            assert_eq!(legs::next(reader), [(4, 1), (6, 1)], "{level}");
        }
    }
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    assert_eq!(role, "writer");
    let participant = join(&folder);
    let writers: Vec<_> = LEVELS
        .iter()
        .map(|level| hourly(&participant, &topic::<Fix>(&participant, "Fixes", level)))
        .collect();
    writers.iter().for_each(|writer| writer.wait_for_readers(1, SOON).unwrap());
    for number in 0..100 {
        // Every second sample has expired.
        let age = if number % 2 == 0 { HOUR / 2 } else { 2 * HOUR };
        for writer in &writers {
            writer.write_w_timestamp(&Fix { id: number, number }, ago(age)).unwrap();
        }
    }
    writers.iter().for_each(|writer| writer.wait_for_acknowledgments(SOON).unwrap());
    say("written");
    while listen().is_some() {}
}

#[test]
fn lifespan_of_a_writer_in_another_process_applies() {
    let domain = TestDomain::new();
    let here = domain.join();
    let readers = LEVELS.map(|level| {
        here.reader(&topic::<Fix>(&here, "Fixes", level)).reliable_all().create().unwrap()
    });
    let mut actor = Actor::start(module_path!(), "writer", &domain, 0);
    assert_eq!(actor.hear(), "written");
    for reader in &readers {
        let mut got = Vec::new();
        until("all came", || {
            got.extend(numbers(reader.take_data(.., Timeout::millis(20)).unwrap()));
            got.len() >= 50
        });
        assert_eq!(got, (0..100).step_by(2).collect::<Vec<_>>());
    }
    actor.finish();
}
