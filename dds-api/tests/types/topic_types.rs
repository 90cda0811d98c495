//! Topic information in a type: the name of its topic, its use for nested values only, and the
//! representations of its samples.

use crate::support::{TestDomain, until};
use dds_api::prelude::*;
use dds_api::qos::{DataReaderQos, DataRepresentationId, DataWriterQos, PolicyId, TopicQos};
use dds_api::types::{Any, DynamicType, Representations};

/// A type with all of this information.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Fleet::Track", topic = "Tracks", data_representation(XCDR2))]
struct Track {
    #[dds(key)]
    id: u32,
    place: NestedPosition,
}

/// A type that declares that it is not for topics.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Fleet::Place", nested)]
struct NestedPosition {
    x: f64,
}

/// A type without this information.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Fleet::Plain")]
struct Plain {
    #[dds(key)]
    id: u32,
}

/// A type that allows only a representation that is never sent.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Fleet::Written", data_representation(XML))]
struct Written {
    id: u32,
}

/// A type that allows both versions of CDR.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Fleet::Either", data_representation(XCDR1, XCDR2))]
struct Either {
    id: u32,
}

const XCDR2: [DataRepresentationId; 1] = [DataRepresentationId::Xcdr2];

fn refused<T>(result: DdsResult<T>) -> String {
    match result {
        Err(DdsError::InconsistentPolicy(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nobody refused it"),
    }
}

#[test]
fn a_type_names_its_topic() {
    let domain = TestDomain::new();
    let participant = domain.join();
    assert_eq!(participant.topic_of::<Track>().create().unwrap().name(), "Tracks");
    assert_eq!(participant.topic_of::<Plain>().create().unwrap().name(), "Fleet::Plain");
    assert_eq!((Track::TOPIC, Plain::TOPIC), (Some("Tracks"), None));
}

#[test]
fn nested_type_is_refused_as_topic_type() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let place = DynamicType::of::<NestedPosition>();
    assert!(place.is_nested() && !DynamicType::of::<Track>().is_nested());
    let message = participant.dynamic_topic("Places", &place).create().map(|_| ()).unwrap_err();
    assert_eq!(
        message.to_string(),
        DdsError::BadParameter(
            "topic `Places`: its type `Fleet::Place` is nested, and a nested type cannot be the \
             type of a topic: create a topic of a type that has the nested type as a member, or \
             remove @nested"
                .to_owned()
        )
        .to_string()
    );
    let idl = idl::parse("n.idl", "@nested struct Inside { long a; };").unwrap();
    let inside = DynamicType::from_idl(&idl, "Inside").unwrap();
    assert!(matches!(
        participant.dynamic_topic("Inside", &inside).create(),
        Err(DdsError::BadParameter(_))
    ));
}

/// Entities without a representation policy offer and accept those that the type allows, and match.
#[test]
fn type_restricts_default_representations_of_its_entities() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let here = ours.topic_of::<Track>().create().unwrap();
    let there = theirs.topic_of::<Track>().create().unwrap();
    assert_eq!(here.qos().representation.value, XCDR2);
    let writer = ours.writer(&here).create().unwrap();
    // A whole set of default policies also leaves the representation open.
    let mut reader_qos = DataReaderQos::default();
    reader_qos.copy_from_topic_qos(&TopicQos::default());
    assert!(reader_qos.representation.value.is_empty());
    let reader = theirs.reader(&there).qos(&reader_qos).create().unwrap();
    assert_eq!(writer.qos().representation.value, XCDR2);
    assert_eq!(reader.qos().representation.value, XCDR2);
    until("they meet", || writer.matched_readers() == 1);
    writer.write(&Track { id: 7, place: NestedPosition { x: 1.5 } }).unwrap();
    let got = reader.take_next_data(Timeout::secs(60)).unwrap().unwrap();
    assert_eq!(*got, Track { id: 7, place: NestedPosition { x: 1.5 } });
    // Setting the open representation again is not a change of the policy.
    let said = DataWriterQos { representation: Default::default(), ..writer.qos() };
    writer.set_qos(&said).unwrap();
    assert_eq!(writer.qos().representation.value, XCDR2);
    reader.set_qos(&reader_qos).unwrap();
    here.set_qos(&TopicQos { representation: Default::default(), ..here.qos() }).unwrap();
    assert_eq!(here.qos().representation.value, XCDR2);
}

#[test]
fn representation_not_allowed_by_the_type_is_refused() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic_of::<Track>().create().unwrap();
    let said = "DATA_REPRESENTATION: its type allows XCDR2 (@data_representation), and Xcdr is \
        requested: leave it out of the list, or clear the list";
    let mut writer_qos = ours(&topic.qos());
    writer_qos.representation.value = vec![DataRepresentationId::Xcdr2, DataRepresentationId::Xcdr];
    let told = refused(participant.writer(&topic).qos(&writer_qos).create());
    assert_eq!(told, format!("a writer of `Tracks`: {said}"));
    let mut reader_qos = DataReaderQos::default();
    reader_qos.representation.value = vec![DataRepresentationId::Xcdr];
    let told = refused(participant.reader(&topic).qos(&reader_qos).create());
    assert_eq!(told, format!("a reader of `Tracks`: {said}"));
    let mut topic_qos = topic.qos();
    topic_qos.representation.value = vec![DataRepresentationId::Xcdr];
    let told = refused(participant.topic::<Track>("Other").qos(&topic_qos).create());
    assert_eq!(told, format!("topic `Other`: {said}"));
    assert_eq!(refused(topic.set_qos(&topic_qos)), format!("topic `Tracks`: {said}"));
    let told = refused(participant.topic_of::<Written>().create());
    assert!(told.contains("allows XML") && told.contains("allow XCDR2 as well"), "{told}");
}

#[test]
fn representation_allowed_by_the_type_is_accepted() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic_of::<Either>().create().unwrap();
    assert!(topic.qos().representation.value.is_empty(), "XCDR1, which is allowed");
    for list in [vec![], vec![DataRepresentationId::Xcdr2], vec![DataRepresentationId::Xcdr]] {
        let mut qos = ours(&topic.qos());
        qos.representation.value.clone_from(&list);
        let writer = participant.writer(&topic).qos(&qos).create().unwrap();
        assert_eq!(writer.qos().representation.value, list);
        assert!(
            qos.immutable_changes(&writer.qos())
                .iter()
                .all(|of| *of != PolicyId::DataRepresentation)
        );
    }
}

/// Run-time types contain the same restriction.
#[test]
fn run_time_type_restricts_representations() {
    let text = "@data_representation(XCDR2) module Fleet { struct Track { @key long id; };
                @data_representation(XCDR1 | XML) union Both switch (long) { case 0: long a; }; };";
    let idl = idl::parse("n.idl", text).unwrap();
    let both = DynamicType::from_idl(&idl, "Fleet::Both").unwrap();
    assert_eq!(both.representations(), Representations::XCDR1.or(Representations::XML));
    let track = DynamicType::from_idl(&idl, "Fleet::Track").unwrap();
    assert_eq!(track.representations(), Representations::XCDR2);
    // The compiled type contains the information, the type received from a peer does not.
    let compiled = DynamicType::of::<Track>();
    assert_eq!(compiled.representations(), Representations::XCDR2);
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.dynamic_topic("Tracks", &track).create().unwrap();
    assert_eq!(participant.writer(&topic).create().unwrap().qos().representation.value, XCDR2);
    let mut qos = DataReaderQos::default();
    qos.representation.value = vec![DataRepresentationId::Xcdr];
    assert!(refused(participant.reader(&topic).qos(&qos).create()).contains("allows XCDR2"));
}

fn ours(topic: &TopicQos) -> DataWriterQos {
    let mut qos = DataWriterQos::default();
    qos.copy_from_topic_qos(topic);
    qos
}

/// A type that carries values of types that neither its IDL nor its readers know.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(name = "Fleet::Report")]
struct Report {
    #[dds(key)]
    id: u32,
    what: Any,
}

/// A reader with the compiled type extracts the types that it knows, and one with only the IDL
/// examines the others.
#[test]
fn any_value_carries_its_type() {
    let domain = TestDomain::new();
    let (one, other) = (domain.join(), domain.join());
    let topic = one.topic::<Report>("Reports").create().unwrap();
    let writer = one.writer(&topic).create().unwrap();
    let idl = idl::parse("r.idl", "module Fleet { struct Report { @key uint32 id; any what; }; };");
    let of = DynamicType::from_idl(&idl.unwrap(), "Fleet::Report").unwrap();
    let unknown = other.dynamic_topic("Reports", &of).create().unwrap();
    let looker = other.reader(&unknown).reliable_all().create().unwrap();
    let topic = other.topic::<Report>("Reports").create().unwrap();
    let reader = other.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(2, Timeout::secs(20)).unwrap();
    let place = NestedPosition { x: 2.5 };
    writer.write(&Report { id: 1, what: Any::of(&place).unwrap() }).unwrap();
    writer.write(&Report { id: 2, what: Any::default() }).unwrap();

    let mut taken = Vec::new();
    until("both", || {
        taken.extend(reader.take_data(.., Timeout::NOW).unwrap().map(|it| it.clone()));
        taken.len() == 2
    });
    assert_eq!(taken[0].what.get::<NestedPosition>(), Ok(place));
    let refused = taken[0].what.get::<Plain>().unwrap_err().to_string();
    assert!(refused.contains("holds `Fleet::Place`"), "{refused}");
    assert!(taken[1].what.is_empty());
    let mut seen = Vec::new();
    until("both", || {
        seen.extend(looker.take_data(.., Timeout::NOW).unwrap().map(|it| it.clone()));
        seen.len() == 2
    });
    let held = seen[0].any("what").unwrap().data().unwrap();
    assert_eq!((held.of().name(), held.to_json_line().as_str()), ("Fleet::Place", "{\"x\": 2.5}"));
    assert!(seen[0].to_json_line().contains("\"type\": \"Fleet::Place\""));
}
