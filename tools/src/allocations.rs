//! The command's allocator: the system's, with a counter.
//!
//! Owns: the number of allocations of this process. Reports show it, because the data path should
//! not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// The system's allocator with a counter.
pub(crate) struct CountingAllocator;

/// Returns the number of allocations of this process.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches no memory
// except one atomic.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is the system's too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`; the block came from the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as in `dealloc`.
        unsafe { System.realloc(block, layout, size) }
    }
}
