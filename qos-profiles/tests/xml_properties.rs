//! Properties, and elements of other products.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use qos_profiles::xml::{DeliveryLevel, Origin};
use qos_profiles::{
    DurabilityQosPolicyKind, EntityKind, EntityQos, FieldType, HistoryQosPolicyKind, Length,
    PolicyId, ReliabilityQosPolicyKind,
};
use support::{errors, file, provider, resolved};

/// Returns a property in the common form of all products.
fn property(name: &str, value: &str) -> String {
    format!(
        "<property><value><element><name>{name}</name><value>{value}</value></element></value></property>"
    )
}

#[test]
fn properties_are_kept_and_squall_properties_are_checked() {
    let inside = "<property><value>\
        <element><name>b</name><value>1</value><propagate>true</propagate></element>\
        <element><name>a</name><value/></element></value></property>";
    let entity = resolved(EntityKind::DomainParticipant, inside);
    let messages: Vec<_> =
        entity.properties.iter().map(|p| (&*p.name, &*p.value, p.propagate)).collect();
    assert_eq!(messages, [("a", "", false), ("b", "1", true)]);
    assert!(
        matches!(entity.property_origin(1), Origin::Profile(source) if source.place.column() > 0)
    );
    let reliable = "<reliability><kind>RELIABLE</kind></reliability>";
    for (value, level) in [("unordered", "unordered"), ("atomic", "atomic")] {
        let inside = format!("{reliable}{}", property("squall.delivery", value));
        let entity = resolved(EntityKind::DataReader, &inside);
        assert_eq!(entity.level().unwrap().to_string(), level);
        assert_eq!(entity.property("squall.delivery"), Some(value));
    }
    const W: &str = "dds/qos_library[L]/qos_profile[P]/datawriter_qos/property";
    let at = |text: &str, expected: &str| {
        assert_eq!(errors(&file(EntityKind::DataWriter, text)), [format!("str:1:{expected}")]);
    };
    at(
        &property("squall.delivry", "atomic"),
        &format!(
            "5:18: {W}/value/element: found the unknown property `squall.delivry`; expected `squall.delivery`, `squall.engine.cores`, `squall.engine.scheduling`, `squall.log.cores`, `squall.log.scheduling`, `squall.memory.locked`, `squall.memory.huge_pages`, `squall.waiting`, `squall.topic.common_order`, `squall.topic.sharded_by_partition`, `squall.writer.memory`, `squall.writer.in_flight`, `squall.writer.max_sample_size` or `squall.reader.max_held_percent`; did you mean `squall.delivery`?"
        ),
    );
    at(
        &property("squall.delivery", "atomc"),
        &format!(
            "5:18: {W}/value/element: found `atomc` as the value of `squall.delivery`; expected `unordered` or `atomic`; did you mean `atomic`?"
        ),
    );
    at(
        &property("squall.memory.locked", "true"),
        &format!(
            "5:18: {W}/value/element: found the property `squall.memory.locked`, which a data writer does not have; expected it of a domain participant"
        ),
    );
    at(
        "<property><value><element><name>a</name></element></value></property>",
        &format!(
            "5:18: {W}/value/element: found no name or no value of a property; expected `<name>` and `<value>`"
        ),
    );
    at(
        "<property><value><element><name>a</name><value>1</value><x/></element></value></property>",
        &format!(
            "5:57: {W}/value/element/x: found an unknown element; expected `name`, `value` or `propagate`"
        ),
    );
    at(
        "<property><value><element><name>a</name><value>1</value><value>2</value></element></value></property>",
        &format!(
            "5:57: {W}/value/element/value: found this element a second time; expected it once"
        ),
    );
    at(
        "<property><value><element><name>a</name><value>1</value></element><element><name>a</name><value>1</value></element></value></property>",
        &format!("5:67: {W}/value/element: found the property `a` a second time; expected it once"),
    );
    at(
        "<property><value><element><name>a</name><value>1</value><propagate>x</propagate></element></value></property>",
        &format!("5:57: {W}/value/element/propagate: found `x`; expected `true` or `false`"),
    );
    at("<property>x</property>", &format!("5:1: {W}: found the text `x`; expected `value`"));
    at(
        "<property><valu/></property>",
        &format!(
            "5:11: {W}/valu: found an unknown element; expected `value`; did you mean `value`?"
        ),
    );
    assert_eq!(
        errors(&file(EntityKind::Publisher, &property("squall.delivery", "atomic"))),
        [
            "str:1:5:18: dds/qos_library[L]/qos_profile[P]/publisher_qos/property/value/element: found the property `squall.delivery`, which a publisher does not have; expected it of a topic or data writer or data reader"
        ]
    );
}

#[test]
fn elements_of_other_products_are_ignored_and_reported() {
    let text = "<dds version=\"6.0.0\">\n\
        <application_library name=\"A\"/>\n\
        <library_settings><intraprocess_delivery>OFF</intraprocess_delivery></library_settings>\n\
        <qos_library name=\"L\">\n\
        <qos_profile name=\"P\" is_default_participant_factory_profile=\"true\">\n\
        <participant_factory_qos><logging/></participant_factory_qos>\n\
        <participant_qos><resource_limits><x>1</x></resource_limits></participant_qos>\n\
        <datawriter_qos>\n\
        <protocol><rtps_object_id>7</rtps_object_id></protocol>\n\
        <publishMode><kind>ASYNCHRONOUS</kind></publishMode>\n\
        <reliability><kind>RELIABLE</kind><acknowledgment_kind>X</acknowledgment_kind></reliability>\n\
        <resource_limits><allocated_samples>5</allocated_samples><max_samples>9</max_samples></resource_limits>\n\
        <property><value><element><name>dds.transport.x</name><value>1</value></element></value></property>\n\
        </datawriter_qos>\n\
        </qos_profile></qos_library></dds>";
    let provider = provider(text);
    let ignored = provider.ignored();
    let without_advice = |line: String| line.split("; ").next().unwrap().to_owned();
    let messages: Vec<String> = ignored.iter().map(|one| without_advice(one.to_string())).collect();
    const P: &str = "dds/qos_library[L]/qos_profile[P]";
    assert_eq!(
        messages,
        [
            "str:1:1:1: dds/@version: ignored, belongs to RTI Connext".to_owned(),
            "str:1:2:1: dds/application_library[A]: ignored, belongs to DDS-XML beyond participants"
                .to_owned(),
            "str:1:3:1: dds/library_settings: ignored, belongs to Fast DDS".to_owned(),
            format!(
                "str:1:5:1: {P}/@is_default_participant_factory_profile: ignored, belongs to RTI Connext"
            ),
            format!("str:1:6:1: {P}/participant_factory_qos: ignored, belongs to RTI Connext"),
            format!(
                "str:1:7:18: {P}/participant_qos/resource_limits: ignored, belongs to RTI Connext"
            ),
            format!("str:1:9:1: {P}/datawriter_qos/protocol: ignored, belongs to RTI Connext"),
            format!("str:1:10:1: {P}/datawriter_qos/publishMode: ignored, belongs to Fast DDS"),
            format!(
                "str:1:11:35: {P}/datawriter_qos/reliability/acknowledgment_kind: ignored, belongs to RTI Connext"
            ),
            format!(
                "str:1:12:18: {P}/datawriter_qos/resource_limits/allocated_samples: ignored, belongs to Fast DDS"
            ),
            format!(
                "str:1:13:18: {P}/datawriter_qos/property/value/element/name[dds.transport.x]: ignored, belongs to RTI Connext"
            ),
        ]
    );
    let writer = provider.datawriter_qos("L::P").unwrap();
    assert_eq!(
        (writer.resource_limits.max_samples, writer.history.kind),
        (Length::of(9), HistoryQosPolicyKind::KeepLast)
    );
    // The same names in other positions are errors.
    assert_eq!(errors(&file(EntityKind::DataWriter, "<acknowledgment_kind/>")).len(), 1);
    assert_eq!(errors(&file(EntityKind::DataWriter, "<history><protocol/></history>")).len(), 1);
    assert_eq!(errors(&file(EntityKind::DataWriter, "<participant_factory_qos/>")).len(), 1);
}

#[test]
fn real_time_settings_are_checked() {
    let wrong = |name: &str, value: &str, expected: &str| {
        let told = errors(&file(EntityKind::DomainParticipant, &property(name, value)));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&format!("as the value of `{name}`; {expected}")), "{}", told[0]);
    };
    for value in ["", "a", "1,", "-1", "99999", "1;2"] {
        wrong("squall.engine.cores", value, "expected numbers of cores: `2` or `2,3`");
    }
    for value in ["", "fifo", "fifo:0", "fifo:100", "rr:", "batch", "other:1"] {
        let expected = "expected `other`, or `fifo:` or `rr:` and a priority from 1 to 99";
        wrong("squall.log.scheduling", value, expected);
    }
    wrong("squall.memory.locked", "yes", "expected `true` or `false`");
    wrong("squall.waiting", "awake", "expected `sleeping` or `polling`");
    for (name, value) in [
        ("squall.engine.cores", "2, 3"),
        ("squall.log.cores", "0"),
        ("squall.engine.scheduling", "other"),
        ("squall.log.scheduling", "rr:99"),
        ("squall.memory.huge_pages", "false"),
        ("squall.waiting", "polling"),
    ] {
        let entity = resolved(EntityKind::DomainParticipant, &property(name, value));
        assert_eq!(entity.property(name), Some(value));
    }
}

#[test]
fn properties_of_topics_writers_and_readers_are_checked() {
    let wrong = |kind: EntityKind, name: &str, value: &str, expected: &str| {
        let told = errors(&file(kind, &property(name, value)));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&format!("as the value of `{name}`; {expected}")), "{}", told[0]);
    };
    let (topic, writer, reader) =
        (EntityKind::Topic, EntityKind::DataWriter, EntityKind::DataReader);
    wrong(topic, "squall.topic.common_order", " ", "expected a name");
    wrong(topic, "squall.topic.sharded_by_partition", "1", "expected `true` or `false`");
    wrong(writer, "squall.writer.memory", "1 MiB", "expected a number from 0 to 1099511627776");
    wrong(writer, "squall.writer.in_flight", "1048577", "expected a number from 0 to 1048576");
    wrong(writer, "squall.writer.max_sample_size", "-1", "expected a number from 0 to 1073741824");
    wrong(reader, "squall.reader.max_held_percent", "101", "expected a number from 0 to 100");
    for (kind, name, value) in [
        (topic, "squall.topic.common_order", "navigation"),
        (topic, "squall.topic.sharded_by_partition", "true"),
        (writer, "squall.writer.memory", "65536"),
        (writer, "squall.writer.in_flight", "100"),
        (writer, "squall.writer.max_sample_size", "4096"),
        (reader, "squall.reader.max_held_percent", "0"),
    ] {
        assert_eq!(resolved(kind, &property(name, value)).property(name), Some(value));
        let elsewhere = if kind == topic { writer } else { topic };
        let told = errors(&file(elsewhere, &property(name, value)));
        assert!(told.len() == 1 && told[0].contains("does not have"), "{told:?}");
    }
}

#[test]
fn delivery_level_follows_from_durability_and_reliability() {
    use DurabilityQosPolicyKind::{Persistent, Transient, TransientLocal, Volatile};
    use ReliabilityQosPolicyKind::{BestEffort, Reliable};
    for (durability, reliability, level) in [
        (Volatile, BestEffort, DeliveryLevel::Unordered),
        (Volatile, Reliable, DeliveryLevel::Atomic),
        (TransientLocal, BestEffort, DeliveryLevel::Kept),
        (TransientLocal, Reliable, DeliveryLevel::Kept),
        (Transient, Reliable, DeliveryLevel::Kept),
        (Persistent, BestEffort, DeliveryLevel::Logged),
        (Persistent, Reliable, DeliveryLevel::Logged),
    ] {
        assert_eq!(DeliveryLevel::of(reliability, durability), level);
        let policies =
            [(PolicyId::Reliability, reliability as u8), (PolicyId::Durability, durability as u8)];
        let named = policies.map(|(policy, kind)| {
            let FieldType::Kind(names) = policy.fields()[0].ty else { panic!("it is a kind") };
            let element = policy.name().to_lowercase();
            format!("<{element}><kind>{}</kind></{element}>", names.short(kind.into()).unwrap())
        });
        for kind in EntityKind::ALL {
            let inside = if kind.has_topic() { named.concat() } else { String::new() };
            let expected = kind.has_topic().then_some(level);
            assert_eq!(resolved(kind, &inside).level(), expected, "{kind:?}");
        }
    }
}

#[test]
fn resolved_policy_set_reports_properties_order_and_emptiness() {
    let inside = property("squall.writer.in_flight", "100");
    let entity = resolved(EntityKind::DataWriter, &inside);
    assert_eq!(entity.number::<u32>("squall.writer.in_flight"), Some(100));
    assert_eq!(entity.number::<u32>("squall.writer.memory"), None);
    assert_eq!(resolved(EntityKind::DataWriter, &property("a", "x")).number::<u32>("a"), None);
    assert!(!entity.says_nothing() && !entity.asks_for_order());
    assert!(matches!(entity.property_origin(0), Origin::Profile(_)));
    assert_eq!(*entity.property_origin(1), Origin::Default);
    for (delivery, asks) in [("atomic", true), ("unordered", false)] {
        let reliable = "<reliability><kind>RELIABLE</kind></reliability>";
        let inside = format!("{reliable}{}", property("squall.delivery", delivery));
        assert_eq!(resolved(EntityKind::DataReader, &inside).asks_for_order(), asks);
    }
    let depth = "<history><depth>7</depth></history>";
    assert!(!resolved(EntityKind::DataWriter, depth).says_nothing(), "policies are something");
    let provider = provider(&file(EntityKind::DataWriter, depth));
    let of = |kind| provider.entity(kind, "L::P", None).unwrap();
    assert!(of(EntityKind::DataReader).says_nothing());
    let profile = provider.profile("L::P").unwrap();
    assert_eq!(profile.name, "L::P");
    assert_eq!(profile.entity(EntityKind::DataWriter), Some(&of(EntityKind::DataWriter)));
    assert_eq!(profile.entity(EntityKind::DataReader), None);
}

/// For a profile without a plain set, its first set for all topics applies.
#[test]
fn first_named_set_applies_to_profile_without_plain_set() {
    let set = |attributes: &str, depth: u32| {
        format!(
            "<datawriter_qos {attributes}><history><depth>{depth}</depth></history></datawriter_qos>"
        )
    };
    let sets = [set("topic_filter='F*'", 2), set("name='N'", 3), set("name='M'", 4)].concat();
    let text = |sets: &str| {
        format!(
            "<dds><qos_library name='L'><qos_profile name='P'>{sets}</qos_profile></qos_library></dds>"
        )
    };
    let depth = |text: &str| {
        let provider = provider(text);
        let profile = provider.profile("L::P").unwrap();
        let entity = profile.entity(EntityKind::DataWriter).unwrap();
        let alone = provider.entity(EntityKind::DataWriter, "L::P", None).unwrap();
        assert_eq!((&entity.name, &entity.qos), (&alone.name, &alone.qos));
        let EntityQos::DataWriter(qos) = &entity.qos else { panic!("it is a writer's") };
        (entity.name.clone(), entity.topic_filter.clone(), qos.history.depth)
    };
    assert_eq!(depth(&text(&sets)), (Some("N".into()), None, 3));
    let with_plain = sets + &set("", 5);
    assert_eq!(depth(&text(&with_plain)), (None, None, 5));
}

#[test]
fn error_for_unknown_profile_suggests_similar_profile() {
    let provider = provider(&file(EntityKind::DataWriter, ""));
    let suggested = |name: &str| provider.profile(name).unwrap_err().suggestion;
    assert_eq!(suggested("P").as_deref(), Some("L::P"), "its library was left out");
    assert_eq!(suggested("L::Q").as_deref(), Some("L::P"));
    assert_eq!(suggested("Nothing::Like"), None);
    let unknown = provider.entity(EntityKind::Topic, "L::Q", None).unwrap_err();
    assert_eq!((unknown.name.as_str(), unknown.suggestion.as_deref()), ("L::Q", Some("L::P")));
}
