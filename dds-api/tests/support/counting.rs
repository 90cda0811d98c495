//! The system's allocator, which counts what all threads of a test program ask of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ASKED: AtomicU64 = AtomicU64::new(0);

// SAFETY: it does what the system's allocator does.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How often memory was asked for while this ran.
pub(crate) fn allocations(work: impl FnOnce()) -> u64 {
    let before = ASKED.load(Ordering::Relaxed);
    assert!(before > 0, "it counts");
    work();
    ASKED.load(Ordering::Relaxed) - before
}
