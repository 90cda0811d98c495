//! Bytes do not decide the memory use of a reader; a counting allocator checks this.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod types;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use idl_cdr::{DdsType, MemberPath, ValueRef, from_cdr, key_from_cdr, to_cdr_with};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use types::{Everything, everything};

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all memory is the system's; the additional code touches only numbers of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.with(|held| {
            held.set(held.get() + layout.size());
            MOST.with(|most| most.set(most.get().max(held.get())));
        });
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.with(|held| held.set(held.get().saturating_sub(layout.size())));
        // SAFETY: the memory is the system's, because `alloc` returned it, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the maximum memory in use at once beyond the memory in use before.
fn most_memory(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    MOST.set(before);
    work();
    MOST.get() - before
}

/// Maximum ratio of a value's size in memory to its size in bytes, for elements of sequences.
const GROWTH: usize = 200;
const LITTLE: usize = 4096;

fn read<T: DdsType>(payload: &[u8]) {
    let most = most_memory(|| {
        let _ = from_cdr::<T>(payload);
        let _ = key_from_cdr::<T>(payload);
    });
    let allowed = payload.len() * GROWTH + LITTLE;
    assert!(most <= allowed, "{most} bytes of memory for {} bytes: {payload:02x?}", payload.len());
}

#[test]
fn corrupt_length_causes_no_large_allocation() {
    let mut runner = TestRunner::deterministic();
    for round in 0..12 {
        let value = everything().new_tree(&mut runner).unwrap().current();
        let payload = to_cdr_with(&value, types::ENCODINGS[round % 4]).unwrap();
        for at in 4..payload.len() - 4 {
            for number in [u32::MAX, 0x7fff_ffff, 0x1000_0000, 0x10_0000] {
                for bytes in [number.to_le_bytes(), number.to_be_bytes()] {
                    let mut damaged = payload.clone();
                    damaged[at..at + 4].copy_from_slice(&bytes);
                    read::<Everything>(&damaged);
                }
            }
        }
    }
}

#[test]
fn huge_length_in_short_payload_causes_no_large_allocation() {
    for id in [0, 1, 6, 7] {
        let payload = [0, id, 0, 0, 0x7f, 0xff, 0xff, 0x7f, 0, 0, 0, 0];
        read::<Vec<u8>>(&payload);
        read::<Vec<f64>>(&payload);
        read::<Vec<String>>(&payload);
        read::<Vec<[u64; 64]>>(&payload);
        read::<String>(&payload);
        read::<std::collections::BTreeMap<u32, u64>>(&payload);
    }
}

#[test]
fn member_lookup_allocates_no_memory() {
    let value = Everything::default_value();
    let paths = ["derived.inner.y", "choice.discriminator", "tree.next.value", "derived.name"];
    let paths = paths.map(|path| MemberPath::of::<Everything>(path).unwrap());
    let limit = ValueRef::Signed(1000);
    let most = most_memory(|| {
        for path in &paths {
            let _ = path.find(&value).compare(limit);
        }
    });
    assert_eq!(most, 0);
}
