//! Layout of a sender's memory, chosen by the sender and written once into its region's header.
//!
//! Owns: every offset in that region. Never does: trust a header; [`Geometry::read`] checks
//! all of it.

use core::ops::Range;

use super::PeerFault;
use super::changes::HEADER_MARK;
use crate::memory::{LINE, LINE_WORDS, Replica, WORD};

/// Word of the header with the number of ring places that the sender has reclaimed (I-221).
pub const HEADER_RETURNED: usize = 5;
const _: () = assert!(HEADER_RETURNED < LINE_WORDS && HEADER_RETURNED != HEADER_MARK);
/// First word of the order ring.
pub const ENTRIES: usize = LINE_WORDS;
/// Bytes of a grain: records begin at a grain and occupy whole grains. A grain is shorter than a
/// cache line, because the cost of small samples is the number of lines that move between cores,
/// and long enough to align any plain sample.
pub const GRAIN: usize = 16;
/// Words of a grain.
pub const GRAIN_WORDS: usize = GRAIN / WORD;
/// Words of an entry.
pub const ENTRY_WORDS: usize = 2;

/// Value that identifies a region as a sender's memory with this layout.
const MAGIC: u64 = 0x5351_4c4c_0000_0003;

/// Binary logarithm of the maximum number of entries in an order ring: 2^20 entries of 16 bytes.
const MOST_ENTRIES_LOG2: u32 = 20;
/// Maximum number of chunks: `held` words have one bit for each.
pub const MOST_CHUNKS: usize = 64;
/// Maximum number of grains in all chunks: 1 GiB. A reader's queue takes as many records, and has
/// memory for those that wait.
const MOST_GRAINS: usize = 1 << 26;

/// Dimensions of a sender's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    entries_log2: u32,
    chunks: usize,
    chunk_grains: usize,
    first_byte: usize,
    /// 2^64 divided by the grains of a chunk, rounded up: a division costs more than everything
    /// else that is done with an entry. Zero for chunks of one grain.
    per_chunk_grain: u64,
}

impl Geometry {
    /// Returns the smallest geometry that keeps `bytes` of records and `messages` of them
    /// in flight, and accepts records of up to `largest` bytes. `None` if no geometry
    /// allows that much.
    pub fn fitting(bytes: usize, messages: usize, largest: usize) -> Option<Geometry> {
        // Sixteen chunks: one held sample pins a sixteenth, and the turn checks few chunks. Large
        // samples get fewer chunks, because each chunk must take the largest sample.
        const FEWEST: usize = 4;
        const MOST: usize = 16;
        let entries_log2 = messages.max(2).checked_next_power_of_two()?.trailing_zeros();
        let chunks = (bytes / largest.max(1)).clamp(FEWEST, MOST);
        let chunk = bytes.div_ceil(chunks).max(largest);
        let mut chunk_grains = chunk.div_ceil(GRAIN).max(1);
        if chunk >= LINE {
            // Chunks of whole lines, so that two chunks share none.
            chunk_grains = chunk_grains.next_multiple_of(LINE / GRAIN);
        }
        Geometry::new(entries_log2, chunks, chunk_grains)
    }

    fn new(entries_log2: u32, chunks: usize, chunk_grains: usize) -> Option<Geometry> {
        let valid = (1..=MOST_ENTRIES_LOG2).contains(&entries_log2)
            && (2..=MOST_CHUNKS).contains(&chunks)
            && (1..=MOST_GRAINS).contains(&chunk_grains)
            && chunks * chunk_grains <= MOST_GRAINS;
        valid.then(|| {
            let per_chunk_grain = (u64::MAX / chunk_grains as u64).wrapping_add(1);
            let ring = ((1 << entries_log2) * ENTRY_WORDS).next_multiple_of(LINE_WORDS);
            let first_byte = (ENTRIES + ring) * WORD;
            Geometry { entries_log2, chunks, chunk_grains, first_byte, per_chunk_grain }
        })
    }

    /// Number of entries of the order ring.
    pub fn entries(self) -> u64 {
        1 << self.entries_log2
    }

    /// Number of chunks of the byte memory.
    pub fn chunks(self) -> usize {
        self.chunks
    }

    /// Number of grains of a chunk.
    pub fn chunk_grains(self) -> usize {
        self.chunk_grains
    }

    /// Maximum length of a record in bytes.
    pub fn largest(self) -> usize {
        self.chunk_grains * GRAIN
    }

    /// Number of grains of the byte memory: the maximum number of records in it.
    pub fn grains(self) -> usize {
        self.chunks * self.chunk_grains
    }

    /// Chunk that contains a grain of the byte memory.
    #[inline]
    pub fn chunk_of(self, grain: usize) -> usize {
        if self.per_chunk_grain == 0 {
            return grain;
        }
        // Exact: there are fewer than 2^32 grains, so the rounding never reaches the
        // next whole number.
        ((grain as u128 * u128::from(self.per_chunk_grain)) >> 64) as usize
    }

    /// First word of the entry with this number.
    #[inline]
    pub fn entry_word(self, index: u64) -> usize {
        ENTRIES + (index & (self.entries() - 1)) as usize * ENTRY_WORDS
    }

    /// Bytes of the order ring, in the region.
    pub fn ring_bytes(self) -> Range<usize> {
        let word = size_of::<u64>();
        ENTRIES * word..(ENTRIES + self.entries() as usize * ENTRY_WORDS) * word
    }

    /// Bytes of a chunk, in the region.
    pub fn chunk_bytes(self, chunk: usize) -> Range<usize> {
        let first = self.first_byte + chunk * self.chunk_grains * GRAIN;
        first..first + self.chunk_grains * GRAIN
    }

    /// Offset of the first byte of the byte memory.
    #[inline]
    pub fn first_byte(self) -> usize {
        self.first_byte
    }

    /// Word with the number of the entry at which a chunk was opened (I-220).
    #[inline]
    pub fn opened_word(self, chunk: usize) -> usize {
        (self.first_byte() / WORD + self.grains() * GRAIN_WORDS).next_multiple_of(LINE_WORDS)
            + chunk
    }

    /// Number of words of the whole region.
    pub fn words(self) -> usize {
        self.opened_word(self.chunks)
    }

    /// Words of the header.
    pub fn header(self) -> [u64; 4] {
        let Geometry { entries_log2, chunks, chunk_grains, .. } = self;
        [u64::from(entries_log2), chunks as u64, chunk_grains as u64, MAGIC]
    }

    /// Reads a peer's header: `Ok(None)` while it has not arrived. Each word is read once.
    pub fn read(replica: &Replica) -> Result<Option<Geometry>, PeerFault> {
        let word = |index| replica.get(index).ok_or(PeerFault::Geometry);
        let header = [word(0)?, word(1)?, word(2)?, word(3)?];
        if header.contains(&0) {
            // A write of several words may be visible in part, and none of these words
            // is ever zero.
            return Ok(None);
        }
        let small = |value| usize::try_from(value).map_err(|_| PeerFault::Geometry);
        let entries_log2 = u32::try_from(header[0]).map_err(|_| PeerFault::Geometry)?;
        match Geometry::new(entries_log2, small(header[1])?, small(header[2])?) {
            Some(valid) if header[3] == MAGIC && valid.words() <= replica.words() => {
                Ok(Some(valid))
            }
            _ => Err(PeerFault::Geometry),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::OwnRegion;

    #[test]
    fn geometry_fits_requested_sizes() {
        let shape = Geometry::fitting(1 << 20, 1000, 100_000).expect("a modest shape");
        assert_eq!(shape.entries(), 1024);
        assert!(shape.largest() >= 100_000);
        assert!(shape.grains() * GRAIN >= 1 << 20);
        assert_eq!(shape.first_byte() % LINE, 0);
        assert!(Geometry::fitting(1 << 20, 1 << 30, 1).is_none());
        assert!(Geometry::fitting(1, 1, usize::MAX).is_none());
    }

    #[test]
    fn every_grain_is_in_its_chunk() {
        for chunk_grains in [1, 2, 3, 5, 7, 64, 1000, 1023, (1 << 22) - 1] {
            let shape = Geometry::new(4, 4, chunk_grains).expect("a valid shape");
            for chunk in 0..4 {
                for grain in [chunk * chunk_grains, (chunk + 1) * chunk_grains - 1] {
                    assert_eq!(shape.chunk_of(grain), chunk, "{grain} of {chunk_grains}");
                }
            }
            assert_eq!(shape.chunk_of(u32::MAX as usize), u32::MAX as usize / chunk_grains);
        }
    }

    #[test]
    fn geometry_header_is_read_back_and_invalid_header_is_refused() {
        let shape = Geometry::fitting(4096, 16, 64).expect("a small shape");
        let region = OwnRegion::heap(shape.words());
        assert_eq!(Geometry::read(&region.replica()), Ok(None));
        for (index, word) in shape.header().into_iter().enumerate() {
            region.word(index).publish(word);
        }
        assert_eq!(Geometry::read(&region.replica()), Ok(Some(shape)));
        for index in 0..3 {
            for nonsense in [u64::MAX, 1 << 40] {
                let was = region.word(index).peek();
                region.word(index).publish(nonsense);
                assert_eq!(Geometry::read(&region.replica()), Err(PeerFault::Geometry));
                region.word(index).publish(was);
            }
        }
        assert_eq!(Geometry::read(&OwnRegion::heap(2).replica()), Err(PeerFault::Geometry));
    }
}
