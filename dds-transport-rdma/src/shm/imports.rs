//! State that one peer shows to this node: its arenas, mapped read-only, and the regions in them.
//!
//! Owns: every check of what a peer announces. Never does: use a number before it is checked, or
//! map memory that the peer could truncate under the reader.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use derecho_core::ids::{NodeId, RegionId};
use derecho_core::memory::{Backing, LINE, Replica, WORD};
use rustix::fs::{FileType, FsWord, SealFlags, fcntl_get_seals, fstat, fstatfs};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::Shutdown;

use super::arena::{ARENA_BYTES_LIMIT, ARENAS_LIMIT, ArenaRange};
use super::budget;
use super::command::{Command, CommandSender};
use super::doorbell::{HEADER_MAGIC, HEADER_NODE, HEADER_WORDS};
use super::mapping::Mapping;

/// Maximum number of open regions of a peer. Beyond it the peer's announcements are refused.
pub(crate) const REGIONS_LIMIT: usize = 1 << 16;

/// File system of anonymous memory of the usual page size, as `fstatfs` names it.
const TMPFS: FsWord = 0x0102_1994;

/// Shows the peer that this process still reads its memory. When the last holder drops it, the
/// sending half of the connection is closed, possibly long after the link itself.
pub(crate) struct ReadLease(pub(crate) Arc<OwnedFd>);

impl Drop for ReadLease {
    fn drop(&mut self) {
        // If the other end is gone, it needs no notice.
        let _ = rustix::net::shutdown(&*self.0, Shutdown::Write);
    }
}

/// Keeps a replica's memory mapped. Tells the owner when the last handle on the replica is gone.
struct ReplicaBacking {
    mapping: Arc<Mapping>,
    /// Offset of the region in the mapping.
    offset: usize,
    _lease: Arc<ReadLease>,
    commands: CommandSender,
    connection: u32,
    serial: u64,
}

impl Drop for ReplicaBacking {
    fn drop(&mut self) {
        // If the link is gone, the lease tells the owner.
        self.commands.send(Command::Released { connection: self.connection, serial: self.serial });
    }
}

impl Backing for ReplicaBacking {
    fn privatize(&self, bytes: Range<usize>) {
        if let Err(errno) = self.mapping.privatize(self.offset + bytes.start, bytes.len()) {
            // As where any other allocation fails. Holders of references into these pages rely on
            // bytes that stay, and a page that could not be replaced may be gone.
            tracing::error!(
                %errno,
                "{} bytes of a peer's memory with samples that the application holds could not be \
                 copied: this process aborts",
                bytes.len()
            );
            std::process::abort();
        }
    }
}

/// Reason why a peer's announcement is not used.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct AnnouncementFault(String);

impl AnnouncementFault {
    /// Creates a fault with this text.
    pub(crate) fn new(text: impl Into<String>) -> AnnouncementFault {
        AnnouncementFault(text.into())
    }
}

impl fmt::Display for AnnouncementFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn fault<T>(text: impl Into<String>) -> Result<T, AnnouncementFault> {
    Err(AnnouncementFault(text.into()))
}

/// Announcement of a region.
pub(crate) struct RegionAnnouncement {
    pub(crate) serial: u64,
    pub(crate) region: RegionId,
    pub(crate) arena: u32,
    pub(crate) offset: u64,
    pub(crate) words: u64,
}

/// Everything that one peer shows.
pub(crate) struct Imports {
    owner: u32,
    connection: u32,
    commands: CommandSender,
    arenas: BTreeMap<u32, (u64, Arc<Mapping>)>,
    /// Memory of the arenas, kept if regions are populated.
    memories: BTreeMap<u32, OwnedFd>,
    /// Memory of the first arena, until the peer is up.
    header_memory: Option<OwnedFd>,
    next_arena: u32,
    regions: BTreeMap<u64, RegionId>,
    names: BTreeSet<RegionId>,
    next_serial: u64,
    /// Whether regions are populated when they are announced.
    populates: bool,
}

impl Imports {
    /// Creates the empty state of a peer, a process of user `owner`, at the other end
    /// of `connection`.
    pub(crate) fn new(
        owner: u32,
        connection: u32,
        commands: CommandSender,
        populates: bool,
    ) -> Imports {
        Imports {
            owner,
            connection,
            commands,
            arenas: BTreeMap::new(),
            memories: BTreeMap::new(),
            header_memory: None,
            next_arena: 0,
            regions: BTreeMap::new(),
            names: BTreeSet::new(),
            next_serial: 0,
            populates,
        }
    }

    /// Maps an arena.
    pub(crate) fn add_arena(
        &mut self,
        index: u32,
        bytes: u64,
        memory: Option<OwnedFd>,
    ) -> Result<(), AnnouncementFault> {
        let Some(memory) = memory else {
            return fault(format!("arena {index} came without its memory"));
        };
        if index < self.next_arena || self.arenas.len() >= ARENAS_LIMIT {
            return fault(format!("arena {index} is one too many or was there before"));
        }
        check_memory(&memory, bytes, self.owner).map_err(|text| {
            AnnouncementFault(format!("the memory of arena {index} cannot be trusted: {text}"))
        })?;
        let length =
            usize::try_from(bytes).map_err(|_| AnnouncementFault("too large".to_owned()))?;
        let mapping = Mapping::new(&memory, length, false).map_err(|errno| {
            AnnouncementFault(format!(
                "arena {index} of {bytes} bytes could not be mapped: {errno}"
            ))
        })?;
        if self.populates
            && let Ok(memory) = fcntl_dupfd_cloexec(&memory, 0)
        {
            self.memories.insert(index, memory);
        }
        self.next_arena = index + 1;
        self.arenas.insert(index, (bytes, Arc::new(mapping)));
        if index == 0 {
            self.header_memory = Some(memory);
        }
        Ok(())
    }

    /// Removes an arena; replicas in use keep it mapped.
    pub(crate) fn retire(&mut self, index: u32) -> Result<(), AnnouncementFault> {
        self.memories.remove(&index);
        match self.arenas.remove(&index) {
            Some(_) if index != 0 => Ok(()),
            _ => fault(format!("arena {index} cannot be retired")),
        }
    }

    /// Returns the peer's header, and the memory that begins with it. Called once.
    pub(crate) fn header(&mut self, node: NodeId) -> Result<(Replica, OwnedFd), AnnouncementFault> {
        let bytes = HEADER_WORDS * WORD;
        let Some((_, mapping)) = self.arenas.get(&0).filter(|(size, _)| *size >= bytes as u64)
        else {
            return fault("the first arena is too small for a header");
        };
        let backing: Arc<Mapping> = Arc::clone(mapping);
        // SAFETY: the range lies in the mapping, which the backing keeps; a sealed memfd cannot be
        // truncated, so all of it stays readable.
        let header = unsafe { Replica::from_raw(mapping.at(0, bytes), HEADER_WORDS, backing) };
        let low = header.load(HEADER_NODE);
        let high = header.load(HEADER_NODE + 1);
        if header.load(0) != HEADER_MAGIC || (u128::from(high) << 64 | u128::from(low)) != node.0 {
            return fault("the first arena has no header of this node");
        }
        match self.header_memory.take() {
            Some(memory) => Ok((header, memory)),
            None => fault("the header was shown before"),
        }
    }

    /// Adds an announced region; returns its replica.
    pub(crate) fn add_region(
        &mut self,
        announced: &RegionAnnouncement,
        lease: &Arc<ReadLease>,
    ) -> Result<Replica, AnnouncementFault> {
        let space = self.check_region(announced)?;
        let (_, mapping) = &self.arenas[&space.arena];
        let held = ReplicaBacking {
            mapping: Arc::clone(mapping),
            offset: space.offset,
            _lease: Arc::clone(lease),
            commands: self.commands.clone(),
            connection: self.connection,
            serial: announced.serial,
        };
        if self.populates
            && let Err(error) = self.check_memory_behind(&space).and_then(|()| {
                // Kernels before 5.14 cannot populate: the first access to each page maps it.
                mapping.populate(space.offset, space.bytes).map_err(|errno| errno.to_string())
            })
        {
            tracing::warn!(error, "memory of a peer not populated at once");
        }
        let base = mapping.at(space.offset, space.bytes);
        self.next_serial = announced.serial + 1;
        self.regions.insert(announced.serial, announced.region);
        self.names.insert(announced.region);
        // SAFETY: the range lies in the mapping and on a line, as was just checked; the backing
        // keeps the mapping; a sealed memfd cannot be truncated, so all of it stays readable.
        Ok(unsafe { Replica::from_raw(base, space.bytes / WORD, Arc::new(held)) })
    }

    /// Checks that a region has memory. Populating a region without memory would allocate it, and
    /// charge it to this process.
    fn check_memory_behind(&self, space: &ArenaRange) -> Result<(), String> {
        const BLOCK: u64 = 512;
        let memory =
            self.memories.get(&space.arena).ok_or("the descriptor of its arena is missing")?;
        let blocks = fstat(memory).map_err(|errno| errno.to_string())?.st_blocks as u64;
        let end = (space.offset + space.bytes) as u64;
        if blocks.saturating_mul(BLOCK) < end {
            return Err(format!("{end} bytes were announced and only {blocks} blocks have memory"));
        }
        budget::check_room(space.bytes as u64)
    }

    fn check_region(
        &self,
        announced: &RegionAnnouncement,
    ) -> Result<ArenaRange, AnnouncementFault> {
        let RegionAnnouncement { serial, region, arena, offset, words } = *announced;
        if serial < self.next_serial || serial == u64::MAX {
            return fault(format!("region {:#x} has the serial {serial} again", region.0));
        }
        if self.regions.len() >= REGIONS_LIMIT {
            return fault(format!("more than {REGIONS_LIMIT} regions are open"));
        }
        if self.names.contains(&region) {
            return fault(format!("region {:#x} is open already", region.0));
        }
        let Some((size, _)) = self.arenas.get(&arena) else {
            return fault(format!(
                "region {:#x} lies in arena {arena}, which is unknown",
                region.0
            ));
        };
        let first = if arena == 0 { (HEADER_WORDS * WORD) as u64 } else { 0 };
        let bytes = words.checked_mul(WORD as u64);
        let end = bytes.and_then(|bytes| offset.checked_add(bytes));
        match (bytes, end) {
            (Some(bytes), Some(end))
                if offset >= first && end <= *size && offset.is_multiple_of(LINE as u64) =>
            {
                // Both fit: the arena is mapped, so its size is a `usize`.
                Ok(ArenaRange { arena, offset: offset as usize, bytes: bytes as usize })
            }
            _ => fault(format!(
                "region {:#x} of {words} words at byte {offset} does not lie on a line inside \
                 arena {arena} of {size} bytes",
                region.0
            )),
        }
    }

    /// Removes a closed region; returns its name.
    pub(crate) fn close(&mut self, serial: u64) -> Result<RegionId, AnnouncementFault> {
        match self.regions.remove(&serial) {
            Some(region) => {
                self.names.remove(&region);
                Ok(region)
            }
            None => fault(format!("the region with serial {serial} is not open")),
        }
    }
}

/// Checks that memory is safe to map: it can never become smaller than it is now, and it belongs to
/// the peer.
fn check_memory(memory: &OwnedFd, bytes: u64, owner: u32) -> Result<(), String> {
    match check_sealed(memory, bytes)? {
        uid if uid == owner => Ok(()),
        uid => Err(format!("it belongs to user {uid}, the peer is user {owner}")),
    }
}

/// Checks that memory can never become smaller than it is now; returns the user that owns it.
pub(crate) fn check_sealed(memory: &OwnedFd, bytes: u64) -> Result<u32, String> {
    // The seals are checked first, because the kernel itself answers. The status of another file
    // may depend on a file system that the peer runs, which could block this thread. Only memory
    // files have seals.
    let seals = fcntl_get_seals(memory).map_err(|_| "it cannot be sealed".to_owned())?;
    let stat = fstat(memory).map_err(|errno| errno.to_string())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("it is no memory file".to_owned());
    }
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
        return Err("it is not sealed against being cut".to_owned());
    }
    // A mapping of huge pages may be larger than requested, and replace whatever lies behind it.
    if fstatfs(memory).map_err(|errno| errno.to_string())?.f_type != TMPFS {
        return Err("it is no memory of ordinary pages".to_owned());
    }
    if u64::try_from(stat.st_size) != Ok(bytes) || bytes == 0 || bytes > ARENA_BYTES_LIMIT {
        return Err(format!("it has {} bytes where {bytes} were announced", stat.st_size));
    }
    Ok(stat.st_uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    fn check(kind: MemfdFlags) -> Option<Result<(), String>> {
        const BYTES: u64 = 2 << 20;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = memfd_create("squall-test", flags | kind).ok()?;
        ftruncate(&memory, BYTES).ok()?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW).ok()?;
        Some(check_memory(&memory, BYTES, rustix::process::geteuid().as_raw()))
    }

    #[test]
    fn huge_pages_are_refused() {
        assert_eq!(check(MemfdFlags::empty()), Some(Ok(())));
        let Some(huge) = check(MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB) else {
            eprintln!("skipped: there are no huge pages here");
            return;
        };
        assert!(huge.is_err_and(|text| text.contains("ordinary")));
    }
}
