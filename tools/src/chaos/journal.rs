//! Journals: files in which members record events, and which survive the kill of a member.
//!
//! Owns: the file format. A journal is a sequence of records of three words. One call writes each
//! record whole, so that all records of a killed member are present.
//!
//! ```text
//!   file name    reader-<level>-<process>-<ordinal>, writer-<level>-<process>-<ordinal>,
//!                or member-<process>
//!   record       kind << 60 | value   time   time
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::sample::{ChaosLevel, SampleId};

/// A record. Times are nanoseconds of the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JournalRecord {
    /// A sample was delivered. Closing samples have their own kind.
    Delivered { id: SampleId, written: u64, delivered: u64 },
    /// The closing sample of a writer was delivered.
    Closing { id: SampleId, written: u64, delivered: u64 },
    /// The endpoint exists.
    Began { time: u64 },
    /// The endpoint was deleted in order. `count` is the number of samples that a writer
    /// has written.
    Deleted { time: u64, count: u64 },
    /// A writer had no successful write in this interval.
    Stalled { from: u64, to: u64 },
    /// A member's own clock tick was late: the process got no processor in this interval.
    Starved { from: u64, to: u64 },
    /// A delivered sample differs from the written one.
    Corrupt { id: SampleId, time: u64 },
}

const RECORD: usize = 24;
const KIND_SHIFT: u32 = 60;
/// Mask of a record's value. Identities of samples have four bits less than a word, so a kind fits
/// above them.
const VALUE: u64 = (1 << KIND_SHIFT) - 1;

impl JournalRecord {
    fn words(self) -> [u64; 3] {
        let (kind, value, first, second) = match self {
            JournalRecord::Delivered { id, written, delivered } => (0, id.0, written, delivered),
            JournalRecord::Closing { id, written, delivered } => (1, id.0, written, delivered),
            JournalRecord::Began { time } => (2, 0, time, 0),
            JournalRecord::Deleted { time, count } => (3, count, time, 0),
            JournalRecord::Stalled { from, to } => (4, 0, from, to),
            JournalRecord::Starved { from, to } => (5, 0, from, to),
            JournalRecord::Corrupt { id, time } => (6, id.0, time, 0),
        };
        [kind << KIND_SHIFT | (value & VALUE), first, second]
    }

    fn from_words([head, first, second]: [u64; 3]) -> Option<JournalRecord> {
        let (value, time) = (head & VALUE, first);
        let id = SampleId(value);
        Some(match head >> KIND_SHIFT {
            0 => JournalRecord::Delivered { id, written: first, delivered: second },
            1 => JournalRecord::Closing { id, written: first, delivered: second },
            2 => JournalRecord::Began { time },
            3 => JournalRecord::Deleted { time, count: value },
            4 => JournalRecord::Stalled { from: first, to: second },
            5 => JournalRecord::Starved { from: first, to: second },
            6 => JournalRecord::Corrupt { id, time },
            _ => return None,
        })
    }
}

/// Owner of a journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum JournalOwner {
    Reader { level: ChaosLevel, process: u32, ordinal: u32 },
    Writer { level: ChaosLevel, process: u32, ordinal: u32 },
    Member { process: u32 },
}

impl JournalOwner {
    pub(crate) fn file_name(self) -> String {
        match self {
            JournalOwner::Reader { level, process, ordinal } => {
                format!("reader-{level}-{process}-{ordinal}")
            }
            JournalOwner::Writer { level, process, ordinal } => {
                format!("writer-{level}-{process}-{ordinal}")
            }
            JournalOwner::Member { process } => format!("member-{process}"),
        }
    }

    pub(crate) fn from_file_name(name: &str) -> Option<JournalOwner> {
        let parts: Vec<&str> = name.split('-').collect();
        match parts.as_slice() {
            [kind @ ("reader" | "writer"), level, process, ordinal] => {
                let level = level.parse().ok()?;
                let (process, ordinal) = (process.parse().ok()?, ordinal.parse().ok()?);
                Some(match *kind {
                    "reader" => JournalOwner::Reader { level, process, ordinal },
                    _ => JournalOwner::Writer { level, process, ordinal },
                })
            }
            ["member", process] => Some(JournalOwner::Member { process: process.parse().ok()? }),
            _ => None,
        }
    }
}

/// A journal that is being written.
pub(crate) struct Journal {
    file: File,
    pending: Vec<u8>,
}

impl Journal {
    pub(crate) fn create(folder: &Path, owner: JournalOwner) -> io::Result<Journal> {
        let file = File::create_new(folder.join(owner.file_name()))?;
        Ok(Journal { file, pending: Vec::new() })
    }

    /// Adds a record to the next call of `flush`.
    pub(crate) fn add(&mut self, record: JournalRecord) {
        record.words().iter().for_each(|word| self.pending.extend_from_slice(&word.to_le_bytes()));
    }

    /// Writes the records that were added.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.pending);
        self.pending.clear();
        written
    }

    pub(crate) fn record(&mut self, record: JournalRecord) -> io::Result<()> {
        self.add(record);
        self.flush()
    }
}

/// A journal that is read while it grows.
pub(crate) struct JournalReader {
    pub(crate) owner: JournalOwner,
    file: File,
    rest: Vec<u8>,
}

impl JournalReader {
    fn open(path: &Path, owner: JournalOwner) -> io::Result<JournalReader> {
        Ok(JournalReader { owner, file: File::open(path)?, rest: Vec::new() })
    }

    /// Returns the records that were written since the last call.
    pub(crate) fn more(&mut self) -> io::Result<Vec<JournalRecord>> {
        self.file.read_to_end(&mut self.rest)?;
        let whole = self.rest.len() / RECORD * RECORD;
        let mut records = Vec::with_capacity(whole / RECORD);
        for bytes in self.rest[..whole].chunks_exact(RECORD) {
            let mut words = [0; 3];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                let mut array = [0; 8];
                array.copy_from_slice(bytes);
                *word = u64::from_le_bytes(array);
            }
            let record = JournalRecord::from_words(words);
            records.push(record.ok_or_else(|| {
                io::Error::other(format!("a record of {:?} has an unknown kind", self.owner))
            })?);
        }
        self.rest.drain(..whole);
        Ok(records)
    }
}

/// Opens the journals in a folder that are not in `known` yet.
pub(crate) fn open_new(folder: &Path, known: &mut Vec<JournalReader>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name: PathBuf = entry.file_name().into();
        let Some(owner) = name.to_str().and_then(JournalOwner::from_file_name) else { continue };
        if known.iter().all(|journal| journal.owner != owner) {
            known.push(JournalReader::open(&entry.path(), owner)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

    use super::*;

    #[test]
    fn journal_records_round_trip_and_partial_record_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let owner = JournalOwner::Reader { level: ChaosLevel::Kept, process: 12, ordinal: 3 };
        let mut journal = Journal::create(folder.path(), owner).unwrap();
        let id = SampleId::new(12, 3, 99);
        let records = [
            JournalRecord::Began { time: 1 },
            JournalRecord::Delivered { id, written: 2, delivered: 3 },
            JournalRecord::Closing { id, written: 4, delivered: 5 },
            JournalRecord::Deleted { time: 6, count: 7 },
            JournalRecord::Stalled { from: 8, to: 9 },
            JournalRecord::Starved { from: 10, to: 11 },
            JournalRecord::Corrupt { id, time: 12 },
        ];
        records.iter().for_each(|record| journal.add(*record));
        journal.flush().unwrap();
        let mut readers = Vec::new();
        open_new(folder.path(), &mut readers).unwrap();
        open_new(folder.path(), &mut readers).unwrap();
        assert_eq!(readers.len(), 1);
        assert_eq!(readers[0].owner, owner);
        assert_eq!(readers[0].more().unwrap(), records);
        journal.file.write_all(&[1, 2, 3]).unwrap();
        assert_eq!(readers[0].more().unwrap(), [], "half of a record is none");
    }
}
