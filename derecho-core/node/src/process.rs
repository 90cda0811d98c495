//! Identity of this process. A forked child has all of its parent's memory and none of its threads,
//! so it must not use an engine that it inherits.
//!
//! Owns: a page that the kernel wipes in a forked child, which reveals the fork. Never does: run
//! anything at a fork.

use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// Word that is zero in a forked child until the child asks for its number.
struct ForkPage(NonNull<AtomicU32>);

// SAFETY: the pointer refers to an atomic word that stays mapped for good.
unsafe impl Send for ForkPage {}
// SAFETY: as for `Send`.
unsafe impl Sync for ForkPage {}

static PAGE: OnceLock<Option<ForkPage>> = OnceLock::new();
/// Last number given to this process or to one of its ancestors.
static LAST: AtomicU32 = AtomicU32::new(0);

/// Returns a number of this process that differs from those of the processes it was forked from.
/// Always the same where the kernel (before Linux 4.14) wipes no pages.
#[inline]
pub fn number() -> u32 {
    let Some(ForkPage(word)) = PAGE.get_or_init(page) else { return 1 };
    // SAFETY: the page was mapped when it was created and is never unmapped; any bits are a word.
    let word = unsafe { word.as_ref() };
    match word.load(Ordering::Relaxed) {
        0 => begin(word),
        number => number,
    }
}

#[cold]
fn begin(word: &AtomicU32) -> u32 {
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    // If two threads of a child ask first at the same time, one gets the other's number.
    let was = word.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    was.err().unwrap_or(number)
}

#[cold]
fn page() -> Option<ForkPage> {
    let (length, access) = (rustix::param::page_size(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: the kernel chooses the address, so nothing that is mapped is replaced.
    let mapped =
        unsafe { mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: exactly the page that was just mapped, which nobody else knows of.
    let wiped = unsafe { madvise(mapped, length, Advice::LinuxWipeOnFork) };
    if let Err(error) = wiped {
        tracing::warn!(%error, "forks of this process cannot be detected");
        return None;
    }
    NonNull::new(mapped.cast()).map(ForkPage)
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
