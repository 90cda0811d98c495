//! Two-phase commit over a shared table (Derecho paper, 3.2).
//!
//! Owns: the requests of one leader at a time, and all nodes' votes and acknowledgements. Never
//! does: decide without every live node, or declare a node dead; it relies on the link that a node
//! with a frozen row never acts again (a link that only suspects is not enough).
//!
//! ```text
//!   leader        request, participants | instance        the guard is pushed last (|)
//!   participants  vote | voted
//!   leader        outcome | ready                         ready = instance
//!   all nodes     acknowledged                            (instance, leader, outcome) in one word
//!   all nodes     finished, once all live rows acknowledge the same; acted upon only now
//! ```
//! The program needs guards, so it runs with SST-writes only. The fields serve the next instance
//! when all nodes have acknowledged this one. The leader is the live node of lowest rank. If a
//! participant fails before it has voted, the instance aborts.
//!
//! # When the leader fails
//! A node that sees a frozen row raises the bit of its rank in `suspected` and no longer follows
//! that leader. The next-ranked node waits until all live rows suspect all earlier leaders, so that
//! no acknowledgement of theirs can appear later. It then decides the last instance that any row
//! shows. Candidates are the acknowledged outcomes of that instance in all rows, frozen ones
//! included, and the outcomes that frozen leaders published. The candidate of the highest-ranked
//! leader is decided; if there is none, the instance aborts.
//!
//! Proof that no two nodes differ: a node that acts on an outcome has seen all live nodes
//! acknowledge it, under one leader. A later leader is one of these nodes, so it finds at least its
//! own acknowledgement.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::ids::Rank;
use derecho_core::row;
use derecho_core::sst::{Cell, Column, FireCondition, Scope, Table};

/// Maximum number of members: sets of members are words of bits.
pub const MAX_MEMBERS: usize = 64;

row! {
    /// Row of a node, as leader and as participant.
    pub struct Commit {
        /// As leader: the request; guarded by `instance`.
        pub request: u64,
        /// As leader: the ranks whose votes count, one bit each; guarded by `instance`.
        pub participants: u64,
        /// As leader: the number of the instance under way.
        pub instance: u64,
        /// Vote of this node; guarded by `voted`.
        pub vote: bool,
        /// Last instance voted on.
        pub voted: u64,
        /// As leader: whether the instance is committed; guarded by `ready`.
        pub outcome: bool,
        /// As leader: the last instance with an outcome.
        pub ready: u64,
        /// Last outcome seen, and its leader: an [`Acknowledgement`] in one word.
        pub acknowledged: u64,
        /// Last instance that was acted upon.
        pub finished: u64,
        /// Ranks known to have failed, one bit each: their outcomes are no longer followed.
        pub suspected: u64,
        /// Whether this node has taken the lead.
        pub leads: bool,
    }
}

impl Commit {
    /// Initial row of every node.
    pub const NONE: Commit = Commit {
        request: 0,
        participants: 0,
        instance: 0,
        vote: false,
        voted: 0,
        outcome: false,
        ready: 0,
        acknowledged: 0,
        finished: 0,
        suspected: 0,
        leads: false,
    };
}

/// Outcome as acknowledged by a row: a later instance, or a later leader, is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Acknowledgement {
    /// Number of the instance; zero before the first.
    pub instance: u64,
    /// Rank of the leader that decided the instance.
    pub leader: u8,
    /// Whether the instance is committed.
    pub committed: bool,
}

impl Acknowledgement {
    fn to_word(self) -> u64 {
        self.instance << 16 | u64::from(self.leader) << 8 | u64::from(self.committed)
    }

    fn from_word(word: u64) -> Acknowledgement {
        let (leader, committed) = ((word >> 8) as u8, word & 1 == 1);
        Acknowledgement { instance: word >> 16, leader, committed }
    }
}

/// Decision on which a node acts; the same at every node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Number of the instance, counted from 1.
    pub instance: u64,
    /// True for commit, false for abort.
    pub committed: bool,
}

/// Requests that wait at a node until it leads. Clones are handles on the same queue.
#[derive(Clone, Default, Debug)]
pub struct RequestQueue(Arc<Mutex<VecDeque<u64>>>);

impl RequestQueue {
    /// Creates an empty queue.
    pub fn new() -> RequestQueue {
        RequestQueue::default()
    }

    /// Adds a request.
    pub fn push(&self, request: u64) {
        self.queue().push_back(request);
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.queue().len()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take(&self) -> Option<u64> {
        self.queue().pop_front()
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<u64>> {
        // A queue of numbers is consistent whatever its last user did.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes part, and leads when it is this node's turn. `vote` is called once per instance, with its
/// number and the request; `decided` is called with each decision once, in order.
pub fn setup(
    requests: RequestQueue,
    mut vote: impl FnMut(u64, u64) -> bool + Send + 'static,
    decided: impl FnMut(Decision) + Send + 'static,
) -> impl FnOnce(&mut Scope<'_, Commit>) + Send + 'static {
    let decided = Arc::new(Mutex::new(decided));
    move |scope| {
        assert!(scope.len() <= MAX_MEMBERS, "a set of members is a word");
        scope.when(
            FireCondition::Always,
            |table| frozen_set(table) != own(table, Commit::suspected),
            |scope| {
                let frozen = frozen_set(scope);
                scope.publish(Commit::suspected, frozen);
            },
        );
        scope.when(FireCondition::Once, may_lead, take_the_lead);
        let finish_before = decided.clone();
        scope.when(FireCondition::Always, must_vote, move |scope| {
            // A next instance exists only because all nodes have acknowledged the last one. That
            // one is acted upon before the vote, which may depend on it.
            let last = own_acknowledgement(scope);
            finish(scope, last, &finish_before);
            let instance = scope.get(leader(scope), Commit::instance);
            let request = scope.get(leader(scope), Commit::request);
            scope.publish(Commit::vote, vote(instance, request));
            scope.publish(Commit::voted, instance);
        });
        scope.when(FireCondition::Always, may_decide, |scope| {
            let (instance, members) = proposal(scope);
            let all = scope.rows().all(|row| {
                !contains(members, row.rank())
                    || (row.get(Commit::voted) == instance && row.get(Commit::vote))
            });
            decide(scope, instance, all);
        });
        let finish_first = decided.clone();
        scope.when(
            FireCondition::Always,
            |table| shown(table) > own_acknowledgement(table),
            move |scope| {
                let (new, old) = (shown(scope), own_acknowledgement(scope));
                // A next instance exists only because all nodes have acknowledged this one.
                if new.instance > old.instance {
                    finish(scope, old, &finish_first);
                }
                scope.publish(Commit::acknowledged, new.to_word());
            },
        );
        scope.when(FireCondition::Always, may_finish, move |scope| {
            let acknowledged = own_acknowledgement(scope);
            finish(scope, acknowledged, &decided);
        });
        let waiting = requests.clone();
        scope.when(
            FireCondition::Always,
            move |table| !waiting.is_empty() && may_start(table),
            move |scope| {
                if let Some(request) = requests.take() {
                    propose(scope, request);
                }
            },
        );
    }
}

fn own<C: Cell>(table: &Table<Commit>, column: Column<Commit, C>) -> C {
    table.get(table.me(), column)
}

fn contains(set: u64, rank: Rank) -> bool {
    set >> rank.index() & 1 == 1
}

fn frozen_set(table: &Table<Commit>) -> u64 {
    let frozen = table.ranks().filter(|&rank| table.is_frozen(rank));
    frozen.fold(0, |set, rank| set | 1 << rank.index())
}

fn live_set(table: &Table<Commit>) -> u64 {
    table.live().iter().fold(0, |set, row| set | 1 << row.rank().index())
}

/// Returns the leader that this node follows: the live node of lowest rank.
fn leader(table: &Table<Commit>) -> Rank {
    table.ranks().find(|&rank| !table.is_frozen(rank)).unwrap_or(table.me())
}

fn acknowledgement(table: &Table<Commit>, rank: Rank) -> Acknowledgement {
    Acknowledgement::from_word(table.get(rank, Commit::acknowledged))
}

fn own_acknowledgement(table: &Table<Commit>) -> Acknowledgement {
    acknowledgement(table, table.me())
}

/// Returns the outcome that a leader's row shows.
fn published(table: &Table<Commit>, leader: Rank) -> Acknowledgement {
    // Load the guard first.
    let instance = table.get(leader, Commit::ready);
    let committed = table.get(leader, Commit::outcome);
    Acknowledgement { instance, leader: leader.0 as u8, committed }
}

/// Returns the outcome shown by the leader that this node follows.
fn shown(table: &Table<Commit>) -> Acknowledgement {
    published(table, leader(table))
}

/// Whether all live rows suspect all ranks before this one.
fn may_lead(table: &Table<Commit>) -> bool {
    let before = (1u64 << table.me().index()) - 1;
    table.live().all(|row| row.get(Commit::suspected) & before == before)
}

fn take_the_lead(scope: &mut Scope<'_, Commit>) {
    let last = scope.rows().max(|row| {
        let acknowledged = Acknowledgement::from_word(row.get(Commit::acknowledged)).instance;
        row.get(Commit::instance).max(row.get(Commit::voted)).max(acknowledged)
    });
    if last > 0 {
        let acknowledged = scope.rows().max(|row| {
            let word = Acknowledgement::from_word(row.get(Commit::acknowledged));
            (word.instance == last).then_some(word)
        });
        let frozen = scope.ranks().filter(|&rank| scope.is_frozen(rank));
        let published = frozen
            .map(|rank| published(scope, rank))
            .filter(|outcome| outcome.instance == last)
            .max();
        let committed = acknowledged.max(published).is_some_and(|outcome| outcome.committed);
        // No node may vote any more, so the outcome is published before the instance.
        decide(scope, last, committed);
        scope.publish(Commit::instance, last);
    }
    scope.publish(Commit::leads, true);
}

fn must_vote(table: &Table<Commit>) -> bool {
    let leader = leader(table);
    let instance = table.get(leader, Commit::instance);
    instance > own(table, Commit::voted)
        && instance > own_acknowledgement(table).instance
        && instance > table.get(leader, Commit::ready)
}

/// Returns the instance that this node leads, and the ranks whose votes count.
fn proposal(table: &Table<Commit>) -> (u64, u64) {
    (own(table, Commit::instance), own(table, Commit::participants))
}

fn may_decide(table: &Table<Commit>) -> bool {
    let (instance, members) = proposal(table);
    if !own(table, Commit::leads) || instance == own(table, Commit::ready) {
        return false;
    }
    let voted = |rank| table.get(rank, Commit::voted) == instance;
    let refused = table
        .rows()
        .any(|row| contains(members, row.rank()) && voted(row.rank()) && !row.get(Commit::vote));
    let complete = table.rows().all(|row| {
        !contains(members, row.rank()) || voted(row.rank()) || table.is_frozen(row.rank())
    });
    refused || complete
}

fn decide(scope: &mut Scope<'_, Commit>, instance: u64, committed: bool) {
    scope.publish(Commit::outcome, committed);
    scope.publish(Commit::ready, instance);
}

/// Whether all live rows acknowledge what this one does, or a later instance.
fn may_finish(table: &Table<Commit>) -> bool {
    let mine = own_acknowledgement(table);
    mine.instance > own(table, Commit::finished)
        && table.live().all(|row| {
            let theirs = Acknowledgement::from_word(row.get(Commit::acknowledged));
            theirs == mine || theirs.instance > mine.instance
        })
}

fn finish<D: FnMut(Decision)>(
    scope: &mut Scope<'_, Commit>,
    outcome: Acknowledgement,
    decided: &Mutex<D>,
) {
    let Acknowledgement { instance, committed, .. } = outcome;
    if instance > own(scope, Commit::finished) {
        scope.publish(Commit::finished, instance);
        decided.lock().unwrap_or_else(PoisonError::into_inner)(Decision { instance, committed });
    }
}

/// Whether this node leads, and all nodes have finished the last instance.
fn may_start(table: &Table<Commit>) -> bool {
    let instance = own(table, Commit::instance);
    own(table, Commit::leads)
        && own(table, Commit::finished) == instance
        && own_acknowledgement(table).instance == instance
        && table.live().all(|row| row.get(Commit::acknowledged) == own(table, Commit::acknowledged))
}

fn propose(scope: &mut Scope<'_, Commit>, request: u64) {
    let instance = own(scope, Commit::instance) + 1;
    let participants = live_set(scope);
    scope.publish(Commit::request, request);
    scope.publish(Commit::participants, participants);
    scope.publish(Commit::instance, instance);
}
