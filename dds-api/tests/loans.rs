//! Loans that are given back make room for others, who may be asleep.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use dds_api::prelude::*;
use support::{Mark, Meeting};

#[test]
fn a_write_that_waits_for_room_is_woken_by_a_loan_that_is_dropped() {
    const TOO_LONG: Timeout = Timeout::secs(5);
    let meeting = Meeting::new();
    let participant = meeting.join();
    let topic = participant.topic::<Mark>("Marks").create().unwrap();
    let writer = participant.writer(&topic).memory(4096).in_flight(2);
    let writer = writer.max_blocking_time(TOO_LONG).create().unwrap();
    for _ in 0..3 {
        let loans = [writer.loan().unwrap(), writer.loan().unwrap()];
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| writer.write(&Mark::new(1)));
            // Long enough for it to be asleep in most runs; in no other can it fail.
            std::thread::sleep(Duration::from_millis(50));
            assert!(!writing.is_finished());
            drop(loans);
            writing.join().unwrap().unwrap();
        });
    }
}
