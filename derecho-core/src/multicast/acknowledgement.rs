//! Acknowledgement line: everything that one node tells another about a stream or subgroup.
//!
//! Owns: the encoding, writing and reading of that line. Never does: decide what to acknowledge, or
//! what to reclaim for an acknowledgement.
//!
//! ```text
//!   word 0    [ name: 24 | received: 40          ]   of a stream: entries received; of a subgroup:
//!                                                    slots of its order received without a gap
//!   word 1    [ name: 24 | taken: 40             ]   the other node's entries, delivered or
//!                                                    dropped
//!   word 2..  [ name: 24 | taken: 24 | held: 16  ]   one bit for each of sixteen chunks
//! ```
//! The whole line leaves in one short write, whose words appear in any order (rule 2 of
//! [`crate::link`]). Therefore no word may vouch for another one: a new `taken` may be seen beside
//! an old `held`. Each word carries its own identification. The *name* is derived from the number
//! of the subscription, or, in a subgroup, from the name of the epoch: remains of another use of
//! the line have another name. A `held` word repeats the `taken` with which it was stored; the
//! sender believes the two only together. For one `taken`, the bits of `held` are only ever
//! cleared, so any mix of such words contains at least the relevant bits.

use super::PeerFault;
use super::geometry::Geometry;
use crate::fault::{Fault as Planted, planted};
use crate::ids::RegionId;
use crate::link::WordRange;
use crate::machine::{Effects, Target};
use crate::memory::{LINE_WORDS, OwnRegion, Replica};

/// Number of words of a line.
pub const ACK_WORDS: usize = LINE_WORDS;
/// Index of the word with the number of entries or slots received.
pub const ACK_RECEIVED: usize = 0;
/// Index of the word with the number of entries delivered or dropped.
pub const ACK_TAKEN: usize = 1;
/// Index of the first word with the chunks that are still referred to.
pub const ACK_HELD: usize = 2;

/// Number of chunks in one `held` word.
const HELD_BITS: usize = 16;
/// Number of bits of the `taken` that a `held` word repeats. They count further than the entries of
/// any order ring, and a reader is never further ahead of its sender's knowledge.
const STAMP_BITS: u32 = 24;
/// Number of bits of a count. A count is read as the value nearest to the known one.
const COUNT_BITS: u32 = 40;
/// Number of names. A name is the number of a subscription, or the name of an epoch, shortened
/// and never zero.
const NAMES: u64 = (1 << 24) - 1;

/// Maximum number of attempts to read a line that its owner is changing. After that, the next
/// turn reads it.
const LOOKS: usize = 3;

const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;
const HELD_MASK: u64 = (1 << HELD_BITS) - 1;

const fn name_of(reader: u64) -> u64 {
    (reader % NAMES + 1) << COUNT_BITS
}

/// Mark of the epoch with this name in its senders' streams.
pub(super) fn epoch_mark(name: u64) -> u32 {
    (name_of(name) >> COUNT_BITS) as u32
}

fn held_words(geometry: Geometry) -> usize {
    geometry.chunks().div_ceil(HELD_BITS)
}

/// Acknowledgement of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// Number of entries of a stream, or slots of a subgroup's order, received.
    pub received: u64,
    /// Number of entries of the receiver of this acknowledgement, delivered or dropped.
    pub taken: u64,
    /// Chunks to which the reader still refers.
    pub held: u64,
}

/// Line in a region of this node in which it acknowledges one sender.
#[derive(Clone, Debug)]
pub struct AckLine {
    region: OwnRegion,
    id: RegionId,
    first: usize,
    name: u64,
}

impl AckLine {
    /// Creates the line with this index in a region, for the subscription with this number.
    pub fn new(region: OwnRegion, id: RegionId, line: usize, reader: u64) -> AckLine {
        assert!((line + 1) * ACK_WORDS <= region.words(), "the line lies in the region");
        AckLine { region, id, first: line * ACK_WORDS, name: name_of(reader) }
    }

    /// Stores an acknowledgement. If memory is shared, the sender sees it at once.
    #[inline]
    pub(super) fn store(&self, what: Acknowledged, geometry: Geometry) {
        let word = |index| self.region.word(self.first + index);
        let stamp = self.name | (what.taken & STAMP_MASK) << HELD_BITS;
        // I-6: a chunk's bit is set before `taken` passes any of its entries.
        for index in 0..held_words(geometry) {
            let bits = what.held >> (index * HELD_BITS) & HELD_MASK;
            word(ACK_HELD + index).publish(stamp | bits);
        }
        word(ACK_RECEIVED).publish(self.name | what.received & COUNT_MASK);
        let taken = what.taken + u64::from(planted(Planted::TakenTooFar));
        word(ACK_TAKEN).publish(self.name | taken & COUNT_MASK);
    }

    /// Posts the stored acknowledgement to the sender. Does nothing if the sender is this node.
    pub(super) fn post(&self, sender: Option<Target>, geometry: Geometry, effects: &mut Effects) {
        if let Some(sender) = sender {
            let range = WordRange::new(self.first, ACK_HELD + held_words(geometry));
            effects.hint(sender, self.id, range);
        }
    }

    /// Stores and posts that everything was received and nothing is referred to, for a node that
    /// never received anything.
    pub(super) fn finish(&self, to: Target, effects: &mut Effects) {
        (ACK_TAKEN..ACK_WORDS)
            .for_each(|index| self.region.word(self.first + index).publish(self.name));
        self.store_received(1);
        effects.hint(to, self.id, WordRange::new(self.first, ACK_WORDS));
    }

    /// Stores the number of slots received, for a node that sends nothing.
    #[inline]
    pub(super) fn store_received(&self, received: u64) {
        let word = self.region.word(self.first + ACK_RECEIVED);
        word.publish(self.name | received & COUNT_MASK);
    }

    /// Posts the word that [`AckLine::store_received`] stored.
    pub(super) fn post_received(&self, to: Target, effects: &mut Effects) {
        effects.hint(to, self.id, WordRange::new(self.first + ACK_RECEIVED, 1));
    }

    /// Clears the line for another stream.
    pub fn clear(&self) {
        (0..ACK_WORDS).for_each(|word| self.region.word(self.first + word).publish(0));
    }
}

/// Acknowledgement line of a reader, as the sender sees it.
#[derive(Clone)]
pub(super) struct AckView {
    replica: Replica,
    first: usize,
    name: u64,
    /// Whether the first word has shown this name.
    named: bool,
    /// Whether all words have shown this name; from then on any other name is a fault.
    whole: bool,
    seen: Acknowledged,
}

impl AckView {
    /// Creates a view of the line with this index in a replica, for a subscription that starts at
    /// `slot`. `None` if the replica has no such line.
    pub(super) fn new(replica: Replica, line: usize, reader: u64, slot: u64) -> Option<AckView> {
        let seen = Acknowledged { received: slot, taken: slot, held: 0 };
        AckView::going_on(replica, line, reader, seen)
    }

    /// Creates a view as [`AckView::new`] does, with knowledge about the reader from before
    /// its line shows.
    pub(super) fn going_on(
        replica: Replica,
        line: usize,
        reader: u64,
        seen: Acknowledged,
    ) -> Option<AckView> {
        let first = line.checked_mul(ACK_WORDS)?;
        replica.get(first.checked_add(ACK_WORDS - 1)?)?;
        Some(AckView { replica, first, name: name_of(reader), named: false, whole: false, seen })
    }

    /// Creates a view of another line in the same region, with knowledge about the reader from
    /// before its line shows.
    pub(super) fn in_line(&self, line: usize, reader: u64, seen: Acknowledged) -> Option<AckView> {
        AckView::going_on(self.replica.clone(), line, reader, seen)
    }

    /// Whether both lines are in the same region.
    pub(super) fn is_with(&self, other: &AckView) -> bool {
        self.replica.is_same(&other.replica)
    }

    /// Acknowledgement at the last look.
    pub(super) fn seen(&self) -> Acknowledged {
        self.seen
    }

    /// Whether the reader has begun: its line shows this name.
    pub(super) fn is_named(&self) -> bool {
        self.named
    }

    /// Whether all words of the line have shown this name.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Reads only the number of entries or slots that the reader has received.
    #[inline]
    pub(super) fn look_received(&mut self, most: impl Fn() -> u64) -> Result<u64, PeerFault> {
        let word = self.replica.load(self.first + ACK_RECEIVED);
        if word & !COUNT_MASK != self.name && !planted(Planted::OldLines) {
            // The reader has not begun yet. Remains of another use have another name.
            return Ok(self.seen.received);
        }
        self.named = true;
        self.seen.received = grown(self.seen.received, word, &most)?;
        Ok(self.seen.received)
    }

    /// Reads the line of a reader. Its counters only grow and do not exceed `sent`, which is
    /// evaluated after they were read (I-3). A value older than the known one may still arrive
    /// and is ignored.
    #[inline]
    pub(super) fn look(
        &mut self,
        sent: impl Fn() -> u64,
        geometry: Geometry,
    ) -> Result<Acknowledged, PeerFault> {
        self.look_received(&sent)?;
        self.look_taken(sent, geometry)
    }

    /// Reads which entries of this node a reader has taken, and which chunks it holds. `sent`:
    /// number of entries that this node has sent.
    #[inline]
    pub(super) fn look_taken(
        &mut self,
        sent: impl Fn() -> u64,
        geometry: Geometry,
    ) -> Result<Acknowledged, PeerFault> {
        for _ in 0..LOOKS {
            let word = |index| self.replica.load(self.first + index);
            // `taken` first: if memory is shared, the words behind it were stored before it.
            let taken = word(ACK_TAKEN);
            let mut held = [0; LINE_WORDS - ACK_HELD];
            let held = &mut held[..held_words(geometry)];
            held.iter_mut().enumerate().for_each(|(index, bits)| *bits = word(ACK_HELD + index));
            let others = |word: &u64| word & !COUNT_MASK != self.name;
            if others(&taken) || held.iter().any(others) {
                if self.whole {
                    return Err(PeerFault::Acknowledgement { sent: sent() });
                }
                // I-10: the reader has not begun yet, and stands where it was accepted.
                return Ok(self.seen);
            }
            self.whole = true;
            let now_taken = grown(self.seen.taken, taken, &sent)?;
            let stamp = now_taken & STAMP_MASK;
            if held.iter().all(|word| word >> HELD_BITS & STAMP_MASK == stamp) {
                let bits = |(index, word): (usize, &u64)| (word & HELD_MASK) << (index * HELD_BITS);
                self.seen.held = held.iter().enumerate().map(bits).sum();
                self.seen.taken = now_taken;
                break;
            }
        }
        Ok(self.seen)
    }
}

/// Count in a word, unless it is older than the count `seen` before.
#[inline]
fn grown(seen: u64, word: u64, most: &impl Fn() -> u64) -> Result<u64, PeerFault> {
    let more = word.wrapping_sub(seen) & COUNT_MASK;
    if more == 0 || more > COUNT_MASK / 2 {
        return Ok(seen);
    }
    let most = most();
    if seen + more > most {
        return Err(PeerFault::Acknowledgement { sent: most });
    }
    Ok(seen + more)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LINE: usize = 3;
    const ID: RegionId = RegionId(1);

    fn pair(reader: u64, slot: u64) -> (AckLine, AckView, Geometry) {
        let region = OwnRegion::heap(8 * ACK_WORDS);
        let view = AckView::new(region.replica(), LINE, reader, slot).expect("a line of it");
        let geometry = Geometry::fitting(4096, 16, 64).expect("a small shape");
        (AckLine::new(region, ID, LINE, reader), view, geometry)
    }

    #[test]
    fn stored_acknowledgement_is_seen_across_any_number_of_slots() {
        let mut slot = 0;
        let (line, mut view, geometry) = pair(7, slot);
        for step in [1, 1 << 20, 5, (1 << 30) + 1] {
            for held in [0xffff, 1, 0] {
                let what = Acknowledged { received: slot + step, taken: slot + step, held };
                line.store(what, geometry);
                assert_eq!(view.look(|| slot + step, geometry), Ok(what));
            }
            slot += step;
        }
    }

    /// I-10: a reader stands where it was accepted until its line has its name.
    #[test]
    fn stale_line_of_another_subscription_is_ignored() {
        let (line, mut view, geometry) = pair(7, 0);
        let region = line.region.clone();
        AckLine::new(region, ID, LINE, 6)
            .store(Acknowledged { received: 9, taken: 9, held: 3 }, geometry);
        let nothing = Acknowledged { received: 0, taken: 0, held: 0 };
        assert_eq!(view.look(|| 20, geometry), Ok(nothing));
        let own = Acknowledged { received: 2, taken: 2, held: 1 };
        line.store(own, geometry);
        assert_eq!(view.look(|| 20, geometry), Ok(own));
        line.clear();
        assert!(view.look(|| 20, geometry).is_err(), "a line in use has no other name");
    }

    #[test]
    fn newer_taken_count_is_ignored_with_older_held_bits() {
        let (line, mut view, geometry) = pair(7, 0);
        let old = Acknowledged { received: 2, taken: 2, held: 1 };
        line.store(old, geometry);
        assert_eq!(view.look(|| 20, geometry), Ok(old));
        let held = line.region.word(line.first + ACK_HELD).peek();
        line.store(Acknowledged { received: 5, taken: 5, held: 2 }, geometry);
        let new = line.region.word(line.first + ACK_HELD).peek();
        line.region.word(line.first + ACK_HELD).put(held);
        assert_eq!(view.look(|| 20, geometry), Ok(Acknowledged { received: 5, ..old }));
        line.region.word(line.first + ACK_HELD).put(new);
        let all = Ok(Acknowledged { received: 5, taken: 5, held: 2 });
        assert_eq!(view.look(|| 20, geometry), all);
        line.store(old, geometry);
        assert_eq!(view.look(|| 20, geometry), all, "an older value that arrives late");
    }

    #[test]
    fn acknowledgement_beyond_sent_is_fault_and_outside_line_is_refused() {
        let (line, mut view, geometry) = pair(7, 0);
        line.store(Acknowledged { received: 4, taken: 3, held: 0 }, geometry);
        assert_eq!(view.look(|| 3, geometry), Err(PeerFault::Acknowledgement { sent: 3 }));
        let region = OwnRegion::heap(ACK_WORDS);
        assert!(AckView::new(region.replica(), 0, 0, 0).is_some());
        for line in [1, usize::MAX, usize::MAX / ACK_WORDS] {
            assert!(AckView::new(region.replica(), line, 0, 0).is_none());
        }
    }
}
