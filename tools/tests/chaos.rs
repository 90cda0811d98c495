//! `squall chaos`: processes under faults deliver correctly, and each feigned violation is found.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use support::TestFolder;

/// A bound of recovery that holds on a loaded machine.
const MARGIN: &str = "20000";

#[test]
fn processes_under_faults_violate_no_rule_and_recover() {
    let test_folder = TestFolder::new();
    let ended = test_folder.run(&[
        "chaos",
        "--seed",
        "1",
        "--duration",
        "12",
        "--cycle",
        "5",
        "--margin",
        MARGIN,
        "--json",
    ]);
    let ended = ended.code(0);
    let found = ended.json();
    assert_eq!(found["violations"], serde_json::json!([]));
    assert!(found["cycles"].as_u64().unwrap() >= 2, "{found}");
    assert!(found["deliveries"].as_u64().unwrap() > 5_000, "{found}");
    for action in ["kill", "join", "leave"] {
        let recovery = &found["recovery"][action];
        assert!(recovery["readers"].as_u64().unwrap() > 0, "{found}");
        assert!(recovery["p50_ms"].as_f64().unwrap() <= recovery["max_ms"].as_f64().unwrap());
    }
    test_folder.assert_empty();
}

/// Runs a cycle in which one process feigns a violation, and checks that it is found. On a loaded
/// machine it takes seconds until the process has received what it needs for that.
fn planted(plant: &str, margin: &str, found: &[&str]) {
    let test_folder = TestFolder::new();
    let arguments = [
        "chaos",
        "--seed",
        "3",
        "--duration",
        "4",
        "--processes",
        "3",
        "--actions",
        "hold",
        "--margin",
        margin,
        "--plant",
        plant,
    ];
    let ended = test_folder.run(&arguments).code(1);
    assert!(
        found.iter().any(|found| ended.err.contains(found)),
        "none of {found:?} in: {}",
        ended.err
    );
    drop(ended.says("violation with seed 3").says("squall chaos --seed 3"));
    test_folder.assert_empty();
}

#[test]
fn chaos_detects_skipped_sample() {
    planted("skip", MARGIN, &["a gap"]);
}

#[test]
fn chaos_detects_two_swapped_samples() {
    planted("swap", MARGIN, &["disagree"]);
}

#[test]
fn chaos_detects_duplicate_sample() {
    planted("twice", MARGIN, &["a duplicate"]);
}

#[test]
fn chaos_detects_reader_that_lacks_last_samples() {
    // The reader may begin to feign before the check that it hears each writer, or after it.
    planted("tail", "1000", &["lacks", "gets nothing of the writer"]);
}

#[test]
fn chaos_detects_writer_without_progress() {
    planted("stall", "100", &["made no progress"]);
}

#[test]
fn chaos_detects_isolated_healthy_process() {
    planted("isolate", MARGIN, &["although it was healthy"]);
}

#[test]
fn chaos_detects_changed_sample() {
    planted("change", MARGIN, &["is not what was written"]);
}

#[test]
fn chaos_detects_process_that_does_not_leave() {
    planted("linger", "1000", &["does not leave"]);
}

#[test]
fn interrupted_chaos_run_leaves_no_files() {
    let test_folder = TestFolder::new();
    let mut chaos =
        test_folder.start(&["chaos", "--seed", "5", "--duration", "600", "--actions", "all"]);
    let journals = || {
        let folders = std::fs::read_dir(test_folder.path()).unwrap().flatten();
        let journals = folders.flat_map(|folder| std::fs::read_dir(folder.path().join("journals")));
        journals.flatten().count()
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while journals() < 5 {
        assert!(std::time::Instant::now() < deadline, "no process has come");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&chaos.child), Signal::INT).unwrap();
    let status = chaos.child.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    test_folder.assert_empty();
}
