//! Port to a disk: the files of one folder, and how a crash can damage them.
//!
//! Owns: the operations asked of a disk, and the ways it may refuse. Never does: open a file. The
//! folder of `derecho-node` and the simulated disk implement this port, and readers of a log cannot
//! tell them apart.
//!
//! Users of this port may rely on these rules, and on nothing more:
//! * Written bytes survive a crash only when a later `sync_file` of that file succeeded. Before
//!   that, any of their sectors may survive or not, in any order. A sector that does not survive
//!   reads as before the write, and as zeros if it was beyond the end.
//! * A sector (512 bytes, aligned) survives completely or not at all.
//! * A file's creation, renaming or removal survives a crash only when a later
//!   `sync_folder` succeeded.
//! * A `sync_file` that failed may have dropped written bytes, and the next `sync_file` does not
//!   report this.
//! * A file or folder that somebody has removed still takes writes, but nobody can ever read them;
//!   a sync reports this.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::checksum;

/// Bytes that a disk writes completely or not at all.
pub const SECTOR: u64 = 512;

/// Reason why a disk refused an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// There is no such file or folder.
    NotFound,
    /// A path that must be a folder is not one.
    NotAFolder,
    /// The file or folder was removed while it was open: what was written is lost (I-95).
    Removed,
    /// No space is left.
    Full,
    /// The file or folder is read-only.
    ReadOnly,
    /// A sync failed: what was written may be lost (I-82).
    FailedSync,
    /// Any other reason, in the system's words.
    Other(String),
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::NotFound => f.write_str("it is not there"),
            DiskError::NotAFolder => f.write_str("it is not a folder"),
            DiskError::Removed => f.write_str(
                "the file or folder was removed while it was open, so what was written is lost",
            ),
            DiskError::Full => f.write_str(
                "there is no room left: the disk is full, or a quota or the limit of a file's length is reached",
            ),
            DiskError::ReadOnly => f.write_str("it is read-only"),
            DiskError::FailedSync => f.write_str("a sync failed, so what was written may be lost"),
            DiskError::Other(text) => f.write_str(text),
        }
    }
}

/// The files of one folder, by name.
pub trait Disk {
    /// Returns the names of all files.
    fn list(&mut self) -> Result<Vec<String>, DiskError>;

    /// Returns the length of a file.
    fn length(&mut self, name: &str) -> Result<u64, DiskError>;

    /// Reads from this offset on until `into` is full or the file ends. Returns the number of
    /// bytes read.
    fn read_at(&mut self, name: &str, at: u64, into: &mut [u8]) -> Result<usize, DiskError>;

    /// Creates an empty file. An existing file of this name is emptied.
    fn create(&mut self, name: &str) -> Result<(), DiskError>;

    /// Writes all bytes from this offset on. On failure, some of them may have been written.
    fn write_at(&mut self, name: &str, at: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Makes durable what was written to a file. Any failure is [`DiskError::FailedSync`], or
    /// [`DiskError::Removed`] if the sync succeeded but the file no longer has a name.
    fn sync_file(&mut self, name: &str) -> Result<(), DiskError>;

    /// Makes durable which files exist. The errors are those of [`Disk::sync_file`].
    fn sync_folder(&mut self) -> Result<(), DiskError>;

    /// Renames a file. An existing file of the new name is replaced.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file.
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;

    /// Sets the length of a file.
    fn truncate(&mut self, name: &str, length: u64) -> Result<(), DiskError>;

    /// CRC32C implementation to use here: a disk knows whether the processor supports it.
    fn checksum(&self) -> checksum::Checksum {
        checksum::portable
    }

    /// Location of the files, for people; empty if it has no name.
    fn place(&self) -> String {
        String::new()
    }
}

macro_rules! passed_on {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name(&mut self, $($arg: $type),*) -> Result<$result, DiskError> {
            (**self).$name($($arg),*)
        }
    )*};
}

impl Disk for Box<dyn Disk + '_> {
    passed_on! {
        list() -> Vec<String>;
        length(name: &str) -> u64;
        read_at(name: &str, at: u64, into: &mut [u8]) -> usize;
        create(name: &str) -> ();
        write_at(name: &str, at: u64, bytes: &[u8]) -> ();
        sync_file(name: &str) -> ();
        sync_folder() -> ();
        rename(from: &str, to: &str) -> ();
        remove(name: &str) -> ();
        truncate(name: &str, length: u64) -> ();
    }

    fn checksum(&self) -> checksum::Checksum {
        (**self).checksum()
    }

    fn place(&self) -> String {
        (**self).place()
    }
}
