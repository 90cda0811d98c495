//! Topics without order: a reader that looks late sees the samples of several writers, and the ends
//! of writers, in the order of their times (I-217).

use crate::support::{SOON, TestDomain, until};
use dds_api::prelude::*;
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
    let reader = here.reader(&topic(&here)).keep_all().follow_instances();
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
