//! Commits of several threads, null runs of the turn and a reader, all on one order.
#![cfg(loom)]

use derecho_core::ids::RegionId;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::entry::{EntryRead, RingEntry};
use derecho_core::multicast::incoming::IncomingStream;
use derecho_core::multicast::send::Sender;
use derecho_loom::{MemoryLines, explore, memory_with_nulls, smallest};
use loom::sync::Arc;
use loom::thread;

const STREAM: RegionId = RegionId(16);

fn commit(memory: &SenderMemory, lines: &MemoryLines, value: u64) -> u64 {
    let mut claim = memory.claim(1).unwrap();
    lines.write(claim.bytes(), value);
    claim.commit(1, |_, _| {})
}

/// Counts the messages and nulls in the first `entries` entries of the ring, and checks
/// their places.
fn slots_of(memory: &SenderMemory, entries: u64) -> (u64, u64) {
    let geometry = memory.geometry();
    let (mut messages, mut nulls) = (0, 0);
    for index in 0..entries {
        let word = geometry.entry_word(index);
        let words = [word, word + 1].map(|word| memory.replica().peek(word).unwrap());
        match RingEntry::decode(words, index, geometry) {
            EntryRead::Entry(RingEntry::Message(_)) => messages += 1,
            EntryRead::Entry(RingEntry::Nulls(run)) => nulls += u64::from(run),
            other => panic!("entry {index} is {other:?}"),
        }
    }
    (messages, nulls)
}

/// Two threads commit while the turn owes `owed` slots: places are unique and consecutive, numbers
/// have no gaps (I-7), and messages count before nulls.
fn commits_against_nulls(owed: u64) {
    explore(3, move || {
        let memory = memory_with_nulls(smallest(8, 4));
        let lines = Arc::new(MemoryLines::of(&memory));
        let mut sender = Sender::new(memory.clone(), STREAM);
        let threads = [0, 1].map(|value| {
            let (memory, lines) = (memory.clone(), lines.clone());
            thread::spawn(move || commit(&memory, &lines, value))
        });
        let filled = sender.fill_up_to(owed);
        sender.send(u64::MAX, usize::MAX);
        let mut numbers = threads.map(|thread| thread.join().unwrap());
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1], "numbers are gapless");
        sender.send(u64::MAX, usize::MAX);
        assert_eq!(sender.entries(), 2 + u64::from(filled), "all that is committed is gone over");
        let (messages, nulls) = slots_of(&memory, sender.entries());
        assert_eq!(messages, 2);
        assert_eq!(sender.slots(), messages + nulls);
        assert!(nulls <= owed && messages + nulls >= owed, "{nulls} nulls for {owed} slots");
        // The owed slots are filled by now: the turn checks again and commits nothing.
        assert!(!sender.fill_up_to(owed));
    });
}

#[test]
fn places_are_consecutive_and_numbers_gapless_among_nulls() {
    commits_against_nulls(1);
}

#[test]
fn null_run_is_no_longer_than_owed_slots_without_messages() {
    commits_against_nulls(3);
}

/// Any thread may ask how much was committed while the turn advances.
#[test]
fn committed_count_never_exceeds_commits() {
    explore(3, || {
        let memory = memory_with_nulls(smallest(4, 2));
        let lines = MemoryLines::of(&memory);
        let mut sender = Sender::new(memory.clone(), STREAM);
        let other = thread::spawn({
            let memory = memory.clone();
            move || memory.committed()
        });
        commit(&memory, &lines, 1);
        sender.send(u64::MAX, usize::MAX);
        let seen = other.join().unwrap();
        assert!(seen <= 1, "{seen} of one message");
    });
}

/// A reader over shared memory looks while an entry is filled in: it sees the entry completely or
/// not at all, and the payload with it.
#[test]
fn entry_and_payload_are_received_completely_or_not_at_all() {
    explore(3, || {
        let memory = memory_with_nulls(smallest(4, 2));
        let lines = Arc::new(MemoryLines::of(&memory));
        let mut sender = Sender::new(memory.clone(), STREAM);
        let waker = std::sync::Arc::new(|| {});
        let mut incoming = IncomingStream::new(memory.replica(), memory.geometry(), waker);
        let writer = thread::spawn({
            let (memory, lines) = (memory.clone(), lines.clone());
            move || commit(&memory, &lines, 5)
        });
        let nulls = thread::spawn(move || {
            sender.fill_up_to(2);
            sender
        });
        for _ in 0..2 {
            for _ in 0..incoming.receive(u64::MAX).unwrap() {
                match incoming.take().unwrap() {
                    RingEntry::Nulls(run) => assert!((1..=2).contains(&run)),
                    RingEntry::End(_) => unreachable!("nothing ends here"),
                    RingEntry::Message(extent) => {
                        let first = extent.first_byte(memory.geometry());
                        let room = memory.replica().bytes(first, 1).unwrap();
                        assert_eq!(lines.read_at(room.as_ptr() as usize), 5);
                    }
                }
            }
        }
        assert_eq!(writer.join().unwrap(), 0);
        let mut sender = nulls.join().unwrap();
        sender.send(u64::MAX, usize::MAX);
        incoming.receive(u64::MAX).unwrap();
        assert_eq!(incoming.slots(), sender.slots(), "both count alike");
    });
}

/// Proof that the model can fail: a writer that fills in its record after the commit is detected.
#[test]
#[should_panic]
fn model_detects_payload_written_after_its_entry() {
    explore(3, || {
        let memory = memory_with_nulls(smallest(4, 2));
        let lines = Arc::new(MemoryLines::of(&memory));
        let waker = std::sync::Arc::new(|| {});
        let mut incoming = IncomingStream::new(memory.replica(), memory.geometry(), waker);
        let writer = thread::spawn({
            let (memory, lines) = (memory.clone(), lines.clone());
            move || {
                let mut claim = memory.claim(1).unwrap();
                let room = claim.bytes().as_ptr() as usize;
                claim.commit(1, |_, _| {});
                lines.write_at(room, 5);
            }
        });
        if incoming.receive(u64::MAX).unwrap() == 1
            && let RingEntry::Message(extent) = incoming.take().unwrap()
        {
            let first = extent.first_byte(memory.geometry());
            let room = memory.replica().bytes(first, 1).unwrap();
            assert_eq!(lines.read_at(room.as_ptr() as usize), 5);
        }
        writer.join().unwrap();
    });
}

/// Proof that the model can fail: a turn that counts messages first and fills up afterwards,
/// without checking for further messages, sends unneeded nulls.
#[test]
#[should_panic(expected = "nulls for")]
fn model_detects_null_run_that_ignores_concurrent_messages() {
    explore(3, || {
        let memory = memory_with_nulls(smallest(8, 4));
        let lines = Arc::new(MemoryLines::of(&memory));
        let mut sender = Sender::new(memory.clone(), STREAM);
        let writer = thread::spawn({
            let (memory, lines) = (memory.clone(), lines.clone());
            move || commit(&memory, &lines, 1)
        });
        let before = memory.committed();
        loom::thread::yield_now();
        sender.fill_up_with(1 - before);
        writer.join().unwrap();
        sender.send(u64::MAX, usize::MAX);
        let (messages, nulls) = slots_of(&memory, sender.entries());
        assert!(messages + nulls <= 1, "{nulls} nulls for one slot");
    });
}
