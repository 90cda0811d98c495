//! Values with their types, between processes: a value that one process puts into an `any` is taken
//! by the other as its own version of that type, examined without the type, or put back into
//! run-time samples, at every level.

use std::collections::BTreeMap;
use std::path::Path;

use crate::levels::{LEVELS, at_level, take};
use crate::support::{Actor, SOON, TestDomain, join, listen, role, say};
use dds_api::prelude::*;
use dds_api::types::{Any, AnyError, DynamicData, DynamicType, ValueRef};

/// Type of the topic.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Fleet::Report", extensibility = "appendable")]
struct Report {
    #[dds(key)]
    id: u32,
    what: Any,
    more: Option<Any>,
    #[dds(bound = 3)]
    few: Vec<Any>,
    named: BTreeMap<String, Any>,
}

/// Types that the first writer puts into it.
mod writers {
    use super::*;

    #[derive(DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Fleet::Fix", extensibility = "appendable")]
    pub(crate) struct Fix {
        pub(crate) id: u32,
        pub(crate) name: String,
    }

    /// A type that the other process does not know.
    #[derive(DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Fleet::Tree", extensibility = "mutable")]
    pub(crate) struct Tree {
        pub(crate) mood: Mood,
        pub(crate) weight: Option<f64>,
        pub(crate) children: Vec<Tree>,
    }

    #[derive(DdsType, Clone, Copy, Debug, PartialEq)]
    #[dds(name = "Fleet::Mood")]
    pub(crate) enum Mood {
        Calm,
        Windy = 7,
    }

    pub(crate) fn fix(id: u32) -> Fix {
        Fix { id, name: format!("fix {id}") }
    }

    pub(crate) fn report(id: u32) -> Report {
        let leaf = Tree { mood: Mood::Windy, weight: Some(2.5), children: Vec::new() };
        let tree = Tree { mood: Mood::Calm, weight: None, children: vec![leaf] };
        Report {
            id,
            what: Any::of(&fix(id)).unwrap(),
            more: Some(Any::of(&tree).unwrap()),
            few: vec![Any::default(), Any::of(&"text".to_owned()).unwrap()],
            named: [("list".to_owned(), Any::of(&vec![fix(1), fix(2)]).unwrap())].into(),
        }
    }
}

/// Types of the other process: a later version, and a type with only the name in common.
mod readers {
    use super::*;

    #[derive(DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Fleet::Fix", extensibility = "appendable")]
    pub(crate) struct Fix {
        pub(crate) id: u32,
        pub(crate) name: String,
        #[dds(default = 1.5)]
        pub(crate) height: f64,
    }

    #[derive(DdsType, Debug)]
    #[dds(name = "Fleet::Tree")]
    pub(crate) struct Tree {
        pub(crate) mood: String,
    }
}

fn topic(participant: &DomainParticipant, level: &str) -> Topic<Report> {
    at_level(participant.topic::<Report>(&format!("reports {level}")), level)
}

/// Returns the total number of readers: for ordered topics participants are counted, for
/// others readers.
fn readers(level: &str) -> usize {
    if level == "unordered" { 3 } else { 2 }
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "writer" => act_writer(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Writes a report at each level; then takes the samples of the other process there, and reports
/// their contents.
fn act_writer(folder: &Path) {
    let participant = join(folder);
    let ends = LEVELS.map(|level| {
        let topic = topic(&participant, level);
        let reader = participant.reader(&topic).reliable_all().create().unwrap();
        (reader, participant.writer(&topic).create().unwrap())
    });
    say("there");
    if listen().is_none() {
        return;
    }
    for (level, (reader, writer)) in LEVELS.iter().zip(&ends) {
        writer.wait_for_readers(readers(level), SOON).unwrap();
        writer.write(&writers::report(1)).unwrap();
        say("written");
        let mut all = take(reader, 3, Clone::clone);
        all.sort_by_key(|report| report.id);
        assert_eq!(all[0], writers::report(1));
        // A later version is taken as this one; a run-time type as the compiled one of the
        // same name.
        assert_eq!(all[1].what.get::<writers::Fix>(), Ok(writers::fix(2)));
        assert_eq!(all[2].what.get::<writers::Fix>(), Ok(writers::fix(3)));
        assert_eq!(all[2].more, writers::report(1).more, "what it read is passed on as it was");
        assert_eq!(all[2].few[0].get::<i16>(), Ok(-7));
        say("read");
        listen().unwrap();
    }
}

#[test]
fn value_in_an_any_is_extracted_by_its_type() {
    let domain = TestDomain::new();
    let mut other = Actor::start(module_path!(), "writer", &domain, 0);
    assert_eq!(other.hear(), "there");
    let participant = domain.join();
    let ends = LEVELS.map(|level| {
        let typed = topic(&participant, level);
        let met = participant.find_dynamic_topic(&format!("reports {level}"), SOON).unwrap();
        let reader = participant.reader(&typed).reliable_all().create().unwrap();
        let met_reader = participant.reader(&met).reliable_all().create().unwrap();
        let writer = participant.writer(&typed).create().unwrap();
        let met_writer = participant.writer(&met).create().unwrap();
        (reader, writer, met_reader, met_writer)
    });
    other.tell("begin");
    for (level, (reader, writer, met_reader, met_writer)) in LEVELS.iter().zip(&ends) {
        assert_eq!(other.hear(), "written");
        let [report] = &take(reader, 1, Clone::clone)[..] else { panic!("more than one") };
        look_at(report);
        let [data] = &take(met_reader, 1, Clone::clone)[..] else { panic!("more than one") };
        look_at_data(data, report);

        // A later version of the received value, and a type that this program builds itself.
        writer.wait_for_readers(readers(level), SOON).unwrap();
        let newer = readers::Fix { id: 2, name: "fix 2".into(), height: 9.0 };
        let answer = Report { id: 2, what: Any::of(&newer).unwrap(), ..Report::default() };
        writer.write(&answer).unwrap();
        let mut answer = DynamicData::parse(data.of(), "{id: 3, few: [{}]}").unwrap();
        answer.set_any("what", &Any::of_data(&made_up(3)).unwrap()).unwrap();
        answer.set_any("more", &data.any("more").unwrap()).unwrap();
        answer.set_any("few[0]", &Any::of(&-7_i16).unwrap()).unwrap();
        met_writer.wait_for_readers(readers(level), SOON).unwrap();
        met_writer.write(&answer).unwrap();
        assert_eq!(other.hear(), "read");
        take(reader, 2, |_| ());
        take(met_reader, 2, |_| ());
        other.tell("on");
    }
    drop(ends);
    other.finish();
    drop(participant);
    domain.assert_empty();
}

/// Reads the contents with the types of the program, and without.
fn look_at(report: &Report) {
    let fix = readers::Fix { id: 1, name: "fix 1".into(), height: 1.5 };
    assert_eq!(report.what.get::<readers::Fix>(), Ok(fix));
    let tree = report.more.as_ref().unwrap();
    let refused = tree.get::<readers::Tree>().unwrap_err();
    assert!(matches!(refused, AnyError::Other { .. }), "{refused:?}");
    let tree = tree.data().unwrap();
    assert_eq!(tree.of().name(), "Fleet::Tree");
    assert!(matches!(tree.get("children[0].weight").unwrap(), ValueRef::Double(2.5)));
    assert!(matches!(
        tree.get("children[0].mood").unwrap(),
        ValueRef::Enumerator { name: "Windy", .. }
    ));
    assert_eq!(report.few[0].get::<u8>(), Err(AnyError::Empty));
    assert_eq!(report.few[1].get::<String>(), Ok("text".to_owned()));
    assert_eq!(report.named["list"].get::<Vec<readers::Fix>>().unwrap()[1].id, 2);
}

/// Reads the same sample with the received type.
fn look_at_data(data: &DynamicData, report: &Report) {
    assert_eq!(data.any("what").unwrap(), report.what);
    assert_eq!(data.any("few[1]").unwrap(), report.few[1]);
    let text = data.to_text();
    for shown in ["type: \"Fleet::Fix\"", "name: \"fix 1\"", "mood: Windy", "\"text\"", "fix 2"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    for text in [text, data.to_json()] {
        assert_eq!(DynamicData::parse(data.of(), &text).unwrap(), *data);
    }
}

/// Returns a value of a type that exists only while this test runs.
fn made_up(id: u32) -> DynamicData {
    let text = "module Fleet { @appendable struct Fix { uint32 id; string name; }; };";
    let idl = idl::parse("made_up.idl", text).unwrap();
    let of = DynamicType::from_idl(&idl, "Fleet::Fix").unwrap();
    DynamicData::parse(&of, &format!("{{id: {id}, name: \"fix {id}\"}}")).unwrap()
}
