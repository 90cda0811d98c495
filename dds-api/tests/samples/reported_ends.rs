//! The end of an instance by the end of its writer is news as a sample is: for listeners, for
//! conditions and for wait sets.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::support::{SOON, TestDomain};
use dds_api::infrastructure::{StatusKind, SubscriberListener, WaitSet};
use dds_api::prelude::*;
use dds_api::subscription::{InstanceState, ReadCondition, States, Subscriber};

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
}

/// A reader of a subscriber, and a writer of another participant whose only sample was taken.
struct Scene {
    subscriber: Subscriber,
    reader: DataReader<Track>,
    writer: DataWriter<Track>,
    _domain: TestDomain,
}

/// Each topic level, with writers that dispose their instances and writers that do not.
fn all() -> impl Iterator<Item = (bool, bool)> {
    [(false, false), (false, true), (true, false), (true, true)].into_iter()
}

fn scene((atomic, disposes): (bool, bool)) -> Scene {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = |participant: &DomainParticipant| {
        let topic = participant.topic::<Track>("Tracks");
        if atomic { topic.atomic().create().unwrap() } else { topic.create().unwrap() }
    };
    let subscriber = here.subscriber().create().unwrap();
    let reader = subscriber.reader(&topic(&here)).reliable_all().create().unwrap();
    let writer = there.writer(&topic(&there)).autodispose_unregistered_instances(disposes);
    let writer = writer.create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&Track { id: 1 }).unwrap();
    assert_eq!(reader.take_data(..1, SOON).unwrap().count(), 1);
    Scene { subscriber, reader, writer, _domain: domain }
}

fn take_end(reader: &DataReader<Track>, disposes: bool) {
    let states: Vec<_> =
        reader.take(.., Timeout::NOW).unwrap().map(|it| it.info().instance_state).collect();
    let state =
        if disposes { InstanceState::NotAliveDisposed } else { InstanceState::NotAliveNoWriters };
    assert_eq!(states, [state]);
}

struct ReportingListener(Sender<usize>);

impl SubscriberListener for ReportingListener {
    fn on_data_on_readers(&mut self, subscriber: &Subscriber) {
        // The test may have ended.
        let _ = self.0.send(subscriber.readers().len());
    }
}

#[test]
fn on_data_on_readers_is_called_when_an_instance_ends_with_its_writer() {
    for (atomic, disposes) in all() {
        let Scene { subscriber, reader, writer, _domain } = scene((atomic, disposes));
        let (says, hears) = channel();
        subscriber.set_listener(ReportingListener(says), StatusKind::DataOnReaders).unwrap();
        // What came before the listener is reported as well.
        while hears.recv_timeout(Duration::from_millis(20)).is_ok() {}
        writer.delete();
        assert_eq!(
            hears.recv_timeout(Duration::from_secs(60)),
            Ok(1),
            "atomic: {atomic}, disposes: {disposes}"
        );
        take_end(&reader, disposes);
    }
}

#[test]
fn wait_sets_wake_when_an_instance_ends_with_its_writer() {
    for (kind, which) in all().flat_map(|kind| (0..3).map(move |which| (kind, which))) {
        let Scene { subscriber, reader, writer, _domain } = scene(kind);
        let wait_set = WaitSet::new();
        match which {
            0 => {
                let condition = reader.status_condition();
                condition.set_enabled_statuses(StatusKind::DataAvailable);
                wait_set.attach(&condition).unwrap();
            }
            1 => wait_set.attach(&subscriber.status_condition()).unwrap(),
            _ => {
                let states = States::not_read();
                let condition = reader.condition(&ReadCondition::new(states));
                wait_set.attach(&condition).unwrap();
            }
        }
        assert!(wait_set.wait(Timeout::millis(20)).is_err(), "nothing has come");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| wait_set.wait(SOON).map(|met| met.len()));
            std::thread::sleep(Duration::from_millis(20));
            writer.delete();
            assert_eq!(waits.join().unwrap().unwrap(), 1, "{kind:?}, condition {which}");
        });
        take_end(&reader, kind.1);
    }
}
