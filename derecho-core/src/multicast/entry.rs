//! An entry of the order ring: what a sender produced in a slot, and where its bytes lie.
//!
//! ```text
//!   word 0   [ position: 32 | length: 32 ]    in lines from the start of the byte memory; in bytes
//!   word 1   [ stamp: 32 | kind: 8 | 0  ]    stamp = low half of slot + 1: which lap this is
//! ```
//! The stamp tells the sender's own turn which commits are complete: entries are filled in by many
//! threads, in any order. A reader relies on `sent`, and checks the stamp because it trusts nobody.

use super::geometry::Geometry;
use crate::memory::LINE;

/// The kind of an entry that names a record.
const MESSAGE: u64 = 1;

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
        [u64::from(self.position) | u64::from(self.length) << 32, stamp(slot) | MESSAGE << 32]
    }

    /// Reads a peer's entry. `None` if it is not what its sender should have put into that slot.
    #[inline]
    pub fn decode(words: [u64; 2], slot: u64, geometry: Geometry) -> Option<Entry> {
        if words[1] != stamp(slot) | MESSAGE << 32 {
            return None;
        }
        let entry = Entry { position: words[0] as u32, length: (words[0] >> 32) as u32 };
        let first = entry.position as usize;
        let last = first + entry.lines().checked_sub(1)?;
        let inside = last < geometry.lines();
        let one_chunk = first / geometry.chunk_lines() == last / geometry.chunk_lines();
        (inside && one_chunk).then_some(entry)
    }

    /// Whether the commit of this slot is complete, judged by its second word.
    #[inline]
    pub fn is_committed(word1: u64, slot: u64) -> bool {
        word1 & 0xffff_ffff == stamp(slot)
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

#[inline]
fn stamp(slot: u64) -> u64 {
    slot.wrapping_add(1) & 0xffff_ffff
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_a_senders_own_entry_of_that_slot_is_accepted() {
        let geometry = Geometry::fitting(16 * 128, 8, 128).expect("sixteen chunks of two lines");
        let entry = Entry { position: 2, length: 100 };
        let words = entry.encode(9);
        assert_eq!(Entry::decode(words, 9, geometry), Some(entry));
        assert_eq!(Entry::decode(words, 1, geometry), None, "another lap");
        let crossing = Entry { position: 1, length: 100 };
        assert_eq!(Entry::decode(crossing.encode(9), 9, geometry), None, "crosses a chunk");
        for position in [32, 31, u32::MAX] {
            let outside = Entry { position, length: 100 };
            assert_eq!(Entry::decode(outside.encode(9), 9, geometry), None, "outside");
        }
        assert_eq!(Entry::decode([words[0], u64::MAX], 9, geometry), None, "no known kind");
    }
}
