//! The system's allocator with a counter of the allocations of all threads of a test program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct CountingAllocator;

static ASKED: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's guarantees are those that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Returns the number of allocations while `work` ran.
pub(crate) fn allocations(work: impl FnOnce()) -> u64 {
    let before = ASKED.load(Ordering::Relaxed);
    assert!(before > 0, "it counts");
    work();
    ASKED.load(Ordering::Relaxed) - before
}
