//! In steady state nothing is allocated: neither in the application's calls nor in any turn, on
//! either side.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

#[path = "support/counting.rs"]
mod counting;

use counting::allocations;
use support::{CheckedSample, SOON, TestDomain};

#[test]
fn write_and_take_allocate_nothing_in_steady_state() {
    const WARM_UP: u64 = 20_000;
    const MEASURED: u64 = 20_000;
    const ROUNDS: u64 = 3;
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let writer = support::writer_of(&here, "Marks");
    let reader = support::reader_of(&there, "Marks");
    let near = support::reader_of(&here, "Marks");
    writer.wait_for_readers(2, SOON).unwrap();
    let exchange = |numbers: std::ops::Range<u64>| {
        let mut held = None;
        for number in numbers {
            if number % 2 == 0 {
                writer.write(&CheckedSample::new(number)).unwrap();
            } else {
                let mut loan = writer.loan().unwrap();
                *loan = CheckedSample::new(number);
                loan.publish().unwrap();
            }
            let sample = reader.take_next_data(SOON).unwrap().unwrap();
            assert_eq!(sample.number, number);
            held.replace(sample);
            assert_eq!(
                near.take_data(.., SOON).unwrap().map(|sample| sample.number).max(),
                Some(number)
            );
        }
    };
    exchange(0..WARM_UP);
    // On a loaded machine a queue may reach its maximum length late, and members ask whether others
    // are alive.
    let rounds = (0..ROUNDS).map(|round| {
        let start = WARM_UP + round * MEASURED;
        allocations(|| exchange(start..start + MEASURED))
    });
    let least = rounds.min();
    assert_eq!(least, Some(0), "allocations for {MEASURED} messages, in the best round");
}
