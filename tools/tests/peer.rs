//! The measuring protocol, as used by an outside harness.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use serde_json::json;
use support::{RunningCommand, TestFolder};

/// Starts a role of one session.
fn peer(test_folder: &TestFolder, role: &str, count: u64, rest: &[&str]) -> RunningCommand {
    let count = count.to_string();
    let mut arguments =
        vec!["perf", "peer", role, "--size", "128", "--count", &count, "--session", "s1"];
    arguments.extend(rest);
    test_folder.start(&arguments)
}

#[test]
fn two_subscribers_receive_all_samples_of_publisher() {
    let test_folder = TestFolder::new();
    let mut publisher = peer(&test_folder, "pub", 5000, &["--subs", "2"]);
    let mut subscribers = ["0", "1"].map(|index| {
        peer(&test_folder, "sub", 5000, &["--subs", "2", "--index", index, "--level", "unordered"])
    });
    publisher.expect_ready();
    subscribers.iter_mut().for_each(RunningCommand::expect_ready);
    assert!(!publisher.has_more_lines(), "the publisher waits for GO");
    publisher.tell("GO");
    let sent = publisher.result();
    assert_eq!((&sent["role"], &sent["sent"]), (&json!("pub"), &json!(5000)));
    assert!(sent["t_start_ns"].as_u64() <= sent["t_end_ns"].as_u64());
    for (index, subscriber) in subscribers.iter_mut().enumerate() {
        let seen = subscriber.result();
        assert_eq!(seen["role"], "sub");
        assert_eq!(seen["index"], index);
        assert_eq!(seen["received"], 5000);
        for nothing in ["lost", "disorder", "corrupt"] {
            assert_eq!(seen[nothing], 0, "{nothing}");
        }
        assert!(sent["t_start_ns"].as_u64() <= seen["t_first_ns"].as_u64());
        assert!(seen["t_first_ns"].as_u64() <= seen["t_last_ns"].as_u64());
    }
    assert!(publisher.child.try_wait().unwrap().is_none(), "the publisher waits for EXIT");
    for process in [publisher].into_iter().chain(subscribers) {
        let mut process = process;
        process.tell("EXIT");
        process.leaves_with(0);
    }
    test_folder.assert_empty();
}

#[test]
fn ping_role_reports_latencies_in_ascending_order() {
    let test_folder = TestFolder::new();
    let mut pong = peer(&test_folder, "pong", 500, &[]);
    let mut ping = peer(&test_folder, "ping", 500, &[]);
    pong.expect_ready();
    ping.expect_ready();
    ping.tell("GO");
    let found = ping.result();
    assert_eq!((&found["role"], &found["count"]), (&json!("ping"), &json!(500)));
    let time = |name: &str| found[name].as_f64().unwrap();
    assert!(time("min_ns") > 0.0 && time("min_ns") <= time("p50_ns"));
    assert!(time("p50_ns") <= time("p99_ns") && time("p99_ns") <= time("p999_ns"));
    assert!(time("mean_ns") >= time("min_ns"));
    assert_eq!(pong.result(), json!({ "role": "pong" }));
    for mut process in [ping, pong] {
        process.tell("EXIT");
        process.leaves_with(0);
    }
    test_folder.assert_empty();
}

#[test]
fn end_of_standard_input_ends_role_at_any_time() {
    let test_folder = TestFolder::new();
    // The input ends before another role is present.
    let mut alone = peer(&test_folder, "sub", 10, &["--subs", "1", "--index", "0"]);
    alone.close_input();
    alone.leaves_with(0);
    // The input ends instead of GO.
    let mut publisher = peer(&test_folder, "pub", 10, &["--subs", "1"]);
    let mut subscriber = peer(&test_folder, "sub", 10, &["--subs", "1", "--index", "0"]);
    publisher.expect_ready();
    subscriber.expect_ready();
    publisher.close_input();
    publisher.leaves_with(0);
    // The input ends while waiting for samples; or the writer's departure was received first.
    subscriber.close_input();
    subscriber.leaves_with(0);
    // The input ends in the middle of writing.
    let mut publisher = peer(&test_folder, "pub", 1 << 40, &["--subs", "1"]);
    let mut subscriber = peer(&test_folder, "sub", 1 << 40, &["--subs", "1", "--index", "0"]);
    publisher.expect_ready();
    subscriber.expect_ready();
    publisher.tell("GO");
    publisher.close_input();
    publisher.leaves_with(0);
    subscriber.close_input();
    subscriber.leaves_with(0);
    test_folder.assert_empty();
}

#[test]
fn killed_subscriber_stops_neither_publisher_nor_other_subscriber() {
    let test_folder = TestFolder::new();
    const COUNT: u64 = 200_000;
    let mut publisher = peer(&test_folder, "pub", COUNT, &["--subs", "2"]);
    let mut subscribers = ["0", "1"]
        .map(|index| peer(&test_folder, "sub", COUNT, &["--subs", "2", "--index", index]));
    publisher.expect_ready();
    subscribers.iter_mut().for_each(RunningCommand::expect_ready);
    let [mut stays, mut dies] = subscribers;
    publisher.tell("GO");
    dies.kill();
    assert_eq!(publisher.result()["sent"], COUNT);
    let seen = stays.result();
    assert_eq!((&seen["received"], &seen["lost"]), (&json!(COUNT), &json!(0)));
    for mut process in [publisher, stays] {
        process.tell("EXIT");
        process.leaves_with(0);
    }
    test_folder.assert_empty();
}

#[test]
fn subscriber_reports_lost_samples_after_publisher_is_killed() {
    let test_folder = TestFolder::new();
    let mut publisher = peer(&test_folder, "pub", 100, &["--subs", "1"]);
    let mut subscriber = peer(&test_folder, "sub", 1000, &["--subs", "1", "--index", "0"]);
    publisher.expect_ready();
    subscriber.expect_ready();
    publisher.tell("GO");
    assert_eq!(publisher.result()["sent"], 100);
    publisher.kill();
    let seen = subscriber.result();
    assert_eq!((&seen["received"], &seen["lost"]), (&json!(100), &json!(900)));
    subscriber.tell("EXIT");
    subscriber.leaves_with(0);
    test_folder.assert_empty();
}

#[test]
fn sessions_of_one_domain_do_not_meet() {
    let test_folder = TestFolder::new();
    let start = |session: &str, role: &str, rest: &[&str]| {
        let mut arguments =
            vec!["perf", "peer", role, "--size", "64", "--count", "100", "--session", session];
        arguments.extend(rest);
        test_folder.start(&arguments)
    };
    let mut pairs = ["a", "b"].map(|session| {
        let publisher = start(session, "pub", &["--subs", "1"]);
        (publisher, start(session, "sub", &["--subs", "1", "--index", "0"]))
    });
    for (publisher, subscriber) in &mut pairs {
        publisher.expect_ready();
        subscriber.expect_ready();
    }
    for (publisher, subscriber) in &mut pairs {
        publisher.tell("GO");
        assert_eq!(publisher.result()["sent"], 100);
        let seen = subscriber.result();
        assert_eq!((&seen["received"], &seen["disorder"]), (&json!(100), &json!(0)));
    }
    for (publisher, subscriber) in pairs {
        for mut process in [publisher, subscriber] {
            process.tell("EXIT");
            process.leaves_with(0);
        }
    }
    test_folder.assert_empty();
}

#[test]
fn wrong_arguments_are_refused_and_named() {
    let test_folder = TestFolder::new();
    let common = ["perf", "peer", "sub", "--size", "128", "--count", "10", "--session", "s"];
    let with = |rest: &[&'static str]| test_folder.run(&[&common[..], rest].concat());
    with(&["--subs", "1", "--index", "0", "--level", "causal"]).code(2).says("unordered");
    with(&["--subs", "1", "--index", "0", "--transport", "tcp"]).code(2).says("shm");
    with(&["--subs", "1", "--index", "1"]).code(2).says("numbered from 0");
    with(&["--subs", "0", "--index", "0"]).code(2).says("--subs");
    test_folder
        .run(&["perf", "peer", "pub", "--size", "128", "--count", "9"])
        .code(2)
        .says("--session");
    test_folder.run(&["perf", "peer", "spy"]).code(2).says("spy");
    test_folder.assert_empty();
}
