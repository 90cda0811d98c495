//! Statuses: each has its counts, reading it resets its changes, and each is reported to listeners
//! at every level.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::support::{CheckedSample, PATIENCE, SOON, TestDomain, until};
use dds_api::infrastructure::{
    AnyDataReader, AnyDataWriter, DataReaderListener, DataWriterListener, IncompatibleQosStatus,
    InconsistentTopicStatus, LivelinessChangedStatus, LivelinessLostStatus,
    OfferedDeadlineMissedStatus, PublicationMatchedStatus, PublisherListener,
    RequestedDeadlineMissedStatus, SampleLostStatus, StatusKind, StatusMask, SubscriberListener,
    SubscriptionMatchedStatus, TopicListener,
};
use dds_api::prelude::*;
use dds_api::qos::{
    DataReaderQos, DataWriterQos, HistoryQosPolicyKind, Length, LivelinessQosPolicyKind, PolicyId,
    ResourceLimitsQosPolicy,
};
use dds_api::subscription::{SampleRejectedStatus, Subscriber};

/// Deadline that no writer here meets.
const PERIOD: Duration = Duration::from_millis(60);

fn topic(participant: &DomainParticipant) -> Topic<CheckedSample> {
    participant.topic::<CheckedSample>("Marks").create().unwrap()
}

/// Returns policies of a writer that makes promises which it does not keep.
fn promises() -> DataWriterQos {
    let mut qos = DataWriterQos::default();
    qos.liveliness.kind = LivelinessQosPolicyKind::ManualByTopic;
    qos.liveliness.lease_duration = PERIOD.into();
    qos.deadline.period = PERIOD.into();
    qos
}

/// Returns policies of a reader that requests these promises, and has room for one sample.
fn asks() -> DataReaderQos {
    let mut qos = DataReaderQos::default();
    qos.deadline.period = PERIOD.into();
    qos.history.kind = HistoryQosPolicyKind::KeepAll;
    qos.resource_limits = ResourceLimitsQosPolicy {
        max_samples: Length::of(1),
        ..ResourceLimitsQosPolicy::default()
    };
    qos
}

/// Each status is caused again, read, and read again.
#[test]
fn reading_status_resets_its_change_counts() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let (here, there) = (topic(&ours), topic(&theirs));
    let writer = ours.writer(&here).qos(&promises()).create().unwrap();
    let handle = writer.instance_handle();
    let reader = theirs.reader(&there).qos(&asks()).create().unwrap();
    reader.wait_for_writers(1, SOON).unwrap();
    writer.wait_for_readers(1, SOON).unwrap();

    let matched = reader.subscription_matched_status();
    assert_eq!((matched.total_count, matched.current_count), (1, 1));
    assert_eq!((matched.total_count_change, matched.current_count_change), (1, 1));
    assert_eq!(matched.last_publication_handle, Some(handle));
    let again = reader.subscription_matched_status();
    assert_eq!(
        (again.total_count, again.total_count_change, again.current_count_change),
        (1, 0, 0)
    );

    // The application does not assert liveliness.
    let mut lost = writer.liveliness_lost_status();
    until("it is lost", || {
        lost.total_count_change += writer.liveliness_lost_status().total_count_change;
        lost.total_count_change > 0
    });
    let again = writer.liveliness_lost_status();
    assert_eq!((again.total_count, again.total_count_change), (1, 0), "it is lost once");
    until("its reader knows", || {
        reader.status_changes().contains(StatusKind::LivelinessChanged)
            && reader.matched_publications() == [handle]
    });
    until("it is not alive", || {
        let status = reader.liveliness_changed_status();
        (status.alive_count, status.not_alive_count) == (0, 1)
    });
    let mut changes = (0, 0);
    until("it is alive once more", || {
        writer.assert_liveliness().unwrap();
        let status = reader.liveliness_changed_status();
        assert_eq!(status.alive_count + status.not_alive_count, 1);
        changes.0 += status.alive_count_change;
        changes.1 += status.not_alive_count_change;
        assert_eq!(changes.0, -changes.1, "what is more of one is less of the other");
        status.last_publication_handle == Some(handle) && (status.alive_count, changes.0) == (1, 1)
    });

    writer.write(&CheckedSample::new(1)).unwrap();
    let (mut offered, mut requested) = (0, 0);
    until("it is missed on both sides", || {
        offered += writer.offered_deadline_missed_status().total_count_change;
        requested += reader.requested_deadline_missed_status().total_count_change;
        offered > 1 && requested > 1
    });
    let status = writer.offered_deadline_missed_status();
    assert_eq!(status.total_count, offered + status.total_count_change);
    let status = reader.requested_deadline_missed_status();
    assert_eq!(status.total_count, requested + status.total_count_change);

    // Two readers request more than is offered, one of them in two policies.
    let asking = |change: fn(&mut DataReaderQos)| {
        let mut qos = asks();
        change(&mut qos);
        theirs.reader(&there).qos(&qos).create().unwrap()
    };
    let one = asking(|qos| qos.deadline.period = Duration::from_millis(1).into());
    let both = asking(|qos| {
        qos.deadline.period = Duration::from_millis(1).into();
        qos.liveliness.lease_duration = Duration::from_millis(1).into();
    });
    let (mut count, mut policies) = (0, Vec::new());
    until("both are refused", || {
        let status = writer.offered_incompatible_qos_status();
        count += status.total_count_change;
        policies = status.policies;
        count == 2
    });
    let counts: Vec<_> = policies.iter().map(|it| (it.policy_id, it.count)).collect();
    assert_eq!(counts, [(PolicyId::Deadline, 2), (PolicyId::Liveliness, 1)]);
    assert_eq!(writer.offered_incompatible_qos_status().total_count_change, 0);
    for (reader, counted) in [(&one, 1), (&both, 2)] {
        until("it is told, too", || !reader.status_changes().is_empty());
        let status = reader.requested_incompatible_qos_status();
        assert_eq!((status.total_count_change, status.policies.len()), (1, counted));
        assert_eq!(reader.requested_incompatible_qos_status().total_count_change, 0);
    }

    let third = domain.join();
    let atomic = third.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let _stranger = third.reader(&atomic).reliable_all().create().unwrap();
    until("it is counted", || here.status_changes().contains(StatusKind::InconsistentTopic));
    let status = here.inconsistent_topic_status();
    assert_eq!((status.total_count, status.total_count_change), (1, 1));
    let status = here.inconsistent_topic_status();
    assert_eq!((status.total_count, status.total_count_change), (1, 0));

    drop(writer);
    until("it is gone", || reader.subscription_matched_status().current_count == 0);
}

/// Without listeners, changes stay until they are read.
#[test]
fn status_changes_without_listener_stay_until_read() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let here = topic(&participant);
    let writer = participant.writer(&here).create().unwrap();
    let reader = participant.reader(&here).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    until("both know", || {
        writer.status_changes().contains(StatusKind::PublicationMatched)
            && reader.status_changes().contains(StatusKind::SubscriptionMatched)
    });
    // A listener that is not called for an event does not reset the status.
    let (sender, reports) = channel();
    here.set_listener(ReportingListener("topic", sender.clone())).unwrap();
    here.clear_listener();
    writer.set_listener(ReportingListener("writer", sender), StatusKind::LivelinessLost).unwrap();
    assert!(reports.recv_timeout(Duration::from_millis(20)).is_err());
    assert!(writer.status_changes().contains(StatusKind::PublicationMatched));
    assert_eq!(writer.publication_matched_status().total_count_change, 1);
    assert!(writer.status_changes().is_empty());
}

/// Listener that reports its entity and the status it is called for.
struct ReportingListener(&'static str, Sender<(&'static str, StatusKind)>);

impl ReportingListener {
    fn say(&self, kind: StatusKind) {
        // The test may have ended.
        let _ = self.1.send((self.0, kind));
    }
}

/// All callbacks of a writer, for listeners of every kind.
macro_rules! hear_writers {
    ($writer:ty) => {
        fn on_offered_deadline_missed(&mut self, _: $writer, _: &OfferedDeadlineMissedStatus) {
            self.say(StatusKind::OfferedDeadlineMissed);
        }

        fn on_offered_incompatible_qos(&mut self, _: $writer, _: &IncompatibleQosStatus) {
            self.say(StatusKind::OfferedIncompatibleQos);
        }

        fn on_liveliness_lost(&mut self, _: $writer, _: &LivelinessLostStatus) {
            self.say(StatusKind::LivelinessLost);
        }

        fn on_publication_matched(&mut self, _: $writer, _: &PublicationMatchedStatus) {
            self.say(StatusKind::PublicationMatched);
        }
    };
}

/// All callbacks of a reader.
macro_rules! hear_readers {
    ($reader:ty) => {
        fn on_data_available(&mut self, _: $reader) {
            self.say(StatusKind::DataAvailable);
        }

        fn on_sample_lost(&mut self, _: $reader, status: &SampleLostStatus) {
            assert!(status.total_count_change > 0);
            self.say(StatusKind::SampleLost);
        }

        fn on_sample_rejected(&mut self, _: $reader, _: &SampleRejectedStatus) {
            self.say(StatusKind::SampleRejected);
        }

        fn on_liveliness_changed(&mut self, _: $reader, _: &LivelinessChangedStatus) {
            self.say(StatusKind::LivelinessChanged);
        }

        fn on_requested_deadline_missed(&mut self, _: $reader, _: &RequestedDeadlineMissedStatus) {
            self.say(StatusKind::RequestedDeadlineMissed);
        }

        fn on_requested_incompatible_qos(&mut self, _: $reader, _: &IncompatibleQosStatus) {
            self.say(StatusKind::RequestedIncompatibleQos);
        }

        fn on_subscription_matched(&mut self, _: $reader, _: &SubscriptionMatchedStatus) {
            self.say(StatusKind::SubscriptionMatched);
        }
    };
}

impl DataWriterListener<CheckedSample> for ReportingListener {
    hear_writers!(&DataWriter<CheckedSample>);
}

impl PublisherListener for ReportingListener {
    hear_writers!(&dyn AnyDataWriter);
}

impl DataReaderListener<CheckedSample> for ReportingListener {
    hear_readers!(&DataReader<CheckedSample>);
}

impl SubscriberListener for ReportingListener {
    hear_readers!(&dyn AnyDataReader);

    fn on_data_on_readers(&mut self, _: &Subscriber) {
        self.say(StatusKind::DataOnReaders);
    }
}

impl TopicListener for ReportingListener {
    fn on_inconsistent_topic(&mut self, _: &str, _: &InconsistentTopicStatus) {
        self.say(StatusKind::InconsistentTopic);
    }
}

/// Waits until all of these statuses were reported, in any order; checks which listener is called
/// for each.
fn hear(
    reports: &Receiver<(&'static str, StatusKind)>,
    place: [&'static str; 2],
    reader: StatusMask,
) {
    let of_writers = StatusKind::OfferedDeadlineMissed
        | StatusKind::OfferedIncompatibleQos
        | StatusKind::LivelinessLost
        | StatusKind::PublicationMatched;
    let mut left: BTreeSet<StatusKind> = (of_writers | reader).kinds().collect();
    while !left.is_empty() {
        let (at, kind) = reports.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{left:?}"));
        assert_eq!(at, place[usize::from(!of_writers.contains(kind))], "{kind}");
        left.remove(&kind);
    }
}

/// Every possible error between a writer and a reader occurs: reported to their own listeners, and
/// to those of their groups and of their participant.
#[test]
fn each_status_reaches_entity_group_and_participant_listeners() {
    let of_readers = StatusKind::SampleRejected
        | StatusKind::LivelinessChanged
        | StatusKind::RequestedDeadlineMissed
        | StatusKind::RequestedIncompatibleQos
        | StatusKind::SubscriptionMatched;
    for near in ["own", "group", "participant"] {
        let domain = TestDomain::new();
        let participant = domain.join();
        let here = topic(&participant);
        let publisher = participant.publisher().create().unwrap();
        let subscriber = participant.subscriber().create().unwrap();
        let writer = publisher.writer(&here).qos(&promises()).create().unwrap();
        let reader = subscriber.reader(&here).qos(&asks()).create().unwrap();
        let (sender, reports) = channel();
        let listener = |place| ReportingListener(place, sender.clone());
        let data = match near {
            "own" => {
                writer.set_listener(listener("writer"), StatusMask::ALL).unwrap();
                reader.set_listener(listener("reader"), StatusMask::ALL).unwrap();
                StatusKind::DataAvailable
            }
            "group" => {
                publisher.set_listener(listener("writer"), StatusMask::ALL).unwrap();
                subscriber.set_listener(listener("reader"), StatusMask::ALL).unwrap();
                StatusKind::DataOnReaders
            }
            _ => {
                participant.set_listener(listener("all"), StatusMask::ALL).unwrap();
                StatusKind::DataOnReaders
            }
        };
        writer.wait_for_readers(1, SOON).unwrap();
        (0..3).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
        let mut more = asks();
        more.deadline.period = Duration::from_millis(1).into();
        let _refused = participant.reader(&here).qos(&more).create().unwrap();
        let less = participant.writer(&here).create().unwrap();
        let place = if near == "participant" { ["all"; 2] } else { ["writer", "reader"] };
        hear(&reports, place, of_readers | data);
        drop(less);
    }
}

/// Samples at a best-effort reader are not taken.
#[test]
fn sample_lost_reaches_reader_subscriber_and_participant_listeners() {
    for near in ["reader", "group", "participant"] {
        let domain = TestDomain::new();
        let participant = domain.join();
        let here = topic(&participant);
        let subscriber = participant.subscriber().create().unwrap();
        let writer = participant.writer(&here).memory(16 << 10).create().unwrap();
        let reader = subscriber.reader(&here).best_effort().keep_all().create().unwrap();
        let (sender, reports) = channel();
        let (listener, mask) = (ReportingListener(near, sender), StatusKind::SampleLost);
        match near {
            "reader" => reader.set_listener(listener, mask).unwrap(),
            "group" => subscriber.set_listener(listener, mask).unwrap(),
            _ => participant.set_listener(listener, mask).unwrap(),
        }
        writer.wait_for_readers(1, SOON).unwrap();
        (0..5000).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
        assert_eq!(reports.recv_timeout(PATIENCE).unwrap(), (near, StatusKind::SampleLost));
        // The listener call resets the status.
        assert!(reader.sample_lost_status().total_count > 0);
    }
}
