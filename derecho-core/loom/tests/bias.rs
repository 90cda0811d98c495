//! One thread that advances the claims' words by plain stores, against other threads that revoke
//! this bias (I-25).
#![cfg(loom)]

use derecho_core::ids::RegionId;
use derecho_core::link::Barrier;
use derecho_core::multicast::bias::ThreadToken;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::send::Sender;
use derecho_loom::{FenceBarrier, MemoryLines, NoBarrier, explore, memory_with_nulls, shape};
use loom::sync::Arc;
use loom::thread;

/// Claims, fills in and commits, on a thread with this number. Returns the messages' numbers.
fn application(memory: &SenderMemory, lines: &MemoryLines, number: u32, count: usize) -> Vec<u64> {
    let me = ThreadToken::new(number);
    (0..count)
        .map(|_| {
            let mut claim = memory.claim_on(me, 1).unwrap();
            lines.write(claim.bytes(), number.into());
            assert_eq!(lines.read(claim.bytes()), u64::from(number), "a claim's room is its own");
            claim.commit_on(me, 1, |_, _| {})
        })
        .collect()
}

fn two_threads(barrier: fn() -> std::sync::Arc<dyn Barrier>) {
    explore(2, move || {
        let memory = memory_with_nulls(shape(8, 2, 8)).with_barrier(Some(barrier()));
        let lines = Arc::new(MemoryLines::of(&memory));
        let owner = thread::spawn({
            let (memory, lines) = (memory.clone(), lines.clone());
            move || application(&memory, &lines, 1, 2)
        });
        let mut numbers = application(&memory, &lines, 2, 1);
        numbers.extend(owner.join().unwrap());
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2], "each number once");
        let mut sender = Sender::new(memory, RegionId(16));
        assert_eq!(sender.send(u64::MAX, usize::MAX), 3, "each entry in its place");
    });
}

#[test]
fn numbers_stay_unique_when_second_thread_revokes_bias() {
    two_threads(|| std::sync::Arc::new(FenceBarrier));
}

/// A null run of the turn, which cannot wait for the bias's owner.
#[test]
fn turn_revokes_bias_or_adds_no_nulls() {
    explore(2, || {
        let memory =
            memory_with_nulls(shape(8, 2, 8)).with_barrier(Some(std::sync::Arc::new(FenceBarrier)));
        let lines = Arc::new(MemoryLines::of(&memory));
        let owner = thread::spawn({
            let (memory, lines) = (memory.clone(), lines.clone());
            move || application(&memory, &lines, 1, 2)
        });
        let mut sender = Sender::new(memory, RegionId(16));
        let filled = sender.fill_up_to(2);
        owner.join().unwrap();
        let entries = sender.send(u64::MAX, usize::MAX);
        assert!(entries == 2 || (filled && entries == 3), "{entries} entries");
        assert!(sender.slots() >= 2);
    });
}

/// Proof that the model can fail: with a barrier that has no effect, two threads take the
/// same place.
#[test]
#[should_panic]
fn without_a_barrier_two_threads_take_the_same_place() {
    two_threads(|| std::sync::Arc::new(NoBarrier));
}
