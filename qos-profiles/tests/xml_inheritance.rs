//! Inheritance of profiles, and errors in bases and in combined values.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use qos_profiles::xml::{Origin, QosProvider};
use qos_profiles::{EntityKind, HistoryQosPolicyKind, Length, PolicyId, ReliabilityQosPolicyKind};
use support::{errors, provider};

/// Returns libraries from lines `library | profile attributes | inside`, each on a line of its own.
fn file(profiles: &[(&str, &str, &str)]) -> String {
    let mut text = "<dds>\n".to_owned();
    for (library, attributes, inside) in profiles {
        text += &format!(
            "<qos_library name=\"{library}\"><qos_profile {attributes}>{inside}</qos_profile></qos_library>\n"
        );
    }
    text + "</dds>\n"
}

fn depth(number: u32) -> String {
    format!("<datawriter_qos><history><depth>{number}</depth></history></datawriter_qos>")
}

#[track_caller]
fn depth_of(provider: &QosProvider, name: &str) -> u32 {
    provider.datawriter_qos(name).unwrap().history.depth
}

#[test]
fn bases_are_found_in_and_across_libraries_in_any_order() {
    let provider = provider(&file(&[
        ("L", "name='C' base_name='B'", ""),
        ("L", "name='B' base_name='M::A'", ""),
        ("M", "name='A' base_name='Root'", ""),
        ("M", "name='Root'", &depth(7)),
        ("L", "name='Root'", &depth(8)),
    ]));
    assert_eq!((depth_of(&provider, "L::C"), depth_of(&provider, "M::A")), (7, 7));
}

#[test]
fn values_are_inherited_element_by_element() {
    let base = "<datawriter_qos>\
        <reliability><kind>BEST_EFFORT</kind><max_blocking_time><sec>5</sec></max_blocking_time></reliability>\
        <resource_limits><max_samples>10</max_samples><max_instances>11</max_instances></resource_limits>\
        <user_data><value>1,2,3</value></user_data>\
        <property><value><element><name>a</name><value>1</value></element><element><name>b</name><value>1</value></element></value></property>\
        </datawriter_qos>";
    let derived = "<datawriter_qos>\
        <reliability><kind>RELIABLE</kind></reliability>\
        <resource_limits><max_samples>20</max_samples></resource_limits>\
        <user_data><value>4</value></user_data>\
        <property><value><element><name>b</name><value>2</value></element></value></property>\
        </datawriter_qos>";
    let provider =
        provider(&file(&[("L", "name='A'", base), ("L", "name='B' base_name='A'", derived)]));
    let entity = provider.entity(EntityKind::DataWriter, "L::B", None).unwrap();
    let writer = provider.datawriter_qos("L::B").unwrap();
    assert_eq!(writer.reliability.kind, ReliabilityQosPolicyKind::Reliable);
    assert_eq!(writer.reliability.max_blocking_time.sec(), 5);
    assert_eq!(writer.resource_limits.max_samples, Length::of(20));
    assert_eq!(writer.resource_limits.max_instances, Length::of(11));
    assert_eq!(writer.user_data.value, [4]);
    assert_eq!((entity.property("a"), entity.property("b")), (Some("1"), Some("2")));
    // The origin of each value.
    let from = |policy, field| entity.origin(policy, field).to_string();
    assert_eq!(from(PolicyId::Reliability, 0), "profile L::B (str:1:3:88)");
    assert_eq!(from(PolicyId::Reliability, 1), "base L::A (str:1:2:98)");
    assert_eq!(from(PolicyId::ResourceLimits, 1), "base L::A (str:1:2:209)");
    assert_eq!(from(PolicyId::Deadline, 0), "default");
    assert!(matches!(entity.property_origin(0), Origin::Base(_)));
    assert!(matches!(entity.property_origin(1), Origin::Profile(_)));
    // A value that the derived profile does not mention is its base's, and its origin says so.
    let provider =
        support::provider(&file(&[("L", "name='A'", base), ("L", "name='B' base_name='A'", "")]));
    let entity = provider.entity(EntityKind::DataWriter, "L::B", None).unwrap();
    assert!(matches!(entity.origin(PolicyId::Reliability, 0), Origin::Base(_)));
}

#[test]
fn duration_is_inherited_as_one_value() {
    let base = "<topic_qos><deadline><period><sec>1</sec><nanosec>5</nanosec></period></deadline></topic_qos>";
    let derived = "<topic_qos><deadline><period><sec>2</sec></period></deadline></topic_qos>";
    let provider =
        provider(&file(&[("L", "name='A'", base), ("L", "name='B' base_name='A'", derived)]));
    assert_eq!(provider.topic_qos("L::B").unwrap().deadline.period.to_string(), "2s");
}

#[test]
fn policy_sets_have_their_own_bases() {
    let sets = "<datawriter_qos name='X'><history><depth>3</depth></history></datawriter_qos>\
        <datawriter_qos name='Y' base_name='X'/><datawriter_qos name='Z' base_name='Other'/>\
        <datawriter_qos name='U' base_name='M::Other'/><datawriter_qos name='V' base_name='Other::N'/>\
        <datawriter_qos name='W' base_name='M::Other::N'/><datawriter_qos name='S' base_name='Alone'/>\
        <datawriter_qos name='T'/>";
    let other = |number| {
        format!(
            "{}<datawriter_qos name='N'><history><depth>{}</depth></history></datawriter_qos>",
            depth(number),
            number + 1
        )
    };
    let text = file(&[
        ("L", "name='P' base_name='Base'", sets),
        ("L", "name='Other'", &other(10)),
        ("M", "name='Other'", &other(20)),
        ("L", "name='Base'", &depth(30)),
    ])
    .replace("</dds>", "<qos_library name='L'><datawriter_qos name='Alone' base_name='Other::N'/></qos_library></dds>");
    let provider = provider(&text);
    for (name, expected) in
        [("X", 3), ("Y", 3), ("Z", 10), ("U", 20), ("V", 11), ("W", 21), ("S", 11), ("T", 30)]
    {
        assert_eq!(depth_of(&provider, &format!("L::P::{name}")), expected, "{name}");
    }
    assert_eq!(depth_of(&provider, "L::Alone"), 11);
}

#[test]
fn policy_set_inherits_from_base_set_of_same_name_or_filter() {
    let base = "<datawriter_qos><history><depth>1</depth></history></datawriter_qos>\
        <datawriter_qos name='N'><history><depth>2</depth></history></datawriter_qos>\
        <datawriter_qos topic_filter='F*'><history><depth>3</depth></history></datawriter_qos>";
    let derived = "<datawriter_qos name='N'><lifespan><duration><sec>1</sec></duration></lifespan></datawriter_qos>\
        <datawriter_qos topic_filter='F*'><lifespan><duration><sec>1</sec></duration></lifespan></datawriter_qos>\
        <datawriter_qos topic_filter='G*'/>";
    let provider =
        provider(&file(&[("L", "name='A'", base), ("L", "name='B' base_name='A'", derived)]));
    assert_eq!((depth_of(&provider, "L::B::N"), depth_of(&provider, "L::B")), (2, 1));
    let depth_for = |topic| provider.datawriter_qos_for("L::B", topic).unwrap().history.depth;
    assert_eq!((depth_for("F1"), depth_for("G1"), depth_for("H1")), (3, 1, 1));
    let profile = provider.profile("L::B").unwrap();
    assert_eq!(profile.entities.len(), 4, "{profile:?}");
}

#[test]
fn last_of_several_bases_takes_precedence() {
    let provider = provider(&file(&[
        ("L", "name='A'", &depth(1)),
        (
            "L",
            "name='B'",
            "<datawriter_qos><history><kind>KEEP_ALL</kind><depth>2</depth></history></datawriter_qos>",
        ),
        ("L", "name='C'", &depth(3)),
        (
            "L",
            "name='D' base_name='A'",
            "<base_name><element>B</element><element>L::C</element></base_name>",
        ),
    ]));
    let writer = provider.datawriter_qos("L::D").unwrap();
    assert_eq!((writer.history.depth, writer.history.kind), (3, HistoryQosPolicyKind::KeepAll));
    let wrong = file(&[("L", "name='D'", "<base_name>A<elemen>B</elemen></base_name>")]);
    assert_eq!(
        errors(&wrong),
        [
            "str:1:2:45: dds/qos_library[L]/qos_profile[D]/base_name: found the text `A`; expected `<element>` for each base",
            "str:1:2:57: dds/qos_library[L]/qos_profile[D]/base_name/elemen: found an unknown element; expected `element`; did you mean `element`?",
        ]
    );
}

#[test]
fn missing_base_is_reported_with_its_chain() {
    let text = file(&[
        ("L", "name='State' base_name='Comon'", ""),
        ("L", "name='Common'", ""),
        (
            "L",
            "name='Q'",
            "<topic_qos base_name='M::Common'/><topic_qos name='n' base_name='L::Common::x'/>",
        ),
    ]);
    assert_eq!(
        errors(&text),
        [
            "str:1:2:23: dds/qos_library[L]/qos_profile[State]: found the base `Comon`, which is not there (L::State -> Comon); expected a profile of this library, or `Library::Profile`; did you mean `Common`?",
            "str:1:4:45: dds/qos_library[L]/qos_profile[Q]/topic_qos: found the base `M::Common`, which is not there (L::Q -> M::Common); expected a profile of this library, or `Library::Profile`; did you mean `L::Common`?",
            "str:1:4:79: dds/qos_library[L]/qos_profile[Q]/topic_qos[n]: found the base `L::Common::x`, which is not there (L::Q::n -> L::Common::x); expected a profile of this library, or `Library::Profile`; did you mean `L::Common`?",
        ]
    );
    let text =
        file(&[("L", "name='A' base_name='A::B::C'", ""), ("L", "name='B' base_name=''", "")]);
    assert_eq!(
        errors(&text),
        [
            "str:1:2:23: dds/qos_library[L]/qos_profile[A]: found the base `A::B::C`; expected `Profile` or `Library::Profile`",
            "str:1:3:23: dds/qos_library[L]/qos_profile[B]: found the base nothing; expected `Profile` or `Library::Profile`",
        ]
    );
}

#[test]
fn inheritance_cycle_is_reported_once_with_its_chain() {
    let cycle = |profiles: &[(&str, &str, &str)], expected: &str| {
        assert_eq!(errors(&file(profiles)), [expected])
    };
    cycle(
        &[("L", "name='A' base_name='A'", "")],
        "str:1:2:23: dds/qos_library[L]/qos_profile[A]: found a profile that inherits from itself (L::A -> L::A); expected a chain of bases without a cycle",
    );
    cycle(
        &[
            ("L", "name='Start' base_name='A'", ""),
            ("L", "name='A' base_name='M::B'", &depth(1)),
            ("M", "name='B' base_name='L::C'", ""),
            ("L", "name='C' base_name='A'", &depth(1)),
        ],
        "str:1:5:23: dds/qos_library[L]/qos_profile[C]: found a profile that inherits from itself (L::A -> M::B -> L::C -> L::A); expected a chain of bases without a cycle",
    );
    cycle(
        &[("L", "name='A'", "<topic_qos base_name='B'/>"), ("L", "name='B' base_name='A'", "")],
        "str:1:2:45: dds/qos_library[L]/qos_profile[A]/topic_qos: found a profile that inherits from itself (L::A -> L::B -> L::A); expected a chain of bases without a cycle",
    );
    cycle(
        &[(
            "L",
            "name='A'",
            "<topic_qos name='x' base_name='y'/><topic_qos name='y' base_name='x'/>",
        )],
        "str:1:2:45: dds/qos_library[L]/qos_profile[A]/topic_qos[x]: found a profile that inherits from itself (L::A::x -> L::A::y -> L::A::x); expected a chain of bases without a cycle",
    );
    // No cycle: the two halves have different kinds, or different names.
    let sound = file(&[
        ("L", "name='A'", "<topic_qos base_name='B'/>"),
        ("L", "name='B'", "<datawriter_qos base_name='A'/>"),
        ("L", "name='C'", "<datawriter_qos name='x' base_name='C'/><datawriter_qos/>"),
    ]);
    assert_eq!(depth_of(&provider(&sound), "L::C::x"), 1);
}

#[test]
fn inheritance_chain_has_at_most_32_bases() {
    let chain = |length: usize| {
        let attributes: Vec<String> = (0..=length)
            .map(|n| {
                if n == 0 {
                    "name='P0'".to_owned()
                } else {
                    format!("name='P{n}' base_name='P{}'", n - 1)
                }
            })
            .collect();
        let deep = depth(7);
        let rows: Vec<(&str, &str, &str)> = attributes
            .iter()
            .enumerate()
            .map(|(n, attributes)| {
                ("L", attributes.as_str(), if n == 0 { deep.as_str() } else { "" })
            })
            .collect();
        file(&rows)
    };
    assert_eq!(depth_of(&provider(&chain(32)), "L::P32"), 7);
    assert_eq!(
        errors(&chain(33)),
        [
            "str:1:35:23: dds/qos_library[L]/qos_profile[P33]: found a chain of more than 32 bases above this profile; expected a shorter one"
        ]
    );
}

#[test]
fn inconsistent_values_are_reported_when_file_is_read() {
    let limits = "<datareader_qos><resource_limits><max_samples_per_instance>5</max_samples_per_instance></resource_limits></datareader_qos>";
    let history = "<datareader_qos><history><depth>6</depth></history></datareader_qos>";
    assert_eq!(
        errors(&file(&[("L", "name='A'", limits), ("L", "name='B' base_name='A'", history)])),
        [
            "str:1:3:84: dds/qos_library[L]/qos_profile[B]/datareader_qos/history: HISTORY: depth (6) is more than RESOURCE_LIMITS max_samples_per_instance (5); lower the one or raise the other"
        ]
    );
    // The contradicting value comes from a base, or both values come from bases.
    assert_eq!(
        errors(&file(&[("L", "name='A'", history), ("L", "name='B' base_name='A'", limits)])),
        [
            "str:1:3:59: dds/qos_library[L]/qos_profile[B]/datareader_qos/history: HISTORY: depth (6) is more than RESOURCE_LIMITS max_samples_per_instance (5); lower the one or raise the other"
        ]
    );
    let both = "<base_name><element>A</element><element>B</element></base_name>";
    assert_eq!(
        errors(&file(&[
            ("L", "name='A'", history),
            ("L", "name='B'", limits),
            ("L", "name='C'", both)
        ])),
        [
            "str:1:4:23: dds/qos_library[L]/qos_profile[C]/datareader_qos/history: HISTORY: depth (6) is more than RESOURCE_LIMITS max_samples_per_instance (5); lower the one or raise the other"
        ]
    );
    let set = |kind: EntityKind, inside: &str| errors(&support::file(kind, inside));
    let filter = "<time_based_filter><minimum_separation><sec>2</sec></minimum_separation></time_based_filter>\
        <deadline><period><sec>1</sec></period></deadline>";
    assert_eq!(
        set(EntityKind::DataReader, filter),
        [
            "str:1:5:20: dds/qos_library[L]/qos_profile[P]/datareader_qos/time_based_filter: TIME_BASED_FILTER: minimum_separation (2s) is longer than the DEADLINE period (1s), so every deadline would be missed; shorten the one or lengthen the other"
        ]
    );
    for kind in [EntityKind::Topic, EntityKind::DataWriter, EntityKind::DataReader] {
        let element = kind.element();
        assert_eq!(
            set(
                kind,
                "<history><depth>0</depth></history>\n<resource_limits><max_samples>0</max_samples></resource_limits>"
            ),
            [
                format!(
                    "str:1:6:18: dds/qos_library[L]/qos_profile[P]/{element}/resource_limits: RESOURCE_LIMITS: max_samples is 0, so nothing could be kept; set it to 1 or more"
                ),
                format!(
                    "str:1:5:10: dds/qos_library[L]/qos_profile[P]/{element}/history: HISTORY: depth is 0, so KEEP_LAST would keep nothing; set it to 1 or more"
                ),
            ]
        );
        let delivery = |value: &str| {
            format!(
                "<property><value><element><name>squall.delivery</name><value>{value}</value></element></value></property>"
            )
        };
        assert_eq!(
            set(
                kind,
                &format!(
                    "<reliability><kind>RELIABLE</kind></reliability><durability><kind>TRANSIENT_LOCAL</kind></durability>{}",
                    delivery("unordered")
                )
            ),
            [format!(
                "str:1:5:61: dds/qos_library[L]/qos_profile[P]/{element}/durability: DURABILITY: samples that are kept have one order, and `squall.delivery` is `unordered`; set VOLATILE, or leave the property out"
            )]
        );
        assert_eq!(
            set(
                kind,
                &format!(
                    "<reliability><kind>BEST_EFFORT</kind></reliability>{}",
                    delivery("atomic")
                )
            ),
            [format!(
                "str:1:5:14: dds/qos_library[L]/qos_profile[P]/{element}/reliability: RELIABILITY: BEST_EFFORT samples may be lost, and `squall.delivery` is `atomic`; set RELIABLE, or leave the property out"
            )]
        );
    }
    for kind in [EntityKind::Topic, EntityKind::DataWriter] {
        let service = "<durability_service><history_depth>9</history_depth><max_samples>7</max_samples><max_samples_per_instance>8</max_samples_per_instance></durability_service>";
        assert_eq!(set(kind, service).len(), 2);
    }
}
