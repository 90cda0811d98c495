//! Elements around policies: roots, libraries, profiles, names, filters. For every rule a valid
//! file with its result, and an invalid file with the whole error.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use qos_profiles::xml::QosProvider;
use qos_profiles::{
    DataRepresentationId, DurabilityQosPolicyKind, Duration, EntityKind, EntityQos, Length,
    OwnershipQosPolicyKind, ReliabilityQosPolicyKind,
};
use support::{errors, file, provider, resolved};

const POLICIES: &str = "expected `domain_participant_qos`, `topic_qos`, `publisher_qos`, \
                        `subscriber_qos`, `datawriter_qos` or `datareader_qos`";

/// Checks the errors in the only line of a file, without the file's name.
#[track_caller]
fn wrong(text: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|error| format!("str:1:{error}")).collect();
    assert_eq!(errors(text), expected, "in {text}");
}

/// Returns the depth of the writers' history in a profile: a value to follow through bases.
#[track_caller]
fn depth(provider: &QosProvider, name: &str) -> u32 {
    provider.datawriter_qos(name).unwrap().history.depth
}

/// Returns a writer's set with this depth.
fn writer(attributes: &str, depth: u32) -> String {
    format!(
        "<datawriter_qos{attributes}><history><depth>{depth}</depth></history></datawriter_qos>"
    )
}

fn library(inside: &str) -> String {
    format!("<dds><qos_library name=\"L\">{inside}</qos_library></dds>")
}

fn profile(name: &str, attributes: &str, inside: &str) -> String {
    format!("<qos_profile name=\"{name}\"{attributes}>{inside}</qos_profile>")
}

/// A configuration of another product without policies is one error, with where such settings live.
#[test]
fn configurations_of_other_products_are_explained() {
    for (text, words) in [
        (
            "<CycloneDDS xmlns='https://cdds.io/config'><Domain Id='any'/></CycloneDDS>",
            "Cyclone DDS",
        ),
        ("[common]\nDCPSDefaultDiscovery=fixed\n[transport/t]\ntransport_type=tcp\n", "OpenDDS"),
    ] {
        let told = errors(text);
        assert_eq!(told.len(), 1, "{told:#?}");
        assert!(told[0].starts_with("str:1: found "), "{told:#?}");
        assert!(told[0].contains(words) && told[0].contains("`ParticipantConfig`"), "{told:#?}");
    }
}

#[test]
fn root_is_accepted_with_or_without_namespace_and_schema() {
    let inside = format!("<qos_profile name=\"P\">{}</qos_profile>", writer("", 7));
    for (root, library) in [
        ("<dds>", true),
        ("<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n<!-- c --><dds>", true),
        ("\u{feff}<dds>", true),
        ("<dds xmlns=\"http://www.omg.org/spec/DDS-XML\">", true),
        (
            "<dds xmlns=\"http://www.omg.org/spec/DDS-XML\" \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xsi:schemaLocation=\"http://www.omg.org/spec/DDS-XML dds.xsd\">",
            true,
        ),
        (
            "<dds xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xsi:noNamespaceSchemaLocation=\"rti_dds_profiles.xsd\">",
            true,
        ),
        ("<qos_library name=\"L\">", false),
        ("<qos_library xmlns=\"http://www.omg.org/spec/DDS-XML\" name=\"L\">", false),
    ] {
        let text = match library {
            true => format!("{root}<qos_library name=\"L\">{inside}</qos_library></dds>"),
            false => format!("{root}{inside}</qos_library>"),
        };
        assert_eq!(depth(&provider(&text), "L::P"), 7, "{text}");
    }
    let prefixed =
        "<o:dds xmlns:o=\"http://www.omg.org/spec/DDS-XML\"><o:qos_profile name=\"P\"/></o:dds>";
    assert!(provider(prefixed).profile("P").is_ok());

    wrong(
        "<ddss/>",
        &[
            "1:1: ddss: found an unknown root element; expected `dds` or `qos_library`; did you mean `dds`?",
        ],
    );
    wrong(
        "<library_settings xmlns=\"http://www.eprosima.com\"/>",
        &[
            "1:1: library_settings: found the root element of a format that only Fast DDS has; expected `dds` or `qos_library`",
        ],
    );
    wrong(
        "<dds xmlns=\"http://example.com\"/>",
        &[
            "1:1: found the namespace `http://example.com`; expected none or `http://www.omg.org/spec/DDS-XML`",
        ],
    );
    wrong(
        "<dds><x:qos_library xmlns:x=\"urn:x\" name=\"L\"/></dds>",
        &["1:6: dds: found an element of `urn:x`; expected no namespace, as the root has"],
    );
    wrong(
        "<dds><include/></dds>",
        &[&format!(
            "1:6: dds/include: found an unknown element; expected `qos_library`, `profiles`, `types`, `domain_library`, `domain_participant_library`, `qos_profile`, {}",
            &POLICIES["expected ".len()..]
        )],
    );
    wrong(
        "<dds/><dds/>",
        &[
            "1:7: found no well-formed XML (Unexpected token: <); expected elements that are closed in the order in which they were opened, and &lt; &amp; in texts",
        ],
    );
}

#[test]
fn profile_outside_library_has_unqualified_name() {
    let text =
        format!("<dds>{}{}</dds>", profile("P", "", &writer("", 7)), writer(" name=\"W\"", 8));
    let provider = provider(&text);
    assert_eq!((depth(&provider, "P"), depth(&provider, "W")), (7, 8));
    let names = provider.profile_names();
    assert_eq!(names[0], "P");
}

#[test]
fn names_are_required_valid_and_unique() {
    let both = library(&(profile("P", "", "") + &profile("Q", "", "")));
    assert!(provider(&both).profile_names().contains(&"L::Q".to_owned()));
    let line = |inside: &str| library(inside);
    wrong("<qos_library/>", &["1:1: qos_library: found no attribute `name`; expected one"]);
    wrong(
        &line("<qos_profile/>"),
        &["1:28: dds/qos_library[L]/qos_profile: found no attribute `name`; expected one"],
    );
    wrong(
        &line("<qos_profile name=\"\"/>"),
        &[
            "1:28: dds/qos_library[L]/qos_profile[]: found an empty name; expected one of a letter or more",
        ],
    );
    wrong(
        &line("<qos_profile name=\"A::B\"/>"),
        &[
            "1:28: dds/qos_library[L]/qos_profile[A::B]: found the name `A::B`; expected one without `::`, which joins the names of library and profile",
        ],
    );
    wrong(
        &line("<qos_profile name=\" A\"/>"),
        &[
            "1:28: dds/qos_library[L]/qos_profile[ A]: found the name ` A`; expected one without white space around it",
        ],
    );
    wrong(
        &line("<qos_profile name=\"A&#10;B\"/>"),
        &[
            "1:28: dds/qos_library[L]/qos_profile[A\nB]: found the name `A\\nB`; expected one of printable letters",
        ],
    );
    wrong(
        &line("<qos_profile name=\"P\"/><qos_profile name=\"P\"/>"),
        &[
            "1:51: dds/qos_library[L]/qos_profile[P]: found a second `qos_profile` of the name `P`; the first is at str:1:1:28; expected another name",
        ],
    );
    wrong(
        &line("<topic_qos name=\"P\"/><topic_qos name=\"P\"/><qos_profile name=\"P\"/>"),
        &[
            "1:49: dds/qos_library[L]/topic_qos[P]: found a second `topic_qos` of the name `P`; the first is at str:1:1:28; expected another name",
            "1:70: dds/qos_library[L]/qos_profile[P]: found a second `qos_profile` of the name `P`; the first is at str:1:1:28; expected another name",
        ],
    );
    wrong(
        &line("<qos_profile name=\"P\" colour=\"red\" base_nam=\"Q\"/>"),
        &[
            "1:28: dds/qos_library[L]/qos_profile[P]: found the unknown attribute `colour`; expected `name`, `base_name` or `is_default_qos`",
            "1:28: dds/qos_library[L]/qos_profile[P]: found the unknown attribute `base_nam`; expected `name`, `base_name` or `is_default_qos`; did you mean `base_name`?",
        ],
    );
    wrong(
        "<dds name=\"x\"/>",
        &["1:1: dds: found the unknown attribute `name`; expected no attributes"],
    );
    wrong("<dds>\n text\n</dds>", &["2:2: dds: found the text `text`; expected elements alone"]);
    wrong(
        &line("<qos_profil name=\"P\"/>"),
        &[&format!(
            "1:28: dds/qos_library[L]/qos_profil[P]: found an unknown element; expected `qos_profile`, {}; did you mean `qos_profile`?",
            &POLICIES["expected ".len()..]
        )],
    );
    // The same library in two files, and the ready-made one, are merged.
    let twice = "str://\"<dds><qos_library name='L'><qos_profile name='A'/></qos_library></dds>\";\
                 str://\"<dds><qos_library name='L'><qos_profile name='B' base_name='A'/></qos_library></dds>\"";
    assert!(QosProvider::from_uri_list(twice).unwrap().profile("L::B").is_ok());
    let ours = "<qos_library name=\"Squall\"><qos_profile name=\"Atomic\"/></qos_library>";
    assert_eq!(errors(ours).len(), 1);
    assert!(
        errors(ours)[0].contains("the first is at ready-made/levels.xml:"),
        "{:?}",
        errors(ours)
    );
}

#[test]
fn participant_policy_set_has_three_spellings() {
    for element in ["domain_participant_qos", "domainparticipant_qos", "participant_qos"] {
        let inside = format!(
            "<{element}><entity_factory><autoenable_created_entities>false\
             </autoenable_created_entities></entity_factory></{element}>"
        );
        let provider = provider(&library(&profile("P", "", &inside)));
        assert!(
            !provider.participant_qos("L::P").unwrap().entity_factory.autoenable_created_entities
        );
        let text = library(&profile("P", "", &format!("<{element} base_name=\"Q\"/>")));
        let start =
            format!("str:1:1:50: dds/qos_library[L]/qos_profile[P]/{element}: found the base `Q`");
        assert!(errors(&text)[0].starts_with(&start), "{:?}", errors(&text));
    }
    wrong(
        &library(&profile("P", "", "<data_writer_qos/>")),
        &[&format!(
            "1:50: dds/qos_library[L]/qos_profile[P]/data_writer_qos: found an unknown element; {POLICIES}; did you mean `datawriter_qos`?"
        )],
    );
}

#[test]
fn policy_sets_are_allowed_inside_and_outside_profiles() {
    let outside = writer(" name=\"Alone\"", 5)
        + "<datareader_qos name=\"Alone\"><history><depth>6</depth></history></datareader_qos>";
    let inside = writer("", 7) + &writer(" name=\"Other\"", 8);
    let provider = provider(&library(&(outside + &profile("P", "", &inside))));
    assert_eq!(depth(&provider, "L::Alone"), 5);
    assert_eq!(provider.datareader_qos("L::Alone").unwrap().history.depth, 6);
    assert_eq!((depth(&provider, "L::P"), depth(&provider, "L::P::Other")), (7, 8));
    assert!(provider.publisher_qos("L::Alone").is_err());
    wrong(
        &library("<topic_qos/>"),
        &[
            "1:28: dds/qos_library[L]/topic_qos: found no attribute `name`; expected one: outside of profiles, a set of policies is found only by name",
        ],
    );
    wrong(
        &library(&profile(
            "P",
            "",
            "<topic_qos/><topic_qos/><topic_qos name=\"A\"/><topic_qos name=\"A\" topic_filter=\"x\"/>",
        )),
        &[
            "1:62: dds/qos_library[L]/qos_profile[P]/topic_qos: found a second `topic_qos` with this name and filter; the first is at str:1:1:50; expected names and filters that differ",
            "1:95: dds/qos_library[L]/qos_profile[P]/topic_qos[A]: found a second `topic_qos` with this name and filter; the first is at str:1:1:74; expected names and filters that differ",
        ],
    );
    // If all sets have names, the first one is the profile's.
    let named = library(&profile("P", "", &(writer(" name=\"A\"", 3) + &writer(" name=\"B\"", 4))));
    assert_eq!(depth(&support::provider(&named), "L::P"), 3);
}

#[test]
fn topic_filter_selects_policy_set_in_both_spellings() {
    let inside = writer(" topic_filter=\"Wing*\"", 1)
        + &writer("", 2)
        + &writer(" name=\"Radar\" topic_name_filter=\"[A-R]adar?\"", 3)
        + &writer(" topic_filter=\"*\"", 4);
    let all = profile("P", "", &inside)
        + &profile("Q", " base_name=\"P\"", &writer(" topic_filter=\"W*\"", 5));
    let provider = provider(&library(&all));
    let depth_for =
        |profile: &str, topic| provider.datawriter_qos_for(profile, topic).unwrap().history.depth;
    assert_eq!(depth_for("L::P", "WingLeft"), 1);
    assert_eq!(depth_for("L::P", "Radar1"), 3);
    assert_eq!(depth_for("L::P", "Other"), 4);
    assert_eq!(depth(&provider, "L::P"), 2);
    assert_eq!(depth(&provider, "L::P::Radar"), 3);
    // A derived profile's filters precede those that it inherits.
    assert_eq!((depth_for("L::Q", "WingLeft"), depth_for("L::Q", "Radar2")), (5, 3));
    assert_eq!(depth(&provider, "L::Q"), 2);
    let one = |attributes: &str| library(&profile("P", "", &format!("<topic_qos {attributes}/>")));
    wrong(
        &one("topic_filter=\"[\""),
        &[
            "1:50: dds/qos_library[L]/qos_profile[P]/topic_qos[[]: found the filter `[`: `[` has no `]`; expected a pattern of `*`, `?`, `[a-z]` and letters",
        ],
    );
    wrong(
        &one("topic_filter=\"a\" topic_name_filter=\"b\""),
        &[
            "1:50: dds/qos_library[L]/qos_profile[P]/topic_qos[a]: found both `topic_filter` and `topic_name_filter`; expected one of them",
        ],
    );
    wrong(
        &library(&profile("P", "", "<publisher_qos topic_filter=\"a\"/>")),
        &[
            "1:50: dds/qos_library[L]/qos_profile[P]/publisher_qos[a]: found the unknown attribute `topic_filter`; expected `name` or `base_name`",
        ],
    );
}

#[test]
fn at_most_one_profile_is_default() {
    let one = library(
        &(profile("A", " is_default_qos=\"false\"", "")
            + &profile("B", " is_default_qos=\"true\"", "")),
    );
    assert_eq!(provider(&one).default_profile().as_deref(), Some("L::B"));
    assert_eq!(provider("<dds/>").default_profile(), None);
    wrong(
        &library(
            &(profile("A", " is_default_qos=\"1\"", "")
                + &profile("B", " is_default_qos=\"true\"", "")),
        ),
        &[
            "1:83: dds/qos_library[L]/qos_profile[B]: found a second profile with `is_default_qos`; the first is at str:1:1:28; expected one",
        ],
    );
    wrong(
        &library(&profile("A", " is_default_qos=\"ture\"", "")),
        &[
            "1:28: dds/qos_library[L]/qos_profile[A]: is_default_qos: found `ture`; expected `true` or `false`; did you mean `true`?",
        ],
    );
}

#[test]
fn values_accept_spellings_of_other_products() {
    let inside = "<durability><kind>DDS_PERSISTENT_DURABILITY_QOS</kind></durability>\
        <reliability><kind>RELIABLE</kind><max_blocking_time><sec>DURATION_INFINITY</sec></max_blocking_time></reliability>\
        <deadline><period><sec>DURATION_ZERO_SEC</sec><nanosec>DURATION_ZERO_NSEC</nanosec></period></deadline>\
        <latency_budget><duration><sec>DDS_DURATION_INFINITE_SEC</sec><nanosec>DURATION_INFINITY_NSEC</nanosec></duration></latency_budget>\
        <resource_limits><max_samples>DDS_LENGTH_UNLIMITED</max_samples></resource_limits>\
        <writer_data_lifecycle><autodispose_unregistered_instances>BOOLEAN_FALSE</autodispose_unregistered_instances></writer_data_lifecycle>\
        <data_representation><value><element>XCDR1</element><element>2</element></value></data_representation>\
        <user_data><value> <![CDATA[Cgs=]]> </value></user_data>";
    let EntityQos::DataWriter(qos) = resolved(EntityKind::DataWriter, inside).qos else {
        unreachable!()
    };
    assert_eq!(qos.durability.kind, DurabilityQosPolicyKind::Persistent);
    assert_eq!(qos.reliability.kind, ReliabilityQosPolicyKind::Reliable);
    assert_eq!(qos.reliability.max_blocking_time, Duration::INFINITE);
    assert_eq!(qos.deadline.period, Duration::ZERO);
    assert_eq!(qos.latency_budget.duration, Duration::INFINITE);
    assert_eq!(qos.resource_limits.max_samples, Length::UNLIMITED);
    assert!(!qos.writer_data_lifecycle.autodispose_unregistered_instances);
    assert_eq!(qos.representation.value, [DataRepresentationId::Xcdr, DataRepresentationId::Xcdr2]);
    assert_eq!(qos.user_data.value, [10, 11]);
    let inside = "<partition><names><name>a</name><name>b</name></names></partition>";
    let EntityQos::Publisher(qos) = resolved(EntityKind::Publisher, inside).qos else {
        unreachable!()
    };
    assert_eq!(qos.partition.name, ["a", "b"]);
    let inside = "<type_consistency_enforcement><ignore_member_names>TRUE</ignore_member_names></type_consistency_enforcement>";
    let EntityQos::DataReader(qos) = resolved(EntityKind::DataReader, inside).qos else {
        unreachable!()
    };
    assert!(qos.type_consistency.ignore_member_names);
}

#[test]
fn unknown_or_repeated_policy_is_rejected() {
    let kind = EntityKind::DataWriter;
    let at = |text: &str, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|error| format!("str:1:{error}")).collect();
        assert_eq!(errors(&file(kind, text)), expected);
    };
    const W: &str = "dds/qos_library[L]/qos_profile[P]/datawriter_qos";
    at(
        "<partition/>",
        &[&format!(
            "5:1: {W}/partition: found a policy that a data writer does not have; expected it of a publisher or subscriber"
        )],
    );
    at(
        "<dead_line/>",
        &[&format!(
            "5:1: {W}/dead_line: found an unknown element; expected `durability`, `durability_service`, `deadline`, `latency_budget`, `liveliness`, `reliability`, `destination_order`, `history`, `resource_limits`, `transport_priority`, `lifespan`, `user_data`, `ownership`, `ownership_strength`, `writer_data_lifecycle`, `representation` or `property`; did you mean `deadline`?"
        )],
    );
    at(
        "<history/>\n<history/>",
        &[&format!("6:1: {W}/history: found this element a second time; expected it once")],
    );
    at(
        "<history><depht>1</depht></history>",
        &[&format!(
            "5:10: {W}/history/depht: found an unknown element; expected `kind` or `depth`; did you mean `depth`?"
        )],
    );
    at(
        "<history><depth>1</depth><depth>1</depth></history>",
        &[&format!("5:26: {W}/history/depth: found this element a second time; expected it once")],
    );
    at(
        "<history>KEEP_ALL</history>",
        &[&format!("5:1: {W}/history: found the text `KEEP_ALL`; expected `kind` or `depth`")],
    );
    at(
        "<history a=\"b\"/>",
        &[&format!("5:1: {W}/history: found the unknown attribute `a`; expected no attributes")],
    );
    at(
        "<history><depth a=\"b\">1</depth></history>",
        &[&format!(
            "5:10: {W}/history/depth: found the unknown attribute `a`; expected no attributes"
        )],
    );
    at(
        "<history><depth><b/></depth></history>",
        &[&format!("5:17: {W}/history/depth/b: found an element; expected a text")],
    );
    at("history", &[&format!("4:1: {W}: found the text `history`; expected policies")]);
    at(
        "<history>\n<kind>X</kind>\n<depth>Y</depth></history>",
        &[
            &format!(
                "6:1: {W}/history/kind: found `X`; expected `KEEP_LAST_HISTORY_QOS` or `KEEP_ALL_HISTORY_QOS`"
            ),
            &format!("7:1: {W}/history/depth: found `Y`; expected a number from 0 to 2147483647"),
        ],
    );
    at(
        "<user_data><value><octet>1</octet></value></user_data>",
        &[&format!(
            "5:19: {W}/user_data/value/octet: found an unknown element; expected `element`"
        )],
    );
    at(
        "<user_data><value><element><b/></element></value></user_data>",
        &[&format!("5:28: {W}/user_data/value/element/b: found an element; expected a text")],
    );
    at(
        "<deadline><period><sec>a</sec></period></deadline>",
        &[&format!(
            "5:19: {W}/deadline/period/sec: found `a`; expected a number from 0 to 2147483646, or `DURATION_INFINITE_SEC`"
        )],
    );
    at(
        "<deadline><period>x<sec>1</sec></period></deadline>",
        &[&format!(
            "5:11: {W}/deadline/period: found the text `x`; expected `<sec>` and `<nanosec>`, or `DURATION_INFINITE`"
        )],
    );
    let long = "x".repeat(257);
    assert_eq!(
        errors(&file(
            EntityKind::Publisher,
            &format!("<partition><name><element>{long}</element></name></partition>")
        )),
        [
            "str:1:5:18: dds/qos_library[L]/qos_profile[P]/publisher_qos/partition/name/element: found a name of 257 bytes; expected 256 at most"
        ]
    );
    let many = "<element>x</element>".repeat(257);
    assert_eq!(
        errors(&file(
            EntityKind::Publisher,
            &format!("<partition><name>{many}</name></partition>")
        )),
        [
            "str:1:5:12: dds/qos_library[L]/qos_profile[P]/publisher_qos/partition/name: found 257 of them; expected 256 at most"
        ]
    );
}

#[test]
fn number_of_reported_errors_is_limited() {
    let many = library(&"<x/>".repeat(500));
    assert_eq!(errors(&many).len(), 100);
    let many = library(
        &(0..300).map(|n| profile(&format!("P{n}"), " base_name=\"Q\"", "")).collect::<String>(),
    );
    assert_eq!(errors(&many).len(), 100);
}

#[test]
fn error_for_unknown_profile_name_suggests_known_name() {
    let provider = provider(&library(&profile("Display", "", "")));
    let unknown = |name: &str| provider.datareader_qos(name).unwrap_err().to_string();
    assert_eq!(
        unknown("L::Dsplay"),
        "there is no profile `L::Dsplay`; expected `Library::Profile`; did you mean `L::Display`?"
    );
    assert_eq!(
        unknown("Display"),
        "there is no profile `Display`; expected `Library::Profile`; did you mean `L::Display`?"
    );
    assert_eq!(
        unknown("X::Y::Z::W"),
        "there is no profile `X::Y::Z::W`; expected `Library::Profile`"
    );
    assert_eq!(
        provider.datareader_qos("L::Display").unwrap().ownership.kind,
        OwnershipQosPolicyKind::Shared
    );
}
