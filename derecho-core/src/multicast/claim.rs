//! Claim, build in place, commit: writing to a sender's memory from application threads,
//! without a lock.
//!
//! Owns: the sender's side of its byte memory and order ring. Never does: wait, or wake a thread.
//!
//! ```text
//!   claim   reserves a place in the order ring for later, and grains of the current chunk
//!   build   in place; the range belongs to this claim alone
//!   commit  takes the next place in the order: its entry names the range. The commit determines
//!           the place, not the claim, so a claim that is held, dropped or forgotten delays no
//!           other one (I-7)
//! ```
//! A message takes two atomic operations: a compare-and-swap claims, and an addition commits. A
//! thread that is the only one needs neither (see [`bias`](super::bias)). The turn, which goes over
//! all entries anyway, counts the remaining uses of a chunk. A chunk is reclaimed when its last
//! claim is closed, all its entries are below every reader's `taken`, and no reader's `held` has
//! its bit. An abandoned claim leaves a hole in its chunk, and a forgotten claim pins its chunk;
//! other chunks are not affected.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::bias::{Bias, ThreadToken};
use super::budget::{BellAction, BellDeadline};
use super::changes::{HEADER_MARK, QuietMark};
use super::commit_counter::CommitCounter;
use super::entry::{RecordExtent, RingEntry};
use super::geometry::{GRAIN, Geometry, HEADER_RETURNED};
use crate::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::fault::{Fault as Planted, planted};
use crate::ids::Time;
use crate::link::Barrier;
use crate::memory::{ExclusiveRegion, OwnRegion, Replica};

/// Reason why a claim was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimError {
    /// The record is longer than this memory accepts.
    TooLong {
        /// Requested length in bytes.
        length: usize,
        /// Maximum length of a record.
        largest: usize,
    },
    /// Readers have not released enough memory yet; try again after they have.
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

/// Current chunk, first free grain in it, and number of claims made so far, in one word so that one
/// compare-and-swap moves all three.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cursor {
    claims: u32,
    chunk: u32,
    grain: u32,
}

impl Cursor {
    const CHUNK_BITS: u32 = 6;
    const GRAIN_BITS: u32 = 26;

    #[inline(always)]
    fn pack(self) -> u64 {
        u64::from(self.claims) << 32
            | u64::from(self.chunk) << Self::GRAIN_BITS
            | u64::from(self.grain)
    }

    #[inline(always)]
    fn unpack(word: u64) -> Cursor {
        Cursor {
            claims: (word >> 32) as u32,
            chunk: (word as u32) >> Self::GRAIN_BITS & ((1 << Self::CHUNK_BITS) - 1),
            grain: word as u32 & ((1 << Self::GRAIN_BITS) - 1),
        }
    }
}

/// Information from the claims in one chunk for the turn.
struct Chunk {
    /// Number of claims made before the chunk became current; written by the thread that
    /// makes it current.
    first_claim: AtomicU32,
    /// [`ENDED`], and the number of claims made when the chunk stopped being current; written by
    /// the thread that changes to another chunk.
    end: AtomicU64,
    /// Number of abandoned claims in the chunk.
    abandoned: AtomicU32,
    /// Lower bound of the entries in the chunk's next use; written by the turn that
    /// reclaims the chunk.
    next_life: AtomicU64,
}

/// Flag of a chunk that is no longer current.
const ENDED: u64 = 1 << 32;

struct Inner {
    region: ExclusiveRegion,
    geometry: Geometry,
    /// Number of places in the order ring for claims; the rest is for null runs.
    places: u32,
    null_places: usize,
    cursor: AtomicU64,
    /// Limit of the number of claims made so far. With the places for null runs, no more entries
    /// than the ring has places lie beyond what all readers have taken (I-8).
    limit: AtomicU32,
    /// Number of messages that all readers have received and whose places were reclaimed; written
    /// by the turn.
    given_back: AtomicU64,
    /// One bit for each unused chunk.
    free: AtomicU64,
    /// Whether a claim has found no chunk since the last chunk became free.
    lacks_chunk: AtomicBool,
    commits: CommitCounter,
    /// Right to move `cursor` and `commits` without read-modify-writes (I-25).
    bias: Bias,
    /// Mark that tells whether a commit must end the quiet of this stream.
    mark: QuietMark,
    chunks: Box<[Chunk]>,
    /// Bells of readers that see a commit without a turn, as a set of bits.
    audience: AtomicU64,
    /// Whether some reader sees a commit only after a turn of this node.
    needs_turn: AtomicBool,
    /// Time by which peers must be told of commits for which no bell has rung.
    bell_deadline: BellDeadline,
    /// Whether some reader is untethered: if so, the least recently used chunk is used next.
    spreads: AtomicBool,
}

/// Memory of a sender. Clones are handles to the same memory.
///
/// A claim lends bytes of the region as a slice to which nothing else may store. The memory
/// therefore takes the only handle that stores to the region, and gives none out:
///
/// ```compile_fail,E0382
/// use derecho_core::memory::OwnRegion;
/// use derecho_core::multicast::claim::SenderMemory;
/// use derecho_core::multicast::geometry::Geometry;
///
/// let geometry = Geometry::fitting(4096, 4, 64).unwrap();
/// let region = OwnRegion::heap(geometry.words());
/// let memory = SenderMemory::new(region, geometry);
/// let mut claim = memory.claim(64).unwrap();
/// let bytes = claim.bytes();
/// region.word(geometry.first_byte() / 8).put(1); // The region was moved.
/// bytes[0] = 2;
/// ```
#[derive(Clone)]
pub struct SenderMemory(Arc<Inner>);

impl SenderMemory {
    /// Lays out a region of at least [`Geometry::words`] as a sender's memory, for messages only.
    ///
    /// # Panics
    /// If another handle, a clone of `region`, can store to the region: such stores would change
    /// bytes that a claim lends. [`SenderMemory::replica`] only loads.
    pub fn new(region: OwnRegion, geometry: Geometry) -> SenderMemory {
        SenderMemory::with_places(region, geometry, 0)
    }

    /// Creates a memory as [`SenderMemory::new`] does, with places in the order ring that only null
    /// runs may take (I-23). Claims can never occupy these places. For a sender whose messages are
    /// ordered among those of other senders.
    ///
    /// # Panics
    /// As [`SenderMemory::new`].
    pub fn with_nulls(region: OwnRegion, geometry: Geometry) -> SenderMemory {
        SenderMemory::with_places(region, geometry, (geometry.entries() / 8).max(1))
    }

    /// Lets a thread that is the only one claim and commit at lower cost, with this barrier of the
    /// link. Has an effect only before there are other handles to the memory.
    pub fn with_barrier(mut self, barrier: Option<Arc<dyn Barrier>>) -> SenderMemory {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.bias = Bias::new(barrier);
        }
        self
    }

    /// Gives the memory the mark with this number in a node's region of change counts. Has an
    /// effect only before there are other handles to the memory.
    pub fn with_mark(mut self, changes: &OwnRegion, number: usize) -> SenderMemory {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.mark = QuietMark::new(changes.clone(), number);
            inner.region.word(HEADER_MARK).publish(number as u64 + 1);
        }
        self
    }

    fn with_places(region: OwnRegion, geometry: Geometry, null_places: u64) -> SenderMemory {
        assert!(region.words() >= geometry.words(), "the region was opened for this geometry");
        let region = region.into_exclusive();
        let region =
            region.expect("a sender's memory has the only handle that stores to its region");
        for (index, word) in geometry.header().into_iter().enumerate() {
            region.word(index).publish(word);
        }
        let chunks = (0..geometry.chunks())
            .map(|_| Chunk {
                first_claim: AtomicU32::new(0),
                end: AtomicU64::new(0),
                abandoned: AtomicU32::new(0),
                next_life: AtomicU64::new(0),
            })
            .collect();
        let places = (geometry.entries() - null_places) as u32;
        // The first chunk is current from the start.
        let free = (u64::MAX >> (64 - geometry.chunks())) & !1;
        SenderMemory(Arc::new(Inner {
            region,
            geometry,
            places,
            null_places: null_places as usize,
            cursor: AtomicU64::new(Cursor { claims: 0, chunk: 0, grain: 0 }.pack()),
            limit: AtomicU32::new(places),
            given_back: AtomicU64::new(0),
            free: AtomicU64::new(free),
            lacks_chunk: AtomicBool::new(false),
            commits: CommitCounter::new(),
            bias: Bias::new(None),
            mark: QuietMark::none(),
            chunks,
            audience: AtomicU64::new(0),
            needs_turn: AtomicBool::new(false),
            bell_deadline: BellDeadline::new(),
            spreads: AtomicBool::new(false),
        }))
    }

    /// View of the region as peers see it if memory is shared.
    pub fn replica(&self) -> Replica {
        self.0.region.replica()
    }

    /// The region. Only this file stores to it: the slices of claims rely on that.
    #[inline]
    pub(super) fn region(&self) -> &ExclusiveRegion {
        &self.0.region
    }

    /// Geometry of the memory.
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    /// Number of places in the order ring that only null runs may take.
    pub fn null_places(&self) -> usize {
        self.0.null_places
    }

    /// Number of messages committed so far, complete or not.
    #[inline]
    pub fn committed(&self) -> u64 {
        self.0.commits.messages()
    }

    /// Number of messages that all readers have received, as far as the turn knows.
    pub fn given_back(&self) -> u64 {
        self.0.given_back.load(Ordering::Relaxed)
    }

    /// Bells to ring after a commit; see [`Bells`](crate::link::Bells).
    #[inline]
    pub fn audience(&self) -> u64 {
        self.0.audience.load(Ordering::Relaxed)
    }

    /// Whether some reader sees a commit only after a turn.
    #[inline]
    pub fn needs_turn(&self) -> bool {
        self.0.needs_turn.load(Ordering::Relaxed)
    }

    /// Delays the bells for earlier commits of this thread, by `nanos` nanoseconds at most.
    /// Returns whether a turn must be scheduled for that; if bells were delayed before, one
    /// is scheduled already.
    pub fn put_off(&self, now: Time, nanos: u64) -> bool {
        self.0.bell_deadline.put_off(now, nanos)
    }

    /// Time by which delayed bells must ring, if any are delayed.
    pub fn bells_due(&self) -> Option<Time> {
        self.0.bell_deadline.due()
    }

    /// Makes the next turn tell peers that were not told of commits.
    pub fn hurry(&self) {
        self.0.bell_deadline.hurry();
    }

    /// Treatment of the memory's bells in a turn.
    #[inline]
    pub(super) fn bells(&self, now: Time, at_once: bool) -> BellAction {
        self.0.bell_deadline.bells(now, || at_once || self.is_half_full())
    }

    /// Sets the peers that must be told of a commit, and the way in which they are told.
    pub(super) fn set_audience(&self, bells: u64, needs_turn: bool) {
        self.0.audience.store(bells, Ordering::Relaxed);
        self.0.needs_turn.store(needs_turn, Ordering::Relaxed);
    }

    /// Sets whether the whole memory is used cyclically, for untethered readers. Otherwise recently
    /// used memory is used again first.
    pub(super) fn set_spreads(&self, spreads: bool) {
        self.0.spreads.store(spreads, Ordering::Relaxed);
    }

    /// Claims room for a record of up to `length` bytes, for an unidentified thread. Never
    /// waits for room.
    #[inline]
    pub fn claim(&self, length: usize) -> Result<Claim<'_>, ClaimError> {
        self.claim_on(ThreadToken::ANY, length)
    }

    /// Claims room for a record of up to `length` bytes. While one identified thread makes all
    /// claims and commits, these need no atomic read-modify-write.
    #[inline(always)]
    pub fn claim_on(&self, thread: ThreadToken, length: usize) -> Result<Claim<'_>, ClaimError> {
        let inner = &*self.0;
        let grains = length.div_ceil(GRAIN).max(1);
        if grains > inner.geometry.chunk_grains() {
            return Err(ClaimError::TooLong { length, largest: inner.geometry.largest() });
        }
        match inner.claim_grains(thread, grains as u32) {
            Some(position) => Ok(Claim { memory: inner, position, length: length as u32 }),
            None => Err(ClaimError::Full),
        }
    }

    /// Whether a claim of this length might succeed now: cheap enough to poll while waiting.
    pub fn has_room(&self, length: usize) -> bool {
        let inner = &*self.0;
        let grains = length.div_ceil(GRAIN).max(1);
        let cursor = Cursor::unpack(inner.cursor.load(Ordering::Relaxed));
        // A record that fits no chunk would not fit a free one either.
        grains <= inner.geometry.chunk_grains()
            && inner.places_left(cursor) > 0
            && (cursor.grain as usize + grains <= inner.geometry.chunk_grains()
                || inner.free.load(Ordering::Relaxed) != 0)
    }

    /// Whether half of the order ring or of the chunks is in use, which makes it worth looking at
    /// the readers' acknowledgements. Before that no thread needs the memory, and each look takes a
    /// line from a reader.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        let inner = &*self.0;
        let cursor = Cursor::unpack(inner.cursor.load(Ordering::Relaxed));
        inner.places_left(cursor) < (inner.places / 2) as i32
            || (inner.free.load(Ordering::Relaxed).count_ones() as usize)
                < inner.geometry.chunks() / 2
    }

    /// Commits a null run of `slots - committed` slots if that is positive, given that `nulls` null
    /// slots were committed before. Returns the length of the run. Called only by the turn, which
    /// ensures that there is a place for it.
    pub(super) fn commit_nulls(&self, slots: u64, nulls: u64) -> u64 {
        let inner = &*self.0;
        if slots <= nulls + inner.commits.messages() || !inner.bias.try_share() {
            return 0;
        }
        let mut messages = inner.commits.messages();
        loop {
            // Committed messages count first, including those committed meanwhile.
            let run = slots.saturating_sub(nulls + messages).min(u64::from(u32::MAX));
            if run == 0 {
                return 0;
            }
            match inner.commits.add_nulls_after(messages) {
                Ok(position) => {
                    inner.put(RingEntry::Nulls(run as u32), position.index);
                    return run;
                }
                Err(now) => messages = now,
            }
        }
    }

    /// Mark of the memory's stream.
    #[inline]
    pub(super) fn mark(&self) -> &QuietMark {
        &self.0.mark
    }

    /// Commits the end of this sender's part of the epoch with mark `epoch`. Returns the number of
    /// messages committed before it; `None` if the call must be repeated. Called only by the turn,
    /// which ensures that there is a place for it.
    pub(super) fn commit_end(&self, epoch: u32) -> Option<u64> {
        let inner = &*self.0;
        if !inner.bias.try_share() {
            return None;
        }
        let mut messages = inner.commits.messages();
        loop {
            match inner.commits.add_nulls_after(messages) {
                Ok(position) => {
                    inner.put(RingEntry::End(epoch), position.index);
                    return Some(position.messages);
                }
                Err(now) => messages = now,
            }
        }
    }

    /// Notes that this number of messages is known to be complete. Called only by the turn.
    pub(super) fn know(&self, messages: u64) {
        self.0.commits.know(messages);
    }

    /// Reclaims `count` places in the order ring: entries below `returned` have none any more.
    /// Called only by the turn.
    pub(super) fn give_places(&self, returned: u64, count: u32) {
        // I-221: this precedes any reuse of these places.
        self.0.region.word(HEADER_RETURNED).publish(returned);
        self.0.given_back.fetch_add(u64::from(count), Ordering::Relaxed);
        self.0.limit.fetch_add(count, Ordering::AcqRel);
    }

    /// Number of claims made in a chunk and not abandoned, if no more can be made. Called only
    /// by the turn.
    pub(super) fn claims_in(&self, chunk: usize) -> Option<u32> {
        let chunk = &self.0.chunks[chunk];
        let end = chunk.end.load(Ordering::Acquire);
        if end & ENDED == 0 {
            return None;
        }
        let claims = (end as u32).wrapping_sub(chunk.first_claim.load(Ordering::Relaxed));
        Some(claims.wrapping_sub(chunk.abandoned.load(Ordering::Acquire)))
    }

    /// Reclaims an unused chunk: its records are of entries before `entries`, and all of them were
    /// committed. Called only by the turn.
    pub(super) fn free_chunk(&self, index: usize, entries: u64) {
        let chunk = &self.0.chunks[index];
        chunk.next_life.store(entries, Ordering::Relaxed);
        chunk.end.store(0, Ordering::Relaxed);
        chunk.abandoned.store(0, Ordering::Relaxed);
        self.0.free.fetch_or(1 << index, Ordering::AcqRel);
        self.0.lacks_chunk.store(false, Ordering::Relaxed);
    }

    /// Whether a claim has found no chunk, and none has become free since.
    pub(super) fn lacks_chunk(&self) -> bool {
        self.0.lacks_chunk.load(Ordering::Relaxed) && self.is_out_of_chunks()
    }

    /// Whether there is no free chunk.
    pub(super) fn is_out_of_chunks(&self) -> bool {
        self.0.free.load(Ordering::Relaxed) == 0
    }
}

impl fmt::Debug for SenderMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SenderMemory({:?}, {} committed)", self.0.geometry, self.committed())
    }
}

impl Inner {
    /// Fills the place of an entry that the turn commits.
    fn put(&self, entry: RingEntry, index: u64) {
        let words = entry.encode(index);
        let first = self.geometry.entry_word(index);
        self.region.word(first).put(words[0]);
        self.region.word(first + 1).publish(words[1]);
        self.mark.changed();
    }

    /// Number of claims that may still be made. Other threads can only increase the limit.
    #[inline(always)]
    fn places_left(&self, cursor: Cursor) -> i32 {
        self.limit.load(Ordering::Acquire).wrapping_sub(cursor.claims).cast_signed()
    }

    /// Takes a place, and grains of the current chunk or of a free chunk that becomes current.
    #[inline(always)]
    fn claim_grains(&self, thread: ThreadToken, grains: u32) -> Option<u32> {
        let alone = self.bias.enter(thread);
        let position = self.claim_from_cursor(alone, grains);
        if alone {
            self.bias.leave();
        }
        // I-220, I-221: readers see later stores into reused places and chunks after the words that
        // announce the reuse. On x86 this is no instruction.
        if !planted(Planted::OpeningUnfenced) {
            fence(Ordering::Release);
        }
        position
    }

    #[inline(always)]
    fn claim_from_cursor(&self, alone: bool, grains: u32) -> Option<u32> {
        let chunk_grains = self.geometry.chunk_grains() as u32;
        loop {
            let packed = self.cursor.load(Ordering::Acquire);
            let cursor = Cursor::unpack(packed);
            if self.places_left(cursor) <= 0 {
                return None;
            }
            if cursor.grain + grains <= chunk_grains {
                let grain = cursor.grain + grains;
                let claims = cursor.claims.wrapping_add(1);
                if self.swap_cursor(alone, packed, Cursor { grain, claims, ..cursor }) {
                    return Some(cursor.chunk * chunk_grains + cursor.grain);
                }
                continue;
            }
            self.change_chunk(alone, packed, cursor)?;
        }
    }

    /// Makes a free chunk current, unless another thread was quicker.
    #[cold]
    fn change_chunk(&self, alone: bool, packed: u64, cursor: Cursor) -> Option<()> {
        let Some(fresh) = self.take_free_chunk(cursor.chunk) else {
            self.lacks_chunk.store(true, Ordering::Relaxed);
            return None;
        };
        // I-220: this precedes any claim in the chunk.
        if !planted(Planted::OpeningUntold) {
            let entry = self.chunks[fresh as usize].next_life.load(Ordering::Relaxed);
            self.region.word(self.geometry.opened_word(fresh as usize)).publish(entry);
        }
        // The chunk belongs to this thread until the swap: the turn ignores chunks that
        // have not ended.
        self.chunks[fresh as usize].first_claim.store(cursor.claims, Ordering::Relaxed);
        if self.swap_cursor(alone, packed, Cursor { chunk: fresh, grain: 0, ..cursor }) {
            // The old chunk gets no more claims. Release: the turn sees its first claim
            // together with `end`.
            let end = ENDED | u64::from(cursor.claims);
            self.chunks[cursor.chunk as usize].end.store(end, Ordering::Release);
        } else {
            self.free.fetch_or(1 << fresh, Ordering::AcqRel);
        }
        Some(())
    }

    #[inline(always)]
    fn swap_cursor(&self, alone: bool, from: u64, to: Cursor) -> bool {
        if alone {
            self.cursor.store(to.pack(), Ordering::Release);
            return true;
        }
        self.cursor.compare_exchange(from, to.pack(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives back the place of a claim at this position, and leaves a hole in its chunk.
    #[cold]
    fn abandon(&self, position: u32) {
        let chunk = self.geometry.chunk_of(position as usize);
        self.chunks[chunk].abandoned.fetch_add(1, Ordering::AcqRel);
        self.limit.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes the lowest free chunk, which may still be in a near cache, or the first free one after
    /// the current chunk if `spreads` is set.
    fn take_free_chunk(&self, current: u32) -> Option<u32> {
        let mut free = self.free.load(Ordering::Acquire);
        while free != 0 {
            let behind = free & !(u64::MAX >> (63 - current));
            let spreads = behind != 0 && self.spreads.load(Ordering::Relaxed);
            let chunk = if spreads { behind } else { free }.trailing_zeros();
            let without = free & !(1 << chunk);
            match self.free.compare_exchange(free, without, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(chunk),
                Err(now) => free = now,
            }
        }
        None
    }
}

/// Room for one record, which is built in place and committed. Dropping the claim abandons it.
pub struct Claim<'a> {
    memory: &'a Inner,
    position: u32,
    length: u32,
}

impl Claim<'_> {
    #[inline(always)]
    fn extent(&self) -> RecordExtent {
        RecordExtent { position: self.position, length: self.length }
    }

    /// Bytes of the claim, which contain remains of earlier records.
    #[inline(always)]
    pub fn bytes(&mut self) -> &mut [u8] {
        let offset = self.extent().first_byte(self.memory.geometry);
        let length = self.length as usize;
        let start = self.memory.region.bytes(offset, length).expect("claims lie in the region");
        // SAFETY: the range lies in the region, which `memory` keeps alive. The range belongs to
        // this claim alone: the cursor gave these grains to no other claim, and the chunk is not
        // reclaimed while the claim is open, because the sender of this memory, of which there is
        // one at a time, counts the closed claims. No store except through this slice reaches the
        // range: `memory` has the only handle that stores to the region, this file stores only to
        // words of the header, of the ring and of the openings, and replicas store only under a
        // contract that excludes the range. Slices of records do not cover the range before an
        // entry names it. An untethered reader may load words of it meanwhile and discards them;
        // `Replica` states why that is sound.
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), length) }
    }

    /// Bytes of the claim, for reading.
    #[inline(always)]
    pub fn seen(&self) -> &[u8] {
        let offset = self.extent().first_byte(self.memory.geometry);
        let length = self.length as usize;
        let start = self.memory.region.bytes(offset, length).expect("claims lie in the region");
        // SAFETY: as in `bytes`; the bytes do not change while this claim is borrowed.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), length) }
    }

    /// Commits as [`Claim::commit_on`] does, on an unidentified thread.
    #[inline]
    pub fn commit(self, length: usize, seal: impl FnOnce(u64, &mut [u8])) -> u64 {
        self.commit_on(ThreadToken::ANY, length, seal)
    }

    /// Commits the first `length` bytes as a record, which takes the next place in the order.
    /// `seal` receives the message's sequence number and the bytes, and may write the number into
    /// the record before any reader can see it. Returns that number.
    ///
    /// Peers that share the memory see the record from here on. [`SenderMemory::audience`] and
    /// [`SenderMemory::needs_turn`] tell which actions remain.
    #[inline(always)]
    pub fn commit_on(
        mut self,
        thread: ThreadToken,
        length: usize,
        seal: impl FnOnce(u64, &mut [u8]),
    ) -> u64 {
        assert!(length <= self.length as usize, "a record fits its claim");
        let memory = self.memory;
        let position = if memory.bias.enter(thread) {
            let position = memory.commits.add_message_alone();
            memory.bias.leave();
            position
        } else {
            memory.commits.add_message()
        };
        seal(position.messages, self.bytes());
        // The claim has a place, so every reader has finished with the entry of the previous lap.
        let extent = RecordExtent { position: self.position, length: length as u32 };
        let words = RingEntry::Message(extent).encode(position.index);
        let first = memory.geometry.entry_word(position.index);
        memory.region.word(first).put(words[0]);
        // I-1: publishes the record and the first word, which were stored before.
        memory.region.word(first + 1).publish(words[1]);
        memory.mark.changed();
        // The place in the ring stays taken until all readers have finished with the entry.
        let _ = core::mem::ManuallyDrop::new(self);
        position.messages
    }
}

impl Drop for Claim<'_> {
    /// Lends no part of the claim to a call, so that claims stay in registers.
    #[inline(always)]
    fn drop(&mut self) {
        self.memory.abandon(self.position);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    #[should_panic = "the only handle that stores"]
    fn region_with_another_handle_is_refused() {
        let geometry = Geometry::fitting(4096, 4, 64).expect("a small shape");
        let region = OwnRegion::heap(geometry.words());
        let _other = region.clone();
        SenderMemory::new(region, geometry);
    }

    #[test]
    fn region_whose_other_handles_are_gone_or_only_load_is_taken() {
        let geometry = Geometry::fitting(4096, 4, 64).expect("a small shape");
        let region = OwnRegion::heap(geometry.words());
        drop(region.clone());
        let seen = region.replica();
        let memory = SenderMemory::new(region, geometry);
        assert_eq!(Geometry::read(&seen), Ok(Some(geometry)));
        assert!(seen.is_same(&memory.replica()));
    }

    #[test]
    fn room_is_reported_exactly_when_claim_succeeds() {
        let geometry = Geometry::fitting(4096, 4, 64).expect("a small shape");
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let largest = geometry.largest();
        for length in [1, largest] {
            assert!(memory.has_room(length) && memory.claim(length).is_ok(), "{length}");
        }
        // All chunks but one are free, and none of them is long enough.
        assert!(!memory.has_room(largest + 1));
        assert!(matches!(memory.claim(largest + 1), Err(ClaimError::TooLong { .. })));
        // I-8: open claims take all places of the ring, although there is memory left.
        let held: Vec<_> = (0..4).map_while(|_| memory.claim(1).ok()).collect();
        assert_eq!(held.len(), 4);
        assert!(!memory.has_room(1) && memory.claim(1).is_err());
    }
}
