//! Memory that is mapped for as long as somebody holds it.

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use derecho_core::memory::{LINE, Word};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, munmap};

/// A shared mapping of a whole memfd. Unmapped when dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is an address range of the process, not of a thread; what lies in it is
// reached as atomic words.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes of `memory` for reading, and for writing if it is ours.
    pub(crate) fn new(memory: impl AsFd, bytes: usize, ours: bool) -> Result<Mapping, Errno> {
        let protection = if ours { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses the address, so nothing that is mapped is replaced.
        let base =
            unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, memory, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { base, bytes })
    }

    /// Has the kernel find huge pages for all of it, as far as it can.
    pub(crate) fn prefer_huge_pages(&self) -> Result<(), Errno> {
        // SAFETY: the range was mapped by `new`; what is in it stays as it is.
        unsafe { madvise(self.base.as_ptr().cast(), self.bytes, Advice::LinuxHugepage) }
    }

    /// Locks a part that has memory: it is mapped in now, and stays.
    pub(crate) fn lock(&self, offset: usize, length: usize) -> Result<(), Errno> {
        let part = self.at(offset, length).as_ptr().cast();
        // SAFETY: `at` has checked the range; what is in it stays as it is.
        unsafe { mlock(part, length) }
    }

    /// Maps in a part that has memory, so that no look at it waits for a page.
    pub(crate) fn populate(&self, offset: usize, length: usize) -> Result<(), Errno> {
        let page = rustix::param::page_size();
        let first = offset / page * page;
        let part = self.at(first, offset + length - first).as_ptr().cast();
        // SAFETY: as in `lock`.
        unsafe { madvise(part, offset + length - first, Advice::LinuxPopulateRead) }
    }

    /// The words from `offset` on, for as long as the mapping is held.
    ///
    /// # Panics
    /// If `offset .. offset + length` is not in the mapping or not on a line: callers check.
    pub(crate) fn at(&self, offset: usize, length: usize) -> NonNull<Word> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.bytes);
        assert!(inside && offset.is_multiple_of(LINE), "callers checked the range");
        // SAFETY: `offset` was just checked to lie inside the mapping.
        unsafe { self.base.add(offset).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this range was mapped by `new`, and whoever reaches into it holds the mapping.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}
