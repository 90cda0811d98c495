//! `squall idl print`: types of files, topics, recordings and logs as IDL.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::fs;

use dds_api::prelude::*;
use idl_xtypes::{DynamicType, ObjectKind};
use support::TestFolder;

#[derive(DdsType, Clone, Debug, Default)]
#[dds(name = "Nav::Track", extensibility = "appendable")]
struct Track {
    #[dds(key)]
    aircraft: u32,
    #[dds(bound = 8, try_construct = "trim")]
    call_sign: String,
    corners: Vec<[f64; 2]>,
    phase: Phase,
}

#[derive(DdsType, Clone, Copy, Debug, Default)]
#[dds(name = "Nav::Phase")]
enum Phase {
    #[default]
    Taxi,
    Cruise = 5,
}

/// IDL of `Track`.
const TRACK: &str = "\
module Nav {
    enum Phase {
        Taxi,
        @value(5) Cruise
    };
    typedef double Track_corners_array[2];
    @appendable
    struct Track {
        @key uint32 aircraft;
        @try_construct(TRIM) string<8> call_sign;
        sequence<Track_corners_array> corners;
        Phase phase;
    };
};
";

fn file(test_folder: &TestFolder, name: &str, text: &str) -> String {
    let path = test_folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Checks that IDL text makes the type `Track`.
fn assert_is_track(text: &str) {
    let of = DynamicType::from_idl(&idl::parse("printed.idl", text).unwrap(), "Nav::Track");
    let complete = |of: &DynamicType| of.objects(ObjectKind::Complete);
    assert_eq!(complete(&of.unwrap()), complete(&DynamicType::of::<Track>()));
}

#[test]
fn types_of_xml_file_are_printed_as_idl() {
    let test_folder = TestFolder::new();
    let xml = file(
        &test_folder,
        "types.xml",
        r#"<dds><types><module name="Nav">
            <enum name="Phase"><enumerator name="Taxi"/><enumerator name="Cruise" value="5"/></enum>
            <typedef name="Corner" type="float64" arrayDimensions="2"/>
            <struct name="Track" extensibility="appendable">
                <member name="aircraft" type="uint32" key="true"/>
                <member name="call_sign" type="string" stringMaxLength="8" tryConstruct="TRIM"/>
                <member name="corners" type="nonBasic" nonBasicTypeName="Corner" sequenceMaxLength="-1"/>
                <member name="phase" type="nonBasic" nonBasicTypeName="Phase"/>
            </struct>
            <struct name="Other"><member name="a" type="int8"/></struct>
        </module></types></dds>"#,
    );
    let printed = test_folder.run(&["idl", "print", &xml, "Nav::Track"]).code(0).out;
    assert_eq!(printed, TRACK);
    assert_is_track(&printed);
    let all = test_folder.run(&["idl", "print", &xml, "--json"]).code(0).json();
    assert_eq!(all["types"], serde_json::json!(["Nav::Phase", "Nav::Track", "Nav::Other"]));
    let all = all["idl"].as_str().unwrap();
    assert!(all.contains("struct Other {\n        int8 a;\n    };\n"), "{all}");
    assert_is_track(all);

    let missing = test_folder.run(&["idl", "print", &xml, "Track"]).code(2);
    missing.says("there is no type `Track`").code(2);
    let wrong =
        file(&test_folder, "wrong.xml", "<types><struct name=\"A\"><mumber/></struct></types>");
    test_folder.run(&["idl", "print", &wrong]).code(2).says("mumber");
    let none = file(&test_folder, "none.xml", "<dds/>");
    test_folder.run(&["idl", "print", &none]).code(1).says("has no types");
    test_folder.run(&["idl", "print"]).code(2);
    test_folder.run(&["idl", "print", &xml, "--topic", "A"]).code(2);
    test_folder.run(&["idl", "print", "/nowhere/a.xml"]).code(1).says("cannot be read");
}

#[test]
fn printed_idl_prints_as_itself() {
    let test_folder = TestFolder::new();
    let path = file(&test_folder, "track.idl", TRACK);
    assert_eq!(test_folder.run(&["idl", "print", &path]).code(0).out, TRACK);
    test_folder.run(&["idl", "check", &path]).code(0);
    let clash = file(&test_folder, "clash.idl", "struct A { long a b; };");
    test_folder.run(&["idl", "print", &clash]).code(2).says("clash.idl");
}

#[test]
fn announced_and_recorded_types_are_printed_as_idl() {
    let test_folder = TestFolder::new();
    let config = ParticipantConfig::new().runtime_dir(test_folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let topic = participant.topic::<Track>("Tracks").transient_local().create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    writer.write(&Track::default()).unwrap();
    let printed = test_folder.run(&["idl", "print", "--topic", "Tracks"]).code(0).out;
    assert_eq!(printed, TRACK);
    let missing = ["idl", "print", "--topic", "Nothing", "--wait", "0.1"];
    test_folder.run(&missing).code(1).says("the domain has the topics `Tracks`");

    let recording = test_folder.path().join("flight.rec");
    let recording = recording.to_str().unwrap();
    test_folder.run(&["record", "--out", recording, "--count", "1"]).code(0);
    assert_eq!(test_folder.run(&["idl", "print", recording]).code(0).out, TRACK);
}
