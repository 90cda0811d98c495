//! What a sender has committed so far, in one word that many threads move.
//!
//! ```text
//!   [ null runs: 21 bits | messages: 43 bits ]
//! ```
//! Adding one message, or one null run, gives whoever adds it both its place in the order ring
//! (messages and null runs before it) and, for a message, its number (messages before it): without
//! a lock, and in one order. The word wraps; its readers know either number nearly, from the turn.

use crate::atomic::{AtomicU64, Ordering};

const MESSAGE_BITS: u32 = 43;
const MESSAGE_MASK: u64 = (1 << MESSAGE_BITS) - 1;

/// Bits of an entry's number that its stamp carries. One more than the places of the longest order
/// ring need: what lies in a place is of this lap or of the one before it.
pub(super) const INDEX_BITS: u32 = 21;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// Where something was put in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The number of the entry, shortened to what its place and stamp need.
    pub(super) index: u64,
    /// Messages of this sender before it.
    pub(super) messages: u64,
}

/// The word.
pub(super) struct Tail {
    word: AtomicU64,
    /// A number of messages that was reached: the turn moves it.
    known: AtomicU64,
}

impl Tail {
    /// Nothing is committed.
    pub(super) fn new() -> Tail {
        Tail { word: AtomicU64::new(0), known: AtomicU64::new(0) }
    }

    #[inline]
    fn place(&self, word: u64) -> Place {
        Tail::place_after(self.known.load(Ordering::Relaxed), word)
    }

    /// Which place a word means that was read after this many messages were known.
    #[inline]
    fn place_after(known: u64, word: u64) -> Place {
        // No less than what was known: the turn knows only what was added before.
        let messages = known + (word.wrapping_sub(known) & MESSAGE_MASK);
        // What is left of the word are the null runs, for messages carry into them.
        let nulls = word.wrapping_sub(messages) >> MESSAGE_BITS;
        Place { index: messages.wrapping_add(nulls) & INDEX_MASK, messages }
    }

    /// Adds a message.
    #[inline]
    pub(super) fn add_message(&self) -> Place {
        self.place(self.word.fetch_add(1, Ordering::AcqRel))
    }

    /// Adds a message; no other thread adds anything meanwhile.
    #[inline]
    pub(super) fn add_message_alone(&self) -> Place {
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(word.wrapping_add(1), Ordering::Release);
        self.place(word)
    }

    /// Adds a null run, if there are `messages` messages now; otherwise tells how many there are.
    pub(super) fn add_nulls_after(&self, messages: u64) -> Result<Place, u64> {
        let word = self.word.load(Ordering::Acquire);
        let place = self.place(word);
        if place.messages != messages {
            return Err(place.messages);
        }
        let next = word.wrapping_add(1 << MESSAGE_BITS);
        match self.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(place),
            Err(word) => Err(self.place(word).messages),
        }
    }

    /// Messages added so far.
    #[inline]
    pub(super) fn messages(&self) -> u64 {
        // Any thread may ask. An older word beside what the turn has come to know since would be
        // taken for one that has wrapped; acquire, so that the word is not older.
        let known = self.known.load(Ordering::Acquire);
        Tail::place_after(known, self.word.load(Ordering::Acquire)).messages
    }

    /// So many messages are known to be complete. Called by the turn.
    pub(super) fn know(&self, messages: u64) {
        self.known.store(messages, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_go_on_through_every_wrap() {
        let tail = Tail::new();
        // Just before messages wrap, and null runs many times over.
        let (messages, nulls) = ((1_u64 << MESSAGE_BITS) - 3, (1_u64 << 40) + 7);
        tail.word.store(messages.wrapping_add(nulls << MESSAGE_BITS), Ordering::Relaxed);
        tail.know(messages - 100);
        for step in 0..10 {
            let place = tail.add_message();
            assert_eq!(place.messages, messages + step);
            let nulls = nulls + step;
            assert_eq!(place.index, (messages + step + nulls) & INDEX_MASK);
            assert_eq!(tail.add_nulls_after(messages + step), Err(messages + step + 1));
            let place = tail.add_nulls_after(messages + step + 1).unwrap();
            assert_eq!(place.index, (messages + step + 1 + nulls) & INDEX_MASK);
        }
        assert_eq!(tail.messages(), messages + 10);
    }
}
