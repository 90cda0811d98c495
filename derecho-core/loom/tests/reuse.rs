//! A reader's hold on a record against the sender's reuse of its chunk.
#![cfg(loom)]

use derecho_core::ids::{RegionId, Time};
use derecho_core::machine::Effects;
use derecho_core::memory::{AtomicWord, OwnRegion};
use derecho_core::multicast::acknowledgement::{ACK_HELD, ACK_WORDS, AckLine};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::receive::TetheredReceiver;
use derecho_core::multicast::stream::{ReaderLine, ReaderName, Stream};
use derecho_loom::{MemoryLines, explore, memory, smallest};
use loom::sync::Arc;
use loom::thread;

const STREAM: RegionId = RegionId(16);
const ACKS: RegionId = RegionId(1);
const READER: u64 = 5;

struct Pair {
    memory: SenderMemory,
    lines: Arc<MemoryLines>,
    stream: Stream,
    receiver: TetheredReceiver,
    acks: OwnRegion,
}

fn pair(entries: u64, chunks: u64) -> Pair {
    let geometry = smallest(entries, chunks);
    let memory = memory(geometry);
    let lines = Arc::new(MemoryLines::of(&memory));
    let acks = OwnRegion::heap(ACK_WORDS);
    let mut stream = Stream::new(memory.clone(), STREAM);
    let line = AckLine::new(acks.clone(), ACKS, 0, READER);
    let waker = std::sync::Arc::new(|| {});
    let replica = memory.replica();
    let mut receiver = TetheredReceiver::new(replica, geometry, line, None, waker);
    let name = ReaderName { subscription: READER, entity: 0 };
    let line = ReaderLine { acks: acks.replica(), line: 0 };
    let from = stream.add_reader(None, None, name, Some(line)).unwrap();
    receiver.start(from.entry, from.message, &mut Effects::new());
    Pair { memory, lines, stream, receiver, acks }
}

/// Writes one record, if there is room.
fn write(memory: &SenderMemory, lines: &MemoryLines) {
    if let Ok(mut claim) = memory.claim(1) {
        lines.write(claim.bytes(), memory.committed() + 1);
        claim.commit(1, |_, _| {});
    }
}

fn turn(stream: &mut Stream, effects: &mut Effects) {
    stream.send(Time::default(), effects);
    stream.reclaim(|_, fault| panic!("{fault}"));
}

/// Creates a pair whose chunks are both full and sent: a third record needs one of them back.
fn full() -> Pair {
    let mut pair = pair(4, 2);
    for _ in 0..2 {
        write(&pair.memory, &pair.lines);
        turn(&mut pair.stream, &mut Effects::new());
    }
    assert!(pair.memory.claim(1).is_err());
    pair
}

/// Tries to write the third record.
fn reuse(memory: &SenderMemory, lines: &MemoryLines, stream: &mut Stream) {
    let mut effects = Effects::new();
    for _ in 0..2 {
        turn(stream, &mut effects);
        if memory.committed() == 2 {
            write(memory, lines);
        }
    }
}

/// Takes the available records, and reads each twice.
fn take(inbox: &Inbox, lines: &MemoryLines) {
    while let Some(record) = inbox.take() {
        assert_eq!(lines.read(record.bytes()), record.number() + 1);
        assert_eq!(lines.read(record.bytes()), record.number() + 1, "what is held is not reused");
    }
}

/// The reader's turn and its application in one thread, the sender in another.
#[test]
fn chunk_is_reused_only_after_reader_has_released_its_records() {
    explore(3, || {
        let Pair { memory, lines, mut stream, mut receiver, .. } = full();
        let reader = thread::spawn({
            let lines = lines.clone();
            move || {
                let inbox = receiver.inbox().unwrap().clone();
                receiver.receive().unwrap();
                take(&inbox, &lines);
                receiver.release(true, &mut Effects::new());
            }
        });
        reuse(&memory, &lines, &mut stream);
        reader.join().unwrap();
    });
}

/// A record arrives while the reader looks for it.
#[test]
fn a_record_is_seen_whole_or_not_at_all() {
    explore(3, || {
        let Pair { memory, lines, mut stream, mut receiver, .. } = pair(4, 2);
        let reader = thread::spawn({
            let lines = lines.clone();
            move || {
                let inbox = receiver.inbox().unwrap().clone();
                let mut effects = Effects::new();
                for _ in 0..2 {
                    receiver.receive().unwrap();
                    take(&inbox, &lines);
                    receiver.release(true, &mut effects);
                }
                receiver.next()
            }
        });
        write(&memory, &lines);
        turn(&mut stream, &mut Effects::new());
        assert!(reader.join().unwrap() <= 1);
    });
}

/// The reader's application releases the record in a thread of its own.
#[test]
fn record_released_by_another_thread_is_not_reused_early() {
    explore(3, || {
        let Pair { memory, lines, mut stream, mut receiver, .. } = full();
        receiver.receive().unwrap();
        let application = thread::spawn({
            let (lines, inbox) = (lines.clone(), receiver.inbox().unwrap().clone());
            move || take(&inbox, &lines)
        });
        let turns = thread::spawn(move || receiver.release(true, &mut Effects::new()));
        reuse(&memory, &lines, &mut stream);
        application.join().unwrap();
        turns.join().unwrap();
    });
}

/// Proof that the model can fail: a reader that clears its bit before the last look is detected.
#[test]
#[should_panic]
fn model_detects_acknowledgement_bit_cleared_too_early() {
    explore(3, || {
        let Pair { memory, lines, mut stream, mut receiver, acks } = full();
        let reader = thread::spawn({
            let lines = lines.clone();
            move || {
                let inbox = receiver.inbox().unwrap().clone();
                receiver.receive().unwrap();
                let held: &AtomicWord = acks.word(ACK_HELD);
                held.publish(held.peek() & !0xffff);
                take(&inbox, &lines);
            }
        });
        reuse(&memory, &lines, &mut stream);
        reader.join().unwrap();
    });
}
