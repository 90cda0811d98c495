//! Cursor along a store, from record to record.
//!
//! Owns: its place, and with it all later records: a record ahead of a cursor stays. Never does:
//! wait, or change anything.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use super::segment::{HEAD, Segment, SegmentMemory};
use crate::atomic::{AtomicU64, Ordering};

/// While a pin exists, removed records stay in place.
#[derive(Clone)]
pub(super) struct StorePin(#[allow(dead_code, reason = "counted, not used")] Arc<()>);

impl StorePin {
    pub(super) fn new(counted: &Arc<()>) -> StorePin {
        StorePin(Arc::clone(counted))
    }
}

/// Cursor along a store; see the [module](self).
pub struct StoreCursor {
    segment: Arc<Segment>,
    at: usize,
    /// End of the store at the version that the cursor shows: records before it are skipped if they
    /// were removed before it.
    cut: u64,
    /// Least position of the next record.
    next: u64,
    pin: StorePin,
}

impl StoreCursor {
    pub(super) fn new(segment: Arc<Segment>, pin: StorePin) -> StoreCursor {
        StoreCursor { segment, at: 0, cut: 0, next: 0, pin }
    }

    /// Returns another cursor at the same place.
    pub fn fork(&self) -> StoreCursor {
        let (segment, pin) = (Arc::clone(&self.segment), self.pin.clone());
        StoreCursor { segment, at: self.at, cut: self.cut, next: self.next, pin }
    }

    /// Restricts the cursor to the records kept at this version, none of which is below the floor,
    /// and all later records.
    pub(super) fn cut_at(&mut self, version: u64, floor: u64) {
        (self.cut, self.next) = (version, floor);
    }

    /// Length of the next record in its segment; 0 at the end of the segment.
    pub(super) fn length_of_next(&self) -> usize {
        match self.at < self.segment.shown() {
            true => self.segment.head(self.at).length as usize,
            false => 0,
        }
    }

    /// Begins at this place in its segment and at this position.
    pub(super) fn begin_at(&mut self, at: usize, position: u64) {
        (self.at, self.next) = (at, position);
    }

    /// Returns its place, if it is in this segment.
    pub(super) fn place_in(&self, segment: &Arc<Segment>) -> Option<usize> {
        Arc::ptr_eq(&self.segment, segment).then_some(self.at)
    }

    /// Skips records before this position.
    pub fn skip_to(&mut self, position: u64) {
        self.next = self.next.max(position);
    }

    /// Position after the last record that was returned or skipped, which is the version of that
    /// record.
    pub fn position(&self) -> u64 {
        self.next
    }
}

/// Returns the next record; `None` if there is none yet. There may be one later.
impl Iterator for StoreCursor {
    type Item = StoredRecord;

    fn next(&mut self) -> Option<StoredRecord> {
        loop {
            let segment = &self.segment;
            // The next segment is loaded first: records added before it existed are found in
            // this one.
            let next = segment.next();
            if self.at == segment.shown() {
                (self.segment, self.at) = (next?, 0);
                continue;
            }
            let (at, head) = (self.at, segment.head(self.at));
            self.at += head.footprint();
            let passed = head.position < self.next;
            // The record was removed when the record at position `died` was delivered, which is
            // below the cut.
            let dead = || segment.died(at).is_some_and(|died| died < self.cut);
            if passed || head.position < self.cut && dead() {
                continue;
            }
            self.next = head.position + 1;
            let memory = Arc::clone(segment.memory());
            let (length, stream) = (head.length, head.stream);
            return Some(StoredRecord {
                memory,
                start: at,
                length,
                stream,
                position: head.position,
                number: head.number,
            });
        }
    }
}

/// Record of a store. It stays valid while this handle exists, whatever happens to the store.
#[derive(Clone)]
pub struct StoredRecord {
    memory: Arc<SegmentMemory>,
    start: usize,
    length: u32,
    stream: u32,
    position: u64,
    number: u64,
}

impl StoredRecord {
    /// Position in the order: the number of records before this one.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Number among its stream's messages.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The store's number for the record's stream.
    pub fn stream(&self) -> u32 {
        self.stream
    }

    /// Bytes of the record, aligned to 16.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.memory.record(self.start, self.length as usize)
    }
}

impl Deref for StoredRecord {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Debug for StoredRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredRecord({} of {}, position {})", self.number, self.stream, self.position)
    }
}

/// Meter of a store's memory.
#[derive(Clone)]
pub struct MemoryMeter(pub(super) Arc<AtomicU64>);

impl MemoryMeter {
    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

const _: () = assert!(HEAD.is_multiple_of(16), "records are aligned");
