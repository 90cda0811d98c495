//! Output that nobody reads, times beyond all clocks, and other arguments that are refused.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::process::{Command, Stdio};

use support::TestFolder;

/// Runs a command whose output has no reader, and returns its exit code and standard error.
fn run_unread(mut command: Command) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn command_without_reader_of_its_output_ends_quietly() {
    let test_folder = TestFolder::new();
    let idl = test_folder.path().join("a.idl");
    std::fs::write(&idl, "struct A { @key long a; };").unwrap();
    let idl = idl.display().to_string();
    for (arguments, code) in [
        ("qos show Squall::Atomic", 0),
        ("qos show Squall::Atomic --json", 0),
        ("qos match Squall::Unordered Squall::Kept", 1),
        ("ls --wait 0", 0),
        ("ls --wait 0 --json", 0),
        ("sim run --seeds 0..1", 0),
        (&format!("idl check {idl}"), 0),
        (&format!("types show {idl}"), 0),
        ("--help", 0),
        ("perf throughput --help", 0),
    ] {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let told = run_unread(test_folder.command(&arguments));
        assert_eq!(told, (Some(code), String::new()), "{arguments:?}");
    }
}

#[test]
fn failure_without_reader_of_its_message_keeps_its_exit_code() {
    let test_folder = TestFolder::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = test_folder.command(&["qos", "show", "Missing::Profile", "--json"]);
    let status = command.stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let test_folder = TestFolder::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = test_folder.command(&["qos", "show", "Squall::Atomic"]);
    let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("standard output cannot be written"), "{told}");
}

/// A store keeps topics, whether somebody reads its output or not.
#[test]
fn store_without_reader_of_its_output_continues_to_its_end() {
    let test_folder = TestFolder::new();
    let dir = test_folder.path().join("logs");
    std::fs::create_dir(&dir).unwrap();
    let dir = dir.display().to_string();
    let began = std::time::Instant::now();
    let told = run_unread(test_folder.command(&["store", "--dir", &dir, "--for", "1"]));
    assert_eq!(told, (Some(0), String::new()));
    assert!(began.elapsed() >= std::time::Duration::from_secs(1));
}

#[test]
fn times_domains_and_patterns_out_of_range_are_wrong_usage() {
    let test_folder = TestFolder::new();
    for arguments in [
        "spy T --for 1e19",
        "spy T --wait 1e19",
        "spy T --for -1",
        "spy T --for nan",
        "record --out f --for 1e300",
        "publish T {} --every 1e19",
        "publish T {} --wait inf",
        "replay f --wait 1e10",
        "ls --wait 1e19",
        "store --dir . --for 18446744073709551615",
        "chaos --duration 18446744073709551615",
        "perf latency --size 8 --limit 18446744073709551615",
        "perf sst --limit 18446744073709551615",
        "ls --domain 233",
        "spy T --domain 233",
        "publish T {} --domain 4294967295",
        "record --out f --domain 233",
        "replay f --domain 233",
        "store --dir . --domain 233",
        "store --dir . --topics [a",
        "record --out f --topics [a",
        "replay f --topics [a",
    ] {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        test_folder.run(&arguments).code(2);
    }
}
