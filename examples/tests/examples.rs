//! Every example runs, alone in a folder of its own, and prints the promised output.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::{Command, Output};

fn run(example: &str, arguments: &[&str], folder: &Path) -> Output {
    Command::new(example).args(arguments).env("SQUALL_RUNTIME_DIR", folder).output().unwrap()
}

fn says(example: &str, lines: usize, words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let meeting = folder.path().join("run");
    let output = run(example, &[], &meeting);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {text}{errors}");
    let found = text.lines().filter(|line| line.contains(words)).count();
    assert_eq!(found, lines, "{example} says `{words}`: {text}");
    assert!(!meeting.exists(), "{example} leaves nothing behind");
}

#[test]
fn attitude_example_delivers_all_1000_samples_to_both_watchers() {
    says(env!("CARGO_BIN_EXE_attitude"), 2, "took all 1000 attitudes");
}

/// The program equals the one in the README.
#[test]
fn hello_example_prints_both_samples_and_equals_readme() {
    says(env!("CARGO_BIN_EXE_hello"), 1, "pitch: 1.5");
    says(env!("CARGO_BIN_EXE_hello"), 1, "pitch: 1.6");
    let readme = include_str!("../../README.md");
    let (_, shown) = readme.split_once("```rust\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    // The two texts differ only in their layout.
    let bare = |text: &str| text.split_whitespace().collect::<String>().replace(",}", "}");
    let program = bare(include_str!("../src/bin/hello.rs"));
    assert!(program.ends_with(&bare(shown)), "{shown}");
}

/// Samples of a type from IDL start with the default values of the IDL.
#[test]
fn idl_types_example_writes_values_loans_and_closures() {
    says(env!("CARGO_BIN_EXE_idl_types"), 1, "aircraft 1 Taxi at 0 m");
    says(env!("CARGO_BIN_EXE_idl_types"), 2, "Cruise at 1000 m");
}

/// A file describes the whole application; the display receives only the one warning.
#[test]
fn applications_example_shows_attitude_and_single_warning() {
    says(env!("CARGO_BIN_EXE_applications"), 1, "Screen::Attitude: {");
    says(env!("CARGO_BIN_EXE_applications"), 1, "Screen::Warnings: {");
    says(env!("CARGO_BIN_EXE_applications"), 1, "\"Fire\"");
}

/// Guidance fails over twice, and a late display shows the alarm.
#[test]
fn avionics_displays_agree_and_late_display_shows_alarm() {
    let avionics = env!("CARGO_BIN_EXE_avionics");
    says(avionics, 1, "both displays showed the same");
    says(avionics, 1, r#"came late: ["ATTITUDE LOST on"]"#);
}

/// All replicas, including the late joiner, have the same contents, which depend on the order.
#[test]
fn key_value_replicas_end_with_equal_contents() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(env!("CARGO_BIN_EXE_key_value"), &[], &folder.path().join("run"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let stores: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(" has ")).map(|(_, store)| store).collect();
    assert_eq!(stores.len(), 3, "{text}");
    assert!(
        stores.iter().all(|store| *store == stores[0] && store.contains("\"item/4\"")),
        "{text}"
    );
    assert!(!stores[0].contains("item/1") && !stores[0].contains("item/2"), "removed: {text}");
}

/// Three displays end with the same setting, which depends on the order.
#[test]
fn command_displays_end_with_same_setting() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(env!("CARGO_BIN_EXE_commands"), &[], &folder.path().join("run"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let mut settings: Vec<&str> = text.lines().filter(|line| line.contains("setting")).collect();
    assert_eq!(settings.len(), 3, "{text}");
    settings.dedup();
    assert_eq!(settings.len(), 1, "{text}");
}

#[test]
fn first_and_late_settings_display_show_last_values() {
    let settings = env!("CARGO_BIN_EXE_settings");
    says(settings, 2, "display shows altimeter = 1009");
    says(settings, 4, "display shows");
}

#[test]
fn recorder_example_reads_last_value_and_whole_record() {
    let recorder = env!("CARGO_BIN_EXE_recorder");
    says(recorder, 1, "aircraft 7 was last seen at 2100 feet");
    says(recorder, 4, "record ");
}

#[test]
fn sst_counting_processes_all_count_to_10000() {
    says(env!("CARGO_BIN_EXE_sst_counting"), 4, "[10000, 10000, 10000, 10000]");
}

#[test]
fn two_phase_commit_processes_end_with_same_balance() {
    // 40 + 30 fit; 50 does not; 20 + 10 do.
    says(env!("CARGO_BIN_EXE_sst_two_phase_commit"), 3, ": 0 left after 5 requests");
}

#[test]
fn sst_routers_find_detour_after_link_loss() {
    says(env!("CARGO_BIN_EXE_sst_routing"), 4, "now reaches router 4 via");
}

#[test]
fn group_counter_members_give_same_answer_and_reach_same_count() {
    let counter = env!("CARGO_BIN_EXE_group_counter");
    // A member that received the counter from another member, which had already counted the query,
    // gives no answer of its own.
    says(counter, 4, "members answered, all the same: true");
    says(counter, 4, "the counter stands at 1004");
}

#[test]
fn late_group_store_member_receives_own_shard_and_queries_other() {
    let store = env!("CARGO_BIN_EXE_group_store");
    says(store, 1, "the late one has 100 keys of its shard");
    says(store, 1, "the other shard says: value 99");
}

/// The transfers booked by three tellers are present after all of them have gone, and no transfer
/// creates or destroys money.
#[test]
fn group_ledger_restores_accounts_from_logs_with_unchanged_total() {
    let ledger = env!("CARGO_BIN_EXE_group_ledger");
    says(ledger, 1, "the accounts are back in version 300, and hold 5000 in all");
    says(ledger, 1, "in version 150 they held 5000 in all");
}

#[test]
fn wrong_arguments_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["--part", "pilot"][..], &["--help"]] {
        let output = run(env!("CARGO_BIN_EXE_attitude"), arguments, folder.path());
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("part"), "{text}");
    }
}
