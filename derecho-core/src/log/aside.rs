//! Logs that were put aside: what a topic went on without, kept for whoever wants to look at it.
//!
//! Owns: the names of their files, how they are read, and how they are removed when somebody asks. Never does: use them again.
//!
//! ```text
//!   <stream>-<version>.log  ──>  <stream>-<version>.log.2.aside      the second log of this stream that was put aside
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::checksum::Checksum;
use super::segment::{FileHeader, FileKind};
use super::{Disk, DiskError, LogError, StreamKey, Version};

/// What the names of files end with that were put aside.
const ASIDE: &str = ".aside";

/// Which of the logs of a stream that were put aside: the first, the second, and so on.
pub type Number = u32;

fn aside_name(name: &str, number: Number) -> String {
    format!("{name}.{number}{ASIDE}")
}

/// The name that a file had, and with which log it was put aside.
fn parse(name: &str) -> Option<(&str, Number)> {
    let (name, number) = name.strip_suffix(ASIDE)?.rsplit_once('.')?;
    Some((name, number.parse().ok()?))
}

/// The logs of each stream that were put aside in this folder.
///
/// # Errors
/// When the folder cannot be listed.
pub fn asides(disk: &mut impl Disk) -> Result<BTreeMap<StreamKey, BTreeSet<Number>>, LogError> {
    let mut found: BTreeMap<StreamKey, BTreeSet<Number>> = BTreeMap::new();
    for name in disk.list().map_err(LogError::of(""))? {
        let of =
            parse(&name).and_then(|(name, number)| Some((FileHeader::parse_name(name)?, number)));
        if let Some(((stream, ..), number)) = of {
            found.entry(stream).or_default().insert(number);
        }
    }
    Ok(found)
}

/// The number for a log that ends with this version. What was begun before and did not come to its end goes on: then
/// what is put aside already begins where this ends.
pub(super) fn number_for(
    disk: &mut impl Disk,
    stream: StreamKey,
    last: Version,
) -> Result<Number, LogError> {
    let mut begins: BTreeMap<Number, Version> = BTreeMap::new();
    for name in disk.list().map_err(LogError::of(""))? {
        let Some((name, number)) = parse(&name) else { continue };
        if let Some((of, FileKind::Segment, version)) = FileHeader::parse_name(name)
            && of == stream
        {
            let first = begins.entry(number).or_insert(version);
            *first = version.min(*first);
        }
    }
    Ok(match begins.last_key_value() {
        Some((number, first)) if *first == last.next() && *first > Version(1) => *number,
        Some((number, _)) => number + 1,
        None => 1,
    })
}

/// Gives a file its name aside, for good.
pub(super) fn put(disk: &mut impl Disk, name: &str, number: Number) -> Result<(), LogError> {
    match disk.rename(name, &aside_name(name, number)) {
        Ok(()) => disk.sync_folder().map_err(LogError::of("")),
        Err(DiskError::NotFound) => Ok(()),
        Err(cause) => Err(LogError::of(name)(cause)),
    }
}

/// Removes what was put aside of a stream under this number, oldest files first; what a crash leaves may be removed again.
/// Returns how many bytes that were. The folder is this process's alone.
///
/// # Errors
/// What the disk says.
pub fn remove(
    disk: &mut impl Disk,
    (stream, number): (StreamKey, Number),
) -> Result<u64, LogError> {
    let mut names = disk.list().map_err(LogError::of(""))?;
    names.retain(|name| {
        let of = parse(name).and_then(|(name, of)| Some((FileHeader::parse_name(name)?, of)));
        of.is_some_and(|((key, ..), of)| (key, of) == (stream, number))
    });
    names.sort_unstable();
    let mut bytes = 0;
    for name in names {
        bytes += disk.length(&name).map_err(LogError::of(&name))?;
        disk.remove(&name).map_err(LogError::of(&name))?;
    }
    disk.sync_folder().map_err(LogError::of(""))?;
    Ok(bytes)
}

/// A folder as if the logs of this number that were put aside were all that is in it. It can only be read.
pub struct Aside<D> {
    disk: D,
    number: Number,
}

impl<D> Aside<D> {
    /// In this folder.
    pub fn new(disk: D, number: Number) -> Aside<D> {
        Aside { disk, number }
    }
}

macro_rules! read_only {
    ($($name:ident($($type:ty),*);)*) => {$(
        fn $name(&mut self, $(_: $type),*) -> Result<(), DiskError> {
            Err(DiskError::ReadOnly)
        }
    )*};
}

impl<D: Disk> Disk for Aside<D> {
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
}
