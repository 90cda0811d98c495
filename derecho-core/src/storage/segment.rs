//! Segment of a store: consecutive records, and a link to the next segment.
//!
//! Owns: the memory, and which thread may access which part of it. Never does: decide which records
//! are kept.
//!
//! ```text
//!   byte  0   position: u64    number of records before this one
//!         8   died: u64        position of the record that removed this one; all ones if none did
//!        16   number: u64      number among its stream's messages
//!        24   length: u32      length of the record
//!        28   stream: u32      the store's number for the stream
//!        32   the record       padded to 16 bytes
//! ```
//! The turn writes behind the visible part; readers access only the visible part, in which nothing
//! but `died` ever changes.

use alloc::sync::Arc;
use core::ops::Deref;
use core::ptr;

use crate::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::memory::{LINE_WORDS, OwnRegion};

/// Bytes before a record.
pub(super) const HEAD: usize = 32;
/// Value of `died` for a record that is kept.
const ALIVE: u64 = u64::MAX;

/// Header of a record in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StoredHeader {
    /// Position in the order: the number of records before this one.
    pub(super) position: u64,
    pub(super) number: u64,
    pub(super) stream: u32,
    pub(super) length: u32,
}

impl StoredHeader {
    /// Bytes of the record including its header.
    pub(super) fn footprint(self) -> usize {
        footprint(self.length as usize)
    }
}

/// Bytes that a record of this length takes.
pub(super) fn footprint(length: usize) -> usize {
    HEAD + length.next_multiple_of(16)
}

/// Memory of a segment. A record keeps this memory even after the segment is gone.
pub(super) struct SegmentMemory {
    region: OwnRegion,
    /// Number of visible bytes.
    shown: AtomicU64,
    /// Bytes of all memory of the store that still exists, whatever keeps it.
    total: Arc<AtomicU64>,
}

impl SegmentMemory {
    /// Size in bytes.
    pub(super) fn size(&self) -> usize {
        self.region.words() * 8
    }

    /// Number of visible bytes.
    #[inline]
    pub(super) fn shown(&self) -> usize {
        self.shown.load(Ordering::Acquire) as usize
    }

    /// Appends a record and makes it visible at once. `None` if it does not fit. Only the turn may
    /// call this.
    pub(super) fn put(&self, head: StoredHeader, record: &[u8]) -> Option<usize> {
        let at = self.shown.load(Ordering::Relaxed) as usize;
        let end = at + footprint(record.len());
        if end > self.size() {
            return None;
        }
        let word = |index: usize| self.region.word(at / 8 + index);
        word(0).put(head.position);
        word(1).put(ALIVE);
        word(2).put(head.number);
        word(3).put(u64::from(head.length) | u64::from(head.stream) << 32);
        let to = self.region.bytes(at + HEAD, record.len())?;
        // SAFETY: the range is inside the memory and behind the visible part, so no thread reads
        // it, and only the turn, which runs here, writes. The record lies elsewhere, because it
        // is borrowed.
        unsafe { ptr::copy_nonoverlapping(record.as_ptr(), to.as_ptr(), record.len()) };
        // Release: a reader that sees the new length sees the whole record.
        self.shown.store(end as u64, Ordering::Release);
        Some(at)
    }

    /// Returns the header of the record at this place.
    #[inline]
    pub(super) fn head(&self, at: usize) -> StoredHeader {
        let word = |index: usize| self.region.word(at / 8 + index).peek();
        let last = word(3);
        let (length, stream) = (last as u32, (last >> 32) as u32);
        StoredHeader { position: word(0), number: word(2), stream, length }
    }

    /// Returns the position of the record that removed the record at this place.
    #[inline]
    pub(super) fn died(&self, at: usize) -> Option<u64> {
        let died = self.region.word(at / 8 + 1).load();
        (died != ALIVE).then_some(died)
    }

    /// Marks the record at this place as removed by the record at position `by`. Only the turn may
    /// call this.
    pub(super) fn bury(&self, at: usize, by: u64) {
        self.region.word(at / 8 + 1).publish(by);
    }

    /// Adds `by`, modulo 2^64, to the positions of all records. Only the turn may call this, while
    /// no other thread accesses the records.
    pub(super) fn shift(&self, by: u64) {
        let (mut at, shown) = (0, self.shown());
        while at < shown {
            let position = self.region.word(at / 8);
            position.put(position.peek().wrapping_add(by));
            at += self.head(at).footprint();
        }
    }

    /// Returns a visible record.
    #[inline]
    pub(super) fn record(&self, at: usize, length: usize) -> &[u8] {
        let from = self.region.bytes(at + HEAD, length).expect("a record that is shown is inside");
        // SAFETY: the record is inside the memory, initialised (all memory is zeroed at creation),
        // and visible, so no thread writes it while the memory exists, which `self` guarantees.
        unsafe { core::slice::from_raw_parts(from.as_ptr(), length) }
    }
}

impl Drop for SegmentMemory {
    fn drop(&mut self) {
        self.total.fetch_sub(self.size() as u64, Ordering::Relaxed);
    }
}

/// One segment; see the [module](self).
pub(super) struct Segment {
    memory: Arc<SegmentMemory>,
    next: AtomicPtr<Segment>,
}

impl Deref for Segment {
    type Target = SegmentMemory;
    #[inline]
    fn deref(&self) -> &SegmentMemory {
        &self.memory
    }
}

impl Segment {
    /// Creates an empty segment of at least this size.
    pub(super) fn new(bytes: usize, total: &Arc<AtomicU64>) -> Arc<Segment> {
        let words = bytes.div_ceil(8).next_multiple_of(LINE_WORDS);
        total.fetch_add(words as u64 * 8, Ordering::Relaxed);
        let (region, shown) = (OwnRegion::heap(words), AtomicU64::new(0));
        Segment::with_memory(SegmentMemory { region, shown, total: Arc::clone(total) })
    }

    /// Creates an empty segment from the memory of another one.
    pub(super) fn with_memory(memory: SegmentMemory) -> Arc<Segment> {
        memory.shown.store(0, Ordering::Relaxed);
        Arc::new(Segment { memory: Arc::new(memory), next: AtomicPtr::new(ptr::null_mut()) })
    }

    /// Returns its memory if nothing else refers to the segment or its memory.
    pub(super) fn into_memory(this: Arc<Segment>) -> Option<SegmentMemory> {
        let memory = Arc::clone(&this.memory);
        drop(Arc::into_inner(this)?);
        Arc::into_inner(memory)
    }

    /// Returns its memory, without the segments after it.
    #[inline]
    pub(super) fn memory(&self) -> &Arc<SegmentMemory> {
        &self.memory
    }

    /// Returns the next segment.
    pub(super) fn next(&self) -> Option<Arc<Segment>> {
        let next = self.next.load(Ordering::Acquire);
        if next.is_null() {
            return None;
        }
        // SAFETY: the pointer came from `Arc::into_raw` and is counted for this segment, which
        // exists. It changes only while no thread moves from segment to segment, see `set_next`.
        Some(unsafe {
            Arc::increment_strong_count(next);
            Arc::from_raw(next)
        })
    }

    /// Sets the next segment. Only the turn may call this. If there was another next segment, no
    /// other thread may be moving along the store.
    pub(super) fn set_next(&self, next: Option<Arc<Segment>>) {
        let next = next.map_or(ptr::null_mut(), |next| Arc::into_raw(next).cast_mut());
        let before = self.next.swap(next, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: the pointer came from `Arc::into_raw`, and no thread is about to increment
            // its count.
            drop(unsafe { Arc::from_raw(before) });
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // Segments are dropped one after the other: a chain may be longer than the stack is deep.
        let mut next = self.next.swap(ptr::null_mut(), Ordering::AcqRel);
        while !next.is_null() {
            // SAFETY: the pointer came from `Arc::into_raw`, once.
            let segment = unsafe { Arc::from_raw(next) };
            next = match Arc::into_inner(segment) {
                Some(last) => last.next.swap(ptr::null_mut(), Ordering::AcqRel),
                None => ptr::null_mut(),
            };
        }
    }
}
