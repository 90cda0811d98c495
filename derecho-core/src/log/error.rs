//! Errors of logs, with messages that tell the operator how to repair them.

use alloc::format;
use alloc::string::String;
use core::fmt;

use super::segment::FileHeader;
use super::{DiskError, GroupId, LogId, StreamKey, Version};

/// Defect of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadCause {
    /// No record begins where one must begin.
    NoRecord,
    /// The checksum of the header does not match.
    HeaderSum,
    /// The checksum of the body does not match.
    BodySum,
    /// The record is complete, but the named field has a value that no log writes.
    Field(&'static str),
    /// The record is another message than the one expected here.
    OtherVersion(Version),
    /// The record is gone although a later record says that it was synced.
    Lost,
    /// The file ends before the record does.
    Short,
}

impl fmt::Display for BadCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadCause::NoRecord => f.write_str("no record begins there"),
            BadCause::HeaderSum => f.write_str("the checksum of its header is wrong"),
            BadCause::BodySum => f.write_str("the checksum of its body is wrong"),
            BadCause::Field(name) => write!(f, "its {name} is invalid"),
            BadCause::OtherVersion(found) => write!(f, "version {found} is there instead"),
            BadCause::Lost => {
                f.write_str("it is missing, although a later record says that it was synced")
            }
            BadCause::Short => f.write_str("the file ends before the end of the record"),
        }
    }
}

/// Reason why a log cannot be opened, read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogError {
    /// The disk refused an operation.
    Disk {
        /// Name of the file; empty for the folder.
        file: String,
        /// Answer of the disk.
        cause: DiskError,
    },
    /// A required record is not sound (I-84).
    BadRecord {
        /// Name of the file.
        file: String,
        /// Offset of the record in the file.
        offset: u64,
        /// Version expected there.
        version: Version,
        /// Defect of the record.
        cause: BadCause,
    },
    /// The header of a file is not sound.
    BadHeader {
        /// Name of the file.
        file: String,
    },
    /// A folder contains logs but does not say to whom they belong.
    NoIdentity {
        /// Name of the folder; empty if the caller knows the folder.
        folder: String,
        /// One of the streams that have logs there.
        stream: StreamKey,
    },
    /// A file has a format that this program does not know.
    Format {
        /// Name of the file.
        file: String,
        /// Format version of the file.
        found: u32,
    },
    /// The folder belongs to another group.
    OtherGroup {
        /// Name of the folder; empty if the caller knows the folder.
        folder: String,
        /// Group that the folder belongs to.
        found: GroupId,
    },
    /// A file comes from another folder.
    OtherLog {
        /// Name of the file.
        file: String,
        /// Folder that the file was written in.
        found: LogId,
    },
    /// A file between others is missing.
    Gap {
        /// Stream of the log.
        stream: StreamKey,
        /// First message that is in no file.
        missing: Version,
        /// Name of the next file that exists.
        next: String,
    },
    /// A part of a log that was synced is gone (I-97).
    Lost {
        /// Stream of the log.
        stream: StreamKey,
        /// Version in the name of the segment that contained the lost part.
        version: Version,
        /// End of that segment, and the offset up to which it was synced at least; `None` if the
        /// segment is gone.
        end: Option<(u64, u64)>,
    },
    /// Another process writes in this folder.
    Locked,
    /// The log has failed before and takes nothing more.
    Failed,
    /// The log of views in the same folder takes nothing more, so nothing can become durable
    /// there (I-150).
    NoViews,
    /// A payload exceeds the maximum length.
    TooLong {
        /// Length of the payload.
        length: usize,
    },
    /// The requested messages are no longer in the log.
    Gone {
        /// First version still in the log.
        from: Version,
    },
    /// The log ends before the requested version.
    Beyond {
        /// Last version of the log.
        last: Version,
    },
}

impl LogError {
    /// Converts an answer of a disk about a file.
    pub(crate) fn of(file: &str) -> impl Fn(DiskError) -> LogError + '_ {
        move |cause| LogError::Disk { file: file.into(), cause }
    }

    /// Returns this error with the folder's name before the names of files, for readers who do not
    /// know the folder.
    #[must_use]
    pub fn within(mut self, folder: &str) -> LogError {
        let named = match &mut self {
            LogError::Disk { file, .. }
            | LogError::BadRecord { file, .. }
            | LogError::BadHeader { file }
            | LogError::Format { file, .. }
            | LogError::OtherLog { file, .. }
            | LogError::Gap { next: file, .. } => file,
            LogError::OtherGroup { folder, .. } | LogError::NoIdentity { folder, .. } => folder,
            _ => return self,
        };
        // An absolute path does not get the folder's name.
        *named = match (folder.is_empty(), named.as_str()) {
            (true, _) => return self,
            (false, "") => folder.into(),
            (false, name) if name.starts_with('/') => return self,
            (false, name) => format!("{folder}/{name}"),
        };
        self
    }

    /// Whether the disk is full: the operation may be repeated after space was freed.
    pub fn is_full(&self) -> bool {
        matches!(self, LogError::Disk { cause: DiskError::Full, .. })
    }
}

/// Advice to the operator, as the end of a sentence.
fn advice(cause: &DiskError) -> &'static str {
    match cause {
        DiskError::NotAFolder => "; name a folder",
        DiskError::Removed => "; restart the process with a folder that nobody removes",
        DiskError::Full => "; make room",
        DiskError::ReadOnly => {
            "; give this user write permission, mount the file system writable, or name another \
             folder"
        }
        DiskError::FailedSync => "; check the disk, and restart the processes that keep logs there",
        DiskError::NotFound | DiskError::Other(_) => "",
    }
}

impl LogError {
    /// Whether a file of a stream is damaged or gone, so that the log cannot be opened however the
    /// disk behaves from now on.
    pub fn is_damage(&self) -> bool {
        match self {
            LogError::BadHeader { file } => FileHeader::parse_name(file).is_some(),
            LogError::BadRecord { .. } | LogError::Gap { .. } | LogError::Lost { .. } => true,
            _ => false,
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Disk { file, cause } if file.is_empty() => {
                write!(f, "the log folder: {cause}{}", advice(cause))
            }
            LogError::Disk { file, cause } => write!(f, "{file}: {cause}{}", advice(cause)),
            LogError::BadRecord { file, offset, version, cause } => write!(
                f,
                "{file}, offset {offset}: the record of version {version} is bad: {cause}; restore \
                 the log from another member, or truncate the log there"
            ),
            LogError::BadHeader { file } => {
                write!(
                    f,
                    "{file} has no valid log header: the file is damaged, or no log file; restore \
                     the file from a copy, or remove it"
                )
            }
            LogError::Format { file, found } => write!(
                f,
                "{file} is of format {found}, this program knows format {}; use the program that wrote it, or another \
                 folder",
                super::segment::FORMAT
            ),
            LogError::NoIdentity { folder, stream } => {
                let folder = if folder.is_empty() { "the log folder" } else { folder };
                write!(
                    f,
                    "{folder} has logs, of stream {stream}, but no file `{}`, which identifies \
                     their owner; restore this file from a copy, or remove the logs",
                    super::folder::IDENTITY
                )
            }
            LogError::OtherGroup { folder, found } => {
                let folder = if folder.is_empty() { "the log folder" } else { folder };
                write!(f, "{folder} is of group {found}; choose another folder")
            }
            LogError::OtherLog { file, found } => {
                write!(f, "{file} was written in another log folder, {found}; remove this file")
            }
            LogError::Gap { stream, missing, next } => write!(
                f,
                "stream {stream}: version {missing} is in no file, the next version is {next}; \
                 restore the missing file"
            ),
            LogError::Lost { stream, version, end: None } => write!(
                f,
                "stream {stream}: the file {stream}-{:016x}.log was synced here and is gone; \
                 restore the file from a copy, or accept the loss with `squall log truncate`",
                version.0
            ),
            LogError::Lost { stream, version, end: Some((found, synced)) } => write!(
                f,
                "stream {stream}: the sound part of the file {stream}-{:016x}.log ends at offset \
                 {found}, but the file was synced up to {synced}; restore the file from a copy, or \
                 accept the loss with `squall log truncate`",
                version.0
            ),
            LogError::Locked => f.write_str(
                "another process writes in this log folder; end it first, or wait for its end",
            ),
            LogError::Failed => f.write_str("the log failed earlier and accepts no more records"),
            LogError::NoViews => f.write_str(
                "the log of views in the same folder cannot be written, so nothing there counts as durable; \
                 see the log of this process for why, or `squall log verify`",
            ),
            LogError::TooLong { length } => write!(
                f,
                "a payload of {length} bytes is longer than the {} of a record",
                super::record::LONGEST
            ),
            LogError::Gone { from } => write!(f, "the log begins with version {from} now"),
            LogError::Beyond { last } => write!(f, "the log ends with version {last}"),
        }
    }
}

impl core::error::Error for LogError {}
