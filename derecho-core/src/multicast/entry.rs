//! Entry of the order ring: the item that a sender produced, and the location of its bytes.
//!
//! ```text
//!   word 0   [ stamp: 32 | kind: 2 | position: 30 ]   in grains from the start of the byte memory
//!   word 1   [ stamp: 32 | length: 32             ]   in bytes; of a null run, in slots; of an
//!                                                     end, the mark of the epoch that it ends
//! ```
//! The stamp names the entry to which a word belongs (I-9). An entry therefore vouches for itself,
//! completely or not at all, in whatever order its words arrive: many threads fill in entries in
//! any order, and over a link that copies, the words of one write appear in any order. No counter
//! needs to guard them.

use super::commit_counter::INDEX_BITS;
use super::geometry::{GRAIN, Geometry};

/// Kind of an entry that names a record.
const MESSAGE: u64 = 1 << KIND_SHIFT;
/// Kind of an entry that stands for a run of slots without content.
const NULLS: u64 = 2 << KIND_SHIFT;
/// Kind of an entry that ends its sender's part of an epoch.
const END: u64 = 3 << KIND_SHIFT;
/// Shift of the kind in the low half of the first word. The bits below hold the position: no
/// geometry has more than 2^30 grains.
const KIND_SHIFT: u32 = 30;
const POSITION_MASK: u64 = (1 << KIND_SHIFT) - 1;
const LOW: u64 = 0xffff_ffff;

/// Result of reading the place of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryRead {
    /// Complete entry.
    Entry(RingEntry),
    /// The entry has not arrived completely.
    NotYet,
    /// Contents that no sender writes.
    Invalid,
}

/// Item that a sender produced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingEntry {
    /// Message: one slot.
    Message(RecordExtent),
    /// Number of slots without content; at least one.
    Nulls(u32),
    /// End of the sender's part of the epoch with this mark; never zero.
    End(u32),
}

/// Location of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordExtent {
    /// First grain in the byte memory.
    pub position: u32,
    /// Length in bytes.
    pub length: u32,
}

impl RingEntry {
    /// Words of the entry, to be stored in this order.
    #[inline]
    pub fn encode(self, index: u64) -> [u64; 2] {
        let (low, high) = match self {
            RingEntry::Message(extent) => (MESSAGE | u64::from(extent.position), extent.length),
            RingEntry::Nulls(run) => (NULLS, run),
            RingEntry::End(epoch) => (END, epoch),
        };
        [stamp(index) | low, stamp(index) | u64::from(high)]
    }

    /// Decodes the words of the entry with this number, from a peer or from this node.
    #[inline]
    pub fn decode(words: [u64; 2], index: u64, geometry: Geometry) -> EntryRead {
        let stamp = stamp(index);
        if (words[0] ^ stamp | words[1] ^ stamp) & !LOW != 0 {
            return EntryRead::NotYet;
        }
        let (position, high) = ((words[0] & POSITION_MASK) as u32, words[1] as u32);
        match words[0] & LOW & !POSITION_MASK {
            MESSAGE => {
                let extent = RecordExtent { position, length: high };
                if extent.is_inside(geometry) {
                    EntryRead::Entry(RingEntry::Message(extent))
                } else {
                    EntryRead::Invalid
                }
            }
            NULLS if position == 0 && high > 0 => EntryRead::Entry(RingEntry::Nulls(high)),
            END if position == 0 && high > 0 => EntryRead::Entry(RingEntry::End(high)),
            _ => EntryRead::Invalid,
        }
    }

    /// Whether a word has the stamp of the entry with this number.
    #[inline]
    pub fn is_stamped(word: u64, index: u64) -> bool {
        (word ^ stamp(index)) & !LOW == 0
    }

    /// Number of slots of the entry.
    #[inline]
    pub fn slots(self) -> u64 {
        match self {
            RingEntry::Message(_) => 1,
            RingEntry::Nulls(run) => u64::from(run),
            RingEntry::End(_) => 0,
        }
    }
}

impl RecordExtent {
    /// Number of grains of the record; at least one.
    #[inline]
    pub fn grains(self) -> usize {
        (self.length as usize).div_ceil(GRAIN).max(1)
    }

    /// Chunk that contains the record.
    #[inline]
    pub fn chunk(self, geometry: Geometry) -> usize {
        geometry.chunk_of(self.position as usize)
    }

    /// Offset of the record's first byte in the region.
    #[inline]
    pub fn first_byte(self, geometry: Geometry) -> usize {
        geometry.first_byte() + self.position as usize * GRAIN
    }

    /// Whether the record lies within one chunk of the byte memory.
    #[inline]
    fn is_inside(self, geometry: Geometry) -> bool {
        let (first, chunk) = (self.position as usize, self.chunk(geometry));
        let end = first + self.grains();
        end <= geometry.grains() && end <= (chunk + 1) * geometry.chunk_grains()
    }
}

/// Shortened number in the high half; one bit distinguishes it from memory that was never written.
#[inline]
fn stamp(index: u64) -> u64 {
    (index & ((1 << INDEX_BITS) - 1) | 1 << 31) << 32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn message(position: u32, length: u32) -> RingEntry {
        RingEntry::Message(RecordExtent { position, length })
    }

    #[test]
    fn only_valid_entry_of_expected_number_is_accepted() {
        let geometry = Geometry::fitting(16 * 32, 8, 32).expect("sixteen chunks of two grains");
        let runs = [RingEntry::Nulls(1), RingEntry::Nulls(u32::MAX), RingEntry::End(7)];
        for entry in [message(2, 20), message(30, 32)].into_iter().chain(runs) {
            let words = entry.encode(9);
            assert_eq!(RingEntry::decode(words, 9, geometry), EntryRead::Entry(entry));
            for other in [1, 10, u64::MAX] {
                let newer = entry.encode(other);
                for words in [newer, [newer[0], words[1]], [words[0], newer[1]], [0, words[1]]] {
                    assert_eq!(
                        RingEntry::decode(words, 9, geometry),
                        EntryRead::NotYet,
                        "of {other}"
                    );
                }
            }
            let kind = [words[0] & !(3 << KIND_SHIFT), words[1]];
            assert_eq!(RingEntry::decode(kind, 9, geometry), EntryRead::Invalid, "no known kind");
        }
        assert_eq!(RingEntry::decode([0; 2], u64::from(u32::MAX), geometry), EntryRead::NotYet);
        let crossing = message(1, 20).encode(9);
        assert_eq!(RingEntry::decode(crossing, 9, geometry), EntryRead::Invalid, "two chunks");
        for (position, length) in [(32, 1), (31, 20), ((1 << 30) - 1, 20), (0, u32::MAX)] {
            let outside = message(position, length).encode(9);
            assert_eq!(RingEntry::decode(outside, 9, geometry), EntryRead::Invalid, "outside");
        }
        for nothing in [RingEntry::Nulls(0), RingEntry::End(0)] {
            assert_eq!(RingEntry::decode(nothing.encode(9), 9, geometry), EntryRead::Invalid);
        }
        let end = RingEntry::End(7).encode(9);
        assert_eq!(RingEntry::decode([end[0] | 1, end[1]], 9, geometry), EntryRead::Invalid);
    }
}
