//! Memory that a peer writes and this node reads word by word: a stream's header and entries,
//! and a row of the state table. Every word is accepted as some value, and all reads lie within
//! the memory.

use std::sync::Arc;

use derecho_core::memory::OwnRegion;
use derecho_core::multicast::entry::RingEntry;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::incoming::IncomingStream;
use derecho_core::row;
use derecho_core::sst::TableRow;

use crate::outcome::{Outcome, OutcomeBuilder};

row! {
    /// Columns, one of each kind.
    struct Columns {
        number: u64,
        small: i16,
        real: f64,
        truth: bool,
        truths: [bool; 9],
        bytes: [u8; 11],
        words: [u32; 3],
    }
}

/// Maximum number of words of memory, whatever its header says.
const MOST_WORDS: usize = 1 << 12;

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    let [how, bytes @ ..] = bytes else { return outcome.outcome() };
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let words: Vec<u64> = words.take(MOST_WORDS).collect();
    row_of(&words, &mut outcome);
    let usual = Geometry::fitting(1024, 16, 128).expect("a small shape");
    let region = OwnRegion::heap(MOST_WORDS.max(usual.words()));
    words.iter().enumerate().for_each(|(index, word)| region.word(index).publish(*word));
    let replica = region.replica();
    let geometry = match how & 1 {
        // The header consists of words of the input.
        0 => Geometry::read(&replica),
        _ => Ok(Some(usual)),
    };
    outcome.kind(geometry.is_ok());
    if let Ok(Some(geometry)) = geometry {
        assert!(geometry.words() <= replica.words(), "a stream that is longer than its memory");
        stream(IncomingStream::new(replica, geometry, Arc::new(|| {})), geometry, &mut outcome);
    }
    outcome.outcome()
}

fn row_of(words: &[u64], outcome: &mut OutcomeBuilder) {
    let read = Columns::take(&mut |index| words.get(index).copied().unwrap_or(0));
    let mut written = vec![0; Columns::WORDS];
    read.put(&mut |index, word| written[index] = word);
    let again = Columns::take(&mut |index| written[index]);
    let mut same = vec![0; Columns::WORDS];
    again.put(&mut |index, word| same[index] = word);
    assert_eq!(written, same, "a row is read as it was written");
    outcome.kind((read.truth, read.small.signum(), read.number.count_ones()));
    assert!(read.truths.iter().filter(|truth| **truth).count() <= 9);
    let _ = (read.real.is_nan(), read.bytes, read.words);
}

fn stream(mut incoming: IncomingStream, geometry: Geometry, outcome: &mut OutcomeBuilder) {
    let most = geometry.entries();
    loop {
        let received = incoming.receive(most);
        outcome.kind(received.is_ok());
        let Ok(count @ 1..) = received else { break };
        assert!(count as u64 <= most, "more than a lap");
        outcome.size(count);
        while incoming.taken() < incoming.entries() {
            match incoming.take() {
                Ok(RingEntry::Message(extent)) => {
                    let end = extent.first_byte(geometry) + extent.length as usize;
                    assert!(end <= geometry.words() * 8, "a record beyond the memory");
                    assert!(extent.chunk(geometry) < geometry.chunks());
                    outcome.kind("message").size(extent.length as usize);
                }
                Ok(RingEntry::Nulls(run)) => {
                    outcome.kind("nulls").size(run as usize);
                }
                Ok(RingEntry::End(_)) => {
                    outcome.kind("end");
                }
                Err(_) => return,
            }
        }
    }
}
