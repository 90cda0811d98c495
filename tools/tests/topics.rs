//! `squall ls`, `spy`, `publish`, `record` and `replay`: commands without compiled topic types
//! beside programs with them.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::time::{Duration, Instant};

use dds_api::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use support::{RunningCommand, TestFolder};

/// A plain type, sent as it lies in memory.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
#[dds(name = "Air::Fix")]
struct Fix {
    quality: u8,
    #[dds(key)]
    id: u32,
    height: f64,
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Air::Alarm", extensibility = "appendable")]
struct Alarm {
    #[dds(key)]
    code: u16,
    text: String,
    levels: Vec<u8>,
}

/// Defines a type with hundreds of members, whose description is sent in several parts.
macro_rules! long_type {
    ($($group:ident)*) => {
        $(
            #[derive(DdsType, Clone, Debug, Default, PartialEq)]
            #[dds(nested)]
            struct $group {
                outside_air_temperature_in_kelvin: f64,
                static_pressure_in_hectopascal: f64,
                dynamic_pressure_in_hectopascal: f64,
                angle_of_attack_in_degrees: f64,
                angle_of_sideslip_in_degrees: f64,
                indicated_airspeed_in_knots: f64,
                true_airspeed_in_knots: f64,
                vertical_speed_in_feet_per_minute: f64,
                density_altitude_in_feet: f64,
                wind_direction_in_degrees: f64,
            }
        )*

        #[allow(non_snake_case, reason = "a macro makes no names")]
        #[derive(DdsType, Clone, Debug, Default, PartialEq)]
        #[dds(name = "Air::Report", extensibility = "appendable")]
        struct Report {
            #[dds(key)]
            id: u32,
            $($group: $group,)*
            remark: String,
        }
    };
}

long_type! {
    G0 G1 G2 G3 G4 G5 G6 G7 G8 G9 G10 G11 G12 G13 G14 G15 G16 G17 G18 G19 G20 G21 G22 G23 G24 G25 G26 G27 G28 G29
    G30 G31 G32 G33 G34 G35 G36 G37 G38 G39 G40 G41 G42 G43 G44 G45 G46 G47 G48 G49 G50 G51 G52 G53 G54 G55 G56 G57
}

const SOON: Timeout = Timeout::secs(60);

/// A program that has both topics.
struct Program {
    fixes: (DataReader<Fix>, DataWriter<Fix>),
    alarms: (DataReader<Alarm>, DataWriter<Alarm>),
    _participant: DomainParticipant,
}

fn program(test_folder: &TestFolder) -> Program {
    let config = ParticipantConfig::new().runtime_dir(test_folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let fixes = participant.topic::<Fix>("Air/Fix").create().unwrap();
    let alarms = participant.topic::<Alarm>("Alarm").transient_local().keep_all().create().unwrap();
    Program {
        fixes: (
            participant.reader(&fixes).reliable_all().create().unwrap(),
            participant.writer(&fixes).create().unwrap(),
        ),
        alarms: (
            participant.reader(&alarms).reliable_all().create().unwrap(),
            participant.writer(&alarms).create().unwrap(),
        ),
        _participant: participant,
    }
}

fn alarm(code: u16) -> Alarm {
    Alarm { code, text: format!("alarm \"{code}\""), levels: vec![1, 2, code as u8] }
}

fn fix(id: u32) -> Fix {
    Fix { quality: 3, id, height: f64::from(id) * 100.0 }
}

/// Byte strings are shown as sequences of numbers, as readers without their type see them.
#[test]
fn spy_shows_samples_of_numbered_topic() {
    let test_folder = TestFolder::new();
    let config = ParticipantConfig::new().runtime_dir(test_folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let topic = participant.numbered_topic(7).atomic().create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let mut spy = test_folder.start(&["spy", "Numbered/7", "--json", "--count", "1"]);
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write_bytes(&[0, 127, 255]).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&spy.line()).unwrap();
    assert_eq!(shown["data"], serde_json::json!({"value": [0, 127, 255]}));
    let listed = test_folder.run(&["ls"]).code(0).out;
    assert!(listed.contains("Numbered/7") && listed.contains("Squall::Bytes"), "{listed}");
}

fn end(mut process: RunningCommand) {
    kill_process(Pid::from_child(&process.child), Signal::TERM).unwrap();
    assert!(process.child.wait().unwrap().success());
}

fn taken<T: DdsType + Clone>(reader: &DataReader<T>, count: usize) -> Vec<T> {
    let (mut all, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(60));
    while all.len() < count && Instant::now() < deadline {
        all.extend(reader.take_data(.., Timeout::millis(50)).unwrap().map(|sample| sample.clone()));
    }
    assert_eq!(all.len(), count);
    all
}

#[test]
fn ls_and_spy_show_topics_and_written_samples() {
    let test_folder = TestFolder::new();
    let program = program(&test_folder);
    program.fixes.1.wait_for_readers(1, SOON).unwrap();
    program.alarms.1.write(&alarm(7)).unwrap();

    let listed = test_folder.run(&["ls", "--json"]).code(0).json();
    let topics = listed["topics"].as_array().unwrap();
    assert_eq!(topics.len(), 2);
    assert_eq!((&topics[0]["name"], &topics[0]["type"]), (&"Air/Fix".into(), &"Air::Fix".into()));
    assert_eq!((&topics[1]["writers"], &topics[1]["readers"]), (&1.into(), &1.into()));
    let text = test_folder.run(&["ls"]).code(0).out;
    assert!(text.contains("Air/Fix") && text.contains("Air::Alarm"), "{text}");

    // Kept samples are shown to a late joiner.
    let shown = test_folder.run(&["spy", "Alarm", "--count", "1", "--json"]).code(0).json();
    assert_eq!(shown["data"]["text"], "alarm \"7\"");
    assert_eq!((&shown["state"], &shown["data"]["levels"][2]), (&"alive".into(), &7.into()));

    let mut spy = test_folder.start(&[
        "spy",
        "Air/Fix",
        "--filter",
        "height >= 500",
        "--count",
        "2",
        "--json",
    ]);
    program.fixes.1.wait_for_readers(2, SOON).unwrap();
    (4..7).for_each(|id| program.fixes.1.write(&fix(id)).unwrap());
    for id in 5..7 {
        let shown: serde_json::Value = serde_json::from_str(&spy.line()).unwrap();
        assert_eq!((&shown["data"]["id"], &shown["data"]["quality"]), (&id.into(), &3.into()));
    }
    assert!(spy.child.wait().unwrap().success());

    let mut spy = test_folder.start(&["spy", "Air/Fix"]);
    program.fixes.1.wait_for_readers(2, SOON).unwrap();
    program.fixes.1.dispose(&fix(6)).unwrap();
    let head = spy.line();
    assert!(head.starts_with("-- ") && head.ends_with(", disposed"), "{head}");
    // Nothing is known of the members outside the key.
    assert_eq!([spy.line(), spy.line(), spy.line()], ["{", "  id: 6", "}"]);
    end(spy);
    drop(program);

    test_folder.run(&["spy", "Nothing", "--wait", "0.1"]).code(1).says("topic `Nothing`");
    test_folder.run(&["spy", "Nothing", "--for", "x"]).code(2);
    assert_eq!(test_folder.run(&["ls", "--wait", "0.1"]).code(0).out.trim(), "no topics");
}

#[test]
fn publish_writes_samples_from_command_line_and_standard_input() {
    let test_folder = TestFolder::new();
    let program = program(&test_folder);
    let output = test_folder
        .run(&["publish", "Air/Fix", "{id: 5, height: 1.5}", "--count", "3"])
        .code(0)
        .out;
    assert_eq!(output.trim(), "3 samples of Air/Fix");
    assert_eq!(taken(&program.fixes.0, 3), [Fix { quality: 0, id: 5, height: 1.5 }; 3]);

    let mut many = test_folder.start(&["publish", "Alarm", "--json"]);
    many.tell(r#"{"code": 1, "text": "fire", "levels": [1, 2]}"#);
    many.tell("");
    many.tell("{code: 2, text: \"ice\"}");
    many.close_input();
    let output: serde_json::Value = serde_json::from_str(&many.line()).unwrap();
    assert_eq!(output["samples"], 2);
    let fire = Alarm { code: 1, text: "fire".into(), levels: vec![1, 2] };
    let ice = Alarm { code: 2, text: "ice".into(), levels: vec![] };
    assert_eq!(taken(&program.alarms.0, 2), [fire, ice]);
    assert!(many.child.wait().unwrap().success());

    test_folder.run(&["publish", "Air/Fix", "{id: 5, hight: 1.5}"]).code(2).says("hight");
    test_folder.run(&["publish", "Air/Fix", "{id: -5}"]).code(2).says("id");
    drop(program);
    test_folder.run(&["publish", "Air/Fix", "{id: 5}", "--wait", "0.1"]).code(1).says("`Air/Fix`");

    // With IDL no other participant is needed.
    let idl = test_folder.path().join("wind.idl");
    std::fs::write(&idl, "struct Wind { @key long station; double speed; };").unwrap();
    let idl = idl.to_str().unwrap();
    test_folder
        .run(&["publish", "Wind", "{speed: fast}", "--idl", idl, "--readers", "0"])
        .code(2)
        .says("speed");
    test_folder.run(&["publish", "Wind", "{speed: 2.5}", "--idl", idl, "--readers", "0"]).code(0);
    let late =
        ["publish", "Wind", "{speed: 2.5}", "--idl", idl, "--readers", "1", "--transient-local"];
    let mut late = test_folder.start(&late);
    let shown = test_folder.run(&["spy", "Wind", "--count", "1", "--json"]).code(0).json();
    assert_eq!(shown["data"]["speed"], 2.5);
    assert!(late.child.wait().unwrap().success());
    std::fs::remove_file(idl).unwrap();
}

/// The description of the type needs several messages, which the commands reassemble.
#[test]
fn samples_with_hundreds_of_members_are_shown_and_published() {
    use idl_xtypes::{DynamicType, ObjectKind, object_bytes};
    let told = object_bytes(&DynamicType::of::<Report>().objects(ObjectKind::Complete)).len();
    assert!(told > 2 * (16 << 10), "{told} bytes are sent in one or two parts");
    let test_folder = TestFolder::new();
    let config = ParticipantConfig::new().runtime_dir(test_folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let topic = participant.topic::<Report>("Reports").create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let report = |id, remark: &str| {
        let of_last = G57 { wind_direction_in_degrees: 270.5, ..G57::default() };
        Report { id, remark: remark.to_owned(), G57: of_last, ..Report::default() }
    };
    let mut spy = test_folder.start(&["spy", "Reports", "--count", "2", "--json"]);
    writer.wait_for_readers(2, SOON).unwrap();
    writer.write(&report(1, "by the program")).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&spy.line()).unwrap();
    let last = &shown["data"]["G57"]["wind_direction_in_degrees"];
    assert_eq!((&shown["data"]["remark"], last), (&"by the program".into(), &270.5.into()));
    assert_eq!(shown["data"].as_object().unwrap().len(), 60);

    let sample = "{id: 2, G57: {wind_direction_in_degrees: 270.5}, remark: \"by the command\"}";
    test_folder.run(&["publish", "Reports", sample, "--readers", "2"]).code(0);
    let shown: serde_json::Value = serde_json::from_str(&spy.line()).unwrap();
    assert_eq!(shown["data"]["remark"], "by the command");
    assert!(spy.child.wait().unwrap().success());
    assert_eq!(taken(&reader, 2), [report(1, "by the program"), report(2, "by the command")]);
    // An error is reported for its member.
    let wrong = "{G57: {wind_direction_in_degrees: west}}";
    test_folder.run(&["publish", "Reports", wrong]).code(2).says("G57.wind_direction_in_degrees");
    let listed = test_folder.run(&["ls", "--json"]).code(0).json();
    assert_eq!(listed["topics"][0]["type"], "Air::Report");
    drop((reader, writer, topic, participant));
    test_folder.wait_until_empty();
}

#[test]
fn replay_writes_all_recorded_samples_and_rejects_damaged_files() {
    let test_folder = TestFolder::new();
    let file = test_folder.path().join("flight.rec");
    let path = file.to_str().unwrap();
    let before = program(&test_folder);
    before.alarms.1.write(&alarm(1)).unwrap();
    let mut record = test_folder.start(&["record", "--out", path, "--json"]);
    before.fixes.1.wait_for_readers(2, SOON).unwrap();
    before.alarms.1.wait_for_readers(2, SOON).unwrap();
    for id in 0..1000 {
        before.fixes.1.write(&fix(id)).unwrap();
    }
    before.alarms.1.write(&alarm(2)).unwrap();
    before.fixes.1.dispose(&fix(3)).unwrap();
    before.fixes.1.wait_for_acknowledgments(SOON).unwrap();
    before.alarms.1.wait_for_acknowledgments(SOON).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&record.child), Signal::TERM).unwrap();
    let output: serde_json::Value = serde_json::from_str(&record.line()).unwrap();
    assert_eq!((&output["topics"], &output["samples"]), (&2.into(), &1003.into()));
    assert!(record.child.wait().unwrap().success());
    drop(before);

    let after = program(&test_folder);
    let mut replay =
        test_folder.start(&["replay", path, "--speed", "0", "--readers", "1", "--json"]);
    let mut fixes = Vec::new();
    let (mut over, deadline) = (false, Instant::now() + Duration::from_secs(60));
    while !over && Instant::now() < deadline {
        for sample in after.fixes.0.take(.., Timeout::millis(50)).unwrap() {
            match sample.data() {
                Some(fix) => fixes.push(*fix),
                None => over = sample.key_value().id == 3,
            }
        }
    }
    assert!(over, "{} came: {:?}", fixes.len(), fixes.last());
    assert!(fixes.into_iter().eq((0..1000).map(fix)));
    assert_eq!(taken(&after.alarms.0, 2), [alarm(1), alarm(2)]);
    let output: serde_json::Value = serde_json::from_str(&replay.line()).unwrap();
    assert_eq!(output["samples"], 1003);
    assert!(replay.child.wait().unwrap().success());
    drop(after);

    // Parts of a recording, and files left by a crash or damage.
    let only = test_folder
        .run(&["replay", path, "--topics", "Al*", "--speed", "0", "--json"])
        .code(0)
        .json();
    assert_eq!(only["samples"], 2);
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 5]).unwrap();
    assert_eq!(
        test_folder.run(&["replay", path, "--speed", "0", "--json"]).code(0).json()["samples"],
        1002
    );
    let mut harmed = whole.clone();
    harmed[whole.len() / 2] ^= 1;
    std::fs::write(&file, harmed).unwrap();
    test_folder.run(&["replay", path, "--speed", "0"]).code(1).says("damaged");
    std::fs::write(&file, "SQUALLRC\u{9}\0\0\0").unwrap();
    test_folder.run(&["replay", path]).code(1).says("version 9");
    std::fs::write(&file, "something else").unwrap();
    test_folder.run(&["replay", path]).code(1).says("no recording");
    test_folder.run(&["record", "--out", path]).code(1).says("not overwritten");
    test_folder.run(&["replay", path, "--speed", "-1"]).code(2);
    std::fs::remove_file(&file).unwrap();
    test_folder.run(&["record", "--out", path, "--runtime-dir", "/dev/null"]).code(1);
    assert!(!file.exists(), "a failed join leaves a file");
    test_folder.wait_until_empty();
}
