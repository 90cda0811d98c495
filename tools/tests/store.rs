//! `squall store`: samples outlive the applications that wrote them, and the store itself.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::time::Duration;

use dds_api::prelude::*;
use support::{Reading, RunningCommand, SOON, TestFolder};

fn store(test_folder: &TestFolder, topics: &str) -> RunningCommand {
    let logs = test_folder.path().join("logs");
    let mut store =
        test_folder.start(&["store", "--topics", topics, "--dir", logs.to_str().unwrap()]);
    let line = store.line();
    assert!(line.contains("keeps"), "{line}");
    store
}

fn with_application(
    test_folder: &TestFolder,
    what: impl FnOnce(&DomainParticipant, &Topic<Reading>),
) {
    let config = ParticipantConfig::new().runtime_dir(test_folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let topic = participant.topic::<Reading>("Flight/Readings").persistent().keep_all();
    what(&participant, &topic.create().unwrap());
}

fn write(test_folder: &TestFolder, values: std::ops::Range<u32>) {
    with_application(test_folder, |participant, topic| {
        let writer = participant.writer(topic).autodispose_unregistered_instances(false);
        let writer = writer.create().unwrap();
        values.for_each(|value| writer.write(&Reading { sensor: 1, value }).unwrap());
        writer.wait_for_acknowledgments(SOON).unwrap();
    });
}

fn read(test_folder: &TestFolder, count: usize) -> Vec<u32> {
    let mut all = Vec::new();
    with_application(test_folder, |participant, topic| {
        let reader = participant.reader(topic).reliable_all().create().unwrap();
        reader.wait_for_historical_data(SOON).unwrap();
        while all.len() < count {
            let taken = reader.take_data(.., SOON).unwrap();
            all.extend(taken.map(|sample| sample.value));
        }
    });
    all
}

#[derive(DdsType, Clone, Debug, Default)]
struct Note {
    #[dds(key)]
    id: u16,
    text: String,
}

#[test]
fn log_dump_shows_samples_of_plain_and_other_types_and_disposals() {
    let test_folder = TestFolder::new();
    std::fs::create_dir(test_folder.path().join("logs")).unwrap();
    let mut running = store(&test_folder, "Flight/*");
    with_application(&test_folder, |participant, topic| {
        let readings = participant.writer(topic).autodispose_unregistered_instances(false);
        let readings = readings.create().unwrap();
        (7..9).for_each(|value| readings.write(&Reading { sensor: 1, value }).unwrap());
        let notes = participant.topic::<Note>("Flight/Notes").persistent().create().unwrap();
        let notes = participant.writer(&notes).create().unwrap();
        let note = Note { id: 3, text: "gear\u{1b} up".to_owned() };
        notes.write(&note).unwrap();
        notes.dispose(&note).unwrap();
        readings.unregister_instance(&Reading { sensor: 1, value: 0 }).unwrap();
        readings.wait_for_acknowledgments(SOON).unwrap();
        notes.wait_for_acknowledgments(SOON).unwrap();
    });
    let pid = rustix::process::Pid::from_child(&running.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(running.child.wait().unwrap().success());
    let folder = test_folder.path().join("logs").join("domain-0").join("0");
    let folder = folder.to_str().unwrap();
    let dump = test_folder.run(&["log", "dump", folder]).code(0).out;
    for line in [
        "  {\"sensor\": 1,\"value\": 7}\n",
        "  {\"sensor\": 1,\"value\": 8}\n",
        "  {\"id\": 3,\"text\": \"gear\\u001b up\"}\n",
        "  disposed {\"id\": 3}\n",
    ] {
        assert!(dump.contains(line), "{line}: {dump}");
    }
    assert!(dump.contains("Flight/Readings 1 sample"), "{dump}");
    let report = test_folder.run(&["log", "dump", folder, "--json"]).code(0).json();
    let records = report["dump"].as_array().unwrap();
    let has = |kind: &str, data: serde_json::Value| {
        let sample = serde_json::json!([{ "kind": kind, "data": data }]);
        records.iter().any(|record| record["kind"] == kind && record["samples"] == sample)
    };
    assert!(has("sample", serde_json::json!({ "sensor": 1, "value": 8 })), "{records:#?}");
    // Nothing is known of the members outside the key.
    assert!(has("disposed", serde_json::json!({ "id": 3 })), "{records:#?}");
    let of = |kind: &'static str| records.iter().filter(move |record| record["kind"] == kind);
    let key = &of("unregistered").next().unwrap()["key"];
    assert!(of("sample").any(|record| record["key"] == *key), "{records:#?}");
    assert!(of("sample").all(|record| record["samples"] != serde_json::json!([])), "{records:#?}");
    // The writer of the notes disposes its instances when it is deleted.
    assert_eq!(of("notice").count(), 1, "{records:#?}");
    let is_notice = |line: &&str| line.trim_start().starts_with("notice: ");
    assert_eq!(dump.lines().filter(is_notice).count(), 1, "{dump}");
    // Without the description there are no samples, and nothing else is missing.
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "topic") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let bare = test_folder.run(&["log", "dump", folder]).code(0).out;
    assert!(!bare.contains("sensor") && bare.contains(" sample epoch "), "{bare}");
}

/// The first version of a type that grows at its front: a later version reads it as garbage.
#[derive(DdsType, Clone, Debug, Default)]
#[dds(name = "Gauge", extensibility = "appendable")]
struct OldGauge {
    #[dds(key)]
    id: u32,
    level: u32,
}

#[derive(DdsType, Clone, Debug, Default)]
#[dds(name = "Gauge", extensibility = "appendable")]
struct NewGauge {
    #[dds(key)]
    id: u32,
    level: u32,
    limit: Vec<f64>,
}

fn gauge<T: DdsType + Clone + Send + Sync>(test_folder: &TestFolder, sample: &T) {
    let config = ParticipantConfig::new().runtime_dir(test_folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let topic = participant.topic::<T>("Flight/Gauge").persistent().keep_all().create().unwrap();
    let writer = participant.writer(&topic).autodispose_unregistered_instances(false);
    let writer = writer.create().unwrap();
    writer.write(sample).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
}

#[test]
fn log_dump_reads_each_sample_by_the_version_of_its_type() {
    let test_folder = TestFolder::new();
    std::fs::create_dir(test_folder.path().join("logs")).unwrap();
    let run = |with: &dyn Fn()| {
        let mut running = store(&test_folder, "Flight/*");
        with();
        let pid = rustix::process::Pid::from_child(&running.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(running.child.wait().unwrap().success());
    };
    run(&|| gauge(&test_folder, &OldGauge { id: 1, level: 7 }));
    run(&|| gauge(&test_folder, &NewGauge { id: 2, level: 8, limit: vec![0.5] }));
    let folder = test_folder.path().join("logs").join("domain-0").join("0");
    let dump = |json: &[&str]| {
        let arguments = [&["log", "dump", folder.to_str().unwrap()], json].concat();
        test_folder.run(&arguments).code(0)
    };
    let text = dump(&[]).out;
    assert!(text.contains("  {\"id\": 1,\"level\": 7}\n"), "{text}");
    assert!(text.contains("  {\"id\": 2,\"level\": 8,\"limit\": [0.5]}\n"), "{text}");

    // Without the description of the first version its sample is shown as bytes.
    let described = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let described: Vec<_> =
        described.filter(|path| path.extension().is_some_and(|it| it == "topic")).collect();
    for path in described {
        let text = std::fs::read_to_string(&path).unwrap();
        let kept = text.lines().filter(|line| !line.starts_with("earlier_type_description"));
        let kept: String = kept.map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, kept).unwrap();
    }
    let text = dump(&[]).out;
    assert!(!text.contains("\"id\": 1"), "{text}");
    assert!(text.contains("  bytes "), "{text}");
    let reason = "it was written with a version of the type that is not described";
    assert!(text.contains(reason) && text.contains("\"id\": 2"), "{text}");
    let report = dump(&["--json"]).json();
    let records = report["dump"].as_array().unwrap();
    let old = records.iter().find(|record| record["unreadable"] == reason);
    let old = old.unwrap_or_else(|| panic!("{records:#?}"));
    assert!(old["payload"].as_str().unwrap().len() > 16 && old["samples"].is_null());
}

#[test]
fn samples_outlive_applications_and_the_store() {
    let test_folder = TestFolder::new();
    std::fs::create_dir(test_folder.path().join("logs")).unwrap();
    let mut first = store(&test_folder, "Flight/*");
    write(&test_folder, 0..1000);
    assert_eq!(read(&test_folder, 1000), (0..1000).collect::<Vec<_>>());
    assert!(first.child.try_wait().unwrap().is_none(), "the first store runs");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut second = store(&test_folder, "Flight/*");
    write(&test_folder, 1000..1500);
    assert_eq!(read(&test_folder, 1500), (0..1500).collect::<Vec<_>>());
    let pid = rustix::process::Pid::from_child(&second.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let said = second.line();
    assert!(said.contains("Flight/Readings: is logged"), "{said}");
    let said = second.line();
    assert!(said.contains("1 topics, 1500 samples"), "{said}");
    assert!(second.child.wait().unwrap().success());
    assert_log_has_names_and_dates(&test_folder);
}

/// Checks that the log's topic, type and policies are shown by name, and times as dates.
fn assert_log_has_names_and_dates(test_folder: &TestFolder) {
    let folders = std::fs::read_dir(test_folder.path().join("logs").join("domain-0")).unwrap();
    let folders = folders.map(|folder| folder.unwrap().path());
    let mut folders = folders.filter(|folder| folder.join("identity").exists());
    let folder = folders.next().unwrap().display().to_string();
    let listed = test_folder.run(&["log", "ls", &folder]).code(0).out;
    assert!(listed.contains("\n  Flight/Readings of type "), "{listed}");
    let policies = listed.lines().find(|line| line.starts_with("  QoS: "));
    assert!(policies.is_some_and(|line| line.contains("durability.kind PERSISTENT")), "{listed}");
    let dates = listed.lines().find(|line| line.starts_with("  written from 20"));
    assert!(dates.is_some_and(|line| line.contains("Z to 20")), "{listed}");
    let report = test_folder.run(&["log", "ls", &folder, "--json"]).code(0).json();
    let streams = report["streams"].as_array().unwrap();
    let topic = streams.iter().map(|stream| &stream["topic"]).find(|topic| !topic.is_null());
    let topic = topic.unwrap();
    assert_eq!((&topic["topic"], &topic["level"]), (&"Flight/Readings".into(), &"logged".into()));
    assert!(topic["type"].as_str().unwrap().contains("Reading"), "{topic}");
    assert!(topic.get("reliability.kind").is_some(), "{topic}");
    let dumped = test_folder.run(&["log", "dump", &folder, "--to", "3"]).code(0).out;
    let record = dumped.lines().find(|line| line.starts_with("Flight/Readings 1 sample "));
    assert!(
        record.is_some_and(|line| line.contains(" at 20") && line.contains("Z received 20")),
        "{dumped}"
    );
}

#[test]
fn store_keeps_only_matching_topics_and_reports_missing_folder() {
    let test_folder = TestFolder::new();
    std::fs::create_dir(test_folder.path().join("logs")).unwrap();
    let mut other = store(&test_folder, "Ground/*");
    with_application(&test_folder, |participant, topic| {
        let writer = participant.writer(topic).create().unwrap();
        writer.write(&Reading::default()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let error = writer.wait_for_acknowledgments(Timeout::millis(50)).unwrap_err();
        assert!(error.to_string().contains("squall store"), "{error}");
    });
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    let nowhere = test_folder.path().join("nowhere");
    let ended = test_folder.run(&["store", "--for", "1", "--dir", nowhere.to_str().unwrap()]);
    ended.code(1).says("nowhere").says("not there");
}
