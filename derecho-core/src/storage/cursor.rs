//! A way along a store, from a record to the next one.
//!
//! Owns: the place, and with it all that comes after it: what a cursor has before it stays. Never does:
//! wait, or change anything.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use super::segment::{HEAD, Memory, Segment};
use crate::atomic::{AtomicU64, Ordering};

/// As long as it is there, records that die stay where they are.
#[derive(Clone)]
pub(super) struct Pin(#[allow(dead_code, reason = "counted, not used")] Arc<()>);

impl Pin {
    pub(super) fn new(counted: &Arc<()>) -> Pin {
        Pin(Arc::clone(counted))
    }
}

/// See the [module](self).
pub struct Cursor {
    segment: Arc<Segment>,
    at: usize,
    /// Records below this version are passed over if they died before it: they were no part of what was
    /// kept then.
    cut: u64,
    /// The version that comes next at least.
    next: u64,
    pin: Pin,
}

impl Cursor {
    pub(super) fn new(segment: Arc<Segment>, pin: Pin) -> Cursor {
        Cursor { segment, at: 0, cut: 0, next: 0, pin }
    }

    /// Another one at the same place.
    pub fn fork(&self) -> Cursor {
        let (segment, pin) = (Arc::clone(&self.segment), self.pin.clone());
        Cursor { segment, at: self.at, cut: self.cut, next: self.next, pin }
    }

    /// What was kept at this version, which is nothing below the floor, and all that came after it.
    pub(super) fn cut_at(&mut self, version: u64, floor: u64) {
        (self.cut, self.next) = (version, floor);
    }

    /// Bytes of the record that comes next where it is; none if it is at the end of its segment.
    pub(super) fn length_of_next(&self) -> usize {
        match self.at < self.segment.shown() {
            true => self.segment.head(self.at).length as usize,
            false => 0,
        }
    }

    /// From this place in its segment and this version on.
    pub(super) fn begin_at(&mut self, at: usize, version: u64) {
        (self.at, self.next) = (at, version);
    }

    /// Where it is, if it is in this segment.
    pub(super) fn place_in(&self, segment: &Arc<Segment>) -> Option<usize> {
        Arc::ptr_eq(&self.segment, segment).then_some(self.at)
    }

    /// From this version on only.
    pub fn skip_to(&mut self, version: u64) {
        self.next = self.next.max(version);
    }

    /// One past the version of the last record that was passed, or passed over.
    pub fn version(&self) -> u64 {
        self.next
    }
}

/// The next record; `None` if there is none yet: later there may be one.
impl Iterator for Cursor {
    type Item = Kept;

    fn next(&mut self) -> Option<Kept> {
        loop {
            let segment = &self.segment;
            // First: what was put in before there was a next one is found in this one.
            let next = segment.next();
            if self.at == segment.shown() {
                (self.segment, self.at) = (next?, 0);
                continue;
            }
            let (at, head) = (self.at, segment.head(self.at));
            self.at += head.footprint();
            let passed = head.version < self.next;
            // It died when the record of that version was delivered, which is below the cut.
            let dead = || segment.died(at).is_some_and(|died| died < self.cut);
            if passed || head.version < self.cut && dead() {
                continue;
            }
            self.next = head.version + 1;
            let memory = Arc::clone(segment.memory());
            let (length, stream) = (head.length, head.stream);
            return Some(Kept {
                memory,
                start: at,
                length,
                stream,
                version: head.version,
                number: head.number,
            });
        }
    }
}

/// A record that a store keeps; it stays as long as this does, whatever becomes of the store.
#[derive(Clone)]
pub struct Kept {
    memory: Arc<Memory>,
    start: usize,
    length: u32,
    stream: u32,
    version: u64,
    number: u64,
}

impl Kept {
    /// Its place in the order.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its number among its stream's messages.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Which stream it came by, by the store's number for it.
    pub fn stream(&self) -> u32 {
        self.stream
    }

    /// Its bytes, aligned to 16.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.memory.record(self.start, self.length as usize)
    }
}

impl Deref for Kept {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({} of {}, version {})", self.number, self.stream, self.version)
    }
}

/// How much is kept.
#[derive(Clone)]
pub struct Meter(pub(super) Arc<AtomicU64>);

impl Meter {
    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

const _: () = assert!(HEAD.is_multiple_of(16), "records are aligned");
