//! Set of active subgroups, to which a turn is limited.
//!
//! Owns: the list of active subgroups, the events that activate a subgroup, and the moments
//! when this node's streams become quiet. Never does: rely on a peer's claims for more than
//! that peer's own messages: messages of a peer that says it is quiet and commits nevertheless
//! are noticed late.
//!
//! ```text
//!   active --all senders quiet, nothing found (I-26)--> at rest
//!        ^                                                 |
//!        '-- a count moved and a sender's mark changed; ---'
//!            held memory was released; a call of the upper layer, or news of a peer
//! ```
//! A node with few subgroups treats all of them as active, and none of its streams
//! ever becomes quiet.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::subgroups::FoundedSubgroup;
use super::{CHANGES, FoundFault, Node, Peers, StreamOrigin};
use crate::atomic::{AtomicU64, Ordering};
use crate::ids::{Peer, Time};
use crate::link::{Barrier, Sharing};
use crate::machine::{Effects, Target};
use crate::memory::OwnRegion;
use crate::multicast::changes::{
    BLOCK, CHANGES_WORDS, ChangesView, MOST_STREAMS, count_for_copies, count_of_copies, is_quiet,
    word_of_mark,
};
use crate::multicast::claim::SenderMemory;

/// Maximum number of subgroups for which a look at each of them is cheaper than the bookkeeping
/// that avoids it.
const FEW: usize = 4;
/// Time without work in a subgroup after which this node's stream there becomes quiet, in
/// nanoseconds; the actual time is up to twice as long. Traffic with shorter pauses never pays for
/// that. One barrier is issued in a period, for all streams.
const PERIOD_NS: u64 = 1_000_000;
/// Value that no mark has: the mark must be shown.
const UNSHOWN: u64 = u64::MAX;
/// Number of subgroups whose releases one word records.
const WORD_BITS: usize = u64::BITS as usize;

/// Change counts of this node.
struct OwnChangeCounts {
    region: OwnRegion,
    barrier: Option<Arc<dyn Barrier>>,
    next_mark: usize,
}

/// Change counts of 64 streams of one node.
struct ChangeWatch {
    of: StreamOrigin,
    block: usize,
    view: ChangesView,
    seen: u64,
    /// Subgroups that rest because these streams are quiet.
    resting: Box<[RestingSubgroup; BLOCK]>,
}

#[derive(Clone, Copy, Default)]
struct RestingSubgroup {
    /// Value of the mark; zero if no subgroup rests because of it.
    mark: u64,
    subgroup: usize,
}

/// Location of a sender's mark: index of the watch, and index of the stream in it.
type MarkLocation = (usize, usize);

/// Activity state of one subgroup.
#[derive(Default)]
pub(super) struct SubgroupActivity {
    /// Location of each sender's mark, by rank.
    locations: Vec<Option<MarkLocation>>,
    /// Rank of a sender that was not quiet at the last look.
    awake: usize,
    resting: bool,
    /// Whether the subgroup had work in this period.
    busy: bool,
    /// Value of this node's mark when it was last shown to nodes with a copy.
    shown: u64,
    /// Value of each sender's mark at the last look.
    marks: Vec<u64>,
}

impl SubgroupActivity {
    pub(super) fn new(senders: usize) -> SubgroupActivity {
        let (locations, marks) = (alloc::vec![None; senders], alloc::vec![0; senders]);
        SubgroupActivity { locations, marks, busy: true, ..SubgroupActivity::default() }
    }

    /// Begins another epoch with this number of senders. The subgroup must be active.
    pub(super) fn begin_again(&mut self, senders: usize) {
        assert!(!self.resting, "the subgroup is active when an epoch begins");
        let shown = self.shown;
        *self = SubgroupActivity { shown, ..SubgroupActivity::new(senders) };
        self.show_again();
    }

    /// Requests that this node's mark is shown again (I-29): some nodes have a copy that missed
    /// changes of the mark. A mark that was never shown has never changed.
    fn show_again(&mut self) {
        if self.shown != 0 {
            self.shown = UNSHOWN;
        }
    }
}

/// Activity of all subgroups of a node. See the [module](self).
#[derive(Default)]
pub(super) struct Activity {
    own_counts: Option<OwnChangeCounts>,
    /// Active subgroups.
    active: Vec<usize>,
    watches: Vec<ChangeWatch>,
    /// One bit for each subgroup at rest in which memory was released.
    released: Vec<Arc<AtomicU64>>,
    /// Time at which this node's streams in subgroups without news become quiet.
    due: Option<Time>,
    /// Whether there was work, so that `due` must be set.
    busy: bool,
}

impl Activity {
    /// Adds a subgroup, which is the last one of all.
    pub(super) fn add(&mut self, founded: &mut FoundedSubgroup, number: usize) {
        if number.is_multiple_of(WORD_BITS) {
            self.released.push(Arc::new(AtomicU64::new(0)));
        }
        let word = &self.released[number / WORD_BITS];
        founded.subgroup.notice_in(word, (number % WORD_BITS) as u32);
        self.active.push(number);
        self.busy = true;
    }

    /// Active subgroups.
    pub(super) fn active(&self) -> &[usize] {
        &self.active
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Activates a subgroup in which there is, or may be, work.
    pub(super) fn touch(&mut self, number: usize, founded: &mut FoundedSubgroup) {
        self.wake(number, founded);
        founded.activity.busy = true;
        self.busy = true;
    }

    fn wake(&mut self, number: usize, founded: &mut FoundedSubgroup) {
        if !core::mem::take(&mut founded.activity.resting) {
            return;
        }
        for (watch, index) in founded.activity.locations.iter().flatten() {
            self.watches[*watch].resting[*index] = RestingSubgroup::default();
        }
        founded.subgroup.look();
        self.active.push(number);
    }

    /// Activates the resting subgroups in which something has happened.
    fn look(&mut self, subgroups: &mut [FoundedSubgroup], effects: &mut Effects) {
        effects.work().cells += self.watches.len() as u64;
        for watch in 0..self.watches.len() {
            let ChangeWatch { view, block, seen, .. } = &mut self.watches[watch];
            let count = view.count(*block);
            if core::mem::replace(seen, count) != count {
                self.check_block(watch, subgroups, effects);
            }
        }
        for word in 0..self.released.len() {
            let mut bits = self.released[word].load(Ordering::Relaxed);
            if bits == 0 {
                continue;
            }
            // A later release sets its bit again.
            bits = self.released[word].swap(0, Ordering::Acquire);
            while bits != 0 {
                let number = word * WORD_BITS + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.wake(number, &mut subgroups[number]);
            }
        }
    }

    /// Handles a moved count: one of these 64 streams is no longer quiet.
    #[cold]
    fn check_block(
        &mut self,
        watch: usize,
        subgroups: &mut [FoundedSubgroup],
        effects: &mut Effects,
    ) {
        effects.work().cells += BLOCK as u64;
        for index in 0..BLOCK {
            let ChangeWatch { view, block, resting, .. } = &self.watches[watch];
            let RestingSubgroup { mark, subgroup } = resting[index];
            if mark != 0 && view.mark(*block * BLOCK + index) != mark {
                self.wake(subgroup, &mut subgroups[subgroup]);
            }
        }
    }

    /// Lets a subgroup without news rest, if all its senders are quiet.
    fn rest(&mut self, number: usize, founded: &mut FoundedSubgroup, peers: &Peers) -> bool {
        let senders = founded.activity.locations.len();
        if !founded.subgroup.may_rest() {
            return false;
        }
        // Checks the sender that was not quiet first, so that a subgroup that cannot rest costs
        // one look more.
        for rank in (founded.activity.awake..senders).chain(0..founded.activity.awake) {
            if !self.sees_quiet(founded, rank, peers) {
                founded.activity.awake = rank;
                return false;
            }
        }
        // I-26: the counts were loaded before the marks, and the marks before this look.
        if !founded.subgroup.rest() {
            return false;
        }
        founded.activity.resting = true;
        for (location, mark) in founded.activity.locations.iter().zip(&founded.activity.marks) {
            if let Some((watch, index)) = *location {
                self.watches[watch].resting[index] =
                    RestingSubgroup { mark: *mark, subgroup: number };
            }
        }
        true
    }

    /// Whether the sender of this rank is quiet. Records the mark.
    fn sees_quiet(&mut self, founded: &mut FoundedSubgroup, rank: usize, peers: &Peers) -> bool {
        let location = founded.activity.locations[rank].or_else(|| self.find(founded, rank, peers));
        founded.activity.locations[rank] = location;
        let Some((watch, index)) = location else { return false };
        let ChangeWatch { view, block, resting, .. } = &self.watches[watch];
        let mark = view.mark(*block * BLOCK + index);
        founded.activity.marks[rank] = mark;
        // A peer may name one mark for two streams; only one of them rests in that case.
        is_quiet(mark) && resting[index].mark == 0
    }

    /// Location of a sender's mark, if it has one. Watches its count from now on.
    #[cold]
    fn find(
        &mut self,
        founded: &FoundedSubgroup,
        rank: usize,
        peers: &Peers,
    ) -> Option<MarkLocation> {
        let (target, mark) = founded.subgroup.mark_of(rank)?;
        let (of, block) =
            (target.map_or(StreamOrigin::Own, |t| StreamOrigin::Peer(t.peer)), mark / BLOCK);
        let known = |watch: &ChangeWatch| (watch.of, watch.block) == (of, block);
        if let Some(watch) = self.watches.iter().position(known) {
            return Some((watch, mark % BLOCK));
        }
        let view = match target {
            None => ChangesView::new(self.own_counts.as_ref()?.region.replica(), Sharing::Shared),
            Some(Target { peer, sharing }) => {
                let replica = peers.get(&peer)?.replicas.get(&CHANGES)?;
                ChangesView::new(replica.clone(), sharing)
            }
        }?;
        let resting = Box::new([RestingSubgroup::default(); BLOCK]);
        self.watches.push(ChangeWatch { of, block, seen: view.count(block), view, resting });
        Some((self.watches.len() - 1, mark % BLOCK))
    }

    /// Makes this node's streams quiet in subgroups without work. Returns the number
    /// of these streams.
    fn quiet(&mut self, now: Time, subgroups: &mut [FoundedSubgroup], peers: &Peers) -> usize {
        match self.due {
            None if core::mem::take(&mut self.busy) => self.due = Some(now.after(PERIOD_NS)),
            Some(due) if now >= due => return self.quiet_now(now, subgroups, peers),
            _ => {}
        }
        0
    }

    #[cold]
    fn quiet_now(&mut self, now: Time, subgroups: &mut [FoundedSubgroup], peers: &Peers) -> usize {
        (self.due, self.busy) = (None, false);
        let barrier = self.own_counts.as_ref().and_then(|own| own.barrier.as_ref());
        let counts = |peer| is_counting(peers, peer);
        let mut quiet = 0;
        for &number in &self.active {
            let FoundedSubgroup { subgroup, activity: rest, .. } = &mut subgroups[number];
            if core::mem::take(&mut rest.busy) {
                self.due = Some(now.after(PERIOD_NS));
            } else if barrier.is_some() && subgroup.fall_quiet(counts) {
                quiet += 1;
            }
        }
        if let Some(barrier) = barrier.filter(|_| quiet > 0) {
            // I-27: the looks that follow see every commit whose thread has not seen the marks.
            barrier.issue();
            self.active.iter().for_each(|&number| subgroups[number].subgroup.look_again());
        }
        quiet
    }

    /// Shows changed marks to nodes with a copy of them, and then moves the counts.
    fn show(&mut self, subgroups: &mut [FoundedSubgroup], peers: &Peers, effects: &mut Effects) {
        let Some(own) = &self.own_counts else { return };
        let mut blocks = 0_u64;
        for &number in &self.active {
            let FoundedSubgroup { subgroup, activity: rest, .. } = &mut subgroups[number];
            let Some((mark, shows)) = subgroup.mark().filter(|(_, now)| *now != rest.shown) else {
                continue;
            };
            for target in subgroup.copies().filter(|target| is_counting(peers, target.peer)) {
                effects.write(target, CHANGES, word_of_mark(mark));
                blocks |= u64::from(is_quiet(rest.shown)) << (mark / BLOCK);
            }
            rest.shown = shows;
        }
        // I-26: all marks precede any count. A count is posted with its value at departure. A count
        // that was already moved for a mark not yet posted would not announce that mark later.
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
    /// Counts the changes of this node's streams in `changes`, the region [`CHANGES`] with
    /// [`CHANGES_WORDS`] words, so that other nodes need not look at quiet streams. `barrier`: the
    /// barrier of the link; without one, no stream of this node becomes quiet.
    pub fn with_changes(mut self, changes: OwnRegion, barrier: Option<Arc<dyn Barrier>>) -> Node {
        assert!(changes.words() >= CHANGES_WORDS, "the region was opened for this");
        self.activity.own_counts = Some(OwnChangeCounts { region: changes, barrier, next_mark: 0 });
        self
    }

    /// Enables change counts for this memory if this node has any. No other handle to the memory
    /// may exist yet.
    pub fn count_changes(&mut self, memory: SenderMemory) -> SenderMemory {
        match &mut self.activity.own_counts {
            Some(own) if own.next_mark < MOST_STREAMS => {
                own.next_mark += 1;
                memory.with_mark(&own.region, own.next_mark - 1)
            }
            _ => memory,
        }
    }

    /// Number of subgroups that a turn looks at; the others are at rest.
    pub fn subgroups_looked_at(&self) -> usize {
        self.activity.active().len()
    }

    /// Whether this node is in enough subgroups for inactive ones to rest.
    #[inline]
    pub(super) fn is_in_many(&self) -> bool {
        self.subgroups.len() > FEW && self.activity.own_counts.is_some()
    }

    /// Runs the turns of the active subgroups.
    #[inline(never)]
    pub(super) fn turn_active(
        &mut self,
        now: Time,
        effects: &mut Effects,
        faults: &mut Vec<FoundFault>,
    ) -> usize {
        let Node { subgroups, activity, peers, .. } = self;
        activity.look(subgroups, effects);
        let (mut done, mut index) = (0, 0);
        while let Some(&number) = activity.active.get(index) {
            let founded = &mut subgroups[number];
            let found = founded.turn(now, effects, faults);
            done += found;
            if found > 0 {
                (founded.activity.busy, activity.busy) = (true, true);
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

    /// Activates the resting subgroups in which something has happened.
    pub(super) fn wake_active(&mut self, effects: &mut Effects) {
        self.activity.look(&mut self.subgroups, effects);
    }

    /// Runs the turn of a subgroup, unless it is at rest.
    pub(super) fn turn_awake(
        &mut self,
        number: usize,
        now: Time,
        effects: &mut Effects,
        faults: &mut Vec<FoundFault>,
    ) -> usize {
        let founded = &mut self.subgroups[number];
        if founded.activity.resting {
            return 0;
        }
        let found = founded.turn(now, effects, faults);
        if found > 0 {
            (founded.activity.busy, self.activity.busy) = (true, true);
        }
        found
    }

    /// Activates all subgroups.
    pub(super) fn touch_all(&mut self) {
        let Node { subgroups, activity, .. } = self;
        subgroups.iter_mut().enumerate().for_each(|(number, f)| activity.touch(number, f));
    }

    /// Requests that all marks are shown again, because a peer can receive them now. Its copy of
    /// them may be out of date.
    pub(super) fn show_all_marks(&mut self) {
        self.subgroups.iter_mut().for_each(|founded| founded.activity.show_again());
    }

    /// Stops the use of a peer's counts.
    pub(super) fn watch_no_more(&mut self, peer: Peer) {
        self.touch_all();
        self.activity.watches.retain(|watch| watch.of != StreamOrigin::Peer(peer));
        // Indices of watches have changed, and no subgroup rests: the locations are searched again.
        self.subgroups.iter_mut().for_each(|founded| founded.activity.locations.fill(None));
    }
}
