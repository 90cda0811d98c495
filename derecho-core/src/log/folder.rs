//! A log folder: whose it is, which streams are in it, and how a file comes into it.
//!
//! Owns: the file `identity`, and the steps by which a file is there wholly or not at all (I-86). Never does: keep
//! others out; whoever opens the folder has locked it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::head::{self, Magic};
use super::segment::FileHeader;
use super::{Disk, DiskError, GroupId, LogError, LogId, Owner, StreamKey, extents};
use crate::bytes::{Reader, Wire};
use crate::fault::{Fault, planted};

/// The file that says whose logs are in a folder.
pub const IDENTITY: &str = "identity";
/// What the name of a file ends with that is not whole yet.
pub const DRAFT: &str = ".new";

const MAGIC: Magic = *b"SQUALLID";

/// Writes a file under another name, syncs it, gives it its name and syncs the folder.
pub(crate) fn publish<D: Disk>(
    disk: &mut D,
    name: &str,
    write: impl FnOnce(&mut D, &str) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let draft = format!("{name}{DRAFT}");
    disk.create(&draft).map_err(LogError::of(&draft))?;
    write(disk, &draft)?;
    disk.sync_file(&draft).map_err(LogError::of(&draft))?;
    disk.rename(&draft, name).map_err(LogError::of(name))?;
    if planted(Fault::RenameNotSynced) {
        return Ok(());
    }
    disk.sync_folder().map_err(LogError::of(""))
}

/// Removes a file, so that it is gone before anything else happens.
pub(crate) fn remove(disk: &mut impl Disk, name: &str) -> Result<(), LogError> {
    match disk.remove(name) {
        Ok(()) => disk.sync_folder().map_err(LogError::of("")),
        Err(DiskError::NotFound) => Ok(()),
        Err(cause) => Err(LogError::of(name)(cause)),
    }
}

/// Whose a folder is; `None` if it is nobody's yet.
pub fn owner(disk: &mut impl Disk) -> Result<Option<Owner>, LogError> {
    let mut bytes = [0; 48];
    let found = match disk.read_at(IDENTITY, 0, &mut bytes) {
        Err(DiskError::NotFound) => return Ok(None),
        other => other.map_err(LogError::of(IDENTITY))?,
    };
    let bad = || LogError::BadHeader { file: IDENTITY.into() };
    if found < bytes.len() {
        return Err(bad());
    }
    let reader = &mut Reader::new(head::body(IDENTITY, MAGIC, &bytes, disk.checksum())?);
    let group = GroupId::decode(reader).ok_or_else(bad)?;
    Ok(Some(Owner { group, log: LogId::decode(reader).ok_or_else(bad)? }))
}

/// Opens a folder for this group. One that is nobody's becomes the group's, with this identity.
///
/// # Errors
/// [`LogError::OtherGroup`] if it is another one's; what the disk says.
pub fn claim(disk: &mut impl Disk, group: GroupId, fresh: LogId) -> Result<Owner, LogError> {
    if let Some(owner) = owner(disk)? {
        // Whoever named it may have gone before the name was kept.
        disk.sync_folder().map_err(LogError::of(""))?;
        return if owner.group == group {
            Ok(owner)
        } else {
            Err(LogError::OtherGroup { folder: String::new(), found: owner.group })
        };
    }
    // Logs without an owner are somebody's who has lost the file: they are not taken over.
    if let Some(stream) = streams(disk)?.first() {
        return Err(LogError::NoIdentity { folder: String::new(), stream: *stream });
    }
    let mut bytes = head::begin(MAGIC);
    (group, fresh).encode(&mut bytes);
    head::seal(&mut bytes, disk.checksum());
    publish(disk, IDENTITY, |disk, draft| {
        disk.write_at(draft, 0, &bytes).map_err(LogError::of(draft))
    })?;
    Ok(Owner { group, log: fresh })
}

/// The streams that have files here, or have to have some.
///
/// # Errors
/// What the disk says, or that it cannot be known which have to.
pub fn streams(disk: &mut impl Disk) -> Result<BTreeSet<StreamKey>, LogError> {
    let names: Vec<String> = disk.list().map_err(LogError::of(""))?;
    let there = names.iter().filter_map(|name| FileHeader::parse_name(name));
    let known = extents::all(disk)?.into_keys();
    Ok(there.map(|(stream, ..)| stream).chain(known).collect())
}
