//! Files in the form of RTI Connext: built-in bases, bases inside sets, and variables.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use qos_profiles::xml::{DeliveryLevel, QosProvider};
use qos_profiles::{
    DurabilityQosPolicyKind, EntityKind, HistoryQosPolicyKind, ReliabilityQosPolicyKind,
};
use support::{errors, file, provider};

/// Returns a file with one profile `P` that has these bases.
fn based(bases: &[&str]) -> String {
    let bases: String = bases.iter().map(|base| format!("<element>{base}</element>")).collect();
    format!(
        "<dds><qos_library name='L'><qos_profile name='P'><base_name>{bases}</base_name></qos_profile></qos_library></dds>"
    )
}

fn level(provider: &QosProvider) -> Option<DeliveryLevel> {
    provider.entity(EntityKind::Topic, "L::P", None).unwrap().level()
}

#[test]
fn built_in_profiles_have_their_guarantees() {
    use DeliveryLevel::{Atomic, Kept, Logged, Unordered};
    for (name, expected, keeps_all) in [
        ("Generic.StrictReliable", Atomic, true),
        ("Generic.StrictReliable.LargeData.FastFlow", Atomic, true),
        ("Generic.KeepLastReliable", Atomic, false),
        ("Generic.BestEffort", Unordered, false),
        ("Generic.KeepLastReliable.TransientLocal", Kept, false),
        ("Generic.KeepLastReliable.Transient", Kept, false),
        ("Generic.KeepLastReliable.Persistent", Logged, false),
        ("Pattern.Streaming", Unordered, false),
        ("Pattern.Event", Atomic, true),
        ("Pattern.AlarmStatus", Kept, false),
    ] {
        for library in ["BuiltinQosLib", "BuiltinQosLibExp"] {
            let provider = provider(&based(&[&format!("{library}::{name}")]));
            assert_eq!(level(&provider), Some(expected), "{name}");
            let history = provider.datareader_qos("L::P").unwrap().history.kind;
            assert_eq!(history == HistoryQosPolicyKind::KeepAll, keeps_all, "{name}");
        }
    }
}

/// Profiles of versions and of memory have no effect here, and can be bases.
#[test]
fn baselines_and_memory_footprint_are_bases() {
    let versions = ["5.0.0", "6.1.0", "7.1.0", "7.2.0", "7.3.0", "7.4.0", "7.5.0", "7.6.0"];
    let baselines = versions.map(|version| format!("Baseline.{version}"));
    for name in baselines.iter().map(String::as_str).chain(["Generic.MinimalMemoryFootprint"]) {
        for library in ["BuiltinQosLib", "BuiltinQosLibExp"] {
            let base = format!("{library}::{name}");
            let provider = provider(&based(&[&base, "BuiltinQosLib::Generic.StrictReliable"]));
            assert_eq!(level(&provider), Some(DeliveryLevel::Atomic), "{base}");
            let plain = support::provider(&based(&[&base]));
            assert_eq!(plain.datawriter_qos("L::P").unwrap(), Default::default(), "{base}");
        }
    }
}

#[test]
fn snippets_are_laid_over_profiles() {
    let provider = provider(&based(&[
        "BuiltinQosLib::Generic.StrictReliable",
        "BuiltinQosSnippetLib::QosPolicy.Durability.TransientLocal",
        "BuiltinQosSnippetLib::QosPolicy.History.KeepLast_1",
    ]));
    let writer = provider.datawriter_qos("L::P").unwrap();
    assert_eq!(writer.reliability.kind, ReliabilityQosPolicyKind::Reliable);
    assert_eq!(writer.durability.kind, DurabilityQosPolicyKind::TransientLocal);
    assert_eq!(writer.history.kind, HistoryQosPolicyKind::KeepLast);
    assert_eq!(level(&provider), Some(DeliveryLevel::Kept));
    assert!(provider.ignored().is_empty());
}

/// Bases without an effect are reported once, and those that promise what is not there are refused.
#[test]
fn bases_without_effect_are_reported_and_false_promises_refused() {
    let without_effect = [
        "BuiltinQosSnippetLib::Transport.UDP.AvoidIPFragmentation",
        "BuiltinQosSnippetLib::Optimization.ReliabilityProtocol.KeepLast",
        "BuiltinQosSnippetLib::Feature.Monitoring.Enable",
    ];
    let provider = provider(&based(&without_effect));
    let told: Vec<String> = provider.ignored().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 3, "{told:#?}");
    for (line, base) in told.iter().zip(without_effect) {
        // A path shows 60 characters of a name.
        let shown: String = base.chars().take(60).collect();
        let text = format!("base_name[{shown}]: ignored, belongs to RTI Connext; ");
        assert!(line.contains(&text), "{line}");
    }
    for (base, reason) in [
        ("BuiltinQosSnippetLib::Feature.Security.Enable", "there is no DDS Security"),
        ("BuiltinQosSnippetLib::Feature.LightweightSecurity.Enable", "there is no DDS Security"),
        ("BuiltinQosLib::Generic.Security", "there is no DDS Security"),
        ("BuiltinQosLibExp::Generic.Security", "there is no DDS Security"),
        ("BuiltinQosSnippetLib::Feature.TopicQuery.Enable", "there are no topic queries"),
    ] {
        let told = errors(&based(&[base]));
        assert!(told.len() == 1 && told[0].contains(reason), "{base}: {told:#?}");
    }
    let told = errors(&based(&["BuiltinQosLib::Generic.StrictRelaible"]));
    assert!(told[0].contains("did you mean `BuiltinQosLib::Generic.StrictReliable`?"), "{told:#?}");
}

/// The bases of a set are in an attribute or in elements; a later one takes precedence.
#[test]
fn set_inherits_from_several_bases_inside_it() {
    let text = "<dds><qos_library name='L'>\
        <qos_profile name='A'><datawriter_qos><history><depth>2</depth></history>\
        <ownership_strength><value>1</value></ownership_strength></datawriter_qos></qos_profile>\
        <qos_profile name='B'><datawriter_qos><history><depth>3</depth></history></datawriter_qos></qos_profile>\
        <qos_profile name='P'><datawriter_qos base_name='A'><base_name><element>B</element></base_name>\
        <transport_priority><value>9</value></transport_priority></datawriter_qos></qos_profile>\
        <qos_profile name='Q'><datawriter_qos><base_name><element>B</element><element>A</element></base_name>\
        </datawriter_qos></qos_profile></qos_library></dds>";
    let provider = provider(text);
    let writer = provider.datawriter_qos("L::P").unwrap();
    let found =
        (writer.history.depth, writer.ownership_strength.value, writer.transport_priority.value);
    assert_eq!(found, (3, 1, 9));
    assert_eq!(provider.datawriter_qos("L::Q").unwrap().history.depth, 2);
}

#[test]
fn errors_in_bases_inside_sets_are_reported() {
    for (inside, part) in [
        (
            "<base_name><element>Nowhere</element></base_name>",
            "found the base `Nowhere`, which is not there",
        ),
        (
            "<base_name><element>P</element></base_name>",
            "found a profile that inherits from itself",
        ),
        ("<base_name><other>P</other></base_name>", "expected `element`"),
        ("<base_name>P</base_name>", "expected `<element>` for each base"),
    ] {
        let told = errors(&file(EntityKind::DataWriter, inside));
        assert!(told.len() == 1 && told[0].contains(part), "{inside}: {told:#?}");
    }
    let many = "<element>Squall::Atomic</element>".repeat(17);
    let told = errors(&file(EntityKind::DataWriter, &format!("<base_name>{many}</base_name>")));
    assert!(told.len() == 1 && told[0].contains("found too many bases"), "{told:#?}");
}

/// Variables stand in attributes and texts. The environment takes precedence over the file.
#[test]
fn variables_are_inserted_from_environment_and_file() {
    let text = "<dds><qos_library name='L'><qos_profile name='$(NAME)' base_name='$(BASE)'><publisher_qos><partition><name>\
        <element>$(CARGO_PKG_NAME)-$(UNIT)</element></name></partition></publisher_qos>\
        </qos_profile></qos_library><configuration_variables><value>\
        <element><name>NAME</name><value>P</value></element>\
        <element><name>BASE</name><value>Squall::Kept</value></element>\
        <element><name>UNIT</name><value>7</value></element>\
        <element><name>CARGO_PKG_NAME</name><value>of the file</value></element>\
        </value></configuration_variables></dds>";
    let provider = provider(text);
    assert_eq!(provider.publisher_qos("L::P").unwrap().partition.name, ["qos-profiles-7"]);
    assert_eq!(level(&provider), Some(DeliveryLevel::Kept));
    assert!(provider.ignored().is_empty());
}

#[test]
fn variable_without_value_is_one_error() {
    let depth = "<history><depth>$(SQUALL_NO_SUCH_DEPTH)</depth></history>";
    let told = errors(&file(EntityKind::DataWriter, depth));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].starts_with("str:1:5:17:")
            && told[0].contains("found the variable `SQUALL_NO_SUCH_DEPTH`, which has no value"),
        "{told:#?}"
    );
}
