//! A log folder: its owner, its streams, and how a file is put into it.
//!
//! Owns: the file `identity`, and the steps that create a file completely or not at all (I-86).
//! Never does: keep other processes out; the caller that opens the folder has locked it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::head::{self, Magic};
use super::segment::FileHeader;
use super::{Disk, DiskError, GroupId, LogError, LogId, LogOwner, StreamKey, extents};
use crate::bytes::{ByteReader, Wire};
use crate::fault::{Fault, planted};

/// Name of the file that identifies the owner of a folder's logs.
pub const IDENTITY: &str = "identity";
/// Suffix of the name of a file that is not complete yet.
pub const UNFINISHED: &str = ".new";

const MAGIC: Magic = *b"SQUALLID";

/// Writes a file under a temporary name, syncs it, renames it and syncs the folder.
pub(crate) fn publish<D: Disk>(
    disk: &mut D,
    name: &str,
    write: impl FnOnce(&mut D, &str) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let temporary = format!("{name}{UNFINISHED}");
    disk.create(&temporary).map_err(LogError::of(&temporary))?;
    write(disk, &temporary)?;
    disk.sync_file(&temporary).map_err(LogError::of(&temporary))?;
    disk.rename(&temporary, name).map_err(LogError::of(name))?;
    if planted(Fault::RenameNotSynced) {
        return Ok(());
    }
    disk.sync_folder().map_err(LogError::of(""))
}

/// Removes a file durably, before anything else happens.
pub(crate) fn remove(disk: &mut impl Disk, name: &str) -> Result<(), LogError> {
    match disk.remove(name) {
        Ok(()) => disk.sync_folder().map_err(LogError::of("")),
        Err(DiskError::NotFound) => Ok(()),
        Err(cause) => Err(LogError::of(name)(cause)),
    }
}

/// Returns the owner of a folder; `None` if it has none yet.
pub fn owner(disk: &mut impl Disk) -> Result<Option<LogOwner>, LogError> {
    let mut bytes = [0; 48];
    let found = match disk.read_at(IDENTITY, 0, &mut bytes) {
        Err(DiskError::NotFound) => return Ok(None),
        other => other.map_err(LogError::of(IDENTITY))?,
    };
    let bad = || LogError::BadHeader { file: IDENTITY.into() };
    if found < bytes.len() {
        return Err(bad());
    }
    let reader = &mut ByteReader::new(head::body(IDENTITY, MAGIC, &bytes, disk.checksum())?);
    let group = GroupId::decode(reader).ok_or_else(bad)?;
    Ok(Some(LogOwner { group, log: LogId::decode(reader).ok_or_else(bad)? }))
}

/// Opens a folder for this group. A folder without an owner becomes the group's, with the
/// identity `fresh`.
///
/// # Errors
/// [`LogError::OtherGroup`] if the folder belongs to another group; errors of the disk.
pub fn claim(disk: &mut impl Disk, group: GroupId, fresh: LogId) -> Result<LogOwner, LogError> {
    if let Some(owner) = owner(disk)? {
        // The process that named the file may have ended before the name was durable.
        disk.sync_folder().map_err(LogError::of(""))?;
        return if owner.group == group {
            Ok(owner)
        } else {
            Err(LogError::OtherGroup { folder: String::new(), found: owner.group })
        };
    }
    // Logs without an owner belong to someone who has lost the identity file: they are not
    // taken over.
    if let Some(stream) = streams(disk)?.first() {
        return Err(LogError::NoIdentity { folder: String::new(), stream: *stream });
    }
    let mut bytes = head::begin(MAGIC);
    (group, fresh).encode(&mut bytes);
    head::seal(&mut bytes, disk.checksum());
    publish(disk, IDENTITY, |disk, temporary| {
        disk.write_at(temporary, 0, &bytes).map_err(LogError::of(temporary))
    })?;
    Ok(LogOwner { group, log: fresh })
}

/// Returns the streams that have files here, or that must have some according to the extents.
///
/// # Errors
/// Errors of the disk, or that the extents cannot be read.
pub fn streams(disk: &mut impl Disk) -> Result<BTreeSet<StreamKey>, LogError> {
    let names: Vec<String> = disk.list().map_err(LogError::of(""))?;
    let there = names.iter().filter_map(|name| FileHeader::parse_name(name));
    let known = extents::all(disk)?.into_keys();
    Ok(there.map(|(stream, ..)| stream).chain(known).collect())
}
