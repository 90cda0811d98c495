//! A row of pages that are readable whatever happens to what is shown in them.
//!
//! Owns: one range of addresses. Each of its pages shows the beginning of somebody's memory, or
//! zeros. Never does: leave a hole, so a thread may look at any page at any time, without knowing
//! who is shown there or whether anybody still is.
//!
//! ```text
//!   base    +1 page  +2 pages
//!   [ A ]   [ zeros ] [ C ]  ...       show: a file's first page over what was there
//!                                      hide: zeros over what was there
//! ```
//! Both put one mapping in the place of another in one system call. A thread that looks at that
//! moment waits in the kernel, or sees the one or the other.

use std::ffi::c_void;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use derecho_core::memory::{WORD, Word};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// The range. Unmapped when dropped.
pub(crate) struct Pages {
    base: NonNull<u8>,
    count: usize,
    page: usize,
}

// SAFETY: an address range belongs to the process; what lies in it is read as atomic words.
unsafe impl Send for Pages {}
// SAFETY: as above; showing and hiding go through the kernel, which orders them.
unsafe impl Sync for Pages {}

impl Pages {
    /// `count` pages of zeros. They take addresses and no memory.
    pub(crate) fn new(count: usize) -> Result<Pages, Errno> {
        let page = rustix::param::page_size();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so nothing that is mapped is replaced.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), count * page, ProtFlags::READ, flags) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Pages { base, count, page })
    }

    /// Word `word` of page `index`, as it is now.
    #[inline]
    pub(crate) fn word(&self, index: usize, word: usize) -> &Word {
        assert!(index < self.count && word < self.page / WORD, "the layout is our own");
        // SAFETY: the address lies in the range, on a word; the range has no holes and is mapped
        // for as long as `self` lives; every bit pattern is a word. What is shown there may be
        // exchanged meanwhile, which is no more than what its owner might have stored.
        unsafe { self.base.add(index * self.page).cast::<Word>().add(word).as_ref() }
    }

    /// Shows the first page of `memory`, which is a file that has one and cannot be cut.
    pub(crate) fn show(&self, index: usize, memory: impl AsFd) -> Result<(), Errno> {
        // Mapped in at once, so that the first look at it is as cheap as the others.
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        // SAFETY: exactly one page of our own range is replaced; whoever looks at it reads words,
        // and finds others there.
        let shown =
            unsafe { mmap(self.address(index), self.page, ProtFlags::READ, flags, memory, 0) };
        if shown.is_err() {
            self.mend(index);
        }
        shown.map(|_| ())
    }

    /// Shows zeros.
    pub(crate) fn hide(&self, index: usize) {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: as in `show`.
        let hidden =
            unsafe { mmap_anonymous(self.address(index), self.page, ProtFlags::READ, flags) };
        if hidden.is_err() {
            self.mend(index);
        }
    }

    /// A mapping that fails may have taken away what was there. Puts zeros into the hole, if
    /// there is one.
    #[cold]
    fn mend(&self, index: usize) {
        let wanted = self.address(index);
        // Never over anything: were there a hole, another thread's mapping might be in it now.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: nothing that is mapped is replaced.
        match unsafe { mmap_anonymous(wanted, self.page, ProtFlags::READ, flags) } {
            Ok(mapped) if mapped == wanted => {}
            // What was shown is still shown.
            Err(Errno::EXIST) => {}
            other => {
                // The kernel has no memory for the description of a page, and other threads are
                // about to read it.
                tracing::error!(?other, "a page of the bells is lost and cannot be mapped again");
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
        // SAFETY: the range was mapped by `new` and is ours whatever it shows; nobody holds a
        // reference into it, for all of them borrow from `self`.
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
    fn a_page_shows_what_it_is_told_and_zeros_else() {
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
    fn what_cannot_be_shown_leaves_no_hole() {
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
    fn threads_may_look_while_pages_come_and_go() {
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
