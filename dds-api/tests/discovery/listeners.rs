//! Listeners: which of them is called for which event, and what a listener may do.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::support::{CheckedSample, PATIENCE, SOON, TestDomain, until};
use dds_api::infrastructure::{
    AnyDataReader, AnyDataWriter, DataReaderListener, DataWriterListener, IncompatibleQosStatus,
    InconsistentTopicStatus, PublicationMatchedStatus, PublisherListener,
    RequestedDeadlineMissedStatus, StatusKind, StatusMask, SubscriberListener,
    SubscriptionMatchedStatus, TopicListener, WaitSet,
};
use dds_api::prelude::*;
use dds_api::subscription::Subscriber;

/// Listener that reports its calls, with the name of its entity.
struct ReportingListener(&'static str, Sender<String>);

impl ReportingListener {
    fn say(&self, what: String) {
        // The test may have ended.
        let _ = self.1.send(format!("{}: {what}", self.0));
    }
}

impl DataWriterListener<CheckedSample> for ReportingListener {
    fn on_publication_matched(
        &mut self,
        _: &DataWriter<CheckedSample>,
        status: &PublicationMatchedStatus,
    ) {
        self.say(format!("{} readers", status.current_count));
    }

    fn on_offered_incompatible_qos(
        &mut self,
        writer: &DataWriter<CheckedSample>,
        status: &IncompatibleQosStatus,
    ) {
        let policy = status.last_policy_id.unwrap();
        self.say(format!("{policy} of {}", writer.topic().name()));
    }
}

impl PublisherListener for ReportingListener {
    fn on_publication_matched(
        &mut self,
        writer: &dyn AnyDataWriter,
        status: &PublicationMatchedStatus,
    ) {
        assert!(writer.as_any().is::<DataWriter<CheckedSample>>());
        self.say(format!("{} readers of {}", status.current_count, writer.topic_name()));
    }
}

impl DataReaderListener<CheckedSample> for ReportingListener {
    fn on_data_available(&mut self, reader: &DataReader<CheckedSample>) {
        for sample in reader.take_data(.., Timeout::NOW).unwrap() {
            self.say(format!("sample {}", sample.number));
        }
    }

    fn on_subscription_matched(
        &mut self,
        _: &DataReader<CheckedSample>,
        status: &SubscriptionMatchedStatus,
    ) {
        self.say(format!("{} writers", status.current_count));
    }

    fn on_requested_deadline_missed(
        &mut self,
        _: &DataReader<CheckedSample>,
        status: &RequestedDeadlineMissedStatus,
    ) {
        assert!(status.total_count > 0);
        self.say("missed".to_owned());
    }
}

impl SubscriberListener for ReportingListener {
    fn on_data_available(&mut self, reader: &dyn AnyDataReader) {
        self.say(format!("data of {} ({})", reader.topic_name(), reader.type_name()));
    }

    fn on_subscription_matched(
        &mut self,
        _: &dyn AnyDataReader,
        status: &SubscriptionMatchedStatus,
    ) {
        self.say(format!("{} writers", status.current_count));
    }

    fn on_data_on_readers(&mut self, subscriber: &Subscriber) {
        self.say(format!("data for {} readers", subscriber.readers().len()));
    }
}

impl TopicListener for ReportingListener {
    fn on_inconsistent_topic(&mut self, topic: &str, status: &InconsistentTopicStatus) {
        self.say(format!("{} others by {topic}", status.total_count));
    }
}

fn next(reports: &Receiver<String>) -> String {
    reports.recv_timeout(PATIENCE).unwrap()
}

fn nothing(reports: &Receiver<String>) {
    let more = reports.recv_timeout(Duration::from_millis(50));
    assert!(more.is_err(), "{more:?}");
}

fn topic(participant: &DomainParticipant) -> Topic<CheckedSample> {
    participant.topic::<CheckedSample>("Marks").atomic().create().unwrap()
}

#[test]
fn writer_and_reader_call_their_own_listeners() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let (sender, reports) = channel();
    let writer = ours.writer(&topic(&ours)).create().unwrap();
    writer.set_listener(ReportingListener("writer", sender.clone()), StatusMask::ALL).unwrap();
    let reader = theirs.reader(&topic(&theirs)).reliable_all().create().unwrap();
    assert_eq!(next(&reports), "writer: 1 readers");
    // Earlier changes are reported, too.
    reader.set_listener(ReportingListener("reader", sender.clone()), StatusMask::ALL).unwrap();
    assert_eq!(next(&reports), "reader: 1 writers");
    writer.wait_for_readers(1, SOON).unwrap();
    for number in 0..3 {
        writer.write(&CheckedSample::new(number)).unwrap();
        assert_eq!(next(&reports), format!("reader: sample {number}"));
    }
    let picky =
        theirs.reader(&topic(&theirs)).reliable_all().exclusive_ownership().create().unwrap();
    assert_eq!(next(&reports), "writer: OWNERSHIP of Marks");
    drop(picky);
    nothing(&reports);
    let mut qos = reader.qos();
    qos.deadline.period = Duration::from_millis(50).into();
    reader.clear_listener();
    drop(reader);
    assert_eq!(next(&reports), "writer: 0 readers");
    writer.clear_listener();
    let mut offered = writer.qos();
    offered.deadline = qos.deadline.clone();
    writer.set_qos(&offered).unwrap();
    let reader = theirs.reader(&topic(&theirs)).qos(&qos).create().unwrap();
    reader
        .set_listener(ReportingListener("late", sender), StatusKind::RequestedDeadlineMissed)
        .unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    // The counted reader may be the previous one.
    reader.wait_for_writers(1, SOON).unwrap();
    writer.write(&CheckedSample::new(9)).unwrap();
    assert_eq!(next(&reports), "late: missed", "although nobody asks");
}

/// An event that an entity's own listener does not want goes to the listener of its publisher or
/// subscriber, and then to the participant's.
#[test]
fn event_outside_listener_mask_is_reported_to_enclosing_listener() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let (sender, reports) = channel();
    participant
        .set_listener(ReportingListener("participant", sender.clone()), StatusMask::ALL)
        .unwrap();
    let here = topic(&participant);
    let publisher = participant.publisher().create().unwrap();
    let matched = StatusKind::PublicationMatched;
    publisher.set_listener(ReportingListener("publisher", sender.clone()), matched).unwrap();
    let writer = publisher.writer(&here).create().unwrap();
    writer
        .set_listener(ReportingListener("writer", sender.clone()), StatusKind::LivelinessLost)
        .unwrap();
    let subscriber = participant.subscriber().create().unwrap();
    let reader = subscriber.reader(&here).reliable_all().create().unwrap();
    let mut first = [next(&reports), next(&reports)];
    first.sort();
    assert_eq!(first, ["participant: 1 writers", "publisher: 1 readers of Marks"]);
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&CheckedSample::new(1)).unwrap();
    assert_eq!(next(&reports), "participant: data for 1 readers");
    nothing(&reports);
    let data = StatusKind::DataAvailable;
    participant
        .set_listener(ReportingListener("participant", sender.clone()), !StatusMask::from(data))
        .unwrap();
    subscriber.set_listener(ReportingListener("subscriber", sender.clone()), data).unwrap();
    participant.clear_listener();
    writer.write(&CheckedSample::new(2)).unwrap();
    assert_eq!(next(&reports), "subscriber: data of Marks (CheckedSample)");
    reader.set_listener(ReportingListener("reader", sender.clone()), data).unwrap();
    writer.write(&CheckedSample::new(3)).unwrap();
    let samples = [(); 3].map(|()| next(&reports));
    assert_eq!(samples, ["reader: sample 1", "reader: sample 2", "reader: sample 3"]);
    publisher.clear_listener();
    drop(reader);
    until("it is gone", || writer.publication_matched_status().current_count == 0);
    here.set_listener(ReportingListener("topic", sender)).unwrap();
    let theirs = domain.join();
    let other = theirs.topic::<CheckedSample>("Marks").create().unwrap();
    let _other = theirs.reader(&other).reliable_all().create().unwrap();
    assert_eq!(next(&reports), "topic: 1 others by Marks");
}

#[test]
fn entities_report_their_listener_masks() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let here = topic(&participant);
    let publisher = participant.publisher().create().unwrap();
    let subscriber = participant.subscriber().create().unwrap();
    let writer = publisher.writer(&here).create().unwrap();
    let reader = subscriber.reader(&here).reliable_all().create().unwrap();
    let masks = || {
        [
            participant.listener_mask(),
            here.listener_mask(),
            publisher.listener_mask(),
            subscriber.listener_mask(),
            writer.listener_mask(),
            reader.listener_mask(),
        ]
    };
    assert_eq!(masks(), [StatusMask::NONE; 6]);
    let told = |name| ReportingListener(name, channel().0);
    let (matched, data) = (StatusKind::PublicationMatched, StatusKind::DataAvailable);
    participant.set_listener(told("participant"), StatusMask::ALL).unwrap();
    here.set_listener(told("topic")).unwrap();
    publisher.set_listener(told("publisher"), matched).unwrap();
    subscriber.set_listener(told("subscriber"), data).unwrap();
    writer.set_listener(told("writer"), matched).unwrap();
    reader.set_listener(told("reader"), data).unwrap();
    let of_topic = StatusMask::from(StatusKind::InconsistentTopic);
    let (matched, data) = (StatusMask::from(matched), StatusMask::from(data));
    assert_eq!(masks(), [StatusMask::ALL, of_topic, matched, data, matched, data]);
    participant.clear_listener();
    here.clear_listener();
    publisher.clear_listener();
    subscriber.clear_listener();
    writer.clear_listener();
    reader.clear_listener();
    assert_eq!(masks(), [StatusMask::NONE; 6]);
}

/// Entities are found by their topics' names; clones are the same entity.
#[test]
fn writers_and_readers_are_looked_up_by_topic_name() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let here = topic(&participant);
    let publisher = participant.publisher().create().unwrap();
    assert!(publisher.lookup_writer::<CheckedSample>("Marks").is_none());
    let writer = publisher.writer(&here).create().unwrap();
    let found = publisher.lookup_writer::<CheckedSample>("Marks").unwrap();
    assert_eq!(found.instance_handle(), writer.instance_handle());
    assert!(publisher.lookup_writer::<CheckedSample>("Others").is_none());
    let subscriber = participant.subscriber().create().unwrap();
    let reader = subscriber.reader(&here).reliable_all().create().unwrap();
    let again = subscriber.lookup_reader::<CheckedSample>("Marks").unwrap();
    found.wait_for_readers(1, SOON).unwrap();
    drop(writer);
    found.write(&CheckedSample::new(1)).unwrap();
    assert_eq!(again.take_next_data(SOON).unwrap().unwrap().number, 1);
    drop((reader, again, found));
    assert!(subscriber.lookup_reader::<CheckedSample>("Marks").is_none());
    assert!(publisher.writers().is_empty());
}

struct PanickingListener(Sender<String>);

impl DataReaderListener<CheckedSample> for PanickingListener {
    fn on_data_available(&mut self, reader: &DataReader<CheckedSample>) {
        let number = reader.take_next_data(Timeout::NOW).unwrap().unwrap().number;
        self.0.send(number.to_string()).unwrap();
        panic!("on purpose");
    }
}

#[test]
fn panic_in_listener_does_not_stop_later_calls() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let (sender, reports) = channel();
    let here = topic(&participant);
    let reader = participant.reader(&here).reliable_all().create().unwrap();
    reader.set_listener(PanickingListener(sender), StatusKind::DataAvailable).unwrap();
    let writer = participant.writer(&here).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    for number in 0..3 {
        writer.write(&CheckedSample::new(number)).unwrap();
        assert_eq!(next(&reports), number.to_string());
    }
}

/// Listener that waits, calls back into all entities, and drops the one it is called for.
struct ReentrantListener {
    writer: Option<DataWriter<CheckedSample>>,
    handles: Option<(DataReader<CheckedSample>, DomainParticipant)>,
    says: Sender<String>,
    go_on: Receiver<()>,
}

impl DataReaderListener<CheckedSample> for ReentrantListener {
    fn on_data_available(&mut self, reader: &DataReader<CheckedSample>) {
        self.says.send("called".to_owned()).unwrap();
        self.go_on.recv_timeout(PATIENCE).unwrap();
        let writer = self.writer.take().unwrap();
        writer.write(&CheckedSample::new(100)).unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        reader.clear_listener();
        let mut count = 0;
        until("all has come", || {
            count += reader.take_data(.., Timeout::millis(1)).unwrap().count();
            count == 12
        });
        drop(writer);
        // The last handles except the one of this call.
        drop(self.handles.take());
        self.says.send("done".to_owned()).unwrap();
    }
}

#[test]
fn listener_may_block_make_calls_and_drop_any_entity() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let (sender, reports) = channel();
    let (allow, go_on) = channel();
    let here = topic(&participant);
    let reader = participant.reader(&here).reliable_all().create().unwrap();
    let writer = participant.writer(&here).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let busy = ReentrantListener {
        writer: Some(writer.clone()),
        handles: Some((reader.clone(), participant)),
        says: sender,
        go_on,
    };
    reader.set_listener(busy, StatusKind::DataAvailable).unwrap();
    drop((reader, here));
    writer.write(&CheckedSample::new(0)).unwrap();
    assert_eq!(next(&reports), "called");
    for number in 1..11 {
        // A waiting listener blocks no other thread.
        writer.write(&CheckedSample::new(number)).unwrap();
    }
    drop(writer);
    allow.send(()).unwrap();
    assert_eq!(next(&reports), "done");
    until("the participant is gone", || {
        std::fs::read_dir(domain.runtime_dir()).is_err()
            || std::fs::read_dir(domain.runtime_dir()).unwrap().next().is_none()
    });
}

/// DATA_ON_READERS for applications without a listener.
#[test]
fn subscriber_condition_holds_while_any_of_its_readers_has_data() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let subscriber = there.subscriber().create().unwrap();
    let condition = subscriber.status_condition();
    let wait_set = WaitSet::new();
    wait_set.attach(&condition).unwrap();
    let (mut writers, mut readers) = (Vec::new(), Vec::new());
    for name in ["Left", "Right"] {
        let topics = [&here, &there].map(|of| of.topic::<CheckedSample>(name).create().unwrap());
        writers.push(here.writer(&topics[0]).create().unwrap());
        readers.push(subscriber.reader(&topics[1]).reliable_all().create().unwrap());
    }
    // Data at another subscriber's reader does not trigger the condition.
    let topic = there.topic::<CheckedSample>("Left").create().unwrap();
    let other = there.reader(&topic).reliable_all().create().unwrap();
    writers[0].wait_for_readers(2, SOON).unwrap();
    writers[1].wait_for_readers(1, SOON).unwrap();
    assert_eq!(subscriber.status_changes(), StatusMask::NONE);
    for at in [1, 0, 1] {
        assert!(!condition.trigger_value());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| wait_set.wait(SOON).unwrap());
            writers[at].write(&CheckedSample::new(7)).unwrap();
            assert_eq!(waits.join().unwrap(), [condition.as_ref().clone()]);
        });
        assert_eq!(subscriber.status_changes(), StatusKind::DataOnReaders.into());
        condition.set_enabled_statuses(StatusMask::NONE);
        assert!(!condition.trigger_value());
        condition.set_enabled_statuses(StatusKind::DataOnReaders);
        assert_eq!(readers[at].take_next_data(SOON).unwrap().unwrap().number, 7);
    }
    until("the other reader has its own", || other.has_samples());
    assert_eq!(subscriber.status_changes(), StatusMask::NONE);
    writers[0].write(&CheckedSample::new(8)).unwrap();
    wait_set.wait(SOON).unwrap();
    readers.clear();
    assert!(!condition.trigger_value(), "no reader, no data");
    drop(subscriber);
    assert!(!condition.trigger_value());
}

/// The status mask is set when the builder has created the entity, and the listener is told of the
/// match with an entity that was there before.
#[test]
fn listeners_given_to_builders_are_told_of_the_first_events() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let marks = |participant: &DomainParticipant| {
        participant.topic::<CheckedSample>("Marks").transient_local().create().unwrap()
    };
    let (says, hears) = channel();
    let listener = |name| ReportingListener(name, says.clone());
    let hear = || hears.recv_timeout(PATIENCE).unwrap();

    let ours = here.topic::<CheckedSample>("Marks").transient_local().listener(listener("topic"));
    let ours = ours.create().unwrap();
    assert_eq!(ours.listener_mask(), StatusMask::from(StatusKind::InconsistentTopic));
    let first = there.writer(&marks(&there)).create().unwrap();
    first.write(&CheckedSample::new(7)).unwrap();
    let mask = StatusKind::DataAvailable | StatusKind::SubscriptionMatched;
    let reader =
        here.reader(&ours).reliable_all().listener(listener("reader"), mask).create().unwrap();
    assert_eq!(reader.listener_mask(), mask);
    let mut told = [hear(), hear()];
    told.sort();
    assert_eq!(told, ["reader: 1 writers", "reader: sample 7"]);

    let writer = here.writer(&ours).listener(listener("writer"), StatusKind::PublicationMatched);
    let writer = writer.create().unwrap();
    assert_eq!(writer.listener_mask(), StatusMask::from(StatusKind::PublicationMatched));
    let mut told = [hear(), hear()];
    told.sort();
    assert_eq!(told, ["reader: 2 writers", "writer: 1 readers"]);
}
