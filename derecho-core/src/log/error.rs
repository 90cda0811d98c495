//! What can be wrong with a log, in words for whoever has to mend it.

use alloc::string::String;
use core::fmt;

use super::{DiskError, GroupId, LogId, StreamKey, Version};

/// What is wrong with a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadCause {
    /// There is no record where one has to be.
    NoRecord,
    /// The sum of its header is another one.
    HeaderSum,
    /// The sum of its body is another one.
    BodySum,
    /// It is whole, and a field says what no log says.
    Field(&'static str),
    /// It is another message than the one that has to be here.
    OtherVersion(Version),
    /// It is not there although a later record says that it was synced.
    Lost,
    /// The file ends before it does.
    Short,
}

impl fmt::Display for BadCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadCause::NoRecord => f.write_str("no record begins there"),
            BadCause::HeaderSum => f.write_str("the sum of its header is wrong"),
            BadCause::BodySum => f.write_str("the sum of its body is wrong"),
            BadCause::Field(name) => write!(f, "its {name} is none"),
            BadCause::OtherVersion(found) => write!(f, "version {found} is there instead"),
            BadCause::Lost => {
                f.write_str("it is gone although a later record says that it was synced")
            }
            BadCause::Short => f.write_str("the file ends before it does"),
        }
    }
}

/// Why a log cannot be opened, read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogError {
    /// The disk refused.
    Disk {
        /// The file, or nothing if it is the folder.
        file: String,
        /// Why.
        cause: DiskError,
    },
    /// A record that has to be there is not sound (I-84).
    BadRecord {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// Which message has to be there.
        version: Version,
        /// What is wrong.
        cause: BadCause,
    },
    /// The header of a file is not sound.
    BadHeader {
        /// The file.
        file: String,
    },
    /// A file is of a format that is not known here.
    Format {
        /// The file.
        file: String,
        /// The version of its format.
        found: u32,
    },
    /// The folder is of another group.
    OtherGroup {
        /// Of which.
        found: GroupId,
    },
    /// A file has come from another folder.
    OtherLog {
        /// The file.
        file: String,
        /// From which folder.
        found: LogId,
    },
    /// A file between others is missing.
    Gap {
        /// Of which stream.
        stream: StreamKey,
        /// The first message that is nowhere.
        missing: Version,
        /// The next file that is there.
        next: String,
    },
    /// Somebody else writes in this folder.
    Locked,
    /// The log has failed before, and takes nothing more.
    Failed,
    /// The log of views in the same folder takes nothing more, so nothing can be durable there (I-150).
    NoViews,
    /// A payload is longer than any may be.
    TooLong {
        /// How long it is.
        length: usize,
    },
    /// What was asked for is not in the log any more.
    Gone {
        /// The first version that is.
        from: Version,
    },
    /// The log does not go so far.
    Beyond {
        /// Its last version.
        last: Version,
    },
}

impl LogError {
    /// What a disk said about a file.
    pub(crate) fn of(file: &str) -> impl Fn(DiskError) -> LogError + '_ {
        move |cause| LogError::Disk { file: file.into(), cause }
    }

    /// Whether it is that the disk is full: room may be made, and the same asked again.
    pub fn is_full(&self) -> bool {
        matches!(self, LogError::Disk { cause: DiskError::Full, .. })
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Disk { file, cause } if file.is_empty() => {
                write!(f, "the log folder: {cause}")
            }
            LogError::Disk { file, cause } => write!(f, "{file}: {cause}"),
            LogError::BadRecord { file, offset, version, cause } => write!(
                f,
                "{file}, offset {offset}: the record of version {version} is bad: {cause}; \
                 bring the log back from another member, or cut it there"
            ),
            LogError::BadHeader { file } => {
                write!(f, "{file} does not begin as a file of a log; it was not written by one")
            }
            LogError::Format { file, found } => write!(
                f,
                "{file} is of format {found}, this program knows format {}; read it by the program that wrote it",
                super::segment::FORMAT
            ),
            LogError::OtherGroup { found } => {
                write!(f, "the log folder is of group {found}; choose another folder")
            }
            LogError::OtherLog { file, found } => {
                write!(f, "{file} was written in another log folder, {found}; take it away")
            }
            LogError::Gap { stream, missing, next } => write!(
                f,
                "stream {stream}: version {missing} is in no file, the next one is {next}; \
                 bring the missing file back"
            ),
            LogError::Locked => f.write_str("another process writes in this log folder"),
            LogError::Failed => f.write_str("the log has failed before and takes nothing more"),
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
