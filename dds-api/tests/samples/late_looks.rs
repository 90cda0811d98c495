//! Topics without order: a reader that looks late sees the samples of several writers, and the ends
//! of writers, in the order in which they were written (I-217).

use std::time::{Duration, SystemTime};

use crate::support::{SOON, TestDomain, until};
use dds_api::prelude::*;
use dds_api::qos::{DataWriterQos, LifespanQosPolicy, PresentationQosPolicy};
use dds_api::subscription::InstanceState;

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Command {
    #[dds(key)]
    actuator: u32,
    number: u64,
}

fn command(number: u64) -> Command {
    Command { actuator: 1, number }
}

/// A reader of one participant, and two writers of two others.
struct Scene {
    reader: DataReader<Command>,
    writers: [DataWriter<Command>; 2],
    _domain: TestDomain,
}

/// Sets up a scene. The first writer is the stronger one if ownership is exclusive, and both
/// writers dispose nothing when they are deleted.
fn scene(is_exclusive: bool) -> Scene {
    let domain = TestDomain::new();
    let [here, one, other] = [domain.join(), domain.join(), domain.join()];
    let topic = |participant: &DomainParticipant| {
        participant.topic::<Command>("Commands").create().unwrap()
    };
    let reader = here.reader(&topic(&here)).reliable_all();
    let reader = if is_exclusive { reader.exclusive_ownership() } else { reader };
    let reader = reader.create().unwrap();
    let writers = [(one, 2), (other, 1)].map(|(participant, strength)| {
        let writer = participant.writer(&topic(&participant));
        let writer = if is_exclusive { writer.ownership_strength(strength) } else { writer };
        let writer = writer.autodispose_unregistered_instances(false).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        writer
    });
    until("the reader has two writers", || matched(&reader) == 2);
    Scene { reader, writers, _domain: domain }
}

fn matched(reader: &DataReader<Command>) -> usize {
    reader.matched_writers()
}

/// Everything that waits, as the number of a sample or the state of an ended instance, with the
/// number of times that the instance had no writers.
fn take_late(reader: &DataReader<Command>) -> Vec<(Result<u64, InstanceState>, u32)> {
    let taken = reader.take(.., SOON).unwrap();
    let seen = taken.map(|sample| {
        let info = sample.info();
        let what = sample.data().map(|data| data.number).ok_or(info.instance_state);
        (what, info.no_writers_generation_count)
    });
    seen.collect()
}

#[test]
fn samples_of_a_backup_after_the_end_of_the_owner_are_not_dropped() {
    let Scene { reader, writers: [owner, backup], _domain } = scene(true);
    owner.write(&command(1)).unwrap();
    backup.write(&command(2)).unwrap();
    owner.write(&command(3)).unwrap();
    drop(owner);
    until("the owner is gone", || matched(&reader) == 1);
    backup.write(&command(4)).unwrap();
    backup.write(&command(5)).unwrap();
    backup.wait_for_acknowledgments(SOON).unwrap();
    let seen: Vec<_> = take_late(&reader).into_iter().filter_map(|(what, _)| what.ok()).collect();
    assert_eq!(seen, [1, 3, 4, 5]);
}

#[test]
fn later_dispose_of_another_writer_is_not_undone() {
    for disposing in [0, 1] {
        let Scene { reader, writers, _domain } = scene(false);
        writers[disposing].write(&command(1)).unwrap();
        writers[1 - disposing].write(&command(2)).unwrap();
        writers[disposing].dispose(&command(0)).unwrap();
        writers.iter().for_each(|it| it.wait_for_acknowledgments(SOON).unwrap());
        let seen: Vec<_> = take_late(&reader).into_iter().map(|(what, _)| what).collect();
        assert_eq!(seen, [Ok(1), Ok(2), Err(InstanceState::NotAliveDisposed)]);
    }
}

#[test]
fn samples_of_several_writers_are_taken_in_the_order_of_their_times() {
    let Scene { reader, writers, _domain } = scene(false);
    // Runs of different lengths, so that the reader stays at one queue and turns to the other.
    let order = [0, 0, 1, 0, 1, 1, 1, 0, 1, 0, 0, 0];
    for (number, writer) in (0..).zip(order) {
        writers[writer].write(&command(number)).unwrap();
    }
    writers.iter().for_each(|it| it.wait_for_acknowledgments(SOON).unwrap());
    let seen: Vec<_> = take_late(&reader).into_iter().filter_map(|(what, _)| what.ok()).collect();
    assert_eq!(seen, (0..order.len() as u64).collect::<Vec<_>>());
}

#[test]
fn end_of_a_writer_has_its_place_among_the_samples_of_another() {
    let Scene { reader, writers: [one, other], _domain } = scene(false);
    one.write(&command(1)).unwrap();
    drop(one);
    until("the writer is gone", || matched(&reader) == 1);
    other.write(&command(2)).unwrap();
    other.wait_for_acknowledgments(SOON).unwrap();
    let seen = take_late(&reader);
    assert_eq!(seen, [(Ok(1), 0), (Ok(2), 1)]);
}

/// A time long before anything was written.
fn long_ago() -> SystemTime {
    SystemTime::now() - Duration::from_secs(3600)
}

fn wait_for_all(writers: &[DataWriter<Command>; 2]) {
    writers.iter().for_each(|it| it.wait_for_acknowledgments(SOON).unwrap());
}

#[test]
fn dispose_with_an_older_timestamp_comes_behind_the_sample_that_it_disposes() {
    for disposing in [0, 1] {
        let Scene { reader, writers, _domain } = scene(false);
        writers[1 - disposing].write(&command(1)).unwrap();
        writers[disposing].dispose_w_timestamp(&command(0), long_ago()).unwrap();
        wait_for_all(&writers);
        let seen: Vec<_> = take_late(&reader).into_iter().map(|(what, _)| what).collect();
        assert_eq!(seen, [Ok(1), Err(InstanceState::NotAliveDisposed)]);
    }
}

#[test]
fn sample_with_a_newer_timestamp_comes_before_a_later_dispose() {
    for disposing in [0, 1] {
        let Scene { reader, writers, _domain } = scene(false);
        let ahead = SystemTime::now() + Duration::from_millis(50);
        writers[1 - disposing].write_w_timestamp(&command(1), ahead).unwrap();
        writers[disposing].dispose(&command(0)).unwrap();
        wait_for_all(&writers);
        // A time that is still in the future would count as now.
        until("the timestamp has passed", || SystemTime::now() > ahead);
        let seen: Vec<_> = take_late(&reader).into_iter().map(|(what, _)| what).collect();
        assert_eq!(seen, [Ok(1), Err(InstanceState::NotAliveDisposed)]);
    }
}

#[test]
fn timestamps_of_the_application_move_no_sample_among_those_of_another_writer() {
    let Scene { reader, writers, _domain } = scene(false);
    let order = [0, 1, 1, 0, 0, 1, 0, 1];
    for (number, writer) in (0..).zip(order) {
        let time = long_ago() - Duration::from_secs(number);
        match number % 3 {
            0 => writers[writer].write(&command(number)).unwrap(),
            _ => writers[writer].write_w_timestamp(&command(number), time).unwrap(),
        }
    }
    wait_for_all(&writers);
    let seen: Vec<_> = take_late(&reader).into_iter().filter_map(|(what, _)| what.ok()).collect();
    assert_eq!(seen, (0..order.len() as u64).collect::<Vec<_>>());
}

#[test]
fn coherent_set_with_timestamps_of_the_application_comes_at_the_time_of_its_end() {
    let domain = TestDomain::new();
    let [here, one, other] = [domain.join(), domain.join(), domain.join()];
    let topic = |participant: &DomainParticipant| {
        participant.topic::<Command>("Commands").create().unwrap()
    };
    let reader = here.reader(&topic(&here)).reliable_all().create().unwrap();
    let coherent = PresentationQosPolicy { coherent_access: true, ..Default::default() };
    let publisher = one.publisher().presentation(coherent).create().unwrap();
    let gathering = publisher.writer(&topic(&one)).create().unwrap();
    let plain = other.writer(&topic(&other)).create().unwrap();
    until("the reader has two writers", || matched(&reader) == 2);
    publisher.begin_coherent_changes().unwrap();
    gathering.write_w_timestamp(&command(2), long_ago()).unwrap();
    gathering.write_w_timestamp(&command(3), long_ago()).unwrap();
    plain.write(&command(1)).unwrap();
    publisher.end_coherent_changes().unwrap();
    plain.write(&command(4)).unwrap();
    wait_for_all(&[gathering, plain]);
    let seen: Vec<_> = take_late(&reader).into_iter().filter_map(|(what, _)| what.ok()).collect();
    assert_eq!(seen, [1, 2, 3, 4]);
}

/// The largest sample, with everything that accompanies a sample.
#[test]
fn largest_sample_fits_with_a_timestamp_of_the_application() {
    #[derive(DdsType, Clone, Debug, Default, PartialEq)]
    struct Report {
        #[dds(key)]
        number: u32,
        text: String,
    }
    let domain = TestDomain::new();
    let here = domain.join();
    let topic = here.topic::<Report>("Reports").create().unwrap();
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    let text = "x".repeat(5000);
    let writer = here.writer(&topic);
    let lifespan = LifespanQosPolicy { duration: Duration::from_secs(3600).into() };
    let writer = writer.qos(&DataWriterQos { lifespan, ..Default::default() });
    // The encoding, the number, the length of the text, and the text with a closing zero.
    let writer = writer.max_sample_size(4 + 4 + 4 + text.len() + 1).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let report = Report { number: 1, text };
    let time = SystemTime::now() - Duration::from_secs(1);
    writer.write_w_timestamp(&report, time).unwrap();
    let sample = reader.take_next(SOON).unwrap().unwrap();
    assert_eq!(sample.data(), Some(&report));
    assert_eq!(sample.info().source_timestamp, time);
}
