//! Entities and their containers: the factory, default policies, lookup, finding, deletion.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::{Duration, SystemTime};

use dds_api::domain::DomainParticipantFactory;
use dds_api::infrastructure::{GuardCondition, WaitSet};
use dds_api::prelude::*;
use dds_api::qos::{
    DataReaderQos, DataWriterQos, DomainParticipantQos, DurabilityQosPolicyKind,
    HistoryQosPolicyKind, PublisherQos, ReliabilityQosPolicyKind, SubscriberQos, TopicQos,
};
use dds_api::subscription::{InstanceState, ReadCondition, States};
use dds_api::topic::ContentFilteredTopic;
use support::{SOON, TestDomain, until};

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    altitude: f64,
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Name {
    text: String,
}

fn config(domain: &TestDomain) -> ParticipantConfig {
    ParticipantConfig::new().runtime_dir(domain.runtime_dir())
}

/// The factory's default for participants applies to the whole process: no other test here uses it.
#[test]
fn factory_looks_up_and_deletes_participants_and_gives_default_qos() {
    let factory = DomainParticipantFactory::instance();
    let (test_domain, domain) = (TestDomain::new(), 71);
    assert!(factory.lookup_participant(domain).is_none());
    let mut usual = DomainParticipantQos::default();
    usual.user_data.value = b"usual".to_vec();
    factory.set_default_participant_qos(Some(usual.clone())).unwrap();
    assert_eq!(factory.default_participant_qos(), Some(usual.clone()));
    let one = factory.create_participant_with(domain, config(&test_domain)).unwrap();
    factory.set_default_participant_qos(None).unwrap();
    assert_eq!(one.qos(), usual);

    let two = factory.create_participant_with(domain, config(&test_domain)).unwrap();
    assert_eq!(two.qos(), DomainParticipantQos::default());
    let handle = |it: Option<DomainParticipant>| it.map(|it| it.instance_handle());
    assert_eq!(handle(factory.lookup_participant(domain)), Some(one.instance_handle()));

    let topic = one.topic::<Track>("Tracks").create().unwrap();
    let refused = factory.delete_participant(&one);
    assert!(matches!(refused, Err(DdsError::PreconditionNotMet(_))), "{refused:?}");
    drop(topic);
    factory.delete_participant(&one).unwrap();
    // The participant has left, although a handle to it exists.
    until("the first one has left", || two.view().1 == 1);
    assert_eq!(handle(factory.lookup_participant(domain)), Some(two.instance_handle()));
    let deleted = |result: DdsResult<()>| matches!(result, Err(DdsError::AlreadyDeleted(_)));
    assert!(deleted(factory.delete_participant(&one)));
    assert!(deleted(one.topic::<Track>("Tracks").create().map(drop)));
    assert!(deleted(one.publisher().create().map(drop)));
    assert!(deleted(one.set_qos(&usual)) && deleted(one.enable()));
    drop((one, two));
    assert!(factory.lookup_participant(domain).is_none());

    test_domain.assert_empty();
}

#[test]
fn participant_gives_default_qos_to_publishers_subscribers_and_topics() {
    let domain = TestDomain::new();
    let participant = domain.join();
    assert_eq!(participant.default_publisher_qos(), None);
    let (mut publisher, mut subscriber) = (PublisherQos::default(), SubscriberQos::default());
    publisher.partition.name = vec!["left".to_owned()];
    subscriber.partition.name = vec!["l*".to_owned()];
    participant.set_default_publisher_qos(Some(publisher.clone())).unwrap();
    participant.set_default_subscriber_qos(Some(subscriber.clone())).unwrap();
    assert_eq!(participant.default_publisher_qos(), Some(publisher.clone()));
    assert_eq!(participant.default_subscriber_qos(), Some(subscriber.clone()));
    assert_eq!(participant.publisher().create().unwrap().qos(), publisher);
    assert_eq!(participant.subscriber().create().unwrap().qos(), subscriber);
    let said = participant.publisher().partition(["right"]).create().unwrap();
    assert_eq!(said.qos().partition.name, ["right"]);

    let mut topic = TopicQos::default();
    topic.reliability.kind = ReliabilityQosPolicyKind::Reliable;
    topic.durability.kind = DurabilityQosPolicyKind::TransientLocal;
    topic.history.depth = 3;
    participant.set_default_topic_qos(Some(topic.clone())).unwrap();
    let made = participant.topic::<Track>("Tracks").create().unwrap();
    assert!(made.is_kept());
    assert_eq!(made.qos().history.depth, 3);
    topic.history.kind = HistoryQosPolicyKind::KeepLast;
    topic.history.depth = 0;
    let wrong = participant.set_default_topic_qos(Some(topic));
    assert!(matches!(wrong, Err(DdsError::InconsistentPolicy(_))), "{wrong:?}");
    assert_eq!(participant.default_topic_qos().unwrap().history.depth, 3, "as before");
    participant.set_default_topic_qos(None).unwrap();
    assert!(!participant.topic::<Track>("Others").create().unwrap().is_kept());
}

#[test]
fn participant_takes_policies_from_profile_or_explicit_qos() {
    let domain = TestDomain::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |data: &str| {
        let text = format!(
            "<dds><qos_library name=\"L\"><qos_profile name=\"P\"><domain_participant_qos><user_data><value>{data}</value>\
             </user_data><entity_factory><autoenable_created_entities>false</autoenable_created_entities></entity_factory>\
             </domain_participant_qos></qos_profile></qos_library></dds>"
        );
        std::fs::write(file.path(), text).unwrap();
    };
    // Base64, as in the schema.
    write("AQI=");
    let by_profile = config(&domain).qos_files([file.path()]).profile("L::P");
    let participant = DomainParticipant::with_config(0, by_profile.clone()).unwrap();
    assert_eq!(participant.qos().user_data.value, [1, 2]);
    assert!(!participant.qos().entity_factory.autoenable_created_entities);
    assert!(!participant.topic::<Track>("Tracks").create().unwrap().is_enabled());

    let said = DomainParticipantQos::default();
    let other = DomainParticipant::with_config(0, by_profile.qos(&said)).unwrap();
    assert_eq!(other.qos(), said);

    write("AwQ=");
    let report = participant.reload_qos().unwrap();
    assert_eq!(participant.qos().user_data.value, [3, 4]);
    assert_eq!((report.changed.len(), report.unchanged.len()), (1, 0), "{report:?}");
    assert!(report.changed[0].to_string().contains("domain participant"), "{report:?}");
    assert!(other.reload_qos().unwrap().changed.is_empty(), "it follows no profile");
}

#[test]
fn participant_contains_each_entity_under_unique_handle() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = here.topic::<Track>("Tracks").create().unwrap();
    let (publisher, subscriber) =
        (here.publisher().create().unwrap(), here.subscriber().create().unwrap());
    let writer = publisher.writer(&topic).create().unwrap();
    let reader = subscriber.reader(&topic).reliable_all().create().unwrap();
    let handles = [
        topic.instance_handle(),
        publisher.instance_handle(),
        subscriber.instance_handle(),
        writer.instance_handle(),
        reader.instance_handle(),
    ];
    for (at, handle) in handles.iter().enumerate() {
        assert!(here.contains_entity(*handle) && !there.contains_entity(*handle), "{at}");
        assert!(!handles[..at].contains(handle), "{at}");
    }
    assert!(!here.contains_entity(here.instance_handle()), "it is the participant itself");
    assert_eq!(topic.clone().instance_handle(), topic.instance_handle());
    let of_topic = topic.clone().delete();
    assert!(matches!(of_topic, Err(DdsError::PreconditionNotMet(_))), "{of_topic:?}");
    writer.delete();
    drop(reader);
    assert!(!here.contains_entity(handles[3]) && !here.contains_entity(handles[4]));
    topic.clone().delete().unwrap();
    assert!(!here.contains_entity(handles[0]));
    assert!(matches!(here.writer(&topic).create().err(), Some(DdsError::AlreadyDeleted(_))));
    publisher.clone().delete().unwrap();
    assert!(matches!(publisher.set_qos(&publisher.qos()), Err(DdsError::AlreadyDeleted(_))));
}

/// I-183: what is deleted is announced no more, and grants no claim, whoever has handles on it.
#[test]
fn delete_contained_entities_ends_waiting_calls_and_unmatches_partners() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let theirs = there.topic::<Track>("Tracks").create().unwrap();
    let their_reader = there.reader(&theirs).reliable_all().create().unwrap();
    let their_writer = there.writer(&theirs).create().unwrap();

    let topic = here.topic::<Track>("Tracks").create().unwrap();
    let publisher = here.publisher().create().unwrap();
    let writer = publisher.writer(&topic).create().unwrap();
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    their_writer.wait_for_readers(2, SOON).unwrap();
    writer.write(&Track { id: 1, altitude: 2.0 }).unwrap();
    let held = reader.take_next_data(SOON).unwrap().unwrap();
    let condition = reader.condition(&ReadCondition::new(States::not_read()));
    let loan = writer.loan().unwrap();

    let deleted =
        |error: DdsError| assert!(matches!(error, DdsError::AlreadyDeleted(_)), "{error}");
    std::thread::scope(|scope| {
        let takes = scope.spawn(|| reader.take_next_data(SOON));
        let reads = scope.spawn(|| reader.read_data(.., SOON).map(|found| found.len()));
        let waits = scope.spawn(|| writer.wait_for_readers(9, SOON));
        let wait_set = WaitSet::new();
        wait_set.attach(&condition).unwrap();
        let sets = scope.spawn(move || wait_set.wait(SOON).map(drop));
        std::thread::sleep(Duration::from_millis(50));
        here.delete_contained_entities().unwrap();
        deleted(takes.join().unwrap().err().unwrap());
        deleted(reads.join().unwrap().err().unwrap());
        deleted(waits.join().unwrap().unwrap_err());
        assert!(sets.join().unwrap().is_ok(), "the next call on the reader says why");
    });
    assert_eq!((held.id, held.altitude), (1, 2.0), "what was given out stays whole");
    deleted(loan.publish().unwrap_err());
    deleted(writer.write(&Track::default()).unwrap_err());
    deleted(writer.dispose(&Track::default()).unwrap_err());
    deleted(reader.take_data(.., Timeout::NOW).err().unwrap());
    deleted(publisher.writer(&topic).create().err().unwrap());
    deleted(topic.set_qos(&topic.qos()).unwrap_err());
    their_writer.wait_for_acknowledgments(SOON).expect("nobody waits for readers that are deleted");
    // The writer has disposed its instance.
    let states = States::any().of_instances(InstanceState::NotAliveDisposed);
    assert!(their_reader.wait_for_condition(&ReadCondition::new(states), SOON).unwrap());
    there.wait_until(SOON, || their_writer.matched_readers() == 1).unwrap();
    until("who was matched is told", || {
        their_reader.matched_publications() == [their_writer.instance_handle()]
    });
    assert!(!here.contains_entity(topic.instance_handle()));

    // The participant continues to work.
    let topic = here.topic::<Track>("Tracks").create().unwrap();
    let writer = here.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&Track { id: 9, altitude: 1.0 }).unwrap();
    let states = ReadCondition::new(States::any()).matching(|track: &Track| track.id == 9);
    assert!(their_reader.wait_for_condition(&states, SOON).unwrap());
}

#[test]
fn publisher_and_subscriber_delete_only_contained_entities() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Track>("Tracks").atomic().create().unwrap();
    let (publisher, subscriber) =
        (participant.publisher().create().unwrap(), participant.subscriber().create().unwrap());
    let writer = publisher.writer(&topic).create().unwrap();
    let reader = subscriber.reader(&topic).reliable_all().create().unwrap();
    let (own_writer, own_reader) = (
        participant.writer(&topic).create().unwrap(),
        participant.reader(&topic).reliable_all().create().unwrap(),
    );
    assert!(publisher.clone().delete().is_err() && subscriber.clone().delete().is_err());
    publisher.delete_contained_entities().unwrap();
    subscriber.delete_contained_entities().unwrap();
    assert!(publisher.writers().is_empty() && subscriber.readers().is_empty());
    assert!(matches!(writer.write(&Track::default()), Err(DdsError::AlreadyDeleted(_))));
    assert!(matches!(reader.take_next_data(Timeout::NOW).err(), Some(DdsError::AlreadyDeleted(_))));
    own_writer.wait_for_readers(1, SOON).unwrap();
    own_writer.write(&Track { id: 4, altitude: 0.0 }).unwrap();
    assert_eq!(own_reader.take_next_data(SOON).unwrap().unwrap().id, 4);
    publisher.delete().unwrap();
    subscriber.delete().unwrap();
}

#[test]
fn topics_and_filtered_topics_are_looked_up_by_name_and_type() {
    let domain = TestDomain::new();
    let participant = domain.join();
    assert!(participant.lookup_topic::<Topic<Track>>("Tracks").is_none());
    let topic = participant.topic::<Track>("Tracks").create().unwrap();
    let found: Topic<Track> = participant.lookup_topic("Tracks").unwrap();
    assert_eq!(found.instance_handle(), topic.instance_handle());
    assert!(participant.lookup_topic::<Topic<Name>>("Tracks").is_none(), "another type");
    let low = participant.content_filtered_topic("Low", &topic, "altitude < 1", &[]).unwrap();
    let found: ContentFilteredTopic<Track> = participant.lookup_topic("Low").unwrap();
    assert_eq!(found.filter_expression(), "altitude < 1");
    assert!(participant.lookup_topic::<Topic<Track>>("Low").is_none(), "it is a part of one");
    drop((low, found));
    assert!(participant.lookup_topic::<ContentFilteredTopic<Track>>("Low").is_none());
    topic.delete().unwrap();
    assert!(participant.lookup_topic::<Topic<Track>>("Tracks").is_none());
}

#[test]
fn second_topic_of_a_name_is_refused_unless_its_type_is_the_same() {
    let domain = TestDomain::new();
    let (participant, other) = (domain.join(), domain.join());
    let topic = participant.topic::<Track>("Tracks").create().unwrap();
    let second = participant.topic::<Track>("Tracks").create().unwrap();
    let wrong = participant.topic::<Name>("Tracks").create().err().unwrap();
    assert!(matches!(wrong, DdsError::PreconditionNotMet(_)), "{wrong}");
    let said = wrong.to_string();
    assert!(said.contains("Track") && said.contains("Name"), "{said}");
    // Another participant may differ: that is an inconsistent topic.
    other.topic::<Name>("Tracks").create().unwrap();
    second.delete().unwrap();
    let handle = topic.clone();
    topic.delete().unwrap();
    let renewed = participant.topic::<Name>("Tracks").create().unwrap();
    assert_ne!(renewed.instance_handle(), handle.instance_handle());
}

#[test]
fn find_topic_returns_remote_topic_with_its_policies() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let late = here.find_topic::<Track>("Tracks", Timeout::millis(20)).err().unwrap();
    assert!(matches!(late, DdsError::Timeout(_)), "{late}");
    let found = std::thread::scope(|scope| {
        let finds = scope.spawn(|| here.find_topic::<Track>("Tracks", SOON));
        let theirs = there
            .topic::<Track>("Tracks")
            .transient_local()
            .keep_last(3)
            .topic_data(b"radar".to_vec())
            .create()
            .unwrap();
        (finds.join().unwrap().unwrap(), theirs)
    });
    let (topic, theirs) = found;
    assert_eq!(topic.qos(), theirs.qos());
    assert_eq!((topic.is_kept(), topic.qos().topic_data.value), (true, b"radar".to_vec()));
    let again = here.find_topic::<Track>("Tracks", Timeout::NOW).unwrap();
    assert_eq!(again.instance_handle(), topic.instance_handle(), "one that is here is found first");

    let writer = there.writer(&theirs).create().unwrap();
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&Track { id: 5, altitude: 0.0 }).unwrap();
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().id, 5);

    let wrong = here.find_topic::<Name>("Tracks", SOON).err().unwrap();
    assert!(matches!(wrong, DdsError::PreconditionNotMet(_)), "{wrong}");
    let names = there.topic::<Name>("Names").create().unwrap();
    let wrong = here.find_topic::<Track>("Names", SOON).err().unwrap();
    assert!(wrong.to_string().contains("`Name`"), "{wrong}");
    // After it is gone it cannot be found any more, not even by a new participant.
    drop(names);
    let third = domain.join();
    assert!(third.find_topic::<Track>("Tracks", SOON).is_ok());
    let gone = third.find_topic::<Name>("Names", Timeout::millis(50)).err().unwrap();
    assert!(matches!(gone, DdsError::Timeout(_)), "{gone}");
}

#[test]
fn current_time_is_wall_clock_time() {
    let domain = TestDomain::new();
    let (before, now) = (SystemTime::now(), domain.join().current_time());
    let apart = now.duration_since(before).unwrap_or_else(|before| before.duration());
    assert!(apart < Duration::from_secs(30), "{apart:?}");
}

/// Parent, name and type of entities.
#[test]
fn entities_report_parent_name_and_type() {
    let domain = TestDomain::new();
    let participant = DomainParticipant::with_config(5, config(&domain)).unwrap();
    assert_eq!(participant.domain_id(), 5);
    let topic = participant.topic::<Track>("Tracks").create().unwrap();
    assert_eq!((topic.name(), topic.type_name()), ("Tracks", Track::TYPE_NAME));
    let low = participant.content_filtered_topic("Low", &topic, "altitude < 1", &[]).unwrap();
    assert_eq!((low.name(), low.related_topic().name()), ("Low", "Tracks"));
    let subscriber = participant.subscriber().create().unwrap();
    let reader = subscriber.reader(&low).reliable_all().create().unwrap();
    assert_eq!(reader.topic().instance_handle(), topic.instance_handle());
    let of_it = reader.subscriber().unwrap().instance_handle();
    assert_eq!(of_it, subscriber.instance_handle());
    let (writer, alone) = (
        participant.writer(&topic).create().unwrap(),
        participant.reader(&topic).reliable_all().create().unwrap(),
    );
    assert_eq!(writer.topic().instance_handle(), topic.instance_handle());
    assert!(writer.publisher().is_none() && alone.subscriber().is_none());
}

#[test]
fn entities_return_participant_and_conditions_return_entity() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Track>("Tracks").create().unwrap();
    let low = participant.content_filtered_topic("Low", &topic, "altitude < 1", &[]).unwrap();
    let joined = participant.multi_topic::<Track>("All", "SELECT * FROM Tracks", &[]).unwrap();
    let publisher = participant.publisher().create().unwrap();
    let subscriber = participant.subscriber().create().unwrap();
    let given = vec![
        topic.participant(),
        low.participant(),
        joined.participant(),
        publisher.participant(),
        subscriber.participant(),
    ];
    for (at, given) in given.iter().enumerate() {
        assert_eq!(given.instance_handle(), participant.instance_handle(), "{at}");
    }
    drop(given);

    let writer = publisher.writer(&topic).create().unwrap();
    let reader = subscriber.reader(&topic).reliable_all().create().unwrap();
    let there = reader.condition(&ReadCondition::new(States::any()));
    let conditions = [
        topic.status_condition(),
        subscriber.status_condition(),
        writer.status_condition(),
        reader.status_condition(),
    ];
    let handles = [
        topic.instance_handle(),
        subscriber.instance_handle(),
        writer.instance_handle(),
        reader.instance_handle(),
    ];
    for (at, (condition, handle)) in conditions.iter().zip(handles).enumerate() {
        assert_eq!(condition.entity(), Some(handle), "{at}");
        assert_eq!(condition.as_ref().entity(), Some(handle), "{at}");
    }
    assert_eq!(there.entity(), Some(reader.instance_handle()));
    assert_eq!(GuardCondition::new().as_ref().entity(), None);
    let [of_topic, of_subscriber, of_writer, _] = conditions;
    writer.delete();
    assert_eq!(of_writer.entity(), None, "it is gone");
    drop((reader, there, subscriber));
    assert_eq!(of_subscriber.entity(), None, "it is gone");
    assert_eq!(of_topic.entity(), Some(topic.instance_handle()));
}

#[test]
fn publisher_and_subscriber_report_default_entity_qos() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let publisher = participant.publisher().create().unwrap();
    let subscriber = participant.subscriber().create().unwrap();
    assert_eq!((publisher.default_writer_qos(), subscriber.default_reader_qos()), (None, None));
    let mut writers = DataWriterQos::default();
    writers.ownership_strength.value = 4;
    let mut readers = DataReaderQos::default();
    readers.history.depth = 4;
    publisher.set_default_writer_qos(Some(writers.clone())).unwrap();
    subscriber.set_default_reader_qos(Some(readers.clone())).unwrap();
    assert_eq!(publisher.default_writer_qos(), Some(writers));
    assert_eq!(subscriber.default_reader_qos(), Some(readers));
    publisher.set_default_writer_qos(None).unwrap();
    assert_eq!(publisher.default_writer_qos(), None);
}

#[test]
fn copy_from_topic_qos_copies_only_shared_policies() {
    let mut topic = TopicQos::default();
    topic.durability.kind = DurabilityQosPolicyKind::TransientLocal;
    topic.history.depth = 7;
    topic.transport_priority.value = 3;
    let mut writer = DataWriterQos::default();
    writer.user_data.value = vec![1];
    writer.copy_from_topic_qos(&topic);
    assert_eq!((&writer.durability, &writer.history), (&topic.durability, &topic.history));
    assert_eq!(writer.transport_priority, topic.transport_priority);
    assert_eq!(writer.user_data.value, [1]);
    let mut reader = DataReaderQos::default();
    reader.user_data.value = vec![2];
    reader.copy_from_topic_qos(&topic);
    assert_eq!((reader.durability, reader.history), (topic.durability, topic.history));
    assert_eq!(reader.user_data.value, [2]);
}

#[test]
fn delete_of_reader_takes_effect_despite_other_handles() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = here.topic::<Track>("Tracks").create().unwrap();
    let theirs = there.topic::<Track>("Tracks").create().unwrap();
    let (writer, reader) = (
        there.writer(&theirs).create().unwrap(),
        here.reader(&topic).reliable_all().create().unwrap(),
    );
    writer.wait_for_readers(1, SOON).unwrap();
    let handle = reader.instance_handle();
    reader.clone().delete();
    let refused = reader.take_next_data(SOON).err().unwrap();
    assert!(matches!(refused, DdsError::AlreadyDeleted(_)), "{refused}");
    assert!(!here.contains_entity(handle));
    until("its writer has heard of it", || writer.matched_readers() == 0);
}

#[test]
fn failure_without_specific_return_code_is_error_with_reason() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // A file is not a folder in which participants could meet.
    let config = ParticipantConfig::new().runtime_dir(file.path().join("run"));
    let refused = DomainParticipant::with_config(0, config).err().unwrap();
    assert!(matches!(&refused, DdsError::Error(why) if why.contains("run")), "{refused}");
}
