//! A sender with two chunks, and a reader that it overtakes.

use derecho_core::ids::{RegionId, Time};
use derecho_core::machine::Effects;
use derecho_core::memory::WORD;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::GRAIN_WORDS;
use derecho_core::multicast::stream::{ReaderName, Stream};
use derecho_core::multicast::untethered::UntetheredReceiver;
use derecho_loom::{explore, memory, smallest};
use loom::thread;

struct Pair {
    memory: SenderMemory,
    stream: Stream,
    reader: UntetheredReceiver,
}

fn pair() -> Pair {
    let geometry = smallest(4, 2);
    let memory = memory(geometry);
    let mut stream = Stream::new(memory.clone(), RegionId(16));
    let name = ReaderName { subscription: 5, entity: 0 };
    let from = stream.add_reader(None, None, name, None).unwrap();
    let mut reader =
        UntetheredReceiver::new(memory.replica(), geometry, std::sync::Arc::new(|| {}));
    reader.start(from.entry, from.message);
    Pair { memory, stream, reader }
}

/// Writes a record, if there is room: one word, which loom watches, unlike bytes.
fn write(memory: &SenderMemory, value: u64) -> bool {
    let Ok(mut claim) = memory.claim(1) else { return false };
    let geometry = memory.geometry();
    let shown = memory.replica();
    let start = shown.bytes(geometry.first_byte(), 0).unwrap().as_ptr() as usize;
    let grain = (claim.bytes().as_ptr() as usize - start) / (GRAIN_WORDS * WORD);
    let word = geometry.first_byte() / WORD + grain * GRAIN_WORDS;
    // SAFETY: loom's words lie apart from the bytes that a claim lends.
    unsafe { shown.word(word) }.put(value);
    claim.commit(1, |_, _| {});
    true
}

fn turn(stream: &mut Stream) {
    stream.send(Time::default(), &mut Effects::new());
    stream.reclaim(|_, fault| panic!("{fault}"));
}

/// Takes all available records; returns how many came, and how many are lost.
fn receive(reader: &mut UntetheredReceiver) -> (u64, u64) {
    let inbox = reader.inbox().unwrap().clone();
    let mut got = 0;
    for _ in 0..2 {
        reader.receive(false).unwrap();
        while let Some(record) = inbox.take() {
            assert_eq!(u64::from(record.bytes()[0]), record.number() + 1, "it is another one's");
            got += 1;
        }
    }
    (got, reader.take_lost())
}

/// Both chunks are full when the reader begins to look, and the first one is rewritten.
pub fn one_writer() {
    explore(3, || {
        let Pair { memory, mut stream, mut reader } = pair();
        assert!(write(&memory, 1) && write(&memory, 2) && !write(&memory, 3));
        turn(&mut stream);
        let looks = thread::spawn(move || {
            let (got, lost) = receive(&mut reader);
            (reader, got, lost)
        });
        assert!(write(&memory, 3));
        let (mut reader, got, lost) = looks.join().unwrap();
        let (more, later) = receive(&mut reader);
        assert_eq!(got + lost + more + later, 3, "each is there or counted");
    });
}

/// As `one_writer`, with a thread that opens the first chunk and abandons its claim; another thread
/// may find the chunk open.
pub fn two_writers() {
    explore(3, || {
        let geometry = derecho_loom::shape(4, 2, 2);
        let memory = memory(geometry);
        let mut stream = Stream::new(memory.clone(), RegionId(16));
        stream.add_reader(None, None, ReaderName { subscription: 5, entity: 0 }, None).unwrap();
        let mut reader =
            UntetheredReceiver::new(memory.replica(), geometry, std::sync::Arc::new(|| {}));
        reader.start(0, 0);
        (1..=4).for_each(|value| assert!(write(&memory, value)));
        turn(&mut stream);
        let opener = thread::spawn({
            let memory = memory.clone();
            move || drop(memory.claim(1))
        });
        let looks = thread::spawn(move || {
            reader.receive(false).unwrap();
            let inbox = reader.inbox().unwrap().clone();
            while let Some(record) = inbox.take() {
                assert_eq!(
                    u64::from(record.bytes()[0]),
                    record.number() + 1,
                    "it is another one's"
                );
            }
        });
        write(&memory, 5);
        opener.join().unwrap();
        looks.join().unwrap();
    });
}
