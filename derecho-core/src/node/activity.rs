//! Which subgroups a turn looks at: those in which something happens.
//!
//! Owns: the list of them, what brings a subgroup back to it, and when this node's streams are quiet.
//! Never does: rely on a peer's word for more than that peer's own messages: who says that it is
//! quiet and commits nevertheless is heard later than it could be.
//!
//! ```text
//!   looked at --all senders quiet, nothing found (I-26)--> at rest
//!        ^                                                    |
//!        '-- a count moved and a sender's mark changed; ------'
//!            something held was released; the upper layer, or news of a peer
//! ```
//! A node with few subgroups looks at all of them, and none of its streams is ever quiet.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::subgroups::Founded;
use super::{CHANGES, Node, Origin, Peers};
use crate::atomic::{AtomicU64, Ordering};
use crate::ids::{Peer, Time};
use crate::link::{Barrier, Sharing};
use crate::machine::{Effects, Target};
use crate::memory::OwnRegion;
use crate::multicast::Fault;
use crate::multicast::changes::{
    BLOCK, CHANGES_WORDS, ChangesView, MOST_STREAMS, count_for_copies, count_of_copies, is_quiet,
    word_of_mark,
};
use crate::multicast::claim::SenderMemory;

/// With so many subgroups a look at each of them costs less than what makes it needless.
const FEW: usize = 4;
/// Nothing happens in a subgroup for so long, and at most twice as long, before this node's stream in
/// it is quiet: what goes to and fro faster never pays for that. One barrier a period, for all.
const PERIOD_NS: u64 = 1_000_000;
/// No mark shows this: it is to be shown.
const UNSHOWN: u64 = u64::MAX;
/// Subgroups whose releases one word notices.
const WORD_BITS: usize = u64::BITS as usize;

/// This node's own counts.
struct Own {
    region: OwnRegion,
    barrier: Option<Arc<dyn Barrier>>,
    next_mark: usize,
}

/// The counts of 64 streams of one node.
struct Watch {
    of: Origin,
    block: usize,
    view: ChangesView,
    seen: u64,
    /// Whoever rests because these streams are quiet.
    resting: Box<[Resting; BLOCK]>,
}

#[derive(Clone, Copy, Default)]
struct Resting {
    /// What the mark showed; zero if nobody rests because of it.
    mark: u64,
    subgroup: usize,
}

/// Where a sender's mark is looked at: the watch, and which of its streams.
type Place = (usize, usize);

/// A subgroup's part of it.
#[derive(Default)]
pub(super) struct Rest {
    /// For each sender by rank.
    places: Vec<Option<Place>>,
    /// A sender that was not quiet when it was last looked at.
    awake: usize,
    resting: bool,
    /// Something was done in it in this period.
    busy: bool,
    /// What this node's mark showed when it was last shown to those who have a copy.
    shown: u64,
    /// What each sender's mark showed when it was last looked at.
    marks: Vec<u64>,
}

impl Rest {
    pub(super) fn new(senders: usize) -> Rest {
        let (places, marks) = (alloc::vec![None; senders], alloc::vec![0; senders]);
        Rest { places, marks, busy: true, ..Rest::default() }
    }

    /// Another epoch has begun, with so many senders, of a subgroup that is looked at.
    pub(super) fn begin_again(&mut self, senders: usize) {
        assert!(!self.resting, "what is told something is looked at");
        let shown = self.shown;
        *self = Rest { shown, ..Rest::new(senders) };
        self.show_again();
    }

    /// I-29: some have a copy of this node's mark to whom not every change of it was shown. One that
    /// was never shown has never changed.
    fn show_again(&mut self) {
        if self.shown != 0 {
            self.shown = UNSHOWN;
        }
    }
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Activity {
    own: Option<Own>,
    /// The subgroups that are looked at.
    active: Vec<usize>,
    watches: Vec<Watch>,
    /// A bit for each subgroup at rest in which something was released.
    released: Vec<Arc<AtomicU64>>,
    /// When this node's streams in subgroups without news are quiet.
    due: Option<Time>,
    /// Something was done, so that `due` is to be set.
    busy: bool,
}

impl Activity {
    /// A subgroup is founded, the last one of all.
    pub(super) fn add(&mut self, founded: &mut Founded, number: usize) {
        if number.is_multiple_of(WORD_BITS) {
            self.released.push(Arc::new(AtomicU64::new(0)));
        }
        let word = &self.released[number / WORD_BITS];
        founded.subgroup.notice_in(word, (number % WORD_BITS) as u32);
        self.active.push(number);
        self.busy = true;
    }

    /// The subgroups that are looked at.
    pub(super) fn active(&self) -> &[usize] {
        &self.active
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Looks at a subgroup again: something is or may be done in it.
    pub(super) fn touch(&mut self, number: usize, founded: &mut Founded) {
        self.wake(number, founded);
        founded.rest.busy = true;
        self.busy = true;
    }

    fn wake(&mut self, number: usize, founded: &mut Founded) {
        if !core::mem::take(&mut founded.rest.resting) {
            return;
        }
        for (watch, place) in founded.rest.places.iter().flatten() {
            self.watches[*watch].resting[*place] = Resting::default();
        }
        founded.subgroup.look();
        self.active.push(number);
    }

    /// Brings back the subgroups at rest in which something has happened.
    fn look(&mut self, subgroups: &mut [Founded], effects: &mut Effects) {
        effects.work().cells += self.watches.len() as u64;
        for watch in 0..self.watches.len() {
            let Watch { view, block, seen, .. } = &mut self.watches[watch];
            let count = view.count(*block);
            if core::mem::replace(seen, count) != count {
                self.look_at(watch, subgroups, effects);
            }
        }
        for word in 0..self.released.len() {
            let mut bits = self.released[word].load(Ordering::Relaxed);
            if bits == 0 {
                continue;
            }
            // Whatever is released after this sets its bit again.
            bits = self.released[word].swap(0, Ordering::Acquire);
            while bits != 0 {
                let number = word * WORD_BITS + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.wake(number, &mut subgroups[number]);
            }
        }
    }

    /// One of these 64 streams is quiet no more.
    #[cold]
    fn look_at(&mut self, watch: usize, subgroups: &mut [Founded], effects: &mut Effects) {
        effects.work().cells += BLOCK as u64;
        for place in 0..BLOCK {
            let Watch { view, block, resting, .. } = &self.watches[watch];
            let Resting { mark, subgroup } = resting[place];
            if mark != 0 && view.mark(*block * BLOCK + place) != mark {
                self.wake(subgroup, &mut subgroups[subgroup]);
            }
        }
    }

    /// Lets a subgroup rest in whose look nothing was found, if all its senders are quiet.
    fn rest(&mut self, number: usize, founded: &mut Founded, peers: &Peers) -> bool {
        let senders = founded.rest.places.len();
        if !founded.subgroup.may_rest() {
            return false;
        }
        // First the one that was not, so that a subgroup that cannot rest costs one look more.
        for rank in (founded.rest.awake..senders).chain(0..founded.rest.awake) {
            if !self.sees_quiet(founded, rank, peers) {
                founded.rest.awake = rank;
                return false;
            }
        }
        // I-26: the counts were loaded before the marks, and the marks before this look.
        if !founded.subgroup.rest() {
            return false;
        }
        founded.rest.resting = true;
        for (place, mark) in founded.rest.places.iter().zip(&founded.rest.marks) {
            if let Some((watch, place)) = *place {
                self.watches[watch].resting[place] = Resting { mark: *mark, subgroup: number };
            }
        }
        true
    }

    /// Whether the sender of this rank is quiet, which is then noted.
    fn sees_quiet(&mut self, founded: &mut Founded, rank: usize, peers: &Peers) -> bool {
        let place = founded.rest.places[rank].or_else(|| self.find(founded, rank, peers));
        founded.rest.places[rank] = place;
        let Some((watch, place)) = place else { return false };
        let Watch { view, block, resting, .. } = &self.watches[watch];
        let mark = view.mark(*block * BLOCK + place);
        founded.rest.marks[rank] = mark;
        // A peer may name one mark for two streams; one of them is looked at then.
        is_quiet(mark) && resting[place].mark == 0
    }

    /// Where the mark of a sender is, if it has one; watches its count from now on.
    #[cold]
    fn find(&mut self, founded: &Founded, rank: usize, peers: &Peers) -> Option<Place> {
        let (target, mark) = founded.subgroup.mark_of(rank)?;
        let (of, block) = (target.map_or(Origin::Own, |t| Origin::Peer(t.peer)), mark / BLOCK);
        let known = |watch: &Watch| (watch.of, watch.block) == (of, block);
        if let Some(watch) = self.watches.iter().position(known) {
            return Some((watch, mark % BLOCK));
        }
        let view = match target {
            None => ChangesView::new(self.own.as_ref()?.region.replica(), Sharing::Shared),
            Some(Target { peer, sharing }) => {
                let replica = peers.get(&peer)?.replicas.get(&CHANGES)?;
                ChangesView::new(replica.clone(), sharing)
            }
        }?;
        let resting = Box::new([Resting::default(); BLOCK]);
        self.watches.push(Watch { of, block, seen: view.count(block), view, resting });
        Some((self.watches.len() - 1, mark % BLOCK))
    }

    /// Makes this node's streams quiet in whose subgroups nothing happens. Returns how many.
    fn quiet(&mut self, now: Time, subgroups: &mut [Founded], peers: &Peers) -> usize {
        match self.due {
            None if core::mem::take(&mut self.busy) => self.due = Some(now.after(PERIOD_NS)),
            Some(due) if now >= due => return self.quiet_now(now, subgroups, peers),
            _ => {}
        }
        0
    }

    #[cold]
    fn quiet_now(&mut self, now: Time, subgroups: &mut [Founded], peers: &Peers) -> usize {
        (self.due, self.busy) = (None, false);
        let barrier = self.own.as_ref().and_then(|own| own.barrier.as_ref());
        let counts = |peer| is_counting(peers, peer);
        let mut quiet = 0;
        for &number in &self.active {
            let Founded { subgroup, rest, .. } = &mut subgroups[number];
            if core::mem::take(&mut rest.busy) {
                self.due = Some(now.after(PERIOD_NS));
            } else if barrier.is_some() && subgroup.fall_quiet(counts) {
                quiet += 1;
            }
        }
        if let Some(barrier) = barrier.filter(|_| quiet > 0) {
            // I-27: who has committed and not seen the marks is seen by the looks that follow.
            barrier.issue();
            self.active.iter().for_each(|&number| subgroups[number].subgroup.look_again());
        }
        quiet
    }

    /// Shows marks that have changed to those who have a copy of them, and then that they have.
    fn show(&mut self, subgroups: &mut [Founded], peers: &Peers, effects: &mut Effects) {
        let Some(own) = &self.own else { return };
        let mut blocks = 0_u64;
        for &number in &self.active {
            let Founded { subgroup, rest, .. } = &mut subgroups[number];
            let Some((mark, shows)) = subgroup.mark().filter(|(_, now)| *now != rest.shown) else {
                continue;
            };
            for target in subgroup.copies().filter(|target| is_counting(peers, target.peer)) {
                effects.write(target, CHANGES, word_of_mark(mark));
                blocks |= u64::from(is_quiet(rest.shown)) << (mark / BLOCK);
            }
            rest.shown = shows;
        }
        // I-26: all marks before any count. A count is posted as it is when it leaves, so one that
        // was moved for another mark, not yet posted, would say nothing of that one later.
        while blocks != 0 {
            let block = blocks.trailing_zeros() as usize;
            blocks &= blocks - 1;
            count_for_copies(&own.region, block);
            for (&peer, state) in peers {
                if state.sharing == Sharing::Copied && is_counting(peers, peer) {
                    let target = Target { peer, sharing: state.sharing };
                    effects.write(target, CHANGES, count_of_copies(block));
                }
            }
        }
    }
}

/// Whether this node's counts can be posted to a peer.
fn is_counting(peers: &Peers, peer: Peer) -> bool {
    peers.get(&peer).is_some_and(|state| state.ready.contains(&CHANGES))
}

impl Node {
    /// Counts the changes in this node's streams in `changes`, its region [`CHANGES`] of
    /// [`CHANGES_WORDS`] words, so that others need not look at those that are quiet. `barrier` is
    /// the link's; without one no stream of this node's is quiet.
    pub fn with_changes(mut self, changes: OwnRegion, barrier: Option<Arc<dyn Barrier>>) -> Node {
        assert!(changes.words() >= CHANGES_WORDS, "the region was opened for this");
        self.activity.own = Some(Own { region: changes, barrier, next_mark: 0 });
        self
    }

    /// Counts the changes in this memory, of which nobody else has a handle yet, if this node counts
    /// any.
    pub fn count_changes(&mut self, memory: SenderMemory) -> SenderMemory {
        match &mut self.activity.own {
            Some(own) if own.next_mark < MOST_STREAMS => {
                own.next_mark += 1;
                memory.with_mark(&own.region, own.next_mark - 1)
            }
            _ => memory,
        }
    }

    /// How many subgroups a turn looks at; the others are at rest.
    pub fn subgroups_looked_at(&self) -> usize {
        self.activity.active().len()
    }

    /// Whether this node is in so many subgroups that those in which nothing happens are worth a rest.
    #[inline]
    pub(super) fn is_in_many(&self) -> bool {
        self.subgroups.len() > FEW && self.activity.own.is_some()
    }

    /// Turns the subgroups in which something happens.
    #[inline(never)]
    pub(super) fn turn_active(
        &mut self,
        now: Time,
        effects: &mut Effects,
        faults: &mut Vec<(Peer, Fault)>,
    ) -> usize {
        let Node { subgroups, activity, peers, .. } = self;
        activity.look(subgroups, effects);
        let (mut done, mut index) = (0, 0);
        while let Some(&number) = activity.active.get(index) {
            let founded = &mut subgroups[number];
            let found = founded.turn(now, effects, faults);
            done += found;
            if found > 0 {
                (founded.rest.busy, activity.busy) = (true, true);
            } else if activity.rest(number, founded, peers) {
                activity.active.swap_remove(index);
                continue;
            }
            index += 1;
        }
        done += activity.quiet(now, subgroups, peers);
        activity.show(subgroups, peers, effects);
        done
    }

    /// Brings back the subgroups at rest in which something has happened.
    pub(super) fn wake_active(&mut self, effects: &mut Effects) {
        self.activity.look(&mut self.subgroups, effects);
    }

    /// Turns a subgroup, unless it is at rest.
    pub(super) fn turn_awake(
        &mut self,
        number: usize,
        now: Time,
        effects: &mut Effects,
        faults: &mut Vec<(Peer, Fault)>,
    ) -> usize {
        let founded = &mut self.subgroups[number];
        if founded.rest.resting {
            return 0;
        }
        let found = founded.turn(now, effects, faults);
        if found > 0 {
            (founded.rest.busy, self.activity.busy) = (true, true);
        }
        found
    }

    /// Looks at all subgroups again.
    pub(super) fn touch_all(&mut self) {
        let Node { subgroups, activity, .. } = self;
        subgroups.iter_mut().enumerate().for_each(|(number, f)| activity.touch(number, f));
    }

    /// From now on a peer is shown marks. What its copy of them shows may have changed meanwhile.
    pub(super) fn show_all_marks(&mut self) {
        self.subgroups.iter_mut().for_each(|founded| founded.rest.show_again());
    }

    /// A peer's counts tell nothing any more.
    pub(super) fn watch_no_more(&mut self, peer: Peer) {
        self.touch_all();
        self.activity.watches.retain(|watch| watch.of != Origin::Peer(peer));
        // Watches have moved, and nobody rests: they are found anew.
        self.subgroups.iter_mut().for_each(|founded| founded.rest.places.fill(None));
    }
}
