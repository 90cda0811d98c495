//! Files of a log: errors are reported, intact parts are read, and a log that opens accepts a
//! record and is read again. Every checksum is right here, because a wrong checksum would stop the
//! input before the record decoder.

use std::collections::BTreeMap;

use derecho_core::ids::NodeId;
use derecho_core::log::checksum::Checksum;
use derecho_core::log::index;
use derecho_core::log::segment::{FileHeader, FileKind};
use derecho_core::log::survey::survey;
use derecho_core::log::{
    Disk, DiskError, EpochId, GroupId, KeyHash, LogEntry, LogId, LogKey, LogLimits, LogOwner,
    RecordKind, RecoveryCheck, StreamKey, StreamLog, Version, WallTime,
};

use crate::frames::{frame, frames};
use crate::outcome::{Outcome, OutcomeBuilder};

const OWNER: LogOwner = LogOwner { group: GroupId(7), log: LogId(8) };
const STREAM: StreamKey = StreamKey(9);
/// Maximum number of records read from a log that the input does not limit.
const MOST: usize = 10_000;

/// A folder in memory in which every checksum is right.
#[derive(Clone, Default)]
struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn of(&mut self, name: &str) -> Result<&mut Vec<u8>, DiskError> {
        self.0.get_mut(name).ok_or(DiskError::NotFound)
    }
}

fn right(_: &[u8]) -> u32 {
    0
}

impl Disk for Files {
    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        Ok(self.0.keys().cloned().collect())
    }

    fn length(&mut self, name: &str) -> Result<u64, DiskError> {
        self.of(name).map(|file| file.len() as u64)
    }

    fn read_at(&mut self, name: &str, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        let file = self.of(name)?;
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(file.len());
        let count = into.len().min(file.len() - from);
        into[..count].copy_from_slice(&file[from..from + count]);
        Ok(count)
    }

    fn create(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.insert(name.into(), Vec::new());
        Ok(())
    }

    fn write_at(&mut self, name: &str, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let file = self.of(name)?;
        let from = usize::try_from(at).map_err(|_| DiskError::Full)?;
        assert!(from <= 1 << 24, "a log writes far beyond its end");
        file.resize(file.len().max(from + bytes.len()), 0);
        file[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync_file(&mut self, _: &str) -> Result<(), DiskError> {
        Ok(())
    }

    fn sync_folder(&mut self) -> Result<(), DiskError> {
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let file = self.0.remove(from).ok_or(DiskError::NotFound)?;
        self.0.insert(to.into(), file);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.remove(name).map(drop).ok_or(DiskError::NotFound)
    }

    fn truncate(&mut self, name: &str, length: u64) -> Result<(), DiskError> {
        let file = self.of(name)?;
        file.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(())
    }

    fn checksum(&self) -> Checksum {
        right
    }
}

/// Returns the files that an input names by number: two segments, a checkpoint, and an index.
fn names() -> [String; 4] {
    let name = |kind, version| {
        let epoch = EpochId { view: 0, sequence: 0 };
        FileHeader { owner: OWNER, stream: STREAM, version: Version(version), kind, epoch }.name()
    };
    let first = name(FileKind::Segment, 1);
    let index = index::name_of(&first);
    [first, name(FileKind::Segment, 4), name(FileKind::Checkpoint, 3), index]
}

fn entry(number: u64, payload: &[u8]) -> LogEntry<'_> {
    LogEntry {
        kind: RecordKind::Sample,
        epoch: EpochId { view: u64::MAX, sequence: number },
        writer: NodeId(3),
        writer_sequence: number,
        source_time: WallTime(number),
        reception_time: WallTime(0),
        key: KeyHash::default(),
        payload,
    }
}

/// Returns a log of a number of records, divided into segments by the given limit, as an input.
pub fn log_of(records: u64, segment_bytes: u64) -> Vec<u8> {
    let mut files = Files::default();
    let limits = LogLimits { segment_bytes };
    let (mut log, _) = StreamLog::open(
        &mut files,
        LogKey { owner: OWNER, stream: STREAM },
        limits,
        RecoveryCheck::All,
    )
    .expect("an empty folder is an empty log");
    for number in 1..=records {
        let payload = vec![number as u8; 10 * number as usize];
        let of = LogEntry {
            epoch: EpochId { view: 0, sequence: number / 2 },
            ..entry(number, &payload)
        };
        log.append(of, &files).expect("the record is short");
        log.write(&mut files).expect("the disk takes it");
        log.sync(&mut files).expect("the disk keeps it");
    }
    let names = names();
    let number = |name: &String| names.iter().position(|known| known == name);
    let known = files.0.iter().filter_map(|(name, bytes)| Some((number(name)?, bytes)));
    known.flat_map(|(number, bytes)| frame(number as u8, bytes)).collect()
}

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    let (mut files, names) = (Files::default(), names());
    for (which, content) in frames(bytes) {
        let name = &names[usize::from(which) % names.len()];
        files.0.entry(name.clone()).or_default().extend(content);
    }
    outcome.size(files.0.len());
    let mut seen = 0;
    match survey(&mut files, LogKey { owner: OWNER, stream: STREAM }, |record| {
        seen += record.entry.payload.len()
    }) {
        Ok(found) => {
            outcome.size(found.records as usize).size(seen).size(found.errors.len());
            for error in found.errors.iter().take(2) {
                outcome.said(&error.to_string());
            }
        }
        Err(error) => {
            outcome.said(&error.to_string());
        }
    }
    for check in [RecoveryCheck::Last, RecoveryCheck::All] {
        match StreamLog::read(&mut files, LogKey { owner: OWNER, stream: STREAM }, check) {
            Ok((log, _)) => outcome.size(read(&log, &mut files)),
            Err(error) => outcome.said(&error.to_string()),
        };
    }
    match StreamLog::open(
        &mut files,
        LogKey { owner: OWNER, stream: STREAM },
        LogLimits::default(),
        RecoveryCheck::All,
    ) {
        Ok((log, _)) => accepts_record(log, &mut files, &mut outcome),
        Err(error) => {
            outcome.said(&error.to_string());
        }
    }
    outcome.outcome()
}

/// Reads all readable records; returns their number.
fn read(log: &StreamLog, files: &mut Files) -> usize {
    let mut cursor = log.since(WallTime(0));
    (0..MOST).take_while(|_| matches!(cursor.next(files, log), Ok(Some(_)))).count()
}

/// Appends one record to an open log, and reads it again.
fn accepts_record(mut log: StreamLog, files: &mut Files, outcome: &mut OutcomeBuilder) {
    let last = log.tail();
    if last.epoch.view == u64::MAX || last.version.0 >= u64::MAX - 1 {
        return;
    }
    let appended = log.append(entry(1, b"one more"), &*files);
    let written = appended.is_ok() && log.write(files).is_ok() && log.sync(files).is_ok();
    outcome.kind(written);
    if !written {
        return;
    }
    let (again, _) =
        StreamLog::read(files, LogKey { owner: OWNER, stream: STREAM }, RecoveryCheck::Last)
            .expect("the log was open");
    assert_eq!(again.tail().version.0, last.version.0 + 1, "a synced record is missing");
}
