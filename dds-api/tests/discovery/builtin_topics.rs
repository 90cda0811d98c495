//! Builtin topics: readers of participants, topics, writers and readers of other participants.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::support::{
    self, Actor, CheckedSample, PATIENCE, SOON, TestDomain, listen, reader_of, role, say, until,
    writer_of,
};
use dds_api::domain::{
    BuiltinTopicData, DomainParticipantFactory, ParticipantBuiltinTopicData,
    PublicationBuiltinTopicData, SubscriptionBuiltinTopicData, TopicBuiltinTopicData,
};
use dds_api::infrastructure::{
    AnyDataReader, DataReaderListener, StatusKind, SubscriberListener, WaitSet,
};
use dds_api::prelude::*;
use dds_api::qos::{DurabilityQosPolicyKind, HistoryQosPolicyKind, ReliabilityQosPolicyKind};
use dds_api::subscription::{
    InstanceState, ReadCondition, SampleState, States, Subscriber, ViewState,
};

/// Returns the current samples of a builtin topic.
fn present<T: BuiltinTopicData>(reader: &DataReader<T>) -> Vec<ValidSample<T>> {
    let all = reader.read_data(.., Timeout::NOW).unwrap().into_iter();
    all.filter(|it| it.info().instance_state == InstanceState::Alive).collect()
}

/// Takes the next sample of a builtin topic.
#[track_caller]
fn next<T: BuiltinTopicData>(reader: &DataReader<T>) -> ValidSample<T> {
    reader.take_next_data(SOON).unwrap().expect("nothing is told")
}

#[test]
fn late_builtin_reader_receives_all_existing_entities() {
    let domain = TestDomain::new();
    let there = domain.join();
    let mut qos = there.qos();
    qos.user_data.value = b"radar".to_vec();
    there.set_qos(&qos).unwrap();
    let topic =
        there.topic::<CheckedSample>("Marks").topic_data(*b"marks").atomic().create().unwrap();
    let publisher = there.publisher().partition(["left"]).group_data(*b"group").create().unwrap();
    let writer = publisher.writer(&topic).user_data(*b"writer").create().unwrap();
    let reader =
        there.reader(&topic).reliable_all().user_data(*b"reader").keep_last(3).create().unwrap();

    let here = domain.join();
    let _own = (writer_of(&here, "Own"), reader_of(&here, "Own"));
    until("all is known", || {
        let known = here.builtin_reader::<SubscriptionBuiltinTopicData>().unwrap();
        !present(&known).is_empty()
    });
    let participants = here.builtin_reader::<ParticipantBuiltinTopicData>().unwrap();
    let [of_it] = &present(&participants)[..] else { panic!("its own is not told of") };
    assert_eq!((of_it.key, &of_it.user_data.value[..]), (there.instance_handle(), &b"radar"[..]));
    assert_eq!(**of_it, here.discovered_participant_data(there.instance_handle()).unwrap());

    let topics = here.builtin_reader::<TopicBuiltinTopicData>().unwrap();
    let [of_it] = &present(&topics)[..] else { panic!("one topic") };
    assert_eq!((of_it.key, &of_it.name[..]), (topic.instance_handle(), "Marks"));
    assert_eq!(
        (&of_it.type_name[..], &of_it.topic_data.value[..]),
        ("CheckedSample", &b"marks"[..])
    );
    assert_eq!(of_it.reliability.kind, ReliabilityQosPolicyKind::Reliable);

    let publications = here.builtin_reader::<PublicationBuiltinTopicData>().unwrap();
    let [of_it] = &present(&publications)[..] else { panic!("one writer") };
    assert_eq!(of_it.key, writer.instance_handle());
    assert_eq!(of_it.participant_key, there.instance_handle());
    assert_eq!((&of_it.topic_name[..], &of_it.type_name[..]), ("Marks", "CheckedSample"));
    let data = [&of_it.user_data.value, &of_it.topic_data.value, &of_it.group_data.value];
    assert_eq!(data, [&b"writer"[..], b"marks", b"group"]);
    assert_eq!(of_it.partition.name, ["left"]);
    let info = of_it.info();
    assert!(info.valid_data && info.publication_handle == there.instance_handle());
    let age = here.current_time().duration_since(info.source_timestamp).unwrap();
    assert!(age < PATIENCE, "it is told when it was heard");

    let subscriptions = here.builtin_reader::<SubscriptionBuiltinTopicData>().unwrap();
    let [of_it] = &present(&subscriptions)[..] else { panic!("one reader") };
    assert_eq!((of_it.key, &of_it.user_data.value[..]), (reader.instance_handle(), &b"reader"[..]));
    drop((writer, reader, publisher, topic));
}

#[test]
fn builtin_instance_follows_entity_and_is_disposed_on_deletion() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let writers = here.builtin_reader::<PublicationBuiltinTopicData>().unwrap();
    let writer = writer_of(&there, "Marks");
    let first = next(&writers);
    let (key, instance) = (writer.instance_handle(), first.info().instance_handle);
    assert_eq!((first.key, first.info().view_state), (key, ViewState::New));
    assert_eq!(writers.lookup_instance(&first), Some(instance));
    assert_eq!(writers.get_key_value(instance).unwrap().key, key);

    let mut qos = writer.qos();
    qos.user_data.value = vec![7];
    writer.set_qos(&qos).unwrap();
    let second = next(&writers);
    assert_eq!((second.key, &second.user_data.value[..]), (key, &[7][..]));
    assert_eq!(second.info().instance_handle, instance);
    assert_eq!(second.info().view_state, ViewState::NotNew);
    // Written samples do not affect the builtin sample of the writer.
    writer.write(&CheckedSample::new(1)).unwrap();
    assert!(writers.take_next_data(Timeout::millis(20)).unwrap().is_none());

    drop(writer);
    let last = writers.take_next(SOON).unwrap().expect("nothing is told");
    let info = last.info();
    assert_eq!(
        (last.key_value().key, info.instance_handle, info.valid_data),
        (key, instance, false)
    );
    assert_eq!(info.instance_state, InstanceState::NotAliveDisposed);

    // Samples of an ended instance stay until they are taken, unless the reader sets a delay.
    let mut qos = writers.qos();
    let delay = &mut qos.reader_data_lifecycle.autopurge_disposed_samples_delay;
    *delay = Duration::from_millis(1).into();
    writers.set_qos(&qos).unwrap();
    assert_eq!(writers.qos(), qos);
    let brief = writer_of(&there, "Marks");
    until("it is known", || !present(&writers).is_empty());
    drop(brief);
    until("it is forgotten", || writers.read(.., Timeout::NOW).unwrap().is_empty());

    // Only the last sample is kept, even without a read.
    let topics = here.builtin_reader::<TopicBuiltinTopicData>().unwrap();
    let topic = there.topic::<CheckedSample>("Others").create().unwrap();
    until("it is known", || present(&topics).iter().any(|it| it.name == "Others"));
    for number in 0..10 {
        let mut qos = topic.qos();
        qos.topic_data.value = vec![number];
        topic.set_qos(&qos).unwrap();
    }
    until("the last is known", || {
        let known = present(&topics).into_iter();
        known.filter(|it| it.name == "Others").last().is_some_and(|it| it.topic_data.value == [9])
    });
    let of_it = present(&topics).iter().filter(|it| it.name == "Others").count();
    assert_eq!(of_it, 1);
    assert_eq!(topics.qos().history.kind, HistoryQosPolicyKind::KeepLast);
    assert_eq!(topics.qos().durability.kind, DurabilityQosPolicyKind::TransientLocal);
}

#[test]
fn changed_topic_data_updates_builtin_samples_of_writers() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let writers = here.builtin_reader::<PublicationBuiltinTopicData>().unwrap();
    let topic = there.topic::<CheckedSample>("Marks").create().unwrap();
    let _writer = there.writer(&topic).create().unwrap();
    assert!(next(&writers).topic_data.value.is_empty());
    let mut qos = topic.qos();
    qos.topic_data.value = vec![1, 2];
    topic.set_qos(&qos).unwrap();
    assert_eq!(next(&writers).topic_data.value, [1, 2]);
}

#[test]
fn builtin_readers_are_looked_up_by_topic_name() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let subscriber = here.builtin_subscriber().unwrap();
    let participants =
        subscriber.lookup_reader::<ParticipantBuiltinTopicData>("DCPSParticipant").unwrap();
    let topics = subscriber.lookup_reader::<TopicBuiltinTopicData>("DCPSTopic").unwrap();
    assert!(subscriber.lookup_reader::<PublicationBuiltinTopicData>("DCPSPublication").is_some());
    assert!(subscriber.lookup_reader::<SubscriptionBuiltinTopicData>("DCPSSubscription").is_some());
    assert!(subscriber.lookup_reader::<TopicBuiltinTopicData>("DCPSParticipant").is_none());
    assert!(subscriber.lookup_reader::<TopicBuiltinTopicData>("DCPSNothing").is_none());
    assert_eq!(next(&participants).key, there.instance_handle());

    // The builtin reader is the same one while any handle exists.
    let again = here.builtin_reader::<ParticipantBuiltinTopicData>().unwrap();
    assert_eq!(again.instance_handle(), participants.instance_handle());
    assert!(again.take_next_data(Timeout::NOW).unwrap().is_none(), "it was taken");
    assert_eq!(here.builtin_subscriber().unwrap().instance_handle(), subscriber.instance_handle());
    assert_eq!(participants.subscriber().unwrap().instance_handle(), subscriber.instance_handle());
    drop((again, participants));
    let anew = here.builtin_reader::<ParticipantBuiltinTopicData>().unwrap();
    assert_eq!(next(&anew).key, there.instance_handle(), "a new one is told anew");

    // Builtin entities do not belong to the application.
    let refused = |result: DdsResult<()>| {
        assert!(matches!(result, Err(DdsError::IllegalOperation(_))), "{result:?}");
    };
    refused(subscriber.set_qos(&subscriber.qos()));
    refused(subscriber.delete_contained_entities());
    refused(subscriber.clone().delete());
    refused(topics.topic().clone().delete());
    refused(topics.topic().set_qos(&topics.topic().qos()));
    refused(here.reader(topics.topic()).reliable_all().create().map(drop));
    refused(here.writer(topics.topic()).create().map(drop));
    let topic = here.topic::<CheckedSample>("Marks").create().unwrap();
    refused(subscriber.reader(&topic).reliable_all().create().map(drop));
    let named_so = here.topic::<CheckedSample>("DCPSTopic").create();
    assert!(matches!(named_so, Err(DdsError::BadParameter(_))));
    drop((topic, named_so));
    // The topic above has been announced; its removal may be announced later.
    until("nobody hears of builtin topics", || there.discovered_topics().unwrap().is_empty());
    here.delete_contained_entities().unwrap();
    assert!(topics.is_enabled());
    DomainParticipantFactory::instance().delete_participant(&here).unwrap();
    assert!(matches!(topics.read_data(.., Timeout::NOW), Err(DdsError::AlreadyDeleted(_))));
    assert!(matches!(here.builtin_subscriber(), Err(DdsError::AlreadyDeleted(_))));
}

#[test]
fn builtin_entities_are_enabled_without_autoenable() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let mut qos = here.qos();
    qos.entity_factory.autoenable_created_entities = false;
    here.set_qos(&qos).unwrap();
    let participants = here.builtin_reader::<ParticipantBuiltinTopicData>().unwrap();
    assert!(participants.is_enabled() && here.builtin_subscriber().unwrap().is_enabled());
    assert_eq!(next(&participants).key, there.instance_handle());
}

/// Listener that reports which builtin topics have data.
struct ReportingListener(Sender<String>);

impl SubscriberListener for ReportingListener {
    fn on_data_available(&mut self, reader: &dyn AnyDataReader) {
        // The test may have ended.
        let _ = self.0.send(reader.topic_name().to_owned());
    }

    fn on_data_on_readers(&mut self, subscriber: &Subscriber) {
        let _ = self.0.send(format!("{} readers", subscriber.readers().len()));
    }
}

impl DataReaderListener<TopicBuiltinTopicData> for ReportingListener {
    fn on_data_available(&mut self, reader: &DataReader<TopicBuiltinTopicData>) {
        for topic in reader.take_data(.., Timeout::NOW).unwrap() {
            let _ = self.0.send(topic.name.clone());
        }
    }
}

#[test]
fn conditions_and_wait_sets_work_on_builtin_readers() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let readers = Arc::new(here.builtin_reader::<SubscriptionBuiltinTopicData>().unwrap());
    let expression = "topic_name LIKE 'Nav%' AND reliability.kind = 'Reliable'";
    let of_navigation = ReadCondition::query(States::not_read(), expression, &[]).unwrap();
    let wait_set = WaitSet::new();
    let there_is_one = readers.condition(&of_navigation);
    wait_set.attach(&there_is_one).unwrap();
    let other = reader_of(&there, "Engine");
    until("it is known", || !present(&readers).is_empty());
    assert!(wait_set.wait(Timeout::millis(20)).is_err(), "it is another one");
    let wanted = std::thread::scope(|scope| {
        let waits = scope.spawn(|| wait_set.wait(SOON).unwrap());
        let wanted = reader_of(&there, "Navigation");
        assert!(waits.join().unwrap().contains(&there_is_one));
        wanted
    });
    let [found] = &readers.take_w_condition(.., &of_navigation).unwrap()[..] else { panic!("one") };
    assert_eq!(found.key_value().key, wanted.instance_handle());
    assert_eq!(found.info().sample_state, SampleState::NotRead);

    let status = readers.status_condition();
    status.set_enabled_statuses(StatusKind::DataAvailable);
    let of_status = WaitSet::new();
    of_status.attach(&status).unwrap();
    drop(other);
    of_status.wait(SOON).unwrap();
    assert!(readers.status_changes().contains(StatusKind::DataAvailable));
}

#[test]
fn listeners_are_called_for_builtin_topics() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let (sender, reports) = channel();
    let subscriber = here.builtin_subscriber().unwrap();
    let topics = here.builtin_reader::<TopicBuiltinTopicData>().unwrap();
    let writers = here.builtin_reader::<PublicationBuiltinTopicData>().unwrap();
    topics.set_listener(ReportingListener(sender.clone()), StatusKind::DataAvailable).unwrap();
    subscriber.set_listener(ReportingListener(sender.clone()), StatusKind::DataAvailable).unwrap();
    let writer = writer_of(&there, "Marks");
    let mut heard =
        [reports.recv_timeout(PATIENCE).unwrap(), reports.recv_timeout(PATIENCE).unwrap()];
    heard.sort();
    assert_eq!(heard, ["DCPSPublication", "Marks"]);
    assert_eq!(next(&writers).key, writer.instance_handle());
    topics.clear_listener();
    subscriber.set_listener(ReportingListener(sender), StatusKind::DataOnReaders).unwrap();
    drop(writer);
    assert_eq!(reports.recv_timeout(PATIENCE).unwrap(), "2 readers");
}

#[test]
fn builtin_sample_has_type_name_and_survives_cdr_round_trip() {
    use dds_api::types::{from_cdr, to_cdr};
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let writers = here.builtin_reader::<PublicationBuiltinTopicData>().unwrap();
    let topic = there.topic::<CheckedSample>("Marks").create().unwrap();
    let publisher = there.publisher().partition(["a", "b"]).create().unwrap();
    let _writer = publisher.writer(&topic).user_data([1, 2, 3]).create().unwrap();
    let data = next(&writers);
    let again: PublicationBuiltinTopicData = from_cdr(&to_cdr(&*data).unwrap()).unwrap();
    assert_eq!(again, *data);
    assert_eq!(writers.topic().type_name(), "DDS::PublicationBuiltinTopicData");
}

/// Role of this test program as an actor: it has a writer and a reader until it is told to end, or
/// is killed.
#[test]
fn act() {
    let Some((_, folder)) = role() else { return };
    let there = support::join(&folder);
    let _entities = (writer_of(&there, "Marks"), reader_of(&there, "Marks"));
    say("there");
    let _ = listen();
}

#[test]
fn all_entities_of_killed_process_are_disposed() {
    let domain = TestDomain::new();
    let here = domain.join();
    let participants = here.builtin_reader::<ParticipantBuiltinTopicData>().unwrap();
    let topics = here.builtin_reader::<TopicBuiltinTopicData>().unwrap();
    let writers = here.builtin_reader::<PublicationBuiltinTopicData>().unwrap();
    let readers = here.builtin_reader::<SubscriptionBuiltinTopicData>().unwrap();
    let counts = || {
        let (all, of) = (present(&participants).len(), present(&topics).len());
        (all, of, present(&writers).len(), present(&readers).len())
    };
    let mut actor = Actor::start(module_path!(), "there", &domain, 1);
    assert_eq!(actor.hear(), "there");
    until("all of it is told", || counts() == (1, 2, 1, 1));
    actor.kill();
    until("all of it is gone", || counts() == (0, 0, 0, 0));
    for state in participants.take(.., Timeout::NOW).unwrap().map(|it| it.info().instance_state) {
        assert_eq!(state, InstanceState::NotAliveDisposed);
    }
    drop((participants, topics, writers, readers, here));
    domain.assert_empty();
}
