//! DATA_AVAILABLE and DATA_ON_READERS: what sets them, and what resets them (DDS 1.4, 2.2.4.2.2).

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::support::{CheckedSample, PATIENCE, SOON, TestDomain, until};
use dds_api::infrastructure::{DataReaderListener, StatusKind, SubscriberListener, WaitSet};
use dds_api::prelude::*;
use dds_api::subscription::{ReadCondition, States, Subscriber};

const AVAILABLE: StatusKind = StatusKind::DataAvailable;
const ON_READERS: StatusKind = StatusKind::DataOnReaders;

/// Two readers of one subscriber, and a writer for each.
struct Scene {
    subscriber: Subscriber,
    readers: [DataReader<CheckedSample>; 2],
    writers: [DataWriter<CheckedSample>; 2],
    _domain: TestDomain,
}

/// Sets up a scene with readers that follow instances, or take directly from their queues.
fn scene(follows: bool) -> Scene {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let subscriber = here.subscriber().create().unwrap();
    let made = ["Left", "Right"].map(|name| {
        let topics = [&here, &there].map(|at| at.topic::<CheckedSample>(name).create().unwrap());
        let reader = subscriber.reader(&topics[0]).reliable_all();
        let reader = if follows { reader.keep_all() } else { reader };
        let (reader, writer) = (reader.create().unwrap(), there.writer(&topics[1]));
        let writer = writer.create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        // From then on the samples are in the reader's queue when they are acknowledged.
        reader.wait_for_writers(1, SOON).unwrap();
        (reader, writer)
    });
    let [(left, to_left), (right, to_right)] = made;
    let (readers, writers) = ([left, right], [to_left, to_right]);
    Scene { subscriber, readers, writers, _domain: domain }
}

impl Scene {
    fn write(&self, at: usize, numbers: &[u64]) {
        for number in numbers {
            self.writers[at].write(&CheckedSample::new(*number)).unwrap();
        }
        self.writers[at].wait_for_acknowledgments(SOON).unwrap();
    }

    /// DATA_AVAILABLE of both readers, and DATA_ON_READERS.
    fn flags(&self) -> [bool; 3] {
        let [left, right] = &self.readers;
        let available = |it: &DataReader<CheckedSample>| it.status_changes().contains(AVAILABLE);
        let on_readers = self.subscriber.status_changes().contains(ON_READERS);
        [available(left), available(right), on_readers]
    }

    fn take_one(&self, at: usize) -> u64 {
        self.readers[at].take_next(SOON).unwrap().unwrap().data().unwrap().number
    }
}

#[test]
fn take_that_leaves_samples_resets_the_status_until_more_arrive() {
    for follows in [false, true] {
        let scene = scene(follows);
        assert_eq!(scene.flags(), [false; 3], "follows: {follows}");
        scene.write(0, &[1, 2, 3]);
        assert_eq!(scene.flags(), [true, false, true], "follows: {follows}");
        assert_eq!(scene.flags(), [true, false, true], "a query changes nothing");
        assert_eq!(scene.take_one(0), 1);
        assert_eq!(scene.flags(), [false; 3], "follows: {follows}");
        scene.write(0, &[4]);
        assert_eq!(scene.flags(), [true, false, true], "follows: {follows}");
        let rest = scene.readers[0].take(..2, SOON).unwrap().map(|it| it.data().unwrap().number);
        assert_eq!(rest.collect::<Vec<_>>(), [2, 3]);
        assert_eq!(scene.flags(), [false; 3], "follows: {follows}");
        assert_eq!(scene.take_one(0), 4);
        scene.write(0, &[5, 6]);
        assert_eq!(scene.flags(), [true, false, true], "follows: {follows}");
        let next = scene.readers[0].take_next_data(SOON).unwrap().unwrap();
        assert_eq!(next.number, 5);
        assert_eq!(scene.flags(), [false; 3], "follows: {follows}");
    }
}

#[test]
fn reading_of_one_reader_resets_data_on_readers_for_all() {
    for follows in [false, true] {
        let scene = scene(follows);
        assert_eq!(scene.flags(), [false; 3]);
        scene.write(0, &[1]);
        scene.write(1, &[2]);
        assert_eq!(scene.flags(), [true; 3], "follows: {follows}");
        assert_eq!(scene.take_one(1), 2);
        assert_eq!(scene.flags(), [true, false, false], "follows: {follows}");
        scene.write(1, &[3]);
        assert_eq!(scene.flags(), [true; 3], "follows: {follows}");
        assert_eq!(scene.take_one(0), 1);
        assert_eq!(scene.flags(), [false, true, false], "follows: {follows}");
    }
}

#[test]
fn read_resets_the_status_and_the_end_of_an_instance_sets_it() {
    let scene = scene(true);
    scene.write(0, &[1, 2]);
    assert_eq!(scene.flags(), [true, false, true]);
    assert_eq!(scene.readers[0].read(..1, Timeout::NOW).unwrap().len(), 1);
    assert_eq!(scene.flags(), [false; 3]);
    // A call that only waits reads nothing.
    scene.write(0, &[3]);
    let unread = ReadCondition::new(States::not_read());
    assert!(scene.readers[0].wait_for_condition(&unread, SOON).unwrap());
    assert_eq!(scene.flags(), [true, false, true]);
    assert_eq!(scene.readers[0].read(.., Timeout::NOW).unwrap().len(), 3);
    assert_eq!(scene.flags(), [false; 3]);
    let Scene { subscriber, readers, writers, _domain } = scene;
    drop(writers);
    until("the end of the instance is reported", || {
        readers[0].status_changes().contains(AVAILABLE)
            && subscriber.status_changes().contains(ON_READERS)
    });
}

#[test]
fn wait_set_wakes_for_each_arrival_although_samples_are_left() {
    for follows in [false, true] {
        let scene = scene(follows);
        let condition = scene.readers[0].status_condition();
        condition.set_enabled_statuses(AVAILABLE);
        let wait_set = WaitSet::new();
        wait_set.attach(&condition).unwrap();
        for number in 0..20 {
            scene.write(0, &[2 * number, 2 * number + 1]);
            wait_set.wait(SOON).unwrap();
            assert_eq!(scene.take_one(0), number, "follows: {follows}");
            let error = wait_set.wait(Timeout::millis(1)).unwrap_err();
            assert!(matches!(error, DdsError::Timeout(_)), "{error}");
        }
    }
}

/// Listener that reports its calls and reads nothing.
struct PassiveListener(Sender<&'static str>);

impl DataReaderListener<CheckedSample> for PassiveListener {
    fn on_data_available(&mut self, _: &DataReader<CheckedSample>) {
        let _ = self.0.send("reader");
    }
}

impl SubscriberListener for PassiveListener {
    fn on_data_on_readers(&mut self, _: &Subscriber) {
        let _ = self.0.send("subscriber");
    }
}

fn called(reports: &Receiver<&'static str>) -> &'static str {
    reports.recv_timeout(PATIENCE).unwrap()
}

#[test]
fn call_of_a_listener_for_data_resets_the_status() {
    let scene = scene(true);
    assert_eq!(scene.flags(), [false; 3]);
    let (sender, reports) = channel();
    scene.readers[0].set_listener(PassiveListener(sender.clone()), AVAILABLE).unwrap();
    scene.write(1, &[1]);
    assert_eq!(scene.flags(), [false, true, true]);
    scene.write(0, &[2]);
    assert_eq!(called(&reports), "reader");
    assert_eq!(scene.flags(), [false, true, false], "on_data_available resets both");
    scene.subscriber.set_listener(PassiveListener(sender), ON_READERS).unwrap();
    // A new listener may be called at once for what is unread. That is not the call for sample 3.
    while reports.recv_timeout(Duration::from_millis(200)).is_ok() {}
    scene.write(1, &[3]);
    assert_eq!(called(&reports), "subscriber");
    assert_eq!(scene.flags(), [false, true, false], "on_data_on_readers resets its own status");
}

/// A sample that TIME_BASED_FILTER held back sets the status when it becomes visible.
#[test]
fn sample_held_back_by_time_based_filter_sets_the_status_later() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topics = [&here, &there].map(|at| at.topic::<CheckedSample>("Marks").create().unwrap());
    let reader = here.reader(&topics[0]).reliable_all();
    let reader = reader.minimum_separation(Duration::from_millis(300)).create().unwrap();
    let writer = there.writer(&topics[1]).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    reader.wait_for_writers(1, SOON).unwrap();
    for number in [1, 2] {
        writer.write(&CheckedSample::new(number)).unwrap();
    }
    writer.wait_for_acknowledgments(SOON).unwrap();
    assert!(reader.status_changes().contains(AVAILABLE));
    assert_eq!(reader.take_next(SOON).unwrap().unwrap().data().unwrap().number, 1);
    assert!(!reader.status_changes().contains(AVAILABLE));
    until("the second sample is visible", || reader.status_changes().contains(AVAILABLE));
    assert_eq!(reader.take_next(SOON).unwrap().unwrap().data().unwrap().number, 2);
}
