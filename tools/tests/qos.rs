//! `squall qos`: its output for valid and invalid profiles.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::fs;

use support::{EndedCommand, TestFolder};

const FLEET: &str = r#"<dds>
  <qos_library name="Fleet">
    <qos_profile name="State" base_name="Squall::Atomic">
      <datawriter_qos>
        <deadline><period><sec>0</sec><nanosec>20000000</nanosec></period></deadline>
        <protocol/>
      </datawriter_qos>
      <datawriter_qos topic_filter="Slow*">
        <deadline><period><sec>9</sec></period></deadline>
      </datawriter_qos>
      <publisher_qos><partition><name><element>wing/left</element></name></partition></publisher_qos>
    </qos_profile>
    <qos_profile name="Display" base_name="Squall::Atomic">
      <datareader_qos>
        <deadline><period><sec>0</sec><nanosec>50000000</nanosec></period></deadline>
      </datareader_qos>
      <subscriber_qos><partition><name><element>wing/*</element></name></partition></subscriber_qos>
    </qos_profile>
    <qos_profile name="Strict" base_name="Display">
      <datareader_qos><durability><kind>TRANSIENT_LOCAL</kind></durability></datareader_qos>
      <subscriber_qos><partition><name><element>tail</element></name></partition></subscriber_qos>
    </qos_profile>
  </qos_library>
</dds>
"#;

const WRONG: &str = "<dds>\n<qos_library name=\"L\">\n<qos_profile name=\"P\" base_name=\"Fleet::Stat\">\n\
                     <topic_qos><history><depth>x</depth></history></topic_qos>\n</qos_profile></qos_library></dds>";

/// Makes a place with both files, where the command is run.
fn place() -> TestFolder {
    let test_folder = TestFolder::new();
    fs::write(test_folder.path().join("fleet.xml"), FLEET).unwrap();
    fs::write(test_folder.path().join("wrong.xml"), WRONG).unwrap();
    test_folder
}

fn run(test_folder: &TestFolder, arguments: &[&str]) -> EndedCommand {
    let mut command = test_folder.command(arguments);
    let output =
        command.current_dir(test_folder.path()).env_remove("SQUALL_QOS_FILES").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    EndedCommand { status: output.status, out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn qos_check_accepts_valid_files_and_lists_ignored_elements() {
    let test_folder = place();
    let output = run(&test_folder, &["qos", "check", "fleet.xml"]).code(0);
    assert_eq!(
        output.out,
        "fleet.xml:6:9: dds/qos_library[Fleet]/qos_profile[State]/datawriter_qos/protocol: ignored, belongs to RTI \
         Connext; no packets are sent, so there is nothing to acknowledge or to repeat\n3 profiles, nothing is wrong.\n"
    );
    let report = run(&test_folder, &["qos", "check", "fleet.xml", "--json"]).code(0).json();
    assert_eq!(
        report["profiles"],
        serde_json::json!(["Fleet::State", "Fleet::Display", "Fleet::Strict"])
    );
    assert_eq!(report["errors"], serde_json::json!([]));
    assert_eq!((&report["files"], &report["ignored"][0]["line"]), (&1.into(), &6.into()));
}

#[test]
fn qos_commands_report_every_error_with_position() {
    let test_folder = place();
    let output = run(&test_folder, &["qos", "check", "wrong.xml", "fleet.xml"]).code(1);
    assert_eq!(
        output.out,
        "wrong.xml:4:21: dds/qos_library[L]/qos_profile[P]/topic_qos/history/depth: found `x`; expected a number \
         from 0 to 2147483647\n  4 | <topic_qos><history><depth>x</depth></history></topic_qos>\n    |                     ^\n\
         wrong.xml:3:1: dds/qos_library[L]/qos_profile[P]: found the base `Fleet::Stat`, which is not there (L::P -> \
         Fleet::Stat); expected a profile of this library, or `Library::Profile`; did you mean `Fleet::State`?\n  3 | <qos_profile name=\"P\" base_name=\"Fleet::Stat\">\n    | ^\n\
         2 things are wrong.\n"
    );
    let report =
        run(&test_folder, &["qos", "check", "--json", "wrong.xml", "fleet.xml"]).code(1).json();
    let error = &report["errors"][1];
    assert_eq!(
        (&error["file"], &error["line"], &error["column"], &error["suggestion"]),
        (&"wrong.xml".into(), &3.into(), &1.into(), &"Fleet::State".into())
    );
    assert_eq!(error["path"], "dds/qos_library[L]/qos_profile[P]");
    assert!(error["found"].as_str().unwrap().starts_with("found the base"));
    assert!(error["expected"].as_str().unwrap().starts_with("expected"));
    let output = run(&test_folder, &["qos", "check", "nowhere.xml"]).code(1);
    assert!(output.out.starts_with("nowhere.xml: cannot be read"), "{}", output.out);
    // The other commands report it too.
    for arguments in [
        &["qos", "show", "wrong.xml", "L::P"][..],
        &["qos", "match", "--file", "wrong.xml", "a", "b"],
    ] {
        assert!(run(&test_folder, arguments).code(1).out.starts_with("wrong.xml:4:21:"));
    }
}

#[test]
fn qos_show_reports_origin_of_each_value() {
    let test_folder = place();
    let text = run(&test_folder, &["qos", "show", "fleet.xml", "Fleet::State"]).code(0).out;
    let line = |name: &str| {
        let writers = text.split("  data writer: atomic\n").nth(1).unwrap();
        let found = writers.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        found.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        line("deadline.period"),
        "deadline.period 20ms profile Fleet::State (fleet.xml:5:19)"
    );
    assert_eq!(line("lifespan.duration"), "lifespan.duration infinite default");
    assert!(
        line("reliability.kind")
            .starts_with("reliability.kind RELIABLE base Squall::Atomic (ready-made/levels.xml:")
    );
    assert!(text.contains("data writer, for topics `Slow*`: atomic"), "{text}");

    let report =
        run(&test_folder, &["qos", "show", "fleet.xml", "Fleet::State", "--json"]).code(0).json();
    let writer = report["entities"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entity| entity["kind"] == "datawriter_qos")
        .unwrap();
    let deadline = &writer["policies"]["deadline"]["period"];
    assert_eq!(
        deadline,
        &serde_json::json!({ "value": { "sec": 0, "nanosec": 20_000_000 }, "from": "profile", "profile": "Fleet::State",
            "file": "fleet.xml", "line": 5, "column": 19 })
    );
    assert_eq!(writer["policies"]["reliability"]["kind"]["from"], "base");
    assert_eq!(
        writer["policies"]["history"]["depth"],
        serde_json::json!({ "value": 1, "from": "default" })
    );
    assert_eq!(writer["level"], "atomic");

    let report = run(
        &test_folder,
        &["qos", "show", "fleet.xml", "Fleet::State", "--topic", "Slow1", "--json"],
    )
    .code(0)
    .json();
    let writer = report["entities"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entity| entity["kind"] == "datawriter_qos")
        .unwrap();
    assert_eq!(writer["policies"]["deadline"]["period"]["value"]["sec"], 9);
}

#[test]
fn xml_of_qos_show_is_read_back_unchanged() {
    let test_folder = place();
    let xml =
        run(&test_folder, &["qos", "show", "fleet.xml", "Fleet::Strict", "--xml"]).code(0).out;
    fs::write(test_folder.path().join("again.xml"), &xml).unwrap();
    assert_eq!(
        run(&test_folder, &["qos", "show", "again.xml", "Fleet::Strict", "--xml"]).code(0).out,
        xml
    );
    let report =
        run(&test_folder, &["qos", "show", "fleet.xml", "Fleet::Strict", "--xml", "--json"])
            .code(0)
            .json();
    assert_eq!(report["xml"].as_str().unwrap().trim_end(), xml.trim_end());
}

#[test]
fn qos_match_reports_result_with_reasons() {
    let test_folder = place();
    let fleet = |offer: &str, request: &str, more: &[&str]| {
        run(
            &test_folder,
            &[&["qos", "match", "--file", "fleet.xml", offer, request][..], more].concat(),
        )
    };
    let output = fleet("Fleet::State", "Fleet::Display", &[]).code(0);
    assert_eq!(output.out, "A writer of Fleet::State matches a reader of Fleet::Display.\n");
    let output = fleet("Fleet::State", "Fleet::Strict", &["--topic", "Slow1"]).code(1);
    assert_eq!(
        output.out,
        "A writer of Fleet::State does not match a reader of Fleet::Strict:\n\
         \x20 DURABILITY: the writer offers kind Volatile, the reader requests TransientLocal; a writer must offer at \
         least what a reader requests\n\
         \x20 DEADLINE: the writer offers period 9s, the reader requests 50ms; a writer must offer at most what a \
         reader requests\n\
         \x20 PARTITION: the publisher is in `wing/left`, the subscriber in `tail`; both need a common name, or one \
         a name that matches a pattern of the other\n"
    );
    let report = fleet("Fleet::State", "Fleet::Strict", &["--json"]).code(1).json();
    assert_eq!(report["compatible"], false);
    assert_eq!(
        (&report["reasons"][0]["policy"], &report["reasons"][1]["policy"]),
        (&"DURABILITY".into(), &"PARTITION".into())
    );
    let report = fleet("Fleet::State", "Fleet::Display", &["--json"]).code(0).json();
    assert_eq!((&report["compatible"], &report["reasons"]), (&true.into(), &serde_json::json!([])));
}

#[test]
fn ready_made_and_environment_profiles_need_no_file_argument() {
    let test_folder = place();
    run(&test_folder, &["qos", "match", "Squall::Atomic", "SquallAvionics::Event"]).code(0);
    let told = run(&test_folder, &["qos", "show", "SquallAvionics::Alarm"]).code(0).out;
    assert!(told.contains("data writer: kept"), "{told}");
    run(&test_folder, &["qos", "show", "Fleet::State"])
        .code(1)
        .says("there is no profile `Fleet::State`");
    let mut command = test_folder.command(&["qos", "show", "Fleet::State"]);
    let output = command
        .current_dir(test_folder.path())
        .env("SQUALL_QOS_FILES", "file://fleet.xml")
        .output()
        .unwrap();
    assert!(output.status.success());
    fs::rename(
        test_folder.path().join("fleet.xml"),
        test_folder.path().join("SQUALL_QOS_PROFILES.xml"),
    )
    .unwrap();
    run(&test_folder, &["qos", "show", "Fleet::State"]).code(0);
}

#[test]
fn qos_commands_distinguish_wrong_usage_from_unknown_profile() {
    let test_folder = place();
    run(&test_folder, &["qos", "check"]).code(2).says("FILES");
    run(&test_folder, &["qos", "show"]).code(2);
    run(&test_folder, &["qos", "match", "Squall::Atomic"]).code(2).says("REQUEST");
    run(&test_folder, &["qos", "show", "Squall::Atomic", "--xml", "--topic", "x"]).code(2);
    run(&test_folder, &["qos", "match", "Squall::Atomc", "Squall::Atomic"])
        .code(1)
        .says("did you mean `Squall::Atomic`?");
}

#[test]
fn qos_check_reports_errors_in_applications_and_types() {
    let test_folder = place();
    let example = include_str!("../../examples/applications.xml");
    fs::write(test_folder.path().join("apps.xml"), example).unwrap();
    let told = run(&test_folder, &["qos", "check", "apps.xml", "fleet.xml"]).code(0);
    assert!(
        told.out.ends_with(
            "Participants: Applications::Display, Applications::Sensor.\n\
             Types of topics: Avionics::Alarm, Avionics::Attitude.\n"
        ),
        "{}",
        told.out
    );
    let report = run(&test_folder, &["qos", "check", "apps.xml", "--json"]).code(0).json();
    assert_eq!(report["types"][1], "Avionics::Attitude");
    let wrong = example
        .replace("nonBasicTypeName=\"Severity\"", "nonBasicTypeName=\"Severty\"")
        .replace("topic_ref=\"Alarms\"", "topic_ref=\"Alarm\"");
    fs::write(test_folder.path().join("apps.xml"), wrong).unwrap();
    let told = run(&test_folder, &["qos", "check", "apps.xml"]).code(1).out;
    assert!(told.contains("struct[Alarm]/member[severity]: there is no `Severty` here"), "{told}");
    assert!(told.contains("topic_ref: found `Alarm`, which is not there"), "{told}");
    assert!(told.ends_with("3 things are wrong.\n"), "{told}");
}

/// A file of another product becomes one of the standard, with the same values and without remarks.
#[test]
fn qos_convert_writes_profiles_of_other_products_in_standard_form() {
    const FAST: &str = "<dds xmlns='http://www.eprosima.com'><profiles>\
        <data_writer profile_name='W' is_default_profile='true'><times/><topic><historyQos><depth>7</depth>\
        </historyQos></topic><qos><partition><names><name>a</name></names></partition></qos></data_writer>\
        </profiles></dds>";
    let test_folder = place();
    fs::write(test_folder.path().join("fast.xml"), FAST).unwrap();
    let report = run(&test_folder, &["qos", "convert", "fast.xml", "--json"]).code(0).json();
    assert_eq!(report["profiles"], serde_json::json!(["FastDdsDefaults", "W"]), "{report}");
    assert_eq!(report["ignored"][0]["count"], 1);
    let xml = report["xml"].as_str().unwrap();
    assert!(
        xml.contains("Without an effect here:") && xml.contains("data_writer[W]/times"),
        "{xml}"
    );
    assert!(!xml.contains("deadline"), "only named values are written: {xml}");
    let arguments = ["qos", "convert", "fast.xml", "--out", "ours.xml"];
    assert_eq!(run(&test_folder, &arguments).code(0).out, "2 profiles in ours.xml\n");
    assert_eq!(fs::read_to_string(test_folder.path().join("ours.xml")).unwrap(), xml);
    let checked = run(&test_folder, &["qos", "check", "ours.xml"]).code(0).out;
    assert_eq!(checked, "2 profiles, nothing is wrong.\n");
    // An existing file stays as it is.
    run(&test_folder, &arguments).code(1).says("ours.xml");
    assert!(run(&test_folder, &["qos", "convert", "wrong.xml"]).code(1).out.contains("are wrong"));
}
