//! The port to a disk: the files of one folder, and what their loss can look like.
//!
//! Owns: what is asked of a disk, and how it may refuse. Never does: open a file; the folder of
//! `derecho-node` and the simulated disk do, and whoever reads a log cannot tell them apart.
//!
//! What may be concluded, and nothing more:
//! * What was written is there after a crash only when a later `sync_file` of that file succeeded. Before
//!   that any of its sectors may be there or not, in any order; what is not there reads as it did before, as zeros
//!   if it was beyond the end.
//! * A sector (512 bytes, aligned) is there wholly or not at all.
//! * A file that was created, renamed or removed is so after a crash only when a later `sync_folder` succeeded.
//! * A `sync_file` that failed may have dropped what it was to keep, and the next one knows nothing of it.
//! * A file or folder that somebody has removed takes what is written, and nobody will ever find it; a sync says so.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::checksum;

/// What is written together or not at all.
pub const SECTOR: u64 = 512;

/// Why a disk did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// There is no such file or folder.
    NotFound,
    /// What is to be a folder is none.
    NotAFolder,
    /// Somebody has removed it while it was open: what was written is nowhere (I-95).
    Removed,
    /// There is no room left.
    Full,
    /// Nothing may be written there.
    ReadOnly,
    /// What was written may be lost (I-82).
    FailedSync,
    /// Something else, in the system's words.
    Other(String),
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::NotFound => f.write_str("it is not there"),
            DiskError::NotAFolder => f.write_str("it is not a folder"),
            DiskError::Removed => f.write_str(
                "somebody has removed it while it was written, so what was written is nowhere",
            ),
            DiskError::Full => f.write_str(
                "there is no room left: the disk is full, or a quota or the limit of a file's length is reached",
            ),
            DiskError::ReadOnly => f.write_str("it may only be read"),
            DiskError::FailedSync => f.write_str("a sync failed, so what was written may be lost"),
            DiskError::Other(text) => f.write_str(text),
        }
    }
}

/// The files of one folder, by name.
pub trait Disk {
    /// The names of all files.
    fn list(&mut self) -> Result<Vec<String>, DiskError>;

    /// How long a file is.
    fn length(&mut self, name: &str) -> Result<u64, DiskError>;

    /// Reads from this offset on, until `into` is full or the file ends; answers how much it was.
    fn read_at(&mut self, name: &str, at: u64, into: &mut [u8]) -> Result<usize, DiskError>;

    /// Makes an empty file. One of this name is emptied.
    fn create(&mut self, name: &str) -> Result<(), DiskError>;

    /// Writes all of it from this offset on. If it fails, some of it may have been written.
    fn write_at(&mut self, name: &str, at: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Keeps what was written to a file. Whatever is wrong, the error is [`DiskError::FailedSync`], or
    /// [`DiskError::Removed`] if that went well and the file has no name any more.
    fn sync_file(&mut self, name: &str) -> Result<(), DiskError>;

    /// Keeps which files there are. The error is as of [`Disk::sync_file`].
    fn sync_folder(&mut self) -> Result<(), DiskError>;

    /// Gives a file another name; a file that had it is no more.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file.
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;

    /// Makes a file this long.
    fn truncate(&mut self, name: &str, length: u64) -> Result<(), DiskError>;

    /// How CRC32C is computed here: a disk knows whether the processor can do it.
    fn checksum(&self) -> checksum::Checksum {
        checksum::portable
    }

    /// Where its files are, for people; nothing if that has no name.
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
