//! A piece of a store: records one behind the other, and the piece that comes after it.
//!
//! Owns: the memory, and who may look at which part of it. Never does: decide what is kept.
//!
//! ```text
//!   byte  0   version: u64     its place in the order
//!         8   died: u64        the version of the record that took its place; none: all ones
//!        16   number: u64      its number among its stream's messages
//!        24   length: u32      of what follows
//!        28   stream: u32      which stream, by the store's number for it
//!        32   the record       padded to 16 bytes
//! ```
//! The turn writes behind what is shown; whoever reads looks at what is shown alone. `died` is all that
//! changes there.

use alloc::sync::Arc;
use core::ops::Deref;
use core::ptr;

use crate::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::memory::{LINE_WORDS, OwnRegion};

/// Bytes before a record.
pub(super) const HEAD: usize = 32;
/// What [`Head::died`] says of a record that lives.
const ALIVE: u64 = u64::MAX;

/// What is known of a record in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) version: u64,
    pub(super) number: u64,
    pub(super) stream: u32,
    pub(super) length: u32,
}

impl Head {
    /// Bytes of the record with its head.
    pub(super) fn footprint(self) -> usize {
        footprint(self.length as usize)
    }
}

/// Bytes that a record of so many takes.
pub(super) fn footprint(length: usize) -> usize {
    HEAD + length.next_multiple_of(16)
}

/// The memory of a segment, which a record keeps although the segment is gone.
pub(super) struct Memory {
    region: OwnRegion,
    /// Bytes that are shown.
    shown: AtomicU64,
    /// Bytes of all memory of the store that is still there, whoever keeps it.
    total: Arc<AtomicU64>,
}

impl Memory {
    /// Bytes that fit.
    pub(super) fn size(&self) -> usize {
        self.region.words() * 8
    }

    /// Bytes that are shown.
    #[inline]
    pub(super) fn shown(&self) -> usize {
        self.shown.load(Ordering::Acquire) as usize
    }

    /// Puts a record in, to be shown at once. `None` if it does not fit. For the turn.
    pub(super) fn put(&self, head: Head, record: &[u8]) -> Option<usize> {
        let at = self.shown.load(Ordering::Relaxed) as usize;
        let end = at + footprint(record.len());
        if end > self.size() {
            return None;
        }
        let word = |index: usize| self.region.word(at / 8 + index);
        word(0).put(head.version);
        word(1).put(ALIVE);
        word(2).put(head.number);
        word(3).put(u64::from(head.length) | u64::from(head.stream) << 32);
        let to = self.region.bytes(at + HEAD, record.len())?;
        // SAFETY: the range is inside the memory and behind what is shown, so nobody reads it, and only
        // the turn, which is here, writes. The record lies elsewhere: it is borrowed.
        unsafe { ptr::copy_nonoverlapping(record.as_ptr(), to.as_ptr(), record.len()) };
        // Release: whoever sees that it is shown sees all of it.
        self.shown.store(end as u64, Ordering::Release);
        Some(at)
    }

    /// What is known of the record at this place.
    #[inline]
    pub(super) fn head(&self, at: usize) -> Head {
        let word = |index: usize| self.region.word(at / 8 + index).peek();
        let last = word(3);
        let (length, stream) = (last as u32, (last >> 32) as u32);
        Head { version: word(0), number: word(2), stream, length }
    }

    /// When the record at this place died.
    #[inline]
    pub(super) fn died(&self, at: usize) -> Option<u64> {
        let died = self.region.word(at / 8 + 1).load();
        (died != ALIVE).then_some(died)
    }

    /// The record at this place died. For the turn.
    pub(super) fn bury(&self, at: usize, version: u64) {
        self.region.word(at / 8 + 1).publish(version);
    }

    /// The records in it have versions that are so much greater, modulo 2^64. For the turn, as long as nobody else looks at
    /// them.
    pub(super) fn shift(&self, by: u64) {
        let (mut at, shown) = (0, self.shown());
        while at < shown {
            let version = self.region.word(at / 8);
            version.put(version.peek().wrapping_add(by));
            at += self.head(at).footprint();
        }
    }

    /// A record that is shown.
    #[inline]
    pub(super) fn record(&self, at: usize, length: usize) -> &[u8] {
        let from = self.region.bytes(at + HEAD, length).expect("a record that is shown is inside");
        // SAFETY: it is inside the memory, initialised (all of it was zeroed when it was made), and shown,
        // so nobody writes it any more as long as the memory is there, which `self` keeps.
        unsafe { core::slice::from_raw_parts(from.as_ptr(), length) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.total.fetch_sub(self.size() as u64, Ordering::Relaxed);
    }
}

/// See the [module](self).
pub(super) struct Segment {
    memory: Arc<Memory>,
    next: AtomicPtr<Segment>,
}

impl Deref for Segment {
    type Target = Memory;
    #[inline]
    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl Segment {
    /// An empty one of at least so many bytes.
    pub(super) fn new(bytes: usize, total: &Arc<AtomicU64>) -> Arc<Segment> {
        let words = bytes.div_ceil(8).next_multiple_of(LINE_WORDS);
        total.fetch_add(words as u64 * 8, Ordering::Relaxed);
        let (region, shown) = (OwnRegion::heap(words), AtomicU64::new(0));
        Segment::over(Memory { region, shown, total: Arc::clone(total) })
    }

    /// An empty one over memory that was another's.
    pub(super) fn over(memory: Memory) -> Arc<Segment> {
        memory.shown.store(0, Ordering::Relaxed);
        Arc::new(Segment { memory: Arc::new(memory), next: AtomicPtr::new(ptr::null_mut()) })
    }

    /// Its memory, if nobody else has anything of it.
    pub(super) fn into_memory(this: Arc<Segment>) -> Option<Memory> {
        let memory = Arc::clone(&this.memory);
        drop(Arc::into_inner(this)?);
        Arc::into_inner(memory)
    }

    /// Its memory, without what comes after it.
    #[inline]
    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// What comes after it.
    pub(super) fn next(&self) -> Option<Arc<Segment>> {
        let next = self.next.load(Ordering::Acquire);
        if next.is_null() {
            return None;
        }
        // SAFETY: it came from `Arc::into_raw` and is counted for this segment, which is here. It is
        // changed only while nobody walks from segment to segment, see `set_next`.
        Some(unsafe {
            Arc::increment_strong_count(next);
            Arc::from_raw(next)
        })
    }

    /// Says what comes after it. For the turn; where something else came after it before, only while
    /// nobody else walks along the store.
    pub(super) fn set_next(&self, next: Option<Arc<Segment>>) {
        let next = next.map_or(ptr::null_mut(), |next| Arc::into_raw(next).cast_mut());
        let before = self.next.swap(next, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: it came from `Arc::into_raw`, and nobody else is about to count it up.
            drop(unsafe { Arc::from_raw(before) });
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // One after the other: a chain may be longer than the stack is deep.
        let mut next = self.next.swap(ptr::null_mut(), Ordering::AcqRel);
        while !next.is_null() {
            // SAFETY: it came from `Arc::into_raw`, once.
            let segment = unsafe { Arc::from_raw(next) };
            next = match Arc::into_inner(segment) {
                Some(last) => last.next.swap(ptr::null_mut(), Ordering::AcqRel),
                None => ptr::null_mut(),
            };
        }
    }
}
