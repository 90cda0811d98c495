//! Delayed bells: the turn that ends the delay, or a later one, reports everything committed
//! meanwhile (I-203).
#![cfg(loom)]

use derecho_core::ids::{RegionId, Time};
use derecho_core::machine::Effects;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::stream::Stream;
use derecho_loom::{explore, memory, smallest};
use loom::thread;

const BUDGET: u64 = 10;

/// Commits on a thread and delays the bells. Returns whether a turn must come for that.
fn write(memory: &SenderMemory, now: u64) -> bool {
    memory.claim(1).expect("there is room").commit(1, |_, _| ());
    memory.put_off(Time(now), BUDGET)
}

#[test]
fn turn_with_delayed_bells_covers_all_commits_or_another_turn_follows() {
    explore(3, || {
        let memory = memory(smallest(8, 4));
        let mut stream = Stream::new(memory.clone(), RegionId(16));
        assert!(write(&memory, 0), "a turn comes for the first");
        let writer = thread::spawn({
            let memory = memory.clone();
            move || write(&memory, 5)
        });
        // The bells of the first commit are due.
        stream.send(Time(BUDGET), &mut Effects::new());
        // A peer woken by these bells runs a turn.
        stream.send(Time(BUDGET), &mut Effects::new());
        let seen = stream.sender().entries();
        let comes = writer.join().unwrap();
        assert!(comes || seen == 2, "nobody is told of the second");
        if comes {
            assert_eq!(memory.bells_due(), Some(Time(5 + BUDGET)));
        }
    });
}
