//! LIFESPAN: what is out of date is given to nobody, whatever the level of the topic (I-201). Times
//! are on the clock of the one who writes them, and judged by the clock of the one who reads:
//! clocks that differ are times that lie in the past or future.

use std::time::{Duration, SystemTime};

use crate::legs::{self, Leg, publisher, subscriber};
use crate::support::{Actor, Meeting, SOON, join, listen, role, say, until};
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

/// One that is encoded.
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

/// A writer whose samples are of use for an hour.
fn hourly<T: DdsType>(participant: &DomainParticipant, topic: &Topic<T>) -> DataWriter<T> {
    let writer = participant.writer(topic).create().unwrap();
    set_lifespan(&writer, Some(HOUR));
    writer
}

/// The readers of one participant get what is written from now on. Of an ordered topic they are counted as one.
fn meet<T: DdsType>(writer: &DataWriter<T>, readers: &[DataReader<T>], level: &str) {
    let count = if level == "unordered" { readers.len() } else { 1 };
    writer.wait_for_readers(count, SOON).unwrap();
    readers.iter().for_each(|reader| reader.wait_for_writers(1, SOON).unwrap());
}

fn ago(time: Duration) -> SystemTime {
    SystemTime::now() - time
}

fn numbers(samples: impl IntoIterator<Item = Sample<Fix>>) -> Vec<u32> {
    samples.into_iter().map(|fix| fix.number).collect()
}

/// Two processes as good as: what a clock that goes wrong would say is said as a time.
#[test]
fn what_is_out_of_date_is_given_to_nobody() {
    for level in LEVELS {
        let meeting = Meeting::new();
        let (here, there) = (meeting.join(), meeting.join());
        let writer = hourly(&here, &topic::<Fix>(&here, "Fixes", level));
        let notes = hourly(&here, &topic::<Note>(&here, "Notes", level));
        let topics = [topic::<Fix>(&here, "Fixes", level), topic::<Fix>(&there, "Fixes", level)];
        let readers = [
            here.reader(&topics[0]).create().unwrap(),
            there.reader(&topics[1]).create().unwrap(),
            there.reader(&topics[1]).follow_instances().create().unwrap(),
            there.reader(&topics[1]).keep_last(10).create().unwrap(),
        ];
        let reader = there.reader(&topic::<Note>(&there, "Notes", level)).create().unwrap();
        // Of an ordered topic those of one participant are one.
        writer.wait_for_readers(if level == "unordered" { 4 } else { 2 }, SOON).unwrap();
        notes.wait_for_readers(1, SOON).unwrap();
        let second = Duration::from_secs(1);
        // A clock that is two hours behind, one that is half an hour behind, the right one, one that is ahead.
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
        // What tells that an instance is over is news at any time.
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
            assert_eq!((over.id, over.info().instance_state), (9, InstanceState::NotAliveDisposed));
            assert_eq!(numbers(all), [1, 2, 3], "{level} {index}");
            assert!(!reader.has_samples(), "{level} {index}");
        }
        let mut texts = Vec::new();
        until("all notes came", || {
            let taken = reader.take(.., Timeout::millis(20)).unwrap();
            texts.extend(taken.map(|note| note.text.clone()));
            texts.len() >= 3
        });
        assert_eq!(texts, ["note 1", "note 2", "note 3"], "{level}");
    }
}

/// From the queue of a reader that takes as things come, and from the cache of one that follows instances; and what says
/// that there is something says so no more.
#[test]
fn what_gets_out_of_date_while_it_waits_is_there_no_more() {
    for level in LEVELS {
        let meeting = Meeting::new();
        let (here, there) = (meeting.join(), meeting.join());
        let (ours, theirs) =
            (topic::<Fix>(&here, "Fixes", level), topic::<Fix>(&there, "Fixes", level));
        let writer = hourly(&here, &ours);
        let readers = [
            there.reader(&theirs).create().unwrap(),
            there.reader(&theirs).follow_instances().create().unwrap(),
        ];
        meet(&writer, &readers, level);
        for reader in &readers {
            let unread = reader.condition(&ReadCondition::new(States::not_read()));
            let status = reader.status_condition();
            status.set_enabled_statuses(StatusKind::DataAvailable);
            let wait_set = WaitSet::new();
            wait_set.attach(&unread).unwrap();
            wait_set.attach(&status).unwrap();
            // Some hundred milliseconds are left to each of them.
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
            // What may turn out to be a sample counts as one until somebody has looked.
            until("nothing is there any more", || triggers() == 0 && !reader.has_samples());
            assert!(SystemTime::now() >= ends, "{level}: gone too early");
            assert_eq!(triggers(), 0, "{level}");
            assert_eq!(reader.take(.., Timeout::millis(5)).unwrap().count(), 0, "{level}");
            // One that is of use is found behind those that are not.
            writer.write(&Fix { id: 1, number: 77 }).unwrap();
            assert_eq!(reader.take_next(SOON).unwrap().unwrap().number, 77, "{level}");
            readers.iter().for_each(|reader| drop(reader.take(.., Timeout::NOW).unwrap()));
            until("all are empty", || {
                readers.iter().for_each(|it| it.take(.., Timeout::NOW).unwrap().for_each(drop));
                readers.iter().all(|it| !it.has_samples())
            });
        }
    }
}

/// Whoever waits for samples is given none that is out of date, and goes on waiting.
#[test]
fn who_waits_does_not_wake_for_what_is_out_of_date() {
    for level in LEVELS {
        let meeting = Meeting::new();
        let (here, there) = (meeting.join(), meeting.join());
        let writer = hourly(&here, &topic::<Fix>(&here, "Fixes", level));
        let reader = there.reader(&topic::<Fix>(&there, "Fixes", level)).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| numbers(reader.take(.., SOON).unwrap()));
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

/// Each sample has the lifespan that its writer had when it wrote it.
#[test]
fn a_lifespan_that_changes_holds_for_what_is_written_after() {
    for level in LEVELS {
        let meeting = Meeting::new();
        let (here, there) = (meeting.join(), meeting.join());
        let writer = here.writer(&topic::<Fix>(&here, "Fixes", level)).create().unwrap();
        let reader = there.reader(&topic::<Fix>(&there, "Fixes", level)).create().unwrap();
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
            got.extend(numbers(reader.take(.., Timeout::millis(20)).unwrap()));
            got.last() == Some(&4)
        });
        assert_eq!(got, [0, 2, 4], "{level}");
    }
}

/// LIFESPAN of the topic is that of its writers, and of its samples at whatever level.
#[test]
fn writers_have_that_of_their_topic() {
    let meeting = Meeting::new();
    let here = meeting.join();
    for level in ["unordered", "atomic"] {
        let topic = here.topic::<Fix>(level).lifespan(HOUR);
        let topic = if level == "atomic" { topic.atomic() } else { topic };
        let topic = topic.create().unwrap();
        let writer = here.writer(&topic).create().unwrap();
        assert_eq!(writer.qos().lifespan.duration, HOUR.into());
        let reader = here.reader(&topic).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        writer.write_w_timestamp(&Fix { id: 1, number: 1 }, ago(2 * HOUR)).unwrap();
        writer.write(&Fix { id: 1, number: 2 }).unwrap();
        assert_eq!(numbers(reader.take_next(SOON).unwrap()), [2], "{level}");
    }
}

/// What is kept is given to those who come late, as far as it is of use to them.
#[test]
fn who_comes_late_gets_nothing_that_is_out_of_date() {
    let meeting = Meeting::new();
    let (here, there) = (meeting.join(), meeting.join());
    let writer = hourly(&here, &topic::<Fix>(&here, "Fixes", "kept"));
    for (number, age) in [(1, HOUR / 2), (2, 2 * HOUR), (3, Duration::ZERO)] {
        writer.write_w_timestamp(&Fix { id: number, number }, ago(age)).unwrap();
    }
    let reader = there.reader(&topic::<Fix>(&there, "Fixes", "kept")).create().unwrap();
    let mut got = Vec::new();
    until("the last came", || {
        got.extend(numbers(reader.take(.., Timeout::millis(20)).unwrap()));
        got.last() == Some(&3)
    });
    assert_eq!(got, [1, 3]);
}

/// A sample in a coherent set has its own lifespan; one that is over is no part of what is seen of the set.
#[test]
fn of_a_coherent_set_only_what_is_of_use_is_seen() {
    for level in LEVELS {
        let meeting = Meeting::new();
        let (here, there) = (meeting.join(), meeting.join());
        let (publisher, subscriber) = (publisher(&here), subscriber(&there));
        let writer = legs::writer(&publisher, &legs::topic(&here, level));
        set_lifespan(&writer, Some(HOUR));
        let readers = [
            subscriber.reader(&legs::topic::<Leg>(&there, level)).create().unwrap(),
            subscriber
                .reader(&legs::topic::<Leg>(&there, level))
                .follow_instances()
                .create()
                .unwrap(),
        ];
        meet(&writer, &readers, level);
        let write = |number, age| {
            writer.write_w_timestamp(&Leg { number, route: 1 }, ago(age)).unwrap();
        };
        // All of this one is out of date when it comes.
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

/// What a child process does; nothing when the test program is run as such.
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
        // Each other one is out of date.
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
fn a_writer_in_another_process_says_how_long_its_samples_are_of_use() {
    let meeting = Meeting::new();
    let here = meeting.join();
    let readers = LEVELS.map(|level| {
        here.reader(&topic::<Fix>(&here, "Fixes", level)).follow_instances().create().unwrap()
    });
    let mut actor = Actor::start(module_path!(), "writer", &meeting, 0);
    assert_eq!(actor.hear(), "written");
    for reader in &readers {
        let mut got = Vec::new();
        until("all came", || {
            got.extend(numbers(reader.take(.., Timeout::millis(20)).unwrap()));
            got.len() >= 50
        });
        assert_eq!(got, (0..100).step_by(2).collect::<Vec<_>>());
    }
    actor.finish();
}
