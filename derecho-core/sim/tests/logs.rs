//! Logs on disks that do their worst, over thousands of seeds (I-80 to I-87).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::NodeId;
use derecho_core::log::survey::{survey, truncate};
use derecho_core::log::{
    Disk, DiskError, EpochId, GroupId, KeyHash, LogEntry, LogError, LogId, LogKey, LogLimits,
    LogOwner, RecordKind, RecoveryCheck, SegmentRetention, StreamKey, StreamLog, Version, WallTime,
    folder,
};
use derecho_sim::SimDisk;
use derecho_sim::log_life::{Hazards, LogLifeReport, live};

fn lives(seeds: std::ops::Range<u64>, hazards: Hazards) -> LogLifeReport {
    let mut all = LogLifeReport::default();
    for seed in seeds {
        all.add(&live(seed, hazards));
        assert!(all.violations.is_empty(), "{:?}", all.violations);
    }
    all
}

#[test]
fn durable_records_survive_all_disk_hazards() {
    let all = lives(0..4000, Hazards::ALL);
    println!("{all:?}");
    // Without an occurrence of each event the run proves nothing.
    for (count, what) in [
        (all.commits, "commits"),
        (all.crashes, "crashes"),
        (all.torn, "torn tails"),
        (all.failed_syncs, "failed syncs"),
        (all.full, "full disks"),
        (all.checkpoints, "checkpoints"),
        (all.dropped, "dropped segments"),
        (all.cuts, "cuts"),
        (all.decays, "decays"),
        (all.misdirected, "misdirected sectors"),
    ] {
        assert!(count >= 100, "only {count} {what}");
    }
}

#[test]
fn seed_determines_the_life_of_a_log() {
    for seed in 0..20 {
        assert_eq!(live(seed, Hazards::ALL), live(seed, Hazards::ALL));
    }
}

const OWNER: LogOwner = LogOwner { group: GroupId(1), log: LogId(2) };
const STREAM: StreamKey = StreamKey(0x4f);

/// Returns a disk with a closed log of `messages` messages in several files.
fn written(messages: u64) -> SimDisk {
    let mut disk = SimDisk::new(1);
    folder::claim(&mut disk, OWNER.group, OWNER.log).unwrap();
    let mut log = open(&mut disk).unwrap();
    (0..messages).for_each(|number| append(&mut log, number, &mut disk));
    disk
}

fn open(disk: &mut SimDisk) -> Result<StreamLog, LogError> {
    let limits = LogLimits { segment_bytes: 2000 };
    StreamLog::open(disk, LogKey { owner: OWNER, stream: STREAM }, limits, RecoveryCheck::Last)
        .map(|(log, _)| log)
}

fn append(log: &mut StreamLog, number: u64, disk: &mut SimDisk) {
    let entry = LogEntry {
        kind: RecordKind::Sample,
        epoch: EpochId { view: 1, sequence: 0 },
        writer: NodeId(9),
        writer_sequence: number,
        source_time: WallTime(number),
        reception_time: WallTime(number),
        key: KeyHash([7; 16]),
        payload: &[1; 100],
    };
    log.append(entry, disk).unwrap();
    log.commit(disk).unwrap();
}

fn segments(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.ends_with(".log")).collect()
}

/// Returns the fault of a log, which opening, reading and surveying it must report alike.
fn what_is_wrong(disk: &mut SimDisk) -> LogError {
    let read = StreamLog::read(disk, LogKey { owner: OWNER, stream: STREAM }, RecoveryCheck::All)
        .map(|_| ())
        .unwrap_err();
    let survey = survey(disk, LogKey { owner: OWNER, stream: STREAM }, |_| {}).unwrap();
    assert!(survey.errors.contains(&read), "{read}: {:?}", survey.errors);
    assert!(folder::streams(disk).unwrap().contains(&STREAM), "{read}");
    let opened = open(disk).map(|_| ()).unwrap_err();
    assert_eq!(opened, read);
    read
}

/// A log that is gone does not begin afresh as if nothing had been kept (I-97).
#[test]
fn missing_segments_are_reported() {
    let names = segments(&written(60));
    assert!(names.len() > 4, "{names:?}");
    for (gone, first) in [(&names[..], 0), (&names[..1], 0), (&names[names.len() - 1..], 1)] {
        let mut disk = written(60);
        for name in gone {
            disk.remove(name).unwrap();
        }
        disk.sync_folder().unwrap();
        let error = what_is_wrong(&mut disk);
        assert!(matches!(error, LogError::Lost { end: None, .. }), "{error}");
        let missing = if first == 0 { &names[0] } else { names.last().unwrap() };
        assert!(error.to_string().contains(missing), "{error}");
    }
}

/// A segment truncated below its synced length is not taken for one torn by a crash (I-97).
#[test]
fn truncated_segment_is_reported() {
    for cut in [1, 100, 300] {
        let mut disk = written(60);
        let name = segments(&disk).pop().unwrap();
        let length = disk.bytes(&name).len() as u64;
        disk.truncate(&name, length - cut).unwrap();
        disk.sync_file(&name).unwrap();
        let error = what_is_wrong(&mut disk);
        assert!(matches!(error, LogError::Lost { end: Some(_), .. }), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
        // An operator that accepts the loss can continue.
        let version = Version(55);
        truncate(&mut disk, LogKey { owner: OWNER, stream: STREAM }, version).unwrap();
        let mut log = open(&mut disk).unwrap();
        assert_eq!(log.durable(), version);
        append(&mut log, 55, &mut disk);
        assert_eq!(open(&mut disk).unwrap().durable(), version.next());
    }
}

/// A tail that a crash tears beyond the last sync is still cut, and a log that shortens itself
/// still opens.
#[test]
fn log_that_shortened_itself_opens() {
    let mut disk = written(60);
    let mut log = open(&mut disk).unwrap();
    log.cut_after(&mut disk, Version(20)).unwrap();
    drop(log);
    let mut log = open(&mut disk).unwrap();
    assert_eq!(log.durable(), Version(20));
    (20..60).for_each(|number| append(&mut log, number, &mut disk));
    let policy = SegmentRetention { messages: Some(5), ..SegmentRetention::default() };
    assert!(log.retain(&mut disk, policy, WallTime(0)).unwrap() > 2);
    drop(log);
    let mut log = open(&mut disk).unwrap();
    log.put_aside(&mut disk).unwrap();
    drop(log);
    assert_eq!(open(&mut disk).unwrap().durable(), Version(0));
}

/// Disk whose log has another writer, which drops its older segments just before the files
/// are listed.
struct SegmentDroppingDisk(SimDisk, bool);

impl Disk for SegmentDroppingDisk {
    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        if std::mem::take(&mut self.1) {
            let mut log = open(&mut self.0).unwrap();
            let policy = SegmentRetention { messages: Some(5), ..SegmentRetention::default() };
            assert!(log.retain(&mut self.0, policy, WallTime(0)).unwrap() > 2);
        }
        self.0.list()
    }

    fn length(&mut self, name: &str) -> Result<u64, DiskError> {
        self.0.length(name)
    }

    fn read_at(&mut self, name: &str, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.0.read_at(name, at, into)
    }

    fn create(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.create(name)
    }

    fn write_at(&mut self, name: &str, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.write_at(name, at, bytes)
    }

    fn sync_file(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.sync_file(name)
    }

    fn sync_folder(&mut self) -> Result<(), DiskError> {
        self.0.sync_folder()
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.0.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.remove(name)
    }

    fn truncate(&mut self, name: &str, length: u64) -> Result<(), DiskError> {
        self.0.truncate(name, length)
    }
}

/// Segments that the writer drops while a reader reads the log are not taken for lost (I-97).
#[test]
fn segments_dropped_during_a_read_are_not_reported_as_lost() {
    let log = StreamLog::read(
        &mut SegmentDroppingDisk(written(60), true),
        LogKey { owner: OWNER, stream: STREAM },
        RecoveryCheck::Last,
    );
    assert_eq!(log.unwrap().0.durable(), Version(60));
    let survey = survey(
        &mut SegmentDroppingDisk(written(60), true),
        LogKey { owner: OWNER, stream: STREAM },
        |_| {},
    )
    .unwrap();
    assert_eq!((survey.errors, survey.last), (vec![], Some(Version(60))));
}

/// A folder without records of its logs' extents opens as before; from its next opening on the
/// extents are recorded.
#[test]
fn log_without_extents_opens_and_then_records_extents() {
    let mut disk = written(60);
    disk.remove("extents").unwrap();
    let log = open(&mut disk).unwrap();
    assert_eq!(log.durable(), Version(60));
    drop(log);
    for name in segments(&disk) {
        disk.remove(&name).unwrap();
    }
    what_is_wrong(&mut disk);
    truncate(&mut disk, LogKey { owner: OWNER, stream: STREAM }, Version(0)).unwrap();
    assert_eq!(open(&mut disk).unwrap().durable(), Version(0));
}
