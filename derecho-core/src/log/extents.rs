//! Reach of each log of a folder at its last sync: an opened log must reach as far (I-97).
//!
//! Owns: the file `extents`. Never does: say more than what was synced. The file gives a lower
//! bound, which may lag behind, and which is lowered before a log becomes shorter.
//!
//! ```text
//!   byte    0   magic | format | sum | zeros                                          a sector
//!         512   stream A, even:  SqEx | sum | stream | sequence | first | last | end   a sector
//!        1024   stream A, odd                                                          a sector
//!        1536   stream B, even ...
//! ```
//! A stream's two entries are written in turn, and the one with the greater sequence counts. A
//! crash therefore never tears the only valid entry.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::checksum::Checksum;
use super::disk::SECTOR;
use super::folder::publish;
use super::head::{self, Magic};
use super::{Disk, DiskError, LogError, StreamKey, Version};
use crate::bytes::{ByteReader, Wire, in_order};

/// Name of the file.
pub(super) const FILE: &str = "extents";

const MAGIC: Magic = *b"SQUALEXT";
const ENTRY: [u8; 4] = *b"SqEx";
/// Offset in an entry at which the bytes protected by its checksum begin.
const BODY: usize = 8;
/// Length of an entry, in bytes.
const LENGTH: usize = 56;
/// Bytes of a stream's two entries.
const PAIR: u64 = 2 * SECTOR;

/// Versions in the names of the first and the last segment of a log.
#[derive(Clone, Copy)]
pub(super) struct SegmentBounds {
    pub(super) first: Version,
    pub(super) last: Version,
}

/// Reach of the segments of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LogExtent {
    /// Upper bound of the version in the first segment's name.
    pub first: Version,
    /// Lower bound of the version in the last segment's name; 0 if nothing is known.
    pub last: Version,
    /// Lower bound of the length, in bytes, of the segment named by `last`.
    pub end: u64,
}

in_order! { LogExtent { first, last, end } }

impl LogExtent {
    /// Whether this extent says anything.
    fn is_known(&self) -> bool {
        self.last > Version(0)
    }

    /// Returns the version missing in a log whose first and last segments have these names; `None`
    /// if none is missing. This extent was read before the segments were listed. A process that
    /// writes the log may have changed its segments in between, and has updated the file before.
    /// Bounds that the file no longer contains therefore do not count.
    pub(super) fn lost(
        &self,
        disk: &mut impl Disk,
        stream: StreamKey,
        segments: Option<SegmentBounds>,
    ) -> Result<Option<Version>, LogError> {
        let Some(missing) = self.missing(segments) else { return Ok(None) };
        let now = of(disk, stream)?;
        Ok(((now.first, now.last) == (self.first, self.last)).then_some(missing))
    }

    fn missing(&self, segments: Option<SegmentBounds>) -> Option<Version> {
        let none = SegmentBounds { first: Version(u64::MAX), last: Version(0) };
        let SegmentBounds { first, last } = segments.unwrap_or(none);
        match self.is_known() {
            true if first > self.first => Some(self.first),
            true if last < self.last => Some(self.last),
            _ => None,
        }
    }

    /// Whether the last segment, which has this name, ends before this extent; checked again as
    /// in [`LogExtent::lost`].
    pub(super) fn is_cut(
        &self,
        disk: &mut impl Disk,
        stream: StreamKey,
        last: Version,
        end: u64,
    ) -> Result<bool, LogError> {
        let is_cut = self.is_known() && last == self.last && end < self.end;
        Ok(is_cut && of(disk, stream)? == *self)
    }
}

/// Place of a stream's entries in the file, and the sequence number of the last entry written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExtentSlot {
    at: u64,
    sequence: u64,
    stream: StreamKey,
}

impl ExtentSlot {
    /// Reserves entries in the file for a stream whose log is opened for writing; `None` if there
    /// is no space for them. Without entries the file says nothing about the stream.
    pub(super) fn claim(
        disk: &mut impl Disk,
        stream: StreamKey,
    ) -> Result<Option<ExtentSlot>, LogError> {
        match ExtentSlot::claim_place(disk, stream) {
            Err(error) if error.is_full() => Ok(None),
            other => other.map(Some),
        }
    }

    fn claim_place(disk: &mut impl Disk, stream: StreamKey) -> Result<ExtentSlot, LogError> {
        let pairs = pairs(disk)?;
        if pairs.is_none() {
            publish(disk, FILE, |disk, temporary| {
                let mut bytes = head::begin(MAGIC);
                bytes.resize(SECTOR as usize, 0);
                head::seal(&mut bytes, disk.checksum());
                disk.write_at(temporary, 0, &bytes).map_err(LogError::of(temporary))
            })?;
        }
        let pairs = pairs.unwrap_or_default();
        if let Some((slot, _)) = pairs.iter().flatten().find(|(slot, _)| slot.stream == stream) {
            return Ok(*slot);
        }
        let free = pairs.iter().position(Option::is_none).unwrap_or(pairs.len());
        let mut slot = ExtentSlot { at: SECTOR + free as u64 * PAIR, sequence: 0, stream };
        slot.keep(disk, LogExtent::default())?;
        Ok(slot)
    }

    /// Notes that a log reaches this far. All of it must be synced. A power failure may lose
    /// the note.
    pub(super) fn note(&mut self, disk: &mut impl Disk, extent: LogExtent) -> Result<(), LogError> {
        self.sequence += 1;
        let mut bytes = Vec::from(ENTRY);
        (0_u32, self.stream).encode(&mut bytes);
        (self.sequence, extent).encode(&mut bytes);
        let sum = disk.checksum()(&bytes[BODY..]);
        bytes[4..BODY].copy_from_slice(&sum.to_le_bytes());
        let at = self.at + self.sequence % 2 * SECTOR;
        disk.write_at(FILE, at, &bytes).map_err(LogError::of(FILE))
    }

    /// Notes the same durably: when this returns, both entries have this content.
    pub(super) fn keep(&mut self, disk: &mut impl Disk, extent: LogExtent) -> Result<(), LogError> {
        for _ in 0..2 {
            self.note(disk, extent)?;
            disk.sync_file(FILE).map_err(LogError::of(FILE))?;
        }
        Ok(())
    }
}

type RecordedExtent = Option<(ExtentSlot, LogExtent)>;

/// Returns the content of each pair of entries; `None` if there is no such file.
fn pairs(disk: &mut impl Disk) -> Result<Option<Vec<RecordedExtent>>, LogError> {
    let length = match disk.length(FILE) {
        Err(DiskError::NotFound) => return Ok(None),
        other => other.map_err(LogError::of(FILE))?,
    };
    let bad = || LogError::BadHeader { file: FILE.into() };
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| bad())?];
    let read = disk.read_at(FILE, 0, &mut bytes).map_err(LogError::of(FILE))?;
    bytes.truncate(read);
    let sum = disk.checksum();
    head::body(FILE, MAGIC, bytes.get(..SECTOR as usize).ok_or_else(bad)?, sum)?;
    let pairs = bytes[SECTOR as usize..].chunks(PAIR as usize).zip(0..);
    let known = |(pair, at): (&[u8], u64)| {
        let entries = pair.chunks(SECTOR as usize).filter_map(|bytes| entry(bytes, sum));
        let (stream, sequence, extent) = entries.max_by_key(|(_, sequence, _)| *sequence)?;
        Some((ExtentSlot { at: SECTOR + at * PAIR, sequence, stream }, extent))
    };
    Ok(Some(pairs.map(known).collect()))
}

/// Decodes an entry; `None` if the bytes are no entry, or a torn one.
fn entry(bytes: &[u8], sum: Checksum) -> Option<(StreamKey, u64, LogExtent)> {
    let bytes = bytes.get(..LENGTH)?;
    let reader = &mut ByteReader::new(bytes.strip_prefix(&ENTRY)?);
    let vouched = u32::decode(reader)?;
    let (stream, (sequence, extent)) = Wire::decode(reader)?;
    (vouched == sum(&bytes[BODY..])).then_some((stream, sequence, extent))
}

/// Returns the known reach of each stream in a folder.
///
/// # Errors
/// Errors of the disk, or that the file is not sound.
pub(super) fn all(disk: &mut impl Disk) -> Result<BTreeMap<StreamKey, LogExtent>, LogError> {
    let known = pairs(disk)?.unwrap_or_default().into_iter().flatten();
    Ok(known
        .filter(|(_, extent)| extent.is_known())
        .map(|(slot, extent)| (slot.stream, extent))
        .collect())
}

/// Returns the known reach of a stream.
///
/// # Errors
/// The errors of [`all`].
pub(super) fn of(disk: &mut impl Disk, stream: StreamKey) -> Result<LogExtent, LogError> {
    Ok(all(disk)?.remove(&stream).unwrap_or_default())
}

/// Durably forgets the reach of a stream, before its log becomes shorter.
///
/// # Errors
/// The errors of [`all`].
pub(super) fn forget(disk: &mut impl Disk, stream: StreamKey) -> Result<(), LogError> {
    let known = pairs(disk)?.unwrap_or_default().into_iter().flatten();
    for (mut slot, _) in known.filter(|(slot, _)| slot.stream == stream) {
        slot.keep(disk, LogExtent::default())?;
    }
    Ok(())
}
