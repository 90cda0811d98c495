//! The operator's permission to restart without a log.
//!
//! Owns: how a permission is recorded beside the folders of a root, and how long it counts.
//! Never does: decide which members restart; a permission only accounts for the log that is
//! missing (I-153).

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::aside::AsideNumber;
use super::folder::publish;
use super::head::{self, Magic};
use super::views::LoggedView;
use super::{Disk, DiskError, LogError, LogId, StreamKey, WallTime};
use crate::bytes::{ByteReader, Wire, in_order};

/// Name of the file that records permissions.
pub const FILE: &str = "proceed";
const MAGIC: Magic = *b"SQUALLGO";
/// Maximum number of permissions kept; the newest ones stay.
const MOST: usize = 256;

/// One permission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestartPermission {
    /// Log that the restart may do without.
    pub without: LogId,
    /// Era and number of the last view that was logged here at that time.
    pub after: (u64, u64),
    /// Time of the permission.
    pub at: WallTime,
    /// Name of the operator.
    pub by: String,
    /// Streams whose log existed and was damaged.
    pub damaged: Vec<PermittedDamage>,
}

/// Damage of the log of a stream at the time of the permission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PermittedDamage {
    /// The stream.
    pub stream: StreamKey,
    /// Number of the log of that stream that had been put aside last; 0 if there was none.
    pub last: AsideNumber,
    /// Text of the error.
    pub error: String,
}

in_order! { PermittedDamage { stream, last, error } }

in_order! { RestartPermission { without, after, at, by, damaged } }

impl RestartPermission {
    /// Whether the permission counts for a log with this damage: the damage was the same when the
    /// permission was given, and no log was put aside since.
    pub fn counts_for_damaged(
        &self,
        stream: StreamKey,
        last: AsideNumber,
        error: &LogError,
    ) -> bool {
        self.damaged.contains(&PermittedDamage { stream, last, error: error.to_string() })
    }

    /// Whether the permission still counts according to these views: the log has not been a
    /// member's since.
    pub fn counts<'a>(&self, mut views: impl Iterator<Item = &'a LoggedView>) -> bool {
        !views.any(|view| {
            view.place() > self.after && view.member_logs().any(|log| log == self.without)
        })
    }
}

/// Returns the permissions recorded in this folder, oldest first.
///
/// # Errors
/// Errors of the disk, or that the file is not sound.
pub fn permissions(disk: &mut impl Disk) -> Result<Vec<RestartPermission>, LogError> {
    let length = match disk.length(FILE) {
        Err(DiskError::NotFound) => return Ok(Vec::new()),
        other => other.map_err(LogError::of(FILE))?,
    };
    let bad = || LogError::BadHeader { file: FILE.into() };
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| bad())?];
    let read = disk.read_at(FILE, 0, &mut bytes).map_err(LogError::of(FILE))?;
    let body = head::body(FILE, MAGIC, bytes.get(..read).ok_or_else(bad)?, disk.checksum())?;
    Vec::decode(&mut ByteReader::new(body)).ok_or_else(bad)
}

/// Records a permission durably.
///
/// # Errors
/// The errors of [`permissions`].
pub fn grant(disk: &mut impl Disk, word: RestartPermission) -> Result<(), LogError> {
    let mut all = permissions(disk)?;
    all.retain(|known| known.without != word.without);
    all.push(word);
    all.drain(..all.len().saturating_sub(MOST));
    let mut bytes = head::begin(MAGIC);
    all.encode(&mut bytes);
    head::seal(&mut bytes, disk.checksum());
    publish(disk, FILE, |disk, temporary| {
        disk.write_at(temporary, 0, &bytes).map_err(LogError::of(temporary))
    })
}
