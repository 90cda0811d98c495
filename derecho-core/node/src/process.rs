//! Which process this is. A child that was forked has all its parent's memory, and none of its threads: what it inherits of an
//! engine is not its own.
//!
//! Owns: a page that the kernel wipes in a forked child, so that a look at it tells. Never does: run anything at a fork.

use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// A word that is zero in a child until that asks for its number.
struct Page(NonNull<AtomicU32>);

// SAFETY: what is behind the pointer is an atomic word that stays mapped for good.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

static PAGE: OnceLock<Option<Page>> = OnceLock::new();
/// The last number that this process or one that it was forked from has had.
static LAST: AtomicU32 = AtomicU32::new(0);

/// A number of this process: of all that it was forked from none has the same. Always the same where the kernel (before
/// Linux 4.14) wipes no pages.
#[inline]
pub fn number() -> u32 {
    let Some(Page(word)) = PAGE.get_or_init(page) else { return 1 };
    // SAFETY: the page was mapped when it was made and is never unmapped; any bits are a word.
    let word = unsafe { word.as_ref() };
    match word.load(Ordering::Relaxed) {
        0 => begin(word),
        number => number,
    }
}

#[cold]
fn begin(word: &AtomicU32) -> u32 {
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    // Of two threads of a child that ask first one is told the other's number.
    let was = word.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    was.err().unwrap_or(number)
}

#[cold]
fn page() -> Option<Page> {
    let (length, access) = (rustix::param::page_size(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: the kernel chooses the address, so nothing that is mapped is replaced.
    let mapped =
        unsafe { mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: exactly the page that was just mapped, which nobody else knows of.
    let wiped = unsafe { madvise(mapped, length, Advice::LinuxWipeOnFork) };
    if let Err(error) = wiped {
        tracing::warn!(%error, "a fork of this process will not be noticed");
        return None;
    }
    NonNull::new(mapped.cast()).map(Page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_number() {
        let number = number();
        assert!(number > 0);
        assert_eq!(std::thread::spawn(super::number).join().ok(), Some(number));
    }
}
