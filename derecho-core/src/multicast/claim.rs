//! Claim, build in place, commit: how application threads fill a sender's memory, without a lock.
//!
//! Owns: the sender's side of its byte memory and order ring. Never does: make anything visible;
//! that is [`send`](super::send)'s.
//!
//! ```text
//!   claim   one credit (a place in the order ring), some lines of the current chunk
//!   build   in place; the range belongs to this claim alone
//!   commit  takes the next slot: its entry names the range. The slot comes from the commit, not
//!           from the claim, so a claim that is held, dropped or forgotten delays nobody
//! ```
//! A chunk is given back when it is not the current one, no claim in it is open, all its entries
//! are below every reader's `taken`, and no reader's `held` has its bit. An abandoned claim leaves
//! a hole in its chunk, a forgotten one pins it; the others go on.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::entry::Entry;
use super::geometry::{Geometry, SENT};
use crate::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use crate::memory::{LINE, OwnRegion};

/// Why a claim was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimError {
    /// The record is longer than any that this memory takes.
    TooLong {
        /// Bytes asked for.
        length: usize,
        /// The longest record.
        largest: usize,
    },
    /// Readers have not yet given back enough; try again after they have.
    Full,
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::TooLong { length, largest } => {
                write!(f, "a record of {length} bytes is longer than the largest of {largest}")
            }
            ClaimError::Full => f.write_str("the sender's memory is full of what readers hold"),
        }
    }
}

impl core::error::Error for ClaimError {}

/// The current chunk and the first free line in it, in one word so that one compare-and-swap
/// moves both. The generation counts chunk changes: a thread that slept through one cannot take
/// the new state for the old.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cursor {
    generation: u32,
    chunk: u32,
    line: u32,
}

impl Cursor {
    const CHUNK_BITS: u32 = 7;
    const LINE_BITS: u32 = 25;

    fn pack(self) -> u64 {
        u64::from(self.generation) << 32
            | u64::from(self.chunk) << Self::LINE_BITS
            | u64::from(self.line)
    }

    fn unpack(word: u64) -> Cursor {
        Cursor {
            generation: (word >> 32) as u32,
            chunk: (word as u32) >> Self::LINE_BITS & ((1 << Self::CHUNK_BITS) - 1),
            line: word as u32 & ((1 << Self::LINE_BITS) - 1),
        }
    }
}

/// What is known of one chunk.
struct Chunk {
    /// Claims in it that are neither committed nor abandoned.
    open: AtomicU32,
    /// One past the last slot that has a record in it.
    last: AtomicU64,
}

struct Inner {
    region: OwnRegion,
    geometry: Geometry,
    /// Places in the order ring that nobody has claimed.
    credits: AtomicI64,
    cursor: AtomicU64,
    /// A bit for each chunk that nobody uses.
    free: AtomicU64,
    /// Slots that were committed, complete or not.
    tail: AtomicU64,
    chunks: Box<[Chunk]>,
}

/// A sender's memory. Clones are handles on the same one.
#[derive(Clone)]
pub struct SenderMemory(Arc<Inner>);

impl SenderMemory {
    /// Lays a region of at least [`Geometry::words`] out as a sender's memory.
    pub fn new(region: OwnRegion, geometry: Geometry) -> SenderMemory {
        assert!(region.words() >= geometry.words(), "the region was opened for this geometry");
        for (index, word) in geometry.header().into_iter().enumerate() {
            region.word(index).publish(word);
        }
        let chunks = (0..geometry.chunks())
            .map(|_| Chunk { open: AtomicU32::new(0), last: AtomicU64::new(0) })
            .collect();
        // The first chunk is current from the start.
        let free = (u64::MAX >> (64 - geometry.chunks())) & !1;
        SenderMemory(Arc::new(Inner {
            region,
            geometry,
            credits: AtomicI64::new(geometry.entries() as i64),
            cursor: AtomicU64::new(Cursor { generation: 0, chunk: 0, line: 0 }.pack()),
            free: AtomicU64::new(free),
            tail: AtomicU64::new(0),
            chunks,
        }))
    }

    /// The region that peers see.
    pub fn region(&self) -> &OwnRegion {
        &self.0.region
    }

    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    /// Slots committed so far.
    #[inline]
    pub fn committed(&self) -> u64 {
        self.0.tail.load(Ordering::Acquire)
    }

    /// Slots published so far.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.0.region.word(SENT).peek()
    }

    /// Claims room for a record of up to `length` bytes. Never waits.
    #[inline]
    pub fn claim(&self, length: usize) -> Result<Claim<'_>, ClaimError> {
        let inner = &*self.0;
        let lines = length.div_ceil(LINE).max(1);
        if lines > inner.geometry.chunk_lines() {
            return Err(ClaimError::TooLong { length, largest: inner.geometry.largest() });
        }
        if inner.credits.fetch_sub(1, Ordering::AcqRel) <= 0 {
            inner.credits.fetch_add(1, Ordering::Relaxed);
            return Err(ClaimError::Full);
        }
        match inner.claim_lines(lines as u32) {
            Some(position) => Ok(Claim { memory: inner, position, length: length as u32 }),
            None => {
                inner.credits.fetch_add(1, Ordering::Relaxed);
                Err(ClaimError::Full)
            }
        }
    }

    /// Whether a claim of this length might succeed now: cheap enough to be asked in a wait.
    pub fn has_room(&self, length: usize) -> bool {
        let inner = &*self.0;
        let lines = length.div_ceil(LINE).max(1);
        let cursor = Cursor::unpack(inner.cursor.load(Ordering::Relaxed));
        inner.credits.load(Ordering::Relaxed) > 0
            && (cursor.line as usize + lines <= inner.geometry.chunk_lines()
                || inner.free.load(Ordering::Relaxed) != 0)
    }

    /// Whether half of the order ring or of the chunks is in use: reason to look what readers have
    /// given back. Before that nobody needs it, and each look takes a line from a reader.
    #[inline]
    pub(super) fn is_half_full(&self) -> bool {
        let inner = &*self.0;
        let entries = inner.geometry.entries() as i64;
        inner.credits.load(Ordering::Relaxed) < entries / 2
            || (inner.free.load(Ordering::Relaxed).count_ones() as usize)
                < inner.geometry.chunks() / 2
    }

    /// Gives places in the order ring back. Called by the turn only.
    pub(super) fn give_credits(&self, count: u64) {
        self.0.credits.fetch_add(count as i64, Ordering::AcqRel);
    }

    /// Gives back every chunk of which nobody needs anything. `taken` and `held` are over all
    /// readers. Called by the turn only. Returns how many.
    pub(super) fn give_chunks(&self, taken: u64, held: u64) -> usize {
        let inner = &*self.0;
        // A chunk on its way from free to current has its bit cleared already and a claim open,
        // see `take_free_chunk`. So: first the bits, then the cursor, then the open claims, and
        // the cursor again. If no chunk became current in between, a chunk that is neither free
        // nor current and has no open claim cannot get one.
        let free = inner.free.load(Ordering::Acquire);
        let before = Cursor::unpack(inner.cursor.load(Ordering::Acquire));
        let used = !free & !(1 << before.chunk) & !held & inner.all_chunks();
        let mut unused = 0;
        for (index, chunk) in inner.chunks.iter().enumerate() {
            let idle = used >> index & 1 == 1
                && chunk.open.load(Ordering::Acquire) == 0
                && chunk.last.load(Ordering::Acquire) <= taken;
            unused |= u64::from(idle) << index;
        }
        let after = Cursor::unpack(inner.cursor.load(Ordering::Acquire));
        if unused == 0 || after.generation != before.generation {
            return 0;
        }
        inner.free.fetch_or(unused, Ordering::AcqRel);
        unused.count_ones() as usize
    }
}

impl fmt::Debug for SenderMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SenderMemory({:?}, {} committed)", self.0.geometry, self.committed())
    }
}

impl Inner {
    /// Takes lines of the current chunk, or of a free one that becomes current.
    #[inline]
    fn claim_lines(&self, lines: u32) -> Option<u32> {
        let chunk_lines = self.geometry.chunk_lines() as u32;
        loop {
            let packed = self.cursor.load(Ordering::Acquire);
            let cursor = Cursor::unpack(packed);
            if cursor.line + lines <= chunk_lines {
                let chunk = &self.chunks[cursor.chunk as usize];
                // Before the swap: whoever sees the cursor leave this chunk sees this claim.
                chunk.open.fetch_add(1, Ordering::AcqRel);
                let next = Cursor { line: cursor.line + lines, ..cursor }.pack();
                if self.swap_cursor(packed, next) {
                    return Some(cursor.chunk * chunk_lines + cursor.line);
                }
                chunk.open.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let fresh = self.take_free_chunk()?;
            let generation = cursor.generation.wrapping_add(1);
            if !self.swap_cursor(packed, Cursor { generation, chunk: fresh, line: 0 }.pack()) {
                self.free.fetch_or(1 << fresh, Ordering::AcqRel);
            }
            self.chunks[fresh as usize].open.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn swap_cursor(&self, from: u64, to: u64) -> bool {
        self.cursor.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes a free chunk; it counts as having a claim open until the caller has made it current
    /// or put it back, so that the turn does not take it for an unused one meanwhile.
    fn take_free_chunk(&self) -> Option<u32> {
        let mut free = self.free.load(Ordering::Acquire);
        while free != 0 {
            let chunk = free.trailing_zeros();
            let without = free & !(1 << chunk);
            let open = &self.chunks[chunk as usize].open;
            open.fetch_add(1, Ordering::AcqRel);
            match self.free.compare_exchange(free, without, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(chunk),
                Err(now) => {
                    open.fetch_sub(1, Ordering::AcqRel);
                    free = now;
                }
            }
        }
        None
    }

    fn all_chunks(&self) -> u64 {
        u64::MAX >> (64 - self.geometry.chunks())
    }

    fn close(&self, position: u32) {
        let chunk = position as usize / self.geometry.chunk_lines();
        self.chunks[chunk].open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Room for one record, to be built in place and committed. Dropped, it is abandoned.
pub struct Claim<'a> {
    memory: &'a Inner,
    position: u32,
    length: u32,
}

impl Claim<'_> {
    /// The room. What is in it is left over from earlier records.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        let entry = Entry { position: self.position, length: self.length };
        let offset = entry.first_byte(self.memory.geometry);
        let length = self.length as usize;
        let start = self.memory.region.bytes(offset, length).expect("claims lie in the region");
        // SAFETY: the range lies in the region, which `memory` keeps alive. It belongs to this
        // claim alone: the cursor gave these lines to nobody else, and the chunk is not given
        // back while the claim is open. Peers do not read it before an entry names it.
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), length) }
    }

    /// Commits the first `length` bytes as a record: gives it the next slot. `seal` gets the slot
    /// before anyone can see the record, to write it where it belongs.
    #[inline]
    pub fn commit(mut self, length: usize, seal: impl FnOnce(u64, &mut [u8])) -> u64 {
        assert!(length <= self.length as usize, "a record fits its claim");
        let memory = self.memory;
        let entry = Entry { position: self.position, length: length as u32 };
        let slot = memory.tail.fetch_add(1, Ordering::AcqRel);
        seal(slot, self.bytes());
        // The credit guarantees that every reader has copied the entry of the last lap.
        let first = memory.geometry.entry_word(slot);
        let words = entry.encode(slot);
        memory.region.word(first).put(words[0]);
        let chunk = entry.chunk(memory.geometry);
        memory.chunks[chunk].last.fetch_max(slot + 1, Ordering::AcqRel);
        // Publishes the record and the first word; `send` looks for this one.
        memory.region.word(first + 1).publish(words[1]);
        memory.close(self.position);
        // The credit stays with the slot until all readers have received it.
        let _ = core::mem::ManuallyDrop::new(self);
        slot
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.memory.close(self.position);
        self.memory.credits.fetch_add(1, Ordering::AcqRel);
    }
}
