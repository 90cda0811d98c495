//! An entry of the order ring: what a sender produced in a slot, and where its bytes lie.
//!
//! ```text
//!   word 0   [ stamp: 32 | kind: 2 | position: 30 ]   in lines from the start of the byte memory
//!   word 1   [ stamp: 32 | length: 32             ]   in bytes
//! ```
//! The stamp says which slot a word belongs to. It tells the sender's own turn which commits are
//! complete: entries are filled in by many threads, in any order. A reader relies on `sent`, which
//! is posted after the entries, and looks at both stamps all the same: whatever is not of this slot
//! has not arrived, or never will from a sender that breaks its rules, and is waited for.

use super::geometry::Geometry;
use crate::memory::LINE;

/// The kind of an entry that names a record.
const MESSAGE: u64 = 1 << KIND_SHIFT;
/// Where the kind lies in the low half of the first word. Positions are below: no geometry has
/// more than 2^30 lines.
const KIND_SHIFT: u32 = 30;
const POSITION_MASK: u64 = (1 << KIND_SHIFT) - 1;
const LOW: u64 = 0xffff_ffff;

/// What is found at the place of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The slot's entry.
    Entry(Entry),
    /// Not all of it has arrived.
    NotYet,
    /// What no sender puts there.
    Nonsense,
}

/// Where a record lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its first line in the byte memory.
    pub position: u32,
    /// Its length in bytes.
    pub length: u32,
}

impl Entry {
    /// Its words, to be stored in this order.
    #[inline]
    pub fn encode(self, slot: u64) -> [u64; 2] {
        let position = MESSAGE | u64::from(self.position);
        [stamp(slot) | position, stamp(slot) | u64::from(self.length)]
    }

    /// Reads a peer's entry of a slot.
    #[inline]
    pub fn decode(words: [u64; 2], slot: u64, geometry: Geometry) -> Found {
        if words.iter().any(|word| word & !LOW != stamp(slot)) {
            return Found::NotYet;
        }
        let position = (words[0] & POSITION_MASK) as u32;
        let entry = Entry { position, length: words[1] as u32 };
        let first = position as usize;
        let last = first + (entry.lines() - 1);
        let is_message = words[0] & LOW & !POSITION_MASK == MESSAGE;
        let inside = last < geometry.lines();
        let one_chunk = first / geometry.chunk_lines() == last / geometry.chunk_lines();
        if is_message && inside && one_chunk { Found::Entry(entry) } else { Found::Nonsense }
    }

    /// Whether the commit of this slot is complete, judged by its second word.
    #[inline]
    pub fn is_committed(word1: u64, slot: u64) -> bool {
        word1 & !LOW == stamp(slot)
    }

    /// Lines that the record takes; at least one.
    #[inline]
    pub fn lines(self) -> usize {
        (self.length as usize).div_ceil(LINE).max(1)
    }

    /// Which chunk it lies in.
    #[inline]
    pub fn chunk(self, geometry: Geometry) -> usize {
        self.position as usize / geometry.chunk_lines()
    }

    /// Its first byte in the region.
    #[inline]
    pub fn first_byte(self, geometry: Geometry) -> usize {
        geometry.first_byte() + self.position as usize * LINE
    }
}

/// Of 31 bits of the slot; the other bit tells it from memory that was never written.
#[inline]
fn stamp(slot: u64) -> u64 {
    (slot | 1 << 31) << 32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_a_senders_own_entry_of_that_slot_is_accepted() {
        let geometry = Geometry::fitting(16 * 128, 8, 128).expect("sixteen chunks of two lines");
        let entry = Entry { position: 2, length: 100 };
        let words = entry.encode(9);
        let longest = Entry { position: 30, length: 128 };
        assert_eq!(Entry::decode(words, 9, geometry), Found::Entry(entry));
        assert_eq!(Entry::decode(longest.encode(9), 9, geometry), Found::Entry(longest));
        for other in [1, 10, u64::MAX] {
            let newer = entry.encode(other);
            for words in [newer, [newer[0], words[1]], [words[0], newer[1]], [0, words[1]]] {
                assert_eq!(Entry::decode(words, 9, geometry), Found::NotYet, "of {other}");
            }
        }
        assert_eq!(Entry::decode([0; 2], u64::from(u32::MAX), geometry), Found::NotYet);
        let crossing = Entry { position: 1, length: 100 };
        assert_eq!(Entry::decode(crossing.encode(9), 9, geometry), Found::Nonsense, "two chunks");
        for (position, length) in [(32, 1), (31, 100), ((1 << 30) - 1, 100), (0, u32::MAX)] {
            let outside = Entry { position, length };
            assert_eq!(Entry::decode(outside.encode(9), 9, geometry), Found::Nonsense, "outside");
        }
        let kind = [words[0] ^ 3 << KIND_SHIFT, words[1]];
        assert_eq!(Entry::decode(kind, 9, geometry), Found::Nonsense, "no known kind");
    }
}
