//! In steady state nothing is allocated: neither in the application's calls nor in any turn, on
//! either side.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use support::{Mark, Meeting, SOON};

/// The system's allocator, which counts what all threads ask of it.
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

#[test]
fn a_message_allocates_nothing() {
    const WARM_UP: u64 = 20_000;
    const MEASURED: u64 = 20_000;
    let meeting = Meeting::new();
    let (here, there) = (meeting.join(), meeting.join());
    let writer = support::writer_of(&here, "Marks");
    let reader = support::reader_of(&there, "Marks");
    let near = support::reader_of(&here, "Marks");
    writer.wait_for_readers(2, SOON).unwrap();
    let exchange = |numbers: std::ops::Range<u64>| {
        let mut held = None;
        for number in numbers {
            if number % 2 == 0 {
                writer.write(&Mark::new(number)).unwrap();
            } else {
                let mut loan = writer.loan().unwrap();
                *loan = Mark::new(number);
                loan.publish().unwrap();
            }
            let sample = reader.take_next(SOON).unwrap().unwrap();
            assert_eq!(sample.number, number);
            held.replace(sample);
            assert_eq!(
                near.take(.., SOON).unwrap().map(|sample| sample.number).max(),
                Some(number)
            );
        }
    };
    exchange(0..WARM_UP);
    let before = ASKED.load(Ordering::Relaxed);
    assert!(before > 0, "it counts");
    exchange(WARM_UP..WARM_UP + MEASURED);
    let asked = ASKED.load(Ordering::Relaxed) - before;
    assert_eq!(asked, 0, "{asked} allocations for {MEASURED} messages");
}
