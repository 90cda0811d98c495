//! Samples with members of every kind, including an `any`, through `squall spy`, `publish`,
//! `record` and `replay`, as text and as JSON: the output of each equals the input.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::time::{Duration, Instant};

use dds_api::prelude::*;
use dds_api::types::{Any, DynamicData, DynamicType};
use rustix::process::{Pid, Signal, kill_process};
use support::{SOON, TestFolder};

const IDL: &str = r#"
module Kinds {
    enum Mood { Calm, @value(7) Windy };
    @bit_bound(12) bitmask Flags { READ, @position(11) WRITE };
    bitset Gear { bitfield<3> position; bitfield<1> locked; bitfield<10, short> load; };
    @appendable struct Part { long x; sequence<string> names; };
    union Choice switch (Mood) { case Calm: uint16 number; case Windy: Part part; };
    @appendable struct Tree { int8 value; sequence<Tree> children; @optional @external Tree next; };
    @mutable struct Every {
        @key uint32 id;
        boolean flag; int8 small; uint64 large; float single; double not_a_number; long double exact; long double far_away;
        char letter; wchar wide_letter; string text; wstring wide;
        Mood mood; Flags flags; Gear gear;
        Part part; short grid[2][2]; sequence<sequence<octet>> rows;
        map<string, Part> named; map<short, double> numbered; map<Mood, wstring> by_mood;
        Choice choice; @optional Part maybe; @optional octet absent; @external Part far; Tree tree;
        any what; sequence<any> more;
    };
    @final struct Held { @key uint32 id; wstring remark; sequence<Mood> moods; };
};"#;

/// Text of a sample without the contents of the `any`.
const SAMPLE: &str = r#"{
    id: 1, flag: true, small: -8, large: 18446744073709551615, single: 0.1, not_a_number: NaN,
    exact: 0.1000000000000000000000000000000001, far_away: -1e4000,
    letter: "é", wide_letter: "€", text: "it's \"so\"\n", wide: "grün 𝄞",
    mood: Windy, flags: 2049, gear: {position: 5, locked: true, load: -9},
    part: {x: -1, names: ["a", ""]}, grid: [[1, 2], [3, 4]], rows: [[], [5, 6]],
    named: [{key: "it's", value: {x: 3}}, {key: "north east", value: {x: 2, names: ["n"]}}],
    numbered: [{key: -7, value: 1.5}, {key: 300, value: -Infinity}],
    by_mood: [{key: Windy, value: "w"}],
    choice: {discriminator: Windy, part: {x: 4}}, maybe: {x: 5}, far: {x: 6},
    tree: {value: 1, children: [{value: 2}, {value: 3, next: {value: 4}}]},
    more: [{}, {}]
}"#;

fn of(name: &str) -> DynamicType {
    DynamicType::from_idl(&idl::parse("kinds.idl", IDL).unwrap(), name).unwrap()
}

/// Returns the sample with this number that goes through the commands.
fn every(id: u32) -> DynamicData {
    let held = "{id: 9, remark: \"ünder\", moods: [Calm, Windy]}";
    let held = Any::of_data(&DynamicData::parse(&of("Kinds::Held"), held).unwrap()).unwrap();
    let text = SAMPLE.replacen("id: 1", &format!("id: {id}"), 1);
    let mut data = DynamicData::parse(&of("Kinds::Every"), &text).unwrap();
    data.set_any("what", &held).unwrap();
    data.set_any("more[1]", &Any::of(&vec![1.5_f64, f64::INFINITY]).unwrap()).unwrap();
    data
}

/// A program that has the topic.
struct Program {
    reader: DataReader<DynamicData>,
    writer: DataWriter<DynamicData>,
    _participant: DomainParticipant,
}

fn program(test_folder: &TestFolder) -> Program {
    let config = ParticipantConfig::new().runtime_dir(test_folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let topic = participant.dynamic_topic("Every", &of("Kinds::Every"));
    let topic = topic.transient_local().keep_all().create().unwrap();
    Program {
        reader: participant.reader(&topic).reliable_all().create().unwrap(),
        writer: participant.writer(&topic).create().unwrap(),
        _participant: participant,
    }
}

impl Program {
    /// Takes the next samples, as text, because each contains a NaN, which is not equal to itself.
    fn taken(&self, count: usize) -> Vec<String> {
        let (mut all, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        while all.len() < count && Instant::now() < deadline {
            let samples = self.reader.take_data(.., Timeout::millis(50)).unwrap();
            all.extend(samples.map(|sample| sample.to_text()));
        }
        assert_eq!(all.len(), count);
        all
    }
}

/// Returns the sample in a line of `spy --json`. No JSON parser is used, because some numbers of
/// IDL types exceed its range.
fn data_of(line: &str) -> &str {
    let (_, data) = line.split_once("\"data\": ").unwrap();
    data.strip_suffix('}').unwrap()
}

#[test]
fn samples_of_every_kind_are_shown_and_written() {
    let test_folder = TestFolder::new();
    let program = program(&test_folder);
    program.writer.write(&every(1)).unwrap();
    assert_eq!(program.taken(1), [every(1).to_text()]);

    let text = test_folder.run(&["spy", "Every", "--count", "1"]).code(0).out;
    let (_, text) = text.split_once('\n').unwrap();
    assert_eq!(text.trim_end(), every(1).to_text());
    for part in
        ["exact: 0.1000000000000000000000000000000001", "far_away: -1.0e4000", "remark: \"ünder\""]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let line = test_folder.run(&["spy", "Every", "--count", "1", "--json"]).code(0).out;
    let json = data_of(line.trim_end());
    let parsed: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(parsed["what"]["value"]["moods"][1], "Windy");
    assert_eq!(parsed["far_away"], "-1.0e4000");
    assert_eq!(
        DynamicData::parse(&of("Kinds::Every"), json).unwrap().to_text(),
        every(1).to_text()
    );

    // The shown text can be published: as an argument, and line by line.
    let two = text.replacen("id: 1", "id: 2", 1);
    test_folder.run(&["publish", "Every", &two]).code(0);
    let mut publish = test_folder.start(&["publish", "Every"]);
    publish.tell(&json.replacen("\"id\": 1", "\"id\": 3", 1));
    publish.close_input();
    publish.leaves_with(0);
    assert_eq!(program.taken(2), [every(2).to_text(), every(3).to_text()]);

    // The filter uses the types received from peers.
    let filter = "id > 1 AND gear.locked = TRUE AND gear.load = -9 AND named['north east'].names[0] = 'n' \
                  AND numbered[-7] = 1.5 AND by_mood[Windy] = 'w' AND wide LIKE 'gr_n%' AND flags = 2049 \
                  AND exact = 0.1000000000000000000000000000000001 AND far_away < -1e3999 AND maybe.x = 5 \
                  AND choice.part.x = 4 AND tree.children[1].next.value = 4 AND rows[1][0] = 5 \
                  AND NOT not_a_number = 0 AND letter = 'é' AND text LIKE 'it''s%'";
    let mut spy = test_folder.start(&["spy", "Every", "--json", "--filter", filter]);
    // The output also shows that the commands that wrote the samples have left.
    let mut samples =
        std::iter::repeat_with(|| spy.line()).filter(|line| line.contains("\"alive\""));
    for id in [2, 3] {
        let line = samples.next().unwrap();
        assert!(data_of(&line).starts_with(&format!("{{\"id\": {id},")), "{line}");
    }
    drop(samples);
    kill_process(Pid::from_child(&spy.child), Signal::TERM).unwrap();
    spy.leaves_with(0);
    drop(program);
    test_folder.wait_until_empty();
}

#[test]
fn samples_of_every_kind_are_recorded_and_replayed() {
    let test_folder = TestFolder::new();
    let file = test_folder.path().join("kinds.rec");
    let path = file.to_str().unwrap();
    let before = program(&test_folder);
    (1..=3).for_each(|id| before.writer.write(&every(id)).unwrap());
    let mut record = test_folder.start(&["record", "--out", path, "--json"]);
    before.writer.wait_for_readers(2, SOON).unwrap();
    before.writer.write(&every(4)).unwrap();
    before.writer.wait_for_acknowledgments(SOON).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&record.child), Signal::TERM).unwrap();
    let output: serde_json::Value = serde_json::from_str(&record.line()).unwrap();
    assert_eq!(output["samples"], 4);
    record.leaves_with(0);
    drop(before);

    let after = program(&test_folder);
    let replay = test_folder.start(&["replay", path, "--speed", "0", "--readers", "1", "--json"]);
    assert_eq!(after.taken(4), [1, 2, 3, 4].map(|id| every(id).to_text()));
    replay.leaves_with(0);
    // Without a program that has the type, the recording provides it.
    drop(after);
    let mut spy = test_folder.start(&["spy", "Every", "--count", "4", "--json", "--wait", "60"]);
    let replay = test_folder.start(&["replay", path, "--speed", "0", "--readers", "1", "--json"]);
    for id in 1..=4 {
        let data = DynamicData::parse(&of("Kinds::Every"), data_of(&spy.line())).unwrap();
        assert_eq!(data.to_text(), every(id).to_text());
    }
    replay.leaves_with(0);
    spy.leaves_with(0);
    std::fs::remove_file(&file).unwrap();
    test_folder.wait_until_empty();
}
