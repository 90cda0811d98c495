//! What a reader has received and not yet taken: references into senders' memories, no copies.
//!
//! Owns: a queue from the turn to the application, and the count of references to each chunk.
//! Never does: block the turn. A queue takes as many records as the senders' memory can
//! hold, so only a sender that breaks its own rules can overfill it. Where senders come and go, it has
//! a part for each set of them: the turn puts into the last one, and the application goes on to the
//! next when it has taken what is in the first (I-38). A part begins with 65,536 places at most, and is followed by a
//! larger one of the same senders when it is full.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::ptr::{self, NonNull};

use super::entry::Extent;
use super::geometry::Geometry;
use crate::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::link::Waker;
use crate::machine::Effects;
use crate::memory::Replica;

mod taking;

pub use taking::Taking;

/// A sender's memory as one node's readers see it, with the references they hold to its chunks.
pub struct Source {
    replica: Replica,
    geometry: Geometry,
    references: Box<[AtomicU32]>,
    /// How often the first reference to each chunk was counted.
    firsts: Box<[AtomicU32]>,
    /// What the sender is called in the readers' queues.
    number: u16,
    waker: Waker,
    notice: Notice,
}

/// Where the last reference to a chunk is noticed that a turn does not look at any more.
#[derive(Default)]
struct Notice {
    /// A bit of a word that the turn does look at.
    bit: Option<(Arc<AtomicU64>, u64)>,
    wanted: AtomicBool,
}

impl Source {
    /// The memory behind a replica, of this shape.
    pub(super) fn new(
        replica: Replica,
        geometry: Geometry,
        number: u16,
        waker: Waker,
    ) -> Arc<Source> {
        let zeros = || (0..geometry.chunks()).map(|_| AtomicU32::new(0)).collect();
        let (references, firsts) = (zeros(), zeros());
        let notice = Notice::default();
        Arc::new(Source { replica, geometry, references, firsts, number, waker, notice })
    }

    /// What the sender is called in the readers' queues.
    pub(super) fn number(&self) -> u16 {
        self.number
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
            // By the turn alone.
            this.firsts[chunk].fetch_add(1, Ordering::Relaxed);
            // SAFETY: the pointer comes from this handle, which is alive.
            unsafe { Arc::increment_strong_count(Arc::as_ptr(this)) };
        }
    }

    /// Whether nobody of this node refers to a chunk. Acquire: the last read of what was released
    /// came before.
    pub(super) fn is_released(&self, chunk: usize) -> bool {
        self.references[chunk].load(Ordering::Acquire) == 0
    }

    /// Makes the chunks private to which somebody of this node refers, and `also` these (I-335): what lies in them stays as it is.
    pub(crate) fn privatize(&self, also: u64, effects: &mut Effects) {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for chunk in 0..self.geometry.chunks() {
            if also >> chunk & 1 == 0 && self.is_released(chunk) {
                continue;
            }
            let bytes = self.geometry.chunk_bytes(chunk);
            // Adjacent chunks become private together, because they may share a page.
            match runs.last_mut() {
                Some(run) if run.end == bytes.start => run.end = bytes.end,
                _ => runs.push(bytes),
            }
        }
        runs.into_iter().for_each(|bytes| effects.privatize(self.replica.clone(), bytes));
    }

    /// Sets this bit when a chunk is released of which that is [wanted](Source::want_notice). For
    /// a source that nobody else has a handle on yet.
    pub(super) fn notice_in(this: &mut Arc<Source>, word: &Arc<AtomicU64>, bit: u32) {
        if let Some(source) = Arc::get_mut(this) {
            source.notice.bit = Some((Arc::clone(word), 1 << bit));
        }
    }

    /// From now on it is noticed when one of these chunks is released. `false` if one of them is
    /// already, or if nobody would notice.
    pub(super) fn want_notice(&self, mut chunks: u64) -> bool {
        if self.notice.bit.is_none() {
            return false;
        }
        self.notice.wanted.store(true, Ordering::Relaxed);
        while chunks != 0 {
            let chunk = chunks.trailing_zeros() as usize;
            chunks &= chunks - 1;
            // Not a load: of two who change one word the second sees what the first did before. So
            // either the last release is seen here, or what was stored above is seen by it.
            if self.references[chunk].fetch_add(0, Ordering::AcqRel) == 0 {
                return false;
            }
        }
        true
    }

    /// The turn looks again by itself.
    pub(super) fn want_no_notice(&self) {
        self.notice.wanted.store(false, Ordering::Relaxed);
    }

    /// Counts a reference down.
    ///
    /// # Safety
    /// The reference was counted by [`Source::hold`] on the source that this points to, and is
    /// released once.
    #[inline(always)]
    unsafe fn release(this: NonNull<Source>, chunk: usize) {
        // SAFETY: as long as a reference to the chunk is counted, the source is kept for it.
        let source = unsafe { this.as_ref() };
        // Release: this thread's reads of the record stay before it. Acquire: so do those of all
        // others stay before the source may go.
        if source.references[chunk].fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the handle that the first reference to this chunk has made is ours now, for
            // whoever refers to it again makes another one.
            unsafe { Source::let_go(this) };
        }
    }

    /// The last reference to a chunk is gone: a turn has to tell the sender, who may wait for it.
    ///
    /// # Safety
    /// A handle on the source is the caller's, and is given up with this call.
    #[cold]
    unsafe fn let_go(this: NonNull<Source>) {
        // SAFETY: the caller's handle keeps it.
        let source = unsafe { this.as_ref() };
        if source.notice.wanted.load(Ordering::Relaxed)
            && let Some((word, bit)) = &source.notice.bit
        {
            word.fetch_or(*bit, Ordering::Release);
        }
        (source.waker)();
        // SAFETY: the handle is the caller's, once.
        unsafe { Arc::decrement_strong_count(this.as_ptr()) };
    }
}

/// A chunk of a sender's memory, as long as some record of that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lot {
    /// Which memory: a number that no other one has meanwhile.
    pub memory: usize,
    /// Which chunk of it.
    pub chunk: usize,
}

/// The chunks of a sender's memory, as they are in use here.
#[derive(Clone, Copy)]
pub struct Chunks<'a>(&'a Source);

impl Chunks<'_> {
    /// How many there are.
    pub fn count(self) -> usize {
        self.0.geometry.chunks()
    }

    /// How often one has come into use here; none while nobody here refers to it.
    pub fn times_in_use(self, chunk: usize) -> Option<u32> {
        let is_in_use = self.0.references.get(chunk)?.load(Ordering::Relaxed) > 0;
        is_in_use.then(|| self.0.firsts[chunk].load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Chunks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunks({} of sender {})", self.count(), self.0.number)
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
    /// The bytes, where they lie in the sender's memory. A correct sender leaves them alone while this record lives. A faulty or
    /// hostile one may change them between any two reads: no decision may depend on two reads that agree (I-330), and nothing that
    /// has to stay valid, such as a `str`, may be made of them without a copy (decision 39).
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` and the length were checked against the replica, which the source keeps mapped, and every bit pattern is
        // a valid u8. That the bytes do not change is the sender's promise (I-6), which this process cannot enforce: where
        // the sender breaks it, a read is a race with a process outside of the program, whose outcome the language does not
        // define. In practice each read gives some byte; callers that do not trust the sender copy first, and rely on the copy.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.extent.length as usize) }
    }

    /// Its number among its sender's messages.
    #[inline]
    pub fn number(&self) -> u64 {
        self.origin >> SENDER_BITS
    }

    /// Which part of which sender's memory it lies in.
    #[inline(always)]
    pub fn lies_in(&self) -> Lot {
        // SAFETY: as long as this record's reference is counted, the source is kept for it.
        let geometry = unsafe { self.source.as_ref() }.geometry;
        Lot { memory: self.source.as_ptr() as usize, chunk: self.extent.chunk(geometry) }
    }

    /// The chunks of its sender's memory.
    #[inline(always)]
    pub fn chunks(&self) -> Chunks<'_> {
        // SAFETY: as above.
        Chunks(unsafe { self.source.as_ref() })
    }

    /// Who sent it: of a subgroup's founders the rank, of those that came later a number that the
    /// subgroup has given it.
    #[inline]
    pub fn sender(&self) -> usize {
        // SAFETY: as long as this record's reference is counted, the source is kept for it.
        usize::from(unsafe { self.source.as_ref() }.number)
    }
}

/// Refers to the same bytes.
impl Clone for Record {
    #[inline]
    fn clone(&self) -> Record {
        // SAFETY: as long as this record's reference is counted, the source is kept for it.
        let source = unsafe { self.source.as_ref() };
        // Not the first reference to its chunk, for this is one: the source is kept for all of them. Relaxed: whoever has
        // a reference may count another.
        source.references[self.extent.chunk(source.geometry)].fetch_add(1, Ordering::Relaxed);
        Record { source: self.source, start: self.start, extent: self.extent, origin: self.origin }
    }
}

impl Drop for Record {
    #[inline(always)]
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
/// Places with which a part begins at most, 1 MiB: what a peer says of its memory costs no more until as many records wait.
const PLACES: usize = if cfg!(loom) { 2 } else { 1 << 16 };
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
/// One thread at a time may take or ask what waits, and only the turn puts; the queue itself needs no
/// lock. Each call checks that it is the only one; who knows that [it is](Inbox::alone) does without.
pub struct Inbox {
    /// The part that is taken from; changed by whoever takes.
    front: AtomicPtr<Part>,
    /// How many parts there were before that one; changed by whoever takes.
    passed: AtomicU64,
    /// The part that is put into; changed by the turn.
    back: AtomicPtr<Part>,
    /// The first part of which not all is shown, or the back; changed by the turn.
    unshown: AtomicPtr<Part>,
    /// The place of its first record among all that were ever put into queues of its kind.
    began: u64,
    /// Records of the parts before the front; changed by whoever takes.
    taken_before: AtomicU64,
    /// Somebody takes at this time, or asks what waits.
    taking: AtomicBool,
    /// Records of the parts before the back; changed by the turn.
    put_before: AtomicU64,
}

/// What one set of senders put into a queue.
struct Part {
    sources: Box<[Arc<Source>]>,
    /// A power of two of places.
    places: Box<[AtomicU64]>,
    /// Number of places that the memory of all its senders can fill.
    most: u64,
    /// The senders are those of the part before.
    goes_on: bool,
    /// Records put in and not yet shown; the turn's alone.
    staged: AtomicU64,
    /// What comes after it; then nothing more is put into it. Written by the turn.
    next: AtomicPtr<Part>,
    /// The part after this one, as soon as all that is put in is shown; the turn's alone.
    behind: AtomicPtr<Part>,
    /// Records put in; written by the turn.
    head: Line,
    /// Records taken out; written by the application.
    taken: Line,
}

/// A counter on a line of its own: the turn and the application each write one.
#[repr(align(64))]
struct Line(AtomicU64);

impl Part {
    /// A part for the records of these senders, with so many places if their memory can fill them. `goes_on`: the part before has
    /// the same senders.
    fn new(sources: Box<[Arc<Source>]>, places: usize, goes_on: bool) -> *mut Part {
        assert!(sources.len() <= 1 << SENDER_BITS, "senders are numbered with 16 bits");
        let grains: usize = sources.iter().map(|source| source.geometry.grains()).sum();
        let most = grains.next_power_of_two();
        let places = zeros(most.min(places) * PLACE_WORDS);
        let zero = || Line(AtomicU64::new(0));
        let (staged, most) = (AtomicU64::new(0), most as u64);
        let [next, behind] = [(); 2].map(|()| AtomicPtr::new(ptr::null_mut()));
        let (head, taken) = (zero(), zero());
        let part = Part { sources, places, most, goes_on, staged, next, behind, head, taken };
        Box::into_raw(Box::new(part))
    }

    #[inline]
    fn room(&self) -> u64 {
        (self.places.len() / PLACE_WORDS) as u64
    }

    /// Where the bytes are and whose they are, of the record of that number.
    #[inline]
    fn place(&self, count: u64) -> (&AtomicU64, &AtomicU64) {
        let first = (count & (self.room() - 1)) as usize * PLACE_WORDS;
        (&self.places[first], &self.places[first + 1])
    }

    /// Records put in and not taken out, shown or not.
    #[inline]
    fn waiting(&self) -> u64 {
        let staged = self.staged.load(Ordering::Relaxed);
        staged.wrapping_sub(self.taken.0.load(Ordering::Acquire))
    }

    #[inline]
    fn len(&self) -> usize {
        let taken = self.taken.0.load(Ordering::Relaxed);
        self.head.0.load(Ordering::Acquire).wrapping_sub(taken) as usize
    }

    #[inline(always)]
    fn take(&self) -> Option<Record> {
        let taken = self.taken.0.load(Ordering::Relaxed);
        let record = self.next(taken)?;
        self.taken.0.store(taken.wrapping_add(1), Ordering::Release);
        Some(record)
    }

    /// The record behind so many that were taken: the next one. It is one reference, which is the queue's until that is taken.
    #[inline(always)]
    fn next(&self, taken: u64) -> Option<Record> {
        if taken == self.head.0.load(Ordering::Acquire) {
            return None;
        }
        let (bytes, origin) = self.place(taken);
        let bytes = bytes.load(Ordering::Relaxed);
        let origin = origin.load(Ordering::Relaxed);
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

impl Inbox {
    /// A queue for the records of these senders.
    pub(super) fn new(sources: Box<[Arc<Source>]>) -> Arc<Inbox> {
        Inbox::beginning(sources, 0)
    }

    /// The same, if what is put in first has this place.
    pub(super) fn beginning(sources: Box<[Arc<Source>]>, began: u64) -> Arc<Inbox> {
        let part = Part::new(sources, PLACES, false);
        let [front, back, unshown] = [(); 3].map(|()| AtomicPtr::new(part));
        let [passed, taken_before, put_before] = [(); 3].map(|()| AtomicU64::new(0));
        let taking = AtomicBool::new(false);
        Arc::new(Inbox { front, passed, back, unshown, began, taken_before, taking, put_before })
    }

    /// The place of what is put in next, as the place of what queues of the same subgroup get at the same time (I-212); for the
    /// turn.
    pub(super) fn next_put(&self) -> u64 {
        let before = self.began.wrapping_add(self.put_before.load(Ordering::Relaxed));
        before.wrapping_add(self.back().staged.load(Ordering::Relaxed))
    }

    /// The place that the first record of all had, or will have.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// The part that the turn puts into; for the turn.
    #[inline]
    fn back(&self) -> &Part {
        // SAFETY: whoever takes frees a part only after its `next` was set, which only the turn does, in `go_on` and `publish`, after
        // it has put the next part here. So the part that is here has no next one yet and is freed only with the queue. That one
        // thread alone is the turn is the rule of `Inbox`, which its methods for the turn cannot check; `&self` does not
        // outlive the queue, and nobody uses this reference after `next` was set.
        unsafe { &*self.back.load(Ordering::Relaxed) }
    }

    /// From now on records of these senders are put in; called by the turn, when everything that was
    /// put in is shown.
    pub(super) fn go_on(&self, sources: impl ExactSizeIterator<Item = Arc<Source>>) {
        let back = self.back();
        assert_eq!(back.staged.load(Ordering::Relaxed), back.head.0.load(Ordering::Relaxed));
        let sources: Box<[Arc<Source>]> = sources.collect();
        let same = |(old, new): (&Arc<Source>, &Arc<Source>)| Arc::ptr_eq(old, new);
        if back.sources.len() == sources.len() && back.sources.iter().zip(&sources).all(same) {
            return;
        }
        let part = Part::new(sources, PLACES, false);
        self.put_into(part);
        self.unshown.store(part, Ordering::Relaxed);
        // The last that the turn does with the old part: it may be freed from here on.
        back.next.store(part, Ordering::Release);
    }

    /// From now on records are put into this part.
    fn put_into(&self, part: *mut Part) {
        let put = self.put_before.load(Ordering::Relaxed);
        let put = put.wrapping_add(self.back().staged.load(Ordering::Relaxed));
        self.put_before.store(put, Ordering::Relaxed);
        self.back.store(part, Ordering::Relaxed);
    }

    /// Puts a part with room for so many more records behind the last one, for the same senders. Nothing is shown by this: the
    /// references to what was put in last may not be counted yet. `false` if that would be more than the memory of the senders can hold.
    #[cold]
    fn grow(&self, count: u64) -> bool {
        let back = self.back();
        if count > back.most - back.waiting() {
            return false;
        }
        let places = (back.room() * 2).max(count.next_power_of_two());
        let places = usize::try_from(places).unwrap_or(usize::MAX);
        let part = Part::new(back.sources.clone(), places, true);
        back.behind.store(part, Ordering::Relaxed);
        self.put_into(part);
        true
    }

    /// How many more records the queue takes.
    #[inline]
    pub(super) fn room_left(&self) -> u64 {
        let back = self.back();
        back.most - back.waiting()
    }

    /// Who has more records in a queue without room than its memory has grains. If nobody has, all
    /// memories are in it as a whole, and whoever sends yet another record has overrun it.
    #[cold]
    pub(super) fn overrun_by(&self, sender: usize) -> usize {
        let part = self.back();
        let mut grains: Box<[usize]> = part.sources.iter().map(|s| s.geometry.grains()).collect();
        let (taken, staged) = (&part.taken.0, &part.staged);
        // Places up to `staged` are changed by nobody but the turn.
        for count in taken.load(Ordering::Acquire)..staged.load(Ordering::Relaxed) {
            let of = (part.place(count).1.load(Ordering::Relaxed) & SENDER_MASK) as usize;
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
        let mut part = self.back();
        let count = batch.len() as u64;
        if count > part.room() - part.waiting() {
            if !self.grow(count) {
                return false;
            }
            part = self.back();
        }
        let staged = part.staged.load(Ordering::Relaxed);
        for (count, delivery) in batch.iter().enumerate() {
            let (bytes, origin) = part.place(staged.wrapping_add(count as u64));
            bytes.store(delivery.bytes, Ordering::Relaxed);
            origin.store(delivery.origin, Ordering::Relaxed);
        }
        part.staged.store(staged.wrapping_add(batch.len() as u64), Ordering::Relaxed);
        true
    }

    /// Shows what was put in.
    #[inline]
    pub(super) fn publish(&self) {
        let mut at = self.unshown.load(Ordering::Relaxed);
        loop {
            // SAFETY: a part from the first on that is not shown as a whole has no `next`, so it is freed only with the queue.
            let part = unsafe { &*at };
            part.head.0.store(part.staged.load(Ordering::Relaxed), Ordering::Release);
            let behind = part.behind.load(Ordering::Relaxed);
            if behind.is_null() {
                break;
            }
            self.unshown.store(behind, Ordering::Relaxed);
            // The last that the turn does with this part: it may be freed from here on.
            part.next.store(behind, Ordering::Release);
            at = behind;
        }
    }

    /// Number of sets of senders before the one whose records are taken.
    #[inline]
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // What nobody took is released, so that the sender goes on.
        // SAFETY: nobody else has a handle on the queue any more.
        let taking = unsafe { self.alone() };
        while taking.take().is_some() {}
        // What is left is the last part that was shown, and those behind it that were not.
        let mut part = self.front.load(Ordering::Relaxed);
        while !part.is_null() {
            // SAFETY: each came from a box, has no other owner, and nobody else is here.
            let left = unsafe { Box::from_raw(part) };
            part = left.behind.load(Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::OwnRegion;
    use crate::multicast::geometry::GRAIN;

    fn source(number: u16) -> Arc<Source> {
        let geometry = Geometry::fitting(256, 2, 64).expect("a small shape");
        let replica = OwnRegion::heap(geometry.words()).replica();
        Source::new(replica, geometry, number, Arc::new(|| {}))
    }

    fn put(inbox: &Inbox, sources: &[Arc<Source>], rank: usize, number: u64) {
        let extent = Extent { position: 0, length: 1 };
        Source::hold(&sources[rank], 0, 1);
        assert!(inbox.put(&[Delivery::new(rank, extent, number)]));
        inbox.publish();
    }

    #[test]
    fn chunks_in_use_become_private_adjacent_ones_together() {
        let source = source(0);
        let geometry = source.geometry();
        assert_eq!(geometry.chunks(), 4);
        let private = |also: u64| {
            let mut effects = Effects::new();
            source.privatize(also, &mut effects);
            effects.take_privatized().map(|(_, bytes)| bytes).collect::<Vec<_>>()
        };
        assert_eq!(private(0), []);
        [0, 1, 3].into_iter().for_each(|chunk| Source::hold(&source, chunk, 1));
        let chunk = |index| geometry.chunk_bytes(index);
        assert_eq!(private(0), [chunk(0).start..chunk(1).end, chunk(3)]);
        let all = private(1 << 2);
        assert_eq!((all.len(), all.first()), (1, Some(&(chunk(0).start..chunk(3).end))));
        let this = NonNull::from(&*source);
        // SAFETY: the reference to chunk 1 was counted above and is released once.
        unsafe { Source::release(this, 1) };
        assert_eq!(private(0), [chunk(0), chunk(3)]);
        // SAFETY: so were the references to chunks 0 and 3.
        [0, 3].into_iter().for_each(|chunk| unsafe { Source::release(this, chunk) });
        assert_eq!(private(0), []);
    }

    /// Records of senders that are gone come first, by the names that their senders had.
    #[test]
    fn a_queue_goes_on_from_one_set_of_senders_to_the_next() {
        let [a, b, c] = [0, 1, 2].map(source);
        let first = [Arc::clone(&a), Arc::clone(&b)];
        let inbox = Inbox::beginning(first.clone().into(), 100);
        put(&inbox, &first, 0, 10);
        put(&inbox, &first, 1, 20);
        assert_eq!((inbox.began(), inbox.place(), inbox.next_put()), (100, 100, 102));
        inbox.go_on(first.iter().cloned());
        put(&inbox, &first, 0, 11);
        let second = [Arc::clone(&c), Arc::clone(&a)];
        inbox.go_on(second.iter().cloned());
        // An epoch in which nothing is delivered.
        inbox.go_on([b.clone()].into_iter());
        inbox.go_on(second.iter().cloned());
        put(&inbox, &second, 0, 30);
        put(&inbox, &second, 1, 12);
        assert_eq!((inbox.len(), inbox.next_put()), (5, 105));
        // Of each record also whose records come with it.
        let took: Vec<_> = core::iter::from_fn(|| inbox.take())
            .map(|record| {
                let senders = inbox.senders().fold(0, |all, sender| all | 1 << sender);
                (record.sender(), record.number(), inbox.passed(), senders)
            })
            .collect();
        let [first, second] = [(0, 0b011), (3, 0b101)];
        let expected = [(0, 10, first), (1, 20, first), (0, 11, first), (2, 30, second)];
        let expected = expected.into_iter().chain([(0, 12, second)]);
        assert!(
            took.into_iter().eq(expected
                .map(|(sender, number, (passed, senders))| { (sender, number, passed, senders) }))
        );
        assert!(inbox.is_empty() && inbox.take().is_none());
        assert_eq!(inbox.place(), 105);
    }

    /// A queue takes all that the memory of its senders holds, and has memory for what waits in it alone.
    #[test]
    fn a_queue_grows_with_what_waits_in_it() {
        let geometry = Geometry::fitting(4 << 20, 1 << 20, GRAIN).expect("a shape");
        let replica = OwnRegion::heap(geometry.words()).replica();
        let source = Source::new(replica, geometry, 3, Arc::new(|| {}));
        let sources = [Arc::clone(&source)];
        let inbox = Inbox::beginning(sources.clone().into(), 7);
        let places = |inbox: &Inbox| inbox.back().places.len() / PLACE_WORDS;
        let grains = geometry.grains();
        assert!(grains > 2 * PLACES);
        let deliver = |inbox: &Inbox, number: u64| {
            let extent = Extent { position: number as u32 % grains as u32, length: 1 };
            Source::hold(&source, geometry.chunk_of(extent.position as usize), 1);
            inbox.put(&[Delivery::new(0, extent, number)])
        };
        // As long as few wait nothing grows, however many come.
        for number in 0..PLACES as u64 + 9 {
            assert!(deliver(&inbox, number));
            inbox.publish();
            assert_eq!(inbox.take().map(|record| record.number()), Some(number));
        }
        assert_eq!(places(&inbox), PLACES);
        let first = inbox.next_put();
        let mut put = 0;
        while inbox.room_left() > 0 {
            assert!(deliver(&inbox, put));
            put += 1;
        }
        assert!(inbox.is_empty() && inbox.take().is_none(), "nothing was shown yet");
        assert!(put >= grains as u64 && places(&inbox) == grains.next_power_of_two(), "{put}");
        let extent = Extent { position: 0, length: 1 };
        assert!(!inbox.put(&[Delivery::new(0, extent, put)]), "the sender has overrun its memory");
        inbox.publish();
        assert_eq!(
            (inbox.len() as u64, inbox.place(), inbox.next_put()),
            (put, first, first + put)
        );
        // The senders are the same.
        let half = put / 2;
        let taken = (0..half).all(|number| inbox.take().map(|it| it.number()) == Some(number));
        assert!(taken && inbox.len() as u64 == put - half);
        let taken = (half..put).all(|number| {
            let record = inbox.take().map(|record| record.number());
            record == Some(number) && inbox.passed() == 0
        });
        assert!(taken && inbox.is_empty() && inbox.place() == first + put);
        assert!((0..geometry.chunks()).all(|chunk| source.is_released(chunk)));
    }

    #[test]
    #[should_panic = "one thread at a time takes"]
    fn second_taker_is_refused() {
        let a = source(0);
        let inbox = Inbox::new([Arc::clone(&a)].into());
        put(&inbox, &[a], 0, 0);
        let _first = inbox.guard();
        inbox.take();
    }

    #[test]
    fn taker_that_is_done_makes_room_for_the_next() {
        let a = source(0);
        let inbox = Inbox::new([Arc::clone(&a)].into());
        put(&inbox, &[a], 0, 7);
        assert_eq!(inbox.len(), 1);
        let inbox = &inbox;
        let taken = std::thread::scope(|scope| scope.spawn(move || inbox.take()).join());
        assert_eq!(taken.ok().flatten().map(|record| record.number()), Some(7));
        assert!(inbox.is_empty());
    }

    /// What was not taken is let go of with the queue, and so are all senders.
    #[test]
    fn a_queue_that_goes_leaves_nothing_behind() {
        let [a, b] = [0, 1].map(source);
        let inbox = Inbox::new([Arc::clone(&a)].into());
        put(&inbox, &[Arc::clone(&a)], 0, 0);
        inbox.go_on([Arc::clone(&b)].into_iter());
        put(&inbox, &[Arc::clone(&b)], 0, 0);
        drop(inbox);
        for source in [a, b] {
            assert!(source.is_released(0));
            assert_eq!(Arc::strong_count(&source), 1);
        }
    }
}
