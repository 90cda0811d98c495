//! What a reader has received and not yet taken: references into senders' memories, no copies.
//!
//! Owns: a queue from the turn to the application, and the count of references to each chunk.
//! Never does: block the turn. A queue has room for as many records as the sender's memory can
//! hold, so only a sender that breaks its own rules can overfill it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::ptr::NonNull;

use super::entry::Entry;
use super::geometry::Geometry;
use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::link::Waker;
use crate::memory::Replica;

/// A sender's memory as one node's readers see it, with the references they hold to its chunks.
pub struct Source {
    replica: Replica,
    geometry: Geometry,
    references: Box<[AtomicU32]>,
    waker: Waker,
}

impl Source {
    /// The memory behind a replica, of this shape.
    pub(super) fn new(replica: Replica, geometry: Geometry, waker: Waker) -> Arc<Source> {
        let references = (0..geometry.chunks()).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Source { replica, geometry, references, waker })
    }

    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(super) fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Counts a reference to a chunk, before the reader can see what it is for.
    pub(super) fn hold(&self, chunk: usize) {
        self.references[chunk].fetch_add(1, Ordering::Relaxed);
    }

    /// Whether nobody of this node refers to a chunk. Acquire: the last read of what was released
    /// came before.
    pub(super) fn is_released(&self, chunk: usize) -> bool {
        self.references[chunk].load(Ordering::Acquire) == 0
    }

    fn release(&self, chunk: usize) {
        // Release: this thread's reads of the record stay before it.
        if self.references[chunk].fetch_sub(1, Ordering::Release) == 1 {
            // The last reference: a turn has to tell the sender, who may wait for it.
            (self.waker)();
        }
    }
}

/// A record that was received: bytes in its sender's memory, which stay as they are until this is
/// dropped.
pub struct Record {
    source: Arc<Source>,
    start: NonNull<u8>,
    entry: Entry,
    slot: u64,
}

// SAFETY: the bytes are only read; the source keeps them mapped and its counts are atomic.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

impl Record {
    /// The bytes. They are the peer's memory: a correct peer leaves them alone while this lives;
    /// whoever reads them must take any content.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` and the length were checked against the replica, which the source keeps
        // mapped. Every bit pattern is a valid u8. The sender does not overwrite the range while
        // this node's `held` bit for its chunk is set, which it is as long as this lives.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.entry.length as usize) }
    }

    /// Its slot in the sender's order.
    pub fn slot(&self) -> u64 {
        self.slot
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.source.release(self.entry.chunk(self.source.geometry));
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record(slot {}, {} bytes)", self.slot, self.entry.length)
    }
}

/// Words of a place in a queue: where the bytes are, and the slot.
const PLACE_WORDS: usize = 2;

/// So many atomic zeros, of which only those that are used take memory.
#[cfg(not(loom))]
fn zeros(count: usize) -> Box<[AtomicU64]> {
    let plain: Box<[u64]> = alloc::vec![0; count].into_boxed_slice();
    // SAFETY: an AtomicU64 has the size, alignment and bit validity of a u64, and the box is the
    // only way to this memory.
    unsafe { Box::from_raw(Box::into_raw(plain) as *mut [AtomicU64]) }
}

#[cfg(loom)]
fn zeros(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// The queue of one reader for one sender: the turn puts in, the application takes out.
///
/// One thread at a time may take, and only the turn puts; the queue itself needs no lock. Used
/// wrongly it would mix up records, but never leave the sender's memory.
pub struct Inbox {
    source: Arc<Source>,
    /// A power of two of places.
    places: Box<[AtomicU64]>,
    /// Records put in; written by the turn.
    head: AtomicU64,
    /// Records taken out; written by the application.
    taken: AtomicU64,
}

impl Inbox {
    pub(super) fn new(source: Arc<Source>) -> Arc<Inbox> {
        let room = source.geometry.lines().next_power_of_two();
        let places = zeros(room * PLACE_WORDS);
        let (head, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Inbox { source, places, head, taken })
    }

    fn room(&self) -> u64 {
        (self.places.len() / PLACE_WORDS) as u64
    }

    /// Where the bytes are and the slot of the record of that number.
    fn place(&self, count: u64) -> (&AtomicU64, &AtomicU64) {
        let first = (count & (self.room() - 1)) as usize * PLACE_WORDS;
        (&self.places[first], &self.places[first + 1])
    }

    /// Puts an entry in. Its chunk has been counted. `false` if there is no room.
    #[inline]
    pub(super) fn put(&self, entry: Entry, slot: u64) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        if head.wrapping_sub(self.taken.load(Ordering::Acquire)) >= self.room() {
            return false;
        }
        let (bytes, its_slot) = self.place(head);
        let place = u64::from(entry.position) | u64::from(entry.length) << 32;
        bytes.store(place, Ordering::Relaxed);
        its_slot.store(slot, Ordering::Relaxed);
        self.head.store(head.wrapping_add(1), Ordering::Release);
        true
    }

    /// Records that wait to be taken.
    #[inline]
    pub fn len(&self) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        self.head.load(Ordering::Acquire).wrapping_sub(taken) as usize
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the oldest record out.
    #[inline]
    pub fn take(&self) -> Option<Record> {
        let taken = self.taken.load(Ordering::Relaxed);
        if taken == self.head.load(Ordering::Acquire) {
            return None;
        }
        let (bytes, slot) = self.place(taken);
        let bytes = bytes.load(Ordering::Relaxed);
        let slot = slot.load(Ordering::Relaxed);
        self.taken.store(taken.wrapping_add(1), Ordering::Release);
        let entry = Entry { position: bytes as u32, length: (bytes >> 32) as u32 };
        let source = &self.source;
        let offset = entry.first_byte(source.geometry);
        let start = source.replica.bytes(offset, entry.length as usize);
        let start = start.expect("receive checked the entry against the geometry");
        Some(Record { source: Arc::clone(source), start, entry, slot })
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inbox({} records)", self.len())
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // What nobody took is released, so that the sender goes on.
        while self.take().is_some() {}
    }
}
