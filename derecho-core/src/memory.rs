//! Regions and words: the memory that one-sided writes move.
//!
//! Owns: the words of a region as this process sees them, and the right to write them
//! ([`OwnRegion`]) or only to read them ([`Replica`]). A module that lends bytes of a region as
//! slices has the only handle that writes the region (`ExclusiveRegion`). Never does: decide what a
//! word means, move bytes to a peer (links do), or trust a peer.
//!
//! ```text
//!   owner's process                         peer's process
//!   OwnRegion  [w0][w1][w2] ... [wn]  ==>   Replica  [w0][w1][w2] ... [wn]
//!              written by this node only             read only; the same pages in shared
//!                                                    memory, a copy over any other link
//! ```
//!
//! The contract in [`crate::link`] says what may be concluded from what is read. In short: one
//! aligned 8-byte word is atomic, nothing longer is. Every value that a peer wrote is read once
//! into a local and then checked. An index from a peer goes through the checked accessors
//! ([`Replica::get`], [`Replica::bytes`]), which return `None` outside the region.
//!
//! Only this file and the claims in `multicast` contain `unsafe` code in this crate.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

use crate::atomic::{AtomicU64, Ordering};

/// Bytes of a word, the unit of atomicity.
pub const WORD: usize = 8;
/// Bytes of a cache line, the unit of ownership: no two writers share one.
pub const LINE: usize = 64;
/// Words of a cache line.
pub const LINE_WORDS: usize = LINE / WORD;

/// One aligned 8-byte word: the largest unit that a one-sided write moves atomically.
#[repr(transparent)]
pub struct AtomicWord(AtomicU64);

impl AtomicWord {
    /// Creates a word with this value.
    pub fn new(value: u64) -> AtomicWord {
        AtomicWord(AtomicU64::new(value))
    }

    /// Reads the word. Everything stored before the word was [published](AtomicWord::publish) is
    /// visible.
    #[inline]
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Reads the word without ordering: for words of one's own, and for payload whose guard was
    /// already read.
    #[inline]
    pub fn peek(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Stores the word after all earlier stores (release).
    #[inline]
    pub fn publish(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// Adds one: for a word of one's own that several threads change.
    #[inline]
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Stores `to` if the value is `from`: for a word of one's own that several threads change.
    #[inline]
    pub fn change(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Stores the word without ordering: for payload that a later word guards.
    #[inline]
    pub fn put(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl fmt::Debug for AtomicWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.peek())
    }
}

/// Owner of a region's memory, which keeps it in place: a mapping, a registered buffer, a
/// plain allocation.
pub trait Backing: Send + Sync {
    /// Makes these bytes of the region private to this process (I-335): they keep their present
    /// content and address, whatever the owner of the region writes later. The bytes around them
    /// may become private as well. Memory that no other process writes is private already.
    fn privatize(&self, _bytes: Range<usize>) {}
}

/// Run of words that stays valid while its backing lives.
#[derive(Clone)]
struct WordRun {
    base: NonNull<AtomicWord>,
    /// Loom's words are larger than the memory that they represent, so the bytes are
    /// stored separately.
    #[cfg(loom)]
    bytes: NonNull<u8>,
    count: usize,
    backing: Arc<dyn Backing>,
}

// SAFETY: the words are atomics in memory that the shared backing keeps alive, so they may be
// reached from any thread; the raw byte accessors carry their own contracts.
unsafe impl Send for WordRun {}
// SAFETY: as above.
unsafe impl Sync for WordRun {}

impl WordRun {
    #[inline]
    fn get(&self, index: usize) -> Option<&AtomicWord> {
        if index < self.count {
            // SAFETY: `index` is inside the run, and the run is valid while `self` keeps the
            // backing alive.
            Some(unsafe { self.base.add(index).as_ref() })
        } else {
            None
        }
    }

    /// Returns a part of the run.
    #[inline]
    fn run(&self, first: usize, count: usize) -> Option<&[AtomicWord]> {
        let end = first.checked_add(count)?;
        // SAFETY: these words lie inside the run, and the run is valid while `self` keeps the
        // backing alive. Words are atomics, so others may write them meanwhile.
        (end <= self.count)
            .then(|| unsafe { core::slice::from_raw_parts(self.base.as_ptr().add(first), count) })
    }

    #[inline]
    fn bytes(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length)?;
        if end > self.count * WORD {
            return None;
        }
        #[cfg(not(loom))]
        let bytes = self.base.cast::<u8>();
        #[cfg(loom)]
        let bytes = self.bytes;
        // SAFETY: `offset` is inside the run (or one past it for an empty range).
        Some(unsafe { bytes.add(offset) })
    }
}

/// Allocates zeroed, line-aligned words on the heap.
#[cfg(not(loom))]
fn heap(words: usize) -> WordRun {
    #[repr(align(64))]
    struct CacheLine(
        #[allow(dead_code, reason = "reached through the base pointer")] [AtomicWord; 8],
    );
    impl Backing for Box<[CacheLine]> {}
    let lines = Box::<[CacheLine]>::new_zeroed_slice(words.div_ceil(LINE_WORDS));
    // SAFETY: a line consists of atomics, for which all zeros is a valid value. Zeroed memory from
    // the system is not touched by this call.
    let lines: Box<[CacheLine]> = unsafe { lines.assume_init() };
    let backing: Arc<Box<[CacheLine]>> = Arc::new(lines);
    let base = NonNull::from(&**backing).cast::<AtomicWord>();
    WordRun { base, count: words, backing }
}

/// Words on the heap that loom watches, and bytes, which it cannot see.
#[cfg(loom)]
fn heap(words: usize) -> WordRun {
    struct Bytes(NonNull<u64>, usize);
    // SAFETY: the bytes are only reached through the accessors, which carry their own contracts.
    unsafe impl Send for Bytes {}
    // SAFETY: as above.
    unsafe impl Sync for Bytes {}
    impl Drop for Bytes {
        fn drop(&mut self) {
            let slice = NonNull::slice_from_raw_parts(self.0, self.1);
            // SAFETY: the bytes were leaked from a box of this length when this value was made.
            drop(unsafe { Box::from_raw(slice.as_ptr()) });
        }
    }
    impl Backing for (Box<[AtomicWord]>, Bytes) {}
    let watched: Box<[AtomicWord]> = (0..words).map(|_| AtomicWord::new(0)).collect();
    let bytes = NonNull::from(Box::leak(alloc::vec![0_u64; words].into_boxed_slice())).cast();
    let backing = Arc::new((watched, Bytes(bytes, words)));
    let base = NonNull::from(&*backing.0).cast::<AtomicWord>();
    WordRun { base, bytes: bytes.cast(), count: words, backing }
}

/// A region that this node owns: only this node writes it, its peers read it.
///
/// Clones are further handles on the same words. The code that lays the region out decides which
/// thread of the node may write which word.
#[derive(Clone)]
pub struct OwnRegion {
    words: WordRun,
    /// Shared by all handles that store to these words, so that [`OwnRegion::into_exclusive`] can
    /// count them.
    handles: Arc<()>,
}

impl OwnRegion {
    /// Creates a region over memory that a link provides.
    ///
    /// # Safety
    /// `base` points to `words` zeroed or otherwise initialised words, aligned to a cache line,
    /// readable and writable by this process for as long as `backing` lives. While this region, a
    /// clone or a replica of it lives, only these handles write the words: no other process does,
    /// and no other code in this one.
    #[cfg(not(loom))]
    pub unsafe fn from_raw(
        base: NonNull<AtomicWord>,
        words: usize,
        backing: Arc<dyn Backing>,
    ) -> Self {
        OwnRegion::of(WordRun { base, count: words, backing })
    }

    /// Creates a zeroed region on the heap.
    pub fn heap(words: usize) -> Self {
        OwnRegion::of(heap(words))
    }

    fn of(words: WordRun) -> Self {
        OwnRegion { words, handles: Arc::new(()) }
    }

    /// Turns the only handle that stores to the region into one that cannot be cloned; `None` if
    /// there is another handle. [Replicas](Replica) do not count, because safe code only loads
    /// through them.
    pub(crate) fn into_exclusive(self) -> Option<ExclusiveRegion> {
        let OwnRegion { words, handles } = self;
        // Acquire: the stores of the other handles came before the last of them was dropped.
        Arc::into_inner(handles).map(|()| ExclusiveRegion(words))
    }

    /// Number of words of the region.
    pub fn words(&self) -> usize {
        self.words.count
    }

    /// Returns the word at `index`.
    ///
    /// # Panics
    /// If `index` is outside the region, which is an error in our own layout, never one of a peer.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicWord {
        self.words.get(index).expect("our own layout stays inside our own region")
    }

    /// Returns the address of the bytes `offset..offset + length`, or `None` if they are not
    /// all inside.
    ///
    /// The caller must justify writing through the pointer: the range must be claimed by one
    /// writer, and no reader may know of it yet.
    #[inline]
    pub fn bytes(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        self.words.bytes(offset, length)
    }

    /// Copies words that a peer may be writing meanwhile: each copied word is some value that the
    /// source had. `false` if they do not all lie inside both regions.
    #[must_use]
    pub(crate) fn copy_from(&self, to: usize, from: &Replica, first: usize, count: usize) -> bool {
        let (Some(theirs), Some(ours)) = (from.0.run(first, count), self.words.run(to, count))
        else {
            return false;
        };
        // The copy proceeds word by word: a copy of bytes that a peer is writing would be no
        // valid value.
        theirs.iter().zip(ours).for_each(|(theirs, ours)| ours.put(theirs.peek()));
        #[cfg(loom)]
        if let Some(bytes) = self.words.bytes(to * WORD, count * WORD) {
            for (index, word) in ours.iter().enumerate() {
                // SAFETY: the bytes represent these words, `index` is one of them, and no reader
                // uses the bytes yet.
                unsafe { bytes.cast::<u64>().add(index).write(word.peek()) };
            }
        }
        true
    }

    /// Returns the region as its peers would see it over shared memory.
    pub fn replica(&self) -> Replica {
        Replica(self.words.clone())
    }
}

impl fmt::Debug for OwnRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnRegion({} words)", self.words.count)
    }
}

/// The only handle that stores to a region of this node. Its holder may lend bytes out as slices
/// that exclude other stores, because safe code has no other way to store to the region.
pub(crate) struct ExclusiveRegion(WordRun);

impl ExclusiveRegion {
    /// Returns the word at `index`.
    ///
    /// # Panics
    /// If `index` is outside the region, which is an error in our own layout, never one of a peer.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> &AtomicWord {
        self.0.get(index).expect("our own layout stays inside our own region")
    }

    /// Returns the address of the bytes `offset..offset + length`, or `None` if they are not
    /// all inside.
    #[inline]
    pub(crate) fn bytes(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        self.0.bytes(offset, length)
    }

    /// Returns the region as its peers would see it over shared memory.
    pub(crate) fn replica(&self) -> Replica {
        Replica(self.0.clone())
    }
}

/// A peer's region as this node sees it. A replica outlives the peer: the last bytes stay readable.
///
/// Safe code only loads through a replica:
///
/// ```compile_fail,E0133
/// # use derecho_core::memory::OwnRegion;
/// OwnRegion::heap(8).replica().word(0).put(1);
/// ```
///
/// The owner builds records in place with plain stores, so a load of payload that no entry vouches
/// for may race with such a store. If the owner is another process, the load returns some value. If
/// the owner is a node of this process, the language does not define the outcome. The protocol
/// loads words of payload in one place only, for untethered readers, and discards the copy if the
/// owner may have been writing (I-220, I-221).
#[derive(Clone)]
pub struct Replica(WordRun);

impl Replica {
    /// Creates a replica over memory that a link provides.
    ///
    /// # Safety
    /// `base` points to `words` initialised words, aligned to a cache line, readable by this
    /// process for as long as `backing` lives. Other processes may write them at any time.
    #[cfg(not(loom))]
    pub unsafe fn from_raw(
        base: NonNull<AtomicWord>,
        words: usize,
        backing: Arc<dyn Backing>,
    ) -> Self {
        Replica(WordRun { base, count: words, backing })
    }

    /// Makes these bytes private, for all handles on the replica: see [`Backing::privatize`]. This
    /// may copy the bytes. The process ends if there is no memory for the copy.
    ///
    /// # Panics
    /// If the bytes are not all inside, which is an error in our own layout.
    pub fn privatize(&self, bytes: Range<usize>) {
        let inside = bytes.start <= bytes.end && bytes.end <= self.0.count * WORD;
        assert!(inside, "our own layout stays inside the replica");
        self.0.backing.privatize(bytes);
    }

    /// Whether both are handles on the same words.
    pub fn is_same(&self, other: &Replica) -> bool {
        self.0.base == other.0.base
    }

    /// Number of words of the replica.
    pub fn words(&self) -> usize {
        self.0.count
    }

    /// Loads the word at `index`; `None` outside the region.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u64> {
        self.0.get(index).map(AtomicWord::load)
    }

    /// Reads the word at `index` without ordering; `None` outside the region.
    #[inline]
    pub fn peek(&self, index: usize) -> Option<u64> {
        self.0.get(index).map(AtomicWord::peek)
    }

    /// Loads the word at an index of our own layout, which was checked against the replica when the
    /// replica appeared.
    ///
    /// # Panics
    /// If `index` is outside the region, which is an error of ours.
    #[inline]
    pub fn load(&self, index: usize) -> u64 {
        self.get(index).expect("the layout was checked against the replica")
    }

    /// Returns the word at `index` for storing as well: for tests and models that act as an owner
    /// that breaks the rules.
    ///
    /// # Panics
    /// If `index` is outside the region.
    ///
    /// # Safety
    /// This process may write the memory. At the time of each store, no slice of an open claim or
    /// of a record contains the word, neither here nor in another thread.
    pub unsafe fn word(&self, index: usize) -> &AtomicWord {
        self.0.get(index).expect("the word lies inside the replica")
    }

    /// Prefetches the first few lines of the bytes at `offset`, which will be read soon. This is
    /// only a hint.
    #[inline]
    pub fn prefetch(&self, offset: usize, length: usize) {
        /// The processor itself prefetches further lines of a sequential read.
        const MOST: usize = 3;
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if let Some(address) = self.0.bytes(offset, length) {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = address.as_ptr().cast::<i8>();
            for at in (0..length).step_by(LINE).take(MOST) {
                // SAFETY: a prefetch reads nothing that the program could see, and never faults;
                // the address lies in the region all the same.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(address.add(at)) };
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        let _ = (offset, length, MOST);
    }

    /// Returns the address of the bytes `offset..offset + length`, or `None` if they are not
    /// all inside.
    ///
    /// The peer may write the bytes while they are read. The reader must accept every bit pattern,
    /// and may conclude nothing from them except what the peer vouches for.
    #[inline]
    pub fn bytes(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        self.0.bytes(offset, length)
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replica({} words)", self.0.count)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_heap_region_is_zeroed_aligned_and_seen_through_its_replica() {
        let own = OwnRegion::heap(13);
        let seen = own.replica();
        assert_eq!(own.words(), 13);
        assert!((0..13).all(|i| seen.load(i) == 0));
        own.word(12).publish(7);
        assert_eq!(seen.load(12), 7);
        assert_eq!(own.bytes(0, 0).map(|p| p.as_ptr() as usize % LINE), Some(0));
    }

    #[test]
    fn indices_from_a_peer_never_leave_the_region() {
        let seen = OwnRegion::heap(4).replica();
        assert!(seen.get(4).is_none());
        assert!(seen.get(usize::MAX).is_none());
        assert!(seen.bytes(0, 33).is_none());
        assert!(seen.bytes(usize::MAX, 2).is_none());
        assert!(seen.bytes(32, 0).is_some());
    }

    #[test]
    fn words_are_copied_only_if_range_lies_in_both_regions() {
        let (own, theirs) = (OwnRegion::heap(4), OwnRegion::heap(8));
        (0..8).for_each(|index| theirs.word(index).put(index as u64 + 1));
        assert!(own.copy_from(1, &theirs.replica(), 5, 3));
        assert_eq!((0..4).map(|index| own.word(index).peek()).sum::<u64>(), 6 + 7 + 8);
        for (to, first, count) in [(2, 5, 3), (0, 6, 3), (usize::MAX, 0, 1), (0, usize::MAX, 2)] {
            assert!(!own.copy_from(to, &theirs.replica(), first, count), "{to} {first} {count}");
        }
    }
}
