//! `squall log`: its output for logs that are intact, torn, damaged and cut.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::fs;
use std::path::Path;

use derecho_core::bytes::Wire;
use derecho_core::ids::NodeId;
use derecho_core::log::restart_permission::permissions;
use derecho_core::log::views::{LoggedMember, LoggedView, VIEWS};
use derecho_core::log::{
    EpochId, GroupId, KeyHash, LogEntry, LogId, LogKey, LogLimits, RecordKind, RecoveryCheck,
    StreamKey, StreamLog, WallTime, folder,
};
use derecho_node::logs::LogFolder;
use support::TestFolder;

const STREAM: StreamKey = StreamKey(0x4f);

/// Logs these versions, each with a commit of its own.
fn write(dir: &Path, versions: std::ops::RangeInclusive<u64>) {
    write_as(LogId(2), dir, versions);
}

fn write_as(log: LogId, dir: &Path, versions: std::ops::RangeInclusive<u64>) {
    LogFolder::make(dir).unwrap();
    let mut disk = LogFolder::open(dir).unwrap();
    let owner = folder::claim(&mut disk, GroupId(1), log).unwrap();
    let limits = LogLimits { segment_bytes: 2000 };
    let (mut log, _) =
        StreamLog::open(&mut disk, LogKey { owner, stream: STREAM }, limits, RecoveryCheck::All)
            .unwrap();
    for version in versions {
        let entry = LogEntry {
            kind: RecordKind::Sample,
            epoch: EpochId { view: 1, sequence: 0 },
            writer: NodeId(9),
            writer_sequence: version,
            source_time: WallTime(1000 * version),
            reception_time: WallTime(version),
            key: KeyHash([7; 16]),
            payload: b"fly",
        };
        log.append(entry, &disk).unwrap();
        log.commit(&mut disk).unwrap();
    }
}

fn segment(first: u64) -> String {
    format!("{STREAM}-{first:016x}.log")
}

#[test]
fn intact_log_is_listed_dumped_and_verified() {
    let test_folder = TestFolder::new();
    let dir = test_folder.path().join("log");
    write(&dir, 1..=40);
    let dir = dir.to_str().unwrap();
    for command in ["ls", "verify", "dump"] {
        let report = test_folder.run(&["log", command, dir, "--json"]).code(0).json();
        assert_eq!(
            (&report["records"], &report["first_seq"], &report["last_seq"]),
            (&40.into(), &1.into(), &40.into())
        );
        assert!(report["bytes"].as_u64().unwrap() > 4000, "{report}");
        assert!(
            report["torn_tail"].is_null() && report["errors"].as_array().unwrap().is_empty(),
            "{report}"
        );
        assert_eq!(report["streams"][0]["stream"], "0000000000000000000000000000004f");
        let dates = ["first_date", "last_date"].map(|name| report["streams"][0][name].clone());
        assert_eq!(dates, ["1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000040Z"]);
    }
    let text =
        test_folder.run(&["log", "dump", dir, "--from", "3", "--to", "4", "--payload"]).code(0).out;
    assert!(text.contains("4f 3 sample epoch 1.0") && text.contains("3 bytes 666c79"), "{text}");
    assert!(!text.contains("4f 5 sample"), "{text}");
    let report = test_folder
        .run(&["log", "dump", dir, "--from", "39", "--stream", "4f", "--json"])
        .code(0)
        .json();
    assert_eq!(
        (report["dump"].as_array().unwrap().len(), &report["dump"][1]["seq"]),
        (2, &40.into())
    );
    assert!(test_folder.run(&["log", "verify", dir]).code(0).out.contains("Nothing is wrong"));
}

#[test]
fn log_put_aside_is_reported_and_can_be_read_and_removed() {
    let test_folder = TestFolder::new();
    let dir = test_folder.path().join("log");
    write(&dir, 1..=40);
    {
        let mut disk = LogFolder::open(&dir).unwrap();
        let owner = folder::owner(&mut disk).unwrap().unwrap();
        let of = LogKey { owner, stream: STREAM };
        let (mut log, _) =
            StreamLog::open(&mut disk, of, LogLimits::default(), RecoveryCheck::Last).unwrap();
        assert_eq!(log.put_aside(&mut disk).unwrap(), 1);
    }
    write(&dir, 1..=3);
    let dir = dir.to_str().unwrap();
    let report = test_folder.run(&["log", "verify", dir, "--json"]).code(0).json();
    assert_eq!((&report["records"], &report["aside"][0]["number"]), (&3.into(), &1.into()));
    let aside = &report["aside"][0];
    assert_eq!((&aside["stream"], &aside["last_seq"]), (&STREAM.to_string().into(), &40.into()));
    assert!(aside["bytes"].as_u64().unwrap() > 4000, "{report}");
    let text = test_folder.run(&["log", "ls", dir]).code(0).out;
    assert!(text.contains("Put aside") && text.contains("number 1, records 1 to 40, "), "{text}");
    for command in ["ls", "verify", "dump"] {
        let report =
            test_folder.run(&["log", command, dir, "--aside", "1", "--json"]).code(0).json();
        assert_eq!((&report["records"], &report["last_seq"]), (&40.into(), &40.into()), "{report}");
    }
    let remove = |number: &str, more: &[&str]| {
        test_folder.run(&[&["log", "remove-aside", dir, "--number", number], more].concat())
    };
    remove("2", &[]).code(1).says("nothing was put aside as number 2");
    remove("1", &["--stream", "5"]).code(1).says("nothing of stream");
    {
        let _held = LogFolder::open(Path::new(dir)).unwrap();
        remove("1", &[]).code(1).says("another process");
    }
    let report = remove("1", &["--json"]).code(0).json();
    assert!(report["removed"][0]["bytes"].as_u64().unwrap() > 4000, "{report}");
    let report = test_folder.run(&["log", "verify", dir, "--json"]).code(0).json();
    assert_eq!((&report["records"], report["aside"].as_array().unwrap().len()), (&3.into(), 0));
    assert!(fs::read_dir(dir).unwrap().all(|it| !it.unwrap().path().ends_with(".aside")));
}

#[test]
fn views_are_listed_and_dumped_as_text() {
    let test_folder = TestFolder::new();
    let dir = test_folder.path().join("log");
    LogFolder::make(&dir).unwrap();
    {
        let mut disk = LogFolder::open(&dir).unwrap();
        let owner = folder::claim(&mut disk, GroupId(1), LogId(2)).unwrap();
        let of = LogKey { owner, stream: VIEWS };
        let (mut log, _) =
            StreamLog::open(&mut disk, of, LogLimits::default(), RecoveryCheck::All).unwrap();
        for number in 1..=3 {
            let member = |node| LoggedMember {
                node: NodeId(node),
                log: (node == 1).then_some(LogId(2)),
                votes: 1,
                weight: 1,
            };
            let members = (1..=u128::from(number)).map(member).collect();
            let view = LoggedView { era: 7, number, members, awaits: vec![LogId(0xfe)] };
            log.append(view.entry(&view.to_bytes(), WallTime(1)), &disk).unwrap();
            log.commit(&mut disk).unwrap();
        }
    }
    let dir = dir.to_str().unwrap();
    let report = test_folder.run(&["log", "ls", dir, "--json"]).code(0).json();
    let last = &report["last_view"];
    assert_eq!((&last["era"], &last["number"]), (&7.into(), &3.into()), "{report}");
    assert_eq!(last["members"].as_array().unwrap().len(), 3);
    assert_eq!(last["members"][0]["log"], LogId(2).to_string());
    assert!(last["members"][1]["log"].is_null() && last["awaits"][0] == LogId(0xfe).to_string());
    let text = test_folder.run(&["log", "ls", dir]).code(0).out;
    assert!(text.contains("views") && text.contains("The last view: view 3 of era 7"), "{text}");
    let text = test_folder.run(&["log", "dump", dir]).code(0).out;
    assert!(text.contains("0 2 view 2 of era 7") && text.contains("; awaits 0"), "{text}");
    let report = test_folder.run(&["log", "dump", dir, "--from", "2", "--json"]).code(0).json();
    assert_eq!(report["dump"][0]["view"]["number"], 2);
}

/// Makes a root with one folder, whose last view names these logs.
fn root_that_awaits(root: &Path, logs: &[u128]) -> std::path::PathBuf {
    let home = root.join("domain-0");
    LogFolder::make(&home).unwrap();
    let dir = home.join("0");
    LogFolder::make(&dir).unwrap();
    let mut disk = LogFolder::open(&dir).unwrap();
    let owner = folder::claim(&mut disk, GroupId(1), LogId(2)).unwrap();
    let of = LogKey { owner, stream: VIEWS };
    let (mut log, _) =
        StreamLog::open(&mut disk, of, LogLimits::default(), RecoveryCheck::All).unwrap();
    let member = |log: &u128| LoggedMember {
        node: NodeId(100 + log),
        log: Some(LogId(*log)),
        votes: 1,
        weight: 1,
    };
    let members = logs.iter().map(member).collect();
    let view = LoggedView { era: 7, number: 3, members, awaits: Vec::new() };
    log.append(view.entry(&view.to_bytes(), WallTime(1)), &disk).unwrap();
    log.commit(&mut disk).unwrap();
    home
}

#[test]
fn proceed_command_records_decision_to_restart_without_missing_log() {
    let test_folder = TestFolder::new();
    let home = root_that_awaits(test_folder.path(), &[2, 0x4f, 0x50]);
    let dir = home.to_str().unwrap();
    let (missing, other) = (LogId(0x4f).to_string(), LogId(0x50).to_string());
    let text = test_folder.run(&["log", "proceed", dir]).code(0).out;
    assert!(text.contains(&missing) && text.contains(&other), "{text}");
    test_folder.run(&["log", "proceed", dir, "--without", "xyz"]).code(2).says("no log's identity");
    test_folder
        .run(&["log", "proceed", dir, "--without", "2", "--by", "anna"])
        .code(1)
        .says("no restart waits for this log");
    test_folder
        .run(&["log", "proceed", dir, "--without", "77", "--by", "anna"])
        .code(1)
        .says(&missing);
    test_folder
        .run(&["log", "proceed", dir, "--without", "4f", "--by", " "])
        .code(2)
        .says("say who you are");
    let here = test_folder.path().to_str().unwrap();
    test_folder.run(&["log", "proceed", here]).code(1).says("no log folder");
    let report = test_folder
        .run(&["log", "proceed", dir, "--without", "4f", "--by", "anna", "--json"])
        .code(0);
    let report = report.json();
    assert_eq!((&report["awaited"][0], &report["runs"]), (&other.into(), &false.into()));
    let output = permissions(&mut LogFolder::read(&home).unwrap()).unwrap();
    assert_eq!(output.len(), 1);
    assert_eq!(
        (output[0].without, output[0].after, output[0].by.as_str()),
        (LogId(0x4f), (7, 3), "anna")
    );
    assert!(output[0].at > WallTime(1 << 60));
    let text = test_folder.run(&["log", "proceed", dir]).code(0).out;
    assert!(text.contains("anna has decided") && text.contains("view 3 of era 7"), "{text}");
}

/// A damaged log that is present is awaited until the operator decides to continue without it
/// (I-98); damage in a closed file is found.
#[test]
fn proceed_command_records_decision_to_restart_without_damaged_log() {
    let test_folder = TestFolder::new();
    let home = root_that_awaits(test_folder.path(), &[2, 0x4f]);
    write_as(LogId(0x4f), &home.join("1"), 1..=40);
    let dir = home.to_str().unwrap();
    assert!(test_folder.run(&["log", "proceed", dir]).code(0).out.contains("Nothing is awaited"));
    let file = home.join("1").join(segment(1));
    let mut bytes = fs::read(&file).unwrap();
    bytes[700] ^= 1;
    fs::write(&file, bytes).unwrap();
    let harmed = LogId(0x4f).to_string();
    let text = test_folder.run(&["log", "proceed", dir]).code(0).out;
    assert!(
        text.contains(&format!("log {harmed}, which is damaged")) && text.contains("is bad"),
        "{text}"
    );
    test_folder
        .run(&["log", "proceed", dir, "--without", "2", "--by", "anna"])
        .code(1)
        .says("no restart waits for this log");
    let report = test_folder
        .run(&["log", "proceed", dir, "--without", "4f", "--by", "anna", "--json"])
        .code(0);
    assert_eq!(report.json()["harmed"][0], harmed);
    assert_eq!(permissions(&mut LogFolder::read(&home).unwrap()).unwrap()[0].without, LogId(0x4f));
}

#[test]
fn proceed_command_refuses_decision_if_no_log_is_awaited() {
    let test_folder = TestFolder::new();
    let home = root_that_awaits(test_folder.path(), &[2]);
    let dir = home.to_str().unwrap();
    assert!(test_folder.run(&["log", "proceed", dir]).code(0).out.contains("Nothing is awaited"));
    test_folder
        .run(&["log", "proceed", dir, "--without", "4f", "--by", "anna"])
        .code(1)
        .says("no log is awaited");
}

#[test]
fn torn_tail_is_reported_and_is_no_error() {
    let test_folder = TestFolder::new();
    let dir = test_folder.path().join("log");
    write(&dir, 1..=3);
    let file = dir.join(segment(1));
    // A record truncated by a crash.
    let mut bytes = fs::read(&file).unwrap();
    let length = bytes.len();
    bytes.extend_from_within(length - 120..length - 5);
    fs::write(&file, &bytes).unwrap();
    let report =
        test_folder.run(&["log", "verify", dir.to_str().unwrap(), "--json"]).code(0).json();
    assert_eq!((&report["last_seq"], &report["torn_tail"]["bytes"]), (&3.into(), &115.into()));
    // Reading changes nothing.
    assert_eq!(fs::metadata(&file).unwrap().len(), bytes.len() as u64);
}

/// A log that lacks synced records is neither a torn tail nor an empty log (I-97).
#[test]
fn truncated_or_removed_log_file_is_reported_as_error() {
    let test_folder = TestFolder::new();
    let dir = test_folder.path().join("log");
    write(&dir, 1..=3);
    let file = dir.join(segment(1));
    let length = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 5).unwrap();
    let text = dir.to_str().unwrap();
    for command in ["ls", "verify"] {
        let out = test_folder.run(&["log", command, text]).code(1).out;
        assert!(out.contains("was synced up to") && out.contains("squall log truncate"), "{out}");
    }
    let cut = ["log", "truncate", text, "--stream", "4f", "--after"];
    test_folder.run(&[&cut[..], &["2"]].concat()).code(0);
    write(&dir, 3..=4);
    test_folder.run(&["log", "verify", text]).code(0);
    fs::remove_file(&file).unwrap();
    for command in ["ls", "verify"] {
        let out = test_folder.run(&["log", command, text]).code(1).out;
        assert!(out.contains(&segment(1)) && out.contains("is gone"), "{out}");
    }
    test_folder.run(&[&cut[..], &["0"]].concat()).code(0);
    write(&dir, 1..=2);
    test_folder.run(&["log", "verify", text]).code(0);
}

#[test]
fn bad_record_is_located_and_removable_by_truncation() {
    let test_folder = TestFolder::new();
    let dir = test_folder.path().join("log");
    write(&dir, 1..=40);
    let file = dir.join(segment(1));
    let mut bytes = fs::read(&file).unwrap();
    // Damages the payload of the third record.
    bytes[128 + 2 * 120 + 113] ^= 4;
    fs::write(&file, bytes).unwrap();
    let dir = dir.to_str().unwrap();
    let report = test_folder.run(&["log", "verify", dir, "--json"]).code(1).json();
    let error = report["errors"][0].as_str().unwrap();
    assert!(
        error.contains(&segment(1)) && error.contains("offset 368") && error.contains("version 3"),
        "{error}"
    );
    assert_eq!((report["errors"].as_array().unwrap().len(), &report["records"]), (1, &39.into()));
    assert!(test_folder.run(&["log", "verify", dir]).code(1).out.contains("BAD"));

    test_folder
        .run(&["log", "truncate", dir, "--stream", "4f", "--after", "3"])
        .code(1)
        .says("version 3");
    let report = test_folder
        .run(&["log", "truncate", dir, "--stream", "4f", "--after", "2", "--json"])
        .code(0)
        .json();
    assert_eq!((&report["records"], &report["last_seq"]), (&2.into(), &2.into()));
    write(Path::new(dir), 3..=5);
    assert_eq!(test_folder.run(&["log", "verify", dir, "--json"]).code(0).json()["last_seq"], 5);
}

#[test]
fn log_commands_explain_wrong_usage_and_wrong_folders() {
    let test_folder = TestFolder::new();
    let dir = test_folder.path().join("log");
    write(&dir, 1..=2);
    let (here, dir) = (test_folder.path().to_str().unwrap(), dir.to_str().unwrap());
    test_folder.run(&["log", "ls", dir, "--stream", "xyz"]).code(2).says("no hexadecimal number");
    test_folder.run(&["log", "truncate", dir]).code(2).says("--stream");
    test_folder.run(&["log", "ls", dir, "--stream", "5"]).code(1).says("no stream");
    test_folder.run(&["log", "ls", here]).code(1).says("no log folder");
    test_folder.run(&["log", "ls", "/nowhere/at/all"]).code(1).says("it is not there");
    let _held = LogFolder::open(Path::new(dir)).unwrap();
    test_folder
        .run(&["log", "truncate", dir, "--stream", "4f", "--after", "1"])
        .code(1)
        .says("another process");
}
