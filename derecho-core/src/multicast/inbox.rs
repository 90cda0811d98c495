//! What a reader has received and not yet taken: references into senders' memories, no copies.
//!
//! Owns: a queue from the turn to the application, and the count of references to each chunk.
//! Never does: block the turn. A queue has room for as many records as the sender's memory can
//! hold, so only a sender that breaks its own rules can overfill it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::ptr::NonNull;

use super::entry::Extent;
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

    /// Counts references to a chunk, before a reader can see what they are for. The first one to a
    /// chunk keeps the source itself, for all of them: a record does without a handle of its own.
    #[inline]
    pub(super) fn hold(this: &Arc<Source>, chunk: usize, count: u32) {
        if this.references[chunk].fetch_add(count, Ordering::Relaxed) == 0 {
            // SAFETY: the pointer comes from this handle, which is alive.
            unsafe { Arc::increment_strong_count(Arc::as_ptr(this)) };
        }
    }

    /// Whether nobody of this node refers to a chunk. Acquire: the last read of what was released
    /// came before.
    pub(super) fn is_released(&self, chunk: usize) -> bool {
        self.references[chunk].load(Ordering::Acquire) == 0
    }

    /// Counts a reference down.
    ///
    /// # Safety
    /// The reference was counted by [`Source::hold`] on the source that this points to, and is
    /// released once.
    #[inline]
    unsafe fn release(this: NonNull<Source>, chunk: usize) {
        // SAFETY: as long as a reference to the chunk is counted, the source is kept for it.
        let source = unsafe { this.as_ref() };
        // Release: this thread's reads of the record stay before it. Acquire: so do those of all
        // others stay before the source may go.
        if source.references[chunk].fetch_sub(1, Ordering::AcqRel) == 1 {
            // The last reference: a turn has to tell the sender, who may wait for it.
            (source.waker)();
            // SAFETY: the handle that the first reference to this chunk has made is ours now, for
            // whoever refers to it again makes another one.
            unsafe { Arc::decrement_strong_count(this.as_ptr()) };
        }
    }
}

/// A record that was received: bytes in its sender's memory, which stay as they are until this is
/// dropped.
pub struct Record {
    /// Kept by the reference to its chunk that this record is.
    source: NonNull<Source>,
    start: NonNull<u8>,
    extent: Extent,
    origin: u64,
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
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.extent.length as usize) }
    }

    /// Its number among its sender's messages.
    #[inline]
    pub fn number(&self) -> u64 {
        self.origin >> SENDER_BITS
    }

    /// Which of the queue's senders sent it.
    #[inline]
    pub fn sender(&self) -> usize {
        (self.origin & SENDER_MASK) as usize
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // SAFETY: as long as this record's reference is counted, the source is kept for it.
        let geometry = unsafe { self.source.as_ref() }.geometry;
        // SAFETY: the turn counted a reference for this record, which ends here.
        unsafe { Source::release(self.source, self.extent.chunk(geometry)) };
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} of {}, {} bytes)", self.number(), self.sender(), self.extent.length)
    }
}

/// Words of a place in a queue: where the bytes are, and whose they are.
const PLACE_WORDS: usize = 2;
/// Bits of the second word that say which sender; the others are the message's number.
const SENDER_BITS: u32 = 16;
const SENDER_MASK: u64 = (1 << SENDER_BITS) - 1;

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

/// A record on its way into the readers' queues.
#[derive(Clone, Copy, Default)]
pub(super) struct Delivery {
    bytes: u64,
    origin: u64,
}

impl Delivery {
    /// A sender's record.
    #[inline]
    pub(super) fn new(sender: usize, extent: Extent, number: u64) -> Delivery {
        let bytes = u64::from(extent.position) | u64::from(extent.length) << 32;
        Delivery { bytes, origin: number << SENDER_BITS | sender as u64 }
    }
}

/// The queue of one reader: the turn puts in what is delivered, the application takes it out.
///
/// One thread at a time may take, and only the turn puts; the queue itself needs no lock. Used
/// wrongly it would mix up records, but never leave the senders' memory.
pub struct Inbox {
    sources: Box<[Arc<Source>]>,
    /// A power of two of places.
    places: Box<[AtomicU64]>,
    /// Records put in and not yet shown; the turn's alone.
    staged: AtomicU64,
    /// Records put in; written by the turn.
    head: Line,
    /// Records taken out; written by the application.
    taken: Line,
}

/// A counter on a line of its own: the turn and the application each write one.
#[repr(align(64))]
struct Line(AtomicU64);

impl Inbox {
    /// A queue for the records of these senders.
    pub(super) fn new(sources: Box<[Arc<Source>]>) -> Arc<Inbox> {
        assert!(sources.len() <= 1 << SENDER_BITS, "senders are numbered with 16 bits");
        let grains: usize = sources.iter().map(|source| source.geometry.grains()).sum();
        let places = zeros(grains.next_power_of_two() * PLACE_WORDS);
        let zero = || Line(AtomicU64::new(0));
        let staged = AtomicU64::new(0);
        Arc::new(Inbox { sources, places, staged, head: zero(), taken: zero() })
    }

    fn room(&self) -> u64 {
        (self.places.len() / PLACE_WORDS) as u64
    }

    /// Where the bytes are and whose they are, of the record of that number.
    fn place(&self, count: u64) -> (&AtomicU64, &AtomicU64) {
        let first = (count & (self.room() - 1)) as usize * PLACE_WORDS;
        (&self.places[first], &self.places[first + 1])
    }

    /// How many more records there is room for.
    #[inline]
    pub(super) fn room_left(&self) -> u64 {
        let staged = self.staged.load(Ordering::Relaxed);
        self.room() - staged.wrapping_sub(self.taken.0.load(Ordering::Acquire))
    }

    /// Who has more records in a queue without room than its memory has grains. If nobody has, all
    /// memories are in it as a whole, and whoever sends yet another record has overrun it.
    #[cold]
    pub(super) fn overrun_by(&self, sender: usize) -> usize {
        let mut grains: Box<[usize]> = self.sources.iter().map(|s| s.geometry.grains()).collect();
        let (taken, staged) = (&self.taken.0, &self.staged);
        // Places up to `staged` are changed by nobody but the turn.
        for count in taken.load(Ordering::Acquire)..staged.load(Ordering::Relaxed) {
            let of = (self.place(count).1.load(Ordering::Relaxed) & SENDER_MASK) as usize;
            match grains[of].checked_sub(1) {
                Some(left) => grains[of] = left,
                None => return of,
            }
        }
        sender
    }

    /// Puts records in, to be shown by [`Inbox::publish`]. Their chunks are counted before that.
    /// `false` if there is no room for all of them.
    #[inline]
    pub(super) fn put(&self, batch: &[Delivery]) -> bool {
        let staged = self.staged.load(Ordering::Relaxed);
        if batch.len() as u64 > self.room_left() {
            return false;
        }
        for (count, delivery) in batch.iter().enumerate() {
            let (bytes, origin) = self.place(staged.wrapping_add(count as u64));
            bytes.store(delivery.bytes, Ordering::Relaxed);
            origin.store(delivery.origin, Ordering::Relaxed);
        }
        self.staged.store(staged.wrapping_add(batch.len() as u64), Ordering::Relaxed);
        true
    }

    /// Shows what was put in, all of it at once.
    #[inline]
    pub(super) fn publish(&self) {
        self.head.0.store(self.staged.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Records that wait to be taken.
    #[inline]
    pub fn len(&self) -> usize {
        let taken = self.taken.0.load(Ordering::Relaxed);
        self.head.0.load(Ordering::Acquire).wrapping_sub(taken) as usize
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the oldest record out.
    #[inline]
    pub fn take(&self) -> Option<Record> {
        let taken = self.taken.0.load(Ordering::Relaxed);
        if taken == self.head.0.load(Ordering::Acquire) {
            return None;
        }
        let (bytes, origin) = self.place(taken);
        let bytes = bytes.load(Ordering::Relaxed);
        let origin = origin.load(Ordering::Relaxed);
        self.taken.0.store(taken.wrapping_add(1), Ordering::Release);
        let extent = Extent { position: bytes as u32, length: (bytes >> 32) as u32 };
        let source = &self.sources[(origin & SENDER_MASK) as usize];
        let offset = extent.first_byte(source.geometry);
        let start = source.replica.bytes(offset, extent.length as usize);
        let start = start.expect("receive checked the entry against the geometry");
        // Not from a reference: a record may have to let the whole source go.
        let source = NonNull::new(Arc::as_ptr(source).cast_mut()).expect("no handle is null");
        Some(Record { source, start, extent, origin })
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
