//! A file of records: its name, its header, and how far it can be believed.
//!
//! Owns: what a torn tail is. Never does: cut one.
//!
//! # A torn tail and a bad record
//! A crash can only harm what was not synced: the last batch, at the end of the last file. There each sector is
//! as it was written or as if it never was, that is zeros or beyond the end of the file. As no sector of a record
//! is zeros, a record is **torn** when a sector of it is missing in this way, and no later record says
//! that the file had been synced beyond it. A record that is wrong and lacks no sector is **bad**: no crash
//! does that. So is one that was synced and is gone.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::checksum::Checksum;
use super::disk::SECTOR;
use super::head::{self, Magic};
use super::record::{ALIGNMENT, HEADER, Header, Record, size};
use super::{BadCause, Disk, EpochId, GroupId, LogError, LogId, Owner, StreamKey, Version};
use crate::bytes::{Reader, Wire};

/// The version of the format that this program writes and reads.
pub const FORMAT: u32 = 1;
/// Bytes of a file before its first record.
pub const FILE_HEADER: u64 = 128;

const MAGIC: Magic = *b"SQUALLOG";
/// How much is read at once.
const READ: usize = 1 << 18;

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum FileKind {
    /// Messages and marks, one after the other.
    Segment = 1,
    /// The messages that make the state at a version.
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

/// What a file says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileHeader {
    /// Whose it is.
    pub owner: Owner,
    /// Of which stream.
    pub stream: StreamKey,
    /// The first message that can be in it; of a checkpoint: the last one that it accounts for.
    pub version: Version,
    /// What it holds.
    pub kind: FileKind,
    /// The epoch of the last message or mark before it; of a checkpoint: of the last that it accounts for.
    pub epoch: EpochId,
}

impl FileHeader {
    /// The file's name.
    pub fn name(&self) -> String {
        format!("{}-{:016x}.{}", self.stream, self.version.0, self.kind.suffix())
    }

    /// What a name says: stream, kind and version. `None` if it is no name of a segment or checkpoint.
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

    /// Its bytes.
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
        let reader = &mut Reader::new(head::body(file, MAGIC, &bytes, disk.checksum())?);
        FileHeader::decode(reader).ok_or_else(bad)
    }

    /// [`FileHeader::read`], of a file that has to be this owner's and what its name says.
    pub(crate) fn expect(
        disk: &mut impl Disk,
        owner: Owner,
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

    fn decode(reader: &mut Reader<'_>) -> Option<FileHeader> {
        let group = GroupId::decode(reader)?;
        let stream = StreamKey::decode(reader)?;
        let owner = Owner { group, log: LogId::decode(reader)? };
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
pub(crate) struct Window {
    /// The file.
    pub(crate) file: String,
    /// Up to where it is read.
    pub(crate) end: u64,
    base: u64,
    bytes: Vec<u8>,
    /// A mask was taken off in `bytes`, so they are not what is in the file any more.
    unmasked: bool,
}

impl Window {
    /// Reads this file up to `end`, at most.
    pub(crate) fn new(file: &str, end: u64) -> Window {
        Window { file: file.into(), end, base: 0, bytes: Vec::new(), unmasked: false }
    }

    /// The file goes up to here now.
    pub(crate) fn extend(&mut self, end: u64) {
        self.end = end;
    }

    /// These bytes of the file, or those of them that lie before its end.
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

    /// The record that begins here, and where the next one does; `None` at the end of the file.
    ///
    /// # Errors
    /// The disk's, in the outer result; what is wrong with the record, in the inner one.
    pub(crate) fn record(
        &mut self,
        disk: &mut impl Disk,
        at: u64,
    ) -> Result<Result<Option<Read<'_>>, BadCause>, LogError> {
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
        let header = match Header::read(&copy, sum) {
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
        Ok(body.map(|record| Some(Read { record, next: at + length as u64, synced })))
    }

    /// Whether a sector is missing of what lies here as if it was never written.
    fn lacks_sector(&mut self, disk: &mut impl Disk, at: u64) -> Result<bool, LogError> {
        let sum = disk.checksum();
        let mut copy = [0; HEADER];
        let header = self.bytes(disk, at, HEADER)?;
        if header.len() < HEADER {
            return Ok(true);
        }
        copy.copy_from_slice(header);
        let length = Header::read(&copy, sum).map_or(HEADER, |header| size(header.length()));
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

    /// Where the first record after `at` begins whose header is sound and of which this holds.
    pub(crate) fn find(
        &mut self,
        disk: &mut impl Disk,
        at: u64,
        holds: impl Fn(Header<'_>) -> bool,
    ) -> Result<Option<u64>, LogError> {
        let sum = disk.checksum();
        let mut from = at + ALIGNMENT as u64;
        while from + HEADER as u64 <= self.end {
            let bytes = self.bytes(disk, from, HEADER)?;
            if let Some(header) = bytes.first_chunk::<HEADER>()
                && Header::may_begin(header)
                && Header::read(header, sum).is_ok_and(&holds)
            {
                return Ok(Some(from));
            }
            from += ALIGNMENT as u64;
        }
        Ok(None)
    }

    /// What it means that the record here is wrong: nothing if it is torn, else the cause.
    pub(crate) fn judge(
        &mut self,
        disk: &mut impl Disk,
        (at, cause): (u64, BadCause),
    ) -> Result<Option<BadCause>, LogError> {
        if !self.lacks_sector(disk, at)? {
            return Ok(Some(cause));
        }
        let vouched = self.find(disk, at, |header| header.synced() > at)?;
        Ok(vouched.map(|_| BadCause::Lost))
    }
}

/// A record as it was read.
pub(crate) struct Read<'a> {
    pub(crate) record: Record<'a>,
    /// Where the next one begins.
    pub(crate) next: u64,
    /// Up to where the file had been synced when it was written.
    pub(crate) synced: u64,
}
