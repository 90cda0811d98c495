//! `squall spy`, `types` and `record` with samples at the limits of what types allow.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use dds_api::prelude::*;
use dds_api::types::{DynamicData, DynamicType, Value};
use support::{SOON, TestFolder};

/// A union in which most values of the discriminator select nothing.
#[derive(DdsType, Clone, Debug, Default)]
#[dds(name = "Choice", union, discriminator = "i32")]
enum Choice {
    #[dds(case = 1, name = "number")]
    Number(f64),
    #[dds(case = 2, name = "text")]
    Text(String),
    #[dds(default)]
    #[default]
    NoCase,
}

#[derive(DdsType, Clone, Debug, Default)]
struct Report {
    #[dds(key)]
    id: u32,
    choice: Choice,
}

fn participant(test_folder: &TestFolder) -> DomainParticipant {
    let config = ParticipantConfig::new().runtime_dir(test_folder.path().join("run"));
    DomainParticipant::with_config(0, config).unwrap()
}

#[test]
fn spy_shows_unions_whose_discriminator_selects_no_case() {
    let test_folder = TestFolder::new();
    let participant = participant(&test_folder);
    let topic = participant.topic::<Report>("Reports").transient_local().keep_all();
    let topic = topic.create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    for (id, choice) in [(1, Choice::Number(2.5)), (2, Choice::NoCase)] {
        writer.write(&Report { id, choice }).unwrap();
    }
    let spy = ["spy", "Reports", "--count", "2", "--for", "60", "--json"];
    let shown = test_folder.run(&spy).code(0).out;
    let shown: Vec<serde_json::Value> =
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    let number = serde_json::json!({ "discriminator": 1, "number": 2.5 });
    assert_eq!(shown[0]["data"]["choice"], number);
    let nothing = shown[1]["data"]["choice"].as_object().unwrap();
    assert_eq!(nothing.keys().collect::<Vec<_>>(), ["discriminator"]);
}

/// Number of pixels; a sample has more than 2^20 parts.
const PIXELS: usize = 3 << 20;

/// IDL of an image.
fn image() -> String {
    format!("struct Image {{ @key long id; octet pixels[{PIXELS}]; }};")
}

#[test]
fn image_of_several_megabytes_is_shown_recorded_and_replayed() {
    let test_folder = TestFolder::new();
    let idl = test_folder.path().join("image.idl");
    std::fs::write(&idl, image()).unwrap();
    let idl = idl.to_str().unwrap();
    let shown = test_folder.run(&["types", "show", idl]).code(0).out;
    assert!(shown.contains(&format!("octet[{PIXELS}]")), "{shown}");
    test_folder.run(&["types", "assign", idl, idl]).code(0);
    let recording = test_folder.path().join("image.rec");

    let of = DynamicType::from_idl(&idl::parse("image.idl", &image()).unwrap(), "Image").unwrap();
    let participant = participant(&test_folder);
    let topic = participant.dynamic_topic("Images", &of).transient_local().create().unwrap();
    let writer = participant.writer(&topic).max_sample_size(8 << 20).memory(32 << 20);
    let writer = writer.create().unwrap();
    let mut sample = DynamicData::new(&of);
    sample.set("id", Value::Signed(7)).unwrap();
    sample.set(&format!("pixels[{}]", PIXELS - 1), Value::Unsigned(250)).unwrap();
    writer.write(&sample).unwrap();

    let shown = test_folder.run(&["spy", "Images", "--count", "1", "--json"]).code(0).json();
    let pixels = shown["data"]["pixels"].as_array().unwrap();
    assert_eq!((pixels.len(), &pixels[PIXELS - 1]), (PIXELS, &250.into()));
    let text = test_folder.path().join("image.json");
    std::fs::write(&text, shown["data"].to_string()).unwrap();
    let convert = test_folder
        .command(&["types", "convert", idl, "--json"])
        .stdin(std::fs::File::open(&text).unwrap())
        .output()
        .unwrap();
    let converted: serde_json::Value = serde_json::from_slice(&convert.stdout).unwrap();
    assert!(converted == shown["data"], "{}", String::from_utf8_lossy(&convert.stderr));
    let printed = test_folder.run(&["idl", "print", "--topic", "Images"]).code(0).out;
    assert!(printed.contains(&format!("octet pixels[{PIXELS}];")), "{printed}");
    let recorded = ["record", "--out", recording.to_str().unwrap(), "--count", "1"];
    test_folder.run(&recorded).code(0);
    assert!(std::fs::metadata(&recording).unwrap().len() > PIXELS as u64);

    // A replayed image is the same as the recorded one.
    writer.dispose(&sample).unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let replay = ["replay", recording.to_str().unwrap(), "--readers", "1"];
    test_folder.run(&replay).code(0);
    let taken = reader.take_data(.., SOON).unwrap().next().map(|sample| sample.clone());
    assert_eq!(taken.unwrap().whole(), sample.whole());
    let publish = ["publish", "Images", "{id: 8}", "--readers", "1"];
    test_folder.run(&publish).code(0);
    let taken = reader.take_data(.., SOON).unwrap().next().map(|sample| sample.clone());
    assert_eq!(taken.unwrap().get_value("id").unwrap(), &Value::Signed(8));
}
