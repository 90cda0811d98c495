//! Memory that stays mapped while a holder exists.
//!
//! Owns: ranges of addresses that show a memfd, except for pages that were made private. Never
//! does: leave a hole in such a range.
//!
//! ```text
//!   before   [ page ][ page ][ page ][ page ]     shared, as the owner of the memfd writes them
//!   after    [ page ][ copy ][ copy ][ page ]     private copies of two pages, same addresses
//! ```

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use derecho_core::memory::{AtomicWord, Backing, LINE, WORD};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mlock, mmap, mmap_anonymous,
    mprotect, mremap_fixed, munmap,
};

/// Shared mapping of a whole memfd. Unmapped when dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is an address range of the process, not of a thread; its content is accessed as
// atomic words.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
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

    /// Advises the kernel to use huge pages for the whole mapping where it can.
    pub(crate) fn prefer_huge_pages(&self) -> Result<(), Errno> {
        // SAFETY: the range was mapped by `new`; its content is unchanged.
        unsafe { madvise(self.base.as_ptr().cast(), self.bytes, Advice::LinuxHugepage) }
    }

    /// Locks a part that has memory: the part is populated now and stays in memory.
    pub(crate) fn lock(&self, offset: usize, length: usize) -> Result<(), Errno> {
        let part = self.at(offset, length).as_ptr().cast();
        // SAFETY: `at` has checked the range; its content is unchanged.
        unsafe { mlock(part, length) }
    }

    /// Populates a part that has memory, so that no access to it waits for a page.
    pub(crate) fn populate(&self, offset: usize, length: usize) -> Result<(), Errno> {
        let page = rustix::param::page_size();
        let first = offset / page * page;
        let part = self.at(first, offset + length - first).as_ptr().cast();
        // SAFETY: as in `lock`.
        unsafe { madvise(part, offset + length - first, Advice::LinuxPopulateRead) }
    }

    /// Replaces the pages in which a part lies by private copies. The bytes in these pages keep
    /// their present values, for all threads of this process, whatever the owner of the memory
    /// writes later.
    pub(crate) fn privatize(&self, offset: usize, length: usize) -> Result<(), Errno> {
        if length == 0 {
            return Ok(());
        }
        let page = rustix::param::page_size();
        let first = offset / page * page;
        let count = (offset + length).next_multiple_of(page) - first;
        let range = self.at(first, offset + length - first);
        let flags = MapFlags::PRIVATE;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so nothing that is mapped is replaced.
        let copy = unsafe { mmap_anonymous(ptr::null_mut(), count, both, flags) }?;
        let words = NonNull::new(copy.cast::<AtomicWord>()).ok_or(Errno::NOMEM)?;
        for index in 0..count / WORD {
            // SAFETY: both ranges have `count` bytes: a mapping has whole pages, and the last page
            // of a memfd can be read beyond the end of the memfd. Every bit pattern is a word, and
            // words are atomics, so other threads may write them meanwhile.
            let (from, to) = unsafe { (range.add(index).as_ref(), words.add(index).as_ref()) };
            // Pages of the copy that are never written are zero, and take no memory unless the
            // process locks all of its own.
            if let value @ 1.. = from.peek() {
                to.put(value);
            }
        }
        // SAFETY: the copy was mapped above, and no other thread knows of it. The pages that it
        // replaces lie in this mapping. One system call replaces them: a thread that reads there at
        // that moment waits in the kernel, or finds either the old or the new pages, which are
        // equal except for what the owner writes at this moment.
        let moved = unsafe {
            mprotect(copy, count, MprotectFlags::READ).and_then(|()| {
                mremap_fixed(copy, count, count, MremapFlags::MAYMOVE, range.as_ptr().cast())
            })
        };
        if moved.is_err() {
            // SAFETY: the copy is where it was, and no other thread knows of it.
            let _ = unsafe { munmap(copy, count) };
        }
        moved.map(|_| ())
    }

    /// Returns the words from `offset` on, valid while the mapping is held.
    ///
    /// # Panics
    /// If `offset .. offset + length` is not in the mapping or not on a line: callers check.
    pub(crate) fn at(&self, offset: usize, length: usize) -> NonNull<AtomicWord> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.bytes);
        assert!(inside && offset.is_multiple_of(LINE), "callers checked the range");
        // SAFETY: `offset` was just checked to lie inside the mapping.
        unsafe { self.base.add(offset).cast() }
    }
}

/// Keeps the header of a peer, in which no record lies.
impl Backing for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this range was mapped by `new`, and every user of the range holds the mapping.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Creates a memfd of `bytes` bytes, mapped as its owner has it and as a peer has it.
    fn pair(bytes: usize) -> (OwnedFd, Mapping, Mapping) {
        let memory = memfd_create("squall-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, bytes as u64).unwrap();
        let [own, seen] = [true, false].map(|ours| Mapping::new(&memory, bytes, ours).unwrap());
        (memory, own, seen)
    }

    fn word(mapping: &Mapping, offset: usize) -> &AtomicWord {
        // SAFETY: `at` has checked that the word lies in the mapping, which outlives the reference.
        unsafe { mapping.at(offset / LINE * LINE, LINE).add(offset % LINE / WORD).as_ref() }
    }

    fn fill(own: &Mapping, value: u64) {
        (0..own.bytes).step_by(WORD).for_each(|offset| word(own, offset).put(value));
    }

    #[test]
    fn private_pages_keep_contents_and_shared_pages_show_owner_writes() {
        let page = rustix::param::page_size();
        let (_memory, own, seen) = pair(5 * page);
        fill(&own, 7);
        let before = seen.at(page, LINE);
        // Range that begins in the second page and ends in the third one.
        seen.privatize(page + LINE, page).unwrap();
        fill(&own, 8);
        for offset in (0..5 * page).step_by(WORD) {
            let expected = if (page..3 * page).contains(&offset) { 7 } else { 8 };
            assert_eq!(word(&seen, offset).peek(), expected, "at byte {offset}");
        }
        assert_eq!(seen.at(page, LINE), before, "the address is the same");
        // The same pages once more, and their neighbours.
        seen.privatize(0, 4 * page).unwrap();
        fill(&own, 9);
        let seen: Vec<u64> = (0..5).map(|index| word(&seen, index * page).peek()).collect();
        assert_eq!(seen, [8, 7, 7, 8, 9]);
    }

    #[test]
    fn last_page_of_an_odd_length_becomes_private() {
        let page = rustix::param::page_size();
        let (_memory, own, seen) = pair(page + LINE);
        fill(&own, 7);
        seen.privatize(page, LINE).unwrap();
        seen.privatize(0, 0).unwrap();
        fill(&own, 8);
        assert_eq!((word(&seen, 0).peek(), word(&seen, page).peek()), (8, 7));
    }

    #[test]
    fn threads_read_the_same_bytes_while_pages_become_private() {
        const PAGES: usize = 16;
        let page = rustix::param::page_size();
        for _ in 0..50 {
            let (_memory, own, seen) = pair(PAGES * page);
            fill(&own, 7);
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let mut offsets = (0..PAGES * page).step_by(256);
                        assert!(offsets.all(|offset| word(&seen, offset).peek() == 7));
                    }
                });
                for index in (0..PAGES).rev() {
                    seen.privatize(index * page, page).unwrap();
                }
                fill(&own, 8);
                stop.store(true, Ordering::Relaxed);
            });
            assert!((0..PAGES).all(|index| word(&seen, index * page).peek() == 7));
        }
    }
}
