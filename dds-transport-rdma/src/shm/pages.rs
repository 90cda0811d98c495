//! Array of pages that stay readable whatever happens to the memory shown in them.
//!
//! Owns: one range of addresses. Each of its pages shows the beginning of a node's memory, or
//! zeros. Never does: leave a hole, so a thread may read any page at any time, without knowing
//! whose memory is shown there or whether that node is still alive.
//!
//! ```text
//!   base    +1 page  +2 pages
//!   [ A ]   [ zeros ] [ C ]  ...       show: a file's first page over what was there
//!                                      hide: zeros over what was there
//! ```
//! Both operations replace one mapping by another in one system call. A thread that reads at that
//! moment waits in the kernel, or sees either the old or the new mapping.

use std::ffi::c_void;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use derecho_core::memory::{AtomicWord, WORD};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// The range of pages. Unmapped when dropped.
pub(crate) struct Pages {
    base: NonNull<u8>,
    count: usize,
    page: usize,
}

// SAFETY: an address range belongs to the process; its content is read as atomic words.
unsafe impl Send for Pages {}
// SAFETY: as for `Send`; showing and hiding go through the kernel, which orders them.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `count` pages of zeros. They take addresses and no memory.
    pub(crate) fn new(count: usize) -> Result<Pages, Errno> {
        let page = rustix::param::page_size();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so nothing that is mapped is replaced.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), count * page, ProtFlags::READ, flags) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Pages { base, count, page })
    }

    /// Returns word `word` of page `index`, as it is now.
    #[inline]
    pub(crate) fn word(&self, index: usize, word: usize) -> &AtomicWord {
        assert!(index < self.count && word < self.page / WORD, "the layout is our own");
        // SAFETY: the address lies in the range, on a word; the range has no holes and is mapped
        // while `self` lives; every bit pattern is a word. The memory shown there may be exchanged
        // meanwhile, which has no more effect than a store by its owner.
        unsafe { self.base.add(index * self.page).cast::<AtomicWord>().add(word).as_ref() }
    }

    /// Shows the first page of `memory`, a file that has at least one page and cannot be truncated.
    pub(crate) fn show(&self, index: usize, memory: impl AsFd) -> Result<(), Errno> {
        // POPULATE, so that the first access is as cheap as the others.
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        // SAFETY: exactly one page of our own range is replaced; its readers read words, and find
        // other words there.
        let shown =
            unsafe { mmap(self.address(index), self.page, ProtFlags::READ, flags, memory, 0) };
        if shown.is_err() {
            self.mend(index);
        }
        shown.map(|_| ())
    }

    /// Shows zeros in a page.
    pub(crate) fn hide(&self, index: usize) {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: as in `show`.
        let hidden =
            unsafe { mmap_anonymous(self.address(index), self.page, ProtFlags::READ, flags) };
        if hidden.is_err() {
            self.mend(index);
        }
    }

    /// Puts zeros into the hole that a failed mapping may have left, if there is one.
    #[cold]
    fn mend(&self, index: usize) {
        let wanted = self.address(index);
        // NOREPLACE: if there was a hole, another thread's mapping might be in it now.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: nothing that is mapped is replaced.
        match unsafe { mmap_anonymous(wanted, self.page, ProtFlags::READ, flags) } {
            Ok(mapped) if mapped == wanted => {}
            // The previous mapping is still there.
            Err(Errno::EXIST) => {}
            other => {
                // The kernel has no memory for the description of a page, and other threads are
                // about to read that page.
                tracing::error!(
                    ?other,
                    "page of the bells lost and not mapped again: this process aborts"
                );
                std::process::abort();
            }
        }
    }

    fn address(&self, index: usize) -> *mut c_void {
        assert!(index < self.count, "the layout is our own");
        // SAFETY: the page lies in the range.
        unsafe { self.base.add(index * self.page) }.as_ptr().cast()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and is ours whatever it shows; no reference into it
        // exists, because all of them borrow from `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.count * self.page) };
        debug_assert!(unmapped.is_ok(), "a range of ours can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::io::pwrite;
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn memory(word: u64) -> OwnedFd {
        let memory = memfd_create("squall-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, rustix::param::page_size() as u64).unwrap();
        assert_eq!(pwrite(&memory, &word.to_ne_bytes(), 8).unwrap(), 8);
        memory
    }

    #[test]
    fn page_shows_assigned_memory_and_zeros_otherwise() {
        let pages = Pages::new(3).unwrap();
        pages.show(1, memory(7)).unwrap();
        let seen = || [0, 1, 2].map(|index| pages.word(index, 1).peek());
        assert_eq!(seen(), [0, 7, 0]);
        pages.show(1, memory(8)).unwrap();
        assert_eq!(seen(), [0, 8, 0]);
        pages.hide(1);
        assert_eq!(seen(), [0, 0, 0]);
    }

    #[test]
    fn failed_mapping_leaves_no_hole_in_pages() {
        let pages = Pages::new(1).unwrap();
        pages.show(0, memory(7)).unwrap();
        // A pipe cannot be mapped.
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert!(pages.show(0, pipe).is_err());
        assert!([0, 7].contains(&pages.word(0, 1).peek()));
        // Nothing is lost, so nothing is mended.
        pages.mend(0);
        assert!([0, 7].contains(&pages.word(0, 1).peek()));
    }

    #[test]
    fn threads_read_pages_while_pages_are_shown_and_hidden() {
        let pages = Pages::new(2).unwrap();
        let memories = [memory(7), memory(8)];
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!([0, 7, 8].contains(&pages.word(1, 1).peek()));
                }
            });
            for round in 0..20_000 {
                pages.show(1, &memories[round % 2]).unwrap();
                if round % 3 == 0 {
                    pages.hide(1);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
