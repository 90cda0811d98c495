//! Segment files: name, header, and how far their content can be trusted.
//!
//! Owns: the definition of a torn tail. Never does: cut one.
//!
//! # A torn tail and a bad record
//! A crash can only damage bytes that were not synced, that is, the last batch at the end of the
//! last file. There each sector is either as written or as if it was never written: zeros, or
//! beyond the end of the file. No sector of a record is all zeros. A record is therefore **torn**
//! if one of its sectors is missing in this way and no later record says that the file had been
//! synced beyond it. A wrong record that lacks no sector is **bad**, because no crash causes that.
//! A record that was synced and is gone is bad too.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::checksum::Checksum;
use super::disk::SECTOR;
use super::head::{self, Magic};
use super::record::{ALIGNMENT, HEADER, LogRecord, RecordHeader, size};
use super::{BadCause, Disk, EpochId, GroupId, LogError, LogId, LogOwner, StreamKey, Version};
use crate::bytes::{ByteReader, Wire};

/// Version of the format that this program writes and reads.
pub const FORMAT: u32 = 1;
/// Bytes of a file before its first record.
pub const FILE_HEADER: u64 = 128;

const MAGIC: Magic = *b"SQUALLOG";
/// Bytes that are read at once.
const READ: usize = 1 << 18;

/// Content of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum FileKind {
    /// Messages and marks, in order.
    Segment = 1,
    /// The messages that make up the state at a version.
    Checkpoint = 2,
}

impl FileKind {
    fn suffix(self) -> &'static str {
        match self {
            FileKind::Segment => "log",
            FileKind::Checkpoint => "ckp",
        }
    }
}

/// Header of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileHeader {
    /// Owner of the log.
    pub owner: LogOwner,
    /// Stream of the log.
    pub stream: StreamKey,
    /// First message that can be in the file; for a checkpoint, the last one that it covers.
    pub version: Version,
    /// Kind of the file.
    pub kind: FileKind,
    /// Epoch of the last message or mark before the file; for a checkpoint, of the last one that
    /// it covers.
    pub epoch: EpochId,
}

impl FileHeader {
    /// Name of the file.
    pub fn name(&self) -> String {
        format!("{}-{:016x}.{}", self.stream, self.version.0, self.kind.suffix())
    }

    /// Parses a file name into stream, kind and version; `None` if it is not the name of a segment
    /// or checkpoint.
    pub fn parse_name(name: &str) -> Option<(StreamKey, FileKind, Version)> {
        let (stream, rest) = name.split_once('-')?;
        let (version, suffix) = rest.split_once('.')?;
        let kinds = [FileKind::Segment, FileKind::Checkpoint];
        let kind = kinds.into_iter().find(|kind| kind.suffix() == suffix)?;
        if stream.len() != 32 || version.len() != 16 {
            return None;
        }
        let stream = StreamKey(u128::from_str_radix(stream, 16).ok()?);
        Some((stream, kind, Version(u64::from_str_radix(version, 16).ok()?)))
    }

    /// Encodes the header.
    pub fn encode(&self, sum: Checksum) -> Vec<u8> {
        let mut out = head::begin(MAGIC);
        self.owner.group.encode(&mut out);
        self.stream.encode(&mut out);
        self.owner.log.encode(&mut out);
        self.version.encode(&mut out);
        self.epoch.encode(&mut out);
        (self.kind as u8).encode(&mut out);
        out.resize(FILE_HEADER as usize, 0);
        head::seal(&mut out, sum);
        out
    }

    /// Reads the header of a file.
    pub fn read(disk: &mut impl Disk, file: &str) -> Result<FileHeader, LogError> {
        let mut bytes = [0; FILE_HEADER as usize];
        let found = disk.read_at(file, 0, &mut bytes).map_err(LogError::of(file))?;
        let bad = || LogError::BadHeader { file: file.into() };
        if found < bytes.len() {
            return Err(bad());
        }
        let reader = &mut ByteReader::new(head::body(file, MAGIC, &bytes, disk.checksum())?);
        FileHeader::decode(reader).ok_or_else(bad)
    }

    /// Performs [`FileHeader::read`], and checks the owner and that the header matches the
    /// file's name.
    pub(crate) fn expect(
        disk: &mut impl Disk,
        owner: LogOwner,
        file: &str,
    ) -> Result<FileHeader, LogError> {
        let header = FileHeader::read(disk, file)?;
        if header.owner.group != owner.group {
            return Err(LogError::OtherGroup { folder: file.into(), found: header.owner.group });
        }
        if header.owner.log != owner.log {
            return Err(LogError::OtherLog { file: file.into(), found: header.owner.log });
        }
        if header.name() != file {
            return Err(LogError::BadHeader { file: file.into() });
        }
        Ok(header)
    }

    fn decode(reader: &mut ByteReader<'_>) -> Option<FileHeader> {
        let group = GroupId::decode(reader)?;
        let stream = StreamKey::decode(reader)?;
        let owner = LogOwner { group, log: LogId::decode(reader)? };
        let version = Version::decode(reader)?;
        let epoch = EpochId::decode(reader)?;
        let kind = match reader.byte()? {
            1 => FileKind::Segment,
            2 => FileKind::Checkpoint,
            _ => return None,
        };
        Some(FileHeader { owner, stream, version, kind, epoch })
    }
}

/// A file that is read from its beginning to its end.
pub(crate) struct FileWindow {
    /// Name of the file.
    pub(crate) file: String,
    /// Offset up to which the file is read.
    pub(crate) end: u64,
    base: u64,
    bytes: Vec<u8>,
    /// A mask was removed in `bytes`, so they differ from the bytes of the file.
    unmasked: bool,
}

impl FileWindow {
    /// Creates a window that reads this file up to `end` at most.
    pub(crate) fn new(file: &str, end: u64) -> FileWindow {
        FileWindow { file: file.into(), end, base: 0, bytes: Vec::new(), unmasked: false }
    }

    /// Moves the end of the window to the file's new end.
    pub(crate) fn extend(&mut self, end: u64) {
        self.end = end;
    }

    /// Returns these bytes of the file, as far as they lie before its end.
    fn bytes(
        &mut self,
        disk: &mut impl Disk,
        at: u64,
        length: usize,
    ) -> Result<&mut [u8], LogError> {
        let length = length.min(self.end.saturating_sub(at) as usize);
        let within = at >= self.base && at + length as u64 <= self.base + self.bytes.len() as u64;
        if !within || self.unmasked {
            self.unmasked = false;
            let wanted = length.max(READ).min(self.end.saturating_sub(at) as usize);
            self.bytes.resize(wanted, 0);
            let found =
                disk.read_at(&self.file, at, &mut self.bytes).map_err(LogError::of(&self.file))?;
            if found < wanted {
                self.end = self.end.min(at + found as u64);
                self.bytes.truncate(found);
            }
            self.base = at;
        }
        let from = (at - self.base) as usize;
        let to = (from + length).min(self.bytes.len());
        Ok(&mut self.bytes[from..to])
    }

    /// Reads the record that begins here, with the offset of the next one; `None` at the end of
    /// the file.
    ///
    /// # Errors
    /// Errors of the disk are in the outer result, defects of the record in the inner one.
    pub(crate) fn record(
        &mut self,
        disk: &mut impl Disk,
        at: u64,
    ) -> Result<Result<Option<ReadRecord<'_>>, BadCause>, LogError> {
        if at >= self.end {
            return Ok(Ok(None));
        }
        let sum = disk.checksum();
        let mut copy = [0; HEADER];
        let header = self.bytes(disk, at, HEADER)?;
        if header.len() < HEADER {
            return Ok(Err(BadCause::Short));
        }
        copy.copy_from_slice(header);
        let header = match RecordHeader::read(&copy, sum) {
            Ok(header) => header,
            Err(cause) => return Ok(Err(cause)),
        };
        let (length, synced) = (size(header.length()), header.synced());
        if self.bytes(disk, at, length)?.len() < length {
            return Ok(Err(BadCause::Short));
        }
        self.unmasked = header.is_masked();
        let from = (at - self.base) as usize;
        let body = header.record(&mut self.bytes[from + HEADER..from + length], sum);
        Ok(body.map(|record| Some(ReadRecord { record, next: at + length as u64, synced })))
    }

    /// Whether the record here lacks a sector, as if that sector was never written.
    fn lacks_sector(&mut self, disk: &mut impl Disk, at: u64) -> Result<bool, LogError> {
        let sum = disk.checksum();
        let mut copy = [0; HEADER];
        let header = self.bytes(disk, at, HEADER)?;
        if header.len() < HEADER {
            return Ok(true);
        }
        copy.copy_from_slice(header);
        let length = RecordHeader::read(&copy, sum).map_or(HEADER, |header| size(header.length()));
        let to = at + length as u64;
        if to > self.end {
            return Ok(true);
        }
        let mut from = at;
        while from < to {
            let next = (from + 1).next_multiple_of(SECTOR);
            let piece = self.bytes(disk, from, (next - from) as usize)?;
            if piece.iter().all(|byte| *byte == 0) {
                return Ok(true);
            }
            from = next;
        }
        Ok(false)
    }

    /// Returns the offset of the first record after `at` that has a sound header for which `holds`
    /// is true.
    pub(crate) fn find(
        &mut self,
        disk: &mut impl Disk,
        at: u64,
        holds: impl Fn(RecordHeader<'_>) -> bool,
    ) -> Result<Option<u64>, LogError> {
        let sum = disk.checksum();
        let mut from = at + ALIGNMENT as u64;
        while from + HEADER as u64 <= self.end {
            let bytes = self.bytes(disk, from, HEADER)?;
            if let Some(header) = bytes.first_chunk::<HEADER>()
                && RecordHeader::may_begin(header)
                && RecordHeader::read(header, sum).is_ok_and(&holds)
            {
                return Ok(Some(from));
            }
            from += ALIGNMENT as u64;
        }
        Ok(None)
    }

    /// Judges a wrong record: `None` if it is torn, otherwise the cause.
    pub(crate) fn judge(
        &mut self,
        disk: &mut impl Disk,
        at: u64,
        cause: BadCause,
    ) -> Result<Option<BadCause>, LogError> {
        if !self.lacks_sector(disk, at)? {
            return Ok(Some(cause));
        }
        let vouched = self.find(disk, at, |header| header.synced() > at)?;
        Ok(vouched.map(|_| BadCause::Lost))
    }
}

/// A record as it was read.
pub(crate) struct ReadRecord<'a> {
    pub(crate) record: LogRecord<'a>,
    /// Offset of the next record.
    pub(crate) next: u64,
    /// Offset up to which the file had been synced when this record was written.
    pub(crate) synced: u64,
}
