//! What one node has to tell another of a stream or subgroup, word by word, in a line of its own.
//!
//! Owns: the encoding of that line, its writing and its reading. Never does: decide what to
//! acknowledge, or what to give back for it.
//!
//! ```text
//!   word 0    [ name: 24 | received: 40          ]   of a stream, entries received; of a subgroup,
//!                                                    slots of its order received without a gap
//!   word 1    [ name: 24 | taken: 40             ]   the other's entries, delivered or dropped
//!   word 2..  [ name: 24 | taken: 24 | held: 16  ]   a bit for each of sixteen chunks
//! ```
//! All of it leaves in one short write, whose words appear in any order (rule 2 of
//! [`crate::link`]), so no word may vouch for another one: a new `taken` may be seen beside an old
//! `held`. Therefore each word says by itself what it belongs to. The *name* is the
//! subscription's: what is left over from another use of the line has another one. A `held` word
//! repeats the `taken` that it was stored with; the sender believes the two only together. For one
//! `taken` the bits of `held` are only ever cleared, so any mix of such words has at least the bits
//! that matter.

use super::Fault;
use super::geometry::Geometry;
use crate::fault::{Fault as Planted, planted};
use crate::ids::RegionId;
use crate::link::WordRange;
use crate::machine::{Effects, Target};
use crate::memory::{LINE_WORDS, OwnRegion, Replica};

/// Words of a line.
pub const ACK_WORDS: usize = LINE_WORDS;
/// Word in it: how far was received.
pub const ACK_RECEIVED: usize = 0;
/// Word in it: entries delivered or dropped.
pub const ACK_TAKEN: usize = 1;
/// First word in it of the chunks that are still referred to.
pub const ACK_HELD: usize = 2;

/// Chunks in one `held` word.
const HELD_BITS: usize = 16;
/// Bits of the `taken` that a `held` word repeats. More than entries of any order ring, and a
/// reader is never further than those ahead of what its sender has seen.
const STAMP_BITS: u32 = 24;
/// Bits of a count. Counts are taken as the nearest to what is known.
const COUNT_BITS: u32 = 40;
/// Names: the subscription's number, shortened, and never zero.
const NAMES: u64 = (1 << 24) - 1;

/// How often a line is looked at whose owner is just changing it. After that the next turn looks.
const LOOKS: usize = 3;

const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;
const HELD_MASK: u64 = (1 << HELD_BITS) - 1;

const fn name_of(reader: u64) -> u64 {
    (reader % NAMES + 1) << COUNT_BITS
}

/// What an epoch of this name is called in its senders' streams.
pub(super) fn epoch_mark(name: u64) -> u32 {
    (name_of(name) >> COUNT_BITS) as u32
}

fn held_words(geometry: Geometry) -> usize {
    geometry.chunks().div_ceil(HELD_BITS)
}

/// What a reader has acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// How far it has received: entries of a stream, slots of a subgroup's order.
    pub received: u64,
    /// Entries of the one who is told, delivered or dropped.
    pub taken: u64,
    /// Chunks it still refers to.
    pub held: u64,
}

/// Where this node acknowledges one sender: a line of a region of its own.
#[derive(Clone, Debug)]
pub struct AckLine {
    region: OwnRegion,
    id: RegionId,
    first: usize,
    name: u64,
}

impl AckLine {
    /// The line with this number of a region, for the subscription of this number.
    pub fn new(region: OwnRegion, id: RegionId, line: usize, reader: u64) -> AckLine {
        assert!((line + 1) * ACK_WORDS <= region.words(), "the line lies in the region");
        AckLine { region, id, first: line * ACK_WORDS, name: name_of(reader) }
    }

    /// Stores what is acknowledged. Where memory is shared the sender sees it at once.
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

    /// Shows what is stored to the sender; nobody has to be told if that is this node itself.
    pub(super) fn post(&self, sender: Option<Target>, geometry: Geometry, effects: &mut Effects) {
        if let Some(sender) = sender {
            let range = WordRange::new(self.first, ACK_HELD + held_words(geometry));
            effects.hint(sender, self.id, range);
        }
    }

    /// Says in all words that everything was received and nothing is referred to, for a node that never received
    /// anything, and shows that.
    pub(super) fn finish(&self, to: Target, effects: &mut Effects) {
        (ACK_TAKEN..ACK_WORDS)
            .for_each(|index| self.region.word(self.first + index).publish(self.name));
        self.store_received(1);
        effects.hint(to, self.id, WordRange::new(self.first, ACK_WORDS));
    }

    /// Stores how far was received, for a node that sends nothing.
    #[inline]
    pub(super) fn store_received(&self, received: u64) {
        let word = self.region.word(self.first + ACK_RECEIVED);
        word.publish(self.name | received & COUNT_MASK);
    }

    /// Shows what [`AckLine::store_received`] stored.
    pub(super) fn post_received(&self, to: Target, effects: &mut Effects) {
        effects.hint(to, self.id, WordRange::new(self.first + ACK_RECEIVED, 1));
    }

    /// Makes it a fresh line again, for another stream.
    pub fn clear(&self) {
        (0..ACK_WORDS).for_each(|word| self.region.word(self.first + word).publish(0));
    }
}

/// A reader's line, as the sender sees it.
#[derive(Clone)]
pub(super) struct AckView {
    replica: Replica,
    first: usize,
    name: u64,
    /// Its first word has had this name.
    named: bool,
    /// All its words have had this name; from then on no other may be there.
    whole: bool,
    seen: Acknowledged,
}

impl AckView {
    /// The line with this number of a replica, for a subscription that starts at `slot`. `None` if
    /// the replica has no such line.
    pub(super) fn new(replica: Replica, line: usize, reader: u64, slot: u64) -> Option<AckView> {
        let seen = Acknowledged { received: slot, taken: slot, held: 0 };
        AckView::going_on(replica, line, reader, seen)
    }

    /// As [`AckView::new`], for one of whom this is known before its line shows.
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

    /// Another line of the same region, of a subscription of whom this is known before its line shows.
    pub(super) fn in_line(&self, line: usize, reader: u64, seen: Acknowledged) -> Option<AckView> {
        AckView::going_on(self.replica.clone(), line, reader, seen)
    }

    /// Whether the two lie in one region.
    pub(super) fn is_with(&self, other: &AckView) -> bool {
        self.replica.is_same(&other.replica)
    }

    /// What was acknowledged when it was last looked at.
    pub(super) fn seen(&self) -> Acknowledged {
        self.seen
    }

    /// Whether the other has begun: its line has this name.
    pub(super) fn is_named(&self) -> bool {
        self.named
    }

    /// Whether all of the line has shown this name.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Reads how far the other has received, and nothing else.
    #[inline]
    pub(super) fn look_received(&mut self, most: impl Fn() -> u64) -> Result<u64, Fault> {
        let word = self.replica.load(self.first + ACK_RECEIVED);
        if word & !COUNT_MASK != self.name && !planted(Planted::OldLines) {
            // It has not begun yet. What is left over from another use has another name.
            return Ok(self.seen.received);
        }
        self.named = true;
        self.seen.received = grown(self.seen.received, word, &most)?;
        Ok(self.seen.received)
    }

    /// Reads the line of a reader. I-3: its counters only grow, and do not pass what was `sent`,
    /// which is asked for after they were read. An older value than the one that is known may
    /// still arrive, and says nothing.
    #[inline]
    pub(super) fn look(
        &mut self,
        sent: impl Fn() -> u64,
        geometry: Geometry,
    ) -> Result<Acknowledged, Fault> {
        self.look_received(&sent)?;
        self.look_taken(sent, geometry)
    }

    /// Reads what a reader has taken of what this node `sent`, and holds.
    #[inline]
    pub(super) fn look_taken(
        &mut self,
        sent: impl Fn() -> u64,
        geometry: Geometry,
    ) -> Result<Acknowledged, Fault> {
        for _ in 0..LOOKS {
            let word = |index| self.replica.load(self.first + index);
            // `taken` first: where memory is shared, what is behind it was stored before.
            let taken = word(ACK_TAKEN);
            let mut held = [0; LINE_WORDS - ACK_HELD];
            let held = &mut held[..held_words(geometry)];
            held.iter_mut().enumerate().for_each(|(index, bits)| *bits = word(ACK_HELD + index));
            let others = |word: &u64| word & !COUNT_MASK != self.name;
            if others(&taken) || held.iter().any(others) {
                if self.whole {
                    return Err(Fault::Acknowledgement { sent: sent() });
                }
                // It has not begun yet.
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

/// The count that a word shows, if it is not older than the one that is known.
#[inline]
fn grown(known: u64, word: u64, most: &impl Fn() -> u64) -> Result<u64, Fault> {
    let more = word.wrapping_sub(known) & COUNT_MASK;
    if more == 0 || more > COUNT_MASK / 2 {
        return Ok(known);
    }
    let most = most();
    if known + more > most {
        return Err(Fault::Acknowledgement { sent: most });
    }
    Ok(known + more)
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
    fn what_is_stored_is_seen_over_any_number_of_slots() {
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

    #[test]
    fn a_line_that_another_subscription_has_left_says_nothing() {
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
    fn a_newer_count_is_not_believed_beside_an_older_held() {
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
    fn more_than_was_sent_is_a_fault_and_a_line_outside_is_none() {
        let (line, mut view, geometry) = pair(7, 0);
        line.store(Acknowledged { received: 4, taken: 3, held: 0 }, geometry);
        assert_eq!(view.look(|| 3, geometry), Err(Fault::Acknowledgement { sent: 3 }));
        let region = OwnRegion::heap(ACK_WORDS);
        assert!(AckView::new(region.replica(), 0, 0, 0).is_some());
        for line in [1, usize::MAX, usize::MAX / ACK_WORDS] {
            assert!(AckView::new(region.replica(), line, 0, 0).is_none());
        }
    }
}
