//! What is in a segment and where, by version and by time.
//!
//! Owns: the index, and the file in which that of a sealed segment is kept. Never does: vouch for a record.
//! An index follows from its segment; one that is missing or wrong is made again.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::checksum::Checksum;
use super::head::{self, Magic};
use super::record::Record;
use super::segment::FILE_HEADER;
use super::{Disk, DiskError, Kind, LogError, Mark, Tail, Version, WallTime};
use crate::bytes::{Wire, in_order};

const MAGIC: Magic = *b"SQUALIDX";
/// Bytes of a segment from one place of its index to the next, about.
const SPACING: u64 = 1 << 16;

/// Where a record begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its offset in the file.
    pub at: u64,
    /// The last message before it.
    pub before: Version,
    /// The latest source time before it in the file: whoever looks for a later one may begin here.
    pub newest_before: WallTime,
}

/// What is in a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    /// The last message before the segment.
    pub before: Version,
    /// Where it ends: the epoch and the last message.
    pub tail: Tail,
    /// Up to where the file goes.
    pub end: u64,
    /// How many records it has, marks among them.
    pub records: u64,
    /// The earliest source time of a message.
    pub oldest: WallTime,
    /// The latest one.
    pub newest: WallTime,
    /// The marks in it.
    pub marks: Vec<Mark>,
    /// A place every now and then, in order.
    pub places: Vec<Place>,
}

in_order! {
    Place { at, before, newest_before }
    Index { before, tail, end, records, oldest, newest, marks, places }
}

impl Index {
    /// The index of a segment without records.
    pub fn new(tail: Tail) -> Index {
        Index {
            before: tail.version,
            tail,
            end: FILE_HEADER,
            records: 0,
            oldest: WallTime(u64::MAX),
            newest: WallTime(0),
            marks: Vec::new(),
            places: Vec::new(),
        }
    }

    /// How many messages it has.
    pub fn messages(&self) -> u64 {
        self.tail.version.0 - self.before.0
    }

    /// The record that begins where the index ends, and where it ends.
    pub(crate) fn note(&mut self, record: &Record<'_>, next: u64) {
        let entry = &record.entry;
        if self.places.last().is_none_or(|place| self.end - place.at >= SPACING) {
            let (before, newest_before) = (self.tail.version, self.newest);
            self.places.push(Place { at: self.end, before, newest_before });
        }
        match entry.kind {
            // Whether it can be read was looked at when it was read or made.
            Kind::Mark => self.marks.extend(Mark::from_bytes(entry.payload)),
            _ => {
                self.oldest = self.oldest.min(entry.source_time);
                self.newest = self.newest.max(entry.source_time);
            }
        }
        self.tail = Tail { epoch: self.tail.epoch.max(entry.epoch), version: record.version };
        self.records += 1;
        self.end = next;
    }

    /// Where to begin to read for what comes after this version.
    pub(crate) fn place_after(&self, version: Version) -> u64 {
        let past = self.places.partition_point(|place| place.before <= version);
        past.checked_sub(1).map_or(FILE_HEADER, |at| self.places[at].at)
    }

    /// Where to begin to read for what was written at this time or later.
    pub(crate) fn place_at(&self, time: WallTime) -> u64 {
        let past = self.places.partition_point(|place| place.newest_before < time);
        past.checked_sub(1).map_or(FILE_HEADER, |at| self.places[at].at)
    }

    fn encode_file(&self, sum: Checksum) -> Vec<u8> {
        let mut out = head::begin(MAGIC);
        self.encode(&mut out);
        head::seal(&mut out, sum);
        out
    }

    fn decode_file(bytes: &[u8], sum: Checksum) -> Option<Index> {
        // Whatever is wrong with it, it is made again.
        let body = head::body("", MAGIC, bytes, sum).ok()?;
        let index = Index::from_bytes(body)?;
        (index.before <= index.tail.version).then_some(index)
    }
}

/// The name of the index of a segment.
pub fn name_of(segment: &str) -> String {
    format!("{}.idx", segment.trim_end_matches(".log"))
}

/// Keeps the index of a sealed segment. It is not synced: one that a crash harms is made again.
pub(crate) fn store(disk: &mut impl Disk, segment: &str, index: &Index) -> Result<(), LogError> {
    let name = name_of(segment);
    let bytes = index.encode_file(disk.checksum());
    disk.create(&name).map_err(LogError::of(&name))?;
    disk.write_at(&name, 0, &bytes).map_err(LogError::of(&name))
}

/// The index that was kept of a segment of this length; `None` if there is none that is right.
pub(crate) fn load(
    disk: &mut impl Disk,
    segment: &str,
    (before, length): (Version, u64),
) -> Result<Option<Index>, LogError> {
    let name = name_of(segment);
    let size = match disk.length(&name) {
        Err(DiskError::NotFound) => return Ok(None),
        other => other.map_err(LogError::of(&name))?,
    };
    // An index has a place of 24 bytes for 64 KiB at most: a file that is longer than its segment is none.
    if size > length {
        return Ok(None);
    }
    let mut bytes = alloc::vec![0; size as usize];
    let found = disk.read_at(&name, 0, &mut bytes).map_err(LogError::of(&name))?;
    let index = Index::decode_file(&bytes[..found], disk.checksum());
    Ok(index.filter(|index| index.before == before && index.end == length))
}
