//! References that keep a sender's memory alive: release of the last one against creation of a
//! new one.
#![cfg(loom)]

use core::mem::ManuallyDrop;
use std::sync::Weak;

use derecho_core::ids::RegionId;
use derecho_core::machine::Effects;
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::acknowledgement::{ACK_WORDS, AckLine};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::receive::TetheredReceiver;
use derecho_loom::{MemoryLines, explore, memory, shape};
use loom::sync::Arc;
use loom::thread;

struct Reader {
    memory: SenderMemory,
    lines: Arc<MemoryLines>,
    receiver: TetheredReceiver,
    inbox: std::sync::Arc<Inbox>,
    /// Alive while the receiver's backing is: gone when nothing refers to the memory any more.
    kept: Weak<()>,
}

/// Creates a reader that has received one record, and has room for a second one in the same chunk.
fn reader() -> Reader {
    let memory = memory(shape(4, 2, 2));
    let lines = Arc::new(MemoryLines::of(&memory));
    let line = AckLine::new(OwnRegion::heap(ACK_WORDS), RegionId(1), 0, 5);
    // The sender replica keeps its waker, so the waker's lifetime shows that of the replica.
    let alive = std::sync::Arc::new(());
    let kept = std::sync::Arc::downgrade(&alive);
    let waker = std::sync::Arc::new(move || {
        let _ = &alive;
        loom::thread::yield_now();
    });
    let replica = memory.replica();
    let mut receiver = TetheredReceiver::new(replica, memory.geometry(), line, None, waker);
    receiver.start(0, 0, &mut Effects::new());
    let inbox = receiver.inbox().unwrap().clone();
    let mut reader = Reader { memory, lines, receiver, inbox, kept };
    write(&reader, 1);
    assert_eq!(reader.receiver.receive().unwrap(), 1);
    reader
}

fn write(reader: &Reader, value: u64) {
    let mut claim = reader.memory.claim(1).unwrap();
    reader.lines.write(claim.bytes(), value);
    claim.commit(1, |_, _| {});
}

/// The application releases the first record, the only one of its chunk, while the turn creates a
/// new reference to the chunk.
#[test]
fn sender_replica_is_kept_until_last_reference_is_released() {
    explore(3, || {
        let mut reader = reader();
        let application = thread::spawn({
            let inbox = reader.inbox.clone();
            move || drop(inbox.take().unwrap())
        });
        write(&reader, 2);
        assert_eq!(reader.receiver.receive().unwrap(), 1);
        reader.receiver.release(true, &mut Effects::new());
        assert!(reader.receiver.is_held(), "the second record is in the queue");
        application.join().unwrap();
        let record = reader.inbox.take().unwrap();
        let Reader { receiver, inbox, lines, kept, .. } = reader;
        drop((receiver, inbox));
        assert!(kept.upgrade().is_some(), "a record keeps what it lies in");
        assert_eq!(lines.read(record.bytes()), 2);
        drop(record);
        assert!(kept.upgrade().is_none(), "nothing keeps it any more");
    });
}

/// Two threads release the last two records of a chunk, and nothing else keeps the sender replica.
#[test]
fn sender_replica_is_freed_when_two_threads_release_last_references() {
    explore(3, || {
        let mut reader = reader();
        write(&reader, 2);
        assert_eq!(reader.receiver.receive().unwrap(), 1);
        let records = [reader.inbox.take().unwrap(), reader.inbox.take().unwrap()];
        let Reader { receiver, inbox, lines, kept, .. } = reader;
        drop((receiver, inbox));
        let threads = records.map(|record| {
            let lines = lines.clone();
            thread::spawn(move || {
                let number = record.number();
                assert_eq!(lines.read(record.bytes()), number + 1);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(kept.upgrade().is_none(), "nothing keeps it any more");
    });
}

/// Proof that the model can fail: a record that is released twice takes the sender replica from the
/// next one.
#[test]
#[should_panic(expected = "a record keeps what it lies in")]
fn model_detects_reference_released_twice() {
    explore(3, || {
        let mut reader = reader();
        write(&reader, 2);
        assert_eq!(reader.receiver.receive().unwrap(), 1);
        let first = ManuallyDrop::new(reader.inbox.take().unwrap());
        let second = ManuallyDrop::new(reader.inbox.take().unwrap());
        for _ in 0..2 {
            // SAFETY: deliberately unsound; the sender replica lives on in the inbox, and after the
            // second release nothing is done with either record.
            drop(unsafe { core::ptr::read(&*first) });
        }
        let Reader { receiver, inbox, kept, .. } = reader;
        drop((receiver, inbox));
        assert!(kept.upgrade().is_some(), "a record keeps what it lies in");
        let _ = second;
    });
}
