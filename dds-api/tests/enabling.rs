//! Enabling: entities created by a factory whose ENTITY_FACTORY says so are announced, matched and
//! used only after they are enabled.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use dds_api::domain::{DomainParticipantFactory, ParticipantBuiltinTopicData};
use dds_api::prelude::*;
use dds_api::qos::{
    DurabilityQosPolicyKind, EntityFactoryQosPolicy, HistoryQosPolicyKind, OwnershipQosPolicyKind,
    PresentationQosPolicyAccessScopeKind, PublisherQos, SubscriberQos,
};
use dds_api::subscription::States;
use futures_util::FutureExt;
use support::{SOON, TestDomain};

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    altitude: f64,
}

/// Time in which an announced entity would be matched.
const MOMENT: Timeout = Timeout::millis(100);

const LATER: EntityFactoryQosPolicy = EntityFactoryQosPolicy { autoenable_created_entities: false };

/// Creates an enabled participant, whatever the factory's current setting.
fn come(domain: &TestDomain) -> DomainParticipant {
    let participant = domain.join();
    participant.enable().unwrap();
    participant
}

/// Creates a participant that does not enable its entities automatically.
fn join(domain: &TestDomain) -> DomainParticipant {
    let participant = come(domain);
    let mut qos = participant.qos();
    qos.entity_factory = LATER;
    participant.set_qos(&qos).unwrap();
    participant
}

fn track(id: u32) -> Track {
    Track { id, altitude: f64::from(id) }
}

#[track_caller]
fn not_enabled<R>(result: DdsResult<R>) {
    match result {
        Err(DdsError::NotEnabled(_)) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is not enabled"),
    }
}

#[track_caller]
fn too_early<R>(result: DdsResult<R>) {
    assert!(matches!(result, Err(DdsError::PreconditionNotMet(_))));
}

#[test]
fn writer_refuses_calls_and_stays_unmatched_until_enabled() {
    for atomic in [false, true] {
        let domain = TestDomain::new();
        let (here, there) = (join(&domain), come(&domain));
        let of = |participant: &DomainParticipant| {
            let topic = participant.topic::<Track>("Tracks");
            if atomic { topic.atomic().create().unwrap() } else { topic.create().unwrap() }
        };
        let (topic, theirs) = (of(&here), of(&there));
        assert!(!topic.is_enabled() && here.is_enabled());
        let reader = there.reader(&theirs).reliable_all().create().unwrap();
        let writer = here.writer(&topic).create().unwrap();
        too_early(writer.enable());
        topic.enable().unwrap();
        assert!(!writer.is_enabled(), "its topic is, and it is not");

        not_enabled(writer.write(&track(1)));
        not_enabled(writer.loan().map(drop));
        not_enabled(writer.write_with(|track| track.id = 1));
        not_enabled(writer.dispose(&track(1)));
        not_enabled(writer.unregister_instance(&track(1)));
        not_enabled(writer.register_instance(&track(1)));
        not_enabled(writer.wait_for_readers(1, SOON));
        not_enabled(writer.wait_for_acknowledgments(SOON));
        not_enabled(writer.assert_liveliness());
        // These calls are allowed.
        assert!(!writer.status_condition().trigger_value() && writer.status_changes().is_empty());
        assert_eq!(writer.publication_matched_status().total_count, 0);
        assert!(writer.matched_subscriptions().is_empty() && !writer.has_room_for(&track(1)));
        assert!(here.contains_entity(writer.instance_handle()));
        assert!(!there.wait_until(MOMENT, || reader.matched_writers() > 0).unwrap());

        let draft = writer.instance_handle();
        writer.enable().unwrap();
        writer.enable().unwrap();
        assert!(writer.is_enabled() && draft != writer.instance_handle());
        assert!(here.contains_entity(writer.instance_handle()) && !here.contains_entity(draft));
        writer.wait_for_readers(1, SOON).unwrap();
        writer.write(&track(2)).unwrap();
        let sample = reader.take_next_data(SOON).unwrap().unwrap();
        assert_eq!(
            (*sample, sample.info().publication_handle),
            (track(2), writer.instance_handle())
        );
    }
}

#[test]
fn reader_receives_no_sample_until_enabled() {
    let domain = TestDomain::new();
    let (here, there) = (join(&domain), come(&domain));
    let theirs = there.topic::<Track>("Tracks").transient_local().create().unwrap();
    let writer = there.writer(&theirs).create().unwrap();
    let topic = here.topic::<Track>("Tracks").transient_local().create().unwrap();
    topic.enable().unwrap();
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    writer.write(&track(1)).unwrap();
    not_enabled(reader.take_data(.., SOON).map(drop));
    not_enabled(reader.take_next_data(SOON));
    not_enabled(reader.read_data(.., SOON));
    not_enabled(reader.take_next_sample());
    not_enabled(reader.wait_for_condition(&States::not_read().into(), SOON));
    not_enabled(reader.wait_for_writers(1, SOON));
    not_enabled(reader.wait_for_historical_data(SOON));
    not_enabled(reader.state_at(std::time::SystemTime::now()));
    assert!(!reader.has_samples() && reader.matched_publications().is_empty());
    assert_eq!(reader.subscription_matched_status().total_count, 0);
    assert!(!there.wait_until(MOMENT, || writer.matched_readers() > 0).unwrap());
    reader.enable().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    assert_eq!(*reader.take_next_data(SOON).unwrap().unwrap(), track(1));
}

#[test]
fn immutable_policies_may_change_until_entity_is_enabled() {
    let domain = TestDomain::new();
    let (here, there) = (join(&domain), come(&domain));
    let topic = here.topic::<Track>("Tracks").create().unwrap();
    let mut qos = topic.qos();
    qos.durability.kind = DurabilityQosPolicyKind::TransientLocal;
    qos.history.depth = 2;
    topic.set_qos(&qos).unwrap();
    assert!(topic.is_kept() && topic.is_atomic());
    let writer = here.writer(&topic).create().unwrap();
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    topic.enable().unwrap();
    qos.durability.kind = DurabilityQosPolicyKind::Volatile;
    assert!(matches!(topic.set_qos(&qos), Err(DdsError::ImmutablePolicy(_))));

    let mut of_writer = writer.qos();
    assert_eq!(of_writer.durability.kind, DurabilityQosPolicyKind::TransientLocal);
    of_writer.ownership.kind = OwnershipQosPolicyKind::Exclusive;
    writer.set_qos(&of_writer).unwrap();
    assert_eq!(writer.qos(), of_writer);
    let mut wrong = of_writer.clone();
    wrong.history.depth = 0;
    assert!(matches!(writer.set_qos(&wrong), Err(DdsError::InconsistentPolicy(_))));
    let mut of_reader = reader.qos();
    of_reader.ownership.kind = OwnershipQosPolicyKind::Exclusive;
    of_reader.history.kind = HistoryQosPolicyKind::KeepLast;
    of_reader.history.depth = 1;
    reader.set_qos(&of_reader).unwrap();
    assert_eq!(reader.qos(), of_reader);
    writer.enable().unwrap();
    reader.enable().unwrap();
    assert_eq!((writer.qos(), reader.qos()), (of_writer.clone(), of_reader));
    of_writer.ownership.kind = OwnershipQosPolicyKind::Shared;
    assert!(matches!(writer.set_qos(&of_writer), Err(DdsError::ImmutablePolicy(_))));

    writer.wait_for_readers(1, SOON).unwrap();
    for altitude in [1.0, 2.0, 3.0] {
        writer.write(&Track { id: 1, altitude }).unwrap();
    }
    writer.wait_for_acknowledgments(SOON).unwrap();
    let kept: Vec<f64> = reader.read_data(.., SOON).unwrap().iter().map(|it| it.altitude).collect();
    assert_eq!(kept, [3.0], "HISTORY of the reader is as it was set");

    // A late joiner receives the samples that the topic keeps: two, as set before it was enabled.
    let found = there.find_topic::<Track>("Tracks", SOON).unwrap();
    let late = there.reader(&found).reliable_all().exclusive_ownership().create().unwrap();
    late.wait_for_historical_data(SOON).unwrap();
    let kept: Vec<f64> = late.take_data(.., SOON).unwrap().map(|it| it.altitude).collect();
    assert_eq!(kept, [2.0, 3.0]);
}

#[test]
fn container_is_enabled_first_and_autoenables_entities_if_configured() {
    let domain = TestDomain::new();
    let here = join(&domain);
    let topic = here.topic::<Track>("Tracks").create().unwrap();
    topic.enable().unwrap();
    let publisher = here.publisher().create().unwrap();
    let mut later = SubscriberQos { entity_factory: LATER, ..SubscriberQos::default() };
    let subscriber = here.subscriber().qos(&later).create().unwrap();
    assert!(!publisher.is_enabled() && !subscriber.is_enabled());
    not_enabled(publisher.wait_for_acknowledgments(SOON));
    let writer = publisher.writer(&topic).create().unwrap();
    let reader = subscriber.reader(&topic).reliable_all().create().unwrap();
    assert_eq!(
        publisher.lookup_writer::<Track>("Tracks").unwrap().instance_handle(),
        writer.instance_handle()
    );
    too_early(writer.enable());
    too_early(reader.enable());

    // PRESENTATION must not change after enabling.
    let mut qos = publisher.qos();
    qos.presentation.access_scope = PresentationQosPolicyAccessScopeKind::Topic;
    qos.presentation.ordered_access = true;
    publisher.set_qos(&qos).unwrap();
    later.presentation = qos.presentation.clone();
    subscriber.set_qos(&later).unwrap();

    publisher.enable().unwrap();
    subscriber.enable().unwrap();
    assert!(writer.is_enabled(), "a publisher enables its writers unless it says otherwise");
    assert!(!reader.is_enabled(), "this subscriber says otherwise");
    qos.presentation.ordered_access = false;
    assert!(matches!(publisher.set_qos(&qos), Err(DdsError::ImmutablePolicy(_))));
    reader.enable().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&track(1)).unwrap();
    assert_eq!(*reader.take_next_data(SOON).unwrap().unwrap(), track(1));
    assert!(publisher.writer(&topic).create().unwrap().is_enabled());
    assert!(!subscriber.reader(&topic).reliable_all().create().unwrap().is_enabled());
    let publisher = here.publisher().qos(&PublisherQos::default()).create().unwrap();
    assert!(!publisher.writer(&topic).create().unwrap().is_enabled(), "nor is its publisher");
}

/// The factory's setting applies to the whole process: the other tests here enable their
/// participants explicitly.
#[test]
fn participant_announces_itself_and_its_entities_only_when_enabled() {
    let domain = TestDomain::new();
    let there = come(&domain);
    let participants = there.builtin_reader::<ParticipantBuiltinTopicData>().unwrap();
    let factory = DomainParticipantFactory::instance();
    let mut qos = factory.qos();
    qos.entity_factory = LATER;
    factory.set_qos(&qos).unwrap();
    let here = domain.join();
    qos.entity_factory.autoenable_created_entities = true;
    factory.set_qos(&qos).unwrap();

    assert!(!here.is_enabled());
    assert!(factory.lookup_participant(0).is_some());
    not_enabled(here.assert_liveliness());
    not_enabled(here.builtin_subscriber());
    not_enabled(here.find_topic::<Track>("Tracks", SOON));
    let topic = here.topic::<Track>("Tracks").create().unwrap();
    let publisher = here.publisher().create().unwrap();
    let (writer, own) =
        (publisher.writer(&topic).create().unwrap(), here.writer(&topic).create().unwrap());
    too_early(topic.enable());
    too_early(publisher.enable());
    too_early(own.enable());
    let theirs = there.find_topic::<Track>("Tracks", MOMENT).err().unwrap();
    assert!(matches!(theirs, DdsError::Timeout(_)), "{theirs}");
    assert!(participants.take_next_data(Timeout::NOW).unwrap().is_none(), "builtin topics neither");
    here.enable().unwrap();
    assert_eq!(participants.take_next_data(SOON).unwrap().unwrap().key, here.instance_handle());
    assert!(topic.is_enabled() && publisher.is_enabled());
    assert!(writer.is_enabled() && own.is_enabled());
    let theirs = there.find_topic::<Track>("Tracks", SOON).unwrap();
    let reader = there.reader(&theirs).reliable_all().create().unwrap();
    reader.wait_for_writers(2, SOON).unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&track(7)).unwrap();
    assert_eq!(*reader.take_next_data(SOON).unwrap().unwrap(), track(7));
}

#[test]
fn entities_never_enabled_leave_no_files() {
    let domain = TestDomain::new();
    let here = join(&domain);
    let topic = here.topic::<Track>("Tracks").atomic().create().unwrap();
    let writer = here.writer(&topic).create().unwrap();
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| reader.take_next_data(SOON));
        std::thread::sleep(Duration::from_millis(10));
        waits.join().unwrap()
    });
    not_enabled(waits);
    writer.clone().delete();
    assert!(matches!(writer.enable(), Err(DdsError::AlreadyDeleted(_))));
    here.delete_contained_entities().unwrap();
    assert!(matches!(reader.enable(), Err(DdsError::AlreadyDeleted(_))));
    assert!(matches!(topic.enable(), Err(DdsError::AlreadyDeleted(_))));
    drop((writer, reader, topic, here));
    domain.assert_empty();
}

#[test]
fn async_calls_on_disabled_entities_return_not_enabled() {
    let domain = TestDomain::new();
    let here = join(&domain);
    let topic = here.topic::<Track>("Tracks").create().unwrap();
    topic.enable().unwrap();
    let writer = here.writer(&topic).create().unwrap();
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    not_enabled(writer.write_async(&track(1)).now_or_never().unwrap());
    not_enabled(writer.wait_for_readers_async(1).now_or_never().unwrap());
    not_enabled(reader.take_next_data_async().now_or_never().unwrap());
    not_enabled(reader.wait_for_writers_async(1).now_or_never().unwrap());
}
