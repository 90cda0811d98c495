//! Memory from which own regions are allocated.
//!
//! Owns: arenas (sealed memfds, mapped for writing by this process only) and the record of which
//! parts are in use. Never does: decide when used space may be allocated again; the caller knows
//! when nobody reads it any more.
//!
//! ```text
//!   arena   [ in use ][ free ][ in use ]|[ used before ]|[ never touched: no memory yet ]
//!                       ^ must be zeroed ^ top           ^ used     ^ allocated (whole pages)
//! ```

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use derecho_core::memory::{AtomicWord, LINE};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::budget::MemoryBudget;
use super::mapping::Mapping;

/// Maximum number of arenas of a node, and of a peer. Each takes a descriptor at its owner.
pub(crate) const ARENAS_LIMIT: usize = 64;
/// Largest factor by which an arena may exceed the first. Arenas grow with their number, so that
/// many large regions need few arenas.
const GROWTH_LIMIT: usize = 64;
/// Size of the largest arena. Address spaces have 47 bits, and a peer may announce many arenas.
pub(crate) const ARENA_BYTES_LIMIT: u64 = 1 << 42;

/// A part of an arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArenaRange {
    pub(crate) arena: u32,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// A sealed memfd that only this process can write.
pub(crate) struct Arena {
    memory: Arc<OwnedFd>,
    mapping: Arc<Mapping>,
    bytes: usize,
    /// End of the pages that have memory.
    allocated: usize,
    /// End of the space in use.
    top: usize,
    /// End of the space that was ever in use; space above it is zero.
    used: usize,
    /// Free parts below `top`, offset to length; no two are adjacent.
    free: BTreeMap<usize, usize>,
    is_locked: bool,
}

/// Requested properties of memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryOptions {
    /// Lock and populate memory when it is allocated.
    pub(crate) is_locked: bool,
    /// Prefer huge pages where available.
    pub(crate) is_huge: bool,
}

impl Arena {
    fn new(bytes: usize, kind: MemoryOptions) -> Result<Arena, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = match memfd_create("squall-arena", flags | MemfdFlags::NOEXEC_SEAL) {
            // Kernels before 6.3 do not know the flag.
            Err(Errno::INVAL) => memfd_create("squall-arena", flags),
            result => result,
        }?;
        ftruncate(&memory, bytes as u64)?;
        let mapping = Mapping::new(&memory, bytes, true)?;
        if kind.is_huge {
            mapping.prefer_huge_pages()?;
        }
        // From here on no process can truncate the memory under a reader, and no further process
        // can map it for writing: this process keeps the only writable mapping.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        fcntl_add_seals(&memory, seals)?;
        Ok(Arena {
            memory: Arc::new(memory),
            mapping: Arc::new(mapping),
            bytes,
            allocated: 0,
            top: 0,
            used: 0,
            free: BTreeMap::new(),
            is_locked: kind.is_locked,
        })
    }

    /// Returns the offset of a free part that is long enough.
    fn find_free(&self, bytes: usize) -> Option<usize> {
        self.free.iter().find(|(_, length)| **length >= bytes).map(|(offset, _)| *offset)
    }

    fn take_free(&mut self, offset: usize, bytes: usize) {
        let length = self.free.remove(&offset).expect("the part was just found");
        if length > bytes {
            self.free.insert(offset + bytes, length - bytes);
        }
    }

    /// Ensures that the space up to `end` has memory.
    fn allocate_to(&mut self, end: usize, budget: &mut MemoryBudget) -> Result<(), String> {
        let page = rustix::param::page_size();
        let end = end.next_multiple_of(page).min(self.bytes);
        let Some(need) = end.checked_sub(self.allocated).filter(|need| *need > 0) else {
            return Ok(());
        };
        budget.take(need as u64)?;
        loop {
            let flags = FallocateFlags::empty();
            match fallocate(&self.memory, flags, self.allocated as u64, need as u64) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    budget.give_back(need as u64);
                    return Err(format!(
                        "{need} bytes of shared memory could not be allocated ({}); open fewer or \
                         smaller regions or free memory",
                        std::io::Error::from(errno)
                    ));
                }
            }
        }
        if self.is_locked
            && let Err(errno) = self.mapping.lock(self.allocated, need)
        {
            budget.give_back(need as u64);
            return Err(not_locked(need, errno));
        }
        self.allocated = end;
        Ok(())
    }

    /// Zeroes the part of the range that was in use before.
    fn clear(&mut self, offset: usize, bytes: usize) {
        let dirty = self.used.saturating_sub(offset).min(bytes);
        if dirty > 0 {
            let base = self.mapping.at(offset, dirty).cast::<u8>();
            // SAFETY: the range is inside the mapping, has memory, and is allocated to nobody: the
            // handles of its former user are gone, here and at every peer.
            unsafe { base.write_bytes(0, dirty) };
        }
        self.used = self.used.max(offset + bytes);
    }

    fn release(&mut self, offset: usize, bytes: usize) {
        let (mut start, mut length) = (offset, bytes);
        if let Some((&before, &long)) = self.free.range(..offset).next_back()
            && before + long == offset
        {
            self.free.remove(&before);
            (start, length) = (before, long + length);
        }
        if let Some(long) = self.free.remove(&(start + length)) {
            length += long;
        }
        if start + length == self.top {
            self.top = start;
        } else {
            self.free.insert(start, length);
        }
    }
}

fn not_locked(bytes: usize, errno: Errno) -> String {
    let limit = getrlimit(Resource::Memlock).current.map_or("any".to_owned(), |it| it.to_string());
    format!(
        "{bytes} bytes of shared memory could not be locked ({}): the process needs CAP_IPC_LOCK, \
         or a larger RLIMIT_MEMLOCK ({limit} bytes here, for all its locked memory): `ulimit -l`, \
         or `LimitMEMLOCK=` of a systemd unit; or give writers less .memory()",
        std::io::Error::from(errno)
    )
}

/// A new arena to announce to the peers.
pub(crate) struct NewArena {
    pub(crate) index: u32,
    pub(crate) bytes: u64,
    pub(crate) memory: Arc<OwnedFd>,
}

/// Zeroed space for a region, with memory behind it.
pub(crate) struct ArenaAllocation {
    pub(crate) space: ArenaRange,
    pub(crate) base: NonNull<AtomicWord>,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) new_arena: Option<NewArena>,
}

/// All arenas of a node.
pub(crate) struct Arenas {
    arenas: BTreeMap<u32, Arena>,
    next_index: u32,
    usual_bytes: usize,
    budget: MemoryBudget,
    options: MemoryOptions,
}

impl Arenas {
    /// Creates an empty set of arenas.
    pub(crate) fn new(usual_bytes: usize, limit: Option<u64>, kind: MemoryOptions) -> Arenas {
        let usual_bytes = usual_bytes.next_multiple_of(rustix::param::page_size());
        let budget = MemoryBudget::new(limit);
        Arenas { arenas: BTreeMap::new(), next_index: 0, usual_bytes, budget, options: kind }
    }

    /// Allocates space of at least `bytes` bytes.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<ArenaAllocation, String> {
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(LINE)
            .filter(|bytes| *bytes as u64 <= ARENA_BYTES_LIMIT)
            .ok_or_else(|| {
                format!("a region of {bytes} bytes is larger than any ({ARENA_BYTES_LIMIT} bytes)")
            })?;
        if let Some((index, offset)) =
            self.arenas.iter().find_map(|(index, arena)| Some((*index, arena.find_free(bytes)?)))
        {
            let arena = self.arenas.get_mut(&index).expect("the arena was just found");
            arena.take_free(offset, bytes);
            arena.clear(offset, bytes);
            return Ok(allocation(index, arena, offset, bytes, None));
        }
        let room = self.arenas.iter().find(|(_, arena)| arena.bytes - arena.top >= bytes);
        let (index, new_arena) = match room {
            Some((index, _)) => (*index, None),
            None => {
                let new_arena = self.add_arena(bytes)?;
                (new_arena.index, Some(new_arena))
            }
        };
        let arena = self.arenas.get_mut(&index).expect("the arena was found or created above");
        let offset = arena.top;
        if let Err(text) = arena.allocate_to(offset + bytes, &mut self.budget) {
            if new_arena.is_some() {
                self.arenas.remove(&index);
            }
            return Err(text);
        }
        arena.top += bytes;
        arena.clear(offset, bytes);
        Ok(allocation(index, arena, offset, bytes, new_arena))
    }

    fn add_arena(&mut self, bytes: usize) -> Result<NewArena, String> {
        // Check first, so that an absurd size creates no arena.
        if self.arenas.len() >= ARENAS_LIMIT {
            return Err(format!(
                "this node has {ARENAS_LIMIT} arenas of shared memory, which is the limit; raise \
                 arena_bytes or open fewer or smaller regions"
            ));
        }
        let growth = 1_usize.checked_shl(self.next_index).unwrap_or(0).clamp(1, GROWTH_LIMIT);
        let page = rustix::param::page_size();
        let size = self.usual_bytes.saturating_mul(growth);
        // The kernel kills a process with SIGXFSZ if a file grows beyond the limit.
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        let longest = usize::try_from(limit).unwrap_or(usize::MAX) / page * page;
        if bytes > longest {
            return Err(format!(
                "{bytes} bytes of shared memory exceed the file size limit of this process, \
                 {limit} bytes (RLIMIT_FSIZE); raise the limit with `ulimit -f`, or with \
                 `LimitFSIZE=` of a systemd unit"
            ));
        }
        let size = size.min(longest).max(bytes.next_multiple_of(page));
        let arena = Arena::new(size, self.options).map_err(|errno| {
            format!(
                "an arena of {size} bytes of shared memory could not be created ({}); an arena \
                 needs Linux 5.1, address space and a free descriptor (ulimit -v, ulimit -n)",
                std::io::Error::from(errno)
            )
        })?;
        let index = self.next_index;
        self.next_index += 1;
        let memory = Arc::clone(&arena.memory);
        self.arenas.insert(index, arena);
        Ok(NewArena { index, bytes: size as u64, memory })
    }

    /// Takes space back. Returns the arena's number if the arena was removed with it.
    pub(crate) fn release(&mut self, space: ArenaRange) -> Option<u32> {
        let arena = self.arenas.get_mut(&space.arena)?;
        arena.release(space.offset, space.bytes);
        // The first arena holds the header and stays. Any other empty arena returns its memory.
        if arena.top > 0 || space.arena == 0 {
            return None;
        }
        self.budget.give_back(arena.allocated as u64);
        self.arenas.remove(&space.arena);
        Some(space.arena)
    }

    /// Memory allocated, in bytes.
    #[cfg(test)]
    fn allocated(&self) -> usize {
        self.arenas.values().map(|arena| arena.allocated).sum()
    }
}

fn allocation(
    index: u32,
    arena: &Arena,
    offset: usize,
    bytes: usize,
    new_arena: Option<NewArena>,
) -> ArenaAllocation {
    ArenaAllocation {
        space: ArenaRange { arena: index, offset, bytes },
        base: arena.mapping.at(offset, bytes),
        mapping: Arc::clone(&arena.mapping),
        new_arena,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arenas() -> Arenas {
        Arenas::new(64 << 10, None, MemoryOptions::default())
    }

    fn fill(allocation: &ArenaAllocation, value: u64) {
        for i in 0..allocation.space.bytes / 8 {
            // SAFETY: the space was allocated with this length and nobody else has it.
            unsafe { allocation.base.add(i).as_ref() }.put(value);
        }
    }

    fn all(allocation: &ArenaAllocation, value: u64) -> bool {
        // SAFETY: as in `fill`.
        (0..allocation.space.bytes / 8)
            .all(|i| unsafe { allocation.base.add(i).as_ref() }.peek() == value)
    }

    #[test]
    fn arena_aligns_spaces_to_lines_and_allocates_only_used_pages() {
        let mut arenas = arenas();
        let first = arenas.allocate(1).unwrap();
        let second = arenas.allocate(65).unwrap();
        assert_eq!((first.space.offset, first.space.bytes), (0, 64));
        assert_eq!((second.space.offset, second.space.bytes), (64, 128));
        assert!(first.new_arena.is_some() && second.new_arena.is_none());
        assert_eq!(arenas.allocated(), rustix::param::page_size());
    }

    #[test]
    fn released_spaces_are_zeroed_and_merged() {
        let mut arenas = arenas();
        let parts: Vec<ArenaAllocation> = (0..4).map(|_| arenas.allocate(1024).unwrap()).collect();
        parts.iter().for_each(|part| fill(part, 7));
        arenas.release(parts[0].space);
        arenas.release(parts[2].space);
        arenas.release(parts[1].space);
        let large = arenas.allocate(3072).unwrap();
        assert_eq!(large.space.offset, 0);
        assert!(all(&large, 0) && all(&parts[3], 7));
    }

    #[test]
    fn large_region_has_own_arena_that_is_freed_on_release() {
        let mut arenas = arenas();
        let _header = arenas.allocate(64).unwrap();
        let large = arenas.allocate(1 << 20).unwrap();
        assert_eq!(large.space.arena, 1);
        assert!(arenas.allocated() > 1 << 20);
        assert_eq!(arenas.release(large.space), Some(1));
        assert_eq!(arenas.allocated(), rustix::param::page_size());
    }

    #[test]
    fn absurd_size_is_refused_and_leaves_no_arena() {
        let mut arenas = arenas();
        assert!(arenas.allocate(usize::MAX).is_err());
        assert!(arenas.allocate(1 << 41).is_err());
        assert!(arenas.arenas.is_empty());
    }

    proptest! {
        #[test]
        fn carved_spaces_never_overlap(steps in prop::collection::vec((1_usize..5000, any::<u8>()), 1..60)) {
            let mut arenas = arenas();
            let mut live: Vec<(ArenaAllocation, u64)> = Vec::new();
            for (value, (bytes, pick)) in steps.into_iter().enumerate() {
                if pick % 3 == 0 && !live.is_empty() {
                    let (allocation, _) = live.swap_remove(usize::from(pick) % live.len());
                    arenas.release(allocation.space);
                } else {
                    let allocation = arenas.allocate(bytes).unwrap();
                    prop_assert!(all(&allocation, 0));
                    fill(&allocation, value as u64 + 1);
                    live.push((allocation, value as u64 + 1));
                }
                for (allocation, value) in &live {
                    prop_assert!(all(allocation, *value));
                }
            }
        }
    }
}
