//! PRESENTATION.coherent_access: all readers receive all of a coherent set at once, or nothing
//! (I-190 to I-193).

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::legs::{
    Leg, coherent, join_at, next, publisher, route, subscriber, taken, topic, write, writer,
};
use crate::support::{SOON, TestDomain, until};
use dds_api::prelude::*;
use dds_api::qos::{Length, ResourceLimitsQosPolicy};
use dds_api::subscription::{InstanceState, SampleRejectedStatusKind, Since};

/// A type that is encoded.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Note {
    #[dds(key)]
    number: u32,
    text: String,
}

const LEVELS: [&str; 3] = ["unordered", "atomic", "kept"];

/// A type without a key.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Step {
    number: u64,
}

/// A call that took straight before the reader had a cache, and goes on while another thread fills
/// it with a set, takes nothing out of the set before the cache has it.
#[test]
fn call_that_began_before_the_cache_takes_nothing_out_of_an_opened_set() {
    const BEFORE: u64 = 2_000;
    const OF_SET: u64 = 4_000;
    const ROUNDS: u32 = 24;
    let domain = TestDomain::new();
    let config = ParticipantConfig::new().runtime_dir(domain.runtime_dir()).rejoin(true);
    let here = DomainParticipant::with_config(0, config).unwrap();
    let mut usual = Duration::from_millis(2);
    for round in 0..ROUNDS {
        let steps = here.topic::<Step>(&format!("Steps {round}")).transient_local().keep_all();
        let steps = steps.create().unwrap();
        let publisher = publisher(&here);
        let writer = publisher.writer(&steps).max_sample_size(1 << 20).create().unwrap();
        let reader = here.reader(&steps).reliable_all().create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        let write = |number| writer.write(&Step { number }).unwrap();
        (1..=BEFORE).for_each(write);
        writer.wait_for_acknowledgments(SOON).unwrap();
        let mut call = reader.take_data(.., SOON).unwrap();
        let mut taken = vec![call.next().unwrap().number];
        taken.extend(reader.take_data(.., SOON).unwrap().map(|step| step.number));
        publisher.begin_coherent_changes().unwrap();
        for number in BEFORE + 1..=BEFORE + OF_SET {
            write(number);
            writer.dispose(&Step { number: 0 }).unwrap();
        }
        publisher.end_coherent_changes().unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        let start = Barrier::new(2);
        let delay = usual * (round % 12) / 12;
        std::thread::scope(|scope| {
            let going_on = scope.spawn(|| {
                start.wait();
                let begin = Instant::now();
                while begin.elapsed() < delay {}
                call.map(|step| step.number).collect::<Vec<_>>()
            });
            start.wait();
            let begin = Instant::now();
            taken.extend(reader.take_data(.., SOON).unwrap().map(|step| step.number));
            usual = begin.elapsed();
            taken.extend(going_on.join().unwrap());
        });
        taken.extend(reader.take_data(.., Timeout::NOW).unwrap().map(|step| step.number));
        taken.sort_unstable();
        assert!(taken.into_iter().eq(1..=BEFORE + OF_SET), "round {round}");
    }
}

/// In another participant and the own one, for a plain type and an encoded one.
#[test]
fn set_becomes_visible_at_once_and_only_when_it_ends() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let (publisher, near) = (publisher(&here), subscriber(&here));
        let far = subscriber(&there);
        let writer = writer(&publisher, &topic(&here, level));
        let readers = [
            near.reader(&topic::<Leg>(&here, level)).reliable_all().create().unwrap(),
            far.reader(&topic::<Leg>(&there, level)).reliable_all().create().unwrap(),
        ];
        writer.wait_for_readers(2, SOON).unwrap();
        write(&writer, &[(9, 0)]);
        readers.iter().for_each(|reader| assert_eq!(next(reader), [(9, 0)], "{level}"));
        publisher.begin_coherent_changes().unwrap();
        // A nested set does not end the outer one.
        publisher.begin_coherent_changes().unwrap();
        write(&writer, &route(1, 2));
        publisher.end_coherent_changes().unwrap();
        let mut loan = writer.loan().unwrap();
        *loan = Leg { number: 2, route: 1 };
        loan.publish().unwrap();
        writer.write_with(|leg| *leg = Leg { number: 3, route: 1 }).unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        readers.iter().for_each(|reader| assert_eq!(taken(reader), [], "{level}"));
        publisher.end_coherent_changes().unwrap();
        readers.iter().for_each(|reader| assert_eq!(next(reader), route(1, 4), "{level}"));
        // Samples after the set do not belong to it.
        write(&writer, &[(0, 2)]);
        readers.iter().for_each(|reader| assert_eq!(next(reader), [(0, 2)], "{level}"));
        let error = publisher.end_coherent_changes().unwrap_err();
        assert!(matches!(error, DdsError::PreconditionNotMet(_)), "{error}");
    }
}

#[test]
fn set_of_encoded_samples_arrives_whole() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let publisher = publisher(&here);
        let writer = writer(&publisher, &topic::<Note>(&here, level));
        let reader = subscriber(&there)
            .reader(&topic::<Note>(&there, level))
            .reliable_all()
            .create()
            .unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        let notes: Vec<Note> =
            (0..20).map(|number| Note { number, text: "x".repeat(number as usize * 7) }).collect();
        publisher.begin_coherent_changes().unwrap();
        notes.iter().for_each(|note| writer.write(note).unwrap());
        publisher.end_coherent_changes().unwrap();
        let got: Vec<Note> = reader.take_data(.., SOON).unwrap().map(|note| note.clone()).collect();
        assert_eq!(got, notes, "{level}");
    }
}

/// A reader without coherence receives the samples one by one: all of them, in order, with each
/// kind of call.
#[test]
fn reader_without_coherence_receives_samples_of_sets_in_order() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let here = domain.join();
        let publisher = publisher(&here);
        let legs = topic::<Leg>(&here, level);
        let writer = writer(&publisher, &legs);
        let plain = || here.reader(&legs).reliable_all().create().unwrap();
        let (all, single, some) = (plain(), plain(), plain());
        writer.wait_for_readers(1, SOON).unwrap();
        let set = |of: u64| {
            publisher.begin_coherent_changes().unwrap();
            write(&writer, &route(of, 3));
            publisher.end_coherent_changes().unwrap();
        };
        set(1);
        write(&writer, &[(7, 7)]);
        set(2);
        let whole = [route(1, 3), vec![(7, 7)], route(2, 3)].concat();
        for reader in [&all, &single, &some] {
            reader.wait_for_historical_data(SOON).unwrap();
        }
        let mut got = Vec::new();
        while got.len() < whole.len() {
            got.extend(next(&all));
        }
        assert_eq!(got, whole, "{level}");
        assert_eq!(taken(&all), []);
        got.clear();
        while got.len() < whole.len() {
            let leg = single.take_next_data(SOON).unwrap().unwrap();
            got.push((leg.number, leg.route));
        }
        assert_eq!(got, whole, "{level}");
        got.clear();
        while got.len() < whole.len() {
            let two: Vec<_> = some.take_data(..2, SOON).unwrap().collect();
            assert!((1..=2).contains(&two.len()));
            got.extend(two.iter().map(|leg| (leg.number, leg.route)));
        }
        assert_eq!(got, whole, "{level}");
        assert_eq!(taken(&some), []);
    }
}

/// One call returns all samples that are present when it begins, also for a reader
/// without coherence.
#[test]
fn one_take_returns_all_available_samples() {
    let domain = TestDomain::new();
    let here = domain.join();
    let publisher = publisher(&here);
    let legs = topic::<Leg>(&here, "unordered");
    let (writer, reader) =
        (writer(&publisher, &legs), here.reader(&legs).reliable_all().create().unwrap());
    writer.wait_for_readers(1, SOON).unwrap();
    publisher.begin_coherent_changes().unwrap();
    write(&writer, &route(1, 10));
    publisher.end_coherent_changes().unwrap();
    assert_eq!(next(&reader), route(1, 10));
}

#[test]
fn a_publisher_without_coherence_writes_at_once() {
    let domain = TestDomain::new();
    let here = domain.join();
    let publisher = here.publisher().create().unwrap();
    let legs = topic::<Leg>(&here, "atomic");
    let (writer, reader) =
        (writer(&publisher, &legs), here.reader(&legs).reliable_all().create().unwrap());
    writer.wait_for_readers(1, SOON).unwrap();
    publisher.begin_coherent_changes().unwrap();
    write(&writer, &[(1, 1)]);
    assert_eq!(next(&reader), [(1, 1)]);
    publisher.end_coherent_changes().unwrap();
    assert!(publisher.end_coherent_changes().is_err());
    // A reader that requests coherence does not match it.
    let refused = subscriber(&here).reader(&legs).reliable_all().create().unwrap();
    until("it is refused", || refused.requested_incompatible_qos_status().total_count == 1);
}

/// Disposals and unregistrations are changes like any other.
#[test]
fn disposals_and_unregistrations_take_effect_when_their_set_ends() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let publisher = publisher(&here);
        let writer = writer(&publisher, &topic::<Leg>(&here, level));
        let reader = subscriber(&there)
            .reader(&topic::<Leg>(&there, level))
            .reliable_all()
            .create()
            .unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        write(&writer, &route(1, 3));
        let mut got = Vec::new();
        while got.len() < 3 {
            got.extend(next(&reader));
        }
        let leg = |number| Leg { number, route: 2 };
        publisher.begin_coherent_changes().unwrap();
        writer.dispose(&leg(0)).unwrap();
        writer.unregister_instance(&leg(1)).unwrap();
        writer.write_dispose(&leg(2)).unwrap();
        writer.write(&leg(3)).unwrap();
        assert_eq!(taken(&reader), [], "{level}");
        publisher.end_coherent_changes().unwrap();
        let states: Vec<_> = reader
            .take(.., SOON)
            .unwrap()
            .map(|sample| {
                let info = sample.info();
                (sample.key_value().number, sample.data().is_some(), info.instance_state)
            })
            .collect();
        let disposed = InstanceState::NotAliveDisposed;
        let mut expected = vec![
            (0, false, disposed),
            (1, false, disposed),
            (2, true, disposed),
            (2, false, disposed),
            (3, true, InstanceState::Alive),
        ];
        expected.sort_by_key(|(number, valid, _)| (*number, !*valid));
        assert_eq!(states, expected, "{level}");
    }
}

/// HISTORY and filters reduce a set at the reader: the remaining samples also appear at once.
#[test]
fn remaining_samples_of_a_reduced_set_appear_at_once() {
    let domain = TestDomain::new();
    let here = domain.join();
    let publisher = publisher(&here);
    let legs = topic::<Leg>(&here, "atomic");
    let writer = writer(&publisher, &legs);
    let subscriber = subscriber(&here);
    let last = subscriber.reader(&legs).reliable().keep_last(1).create().unwrap();
    let odd = here.content_filtered_topic("Odd", &legs, "route = 1", &[]).unwrap();
    let odd = subscriber.reader(&odd).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    for of in 0..3 {
        publisher.begin_coherent_changes().unwrap();
        write(&writer, &[route(0, 3), route(1, 3), route(2, 2)].concat());
        publisher.end_coherent_changes().unwrap();
        until("it has come", || last.has_samples());
        let mut all = next(&last);
        all.sort_unstable();
        assert_eq!(all, [(0, 2), (1, 2), (2, 1)], "set {of}");
        assert_eq!(next(&odd), route(1, 3), "set {of}");
    }
}

/// One call returns all of a set, and the samples written after it, also through the cache.
#[test]
fn one_take_returns_a_set_and_the_samples_after_it() {
    let domain = TestDomain::new();
    let here = domain.join();
    let publisher = publisher(&here);
    let legs = topic::<Leg>(&here, "atomic");
    let writer = writer(&publisher, &legs);
    let reader = subscriber(&here).reader(&legs).reliable().keep_last(8).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    for of in 0..3 {
        publisher.begin_coherent_changes().unwrap();
        write(&writer, &route(of, 5));
        publisher.end_coherent_changes().unwrap();
        write(&writer, &[(7, of)]);
        writer.wait_for_acknowledgments(SOON).unwrap();
        let all = [route(of, 5), vec![(7, of)]].concat();
        assert_eq!(taken(&reader), all, "set {of}");
    }
}

fn limits(samples: u16) -> ResourceLimitsQosPolicy {
    ResourceLimitsQosPolicy { max_samples: Length::of(samples), ..Default::default() }
}

/// RESOURCE_LIMITS: a set waits until there is room for all of it; a set for which there never is
/// room is rejected.
#[test]
fn set_waits_for_room_at_its_reader_as_a_whole() {
    let domain = TestDomain::new();
    let here = domain.join();
    let publisher = publisher(&here);
    let legs = topic::<Leg>(&here, "atomic");
    let writer = writer(&publisher, &legs);
    let reader =
        subscriber(&here).reader(&legs).reliable_all().resource_limits(limits(5)).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let set = |of, legs| {
        publisher.begin_coherent_changes().unwrap();
        write(&writer, &route(of, legs));
        publisher.end_coherent_changes().unwrap();
    };
    set(1, 3);
    set(2, 4);
    writer.wait_for_acknowledgments(SOON).unwrap();
    until("the first is there", || reader.read_data(.., Timeout::NOW).unwrap().len() == 3);
    let status = reader.sample_rejected_status();
    assert_eq!((status.total_count, status.total_count_change), (4, 4));
    assert_eq!(status.last_reason, SampleRejectedStatusKind::RejectedBySamplesLimit);
    // Three more samples would find room, but not four.
    assert_eq!(reader.take_data(..1, Timeout::NOW).unwrap().count(), 1);
    assert_eq!(taken(&reader), route(1, 3)[1..]);
    assert_eq!(taken(&reader), route(2, 4));
    set(3, 6);
    set(4, 5);
    assert_eq!(next(&reader), route(4, 5), "what never fits holds nothing up");
    let status = reader.sample_rejected_status();
    assert_eq!((status.total_count, status.total_count_change), (10, 6));
}

/// A reader that does not request coherent access gets the samples of a set one by one: each waits
/// for room alone, and none is lost, although all together would never find room.
#[test]
fn samples_of_a_set_wait_for_room_alone_at_a_reader_without_coherent_access() {
    let domain = TestDomain::new();
    let here = domain.join();
    let publisher = publisher(&here);
    for level in LEVELS {
        let legs = topic::<Leg>(&here, level);
        let writer = writer(&publisher, &legs);
        let reader = here.reader(&legs).reliable_all().resource_limits(limits(3)).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        publisher.begin_coherent_changes().unwrap();
        write(&writer, &route(1, 5));
        publisher.end_coherent_changes().unwrap();
        let mut all = Vec::new();
        until("all samples of the set have come", || {
            all.extend(taken(&reader));
            all.len() >= 5
        });
        assert_eq!(all, route(1, 5), "{level}");
    }
}

/// A set larger than the maximum record is refused at the sample that exceeds the limit; its
/// earlier samples can be ended or discarded.
#[test]
fn sample_that_makes_a_set_too_large_is_refused() {
    let domain = TestDomain::new();
    let here = domain.join();
    let publisher = publisher(&here);
    let legs = topic::<Leg>(&here, "atomic");
    let writer = publisher.writer(&legs).memory(16 << 10).max_blocking_time(SOON);
    let writer = writer.create().unwrap();
    let reader = subscriber(&here).reader(&legs).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let fill = |of: u64| {
        publisher.begin_coherent_changes().unwrap();
        for number in 0.. {
            match writer.write(&Leg { number, route: of }) {
                Ok(()) => {}
                Err(DdsError::OutOfResources(why)) => {
                    assert!(why.contains("max_sample_size"), "{why}");
                    return number;
                }
                Err(other) => panic!("{other}"),
            }
        }
        unreachable!()
    };
    let fits = fill(1);
    assert!(fits > 10, "{fits}");
    publisher.end_coherent_changes().unwrap();
    assert_eq!(next(&reader), route(1, fits));
    assert_eq!(fill(2), fits);
    assert_eq!(publisher.discard_coherent_changes().unwrap(), fits as usize);
    assert!(publisher.end_coherent_changes().is_err(), "it is closed");
    write(&writer, &[(3, 3)]);
    assert_eq!(next(&reader), [(3, 3)]);
    drop((writer, reader));
    let legs = topic::<Leg>(&here, "unordered");
    let larger = publisher.writer(&legs).max_sample_size(1 << 20).create().unwrap();
    let reader = subscriber(&here).reader(&legs).reliable_all().create().unwrap();
    larger.wait_for_readers(1, SOON).unwrap();
    publisher.begin_coherent_changes().unwrap();
    write(&larger, &route(4, 20_000));
    publisher.end_coherent_changes().unwrap();
    assert_eq!(next(&reader), route(4, 20_000));
}

/// Readers make no room: the set stays open, and can be ended later.
#[test]
fn set_without_room_at_its_writer_can_be_ended_later() {
    let domain = TestDomain::new();
    let here = domain.join();
    let publisher = publisher(&here);
    let legs = topic::<Leg>(&here, "unordered");
    let writer = publisher.writer(&legs).memory(4 << 10).max_blocking_time(Timeout::millis(20));
    let writer = writer.create().unwrap();
    let reader = subscriber(&here).reader(&legs).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let mut written = 0;
    while writer.write(&Leg { number: written, route: 0 }).is_ok() {
        written += 1;
    }
    publisher.begin_coherent_changes().unwrap();
    write(&writer, &route(1, 3));
    let error = publisher.end_coherent_changes().unwrap_err();
    assert!(matches!(error, DdsError::Timeout(_)), "{error}");
    let mut got = Vec::new();
    while got.len() < written as usize {
        got.extend(next(&reader));
    }
    assert_eq!(got, route(0, written), "nothing of the set");
    got.clear();
    publisher.end_coherent_changes().unwrap();
    assert_eq!(next(&reader), route(1, 3));
}

/// PARTITION may change during a set: the whole set is in the partitions that the writer has at
/// its end.
#[test]
fn set_has_the_partitions_of_its_writer_at_its_end() {
    let domain = TestDomain::new();
    let here = domain.join();
    let publisher = here.publisher().presentation(coherent()).partition(["left"]);
    let publisher = publisher.create().unwrap();
    let legs = topic::<Leg>(&here, "kept");
    let writer = writer(&publisher, &legs);
    let [left, right] = ["left", "right"].map(|name| {
        let subscriber = here.subscriber().presentation(coherent()).partition([name]);
        subscriber.create().unwrap().reader(&legs).reliable_all().create().unwrap()
    });
    writer.wait_for_readers(1, SOON).unwrap();
    publisher.begin_coherent_changes().unwrap();
    write(&writer, &route(1, 2));
    let mut qos = publisher.qos();
    qos.partition.name = vec!["right".to_owned()];
    publisher.set_qos(&qos).unwrap();
    write(&writer, &[(2, 1)]);
    publisher.end_coherent_changes().unwrap();
    assert_eq!(next(&right), route(1, 3));
    assert_eq!(taken(&left), []);
}

/// A dropped writer removes its part of the set; the samples of others are written.
#[test]
fn dropped_writer_removes_its_samples_from_the_set() {
    let domain = TestDomain::new();
    let here = domain.join();
    let publisher = publisher(&here);
    let legs = topic::<Leg>(&here, "atomic");
    let (stays, goes) = (writer(&publisher, &legs), writer(&publisher, &legs));
    let reader = subscriber(&here).reader(&legs).reliable_all().create().unwrap();
    stays.wait_for_readers(1, SOON).unwrap();
    publisher.begin_coherent_changes().unwrap();
    write(&goes, &route(1, 2));
    write(&stays, &route(2, 2));
    drop(goes);
    publisher.end_coherent_changes().unwrap();
    assert_eq!(next(&reader), route(2, 2));
}

/// A late joiner receives all of an ended set, and nothing of an unfinished one; also if some of
/// its samples have been replaced since, and also for sets in one record.
#[test]
fn late_joiner_receives_sets_whole() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let last = |participant: &DomainParticipant| {
        participant.topic::<Leg>("Legs").transient_local().keep_last(1).create().unwrap()
    };
    let publisher = publisher(&here);
    let writer = writer(&publisher, &last(&here));
    let set = |legs: &[(u32, u64)]| {
        publisher.begin_coherent_changes().unwrap();
        write(&writer, legs);
        publisher.end_coherent_changes().unwrap();
    };
    set(&route(1, 4));
    publisher.begin_coherent_changes().unwrap();
    write(&writer, &route(2, 4));
    let (subscriber, topic) = (subscriber(&there), last(&there));
    let late = || subscriber.reader(&topic).reliable_all().create().unwrap();
    let first = late();
    assert_eq!(next(&first), route(1, 4));
    publisher.discard_coherent_changes().unwrap();
    write(&writer, &[(0, 3), (1, 3), (2, 3)]);
    let second = late();
    second.wait_for_historical_data(SOON).unwrap();
    let mut got = Vec::new();
    while got.len() < 7 {
        got.extend(next(&second));
    }
    assert_eq!(got, [route(1, 4), route(3, 3)].concat(), "the set is kept for the one that lives");
    write(&writer, &[(3, 3)]);
    assert_eq!(next(&second), [(3, 3)]);
    let third = late();
    third.wait_for_historical_data(SOON).unwrap();
    let mut got = Vec::new();
    while got.len() < 4 {
        got.extend(next(&third));
    }
    assert_eq!(got, route(3, 4));
}

/// Sets in a log: all samples of each, even after all participants were gone, and the last sample
/// of each instance at a time.
#[test]
fn sets_are_recovered_whole_from_a_log() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let mut between = None;
    {
        let here = join_at(&folder, "logged");
        let publisher = publisher(&here);
        let writer = writer(&publisher, &topic::<Leg>(&here, "logged"));
        for of in 1..4 {
            publisher.begin_coherent_changes().unwrap();
            write(&writer, &route(of, 3));
            publisher.end_coherent_changes().unwrap();
            write(&writer, &[(1, of * 10)]);
            if of == 2 {
                std::thread::sleep(Duration::from_millis(5));
                between = Some(std::time::SystemTime::now());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        publisher.begin_coherent_changes().unwrap();
        write(&writer, &route(4, 3));
        writer.wait_for_acknowledgments(SOON).unwrap();
    }
    let here = join_at(&folder, "logged");
    let legs = topic::<Leg>(&here, "logged");
    let reader = subscriber(&here).reader(&legs).reliable_all().create().unwrap();
    let all: Vec<_> = (1..4).flat_map(|of| [route(of, 3), vec![(1, of * 10)]].concat()).collect();
    reader.wait_for_historical_data(SOON).unwrap();
    let mut got = Vec::new();
    while got.len() < all.len() {
        got.extend(next(&reader));
    }
    assert_eq!(got, all);
    // The log files give the same, with the position that all samples of a set share.
    let past: Vec<_> = reader.past(Since::Sample(1)).unwrap().map(Result::unwrap).collect();
    let numbers = |leg: &Sample<Leg>| leg.data().map(|leg| (leg.number, leg.route)).unwrap();
    assert_eq!(past.iter().map(|(_, leg)| numbers(leg)).collect::<Vec<_>>(), all);
    let places: Vec<u64> = past.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, [1, 1, 1, 2, 3, 3, 3, 4, 5, 5, 5, 6]);
    let state = reader.state_at(between.unwrap()).unwrap();
    let mut state: Vec<_> = state.iter().map(|(_, leg)| numbers(leg)).collect();
    state.sort_unstable();
    assert_eq!(state, [(0, 2), (1, 20), (2, 2)]);
}

/// While a publisher is suspended its samples wake no reader, and none are lost.
#[test]
fn samples_of_suspended_publisher_arrive_on_resume() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let publisher = here.publisher().create().unwrap();
    let writer = writer(&publisher, &topic::<Leg>(&here, "unordered"));
    let reader = there.reader(&topic::<Leg>(&there, "unordered")).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    assert!(publisher.resume_publications().is_err(), "it is not suspended");
    publisher.suspend_publications().unwrap();
    publisher.suspend_publications().unwrap();
    let sleeps = std::thread::spawn(move || {
        let first = reader.take_next_data(SOON).unwrap().unwrap();
        (first.number, reader)
    });
    std::thread::sleep(Duration::from_millis(30));
    write(&writer, &route(1, 5));
    publisher.resume_publications().unwrap();
    assert!(publisher.resume_publications().is_ok());
    let (first, reader) = sleeps.join().unwrap();
    assert_eq!(first, 0);
    let mut got = Vec::new();
    while got.len() < 4 {
        got.extend(next(&reader));
    }
    assert_eq!(got, route(1, 5)[1..]);
}

/// A set that ends while its publisher is suspended is written.
#[test]
fn set_that_ends_while_its_publisher_is_suspended_arrives() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let publisher = publisher(&here);
    let writer = writer(&publisher, &topic::<Leg>(&here, "unordered"));
    let reader = subscriber(&there)
        .reader(&topic::<Leg>(&there, "unordered"))
        .reliable_all()
        .create()
        .unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    publisher.suspend_publications().unwrap();
    publisher.begin_coherent_changes().unwrap();
    write(&writer, &route(1, 5));
    publisher.end_coherent_changes().unwrap();
    publisher.resume_publications().unwrap();
    let mut got = Vec::new();
    while got.len() < 5 {
        got.extend(next(&reader));
    }
    assert_eq!(got, route(1, 5));
}
