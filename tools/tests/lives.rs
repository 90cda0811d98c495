//! `squall sim run` and `squall sim replay`.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use support::TestFolder;

#[test]
fn sim_run_finds_no_violation_and_reports_counts() {
    let test_folder = TestFolder::new();
    let done = test_folder.run(&["sim", "run", "--seeds", "0..4", "--json"]).code(0);
    let report = done.json();
    let fields = [
        "seeds",
        "events",
        "messages",
        "view_changes",
        "crashes",
        "partitions",
        "restarts",
        "violations",
        "seconds",
    ];
    for field in fields {
        assert!(report[field].is_number(), "no `{field}` in {report}");
    }
    assert_eq!((&report["seeds"], &report["violations"]), (&4.into(), &0.into()));
    // Runs without any judgement prove nothing.
    assert_eq!(report["lives"], 12, "{report}");
    assert!(report["judged"].as_u64().unwrap() >= 10, "{report}");
    assert!(report["looked_for"].as_u64().unwrap() > 200, "{report}");
    assert!(report["deliveries_per_message"].as_f64().unwrap() > 0.7, "{report}");
    assert!(report["view_changes"].as_u64().unwrap() > 20, "{report}");
    for step in ["wedged", "reported", "proposed", "accepted", "decided", "installed"] {
        assert!(report["coverage"]["crashes"][step].is_number(), "no `{step}` in {report}");
    }
    let text = test_folder.run(&["sim", "run", "--seeds", "0..1", "--group", "local"]).code(0).out;
    assert!(text.contains("no rule was broken") && text.contains("installed"), "{text}");
}

#[test]
fn sim_replay_of_same_seed_prints_same_life() {
    let test_folder = TestFolder::new();
    let tell = |seed: &str| {
        let arguments = ["sim", "replay", "--seed", seed, "--group", "network", "--nodes", "4"];
        test_folder.run(&arguments).code(0).out
    };
    let told = tell("5");
    assert_eq!(told, tell("5"));
    assert_ne!(told, tell("6"));
    for words in ["installs view 1", "wedges view", "proposes", "begins epoch", "has delivered"] {
        assert!(told.contains(words), "no `{words}` in {told}");
    }
    let report = test_folder.run(&["sim", "replay", "--seed", "5", "--json"]).code(0).json();
    assert!(report["steps"].as_array().unwrap().len() > 100);
}

#[test]
fn sim_run_with_time_limit_ends() {
    let test_folder = TestFolder::new();
    let done = test_folder.run(&["sim", "run", "--minutes", "0.01", "--faults", "none", "--json"]);
    let report = done.code(0).json();
    assert!(report["seeds"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn sim_commands_explain_wrong_usage() {
    let test_folder = TestFolder::new();
    let refused = |arguments: &str, words: &str| {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        test_folder.run(&arguments).code(2).says(words);
    };
    refused("sim run --seeds 7", "A..B");
    refused("sim run --seeds 9..9", "no seed from 9 to 9");
    refused("sim run --seeds a..9", "`a` is no seed");
    refused("sim run --nodes 0", "1 to 16");
    refused("sim run --faults fire", "there is no fault `fire`");
    refused("sim run --group ring", "[possible values: shared, local, network, all]");
    refused("sim run --minutes 0", "minutes");
    refused("sim replay", "--seed");
}
