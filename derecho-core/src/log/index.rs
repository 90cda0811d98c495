//! Index of a segment, by version and by time.
//!
//! Owns: the index, and the file in which that of a sealed segment is kept. Never does: vouch for a
//! record. An index follows from its segment; a missing or wrong one is rebuilt.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::checksum::Checksum;
use super::head::{self, Magic};
use super::record::LogRecord;
use super::segment::FILE_HEADER;
use super::{Disk, DiskError, EpochMark, LogError, RecordKind, Tail, Version, WallTime};
use crate::bytes::{Wire, in_order};

const MAGIC: Magic = *b"SQUALIDX";
/// Approximate number of bytes of a segment between two places of its index.
const SPACING: u64 = 1 << 16;

/// Beginning of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexEntry {
    /// Offset of the record in the file.
    pub at: u64,
    /// Version of the last message before the record.
    pub last_before: Version,
    /// Latest source time before the record in the file: a search for a later time may begin here.
    pub newest_before: WallTime,
}

/// Content of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentIndex {
    /// Version of the last message before the segment.
    pub last_before: Version,
    /// Epoch and version of the last message of the segment, or before it if it has none.
    pub tail: Tail,
    /// Offset of the end of the segment.
    pub end: u64,
    /// Number of records, including marks.
    pub records: u64,
    /// Earliest source time of a message.
    pub oldest: WallTime,
    /// Latest source time of a message.
    pub newest: WallTime,
    /// Marks in the segment.
    pub marks: Vec<EpochMark>,
    /// Beginnings of some records, at intervals, in order.
    pub entries: Vec<IndexEntry>,
}

in_order! {
    IndexEntry { at, last_before, newest_before }
    SegmentIndex { last_before, tail, end, records, oldest, newest, marks, entries }
}

impl SegmentIndex {
    /// Returns the index of a segment without records.
    pub fn new(tail: Tail) -> SegmentIndex {
        SegmentIndex {
            last_before: tail.version,
            tail,
            end: FILE_HEADER,
            records: 0,
            oldest: WallTime(u64::MAX),
            newest: WallTime(0),
            marks: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Number of messages in the segment.
    pub fn messages(&self) -> u64 {
        self.tail.version.0 - self.last_before.0
    }

    /// Adds the record that begins at the end of the index and ends at `next`.
    pub(crate) fn note(&mut self, record: &LogRecord<'_>, next: u64) {
        let entry = &record.entry;
        if self.entries.last().is_none_or(|place| self.end - place.at >= SPACING) {
            let (last_before, newest_before) = (self.tail.version, self.newest);
            self.entries.push(IndexEntry { at: self.end, last_before, newest_before });
        }
        match entry.kind {
            // The mark was checked when it was read or made.
            RecordKind::Mark => self.marks.extend(EpochMark::from_bytes(entry.payload)),
            _ => {
                self.oldest = self.oldest.min(entry.source_time);
                self.newest = self.newest.max(entry.source_time);
            }
        }
        self.tail = Tail { epoch: self.tail.epoch.max(entry.epoch), version: record.version };
        self.records += 1;
        self.end = next;
    }

    /// Returns the offset from which to read the messages after this version.
    pub(crate) fn offset_after(&self, version: Version) -> u64 {
        let past = self.entries.partition_point(|place| place.last_before <= version);
        past.checked_sub(1).map_or(FILE_HEADER, |at| self.entries[at].at)
    }

    /// Returns the offset from which to read the messages written at this time or later.
    pub(crate) fn offset_at(&self, time: WallTime) -> u64 {
        let past = self.entries.partition_point(|place| place.newest_before < time);
        past.checked_sub(1).map_or(FILE_HEADER, |at| self.entries[at].at)
    }

    fn encode_file(&self, sum: Checksum) -> Vec<u8> {
        let mut out = head::begin(MAGIC);
        self.encode(&mut out);
        head::seal(&mut out, sum);
        out
    }

    fn decode_file(bytes: &[u8], sum: Checksum) -> Option<SegmentIndex> {
        // On any defect, the index is rebuilt.
        let body = head::body("", MAGIC, bytes, sum).ok()?;
        let index = SegmentIndex::from_bytes(body)?;
        (index.last_before <= index.tail.version).then_some(index)
    }
}

/// Returns the name of a segment's index file.
pub fn name_of(segment: &str) -> String {
    format!("{}.idx", segment.trim_end_matches(".log"))
}

/// Writes the index of a sealed segment. The file is not synced: an index that a crash damages
/// is rebuilt.
pub(crate) fn store(
    disk: &mut impl Disk,
    segment: &str,
    index: &SegmentIndex,
) -> Result<(), LogError> {
    let name = name_of(segment);
    let bytes = index.encode_file(disk.checksum());
    disk.create(&name).map_err(LogError::of(&name))?;
    disk.write_at(&name, 0, &bytes).map_err(LogError::of(&name))
}

/// Loads the index of a segment of this length; `None` if there is none or it is wrong.
pub(crate) fn load(
    disk: &mut impl Disk,
    segment: &str,
    last_before: Version,
    length: u64,
) -> Result<Option<SegmentIndex>, LogError> {
    let name = name_of(segment);
    let size = match disk.length(&name) {
        Err(DiskError::NotFound) => return Ok(None),
        other => other.map_err(LogError::of(&name))?,
    };
    // An index has at most one place of 24 bytes for each 64 KiB, so a file longer than its segment
    // is no index.
    if size > length {
        return Ok(None);
    }
    let mut bytes = alloc::vec![0; size as usize];
    let found = disk.read_at(&name, 0, &mut bytes).map_err(LogError::of(&name))?;
    let index = SegmentIndex::decode_file(&bytes[..found], disk.checksum());
    Ok(index.filter(|index| index.last_before == last_before && index.end == length))
}
