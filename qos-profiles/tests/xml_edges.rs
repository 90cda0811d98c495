//! Limits up to the last allowed value, and files that combine several features.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fmt::Write;

use qos_profiles::xml::{Origin, QosProvider};
use qos_profiles::{EntityKind, PolicyId};
use support::{errors, file, path, provider};

/// Returns a file with one library of these profiles.
fn library(profiles: &[String]) -> String {
    format!("<dds>\n<qos_library name=\"L\">\n{}\n</qos_library>\n</dds>\n", profiles.join("\n"))
}

fn profile(attributes: &str, inside: &str) -> String {
    format!("<qos_profile {attributes}>{inside}</qos_profile>")
}

fn bases<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names = names.into_iter().map(|name| format!("<element>{name}</element>"));
    format!("<base_name>{}</base_name>", names.collect::<String>())
}

const DEPTH: &str = "<datawriter_qos><history><depth>7</depth></history></datawriter_qos>";
/// A depth beyond the limit.
const WRONG: &str = "<datawriter_qos><history><depth>7</depth></history>\
    <resource_limits><max_samples_per_instance>5</max_samples_per_instance></resource_limits></datawriter_qos>";

fn depth_of(provider: &QosProvider, name: &str) -> u32 {
    provider.datawriter_qos(name).unwrap().history.depth
}

#[test]
fn number_of_inconsistency_errors_is_limited() {
    let wrong =
        |n| library(&(0..n).map(|n| profile(&format!("name='P{n}'"), WRONG)).collect::<Vec<_>>());
    assert_eq!(errors(&wrong(1)).len(), 1);
    assert_eq!(errors(&wrong(150)).len(), 100);
}

/// A profile with one base is that base with additions, so an error in the base is reported
/// only there.
#[test]
fn error_in_base_profile_is_reported_once() {
    let profiles = [profile("name='A'", WRONG), profile("name='B' base_name='A'", "")];
    let told = errors(&library(&profiles));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("qos_profile[A]"), "{told:#?}");
}

/// The order of profiles does not affect the length of a chain, and sets in it do not repeat
/// the error.
#[test]
fn base_chain_limit_is_independent_of_profile_order() {
    let chain = |length: usize| {
        let link = |n: usize| match n {
            0 => profile("name='P0'", DEPTH),
            _ => profile(&format!("name='P{n}' base_name='P{}'", n - 1), DEPTH),
        };
        library(&(0..=length).rev().map(link).collect::<Vec<_>>())
    };
    assert_eq!(depth_of(&provider(&chain(32)), "L::P32"), 7);
    // Profiles further up have chains that are too long as well, which is reported once.
    for length in [33, 40] {
        let told = errors(&chain(length));
        assert_eq!(told.len(), 1, "{told:#?}");
        let expected = "qos_profile[P33]: found a chain of more than 32 bases above this profile";
        assert!(told[0].contains(expected), "{told:#?}");
    }
}

/// Sets that have bases of their own form chains like profiles.
#[test]
fn policy_set_chain_has_same_limit_as_profile_chain() {
    let chain = |length: usize| {
        let link = |n: usize| match n {
            0 => profile("name='P0'", DEPTH),
            _ => {
                let set = format!("<datawriter_qos base_name='P{}'/>", n - 1);
                profile(&format!("name='P{n}'"), &set)
            }
        };
        library(&(0..=length).map(link).collect::<Vec<_>>())
    };
    assert_eq!(depth_of(&provider(&chain(32)), "L::P32"), 7);
    let told = errors(&chain(33));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].contains(
            "[P33]/datawriter_qos: found a chain of more than 32 bases, or more than 128 in all"
        ),
        "{told:#?}"
    );
}

/// There may be many short chains: a set may inherit from 128 sets and profiles on all paths, but
/// not from 129.
#[test]
fn total_number_of_bases_of_policy_set_is_limited() {
    let tree = |plain: usize, bare: usize| {
        let seven = bases(["Leaf"; 7]);
        let all = std::iter::repeat_n("Mid", plain).chain(std::iter::repeat_n("Bare", bare));
        library(&[
            profile("name='Leaf'", DEPTH),
            profile("name='Mid'", &(seven.clone() + "<datawriter_qos/>")),
            profile("name='Bare'", &seven),
            profile("name='Top'", &(bases(all) + "<datawriter_qos/>")),
        ])
    };
    // One step for the set of `Top`, two for each profile with a set, one for a profile without.
    assert_eq!(depth_of(&provider(&tree(7, 1)), "L::Top"), 7);
    let told = errors(&tree(8, 0));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("[Top]/datawriter_qos: found a chain of more than"), "{told:#?}");
}

/// As many profiles as a profile may inherit from, itself included, contribute their sets
/// and values.
#[test]
fn total_number_of_bases_of_profile_is_limited() {
    let tree = |halves: usize, few: usize| {
        let six = bases(["Leaf"; 6]);
        let nine = bases(["Mid"; 9]);
        let named =
            "<datawriter_qos name='far'><history><depth>7</depth></history></datawriter_qos>";
        let all = ["Far"].into_iter().chain(std::iter::repeat_n("Half", halves));
        library(&[
            profile("name='Far'", named),
            profile("name='Leaf'", ""),
            profile("name='Mid'", &six),
            profile("name='Half'", &nine),
            profile("name='Less'", &bases(["Mid"; 8])),
            profile("name='Few'", &bases(std::iter::repeat_n("Leaf", few))),
            profile("name='Top'", &bases(all.chain(["Less", "Few"]))),
        ])
    };
    // `Top`, 64 of `Half`, 57 of `Less`, 5 of `Few`: `Far`, the first base, is the last and
    // the 128th.
    let whole = provider(&tree(1, 4)).profile("L::Top").unwrap();
    let named: Vec<_> = whole.entities.iter().filter_map(|entity| entity.name.clone()).collect();
    assert_eq!(named, ["far"]);
    assert_eq!(depth_of(&provider(&tree(1, 4)), "L::Top"), 7);
    for (halves, few) in [(1, 5), (2, 4)] {
        let told = errors(&tree(halves, few));
        assert_eq!(told.len(), 1, "{told:#?}");
        assert!(
            told[0].contains(
                "qos_profile[Top]: found a chain of more than 32 bases, or more than 128 in all"
            ),
            "{told:#?}"
        );
    }
}

/// A cycle of profiles is followed only up to a limit, whatever refers to it.
#[test]
fn profile_cycle_reached_from_policy_set_is_reported_once() {
    let profiles = [
        profile("name='A' base_name='A'", ""),
        profile("name='B'", "<datawriter_qos base_name='A'/>"),
    ];
    let told = errors(&library(&profiles));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("(L::A -> L::A)"), "{told:#?}");
}

#[test]
fn error_message_abbreviates_long_cycle() {
    let cycle = |length: usize| {
        let link =
            |n: usize| profile(&format!("name='P{n}' base_name='P{}'", (n + 1) % length), "");
        let told = errors(&library(&(0..length).map(link).collect::<Vec<_>>()));
        assert_eq!(told.len(), 1, "{told:#?}");
        told[0].clone()
    };
    let whole = cycle(31);
    assert_eq!((whole.matches("->").count(), whole.contains("others")), (31, false), "{whole}");
    let ends = cycle(32);
    assert!(ends.contains("(L::P0 -> ... 31 others ... -> L::P0)"), "{ends}");
}

/// A plain set inherits from the set that applies for its profile's base, even if that is a
/// named set.
#[test]
fn plain_policy_set_inherits_from_named_set_of_base() {
    let named = "<datawriter_qos name='x'><history><depth>7</depth></history></datawriter_qos>";
    let own =
        "<datawriter_qos><lifespan><duration><sec>1</sec></duration></lifespan></datawriter_qos>";
    let profiles = [profile("name='A'", named), profile("name='B' base_name='A'", own)];
    assert_eq!(depth_of(&provider(&library(&profiles)), "L::B"), 7);
}

/// A profile's values for one kind of entity do not count as its own values for another kind.
#[test]
fn inherited_value_has_base_as_origin_in_whole_profile() {
    let own = "<topic_qos><history><depth>3</depth></history></topic_qos>";
    let profiles = [profile("name='A'", DEPTH), profile("name='B' base_name='A'", own)];
    let whole = provider(&library(&profiles)).profile("L::B").unwrap();
    let origin = |kind| whole.entity(kind).unwrap().origin(PolicyId::History, 1).clone();
    assert!(matches!(origin(EntityKind::DataWriter), Origin::Base(_)));
    assert!(matches!(origin(EntityKind::Topic), Origin::Profile(_)));
}

#[test]
fn error_in_set_outside_profile_names_its_root() {
    let wrong = WRONG.replace("<datawriter_qos>", "<datawriter_qos name='w'>");
    for (before, after, root) in [("<dds>", "</dds>", "dds/"), ("", "", "")] {
        let told = errors(&format!("{before}<qos_library name='L'>{wrong}</qos_library>{after}"));
        assert_eq!(told.len(), 1, "{told:#?}");
        let expected = format!(": {root}qos_library[L]/datawriter_qos[w]/");
        assert!(told[0].contains(&expected), "{told:#?}");
    }
}

#[test]
fn library_inside_library_is_rejected() {
    for inside in ["<qos_library name='M'/>", "<types/>", "<domain_library name='M'/>"] {
        let told = errors(&library(&[inside.to_owned()]));
        assert_eq!(told.len(), 1, "{told:#?}");
        assert!(told[0].contains("found an unknown element"), "{told:#?}");
    }
}

#[test]
fn profile_name_has_at_most_256_bytes() {
    let named = |length| library(&[profile(&format!("name='{}'", "n".repeat(length)), DEPTH)]);
    assert_eq!(depth_of(&provider(&named(256)), &format!("L::{}", "n".repeat(256))), 7);
    for length in [257, 300] {
        let told = errors(&named(length));
        assert!(told[0].contains("expected one of 256 bytes at most"), "{told:#?}");
    }
}

#[test]
fn property_without_name_is_rejected() {
    let property =
        "<property><value><element><name></name><value>1</value></element></value></property>";
    let told = errors(&file(EntityKind::DataWriter, property));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("found no name or no value of a property"), "{told:#?}");
}

#[test]
fn unknown_element_in_participant_is_rejected() {
    let told = errors(&file(EntityKind::DomainParticipant, "<whatever/>"));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("found an unknown element"), "{told:#?}");
}

/// Text on both sides of an element is reported whole.
#[test]
fn error_message_shows_whole_text_between_elements() {
    let told =
        errors(&file(EntityKind::DataWriter, "<history>one<kind>KEEP_LAST</kind>two</history>"));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("found the text `one two`"), "{told:#?}");
}

/// A file without a declaration begins with its root, whose position is reported correctly,
/// whatever precedes it.
#[test]
fn error_states_position_of_root_element() {
    for (before, place) in [
        ("", (1, 1)),
        ("<!-- <dds> -->\n", (2, 1)),
        ("<?other <dds> ?>\n\n", (3, 1)),
        ("<!-- a\n --><?other b?>", (2, 16)),
        ("<?xml version=\"1.0\"?>\n", (2, 1)),
    ] {
        let errors = QosProvider::from_str(&format!("{before}<ddss/>")).err().unwrap();
        let error = &errors.errors()[0];
        assert_eq!((error.place.line(), error.place.column()), place, "{before:?}");
    }
}

#[test]
fn partition_accepts_256_names_of_at_most_256_bytes() {
    let partition = |count: usize, length: usize| {
        let item = format!("<element>{}</element>", "n".repeat(length));
        file(
            EntityKind::Publisher,
            &format!("<partition><name>{}</name></partition>", item.repeat(count)),
        )
    };
    let names = provider(&partition(256, 256)).publisher_qos("L::P").unwrap().partition.name;
    assert_eq!((names.len(), names[0].len()), (256, 256));
    let place = path(EntityKind::Publisher) + "/partition/name";
    assert_eq!(
        errors(&partition(1, 257)),
        [format!("str:1:5:18: {place}/element: found a name of 257 bytes; expected 256 at most")]
    );
}

/// The numbers of the standard stand for names, as far as names exist.
#[test]
fn data_representation_accepts_only_known_numbers() {
    let representation = |kind: &str| {
        let kinds = format!(
            "<data_representation><value><element>{kind}</element></value></data_representation>"
        );
        file(EntityKind::DataWriter, &kinds)
    };
    for known in ["0", "1", "2"] {
        provider(&representation(known));
    }
    for unknown in ["3", "4", "255"] {
        assert_eq!(errors(&representation(unknown)).len(), 1, "{unknown}");
    }
}

/// Properties of other products are recognised by the beginning of their names.
#[test]
fn foreign_property_is_reported_with_its_product() {
    let (rti, fast) = ("RTI Connext", "Fast DDS");
    for (name, product) in [
        ("dds.x", rti),
        ("rti.x", rti),
        ("com.rti.x", rti),
        ("fastdds.x", fast),
        ("eprosima.x", fast),
    ] {
        let text = format!(
            "<property><value><element><name>{name}</name><value>1</value></element></value></property>"
        );
        let told: Vec<String> = provider(&file(EntityKind::DataWriter, &text))
            .ignored()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(told.len(), 1, "{told:#?}");
        assert!(told[0].ends_with(&format!("ignored, belongs to {product}")), "{told:#?}");
    }
}

#[test]
fn number_of_reported_ignored_elements_is_limited() {
    let mut text = String::from("<dds><qos_library name='L'>");
    for set in 0..5 {
        write!(text, "<datawriter_qos name='W{set}'><property><value>").unwrap();
        for n in 0..220 {
            let name = format!("dds.x{set}.{n}");
            write!(text, "<element><name>{name}</name><value>1</value></element>").unwrap();
        }
        text += "</value></property></datawriter_qos>";
    }
    assert_eq!(provider(&(text + "</qos_library></dds>")).ignored().len(), 1000);
}

#[test]
fn provider_reports_its_file_locations() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.xml");
    std::fs::write(&path, library(&[profile("name='P'", DEPTH)])).unwrap();
    let places = QosProvider::from_file(&path).unwrap().places();
    assert_eq!(places.len(), 1);
    assert!(places[0].contains(&path.display().to_string()), "{places:?}");
}

/// Control characters are preserved by writing and reading.
#[test]
fn control_characters_are_written_as_references() {
    let text = "<property><value><element><name>a</name><value>one&#13;two</value></element></value></property>";
    let first = provider(&file(EntityKind::DataWriter, text)).profile("L::P").unwrap();
    let written = first.to_xml();
    assert!(written.contains("one&#13;two"), "{written}");
    let again = provider(&written).profile("L::P").unwrap();
    assert_eq!(again.entity(EntityKind::DataWriter).unwrap().property("a"), Some("one\rtwo"));
}

/// The longest chain of profiles without sets, and of sets from there; and many paths to such
/// a chain.
#[test]
fn longest_and_widest_valid_base_chains_resolve_values() {
    let set = |n: usize| match n {
        0 => profile("name='S0'", DEPTH),
        _ => {
            let set = format!("<datawriter_qos base_name='S{}'/>", n - 1);
            profile(&format!("name='S{n}'"), &set)
        }
    };
    let bare = |n: usize| match n {
        0 => profile("name='P0' base_name='S32'", ""),
        _ => profile(&format!("name='P{n}' base_name='P{}'", n - 1), ""),
    };
    let many = profile("name='Many'", &bases(["S32"; 16]));
    let all: Vec<String> = (0..=32).map(set).chain((0..32).map(bare)).chain([many]).collect();
    let provider = provider(&library(&all));
    assert_eq!((depth_of(&provider, "L::P31"), depth_of(&provider, "L::Many")), (7, 7));
}

#[test]
fn partition_list_survives_xml_round_trip() {
    let text = "<partition><name><element>a</element><element>b</element></name></partition>";
    let first = provider(&file(EntityKind::Publisher, text)).profile("L::P").unwrap();
    let again = provider(&first.to_xml()).publisher_qos("L::P").unwrap();
    assert_eq!(again.partition.name, ["a", "b"]);
}

#[test]
fn foreign_attributes_of_types_are_reported_as_ignored() {
    let text = "<dds>\n<types>\n<struct name='S' visibility='public'>\n\
        <member name='a' type='int32'/>\n</struct>\n</types>\n\
        <domain_library name='D'><domain name='d' domain_id='0'>\n\
        <register_type name='S' type_ref='S' kind='user'/>\n</domain></domain_library></dds>";
    let told: Vec<String> = provider(text).ignored().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(
        told[0].starts_with("str:1:3:1:") && told[0].contains("/@visibility: ignored"),
        "{told:#?}"
    );
    assert!(told[1].starts_with("str:1:8:1:") && told[1].contains("/@kind: ignored"), "{told:#?}");
}

/// A file may include any number of others. If a file is not valid XML, missing bases are not
/// reported, because they may be in the unread part.
#[test]
fn file_includes_many_files_and_malformed_include_is_only_error() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut all = String::new();
    for n in 0..40 {
        write(&format!("{n}.xml"), "<dds><types/></dds>");
        write!(all, "<include file='{n}.xml'/>").unwrap();
    }
    let orphan = library(&[profile("name='A' base_name='Nobody'", "")]);
    let including = |inside: &str| {
        let types = format!("<dds>\n<types>{inside}</types>");
        write("all.xml", &orphan.replacen("<dds>", &types, 1))
    };
    let told = |path| QosProvider::from_file(path).err().unwrap().errors().to_vec();
    let whole = told(including(&all));
    assert_eq!(whole.len(), 1, "{whole:#?}");
    assert!(whole[0].found.contains("`Nobody`, which is not there"), "{whole:#?}");
    write("broken.xml", "<dds><types>");
    let broken = told(including("<include file='broken.xml'/>"));
    assert_eq!(broken.len(), 1, "{broken:#?}");
    assert!(broken[0].place.file().ends_with("broken.xml"), "{broken:#?}");
}
