//! Memory use of a thread.
//!
//! Owns: the allocator of every program with this crate in it. Never does: refuse memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, with the thread's current and maximum memory in use.
struct MeteredAllocator;

fn count(bytes: isize) {
    // A thread that is ending is not counted.
    let _ = IN_USE.try_with(|in_use| {
        in_use.set(in_use.get().wrapping_add(bytes));
        let _ = MOST.try_with(|most| most.set(most.get().max(in_use.get())));
    });
}

// SAFETY: every call is forwarded unchanged to the system's allocator; the counters are plain cells
// of the thread.
unsafe impl GlobalAlloc for MeteredAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(layout.size().cast_signed().wrapping_neg());
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static ALLOCATOR: MeteredAllocator = MeteredAllocator;

/// Meter of the thread's memory use from its creation.
pub(crate) struct AllocationMeter(isize);

impl AllocationMeter {
    pub(crate) fn start() -> Self {
        let now = IN_USE.get();
        MOST.set(now);
        Self(now)
    }

    /// Returns the maximum memory in use beyond the use at the start.
    pub(crate) fn most(&self) -> isize {
        MOST.get() - self.0
    }
}
