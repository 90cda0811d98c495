//! Words that the members of a local group share on their host, and the rules by which they change.
//!
//! Owns: the decision word, one seat for each node, and how a group is founded over them. Never
//! does: take the host's lock, find out whether a process lives, or wait; the implementation of the
//! arbiter does.
//!
//! ```text
//!   decision word   generation: 20 | view: 36 | ballot: 8   this ballot decides this view
//!   seat            generation: 20 | view: 36 | slot: 8     a member in this slot, since this view
//!                   generation: 20 | ...      | 0xff        barred from this founding
//!                   0                                       neither
//! ```
//! These words are an exception to the rule that a word has one writer (I-2). All of them change by
//! compare-and-swap only, so a process may die or be stopped between any two of its steps. Every
//! value of these words is either valid or counts as empty.

use crate::atomic::{AtomicU64, Ordering};
use crate::ids::Rank;

use super::{Founding, Generation};

/// Number of foundings on one host before all nodes must leave it. See [`Founding::Exhausted`].
pub const GENERATIONS: u64 = 1 << 20;
/// Number of views of one group: a thousand a second for two years.
pub const VIEWS: u64 = 1 << 36;
/// Number of slots, and of ranks, that members may have.
pub const SLOTS: u8 = 64;

/// In place of a slot: this seat's node may not enter this generation.
const BARRED: u8 = 0xff;
/// First view of a group, and its founder's slot and rank.
const FIRST: (u64, u8) = (1, 0);

/// Fields of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WordFields {
    group: Generation,
    view: u64,
    last: u8,
}

impl WordFields {
    fn new(group: Generation, view: u64, last: u8) -> Option<WordFields> {
        let fits = group.0 > 0 && group.0 < GENERATIONS && view < VIEWS;
        fits.then_some(WordFields { group, view, last })
    }

    fn of(word: u64) -> WordFields {
        let group = Generation(word >> 44);
        WordFields { group, view: (word >> 8) & (VIEWS - 1), last: word as u8 }
    }

    fn is_member_of(self, group: Generation) -> bool {
        self.group == group && group != Generation::NONE && self.last < SLOTS
    }

    fn word(self) -> u64 {
        self.group.0 << 44 | self.view << 8 | u64::from(self.last)
    }
}

/// Word that holds the decision for the newest view. There is one for each host.
#[repr(transparent)]
#[derive(Default)]
pub struct DecisionWord(AtomicU64);

impl DecisionWord {
    /// Founding that the word is about; [`Generation::NONE`] before the first.
    pub fn group(&self) -> Generation {
        WordFields::of(self.0.load(Ordering::Acquire)).group
    }

    /// Takes `ballot` as the decision for a view of this group if there is none; returns the valid
    /// decision (I-60). `None` if the group is past that view or is not the one founded last, or if
    /// the word cannot hold the numbers.
    pub fn settle(&self, group: Generation, view: u64, ballot: Rank) -> Option<Rank> {
        let last = u8::try_from(ballot.0).ok().filter(|&last| last < SLOTS)?;
        let new = WordFields::new(group, view, last)?.word();
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            let parts = WordFields::of(now);
            if parts.group != group || parts.view > view {
                return None;
            }
            if parts.view == view {
                return (parts.last < SLOTS).then_some(Rank(parts.last.into()));
            }
            match self.0.compare_exchange(now, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(ballot),
                // Another node has settled something.
                Err(other) => now = other,
            }
        }
    }

    /// Initialises the word of a host whose groups up to `group` are all gone, so that nothing is
    /// settled in any of them. No other node may be using the word yet.
    pub fn resume_after(&self, group: Generation) {
        let last = Generation(group.0.min(GENERATIONS - 1));
        let word = WordFields { group: last, view: VIEWS - 1, last: BARRED }.word();
        self.0.store(if last == Generation::NONE { 0 } else { word }, Ordering::Release);
    }

    /// Begins a new group. A late settling in the previous group either comes before this or
    /// is refused.
    fn begin(&self, group: Generation) {
        self.0.swap(WordFields { group, view: FIRST.0, last: FIRST.1 }.word(), Ordering::AcqRel);
    }
}

/// A node's membership in the group of its host.
#[repr(transparent)]
#[derive(Default)]
pub struct HostSeat(AtomicU64);

impl HostSeat {
    /// Whether its node has entered this group.
    pub fn is_member(&self, group: Generation) -> bool {
        WordFields::of(self.0.load(Ordering::Acquire)).is_member_of(group)
    }

    /// Makes its node a member of this group. Returns false if the group is not the one founded
    /// last, or was given up while the node was on its way into it; the node is then no member.
    pub fn enter(&self, word: &DecisionWord, group: Generation, view: u64, slot: u8) -> bool {
        let Some(new) = WordFields::new(group, view, slot).filter(|_| slot < SLOTS) else {
            return false;
        };
        // A node that takes its seat after a founding sees the founding here; a node that had its
        // seat before is barred by it.
        if word.group() != group {
            return false;
        }
        self.change(|now| {
            let barred = now.group > group || (now.group == group && now.last == BARRED);
            (!barred).then_some(new.word())
        })
    }

    /// Makes its node a member of no group.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Makes its node a member of no group, if the node entered this group in one of these slots
    /// before this view.
    pub fn clear_if(&self, group: Generation, view: u64, slots: u64) {
        self.change(|now| {
            let member = now.is_member_of(group) && now.view < view;
            (member && slots >> now.last & 1 == 1).then_some(0)
        });
    }

    /// Bars its node from entering this group. Returns false if the node is a member.
    fn bar(&self, group: Generation) -> bool {
        self.change(|now| {
            (!now.is_member_of(group)).then_some(WordFields { group, view: 0, last: BARRED }.word())
        })
    }

    fn unbar(&self) {
        self.change(|now| (now.last == BARRED).then_some(0));
    }

    /// Applies `new` to the word. Returns false if `new` keeps the word as it is.
    fn change(&self, new: impl Fn(WordFields) -> Option<u64>) -> bool {
        let update = |now: u64| new(WordFields::of(now));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).is_ok()
    }
}

/// Founds a group for the node of seat `own`, unless a member of the last group `lives` (I-61). The
/// caller holds the host's lock: no other node founds, and no node gets or loses a seat.
///
/// # Errors
/// The errors of `lives`. Then only nodes that were no members may have been barred; each of them
/// is let in again when it asks itself.
pub fn found<E>(
    word: &DecisionWord,
    seats: &[&HostSeat],
    own_seat: usize,
    mut lives: impl FnMut(usize) -> Result<bool, E>,
) -> Result<Founding, E> {
    let group = word.group();
    seats[own_seat].unbar();
    if seats[own_seat].is_member(group) {
        return Ok(Founding::Exists(group));
    }
    let others = || seats.iter().enumerate().filter(|&(index, _)| index != own_seat);
    // No node is barred while there is a group to enter.
    for (index, seat) in others() {
        if seat.is_member(group) {
            if lives(index)? {
                return Ok(Founding::Exists(group));
            }
            seat.clear();
        }
    }
    let next = Generation(group.0 + 1);
    let Some(mine) = WordFields::new(next, FIRST.0, FIRST.1) else {
        return Ok(Founding::Exhausted);
    };
    for (index, seat) in others() {
        // A node admitted by the last member before it died may just have entered.
        if !seat.bar(group) {
            if lives(index)? {
                return Ok(Founding::Exists(group));
            }
            seat.clear();
        }
    }
    // A founder that dies between these two stores is a member whose process is gone.
    seats[own_seat].0.store(mine.word(), Ordering::Release);
    word.begin(next);
    Ok(Founding::Founded(next))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::convert::Infallible;
    use proptest::prelude::*;

    const ONE: Generation = Generation(1);

    fn host<const N: usize>() -> (DecisionWord, [HostSeat; N]) {
        (DecisionWord::default(), core::array::from_fn(|_| HostSeat::default()))
    }

    fn ask<const N: usize>(
        host: &(DecisionWord, [HostSeat; N]),
        own_seat: usize,
        alive: [bool; N],
    ) -> Founding {
        let seats: std::vec::Vec<&HostSeat> = host.1.iter().collect();
        let lives = |seat: usize| Ok::<_, Infallible>(alive[seat]);
        found(&host.0, &seats, own_seat, lives).unwrap_or_else(|never| match never {})
    }

    #[test]
    fn node_admitted_to_abandoned_group_does_not_enter() {
        let host = host::<3>();
        assert_eq!(ask(&host, 0, [true; 3]), Founding::Founded(ONE));
        assert_eq!(ask(&host, 1, [true; 3]), Founding::Exists(ONE));
        // Node 0 admits node 1 and dies; node 2 founds a group before node 1 has learned of
        // its admission.
        assert_eq!(ask(&host, 2, [false, true, true]), Founding::Founded(Generation(2)));
        assert!(!host.1[1].enter(&host.0, ONE, 2, 1));
        assert!(host.1[1].enter(&host.0, Generation(2), 2, 1));
    }

    #[test]
    fn member_that_has_entered_keeps_group_alive() {
        let host = host::<3>();
        ask(&host, 0, [true; 3]);
        assert!(host.1[1].enter(&host.0, ONE, 2, 1));
        assert_eq!(ask(&host, 2, [false, true, true]), Founding::Exists(ONE));
        // This has barred no node.
        assert!(host.1[2].enter(&host.0, ONE, 3, 2));
    }

    #[test]
    fn interrupted_founding_bars_no_node_permanently() {
        let host = host::<2>();
        ask(&host, 0, [true; 2]);
        assert!(host.1[1].bar(ONE));
        assert!(!host.1[1].enter(&host.0, ONE, 2, 1));
        assert_eq!(ask(&host, 1, [true; 2]), Founding::Exists(ONE));
        assert!(host.1[1].enter(&host.0, ONE, 2, 1));
    }

    #[test]
    fn interrupted_founding_is_started_again() {
        let host = host::<2>();
        ask(&host, 0, [true; 2]);
        // Node 1 was about to found and died before it had written the decision word.
        host.1[1].0.store(WordFields::new(Generation(2), 1, 0).unwrap().word(), Ordering::Release);
        assert_eq!(ask(&host, 0, [true, false]), Founding::Exists(ONE));
        host.1[0].clear();
        assert_eq!(ask(&host, 0, [true, false]), Founding::Founded(Generation(2)));
    }

    #[test]
    fn old_view_does_not_clear_seat_of_later_member() {
        let host = host::<2>();
        ask(&host, 0, [true; 2]);
        assert!(host.1[1].enter(&host.0, ONE, 5, 3));
        for (group, view, slots) in [(1, 5, !0), (2, 9, !0), (1, 9, !(1 << 3))] {
            host.1[1].clear_if(Generation(group), view, slots);
            assert!(host.1[1].is_member(ONE), "{group} {view} {slots:x}");
        }
        host.1[1].clear_if(ONE, 6, 1 << 3);
        assert!(!host.1[1].is_member(ONE));
    }

    #[test]
    fn values_that_do_not_fit_host_words_are_refused() {
        let host = host::<1>();
        assert_eq!(host.0.settle(Generation::NONE, 2, Rank(0)), None);
        ask(&host, 0, [true]);
        assert_eq!(host.0.settle(ONE, VIEWS, Rank(0)), None);
        assert_eq!(host.0.settle(ONE, 2, Rank(64)), None);
        assert_eq!(host.0.settle(ONE, 2, Rank(256)), None);
        assert!(!host.1[0].enter(&host.0, ONE, VIEWS, 1));
        assert!(!host.1[0].enter(&host.0, ONE, 2, 64));
        assert_eq!(host.0.settle(ONE, VIEWS - 1, Rank(63)), Some(Rank(63)));
        host.0.begin(Generation(GENERATIONS - 1));
        assert_eq!(ask(&host, 0, [true]), Founding::Exhausted);
    }

    proptest! {
        #[test]
        fn arbitrary_host_words_lead_to_a_consistent_founding_result(word: u64, seat: u64, view: u64, slot: u8, own: bool) {
            let host = host::<2>();
            host.0.0.store(word, Ordering::Release);
            host.1[usize::from(own)].0.store(seat, Ordering::Release);
            let group = host.0.group();
            if let Some(winner) = host.0.settle(group, view, Rank(slot.into())) {
                prop_assert!(winner.0 < 64);
            }
            host.1[1].enter(&host.0, group, view, slot);
            host.1[0].clear_if(group, view, seat);
            let told = ask(&host, 0, [true, false]);
            let after = host.0.group();
            let right = match told {
                Founding::Founded(now) => now.0 == group.0 + 1 && after == now,
                Founding::Exists(now) => now == group && after == now,
                Founding::Exhausted => group.0 + 1 == GENERATIONS,
            };
            prop_assert!(right, "{told:?} after {group:?}, now {after:?}");
        }
    }
}
