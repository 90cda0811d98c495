//! Memory with the words of the local group: created by one node, sealed, handed from node to node.
//!
//! Owns: the layout of the words, the seals, and the memory that peers have handed over. Never
//! does: map memory that another process could truncate, or decide which of several memories
//! belongs to the group; the group file says that.
//!
//! ```text
//!   line 0              decision word
//!   254 seats           a word each
//! ```

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use derecho_core::ids::NodeId;
use derecho_core::link::Generation;
use derecho_core::link::host::{DecisionWord, HostSeat};
use derecho_core::memory::{LINE, WORD};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat,
    ftruncate, memfd_create,
};
use rustix::io::Errno;

use crate::shm::imports::check_sealed;
use crate::shm::mapping::Mapping;

/// Number of seats: maximum number of nodes on one host that may use the words at a time.
pub(super) const SEATS: usize = 254;
/// Bytes of the memory.
const BYTES: usize = 4 << 10;

/// First line of the memory.
#[repr(C)]
struct GroupHeader {
    decision: DecisionWord,
    _rest: [u64; 7],
}

const _: () = assert!(size_of::<GroupHeader>() == LINE && size_of::<HostSeat>() == WORD);
const _: () = assert!(LINE + SEATS * WORD <= BYTES);

/// Device and inode of a memory: unique while the memory exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MemoryIdentity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// Sealed memory with the words of a group.
pub(crate) struct GroupMemory {
    file: Arc<OwnedFd>,
    identity: MemoryIdentity,
}

impl GroupMemory {
    /// Creates the words of a host whose groups up to `last` are all gone.
    pub(super) fn make(last: Generation) -> Result<GroupMemory, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = match memfd_create("squall-group", flags | MemfdFlags::NOEXEC_SEAL) {
            // Kernels before 6.3 do not know the flag.
            Err(Errno::INVAL) => memfd_create("squall-group", flags),
            result => result,
        }?;
        ftruncate(&file, BYTES as u64)?;
        fallocate(&file, FallocateFlags::empty(), 0, BYTES as u64)?;
        // The last seal keeps other processes from adding a seal that would prevent every later
        // mapping for writing.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = GroupMemory::of(file)?;
        GroupPage::map(&memory)?.decision().resume_after(last);
        Ok(memory)
    }

    /// Checks memory that a peer has handed over; an error says why it must not be used.
    pub(crate) fn check(file: OwnedFd) -> Result<GroupMemory, String> {
        check_sealed(&file, BYTES as u64)?;
        let seals = fcntl_get_seals(&file).map_err(|errno| errno.to_string())?;
        if seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
            return Err("it is sealed against writes".to_owned());
        }
        if !seals.contains(SealFlags::SEAL) {
            return Err("it is not sealed against further seals".to_owned());
        }
        GroupMemory::of(file).map_err(|errno| errno.to_string())
    }

    fn of(file: OwnedFd) -> Result<GroupMemory, Errno> {
        let stat = fstat(&file)?;
        let identity = MemoryIdentity { device: stat.st_dev, inode: stat.st_ino };
        Ok(GroupMemory { file: Arc::new(file), identity })
    }

    /// Descriptor to hand to peers.
    pub(crate) fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Device and inode of the memory.
    pub(super) fn identity(&self) -> MemoryIdentity {
        self.identity
    }
}

/// The words, mapped.
pub(super) struct GroupPage {
    mapping: Mapping,
    identity: MemoryIdentity,
}

impl GroupPage {
    /// Maps the words for reading and writing.
    pub(super) fn map(memory: &GroupMemory) -> Result<GroupPage, Errno> {
        let mapping = Mapping::new(&*memory.file, BYTES, true)?;
        Ok(GroupPage { mapping, identity: memory.identity })
    }

    /// Device and inode of the memory.
    pub(super) fn identity(&self) -> MemoryIdentity {
        self.identity
    }

    /// Returns the word that records whose decision stands.
    pub(super) fn decision(&self) -> &DecisionWord {
        // SAFETY: `at` has checked that the line lies inside the mapping, which begins on a page
        // and lives as long as `self`; the whole line consists of atomics, for which any bits are
        // valid. The memory has `BYTES` bytes and is sealed against truncation, so no access to
        // it fails.
        let head: &GroupHeader = unsafe { self.mapping.at(0, LINE).cast().as_ref() };
        &head.decision
    }

    /// Returns all seats.
    pub(super) fn seats(&self) -> &[HostSeat] {
        let first = self.mapping.at(LINE, SEATS * WORD).cast();
        // SAFETY: as in `decision`.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), SEATS) }
    }
}

/// Memories that peers have handed over: at most one for each connection.
#[derive(Default)]
pub(crate) struct HandedOver {
    memories: Mutex<BTreeMap<u32, HandedOverMemory>>,
    arrived: Condvar,
}

/// Memory that one peer has handed over.
struct HandedOverMemory {
    by: NodeId,
    memory: Arc<GroupMemory>,
}

impl HandedOver {
    fn memories(&self) -> MutexGuard<'_, BTreeMap<u32, HandedOverMemory>> {
        // No operation under this lock can be left half done.
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the memory that a node has sent over a connection, replacing the previous one.
    pub(crate) fn put(&self, connection: u32, by: NodeId, memory: GroupMemory) {
        let mut memories = self.memories();
        // One descriptor is enough for a memory that many peers hand over.
        let known = memories.values().find(|it| it.memory.identity == memory.identity);
        let known = known.map(|it| Arc::clone(&it.memory));
        let memory = known.unwrap_or_else(|| Arc::new(memory));
        memories.insert(connection, HandedOverMemory { by, memory });
        self.arrived.notify_all();
    }

    /// Removes the memory that came over a connection.
    pub(crate) fn remove(&self, connection: u32) {
        self.memories().remove(&connection);
    }

    /// Removes all memories.
    pub(crate) fn clear(&self) {
        self.memories().clear();
    }

    /// Returns the memory with this identity, if a peer has handed it over.
    pub(super) fn get(&self, identity: MemoryIdentity) -> Option<Arc<GroupMemory>> {
        let memories = self.memories();
        let found = memories.values().find(|it| it.memory.identity == identity);
        found.map(|it| Arc::clone(&it.memory))
    }

    /// Returns the nodes that have handed over a different memory.
    pub(super) fn of_others(&self, identity: Option<MemoryIdentity>) -> Vec<NodeId> {
        let memories = self.memories();
        let others = memories.values().filter(|it| Some(it.memory.identity) != identity);
        others.map(|it| it.by).collect()
    }

    /// Waits until a peer hands over the memory with this identity, or until `until`.
    pub(super) fn wait(&self, identity: MemoryIdentity, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let lacks = |memories: &mut BTreeMap<u32, HandedOverMemory>| {
            memories.values().all(|it| it.memory.identity != identity)
        };
        drop(self.arrived.wait_timeout_while(self.memories(), left, lacks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use derecho_core::ids::Rank;

    fn unsealed(seals: SealFlags) -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("squall-test", flags).unwrap();
        ftruncate(&file, BYTES as u64).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    }

    #[test]
    fn group_memory_check_accepts_only_writable_memory_of_sealed_size() {
        let fixed = SealFlags::SHRINK | SealFlags::GROW;
        assert!(GroupMemory::check(unsealed(fixed | SealFlags::SEAL)).is_ok());
        for seals in [
            SealFlags::SEAL,
            SealFlags::SHRINK | SealFlags::SEAL,
            SealFlags::GROW | SealFlags::SEAL,
            fixed,
            fixed | SealFlags::SEAL | SealFlags::WRITE,
            fixed | SealFlags::SEAL | SealFlags::FUTURE_WRITE,
        ] {
            assert!(GroupMemory::check(unsealed(seals)).is_err(), "{seals:?}");
        }
    }

    #[test]
    fn new_group_memory_passes_peer_check_and_cannot_be_resized() {
        let memory = GroupMemory::make(Generation(7)).unwrap();
        for bytes in [0, 64, 1 << 20] {
            assert_eq!(ftruncate(&**memory.file(), bytes), Err(Errno::PERM));
        }
        let other = GroupMemory::check(memory.file().try_clone().unwrap()).unwrap();
        assert_eq!(other.identity(), memory.identity());
        let (page, same) = (GroupPage::map(&memory).unwrap(), GroupPage::map(&other).unwrap());
        assert_eq!(same.decision().group(), Generation(7));
        assert_eq!(page.decision().settle(Generation(7), 9, Rank(1)), None, "that group is gone");
        assert!(same.seats().iter().all(|seat| !seat.is_member(Generation(7))));
    }

    #[test]
    fn group_memory_from_many_connections_takes_one_descriptor() {
        let memory = GroupMemory::make(Generation::NONE).unwrap();
        let handed = HandedOver::default();
        for connection in 0..3 {
            let copy = GroupMemory::check(memory.file().try_clone().unwrap()).unwrap();
            handed.put(connection, NodeId(9), copy);
        }
        let kept = handed.get(memory.identity()).unwrap();
        assert_eq!(Arc::strong_count(&kept), 4);
        assert!(handed.of_others(Some(memory.identity())).is_empty());
        assert_eq!(handed.of_others(None), [NodeId(9); 3]);
        (0..3).for_each(|connection| handed.remove(connection));
        assert!(handed.get(memory.identity()).is_none());
    }
}
