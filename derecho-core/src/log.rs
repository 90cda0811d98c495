//! Logged storage: the records of a stream in the files of one folder, and their recovery after
//! a crash.
//!
//! Owns: the format (`docs/reference/log-format.md`), when a record counts as durable, how a log is
//! opened again, and the rule by which a group restarts. Never does: open a file, read a clock or
//! wait; files are behind the port [`Disk`].
//!
//! ```text
//!   folder ── identity            the group and the folder that the logs belong to
//!          ├─ extents             how far each log reached at its last sync
//!          ├─ <stream>-<version>.log   a segment: header, records, marks
//!          ├─ <stream>-<version>.idx   the index of a sealed segment, by version and by time
//!          └─ <stream>-<version>.ckp   a checkpoint: the state at this version
//! ```
//! Reading order: [`disk`] (what may be concluded of a disk), [`record`], [`segment`] (what a torn
//! tail is), [`stream`] (appending), [`cursor`] (reading), [`restart`] (which log wins).

pub mod aside;
pub mod checkpoint;
pub mod checksum;
pub mod cursor;
pub mod disk;
pub mod error;
mod extents;
pub mod folder;
mod head;
pub mod index;
pub mod record;
mod recovery;
pub mod restart;
pub mod restart_permission;
mod retention;
pub mod segment;
pub mod stream;
pub mod survey;
pub mod views;

use alloc::vec::Vec;
use core::fmt;

pub use disk::{Disk, DiskError};
pub use error::{BadCause, LogError};
pub use record::{LogEntry, LogRecord, OwnedRecord, RecordKind};
pub use recovery::{Recovery, RecoveryCheck, TornTail};
pub use retention::{LogPin, SegmentRetention};
pub use stream::{LogLimits, StreamLog};

use crate::bytes::in_order;
use crate::ids::NodeId;

/// A group's identity: 128 random bits, chosen when the group is founded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u128);

/// A log folder's identity: 128 random bits, chosen when the folder is first opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u128);

/// A logged stream's identity within its group, the same at all members.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(pub u128);

macro_rules! hexadecimal {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:x})", stringify!($name), self.0)
            }
        }
    )*};
}
hexadecimal!(GroupId, LogId, StreamKey);

/// Number of real messages of a stream up to and including one message: 1 is the first, 0 none.
///
/// Bounds called `last` include the version, bounds called `end` exclude it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Version(pub u64);

impl Version {
    /// The version after this one.
    pub fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An epoch of a stream: the view, and the message of the control stream that made the epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct EpochId {
    /// Number of the view.
    pub view: u64,
    /// Sequence number of the message of the control stream.
    pub sequence: u64,
}

impl fmt::Display for EpochId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.view, self.sequence)
    }
}

/// Bits of an era below its counter. They hold a hash of the node that began the era.
const ERA: u32 = 32;

/// Returns the era that follows `last`. Two beginnings that do not know of each other get different
/// eras, and what follows one of them is no prefix of the other.
pub fn era_after(last: u64, founder: NodeId) -> u64 {
    let founder = (founder.0 ^ founder.0 >> 32 ^ founder.0 >> 64 ^ founder.0 >> 96) as u32;
    ((last >> ERA) + 1) << ERA | u64::from(founder)
}

/// Whether two different eras follow the same number of earlier eras, so that neither beginning
/// knew of the other.
pub fn are_apart(one: u64, other: u64) -> bool {
    one != other && one >> ERA == other >> ERA
}

/// Nanoseconds of the wall clock since 1970. Unlike monotonic time, this outlives a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WallTime(pub u64);

/// Hash of an instance's key; says to which instance of a topic a sample belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct KeyHash(pub [u8; 16]);

/// Group and folder that a log belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogOwner {
    /// The group.
    pub group: GroupId,
    /// The folder.
    pub log: LogId,
}

/// Identity of a log: the group and folder that it belongs to, and its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogKey {
    /// Group and folder.
    pub owner: LogOwner,
    /// Stream.
    pub stream: StreamKey,
}

/// End of a log. The restart rule compares these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Tail {
    /// Epoch of the last message or mark.
    pub epoch: EpochId,
    /// Version of the last message.
    pub version: Version,
}

/// Mark between messages in a log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EpochMark {
    /// Messages from here on belong to this epoch, and these folders log them.
    Begun(EpochId, Vec<LogId>),
    /// This version is the last one of the epoch: records of the epoch beyond it were cut (I-89).
    Cut(EpochId, Version),
}

in_order! {
    EpochId { view, sequence }
    Tail { epoch, version }
}

mod wire {
    use alloc::vec::Vec;

    use super::{EpochMark, GroupId, LogId, StreamKey, Version, WallTime};
    use crate::bytes::{ByteReader, Wire};

    macro_rules! one_number {
        ($($name:ident($number:ty)),*) => {$(
            impl Wire for $name {
                fn encode(&self, out: &mut Vec<u8>) {
                    self.0.encode(out);
                }

                fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
                    <$number>::decode(from).map($name)
                }
            }
        )*};
    }
    one_number!(GroupId(u128), LogId(u128), StreamKey(u128), Version(u64), WallTime(u64));

    impl Wire for EpochMark {
        fn encode(&self, out: &mut Vec<u8>) {
            match self {
                EpochMark::Begun(epoch, epoch_logs) => {
                    (0_u8, (*epoch, epoch_logs.clone())).encode(out)
                }
                EpochMark::Cut(epoch, version) => (1_u8, (*epoch, *version)).encode(out),
            }
        }

        fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
            Some(match from.byte()? {
                0 => EpochMark::Begun(Wire::decode(from)?, Wire::decode(from)?),
                1 => EpochMark::Cut(Wire::decode(from)?, Wire::decode(from)?),
                _ => return None,
            })
        }
    }
}
