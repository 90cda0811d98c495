//! Queue of records that a reader has received and not taken: references into senders'
//! memories, no copies.
//!
//! Owns: a queue from the turn to the application, and the count of references to each chunk. Never
//! does: block the turn. A queue takes as many records as the senders' memory can hold, so only a
//! sender that breaks its own rules can overfill it. If the set of senders changes, the queue gets
//! a new section for each set: the turn puts records into the last section, and the application
//! moves to the next section when it has taken everything in the first (I-38). A section begins
//! with 65,536 places at most, and is followed by a larger one of the same senders when it is full.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::mem::{self, ManuallyDrop};
use core::ops::Range;
use core::ptr::{self, NonNull};

use super::entry::RecordExtent;
use super::geometry::Geometry;
use crate::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::link::Waker;
use crate::machine::Effects;
use crate::memory::Replica;

mod consumer;

pub use consumer::InboxConsumer;

/// Memory of one sender as this node's readers see it, with their references to its chunks.
pub struct SenderReplica {
    replica: Replica,
    geometry: Geometry,
    references: Box<[AtomicU32]>,
    /// Number of transitions of each chunk from unused to used.
    firsts: Box<[AtomicU32]>,
    /// Number of the sender in the readers' queues.
    number: u16,
    waker: Waker,
    notice: ReleaseNotice,
}

/// Notice of the last reference to a chunk, for a turn that does not look for it any more.
#[derive(Default)]
struct ReleaseNotice {
    /// One bit of a word at which the turn does look.
    bit: Option<(Arc<AtomicU64>, u64)>,
    wanted: AtomicBool,
}

impl SenderReplica {
    /// Creates the sender replica for the memory behind `replica`, with this geometry.
    pub(super) fn new(
        replica: Replica,
        geometry: Geometry,
        number: u16,
        waker: Waker,
    ) -> Arc<SenderReplica> {
        let zeros = || (0..geometry.chunks()).map(|_| AtomicU32::new(0)).collect();
        let (references, firsts) = (zeros(), zeros());
        let notice = ReleaseNotice::default();
        Arc::new(SenderReplica { replica, geometry, references, firsts, number, waker, notice })
    }

    /// Number of the sender in the readers' queues.
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Geometry of the memory.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(super) fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Counts references to a chunk, before a reader can see their records. The first reference to
    /// a chunk keeps the sender replica alive for all of them: a record needs no handle of its own.
    #[inline]
    pub(super) fn hold(this: &Arc<SenderReplica>, chunk: usize, count: u32) {
        if this.references[chunk].fetch_add(count, Ordering::Relaxed) == 0 {
            // Only the turn does this.
            this.firsts[chunk].fetch_add(1, Ordering::Relaxed);
            // SAFETY: the pointer comes from this handle, which is alive.
            unsafe { Arc::increment_strong_count(Arc::as_ptr(this)) };
        }
    }

    /// Whether no reader of this node refers to a chunk. Acquire: the last reads of released
    /// records came before.
    pub(super) fn is_released(&self, chunk: usize) -> bool {
        self.references[chunk].load(Ordering::Acquire) == 0
    }

    /// Makes the chunks private to which readers of this node refer, and the chunks in `also`
    /// (I-335): their bytes do not change afterwards.
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

    /// Makes releases of [wanted](SenderReplica::want_notice) chunks set this bit. Has an effect
    /// only before there are other handles to the sender replica.
    pub(super) fn notice_in(this: &mut Arc<SenderReplica>, word: &Arc<AtomicU64>, bit: u32) {
        if let Some(replica) = Arc::get_mut(this) {
            replica.notice.bit = Some((Arc::clone(word), 1 << bit));
        }
    }

    /// Requests a notice when one of these chunks is released. `false` if one of them is released
    /// already, or if there is no bit for notices.
    pub(super) fn want_notice(&self, mut chunks: u64) -> bool {
        if self.notice.bit.is_none() {
            return false;
        }
        self.notice.wanted.store(true, Ordering::Relaxed);
        while chunks != 0 {
            let chunk = chunks.trailing_zeros() as usize;
            chunks &= chunks - 1;
            // Not a load: of two threads that modify one word, the second sees the earlier stores
            // of the first. Therefore either the last release is seen here, or the releasing thread
            // sees the store above (I-28).
            if self.references[chunk].fetch_add(0, Ordering::AcqRel) == 0 {
                return false;
            }
        }
        true
    }

    /// Ends the notices: the turn looks for releases itself.
    pub(super) fn want_no_notice(&self) {
        self.notice.wanted.store(false, Ordering::Relaxed);
    }

    /// Removes one reference to a chunk.
    ///
    /// # Safety
    /// The reference was counted by [`SenderReplica::hold`] on the sender replica that `this`
    /// points to, and is released only once.
    #[inline(always)]
    unsafe fn release(this: NonNull<SenderReplica>, chunk: usize) {
        // SAFETY: while a reference to the chunk is counted, that reference keeps the sender
        // replica alive.
        let replica = unsafe { this.as_ref() };
        // Release: this thread's reads of the record stay before the decrement. Acquire: the reads
        // of all other threads stay before a deallocation of the sender replica.
        if replica.references[chunk].fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the handle that the first reference to this chunk made now belongs to this
            // thread, because a thread that refers to the chunk again makes another one.
            unsafe { SenderReplica::let_go(this) };
        }
    }

    /// Handles the release of the last reference to a chunk: a turn must tell the sender, which may
    /// be waiting for the memory.
    ///
    /// # Safety
    /// The caller owns a handle to the sender replica and gives it up with this call.
    #[cold]
    unsafe fn let_go(this: NonNull<SenderReplica>) {
        // SAFETY: the caller's handle keeps the sender replica alive.
        let replica = unsafe { this.as_ref() };
        if replica.notice.wanted.load(Ordering::Relaxed)
            && let Some((word, bit)) = &replica.notice.bit
        {
            word.fetch_or(*bit, Ordering::Release);
        }
        (replica.waker)();
        // SAFETY: the handle belongs to the caller and is released once.
        unsafe { Arc::decrement_strong_count(this.as_ptr()) };
    }
}

/// Identity of a chunk of a sender's memory, valid while a record in that memory exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkId {
    /// Number of the memory, which no other memory has at the same time.
    pub memory: usize,
    /// Index of the chunk in the memory.
    pub chunk: usize,
}

/// Use of the chunks of a sender's memory at this node.
#[derive(Clone, Copy)]
pub struct Chunks<'a>(&'a SenderReplica);

impl Chunks<'_> {
    /// Number of chunks.
    pub fn count(self) -> usize {
        self.0.geometry.chunks()
    }

    /// Number of times that a chunk has come into use at this node; `None` while no reader here
    /// refers to it.
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

/// Received record: bytes in its sender's memory, which stay unchanged until the record is dropped.
pub struct Record {
    /// Sender replica that this record's reference to its chunk keeps alive.
    replica: NonNull<SenderReplica>,
    start: NonNull<u8>,
    extent: RecordExtent,
    origin: u64,
}

// SAFETY: the bytes are only read; the sender replica keeps them mapped and its counts are atomic.
unsafe impl Send for Record {}
// SAFETY: as for `Send`.
unsafe impl Sync for Record {}

impl Record {
    /// Bytes of the record, in place in the sender's memory. A correct sender does not change them
    /// while this record lives. A faulty or hostile sender may change them between any two reads:
    /// no decision may depend on two reads that agree (I-330), and no value with a validity
    /// invariant, such as a `str`, may be made of them without a copy (decision 39).
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` and the length were checked against the replica, which the sender replica
        // keeps mapped, and every bit pattern is a valid u8. The sender promises that the bytes do
        // not change (I-6), which this process cannot enforce: if the sender breaks the promise, a
        // read is a race with a process outside of the program, whose outcome the language does not
        // define. In practice each read gives some byte; callers that do not trust the sender copy
        // first and rely on the copy.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.extent.length as usize) }
    }

    /// Number of the record among its sender's messages.
    #[inline]
    pub fn number(&self) -> u64 {
        self.origin >> SENDER_BITS
    }

    /// Chunk that contains the record.
    #[inline(always)]
    pub fn chunk_id(&self) -> ChunkId {
        // SAFETY: while this record's reference is counted, it keeps the sender replica alive.
        let geometry = unsafe { self.replica.as_ref() }.geometry;
        ChunkId { memory: self.replica.as_ptr() as usize, chunk: self.extent.chunk(geometry) }
    }

    /// Chunks of the sender's memory.
    #[inline(always)]
    pub fn chunks(&self) -> Chunks<'_> {
        // SAFETY: as in `chunk_id`.
        Chunks(unsafe { self.replica.as_ref() })
    }

    /// Number of the sender: the rank for founders of a subgroup, and a number assigned by the
    /// subgroup for later senders.
    #[inline]
    pub fn sender(&self) -> usize {
        // SAFETY: while this record's reference is counted, it keeps the sender replica alive.
        usize::from(unsafe { self.replica.as_ref() }.number)
    }
}

/// Refers to the same bytes.
impl Clone for Record {
    #[inline]
    fn clone(&self) -> Record {
        // SAFETY: while this record's reference is counted, it keeps the sender replica alive.
        let replica = unsafe { self.replica.as_ref() };
        // This is not the first reference to the chunk, so the sender replica is kept alive
        // already. Relaxed: the owner of a reference may count another one.
        replica.references[self.extent.chunk(replica.geometry)].fetch_add(1, Ordering::Relaxed);
        Record {
            replica: self.replica,
            start: self.start,
            extent: self.extent,
            origin: self.origin,
        }
    }
}

impl Drop for Record {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: while this record's reference is counted, it keeps the sender replica alive.
        let geometry = unsafe { self.replica.as_ref() }.geometry;
        // SAFETY: the turn counted a reference for this record, which ends here.
        unsafe { SenderReplica::release(self.replica, self.extent.chunk(geometry)) };
    }
}

/// Records that are released together: references to one chunk cost one change of its count.
#[derive(Default)]
pub(crate) struct ReleaseBatch {
    /// A record that is still counted.
    last: Option<Record>,
    /// Number of further references to the chunk of `last`, which belong to the batch.
    more: u32,
}

impl ReleaseBatch {
    /// Adds a record. Releases the others first if they lie in another chunk.
    #[inline]
    pub(crate) fn add(&mut self, record: Record) {
        match &self.last {
            Some(last) if last.chunk_id() == record.chunk_id() => {
                self.more += 1;
                let _ = ManuallyDrop::new(record);
            }
            _ => {
                self.release();
                self.last = Some(record);
            }
        }
    }

    /// Releases all records.
    fn release(&mut self) {
        let Some(last) = self.last.take() else { return };
        // SAFETY: while this record's reference is counted, it keeps the sender replica alive.
        let replica = unsafe { last.replica.as_ref() };
        let chunk = last.extent.chunk(replica.geometry);
        // Not the last reference to the chunk. Release: as in `SenderReplica::release`.
        replica.references[chunk].fetch_sub(mem::take(&mut self.more), Ordering::Release);
    }
}

impl Drop for ReleaseBatch {
    fn drop(&mut self) {
        self.release();
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} of {}, {} bytes)", self.number(), self.sender(), self.extent.length)
    }
}

/// Number of words of a place in a queue: the location of the bytes, and the sender and number
/// of the message.
const PLACE_WORDS: usize = 2;
/// Maximum number of initial places of a section, 1 MiB: a peer's statement about its memory costs
/// no more until as many records wait.
const PLACES: usize = if cfg!(loom) { 2 } else { 1 << 16 };
/// Number of bits of the second word for the sender; the other bits hold the message's number.
const SENDER_BITS: u32 = 16;
const SENDER_MASK: u64 = (1 << SENDER_BITS) - 1;

/// Allocates this number of atomic zeros; only used ones occupy memory.
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

/// Record on its way into the readers' queues.
#[derive(Clone, Copy, Default)]
pub(super) struct Delivery {
    bytes: u64,
    origin: u64,
}

impl Delivery {
    /// Creates a delivery of a sender's record.
    #[inline]
    pub(super) fn new(sender: usize, extent: RecordExtent, number: u64) -> Delivery {
        let bytes = u64::from(extent.position) | u64::from(extent.length) << 32;
        Delivery { bytes, origin: number << SENDER_BITS | sender as u64 }
    }
}

/// Queue of one reader: the turn puts delivered records in, and the application takes them out.
///
/// Only one thread at a time may take records or query the queue, and only the turn puts records
/// in; the queue needs no lock. Each call checks that no other one is active; callers that can
/// guarantee this use [`consumer_unchecked`](Inbox::consumer_unchecked) instead.
pub struct Inbox {
    /// Section from which records are taken; changed by the taking thread.
    front: AtomicPtr<InboxSection>,
    /// Number of sets of senders before that of the front; changed by the taking thread.
    passed: AtomicU64,
    /// Section into which records are put; changed by the turn.
    back: AtomicPtr<InboxSection>,
    /// First section that is not completely visible, or the back; changed by the turn.
    unshown: AtomicPtr<InboxSection>,
    /// Place of the queue's first record in the subgroup's sequence of records.
    began: u64,
    /// Number of records in sections before the front; changed by the taking thread.
    taken_before: AtomicU64,
    /// Whether a thread is taking records or querying the queue.
    taking: AtomicBool,
    /// Number of records in sections before the back; changed by the turn.
    put_before: AtomicU64,
}

/// Section of a queue, with records of one set of senders.
struct InboxSection {
    replicas: Box<[Arc<SenderReplica>]>,
    /// Places, a power of two of them.
    places: Box<[AtomicU64]>,
    /// Number of places that the memory of all its senders can fill.
    most: u64,
    /// Whether the senders are those of the section before.
    goes_on: bool,
    /// Number of records put in, visible or not; used only by the turn.
    staged: AtomicU64,
    /// Next section; once it is set, nothing more is put into this one. Written by the turn.
    next: AtomicPtr<InboxSection>,
    /// Next section, before everything put into this one is visible; used only by the turn.
    behind: AtomicPtr<InboxSection>,
    /// Number of visible records put in; written by the turn.
    head: PaddedCounter,
    /// Number of records taken out; written by the application.
    taken: PaddedCounter,
}

/// Counter on a cache line of its own: the turn and the application each write one.
#[repr(align(64))]
struct PaddedCounter(AtomicU64);

impl InboxSection {
    /// Creates a section for the records of these senders, with `places` places if their memory can
    /// fill them. `goes_on`: the section before has the same senders.
    fn new(sources: Box<[Arc<SenderReplica>]>, places: usize, goes_on: bool) -> *mut InboxSection {
        assert!(sources.len() <= 1 << SENDER_BITS, "senders are numbered with 16 bits");
        let grains: usize = sources.iter().map(|replica| replica.geometry.grains()).sum();
        let most = grains.next_power_of_two();
        let places = zeros(most.min(places) * PLACE_WORDS);
        let zero = || PaddedCounter(AtomicU64::new(0));
        let (staged, most) = (AtomicU64::new(0), most as u64);
        let [next, behind] = [(); 2].map(|()| AtomicPtr::new(ptr::null_mut()));
        let (head, taken) = (zero(), zero());
        let section = InboxSection {
            replicas: sources,
            places,
            most,
            goes_on,
            staged,
            next,
            behind,
            head,
            taken,
        };
        Box::into_raw(Box::new(section))
    }

    #[inline]
    fn room(&self) -> u64 {
        (self.places.len() / PLACE_WORDS) as u64
    }

    /// Words of the place of the record with this number: location, and origin.
    #[inline]
    fn place(&self, count: u64) -> (&AtomicU64, &AtomicU64) {
        let first = (count & (self.room() - 1)) as usize * PLACE_WORDS;
        (&self.places[first], &self.places[first + 1])
    }

    /// Number of records put in and not taken out, visible or not.
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

    /// Next record after `taken` records. The result is one reference, which belongs to the queue
    /// until the record is taken.
    #[inline(always)]
    fn next(&self, taken: u64) -> Option<Record> {
        if taken == self.head.0.load(Ordering::Acquire) {
            return None;
        }
        let (bytes, origin) = self.place(taken);
        let bytes = bytes.load(Ordering::Relaxed);
        let origin = origin.load(Ordering::Relaxed);
        let extent = RecordExtent { position: bytes as u32, length: (bytes >> 32) as u32 };
        let replica = &self.replicas[(origin & SENDER_MASK) as usize];
        let offset = extent.first_byte(replica.geometry);
        let start = replica.replica.bytes(offset, extent.length as usize);
        let start = start.expect("receive checked the entry against the geometry");
        // Not derived from a reference: a record may have to release the whole sender replica.
        let source = NonNull::new(Arc::as_ptr(replica).cast_mut()).expect("no handle is null");
        Some(Record { replica: source, start, extent, origin })
    }
}

impl Inbox {
    /// Creates a queue for the records of these senders.
    pub(super) fn new(replicas: Box<[Arc<SenderReplica>]>) -> Arc<Inbox> {
        Inbox::beginning(replicas, 0)
    }

    /// Creates a queue whose first record has this place.
    pub(super) fn beginning(replicas: Box<[Arc<SenderReplica>]>, began: u64) -> Arc<Inbox> {
        let section = InboxSection::new(replicas, PLACES, false);
        let [front, back, unshown] = [(); 3].map(|()| AtomicPtr::new(section));
        let [passed, taken_before, put_before] = [(); 3].map(|()| AtomicU64::new(0));
        let taking = AtomicBool::new(false);
        Arc::new(Inbox { front, passed, back, unshown, began, taken_before, taking, put_before })
    }

    /// Place of the record that is put in next. All queues of the same subgroup agree on it at the
    /// same time (I-212). Called only by the turn.
    pub(super) fn next_put(&self) -> u64 {
        let before = self.began.wrapping_add(self.put_before.load(Ordering::Relaxed));
        before.wrapping_add(self.back().staged.load(Ordering::Relaxed))
    }

    /// Place of the queue's first record.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// Section into which the turn puts records. Called only by the turn.
    #[inline]
    fn back(&self) -> &InboxSection {
        // SAFETY: the taking thread frees a section only after its `next` was set. Only the turn
        // sets `next`, in `go_on` and `publish`, after it has stored the next section here.
        // Therefore the section stored here has no next one yet and is freed only with the queue.
        // The rule that only one thread is the turn belongs to the contract of `Inbox`, and its
        // methods for the turn cannot check it. `&self` does not outlive the queue, and no code
        // uses this reference after `next` was set.
        unsafe { &*self.back.load(Ordering::Relaxed) }
    }

    /// Changes the set of senders for later records. Called by the turn when everything that was
    /// put in is visible.
    pub(super) fn go_on(&self, replicas: impl ExactSizeIterator<Item = Arc<SenderReplica>>) {
        let back = self.back();
        assert_eq!(back.staged.load(Ordering::Relaxed), back.head.0.load(Ordering::Relaxed));
        let replicas: Box<[Arc<SenderReplica>]> = replicas.collect();
        let same = |(old, new): (&Arc<SenderReplica>, &Arc<SenderReplica>)| Arc::ptr_eq(old, new);
        if back.replicas.len() == replicas.len() && back.replicas.iter().zip(&replicas).all(same) {
            return;
        }
        let section = InboxSection::new(replicas, PLACES, false);
        self.put_into(section);
        self.unshown.store(section, Ordering::Relaxed);
        // Last access of the turn to the old section, which may be freed from here on.
        back.next.store(section, Ordering::Release);
    }

    /// Makes this section the back.
    fn put_into(&self, section: *mut InboxSection) {
        let put = self.put_before.load(Ordering::Relaxed);
        let put = put.wrapping_add(self.back().staged.load(Ordering::Relaxed));
        self.put_before.store(put, Ordering::Relaxed);
        self.back.store(section, Ordering::Relaxed);
    }

    /// Adds a section with room for `count` more records of the same senders behind the last one.
    /// This makes no record visible: the references to the latest records may not be counted yet.
    /// `false` if the memory of the senders cannot hold that many records.
    #[cold]
    fn grow(&self, count: u64) -> bool {
        let back = self.back();
        if count > back.most - back.waiting() {
            return false;
        }
        let places = (back.room() * 2).max(count.next_power_of_two());
        let places = usize::try_from(places).unwrap_or(usize::MAX);
        let section = InboxSection::new(back.replicas.clone(), places, true);
        back.behind.store(section, Ordering::Relaxed);
        self.put_into(section);
        true
    }

    /// Number of records that the queue can still take.
    #[inline]
    pub(super) fn room_left(&self) -> u64 {
        let back = self.back();
        back.most - back.waiting()
    }

    /// Finds a sender with more records in a full queue than its memory has grains. If there is
    /// none, all memories are in the queue completely, and `sender`, which sends another record,
    /// has overrun it.
    #[cold]
    pub(super) fn overrun_by(&self, sender: usize) -> usize {
        let section = self.back();
        let mut grains: Box<[usize]> =
            section.replicas.iter().map(|s| s.geometry.grains()).collect();
        let (taken, staged) = (&section.taken.0, &section.staged);
        // Only the turn changes places up to `staged`.
        for count in taken.load(Ordering::Acquire)..staged.load(Ordering::Relaxed) {
            let of = (section.place(count).1.load(Ordering::Relaxed) & SENDER_MASK) as usize;
            match grains[of].checked_sub(1) {
                Some(left) => grains[of] = left,
                None => return of,
            }
        }
        sender
    }

    /// Puts records in, which become visible by [`Inbox::publish`]. References to their chunks must
    /// be counted before that. `false` if there is no room for all of them.
    #[inline]
    pub(super) fn put(&self, batch: &[Delivery]) -> bool {
        let mut section = self.back();
        let count = batch.len() as u64;
        if count > section.room() - section.waiting() {
            if !self.grow(count) {
                return false;
            }
            section = self.back();
        }
        let staged = section.staged.load(Ordering::Relaxed);
        for (count, delivery) in batch.iter().enumerate() {
            let (bytes, origin) = section.place(staged.wrapping_add(count as u64));
            bytes.store(delivery.bytes, Ordering::Relaxed);
            origin.store(delivery.origin, Ordering::Relaxed);
        }
        section.staged.store(staged.wrapping_add(batch.len() as u64), Ordering::Relaxed);
        true
    }

    /// Makes all records visible that were put in.
    #[inline]
    pub(super) fn publish(&self) {
        let mut at = self.unshown.load(Ordering::Relaxed);
        loop {
            // SAFETY: sections from the first incompletely visible one on have no `next`, so they
            // are freed only with the queue.
            let section = unsafe { &*at };
            section.head.0.store(section.staged.load(Ordering::Relaxed), Ordering::Release);
            let behind = section.behind.load(Ordering::Relaxed);
            if behind.is_null() {
                break;
            }
            self.unshown.store(behind, Ordering::Relaxed);
            // Last access of the turn to this section, which may be freed from here on.
            section.next.store(behind, Ordering::Release);
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
        // Releases records that were not taken, so that their senders can continue.
        // SAFETY: no other handle to the queue exists any more.
        let consumer = unsafe { self.consumer_unchecked() };
        while consumer.take().is_some() {}
        // The rest is the last visible section, and the sections behind it that are not visible.
        let mut section = self.front.load(Ordering::Relaxed);
        while !section.is_null() {
            // SAFETY: each section came from a box and has no other owner, and no other thread uses
            // the queue.
            let left = unsafe { Box::from_raw(section) };
            section = left.behind.load(Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
