//! TRANSPORT_PRIORITY: samples with a higher priority are handled first (I-241).

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use crate::levels::at_level;
use crate::support::{Actor, CheckedSample, SOON, TestDomain, join, listen, role, say, until};
use dds_api::infrastructure::{DataReaderListener, StatusKind};
use dds_api::prelude::*;

/// Topics in the order in which both sides create them, with their levels and priorities.
const TOPICS: [(&str, &str, i32); 5] = [
    ("Maintenance", "unordered", -5),
    ("State", "atomic", 0),
    ("Position", "unordered", 0),
    ("Command", "atomic", 7),
    ("Alarm", "unordered", 90),
];

fn topic(
    participant: &DomainParticipant,
    (name, level, _): (&str, &str, i32),
) -> Topic<CheckedSample> {
    at_level(participant.topic::<CheckedSample>(name), level)
}

/// Topic whose listener blocks all others, before any of them is called.
const GATE: (&str, &str, i32) = ("Gate", "unordered", 1000);

/// Listener that reports its call, and returns when it is released.
struct GatedListener(Receiver<()>);

impl DataReaderListener<CheckedSample> for GatedListener {
    fn on_data_available(&mut self, reader: &DataReader<CheckedSample>) {
        if reader.take_data(.., Timeout::NOW).into_iter().flatten().count() > 0 {
            say("held");
            self.0.recv().unwrap();
        }
    }
}

/// Listener that records its call.
struct RecordingListener(Arc<Mutex<Vec<String>>>);

impl DataReaderListener<CheckedSample> for RecordingListener {
    fn on_data_available(&mut self, reader: &DataReader<CheckedSample>) {
        let count = reader.take_data(.., Timeout::NOW).into_iter().flatten().count();
        if count > 0 {
            self.0.lock().unwrap().push(reader.topic().name().to_owned());
        }
    }
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "listener" => act_listener(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Reports the order of listener calls, each time they were blocked and released.
fn act_listener(folder: &Path) {
    let (participant, called) = (join(folder), Arc::<Mutex<Vec<String>>>::default());
    let readers = TOPICS.map(|each| {
        let reader =
            participant.reader(&topic(&participant, each)).reliable_all().create().unwrap();
        reader
            .set_listener(RecordingListener(Arc::clone(&called)), StatusKind::DataAvailable)
            .unwrap();
        reader
    });
    let (let_go, gate) = channel();
    let held = participant.reader(&topic(&participant, GATE)).reliable_all().create().unwrap();
    held.set_listener(GatedListener(gate), StatusKind::DataAvailable).unwrap();
    until("all writers are there", || {
        readers.iter().chain([&held]).all(|reader| reader.matched_writers() == 1)
    });
    say("ready");
    while listen().is_some() {
        let_go.send(()).unwrap();
        until("all were called", || called.lock().unwrap().len() == TOPICS.len());
        say(&std::mem::take(&mut *called.lock().unwrap()).join(" "));
    }
}

/// Writes one sample to each topic while the listeners of the other process are blocked, and
/// returns the order of their calls.
fn order_of_calls(
    actor: &mut Actor,
    (gate, writers): (&DataWriter<CheckedSample>, &[DataWriter<CheckedSample>]),
    number: u64,
) -> String {
    gate.write(&CheckedSample::new(number)).unwrap();
    assert_eq!(actor.hear(), "held");
    writers.iter().for_each(|writer| writer.write(&CheckedSample::new(number)).unwrap());
    writers.iter().for_each(|writer| writer.wait_for_acknowledgments(SOON).unwrap());
    actor.tell("go on");
    actor.hear()
}

#[test]
fn samples_of_highest_priority_are_handled_first_in_another_process() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = |each: (&'static str, &str, i32)| {
        let writer = participant.writer(&topic(&participant, each)).transport_priority(each.2);
        writer.create().unwrap()
    };
    let (gate, writers) = (writer(GATE), TOPICS.map(writer));
    let mut actor = Actor::start(module_path!(), "listener", &domain, 0);
    assert_eq!(actor.hear(), "ready");
    let all = writers.iter().chain([&gate]);
    all.for_each(|writer| writer.wait_for_readers(1, SOON).unwrap());
    for number in 0..10 {
        let order = order_of_calls(&mut actor, (&gate, &writers), number);
        assert_eq!(order, "Alarm Command State Position Maintenance", "round {number}");
    }
    // The priority may change.
    let mut qos = writers[0].qos();
    qos.transport_priority.value = 100;
    writers[0].set_qos(&qos).unwrap();
    let mut qos = writers[4].qos();
    qos.transport_priority.value = 0;
    writers[4].set_qos(&qos).unwrap();
    until("that is known", || {
        order_of_calls(&mut actor, (&gate, &writers), 77)
            == "Maintenance Command State Position Alarm"
    });
    for number in 0..10 {
        let order = order_of_calls(&mut actor, (&gate, &writers), number);
        assert_eq!(order, "Maintenance Command State Position Alarm", "round {number}");
    }
    actor.finish();
    drop((gate, writers, participant));
    domain.assert_empty();
}

/// The topic's priority is the default for its writers.
#[test]
fn priority_of_a_topic_is_the_default_of_its_writers() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic =
        participant.topic::<CheckedSample>("Alarm").transport_priority(40).create().unwrap();
    let usual = participant.writer(&topic).create().unwrap();
    let other = participant.writer(&topic).transport_priority(-3).create().unwrap();
    let value = |writer: &DataWriter<CheckedSample>| writer.qos().transport_priority.value;
    assert_eq!([value(&usual), value(&other)], [40, -3]);
    drop((usual, other, topic, participant));
    domain.assert_empty();
}
