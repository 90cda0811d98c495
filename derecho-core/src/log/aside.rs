//! Logs that were put aside: what a topic went on without, kept for inspection.
//!
//! Owns: the names of their files, how they are read, how many of them stay (I-96), and how they
//! are removed on request. Never does: use them again.
//!
//! ```text
//!   <stream>-<version>.log  ──>  <stream>-<version>.log.2.aside      number 2 of this stream
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::checksum::Checksum;
use super::segment::{FileHeader, FileKind};
use super::{Disk, DiskError, LogError, StreamKey, Version, extents, folder, index};

/// Suffix of the names of files that were put aside.
const ASIDE: &str = ".aside";

/// Maximum number of logs of a stream that are kept aside.
pub const MOST: usize = 8;

/// Number of a log among those of a stream that were put aside, counted from 1.
pub type AsideNumber = u32;

fn aside_name(name: &str, number: AsideNumber) -> String {
    format!("{name}.{number}{ASIDE}")
}

/// Returns the original name of a file, and the number of the log with which it was put aside.
fn parse(name: &str) -> Option<(&str, AsideNumber)> {
    let (name, number) = name.strip_suffix(ASIDE)?.rsplit_once('.')?;
    Some((name, number.parse().ok()?))
}

/// Returns the logs of each stream that were put aside in this folder.
///
/// # Errors
/// If the folder cannot be listed.
pub fn asides(
    disk: &mut impl Disk,
) -> Result<BTreeMap<StreamKey, BTreeSet<AsideNumber>>, LogError> {
    let mut found: BTreeMap<StreamKey, BTreeSet<AsideNumber>> = BTreeMap::new();
    for name in disk.list().map_err(LogError::of(""))? {
        let of =
            parse(&name).and_then(|(name, number)| Some((FileHeader::parse_name(name)?, number)));
        if let Some(((stream, ..), number)) = of {
            found.entry(stream).or_default().insert(number);
        }
    }
    Ok(found)
}

/// Returns the number for a log that ends with version `last`. An interrupted attempt to put a log
/// aside is continued with its number: then the files already aside begin where this log ends, and
/// have no checkpoint, because the checkpoint is moved last.
pub(super) fn number_for(
    disk: &mut impl Disk,
    stream: StreamKey,
    last: Version,
) -> Result<AsideNumber, LogError> {
    let (mut begins, mut whole) = (BTreeMap::<AsideNumber, Version>::new(), BTreeSet::new());
    for name in disk.list().map_err(LogError::of(""))? {
        let Some((name, number)) = parse(&name) else { continue };
        let Some((of, kind, version)) = FileHeader::parse_name(name) else { continue };
        if of != stream {
            continue;
        }
        if kind == FileKind::Checkpoint {
            whole.insert(number);
        }
        let first = begins.entry(number).or_insert(version.next());
        if kind == FileKind::Segment {
            *first = version.min(*first);
        }
    }
    let goes_on = |number: &AsideNumber, first: Version| {
        first == last.next() && first > Version(1) && !whole.contains(number)
    };
    Ok(match begins.last_key_value() {
        Some((number, first)) if goes_on(number, *first) => *number,
        Some((number, _)) => number + 1,
        None => 1,
    })
}

/// Returns the number of the log of a stream that was put aside last; 0 if there is none.
///
/// # Errors
/// If the folder cannot be listed.
pub fn last(disk: &mut impl Disk, stream: StreamKey) -> Result<AsideNumber, LogError> {
    Ok(asides(disk)?.remove(&stream).and_then(|all| all.last().copied()).unwrap_or(0))
}

/// Puts all files of a damaged log aside, the oldest first, and forgets its extent last. What an
/// interruption leaves is still damaged, because the extent says that its beginning is gone, and
/// gets the next number. This process must be the only user of the folder. Returns the number.
///
/// # Errors
/// Errors of the disk.
pub fn put_damaged(disk: &mut impl Disk, stream: StreamKey) -> Result<AsideNumber, LogError> {
    let number = last(disk, stream)? + 1;
    let names = disk.list().map_err(LogError::of(""))?.into_iter();
    let mut files: Vec<_> = names
        .filter_map(|name| {
            let (of, kind, version) = FileHeader::parse_name(&name)?;
            (of == stream).then_some((kind == FileKind::Checkpoint, version, name))
        })
        .collect();
    files.sort_unstable();
    for (is_state, _, name) in files {
        if !is_state {
            folder::remove(disk, &index::name_of(&name))?;
        }
        put(disk, &name, number)?;
    }
    extents::forget(disk, stream)?;
    Ok(number)
}

/// Durably renames a file to its name aside.
pub(super) fn put(disk: &mut impl Disk, name: &str, number: AsideNumber) -> Result<(), LogError> {
    match disk.rename(name, &aside_name(name, number)) {
        Ok(()) => disk.sync_folder().map_err(LogError::of("")),
        Err(DiskError::NotFound) => Ok(()),
        Err(cause) => Err(LogError::of(name)(cause)),
    }
}

/// Files and total bytes of the logs of a stream that were put aside, by number.
fn files_of(
    disk: &mut impl Disk,
    stream: StreamKey,
) -> Result<BTreeMap<AsideNumber, (Vec<String>, u64)>, LogError> {
    let mut found: BTreeMap<AsideNumber, (Vec<String>, u64)> = BTreeMap::new();
    let mut names = disk.list().map_err(LogError::of(""))?;
    names.sort_unstable();
    for name in names {
        let of = parse(&name).and_then(|(of, number)| Some((FileHeader::parse_name(of)?, number)));
        if let Some((_, number)) = of.filter(|((key, ..), _)| *key == stream) {
            let bytes = disk.length(&name).map_err(LogError::of(&name))?;
            let (files, all) = found.entry(number).or_default();
            files.push(name);
            *all += bytes;
        }
    }
    Ok(found)
}

/// Bytes of the logs of a stream that were put aside, by number.
///
/// # Errors
/// Errors of the disk.
pub fn bytes_of(
    disk: &mut impl Disk,
    stream: StreamKey,
) -> Result<BTreeMap<AsideNumber, u64>, LogError> {
    let files = files_of(disk, stream)?.into_iter();
    Ok(files.map(|(number, (_, bytes))| (number, bytes)).collect())
}

/// Removes the oldest logs of a stream that were put aside, so that at most [`MOST`] stay, with at
/// most `most_bytes` bytes together if that is limited. The last one stays whatever its size
/// (I-96). Returns the numbers and sizes of the removed logs.
///
/// # Errors
/// Errors of the disk.
pub fn keep_last(
    disk: &mut impl Disk,
    stream: StreamKey,
    most_bytes: Option<u64>,
) -> Result<Vec<(AsideNumber, u64)>, LogError> {
    let (mut all, mut kept) = (0, 0);
    let mut spare = Vec::new();
    for (number, bytes) in bytes_of(disk, stream)?.into_iter().rev() {
        all += bytes;
        let has_room = kept < MOST && most_bytes.is_none_or(|most| all <= most);
        match kept == 0 || has_room && spare.is_empty() {
            true => kept += 1,
            false => spare.push(number),
        }
    }
    // The oldest are removed first, so that newer ones remain after a crash.
    let oldest_first = spare.into_iter().rev();
    oldest_first.map(|number| Ok((number, remove(disk, stream, number)?))).collect()
}

/// Removes the log of a stream that was put aside under this number, oldest files first. An
/// interrupted removal may be repeated. Returns the number of bytes removed. This process must be
/// the only user of the folder.
///
/// # Errors
/// Errors of the disk.
pub fn remove(
    disk: &mut impl Disk,
    stream: StreamKey,
    number: AsideNumber,
) -> Result<u64, LogError> {
    let (names, bytes) = files_of(disk, stream)?.remove(&number).unwrap_or_default();
    for name in names {
        disk.remove(&name).map_err(LogError::of(&name))?;
    }
    disk.sync_folder().map_err(LogError::of(""))?;
    Ok(bytes)
}

/// Read-only view of a folder as if it contained only the logs put aside under this number.
pub struct PutAsideFolder<D> {
    disk: D,
    number: AsideNumber,
}

impl<D> PutAsideFolder<D> {
    /// Creates a view of this folder.
    pub fn new(disk: D, number: AsideNumber) -> PutAsideFolder<D> {
        PutAsideFolder { disk, number }
    }
}

macro_rules! read_only {
    ($($name:ident($($type:ty),*);)*) => {$(
        fn $name(&mut self, $(_: $type),*) -> Result<(), DiskError> {
            Err(DiskError::ReadOnly)
        }
    )*};
}

impl<D: Disk> Disk for PutAsideFolder<D> {
    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        let names = self.disk.list()?;
        let of_it = names.iter().filter_map(|name| parse(name));
        Ok(of_it.filter(|(_, of)| *of == self.number).map(|(name, _)| name.into()).collect())
    }

    fn length(&mut self, name: &str) -> Result<u64, DiskError> {
        self.disk.length(&aside_name(name, self.number))
    }

    fn read_at(&mut self, name: &str, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.disk.read_at(&aside_name(name, self.number), at, into)
    }

    read_only! {
        create(&str);
        write_at(&str, u64, &[u8]);
        sync_file(&str);
        sync_folder();
        rename(&str, &str);
        remove(&str);
        truncate(&str, u64);
    }

    fn checksum(&self) -> Checksum {
        self.disk.checksum()
    }

    fn place(&self) -> String {
        self.disk.place()
    }
}
