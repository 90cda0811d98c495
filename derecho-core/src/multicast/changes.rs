//! Change counts: a few words from which a node learns which of many streams have changed.
//!
//! Owns: the layout of a node's counts, the mark with which one of its streams declares itself
//! *quiet*, and the view of another node on both. Never does: decide when a stream is quiet, or
//! which node looks at which stream; [`Node`](crate::node::Node) does.
//!
//! ```text
//!   counts   64 words   streams 0..64 | 64..128 | ...  moved by committing threads
//!   counts   64 words   the same                       moved by the turn, for nodes with a copy
//!   marks    4096 words stream 0 | 1 | 2 | ...         odd: quiet
//! ```
//! A commit in a quiet stream ends the quiet in three steps: the mark becomes even, the count is
//! moved, and only then further commits of this node skip these steps. A commit in a stream that
//! is not quiet does nothing. A node that loads the count, then finds the mark odd, then finds no
//! new entry need not look for entries until the count has moved (I-26). The stream's header
//! names its mark.
//!
//! ```text
//!   turn                               commit                          observer
//!   mark = odd, state = odd            publish the entry               load the count
//!   barrier in all threads             (no fence)                      load the mark: odd
//!   all commits taken in?              state odd? mark = even,         look at the entries: none
//!     else end it, as a commit does      count + 1, state = even       rest until the count moves
//! ```
//! The barrier belongs to the link, as for the [bias](super::bias): either the turn's second look
//! finds the commit, or the commit finds the state odd (I-27). A memory over a link without such a
//! barrier is never quiet.

use core::fmt;

use super::bias::without_fence;
use crate::atomic::{AtomicU64, Ordering};
use crate::link::{Sharing, WordRange};
use crate::memory::{LINE_WORDS, OwnRegion, Replica};

/// Number of streams whose changes one word counts.
pub const BLOCK: usize = 64;
/// Maximum number of streams of a node with counted changes; further streams are never skipped.
pub const MOST_STREAMS: usize = BLOCK * BLOCKS;
/// Number of words of counts of either kind; a word has one bit for each.
const BLOCKS: usize = 64;
const TURN_COUNTS: usize = BLOCKS;
const MARKS: usize = 2 * BLOCKS;
/// Number of words of the region.
pub const CHANGES_WORDS: usize = MARKS + MOST_STREAMS;

/// Word of a stream's header that names its mark: one more than the mark's number; zero for none.
pub const HEADER_MARK: usize = 4;
const _: () = assert!(HEADER_MARK < LINE_WORDS);

/// Number of the mark that a stream's header names, after a check of the peer's value. `None` also
/// while the header has not arrived.
pub fn named(stream: &Replica) -> Option<usize> {
    let number = stream.get(HEADER_MARK)?.checked_sub(1)?;
    usize::try_from(number).ok().filter(|&number| number < MOST_STREAMS)
}

/// Whether a mark says that its stream is quiet.
#[inline]
pub fn is_quiet(mark: u64) -> bool {
    mark & 1 == 1
}

/// The mark of one of this node's streams.
pub(super) struct QuietMark {
    /// Odd: a commit must end the quiet. Equal to the shown mark, or behind it.
    state: AtomicU64,
    shown: Option<(OwnRegion, usize)>,
}

impl QuietMark {
    /// Returns the mark of a stream that is never quiet.
    pub(super) fn none() -> QuietMark {
        QuietMark { state: AtomicU64::new(0), shown: None }
    }

    /// Returns the mark with this number in a node's region.
    pub(super) fn new(region: OwnRegion, number: usize) -> QuietMark {
        assert!(number < MOST_STREAMS && region.words() >= CHANGES_WORDS, "a mark of the region");
        region.word(MARKS + number).publish(0);
        QuietMark { state: AtomicU64::new(0), shown: Some((region, number)) }
    }

    /// Number and shown value of the mark.
    #[inline]
    pub(super) fn shown(&self) -> Option<(usize, u64)> {
        let (region, number) = self.shown.as_ref()?;
        Some((*number, region.word(MARKS + number).load()))
    }

    /// Ends the quiet of the stream, if it is quiet. Any thread calls this after it has
    /// published an entry.
    #[inline(always)]
    pub(super) fn changed(&self) {
        without_fence();
        // Acquire: a thread that rings after this also rings for a count that another
        // thread has moved.
        let state = self.state.load(Ordering::Acquire);
        if is_quiet(state) {
            self.end(state);
        }
    }

    /// Ends the quiet of the stream. Every thread that finds the stream quiet does this: no
    /// thread relies on another one that may be stopped in between. A late call changes nothing
    /// but the count.
    #[cold]
    fn end(&self, quiet: u64) {
        if let Some((region, number)) = &self.shown {
            let active = quiet.wrapping_add(1);
            // I-26: the mark, then the count, then the state that lets other threads
            // skip these steps.
            region.word(MARKS + number).change(quiet, active);
            region.word(number / BLOCK).count();
            let (yes, no) = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = self.state.compare_exchange(quiet, active, yes, no);
        }
    }

    /// Declares the stream quiet; a barrier and a second look must follow. Called only by the turn.
    /// `false` if the stream is quiet already, or can never be quiet.
    pub(super) fn fall_quiet(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        let Some((region, number)) = self.shown.as_ref().filter(|_| !is_quiet(state)) else {
            return false;
        };
        let quiet = state.wrapping_add(1);
        // The mark is shown before the state: a thread that ends the quiet finds the mark
        // that it ends.
        region.word(MARKS + number).publish(quiet);
        self.state.store(quiet, Ordering::Release);
        true
    }
}

impl fmt::Debug for QuietMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuietMark({})", self.state.load(Ordering::Relaxed))
    }
}

/// Moves the turn's count of these 64 streams, for nodes with a copy.
pub fn count_for_copies(region: &OwnRegion, block: usize) {
    let word = region.word(TURN_COUNTS + block);
    word.publish(word.peek().wrapping_add(1));
}

/// Word to post after [`count_for_copies`].
pub fn count_of_copies(block: usize) -> WordRange {
    WordRange::new(TURN_COUNTS + block, 1)
}

/// Word of a mark, to post when the mark has changed.
pub fn word_of_mark(number: usize) -> WordRange {
    WordRange::new(MARKS + number, 1)
}

/// Counts and marks of a node, as another node sees them.
#[derive(Clone, Debug)]
pub struct ChangesView {
    replica: Replica,
    counts: usize,
}

impl ChangesView {
    /// Creates a view of the counts of a node that shares its memory or posts it. `None` if the
    /// replica is too short.
    pub fn new(replica: Replica, sharing: Sharing) -> Option<ChangesView> {
        replica.get(CHANGES_WORDS - 1)?;
        // A count that a committing thread moves may be posted before the changed mark. Nodes with
        // copies therefore use a count that only the turn moves.
        let counts = if sharing == Sharing::Copied { TURN_COUNTS } else { 0 };
        Some(ChangesView { replica, counts })
    }

    /// Count of these 64 streams.
    #[inline]
    pub fn count(&self, block: usize) -> u64 {
        self.replica.load(self.counts + block)
    }

    /// Mark with this number.
    #[inline]
    pub fn mark(&self, number: usize) -> u64 {
        self.replica.load(MARKS + number)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn change_ends_quiet_period_and_is_counted_once() {
        let region = OwnRegion::heap(CHANGES_WORDS);
        let view = ChangesView::new(region.replica(), Sharing::Shared).expect("long enough");
        let mark = QuietMark::new(region, 70);
        mark.changed();
        assert_eq!((view.count(1), view.mark(70)), (0, 0), "nobody relies on it");
        for round in 1..4 {
            assert!(mark.fall_quiet() && !mark.fall_quiet());
            assert!(is_quiet(view.mark(70)));
            mark.changed();
            mark.changed();
            assert_eq!((view.count(1), view.mark(70)), (round, 2 * round));
        }
        assert_eq!(view.count(0), 0);
        assert!(!QuietMark::none().fall_quiet());
    }

    #[test]
    fn late_change_does_not_end_later_quiet_period() {
        let region = OwnRegion::heap(CHANGES_WORDS);
        let view = ChangesView::new(region.replica(), Sharing::Shared).expect("long enough");
        let mark = QuietMark::new(region, 0);
        mark.fall_quiet();
        mark.changed();
        mark.fall_quiet();
        mark.end(1);
        assert!(is_quiet(view.mark(0)));
        mark.changed();
        assert!(!is_quiet(view.mark(0)), "a commit still finds it quiet");
    }

    #[test]
    fn invalid_header_word_names_no_mark() {
        let region = OwnRegion::heap(LINE_WORDS);
        for (word, number) in
            [(0, None), (1, Some(0)), (4096, Some(4095)), (4097, None), (u64::MAX, None)]
        {
            region.word(HEADER_MARK).publish(word);
            assert_eq!(named(&region.replica()), number);
        }
        assert_eq!(named(&OwnRegion::heap(HEADER_MARK).replica()), None);
        let short = OwnRegion::heap(CHANGES_WORDS - 1).replica();
        assert!(ChangesView::new(short, Sharing::Shared).is_none());
    }
}
