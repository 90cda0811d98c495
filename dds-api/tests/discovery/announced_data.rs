//! USER_DATA, TOPIC_DATA and GROUP_DATA: they are part of announcements, may change while entities
//! are in use, and have a size limit.

use crate::support::{SOON, TestDomain, until};
use dds_api::prelude::*;
use dds_api::qos::{DomainParticipantQos, TopicQos};

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    altitude: f64,
}

/// Size above the limit.
const TOO_MUCH: usize = 13 << 10;
/// Size below the limit.
const MUCH: usize = 11 << 10;

#[track_caller]
fn too_long<R>(result: DdsResult<R>, what: &str) {
    match result {
        Err(DdsError::BadParameter(why)) => assert!(why.contains(what), "{why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is too long"),
    }
}

#[test]
fn user_topic_and_group_data_beyond_limit_are_refused_by_each_call() {
    let domain = TestDomain::new();
    let mut qos = DomainParticipantQos::default();
    qos.user_data.value = vec![7; TOO_MUCH];
    let config = ParticipantConfig::new().runtime_dir(domain.runtime_dir());
    too_long(DomainParticipant::with_config(0, config.clone().qos(&qos)), "USER_DATA");
    let participant = DomainParticipant::with_config(0, config).unwrap();
    too_long(participant.set_qos(&qos), "USER_DATA");
    assert_eq!(participant.qos(), DomainParticipantQos::default());
    qos.user_data.value = vec![7; MUCH];
    participant.set_qos(&qos).unwrap();
    assert_eq!(participant.qos(), qos);

    too_long(
        participant.topic::<Track>("Tracks").topic_data(vec![7; TOO_MUCH]).create(),
        "TOPIC_DATA",
    );
    let topic = participant.topic::<Track>("Tracks").topic_data(vec![7; MUCH]).create().unwrap();
    let mut of_topic = topic.qos();
    of_topic.topic_data.value = vec![7; TOO_MUCH];
    too_long(topic.set_qos(&of_topic), "TOPIC_DATA");
    assert_eq!(topic.qos().topic_data.value.len(), MUCH);

    too_long(participant.writer(&topic).user_data(vec![7; TOO_MUCH]).create(), "USER_DATA");
    too_long(
        participant.reader(&topic).reliable_all().user_data(vec![7; TOO_MUCH]).create(),
        "USER_DATA",
    );
    let writer = participant.writer(&topic).user_data(vec![7; MUCH]).create().unwrap();
    let mut of_writer = writer.qos();
    of_writer.user_data.value = vec![7; TOO_MUCH];
    too_long(writer.set_qos(&of_writer), "USER_DATA");
    assert_eq!(writer.qos().user_data.value.len(), MUCH);

    let publisher = participant.publisher().create().unwrap();
    let _writer = publisher.writer(&topic).create().unwrap();
    let mut of_publisher = publisher.qos();
    of_publisher.group_data.value = vec![7; TOO_MUCH];
    too_long(publisher.set_qos(&of_publisher), "GROUP_DATA");
    assert!(publisher.qos().group_data.value.is_empty());
    too_long(participant.publisher().group_data(vec![7; TOO_MUCH]).create(), "GROUP_DATA");
    too_long(participant.subscriber().group_data(vec![7; TOO_MUCH]).create(), "GROUP_DATA");
    let empty = participant.subscriber().create().unwrap();
    let mut of_empty = empty.qos();
    of_empty.group_data.value = vec![7; TOO_MUCH];
    too_long(empty.set_qos(&of_empty), "GROUP_DATA");
}

#[test]
fn participants_join_and_communicate_with_large_announced_data() {
    let domain = TestDomain::new();
    let here = domain.join();
    let mut qos = here.qos();
    qos.user_data.value = vec![1; MUCH];
    here.set_qos(&qos).unwrap();
    let topics: Vec<_> = (0..20)
        .map(|n| {
            let topic = here.topic::<Track>(&format!("Tracks {n}"));
            topic.topic_data(vec![n; MUCH]).create().unwrap()
        })
        .collect();
    let there = domain.join();
    for (n, topic) in topics.iter().enumerate() {
        let found = there.find_topic::<Track>(topic.name(), SOON).unwrap();
        assert_eq!(found.qos().topic_data.value, vec![n as u8; MUCH]);
    }
    let writer = here.writer(&topics[3]).create().unwrap();
    let topic = there.find_topic::<Track>("Tracks 3", SOON).unwrap();
    let reader = there.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&Track { id: 3, altitude: 0.0 }).unwrap();
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().id, 3);
}

#[test]
fn changed_topic_data_is_announced() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = here.topic::<Track>("Tracks").topic_data([1]).create().unwrap();
    let mut qos: TopicQos = topic.qos();
    qos.topic_data.value = vec![2, 2];
    topic.set_qos(&qos).unwrap();
    // Announcements arrive in order: a participant that knows the second topic knows the change of
    // the first.
    let _second = here.topic::<Track>("Second").create().unwrap();
    there.find_topic::<Track>("Second", SOON).unwrap();
    let found = there.find_topic::<Track>("Tracks", SOON).unwrap();
    assert_eq!(found.qos().topic_data.value, [2, 2]);
}

#[test]
fn discovered_participants_and_topics_have_announced_data() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    assert!(here.topic::<Track>("Own").create().is_ok());
    let mut qos = there.qos();
    qos.user_data.value = b"radar".to_vec();
    there.set_qos(&qos).unwrap();
    let topic = there.topic::<Track>("Tracks").atomic().topic_data(*b"north").create().unwrap();
    here.find_topic::<Track>("Tracks", SOON).unwrap();

    assert_eq!(here.discovered_participants().unwrap(), [there.instance_handle()]);
    let data = here.discovered_participant_data(there.instance_handle()).unwrap();
    assert_eq!((data.key, data.user_data.value), (there.instance_handle(), b"radar".to_vec()));
    assert!(here.discovered_participant_data(here.instance_handle()).is_err(), "it is its own");
    assert!(here.discovered_participant_data(topic.instance_handle()).is_err(), "it is a topic");

    assert_eq!(here.discovered_topics().unwrap(), [topic.instance_handle()]);
    let data = here.discovered_topic_data(topic.instance_handle()).unwrap();
    assert_eq!((data.key, &*data.name), (topic.instance_handle(), "Tracks"));
    assert_eq!((&*data.type_name, &data.topic_data), (Track::TYPE_NAME, &topic.qos().topic_data));
    assert_eq!((data.reliability, data.history), (topic.qos().reliability, topic.qos().history));
    let (left, name) = (there.instance_handle(), topic.instance_handle());
    drop((topic, there));
    until("what was there is not known any more", || {
        here.discovered_participants().unwrap().is_empty()
    });
    assert!(here.discovered_topics().unwrap().is_empty());
    assert!(here.discovered_participant_data(left).is_err());
    assert!(here.discovered_topic_data(name).is_err());
}

#[test]
fn matched_writers_and_readers_are_known_with_their_policies() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    for participant in [&here, &there] {
        // In another participant, and in the same one.
        let (name, data) = (format!("Tracks {}", participant.instance_handle()), *b"topic");
        let topic = here.topic::<Track>(&name).topic_data(data).create().unwrap();
        let theirs = participant.topic::<Track>(&name).topic_data(data).create().unwrap();
        let publisher =
            here.publisher().partition(["left"]).group_data(*b"writers").create().unwrap();
        let subscriber =
            participant.subscriber().partition(["l*"]).group_data(*b"readers").create().unwrap();
        let writer = publisher.writer(&topic).user_data(*b"writer").create().unwrap();
        let reader =
            subscriber.reader(&theirs).reliable_all().user_data(*b"reader").create().unwrap();
        let (of_writer, of_reader) = (writer.instance_handle(), reader.instance_handle());
        until("they are matched", || {
            writer.matched_subscriptions() == [of_reader]
                && reader.matched_publications() == [of_writer]
        });
        let data = reader.matched_publication_data(of_writer).unwrap();
        assert_eq!((data.key, data.participant_key), (of_writer, here.instance_handle()));
        assert_eq!((&*data.topic_name, &*data.type_name), (&*name, Track::TYPE_NAME));
        assert_eq!(
            (&*data.user_data.value, &*data.group_data.value),
            (&b"writer"[..], &b"writers"[..])
        );
        assert_eq!(
            (&*data.topic_data.value, &*data.partition.name),
            (&b"topic"[..], &["left".to_owned()][..])
        );
        assert_eq!(data.reliability, writer.qos().reliability);

        let data = writer.matched_subscription_data(of_reader).unwrap();
        assert_eq!((data.key, data.participant_key), (of_reader, participant.instance_handle()));
        assert_eq!((&*data.topic_name, &*data.type_name), (&*name, Track::TYPE_NAME));
        assert_eq!(
            (&*data.user_data.value, &*data.group_data.value),
            (&b"reader"[..], &b"readers"[..])
        );
        assert_eq!(
            (&*data.topic_data.value, &*data.partition.name),
            (&b"topic"[..], &["l*".to_owned()][..])
        );

        // Changes are announced, and a participant that has left is not known.
        let mut qos = publisher.qos();
        qos.group_data.value = b"others".to_vec();
        publisher.set_qos(&qos).unwrap();
        until("it has heard of the change", || {
            reader.matched_publication_data(of_writer).unwrap().group_data.value == b"others"
        });
        drop(reader);
        until("it is gone", || writer.matched_subscription_data(of_reader).is_err());
    }
}
