//! `squall log`: what it says of logs that are sound, torn, bad and cut.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::fs;
use std::path::Path;

use derecho_core::ids::NodeId;
use derecho_core::log::{
    Check, Entry, EpochId, GroupId, KeyHash, Kind, Limits, LogId, StreamKey, StreamLog, WallTime,
    folder,
};
use derecho_node::logs::Folder;
use support::Place;

const STREAM: StreamKey = StreamKey(0x4f);

/// Logs these versions, each by a commit of its own.
fn write(dir: &Path, versions: std::ops::RangeInclusive<u64>) {
    Folder::make(dir).unwrap();
    let mut disk = Folder::open(dir).unwrap();
    let owner = folder::claim(&mut disk, GroupId(1), LogId(2)).unwrap();
    let limits = Limits { segment_bytes: 2000 };
    let (mut log, _) = StreamLog::open(&mut disk, (owner, STREAM), limits, Check::All).unwrap();
    for version in versions {
        let entry = Entry {
            kind: Kind::Sample,
            epoch: EpochId { view: 1, sequence: 0 },
            writer: NodeId(9),
            writer_sequence: version,
            source_time: WallTime(version),
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
fn a_sound_log_is_listed_dumped_and_verified() {
    let place = Place::new();
    let dir = place.path().join("log");
    write(&dir, 1..=40);
    let dir = dir.to_str().unwrap();
    for command in ["ls", "verify", "dump"] {
        let report = place.run(&["log", command, dir, "--json"]).code(0).json();
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
    }
    let text =
        place.run(&["log", "dump", dir, "--from", "3", "--to", "4", "--payload"]).code(0).out;
    assert!(text.contains("4f 3 sample epoch 1.0") && text.contains("3 bytes 666c79"), "{text}");
    assert!(!text.contains("4f 5 sample"), "{text}");
    let report =
        place.run(&["log", "dump", dir, "--from", "39", "--stream", "4f", "--json"]).code(0).json();
    assert_eq!(
        (report["dump"].as_array().unwrap().len(), &report["dump"][1]["seq"]),
        (2, &40.into())
    );
    assert!(place.run(&["log", "verify", dir]).code(0).out.contains("Nothing is wrong"));
}

#[test]
fn a_log_that_was_put_aside_is_told_and_can_be_read() {
    let place = Place::new();
    let dir = place.path().join("log");
    write(&dir, 1..=40);
    {
        let mut disk = Folder::open(&dir).unwrap();
        let owner = folder::owner(&mut disk).unwrap().unwrap();
        let of = (owner, STREAM);
        let (mut log, _) = StreamLog::open(&mut disk, of, Limits::default(), Check::Last).unwrap();
        assert_eq!(log.put_aside(&mut disk).unwrap(), 1);
    }
    write(&dir, 1..=3);
    let dir = dir.to_str().unwrap();
    let report = place.run(&["log", "verify", dir, "--json"]).code(0).json();
    assert_eq!(
        (&report["records"], &report["aside"][STREAM.to_string()][0]),
        (&3.into(), &1.into())
    );
    let text = place.run(&["log", "ls", dir]).code(0).out;
    assert!(text.contains("Put aside") && text.contains("number 1"), "{text}");
    for command in ["ls", "verify", "dump"] {
        let report = place.run(&["log", command, dir, "--aside", "1", "--json"]).code(0).json();
        assert_eq!((&report["records"], &report["last_seq"]), (&40.into(), &40.into()), "{report}");
    }
}

#[test]
fn a_torn_tail_is_told_and_is_no_error() {
    let place = Place::new();
    let dir = place.path().join("log");
    write(&dir, 1..=3);
    let file = dir.join(segment(1));
    let length = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 5).unwrap();
    let report = place.run(&["log", "verify", dir.to_str().unwrap(), "--json"]).code(0).json();
    assert_eq!((&report["last_seq"], &report["torn_tail"]["bytes"]), (&2.into(), &115.into()));
    // Whoever only looks changes nothing.
    assert_eq!(fs::metadata(&file).unwrap().len(), length - 5);
}

#[test]
fn a_bad_record_is_located_and_the_log_can_be_cut_before_it() {
    let place = Place::new();
    let dir = place.path().join("log");
    write(&dir, 1..=40);
    let file = dir.join(segment(1));
    let mut bytes = fs::read(&file).unwrap();
    // The payload of the third record.
    bytes[128 + 2 * 120 + 113] ^= 4;
    fs::write(&file, bytes).unwrap();
    let dir = dir.to_str().unwrap();
    let report = place.run(&["log", "verify", dir, "--json"]).code(1).json();
    let error = report["errors"][0].as_str().unwrap();
    assert!(
        error.contains(&segment(1)) && error.contains("offset 368") && error.contains("version 3"),
        "{error}"
    );
    assert_eq!((report["errors"].as_array().unwrap().len(), &report["records"]), (1, &39.into()));
    assert!(place.run(&["log", "verify", dir]).code(1).out.contains("BAD"));

    place
        .run(&["log", "truncate", dir, "--stream", "4f", "--after", "3"])
        .code(1)
        .says("version 3");
    let report = place
        .run(&["log", "truncate", dir, "--stream", "4f", "--after", "2", "--json"])
        .code(0)
        .json();
    assert_eq!((&report["records"], &report["last_seq"]), (&2.into(), &2.into()));
    write(Path::new(dir), 3..=5);
    assert_eq!(place.run(&["log", "verify", dir, "--json"]).code(0).json()["last_seq"], 5);
}

#[test]
fn wrong_usage_and_wrong_folders_are_explained() {
    let place = Place::new();
    let dir = place.path().join("log");
    write(&dir, 1..=2);
    let (here, dir) = (place.path().to_str().unwrap(), dir.to_str().unwrap());
    place.run(&["log", "ls", dir, "--stream", "xyz"]).code(2).says("no hexadecimal number");
    place.run(&["log", "truncate", dir]).code(2).says("--stream");
    place.run(&["log", "ls", dir, "--stream", "5"]).code(1).says("no stream");
    place.run(&["log", "ls", here]).code(1).says("no log folder");
    place.run(&["log", "ls", "/nowhere/at/all"]).code(1).says("it is not there");
    let _held = Folder::open(Path::new(dir)).unwrap();
    place
        .run(&["log", "truncate", dir, "--stream", "4f", "--after", "1"])
        .code(1)
        .says("another process");
}
