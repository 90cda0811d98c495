//! Number of commits of a sender, in one word that many threads move.
//!
//! ```text
//!   [ null runs: 21 bits | messages: 43 bits ]
//! ```
//! An addition of one message, or of one null run, gives the adding thread its place in the order
//! ring (messages and null runs before it) and, for a message, the message's number (messages
//! before it), without a lock and in one order (I-7). The word wraps. Its readers know both numbers
//! approximately, from the turn.

use crate::atomic::{AtomicU64, Ordering};

const MESSAGE_BITS: u32 = 43;
const MESSAGE_MASK: u64 = (1 << MESSAGE_BITS) - 1;

/// Number of bits of an entry's number in its stamp. One more than the places of the longest order
/// ring need: the contents of a place are of this lap or of the lap before.
pub(super) const INDEX_BITS: u32 = 21;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// Position of an item in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CommitPosition {
    /// Number of the entry, shortened to the bits that its place and stamp need.
    pub(super) index: u64,
    /// Number of messages of this sender before the item.
    pub(super) messages: u64,
}

/// Number of commits, as a wrapping word.
pub(super) struct CommitCounter {
    word: AtomicU64,
    /// Number of messages that was reached; moved by the turn.
    reached: AtomicU64,
}

impl CommitCounter {
    /// Creates a counter of zero commits.
    pub(super) fn new() -> CommitCounter {
        CommitCounter { word: AtomicU64::new(0), reached: AtomicU64::new(0) }
    }

    #[inline]
    fn position(&self, word: u64) -> CommitPosition {
        CommitCounter::position_after(self.reached.load(Ordering::Relaxed), word)
    }

    /// Place that a word means if it was read after this number of messages was known.
    #[inline]
    fn position_after(reached: u64, word: u64) -> CommitPosition {
        // At least the known number: the turn knows only what was added before.
        let messages = reached + (word.wrapping_sub(reached) & MESSAGE_MASK);
        // The rest of the word is the number of null runs, because messages carry into it.
        let nulls = word.wrapping_sub(messages) >> MESSAGE_BITS;
        CommitPosition { index: messages.wrapping_add(nulls) & INDEX_MASK, messages }
    }

    /// Adds a message.
    #[inline]
    pub(super) fn add_message(&self) -> CommitPosition {
        self.position(self.word.fetch_add(1, Ordering::AcqRel))
    }

    /// Adds a message while no other thread adds anything.
    #[inline]
    pub(super) fn add_message_alone(&self) -> CommitPosition {
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(word.wrapping_add(1), Ordering::Release);
        self.position(word)
    }

    /// Adds a null run if there are `messages` messages; otherwise returns their number.
    pub(super) fn add_nulls_after(&self, messages: u64) -> Result<CommitPosition, u64> {
        let word = self.word.load(Ordering::Acquire);
        let position = self.position(word);
        if position.messages != messages {
            return Err(position.messages);
        }
        let next = word.wrapping_add(1 << MESSAGE_BITS);
        match self.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(position),
            Err(word) => Err(self.position(word).messages),
        }
    }

    /// Number of messages added so far.
    #[inline]
    pub(super) fn messages(&self) -> u64 {
        // Any thread may ask. A word older than the turn's knowledge would look like a word that
        // has wrapped. The acquire load ensures that the word is not older.
        let reached = self.reached.load(Ordering::Acquire);
        CommitCounter::position_after(reached, self.word.load(Ordering::Acquire)).messages
    }

    /// Notes that this number of messages is known to be complete. Called by the turn.
    pub(super) fn know(&self, messages: u64) {
        self.reached.store(messages, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn positions_continue_through_every_counter_wrap() {
        let counter = CommitCounter::new();
        // Just before the message count wraps, and after many wraps of the null run count.
        let (messages, nulls) = ((1_u64 << MESSAGE_BITS) - 3, (1_u64 << 40) + 7);
        counter.word.store(messages.wrapping_add(nulls << MESSAGE_BITS), Ordering::Relaxed);
        counter.know(messages - 100);
        for step in 0..10 {
            let position = counter.add_message();
            assert_eq!(position.messages, messages + step);
            let nulls = nulls + step;
            assert_eq!(position.index, (messages + step + nulls) & INDEX_MASK);
            assert_eq!(counter.add_nulls_after(messages + step), Err(messages + step + 1));
            let position = counter.add_nulls_after(messages + step + 1).unwrap();
            assert_eq!(position.index, (messages + step + 1 + nulls) & INDEX_MASK);
        }
        assert_eq!(counter.messages(), messages + 10);
    }
}
