//! What can be wrong with a log, in words for whoever has to mend it.

use alloc::format;
use alloc::string::String;
use core::fmt;

use super::segment::FileHeader;
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
    /// A folder has logs, and does not say whose they are.
    NoIdentity {
        /// The folder, or nothing if whoever reads it knows which.
        folder: String,
        /// One of the streams that it has logs of.
        stream: StreamKey,
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
        /// The folder, or nothing if whoever reads it knows which.
        folder: String,
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
    /// Something of a log that was synced is not there any more (I-97).
    Lost {
        /// Stream of the log.
        stream: StreamKey,
        /// The version in the name of the segment that it was in.
        version: Version,
        /// End of that segment, and the offset up to which it was synced at least; none if the segment is gone.
        end: Option<(u64, u64)>,
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

    /// The same, with the folder's name before those of files: for whoever does not know which folder it is.
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
        // What has a whole path already is not in this folder alone.
        *named = match (folder.is_empty(), named.as_str()) {
            (true, _) => return self,
            (false, "") => folder.into(),
            (false, name) if name.starts_with('/') => return self,
            (false, name) => format!("{folder}/{name}"),
        };
        self
    }

    /// Whether it is that the disk is full: room may be made, and the same asked again.
    pub fn is_full(&self) -> bool {
        matches!(self, LogError::Disk { cause: DiskError::Full, .. })
    }
}

/// What whoever reads of it can do, as the end of a sentence.
fn advice(cause: &DiskError) -> &'static str {
    match cause {
        DiskError::NotAFolder => "; name a folder",
        DiskError::Removed => "; start again what is to be kept, in a folder that stays",
        DiskError::Full => "; make room",
        DiskError::ReadOnly => {
            "; let this user write there, mount the file system to be written, or name another place"
        }
        DiskError::FailedSync => "; look after the disk, and start again what keeps logs there",
        DiskError::NotFound | DiskError::Other(_) => "",
    }
}

impl LogError {
    /// Whether a file of a stream is harmed or gone, so that its log cannot be opened, whatever the disk does from now on.
    pub fn is_harm(&self) -> bool {
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
                "{file}, offset {offset}: the record of version {version} is bad: {cause}; \
                 bring the log back from another member, or cut it there"
            ),
            LogError::BadHeader { file } => {
                write!(
                    f,
                    "{file} does not begin as a file of a log, so it was not written by one, or is harmed; bring it back \
                     from a copy, or take it away"
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
                    "{folder} has logs, of stream {stream}, and no file `{}` that says whose; bring it back from a copy, or \
                     take the logs away",
                    super::folder::IDENTITY
                )
            }
            LogError::OtherGroup { folder, found } => {
                let folder = if folder.is_empty() { "the log folder" } else { folder };
                write!(f, "{folder} is of group {found}; choose another folder")
            }
            LogError::OtherLog { file, found } => {
                write!(f, "{file} was written in another log folder, {found}; take it away")
            }
            LogError::Gap { stream, missing, next } => write!(
                f,
                "stream {stream}: version {missing} is in no file, the next one is {next}; \
                 bring the missing file back"
            ),
            LogError::Lost { stream, version, end: None } => write!(
                f,
                "stream {stream}: the file {stream}-{:016x}.log was synced here and is gone; bring it back from a copy, or \
                 accept the loss with `squall log truncate`",
                version.0
            ),
            LogError::Lost { stream, version, end: Some((found, synced)) } => write!(
                f,
                "stream {stream}: what is sound in the file {stream}-{:016x}.log ends at offset {found}, and it was synced up to \
                 {synced}; bring it back from a copy, or accept the loss with `squall log truncate`",
                version.0
            ),
            LogError::Locked => f.write_str(
                "another process writes in this log folder; end it first, or wait for its end",
            ),
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
