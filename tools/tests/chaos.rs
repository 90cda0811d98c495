//! `squall chaos`: processes under faults deliver correctly, and each feigned violation is found.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use support::Place;

/// A bound of recovery that holds on a loaded machine.
const MARGIN: &str = "20000";

#[test]
fn processes_under_faults_deliver_the_same_and_recover() {
    let place = Place::new();
    let ended = place.run(&[
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
    place.assert_empty();
}

/// Runs a cycle in which one process feigns a violation, and checks that it is found.
fn planted(plant: &str, margin: &str, found: &str) {
    let place = Place::new();
    let arguments = [
        "chaos",
        "--seed",
        "3",
        "--duration",
        "2",
        "--processes",
        "3",
        "--actions",
        "hold",
        "--margin",
        margin,
        "--plant",
        plant,
    ];
    let ended = place.run(&arguments).code(1);
    let ended = ended.says(found).says("violation with seed 3").says("squall chaos --seed 3");
    drop(ended);
    place.assert_empty();
}

#[test]
fn a_skipped_sample_is_found() {
    planted("skip", MARGIN, "a gap");
}

#[test]
fn two_swapped_samples_are_found() {
    planted("swap", MARGIN, "disagree");
}

#[test]
fn a_duplicate_is_found() {
    planted("twice", MARGIN, "a duplicate");
}

#[test]
fn a_reader_that_lacks_the_last_samples_is_found() {
    planted("tail", "1000", "lacks");
}

#[test]
fn a_writer_without_progress_is_found() {
    planted("stall", "100", "made no progress");
}

#[test]
fn an_isolated_healthy_process_is_found() {
    planted("isolate", MARGIN, "although it was healthy");
}

#[test]
fn a_changed_sample_is_found() {
    planted("change", MARGIN, "is not what was written");
}

#[test]
fn a_process_that_does_not_leave_is_found() {
    planted("linger", "1000", "does not leave");
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let place = Place::new();
    let mut chaos = place.start(&["chaos", "--seed", "5", "--duration", "600", "--actions", "all"]);
    let journals = || {
        let folders = std::fs::read_dir(place.path()).unwrap().flatten();
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
    place.assert_empty();
}
