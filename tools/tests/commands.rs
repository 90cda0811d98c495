//! Each command, with tiny counts, as users and programs call it.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use serde_json::Value;
use support::TestFolder;

#[track_caller]
fn has(report: &Value, fields: &[&str]) {
    for field in fields {
        assert!(report.get(field).is_some(), "no `{field}` in {report}");
    }
}

#[test]
fn every_command_has_help_with_example() {
    let test_folder = TestFolder::new();
    let commands = [
        "",
        "perf",
        "perf throughput",
        "perf latency",
        "perf late-joiner",
        "perf levels",
        "perf pub",
        "perf regress",
        "perf sub",
        "perf summary",
        "perf ping",
        "perf pong",
        "perf peer",
        "perf sst",
        "perf upcall",
        "perf views",
        "doctor",
        "idl",
        "idl check",
        "idl gen",
        "log",
        "log ls",
        "log dump",
        "log verify",
        "log truncate",
        "qos",
        "qos check",
        "qos convert",
        "qos show",
        "qos match",
        "sim",
        "sim figure",
        "sim run",
        "sim replay",
    ];
    for command in commands {
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        arguments.push("--help");
        let help = test_folder.run(&arguments).code(0);
        assert!(help.out.contains("Example"), "{command}: {}", help.out);
        assert!(help.out.contains("Usage: squall"), "{command}: {}", help.out);
    }
}

#[test]
fn wrong_usage_exits_with_code_2_and_explanation() {
    let test_folder = TestFolder::new();
    let refused = |arguments: &str, words: &str| {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        test_folder.run(&arguments).code(2).says(words);
    };
    refused("fly", "fly");
    refused("perf throughput", "--size");
    refused("perf throughput --size 0", "8 to 67108864");
    refused("perf throughput --size many", "no number of bytes");
    refused(
        "perf throughput --size 128 --level causal",
        "[possible values: unordered, atomic, kept, logged]",
    );
    refused("perf throughput --size 128 --ablate nulls", "--level atomic");
    refused("perf throughput --size 128 --level atomic --ablate luck", "cannot be switched off");
    refused("perf throughput --size 128 --members 1", "--members");
    refused("perf throughput --size 128 --members 2 --subs 2", "cannot be used with");
    refused("perf throughput --size 128 --interface raw", "[possible values: dds, core]");
    refused("perf throughput --size 128 --level logged", "--logs DIR");
    refused("perf throughput --size 128 --level kept --keep 0", "--keep");
    refused("perf throughput --size 128 --level kept --interface core", "--interface dds");
    refused("perf bare --kind lossy --size 128", "[possible values: plain, futex, stable]");
    refused("perf bare --kind stable --size 128 --every 0", "--every");
    refused("perf throughput --size 128 --transport verbs", "[possible values: shm]");
    refused("perf throughput --size 128 --count 5 --seconds 1", "cannot be used with");
    refused("perf throughput --size 128 --loan --copy", "cannot be used with");
    refused("perf throughput --size 128 --subs 0", "--subs");
    refused("perf throughput --size 128 --seconds 0", "seconds");
    refused("perf throughput --size 128 --domain 233", "--domain");
    refused("perf latency --size 128 --rounds 0", "--rounds");
    refused("perf latency --size 128 --sleep --spin 3", "cannot be used with");
    refused("perf sst --what detect --nodes 3", "two nodes");
    refused("perf upcall --work 1", "no time such as 100us");
    refused("perf upcall --silence --fixed-batch 8", "cannot be used with");
    refused("perf upcall --fixed-batch 1", "--fixed-batch");
    refused("perf views --rounds 0", "--rounds");
    refused("perf levels --subs 0", "--subs");
    refused("perf regress squall --case nonsense", "the cases are");
    refused("perf summary --rounds 0", "--rounds");
    refused("perf late-joiner --mib 0", "--mib");
    refused("sim figure nonsense", "sst-8");
    test_folder.assert_empty();
}

/// One case of two equal builds; a build that is no command is named.
#[test]
fn perf_regress_compares_two_builds_in_turn() {
    let test_folder = TestFolder::new();
    let squall = env!("CARGO_BIN_EXE_squall");
    let mut arguments = vec!["perf", "regress", squall, "--case", "atomic 16 B loan"];
    arguments.extend(["--rounds", "3", "--seconds", "0.05", "--floor", "0.0001", "--json"]);
    let report = test_folder.run(&arguments).code(0).json();
    let case = &report["cases"][0];
    assert_eq!(case["case"], "atomic 16 B loan");
    for values in ["before", "after", "ratios", "probe_msgs_per_s"] {
        assert_eq!(case[values].as_array().unwrap().len(), 3, "{values} of {report}");
    }
    assert!(case["ratio"].as_f64().unwrap() > 0.0, "{report}");
    arguments[2] = "/no/such/squall";
    let failed = test_folder.run(&arguments).code(1);
    assert!(failed.err.contains("/no/such/squall"), "{}", failed.err);
    test_folder.assert_empty();
}

#[test]
fn perf_summary_measures_each_case_once_in_each_round() {
    let test_folder = TestFolder::new();
    let arguments = ["perf", "summary", "--rounds", "1", "--seconds", "0.02", "--json"];
    let report = test_folder.run(&arguments).code(0).json();
    for table in report["tables"].as_array().unwrap() {
        for row in table["rows"].as_array().unwrap() {
            let values = row["values"].as_array().unwrap();
            assert_eq!(values.len(), row["columns"].as_array().unwrap().len(), "{row}");
            assert!(values.iter().all(|of| of[0].as_f64().unwrap() > 0.0), "{row}");
        }
    }
    test_folder.assert_empty();
}

#[test]
fn perf_views_reports_time_to_delivery() {
    let test_folder = TestFolder::new();
    let run = test_folder.run(&["perf", "views", "--rounds", "2", "--json"]).code(0);
    let report = run.json();
    has(&report, &["rounds", "members", "killed_to_delivery_ns", "join_to_delivery_ns", "machine"]);
    assert!(report["join_to_delivery_ns"]["p50"].as_u64().unwrap() > 0);
    test_folder.assert_empty();
}

#[test]
fn late_joiner_receives_all_kept_samples_beside_live_samples() {
    let test_folder = TestFolder::new();
    let arguments =
        "perf late-joiner --mib 3 --size 1024 --rounds 2 --calm 0.05 --read whole --json";
    let report = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0).json();
    has(
        &report,
        &["mib", "bytes_per_s", "of_ring", "of_copy", "live_kept", "silence_ms", "machine"],
    );
    assert_eq!((report["samples"].as_u64(), report["wrong"].as_u64()), (Some(3072), Some(0)));
    assert_eq!(report["rounds"].as_array().map(Vec::len), Some(2));
    for number in ["last_s", "live_before", "past_s"] {
        assert!(report[number].as_f64() > Some(0.0), "{number} in {report}");
    }
    for part in ["writer", "reader", "newcomer"] {
        assert!(report["peak_mib"][part].as_u64() > Some(3), "{part} in {report}");
    }
    test_folder.assert_empty();
}

#[test]
fn throughput_reports_all_agreed_fields() {
    let test_folder = TestFolder::new();
    let run = test_folder
        .run(&["perf", "throughput", "--size", "128", "--subs", "2", "--count", "2000", "--json"])
        .code(0);
    let report = run.json();
    has(
        &report,
        &[
            "size",
            "pubs",
            "subs",
            "level",
            "transport",
            "msgs_per_s",
            "bytes_per_s",
            "lost",
            "reordered",
            "p50_ns",
            "p99_ns",
            "cpu_s",
            "copies",
            "allocs",
            "form",
            "read",
            "machine",
            "commit",
        ],
    );
    assert_eq!(report["form"], "plain");
    assert_eq!(report["read"], "whole");
    assert_eq!(report["sent"], 2000);
    for nothing in ["lost", "reordered", "corrupt"] {
        assert_eq!(report[nothing], 0);
    }
    for subscriber in report["subscribers"].as_array().unwrap() {
        assert_eq!(subscriber["received"], 2000);
        has(&subscriber["used"], &["turns", "parks", "cpu_s", "allocs"]);
    }
    assert_eq!(report["subscribers"].as_array().unwrap().len(), 2);
    assert!(report["machine"]["cores"].as_u64() >= Some(1));
    let text = test_folder.run(&["perf", "throughput", "--size", "128", "--count", "100"]).code(0);
    assert!(text.out.contains("messages/s"), "{}", text.out);
    assert!(text.err.is_empty(), "no progress but on a terminal: {}", text.err);
    test_folder.assert_empty();
}

#[test]
fn perf_levels_reports_each_level_with_and_without_optimisations() {
    let test_folder = TestFolder::new();
    let arguments = "perf levels --size 512 --subs 1 --seconds 0.05 --runs 1 --json";
    let report = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0).json();
    let rows = report["rows"].as_array().unwrap();
    let levels: Vec<_> = rows.iter().map(|row| row["level"].as_str().unwrap()).collect();
    assert_eq!(levels, ["unordered", "atomic", "kept", "logged"]);
    for row in rows {
        let rate = |name: &str| row[name].as_f64();
        assert!(rate("everything") > Some(0.0) && rate("of_atomic") > Some(0.0), "{row}");
        assert_eq!(rate("baseline") > Some(0.0), row["level"] != "unordered", "{row}");
    }
    assert_eq!((&report["clean"], &rows[1]["of_atomic"]), (&true.into(), &1.0.into()));
    // The logs are removed as well.
    test_folder.assert_empty();
}

#[test]
fn throughput_reports_copies_for_each_form_and_manner() {
    let test_folder = TestFolder::new();
    for (size, manner, form, copies) in [
        (1024, "--loan", "plain", 0.0),
        (1024, "--copy", "plain", 1.0),
        (100, "--copy", "cdr", 2.0),
        (100, "--loan", "cdr", 2.0),
    ] {
        let count = ["--count", "500", manner, "--json"];
        let size = ["perf", "throughput", "--size", &size.to_string()].map(str::to_owned);
        let arguments: Vec<&str> = size.iter().map(String::as_str).chain(count).collect();
        let report = test_folder.run(&arguments).code(0).json();
        // A sample that contains its payload is copied when it is taken, borrowed or not.
        let carried = report["subscribers"][0]["sample_bytes"].as_u64() >= Some(1024);
        let copies = copies + f64::from(u8::from(carried));
        assert_eq!((&report["form"], &report["copies"]), (&form.into(), &copies.into()));
        assert_eq!((&report["lost"], &report["corrupt"]), (&0.into(), &0.into()));
    }
    test_folder.assert_empty();
}

#[test]
fn samples_of_smallest_and_large_sizes_arrive_undamaged() {
    let test_folder = TestFolder::new();
    for size in ["8", "16", "23", "10240", "1048576", "3000000"] {
        let run =
            test_folder.run(&["perf", "throughput", "--size", size, "--count", "40", "--json"]);
        let report = run.code(0).json();
        assert_eq!(report["sent"], 40, "{size}");
        assert_eq!((&report["lost"], &report["corrupt"]), (&0.into(), &0.into()), "{size}");
        assert_eq!(report["p50_ns"].is_null(), size.len() <= 2, "{size}");
    }
    test_folder.assert_empty();
}

#[test]
fn several_publishers_write_to_several_subscribers() {
    let test_folder = TestFolder::new();
    let arguments = "perf throughput --size 64 --pubs 2 --subs 2 --count 1000 --read ends --json";
    let report = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0).json();
    assert_eq!(report["sent"], 2000);
    assert_eq!((&report["lost"], &report["reordered"]), (&0.into(), &0.into()));
    for subscriber in report["subscribers"].as_array().unwrap() {
        assert_eq!(subscriber["received"], 2000);
    }
    test_folder.assert_empty();
}

#[test]
fn throughput_checks_all_writing_members_and_compares_one_sender() {
    let test_folder = TestFolder::new();
    // A small memory, so that all members repeatedly find no room.
    let more = "--members 3 --count 3000 --in-flight 32 --runs 1 --json";
    for (interface, level, size) in [
        ("dds", "atomic", 64),
        ("dds", "atomic", 100),
        ("dds", "unordered", 16),
        ("core", "atomic", 48),
    ] {
        let arguments =
            format!("perf throughput --interface {interface} --level {level} --size {size} {more}");
        let report = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0).json();
        assert_eq!((&report["members"], &report["sent"]), (&3.into(), &9000.into()));
        for nothing in ["lost", "reordered", "corrupt"] {
            assert_eq!(report[nothing], 0, "{arguments}");
        }
        for member in report["subscribers"].as_array().unwrap() {
            assert_eq!(member["received"], 9000, "{arguments}");
        }
        assert_eq!(report["subscribers"].as_array().unwrap().len(), 3);
        assert!(level == "unordered" || report["orders_agree"] == true, "{report}");
        assert!(report["total"].as_f64() > Some(0.0));
        assert!(report["ratio_one_sender"].as_f64() > Some(0.0));
        let one = &report["one_sender"]["runs"][0];
        assert_eq!((&one["sent"], &one["lost"]), (&3000.into(), &0.into()), "{arguments}");
        assert_eq!(one["orders_agree"], true, "the orders of one sender agree");
    }
    let arguments = "perf throughput --size 64 --members 2 --seconds 0.1 --runs 1 --level atomic";
    let text = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0);
    assert!(text.out.contains("all 2 members write"), "{}", text.out);
    assert!(text.out.contains("all orders agree"), "{}", text.out);
    test_folder.assert_empty();
}

#[test]
fn throughput_measures_core_multicast_like_dds() {
    let test_folder = TestFolder::new();
    for (level, more) in [
        ("unordered", "--subs 2 --count 3000"),
        ("atomic", "--subs 2 --seconds 0.1"),
        ("atomic", "--pubs 2 --count 1000 --ablate all"),
        ("atomic", "--seconds 0.1 --baseline --runs 1"),
    ] {
        let arguments =
            format!("perf throughput --interface core --size 100 --level {level} {more} --json");
        let report = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0).json();
        has(&report, &["msgs_per_s", "bytes_per_s", "cpu_s", "allocs", "machine", "commit"]);
        assert_eq!((&report["interface"], &report["form"]), (&"core".into(), &"bytes".into()));
        assert_eq!((&report["orders_agree"], &report["copies"]), (&true.into(), &0.0.into()));
        assert!(report["p50_ns"].is_null(), "no time stamps: {report}");
        for subscriber in report["subscribers"].as_array().unwrap() {
            assert_eq!(subscriber["received"], report["sent"], "{arguments}");
        }
        assert_eq!(report.get("ratio_stable").is_some(), more.contains("baseline"));
    }
    test_folder.assert_empty();
}

#[test]
fn perf_upcall_measures_cost_of_slow_member_to_other_members() {
    let test_folder = TestFolder::new();
    let rows = |more: &str, name: &str| {
        let arguments = format!("perf upcall --size 64 --seconds 0.1 --json {more}");
        let report = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0).json();
        has(&report, &["size", "seconds", "first", "machine", "commit"]);
        report[name].as_array().unwrap().clone()
    };
    let slow = rows("--work 20us", "slow");
    let manners: Vec<_> =
        slow.iter().map(|row| (row["work_ns"].as_u64(), row["manner"].as_str().unwrap())).collect();
    let each = |work| ["single", "batched", "cache"].map(|manner| (Some(work), manner));
    assert_eq!(manners, [each(0), each(20_000)].concat());
    for row in &slow {
        assert!(row["slow_per_s"].as_f64() > Some(0.0) && row["other_per_s"].as_f64() > Some(0.0));
        has(&row["paced"], &["sender_late_us", "other_received", "other_p99_ns"]);
        assert_eq!(row["bad"], 0, "{row}");
    }
    for (more, name) in [("--fixed-batch 16", "batches"), ("--silence", "silence")] {
        let rows = rows(more, name);
        assert_eq!(rows.len(), 4);
        for row in &rows {
            assert!(row["other_per_s"].as_f64() > Some(0.0) && row["p50_ns"].as_u64() > Some(0));
            assert_eq!(row["bad"], 0, "{row}");
        }
    }
    test_folder.assert_empty();
}

#[test]
fn timed_run_beside_bare_ring_counts_all_samples() {
    let test_folder = TestFolder::new();
    let arguments = "perf throughput --size 256 --seconds 0.1 --baseline --runs 2 --json";
    let report = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0).json();
    assert_eq!(report["subscribers"][0]["received"], report["sent"]);
    assert_eq!(report["runs_msgs_per_s"].as_array().unwrap().len(), 2);
    has(&report, &["baseline", "ratio", "ratio_futex", "ratio_memcpy"]);
    for kind in ["poll", "futex"] {
        assert_eq!(report["baseline"][kind]["runs"].as_array().unwrap().len(), 2);
        assert!(report["baseline"][kind]["msgs_per_s"].as_f64() > Some(0.0));
    }
    test_folder.assert_empty();
}

#[test]
fn latency_reports_quantiles_in_ascending_order() {
    let test_folder = TestFolder::new();
    for rest in ["--sleep", "--spin=50"] {
        let arguments = ["perf", "latency", "--size", "128", "--rounds", "300", rest];
        let more = ["--baseline", "--runs", "1", "--json"];
        let report = test_folder.run(&[&arguments[..], &more[..]].concat()).code(0).json();
        let quantiles = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns"];
        let times: Vec<u64> = quantiles.iter().map(|name| report[name].as_u64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] > 0, "{times:?}");
        assert_eq!(report["rounds"], 300);
        has(&report, &["baseline", "ratio", "ratio_sleep", "cpu_s", "allocs", "machine"]);
        let slept = ["ping", "pong"].map(|side| report[side]["parks"].as_u64().unwrap());
        // A side sleeps for every sample, except for samples that arrive while it is about to
        // sleep; their number depends on the machine.
        assert!(rest != "--sleep" || slept.iter().all(|parks| *parks > 0), "{slept:?}");
    }
    test_folder.assert_empty();
}

#[test]
fn manually_started_roles_meet_and_leave() {
    let test_folder = TestFolder::new();
    let mut subscriber = test_folder.start(&["perf", "sub", "--size", "64", "--json"]);
    let publisher =
        test_folder.run(&["perf", "pub", "--size", "64", "--count", "300", "--json"]).code(0);
    assert_eq!(publisher.json()["sent"], 300);
    let seen = subscriber.result();
    assert_eq!((&seen["received"], &seen["lost"]), (&300.into(), &0.into()));
    subscriber.leaves_with(0);
    let mut pong = test_folder.start(&["perf", "pong", "--size", "64", "--json"]);
    let ping =
        test_folder.run(&["perf", "ping", "--size", "64", "--count", "100", "--json"]).code(0);
    assert_eq!(ping.json()["count"], 100);
    assert_eq!(pong.result()["answered"], 110);
    pong.leaves_with(0);
    test_folder.assert_empty();
}

#[test]
fn perf_bare_measures_ring_alone_without_lost_message() {
    let test_folder = TestFolder::new();
    let cases = [
        ("stable", 16, "1", "64"),
        ("stable", 128, "3", "1"),
        ("stable", 128, "3", "64"),
        ("stable", 100_000, "2", "64"),
        ("plain", 128, "2", "64"),
        ("futex", 128, "2", "64"),
    ];
    for (kind, size, subs, every) in cases {
        let size = size.to_string();
        let more = ["--every", every, "--seconds", "0.1", "--json"];
        let arguments = ["perf", "bare", "--kind", kind, "--size", &size, "--subs", subs];
        let report = test_folder.run(&[&arguments[..], &more[..]].concat()).code(0).json();
        has(&report, &["kind", "msgs_per_s", "bytes_per_s", "cpu_s", "machine", "commit"]);
        // Each reader has checked every message, or the run would have failed.
        let written = report["written"].as_u64().unwrap();
        let readers = report["read_by"].as_array().unwrap();
        assert!(written > 0);
        assert_eq!(readers.len().to_string(), subs);
        assert!(readers.iter().all(|read| *read == written), "{report}");
    }
    let arguments = "perf bare --kind stable --size 64 --seconds 0.05";
    let text = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0);
    assert!(text.out.contains("messages/s"), "{}", text.out);
    test_folder.assert_empty();
}

#[test]
fn perf_sst_measures_shared_state_table() {
    let test_folder = TestFolder::new();
    let arguments = "perf sst --count 500 --seconds 0.05 --runs 1 --json";
    let report = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0).json();
    has(&report["detect"], &["p50_ns", "baseline", "ratio", "runs"]);
    assert_eq!(report["detect"]["rounds"], 500);
    let tables = report["evaluate"].as_array().unwrap();
    assert_eq!(tables.iter().map(|t| t["rows"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 8, 32]);
    assert!(tables.iter().all(|table| table["evaluations"].as_u64() > Some(0)));
    assert_eq!(report["count"]["target"], 500);
    has(&report["count"], &["per_s", "step_ns", "baseline", "ratio"]);
    let arguments = "perf sst --what count --count 200 --nodes 3 --runs 1 --json";
    let report = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(0).json();
    assert_eq!(report["count"]["nodes"], 3);
    assert!(report.get("detect").is_none());
    test_folder.assert_empty();
}

#[test]
fn run_over_time_limit_fails_and_leaves_no_process() {
    let test_folder = TestFolder::new();
    let arguments = "perf throughput --size 64 --seconds 100 --limit 1 --json";
    let run = test_folder.run(&arguments.split(' ').collect::<Vec<_>>()).code(1).says("--limit");
    assert!(run.json()["error"].as_str().unwrap().contains("too long"));
    test_folder.wait_until_empty();
    assert_eq!(processes_of(&test_folder), 0);
}

#[test]
fn children_leave_when_the_command_is_killed() {
    let test_folder = TestFolder::new();
    let mut command =
        test_folder.start(&["perf", "throughput", "--size", "64", "--seconds", "100"]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while processes_of(&test_folder) < 3 {
        assert!(std::time::Instant::now() < deadline, "the children start");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    command.kill();
    while processes_of(&test_folder) > 0 {
        assert!(std::time::Instant::now() < deadline, "the children leave");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // The last process has removed the folder, too.
    test_folder.wait_until_empty();
}

/// Returns the processes of the command whose temporary folder is this place.
fn processes_of(test_folder: &TestFolder) -> usize {
    let mark = format!("TMPDIR={}\0", test_folder.path().display());
    let is_ours = |entry: &std::fs::DirEntry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(is_ours).count()
}

#[test]
fn doctor_reports_each_check_and_advice_for_failures() {
    let test_folder = TestFolder::new();
    let report = test_folder.run(&["doctor", "--json"]).json();
    let checks = report["checks"].as_array().unwrap();
    for check in checks {
        has(check, &["name", "ok", "found", "advice"]);
        assert!(check["ok"] == true || check["advice"] != "", "{check}");
    }
    for name in ["memory", "memlock", "cores", "runtime dir", "memfd sealing", "eventfd"] {
        assert!(checks.iter().any(|check| check["name"] == name), "no check of {name}");
    }
    let text = test_folder.run(&["doctor"]);
    assert!(text.out.contains("eventfd"), "{}", text.out);
    // A file in place of the folder.
    let file = test_folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = test_folder.run(&["doctor", "--json", "--runtime-dir", file.to_str().unwrap()]);
    let report = refused.code(1).json();
    let checks = report["checks"].as_array().unwrap();
    let dir = checks.iter().find(|check| check["name"] == "runtime dir").unwrap();
    assert_eq!(dir["ok"], false);
    std::fs::remove_file(file).unwrap();
    test_folder.assert_empty();
}

#[test]
fn sim_figure_writes_csv_svg_and_json() {
    let test_folder = TestFolder::new();
    let out = test_folder.path().join("out");
    let arguments = ["sim", "figure", "sst-table5", "--quick", "--json", "--out"];
    let run = test_folder.run(&[&arguments[..], &[out.to_str().unwrap()]].concat()).code(0);
    let report = run.json();
    assert_eq!(report["figure"], "sst-table5");
    has(&report, &["series", "paper", "measured"]);
    for ending in ["csv", "svg", "json"] {
        let path = out.join(format!("sst-table5.{ending}"));
        assert!(std::fs::metadata(&path).unwrap().len() > 0, "{}", path.display());
    }
    let text = test_folder.run(&arguments[..4]).code(0);
    assert!(text.out.contains("sst-table5"), "{}", text.out);
}
