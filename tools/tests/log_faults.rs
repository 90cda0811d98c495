//! `squall store` and `squall log` with damaged or foreign logs: each reports the error, its
//! position, and a remedy.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use dds_api::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use support::{Reading, RunningCommand, SOON, TestFolder};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Makes a root of logs, with a folder that a store has made.
fn root(test_folder: &TestFolder) -> (PathBuf, PathBuf) {
    let root = test_folder.path().join("logs");
    fs::create_dir(&root).unwrap();
    test_folder.run(&["store", "--for", "0", "--dir", text(&root)]).code(0);
    let folder = root.join("domain-0").join("0");
    assert!(folder.join("identity").exists());
    (root, folder)
}

fn store(test_folder: &TestFolder, root: &Path) -> RunningCommand {
    let mut store = test_folder.start(&["store", "--dir", text(root)]);
    assert!(store.line().contains("keeps"));
    store
}

/// Changes a file to another format.
fn reformat(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    bytes[8..12].copy_from_slice(&9_u32.to_le_bytes());
    bytes[12] ^= 0x55;
    fs::write(file, bytes).unwrap();
}

#[test]
fn store_without_usable_log_folder_reports_reason() {
    let test_folder = TestFolder::new();
    let refuses = |root: &Path, words: &[&str]| {
        let ended = test_folder.run(&["store", "--for", "1", "--dir", text(root)]).code(1);
        let ended = ended.says("no logs can be kept").says(text(root));
        words.iter().fold(ended, |ended, word| ended.says(word));
    };
    refuses(&test_folder.path().join("nowhere"), &["it is not there", "make it first"]);
    let file = test_folder.path().join("file");
    fs::write(&file, "").unwrap();
    refuses(&file, &["it is not a folder", "name a folder"]);
    refuses(&file.join("below"), &["it is not a folder"]);
    // A place where not even root may make a folder.
    refuses(Path::new("/sys"), &["/sys/domain-0", "it is read-only"]);
    let (root, folder) = root(&test_folder);
    reformat(&folder.join("identity"));
    refuses(&root, &["domain-0/0/identity is of format 9", "use the program"]);
}

#[test]
fn each_log_command_reports_invalid_log_folder() {
    let test_folder = TestFolder::new();
    let file = test_folder.path().join("file");
    fs::write(&file, "").unwrap();
    let (root, folder) = root(&test_folder);
    let commands: [(&str, &[&str]); 5] = [
        ("ls", &[]),
        ("dump", &[]),
        ("verify", &[]),
        ("truncate", &["--stream", "4f", "--after", "1"]),
        ("remove-aside", &["--number", "1"]),
    ];
    let says = |dir: &Path, words: &[&str]| {
        for (command, more) in commands {
            let ended = test_folder.run(&[&["log", command, text(dir)], more].concat()).code(1);
            words.iter().fold(ended, |ended, word| ended.says(word));
        }
    };
    let nowhere = test_folder.path().join("nowhere");
    says(&nowhere, &[text(&nowhere), "it is not there"]);
    says(&file, &[text(&file), "it is not a folder"]);
    says(&root, &[text(&root), "no log folder", "domain-0/0"]);
    says(Path::new("/sys"), &["/sys is no log folder"]);
    test_folder.run(&["log", "proceed", text(&nowhere)]).code(1).says(text(&nowhere));
    test_folder.run(&["log", "proceed", text(&file)]).code(1).says(text(&file));
    test_folder.run(&["log", "proceed", text(&root)]).code(1).says("no log folder in");
    reformat(&folder.join("identity"));
    says(&folder, &["domain-0/0/identity is of format 9", "use the program"]);
    let home = root.join("domain-0");
    test_folder.run(&["log", "proceed", text(&home)]).code(1).says("0/identity is of format 9");
    fs::write(folder.join("identity"), "harmed").unwrap();
    says(&folder, &["domain-0/0/identity has no valid log header", "restore the file"]);
}

/// A stream of another format is reported, and the other streams are read all the same.
#[test]
fn stream_of_other_format_is_reported_and_other_streams_are_read() {
    let test_folder = TestFolder::new();
    let (root, folder) = root(&test_folder);
    let mut store = store(&test_folder, &root);
    write(&test_folder, 10);
    end(&mut store, 0);
    let views = "0".repeat(32);
    let names = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let is_topic = |path: &PathBuf| name(path).ends_with(".log") && !name(path).starts_with(&views);
    reformat(&names.filter(is_topic).max().unwrap());
    for command in ["ls", "verify"] {
        let report = test_folder.run(&["log", command, text(&folder), "--json"]).code(1).json();
        let errors = report["errors"].as_array().unwrap();
        assert!(errors[0].as_str().unwrap().contains("is of format 9"), "{report}");
        assert_eq!((errors.len(), report["streams"].as_array().unwrap().len()), (1, 2), "{report}");
        assert!(report["last_view"]["number"].as_u64().unwrap() > 0, "{report}");
    }
}

fn write(test_folder: &TestFolder, count: u32) {
    let config = ParticipantConfig::new().runtime_dir(test_folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let topic = participant.topic::<Reading>("Readings").persistent().keep_all();
    let topic = topic.create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    (0..count).for_each(|value| writer.write(&Reading { sensor: 1, value }).unwrap());
    writer.wait_for_acknowledgments(SOON).unwrap();
}

/// Ends a store, and checks its exit code.
fn end(store: &mut RunningCommand, code: i32) {
    kill_process(Pid::from_child(&store.child), Signal::TERM).unwrap();
    assert_eq!(store.child.wait().unwrap().code(), Some(code));
}

/// Commands do not change a folder while another process writes in it.
#[test]
fn log_commands_do_not_change_folder_in_use_by_store() {
    let test_folder = TestFolder::new();
    let (root, folder) = root(&test_folder);
    let mut store = store(&test_folder, &root);
    for more in [
        &["truncate", text(&folder), "--stream", "0", "--after", "1"][..],
        &["remove-aside", text(&folder), "--number", "1"],
    ] {
        let ended = test_folder.run(&[&["log"], more].concat()).code(1);
        ended.says(text(&folder)).says("another process writes").says("end it first");
    }
    test_folder.run(&["log", "verify", text(&folder)]).code(0);
    let mut other = self::store(&test_folder, &root);
    assert!(root.join("domain-0").join("1").exists(), "the application has a folder of its own");
    end(&mut other, 0);
    end(&mut store, 0);
}

/// A store whose folder is removed reports that it keeps nothing any more, continues, and ends with
/// exit code 1.
#[test]
fn store_reports_removed_log_folder_and_exits_with_code_1() {
    let test_folder = TestFolder::new();
    let (root, _) = root(&test_folder);
    let mut store = store(&test_folder, &root);
    let config = ParticipantConfig::new().runtime_dir(test_folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let topic = participant.topic::<Reading>("Readings").persistent().create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    writer.write(&Reading::default()).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    let said = store.line();
    assert!(said.contains("Readings: is logged"), "{said}");
    fs::remove_dir_all(&root).unwrap();
    writer.write(&Reading::default()).unwrap();
    let said = store.line();
    let words =
        ["Readings: is no longer logged", "logs/domain-0/0", "removed", "restart the process"];
    words.iter().for_each(|word| assert!(said.contains(word), "{said}"));
    let error = writer.wait_for_acknowledgments(Timeout::millis(50)).unwrap_err().to_string();
    assert!(error.contains("No participant keeps"), "{error}");
    drop((writer, topic, participant));
    end(&mut store, 1);
}
