//! Claims of several threads against the turn that processes commits and frees chunks.
#![cfg(loom)]

use derecho_core::ids::RegionId;
use derecho_core::multicast::claim::{ClaimError, SenderMemory};
use derecho_core::multicast::send::Sender;
use derecho_loom::{MemoryLines, explore, memory, smallest};
use loom::sync::Arc;
use loom::thread;

/// Use that an application thread makes of a claim.
#[derive(Clone, Copy)]
enum Use {
    Commit,
    Abandon,
}

fn application(memory: &SenderMemory, lines: &MemoryLines, uses: &[Use], value: u64) -> Vec<u64> {
    let mut slots = Vec::new();
    for what in uses {
        match memory.claim(1) {
            Ok(mut claim) => {
                lines.write(claim.bytes(), value);
                assert_eq!(lines.read(claim.bytes()), value, "a claim's room is its own");
                match what {
                    Use::Commit => slots.push(claim.commit(1, |_, _| {})),
                    Use::Abandon => drop(claim),
                }
            }
            Err(ClaimError::Full) => {}
            Err(error) => panic!("{error}"),
        }
    }
    slots
}

/// Processes commits, and frees everything unneeded: there are no readers.
fn turn(sender: &mut Sender) {
    let before = sender.entries();
    let count = sender.send(u64::MAX, usize::MAX) as u64;
    assert_eq!(sender.entries(), before + count);
    assert!(sender.messages() <= sender.memory().committed());
    sender.give_back(sender.entries(), 0);
}

/// Runs two application threads against `turns` turns, without readers, so that sent records are
/// free again. `before` records were sent at the start. At most `most` preemptions.
fn run(
    most: usize,
    (entries, chunks): (u64, u64),
    before: usize,
    uses: [&'static [Use]; 2],
    turns: usize,
) {
    explore(most, move || {
        let memory = memory(smallest(entries, chunks));
        let lines = Arc::new(MemoryLines::of(&memory));
        let mut sender = Sender::new(memory.clone(), RegionId(16));
        for _ in 0..before {
            application(&memory, &lines, &[Use::Commit], 9);
            turn(&mut sender);
        }
        let threads = [0, 1].map(|index| {
            let (memory, lines) = (memory.clone(), lines.clone());
            thread::spawn(move || application(&memory, &lines, uses[index], index as u64 + 1))
        });
        (0..turns).for_each(|_| turn(&mut sender));
        let slots = threads.map(|thread| thread.join().unwrap());
        assert!(slots.iter().all(|slots| slots.is_sorted()), "a thread's order is kept");
        let mut all = slots.concat();
        all.sort_unstable();
        let end = (before + all.len()) as u64;
        assert!(all.iter().copied().eq(before as u64..end), "each slot once, none left out");
        turn(&mut sender);
        assert_eq!(sender.messages(), end, "all that is committed is gone over");
        // Nothing has leaked: there is room for everything except the used part of the current
        // chunk. Free chunks are searched when there is no room.
        let mut room = Vec::new();
        while room.len() < entries.min(chunks - 1) as usize {
            let claim = memory.claim(1).or_else(|_| {
                turn(&mut sender);
                memory.claim(1)
            });
            room.push(claim.expect("credits and chunks come back"));
        }
    });
}

#[test]
fn two_threads_commit_and_the_turn_sends_in_order() {
    run(3, (4, 4), 0, [&[Use::Commit], &[Use::Commit]], 1);
}

#[test]
fn two_threads_share_two_chunks_that_turn_frees() {
    run(2, (2, 2), 1, [&[Use::Commit], &[Use::Commit]], 1);
}

#[test]
fn abandoned_claim_frees_its_room() {
    run(2, (2, 2), 1, [&[Use::Abandon], &[Use::Commit]], 1);
}

#[test]
fn chunk_with_open_claim_is_not_reused() {
    loom::model(|| {
        let memory = memory(smallest(4, 2));
        let lines = Arc::new(MemoryLines::of(&memory));
        let mut open = memory.claim(1).unwrap();
        lines.write(open.bytes(), 7);
        let other = thread::spawn({
            let (memory, lines) = (memory.clone(), lines.clone());
            move || application(&memory, &lines, &[Use::Commit, Use::Commit], 1)
        });
        let mut sender = Sender::new(memory.clone(), RegionId(16));
        (0..2).for_each(|_| turn(&mut sender));
        assert_eq!(lines.read(open.bytes()), 7, "an open claim's room is its own");
        other.join().unwrap();
        assert_eq!(lines.read(open.bytes()), 7, "an open claim's room is its own");
    });
}

/// The thread that changes the chunk announces the change after the other thread has already filled
/// the next chunk.
#[test]
fn free_chunk_search_is_correct_while_current_chunk_changes() {
    run(2, (4, 3), 0, [&[Use::Commit, Use::Commit], &[Use::Abandon]], 1);
}

/// Proof that the model can fail: a thread that writes after its commit collides with the
/// next claim.
#[test]
#[should_panic]
fn model_detects_write_after_commit() {
    loom::model(|| {
        let memory = memory(smallest(4, 2));
        let lines = Arc::new(MemoryLines::of(&memory));
        let mut sender = Sender::new(memory.clone(), RegionId(16));
        let mut claim = memory.claim(1).unwrap();
        let room = claim.bytes().as_ptr() as usize;
        claim.commit(1, |_, _| {});
        let other = thread::spawn({
            let lines = lines.clone();
            move || lines.write_at(room, 1)
        });
        for _ in 0..3 {
            application(&memory, &lines, &[Use::Commit], 9);
            turn(&mut sender);
        }
        other.join().unwrap();
    });
}
