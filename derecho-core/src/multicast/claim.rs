//! Claim, build in place, commit: how application threads fill a sender's memory, without a lock.
//!
//! Owns: the sender's side of its byte memory and order ring. Never does: wait, or wake anybody.
//!
//! ```text
//!   claim   a place in the order ring that it may have later, some grains of the current chunk
//!   build   in place; the range belongs to this claim alone
//!   commit  takes the next place in the order: its entry names the range. The place comes from
//!           the commit, not from the claim, so a claim that is held, dropped or forgotten delays
//!           nobody
//! ```
//! Two atomic operations a message: one compare-and-swap claims, one addition commits; a thread that
//! is the only one needs neither (see [`bias`](super::bias)). What a chunk
//! is still needed for is counted by the turn, which goes over all entries anyway: it is given back
//! when its last claim is closed, all its entries are below every reader's `taken`, and no reader's
//! `held` has its bit. An abandoned claim leaves a hole in its chunk, a forgotten one pins it; the
//! others go on.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::bias::{Bias, Thread};
use super::budget::{Bells, Budget};
use super::changes::{HEADER_MARK, Mark};
use super::entry::{Entry, Extent};
use super::geometry::{GRAIN, Geometry, HEADER_RETURNED};
use super::tail::Tail;
use crate::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::fault::{Fault as Planted, planted};
use crate::ids::Time;
use crate::link::Barrier;
use crate::memory::{ExclusiveRegion, OwnRegion, Replica};

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

/// The current chunk, the first free grain in it, and the claims made so far, in one word so that
/// one compare-and-swap moves all three.
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

/// What the claims tell the turn of one chunk.
struct Chunk {
    /// The claims made before it became current; written by whoever makes it so.
    first_claim: AtomicU32,
    /// [`ENDED`], and the claims made when it stopped being current; written by whoever changes
    /// to another.
    end: AtomicU64,
    /// Claims in it that were abandoned.
    abandoned: AtomicU32,
    /// No entry before this one is of its next life; written by the turn that gives it back.
    next_life: AtomicU64,
}

/// A chunk is not current any more.
const ENDED: u64 = 1 << 32;

struct Inner {
    region: ExclusiveRegion,
    geometry: Geometry,
    /// Places in the order ring that claims may have; the rest is for null runs.
    places: u32,
    null_places: usize,
    cursor: AtomicU64,
    /// How many claims may have been made by now.
    limit: AtomicU32,
    /// Messages that all readers have received, and given their places back; written by the turn.
    given_back: AtomicU64,
    /// A bit for each chunk that nobody uses.
    free: AtomicU64,
    /// A claim has found no chunk since one became free last.
    lacks_chunk: AtomicBool,
    tail: Tail,
    /// Who may move `cursor` and `tail` alone.
    bias: Bias,
    /// Whether a commit has to say that something happens in this stream again.
    mark: Mark,
    chunks: Box<[Chunk]>,
    /// The places of the bells of readers that see a commit without a turn, a bit each.
    audience: AtomicU64,
    /// Some reader sees a commit only after a turn of this node.
    needs_turn: AtomicBool,
    /// When those have to be told of commits who were not at once.
    budget: Budget,
    /// Some reader is not waited for: the chunk that was left alone the longest is used next.
    spreads: AtomicBool,
}

/// A sender's memory. Clones are handles on the same one.
///
/// A claim lends bytes of the region as a slice that nothing else may store to. So the memory takes the only handle that
/// stores to the region, and gives none out:
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
    /// Lays a region of at least [`Geometry::words`] out as a sender's memory, for messages only.
    ///
    /// # Panics
    /// If there is another handle that stores to the region, a clone of this one: what is stored through that
    /// would change bytes that a claim lends. [`SenderMemory::replica`] only loads.
    pub fn new(region: OwnRegion, geometry: Geometry) -> SenderMemory {
        SenderMemory::with_places(region, geometry, 0)
    }

    /// As [`SenderMemory::new`], with places in the order ring that only null runs may take, so
    /// that no claim can keep one from its place: for a sender whose messages are ordered among
    /// others.
    ///
    /// # Panics
    /// As [`SenderMemory::new`].
    pub fn with_nulls(region: OwnRegion, geometry: Geometry) -> SenderMemory {
        SenderMemory::with_places(region, geometry, (geometry.entries() / 8).max(1))
    }

    /// Lets a thread that is the only one claim and commit at less cost, with this barrier of the
    /// link. For a memory that nobody else has a handle on yet.
    pub fn with_barrier(mut self, barrier: Option<Arc<dyn Barrier>>) -> SenderMemory {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.bias = Bias::new(barrier);
        }
        self
    }

    /// Gives it the mark of this number in a node's region of change counts. For a memory that
    /// nobody else has a handle on yet.
    pub fn with_mark(mut self, changes: &OwnRegion, number: usize) -> SenderMemory {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.mark = Mark::new(changes.clone(), number);
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
            tail: Tail::new(),
            bias: Bias::new(None),
            mark: Mark::none(),
            chunks,
            audience: AtomicU64::new(0),
            needs_turn: AtomicBool::new(false),
            budget: Budget::new(),
            spreads: AtomicBool::new(false),
        }))
    }

    /// The region as peers see it over memory that is shared.
    pub fn replica(&self) -> Replica {
        self.0.region.replica()
    }

    /// The region. Outside of this file nothing is stored to it: that is what the claims' slices rest on.
    #[inline]
    pub(super) fn region(&self) -> &ExclusiveRegion {
        &self.0.region
    }

    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    /// Places in the order ring that only null runs may take.
    pub fn null_places(&self) -> usize {
        self.0.null_places
    }

    /// Messages committed so far, complete or not.
    #[inline]
    pub fn committed(&self) -> u64 {
        self.0.tail.messages()
    }

    /// Messages of which a turn knows that all readers have received them.
    pub fn given_back(&self) -> u64 {
        self.0.given_back.load(Ordering::Relaxed)
    }

    /// Whose bells have to be rung after a commit; see [`Bells`](crate::link::Bells).
    #[inline]
    pub fn audience(&self) -> u64 {
        self.0.audience.load(Ordering::Relaxed)
    }

    /// Whether a commit has to be followed by a turn before all readers can see it.
    #[inline]
    pub fn needs_turn(&self) -> bool {
        self.0.needs_turn.load(Ordering::Relaxed)
    }

    /// Puts off the bells for what this thread has committed, by so many nanoseconds at most. Returns whether a turn has
    /// to come to see to that: none does for what was put off before.
    pub fn put_off(&self, now: Time, nanos: u64) -> bool {
        self.0.budget.put_off(now, nanos)
    }

    /// When bells have to ring that were put off, if any were.
    pub fn bells_due(&self) -> Option<Time> {
        self.0.budget.due()
    }

    /// Whoever was not told of what was committed is told in the next turn.
    pub fn hurry(&self) {
        self.0.budget.hurry();
    }

    /// What a turn is to do about its bells.
    #[inline]
    pub(super) fn bells(&self, now: Time, at_once: bool) -> Bells {
        self.0.budget.bells(now, || at_once || self.is_half_full())
    }

    /// Says who has to be told of a commit, and how.
    pub(super) fn set_audience(&self, places: u64, needs_turn: bool) {
        self.0.audience.store(places, Ordering::Relaxed);
        self.0.needs_turn.store(needs_turn, Ordering::Relaxed);
    }

    /// Whether all of the memory is gone through in turn, for readers that nobody waits for. Otherwise a part of it that
    /// was used just before is used again.
    pub(super) fn set_spreads(&self, spreads: bool) {
        self.0.spreads.store(spreads, Ordering::Relaxed);
    }

    /// Claims room for a record of up to `length` bytes, for some thread. Never waits for room.
    #[inline]
    pub fn claim(&self, length: usize) -> Result<Claim<'_>, ClaimError> {
        self.claim_on(Thread::ANY, length)
    }

    /// Claims room for a record of up to `length` bytes. As long as all claims and commits are of
    /// one thread that says so, they need no atomic read-modify-write.
    #[inline(always)]
    pub fn claim_on(&self, thread: Thread, length: usize) -> Result<Claim<'_>, ClaimError> {
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

    /// Whether a claim of this length might succeed now: cheap enough to be asked in a wait.
    pub fn has_room(&self, length: usize) -> bool {
        let inner = &*self.0;
        let grains = length.div_ceil(GRAIN).max(1);
        let cursor = Cursor::unpack(inner.cursor.load(Ordering::Relaxed));
        // What fits no chunk would not fit a free one either.
        grains <= inner.geometry.chunk_grains()
            && inner.places_left(cursor) > 0
            && (cursor.grain as usize + grains <= inner.geometry.chunk_grains()
                || inner.free.load(Ordering::Relaxed) != 0)
    }

    /// Whether half of the order ring or of the chunks is in use: reason to look what readers have
    /// given back. Before that nobody needs it, and each look takes a line from a reader.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        let inner = &*self.0;
        let cursor = Cursor::unpack(inner.cursor.load(Ordering::Relaxed));
        inner.places_left(cursor) < (inner.places / 2) as i32
            || (inner.free.load(Ordering::Relaxed).count_ones() as usize)
                < inner.geometry.chunks() / 2
    }

    /// Commits a null run of `slots - committed` slots, as far as that is more than none, given
    /// that `nulls` null slots were committed before. Called by the turn only, which sees to it
    /// that there is a place for it. Returns its length.
    pub(super) fn commit_nulls(&self, slots: u64, nulls: u64) -> u64 {
        let inner = &*self.0;
        if slots <= nulls + inner.tail.messages() || !inner.bias.try_share() {
            return 0;
        }
        let mut messages = inner.tail.messages();
        loop {
            // Messages that were committed count first, also those that come in between.
            let run = slots.saturating_sub(nulls + messages).min(u64::from(u32::MAX));
            if run == 0 {
                return 0;
            }
            match inner.tail.add_nulls_after(messages) {
                Ok(place) => {
                    inner.put(Entry::Nulls(run as u32), place.index);
                    return run;
                }
                Err(now) => messages = now,
            }
        }
    }

    /// Its mark.
    #[inline]
    pub(super) fn mark(&self) -> &Mark {
        &self.0.mark
    }

    /// Commits the end of this sender's part of the epoch that is called `epoch`. Called by the turn
    /// only, which sees to it that there is a place for it. Returns how many messages were
    /// committed before it; `None` if it has to be tried again.
    pub(super) fn commit_end(&self, epoch: u32) -> Option<u64> {
        let inner = &*self.0;
        if !inner.bias.try_share() {
            return None;
        }
        let mut messages = inner.tail.messages();
        loop {
            match inner.tail.add_nulls_after(messages) {
                Ok(place) => {
                    inner.put(Entry::End(epoch), place.index);
                    return Some(place.messages);
                }
                Err(now) => messages = now,
            }
        }
    }

    /// So many messages are known to be complete. Called by the turn only.
    pub(super) fn know(&self, messages: u64) {
        self.0.tail.know(messages);
    }

    /// Gives `count` places in the order ring back: there are none of entries below `returned` any more. Called by the turn
    /// only.
    pub(super) fn give_places(&self, returned: u64, count: u32) {
        // I-221: before any of these places can be used again.
        self.0.region.word(HEADER_RETURNED).publish(returned);
        self.0.given_back.fetch_add(u64::from(count), Ordering::Relaxed);
        self.0.limit.fetch_add(count, Ordering::AcqRel);
    }

    /// How many claims were made in a chunk and not abandoned, if no more can be. Called by the
    /// turn only.
    pub(super) fn claims_in(&self, chunk: usize) -> Option<u32> {
        let chunk = &self.0.chunks[chunk];
        let end = chunk.end.load(Ordering::Acquire);
        if end & ENDED == 0 {
            return None;
        }
        let claims = (end as u32).wrapping_sub(chunk.first_claim.load(Ordering::Relaxed));
        Some(claims.wrapping_sub(chunk.abandoned.load(Ordering::Acquire)))
    }

    /// Gives a chunk back of which nobody needs anything: its records are of entries before `entries`, of which all were
    /// committed. Called by the turn only.
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

    /// Whether there is no chunk to change to.
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
    fn put(&self, entry: Entry, index: u64) {
        let words = entry.encode(index);
        let first = self.geometry.entry_word(index);
        self.region.word(first).put(words[0]);
        self.region.word(first + 1).publish(words[1]);
        self.mark.changed();
    }

    /// How many claims may still be made. It only grows behind our back.
    #[inline(always)]
    fn places_left(&self, cursor: Cursor) -> i32 {
        self.limit.load(Ordering::Acquire).wrapping_sub(cursor.claims).cast_signed()
    }

    /// Takes a place, and grains of the current chunk or of a free one that becomes current.
    #[inline(always)]
    fn claim_grains(&self, thread: Thread, grains: u32) -> Option<u32> {
        let alone = self.bias.enter(thread);
        let position = self.claim_from_cursor(alone, grains);
        if alone {
            self.bias.leave();
        }
        // I-220, I-221: what is stored from here on, into places and chunks that were others' before, is seen after what says
        // so. On x86 this is no instruction.
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
        // I-220: before any claim can be made in it.
        if !planted(Planted::OpeningUntold) {
            let entry = self.chunks[fresh as usize].next_life.load(Ordering::Relaxed);
            self.region.word(self.geometry.opened_word(fresh as usize)).publish(entry);
        }
        // Ours alone until the swap: the turn does not look at a chunk that has not ended.
        self.chunks[fresh as usize].first_claim.store(cursor.claims, Ordering::Relaxed);
        if self.swap_cursor(alone, packed, Cursor { chunk: fresh, grain: 0, ..cursor }) {
            // The old chunk gets no more claims. Release: the turn sees its first claim with it.
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

    /// The lowest chunk that is free, for it may still be near; or the first one behind the current one.
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

/// Room for one record, to be built in place and committed. Dropped, it is abandoned.
pub struct Claim<'a> {
    memory: &'a Inner,
    position: u32,
    length: u32,
}

impl Claim<'_> {
    fn extent(&self) -> Extent {
        Extent { position: self.position, length: self.length }
    }

    /// The room. What is in it is left over from earlier records.
    #[inline(always)]
    pub fn bytes(&mut self) -> &mut [u8] {
        let offset = self.extent().first_byte(self.memory.geometry);
        let length = self.length as usize;
        let start = self.memory.region.bytes(offset, length).expect("claims lie in the region");
        // SAFETY: the range lies in the region, which `memory` keeps alive. It belongs to this
        // claim alone: the cursor gave these grains to nobody else, and the chunk is not given
        // back while the claim is open: the sender of this memory, of which there is one at a time, counts
        // the claims that are closed. No store but through this slice reaches it: `memory` has the only
        // handle that stores to the region, this file stores to words of the header, of the ring and
        // of the openings alone, and replicas store only under a contract that excludes it. Slices of
        // records do not cover it before an entry names it. A reader that nobody waits for may load
        // words of it meanwhile and discards them; `Replica` says what that rests on.
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), length) }
    }

    /// The room, to be looked at.
    #[inline(always)]
    pub fn seen(&self) -> &[u8] {
        let offset = self.extent().first_byte(self.memory.geometry);
        let length = self.length as usize;
        let start = self.memory.region.bytes(offset, length).expect("claims lie in the region");
        // SAFETY: as in `bytes`; nobody changes what is there while this claim is borrowed.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), length) }
    }

    /// As [`Claim::commit_on`], on some thread.
    #[inline]
    pub fn commit(self, length: usize, seal: impl FnOnce(u64, &mut [u8])) -> u64 {
        self.commit_on(Thread::ANY, length, seal)
    }

    /// Commits the first `length` bytes as a record: gives it the next place in the order. `seal`
    /// gets the sender's sequence number of the message, to write it where it belongs, before
    /// anyone can see the record. Returns that number.
    ///
    /// Peers that share the memory see the record from here on; what else is to be done is said by
    /// [`SenderMemory::audience`] and [`SenderMemory::needs_turn`].
    #[inline(always)]
    pub fn commit_on(
        mut self,
        thread: Thread,
        length: usize,
        seal: impl FnOnce(u64, &mut [u8]),
    ) -> u64 {
        assert!(length <= self.length as usize, "a record fits its claim");
        let memory = self.memory;
        let place = if memory.bias.enter(thread) {
            let place = memory.tail.add_message_alone();
            memory.bias.leave();
            place
        } else {
            memory.tail.add_message()
        };
        seal(place.messages, self.bytes());
        // The claim has a place, so every reader has done with the entry of the last lap.
        let extent = Extent { position: self.position, length: length as u32 };
        let words = Entry::Message(extent).encode(place.index);
        let first = memory.geometry.entry_word(place.index);
        memory.region.word(first).put(words[0]);
        // Publishes the record and the first word.
        memory.region.word(first + 1).publish(words[1]);
        memory.mark.changed();
        // The place in the ring stays taken until all readers are done with the entry.
        let _ = core::mem::ManuallyDrop::new(self);
        place.messages
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let chunk = self.memory.geometry.chunk_of(self.position as usize);
        self.memory.chunks[chunk].abandoned.fetch_add(1, Ordering::AcqRel);
        self.memory.limit.fetch_add(1, Ordering::AcqRel);
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
    fn there_is_room_for_what_a_claim_gets_and_for_nothing_else() {
        let geometry = Geometry::fitting(4096, 4, 64).expect("a small shape");
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let largest = geometry.largest();
        for length in [1, largest] {
            assert!(memory.has_room(length) && memory.claim(length).is_ok(), "{length}");
        }
        // All chunks but one are free, and none of them is long enough.
        assert!(!memory.has_room(largest + 1));
        assert!(matches!(memory.claim(largest + 1), Err(ClaimError::TooLong { .. })));
        let held: Vec<_> = (0..4).map_while(|_| memory.claim(1).ok()).collect();
        assert_eq!(held.len(), 4);
        assert!(!memory.has_room(1) && memory.claim(1).is_err());
    }
}
