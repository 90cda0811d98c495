//! A shared state table as one node sees it.
//!
//! Owns: the node's own row (a private copy, and the region that peers see), the replicas of all
//! other rows, and the posts still to be made. Never does: decide who is in the table, or evaluate
//! a predicate.
//!
//! ```text
//!   own region:  line 0 [fingerprint][gathered]   lines 1.. [ the row ]
//!   set()  changes the private copy; nobody sees it
//!   push() copies columns from the private copy into the region, notes a post to every other row
//! ```
//! The private copy makes all links behave alike. In shared memory, a bare store would be visible
//! at once; on other links, only a post makes it visible. The price is one copy of a few words.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell as Counter;
use core::marker::PhantomData;

use super::layout::{Cell, Column, TableRow};
use super::reduce::{Cells, RowSet};
use crate::ids::{Rank, RegionId};
use crate::link::WordRange;
use crate::machine::{Effects, Target, Work};
use crate::memory::{LINE_WORDS, OwnRegion, Replica, WORD};

/// Words before the row: a line with the fingerprint.
pub(super) const HEADER: usize = LINE_WORDS;

/// Number of words of a region that holds a row of type `R`.
pub(super) const fn region_words<R: TableRow>() -> usize {
    HEADER + R::WORDS.div_ceil(LINE_WORDS) * LINE_WORDS
}

/// Another node's row.
pub(super) struct PeerRow {
    pub(super) target: Target,
    pub(super) replica: Replica,
    /// The row at the time when its owner failed. If present, only this copy is read.
    pub(super) frozen: Option<Box<[u64]>>,
}

/// A shared state table of rows `R`, as one node sees it.
pub struct Table<R: TableRow> {
    own_region: OwnRegion,
    region: RegionId,
    me: Rank,
    local_row: Box<[u64]>,
    peers: Vec<Option<PeerRow>>,
    pushes: Vec<WordRange>,
    /// Whether rows are posted to peers (SST-writes) or fetched by them (SST-reads).
    posts: bool,
    /// Cells read since the work was last accounted for, and bytes copied by pushes and by reads of
    /// more than one word.
    looks: Counter<u64>,
    copied: Counter<u64>,
    _row: PhantomData<R>,
}

impl<R: TableRow> Table<R> {
    /// Creates a table in which `me` is this node's row; `peers` has the other rows by rank.
    pub(super) fn new(
        own_region: OwnRegion,
        region: RegionId,
        me: Rank,
        peers: Vec<Option<PeerRow>>,
        posts: bool,
        initial: R,
    ) -> Self {
        assert!(
            own_region.words() >= region_words::<R>(),
            "the caller opened the region for this row"
        );
        let mut local_row = vec![0; R::WORDS].into_boxed_slice();
        initial.put(&mut |index, word| local_row[index] = word);
        let (pushes, looks, copied) = (Vec::new(), Counter::new(0), Counter::new(0));
        Table {
            own_region,
            region,
            me,
            local_row,
            peers,
            pushes,
            posts,
            looks,
            copied,
            _row: PhantomData,
        }
    }

    /// Rank of this node, which is the number of its row.
    pub fn me(&self) -> Rank {
        self.me
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether there are no rows; the own row always exists.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns all ranks, in order.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<R> {
        (0..self.peers.len() as u16).map(Rank)
    }

    /// Sets a cell of the own row. Other nodes see it once it is pushed.
    pub fn set<C: Cell>(&mut self, column: Column<R, C>, value: C) {
        column.put(value, &mut self.local_row);
    }

    /// Sets a column of the own row and pushes it.
    pub fn publish<C: Cell>(&mut self, column: Column<R, C>, value: C) {
        self.set(column, value);
        self.push(column);
    }

    /// Pushes one column of the own row to all others.
    pub fn push<C: Cell>(&mut self, column: Column<R, C>) {
        self.push_words(column.first_word(), column.words());
    }

    /// Pushes the own row to all others. A reader may see a part of it before the rest. If one
    /// column vouches for others, push those first and it afterwards. A link may read the row late:
    /// while this push is in flight, it may carry values of later pushes, guards before what they
    /// guard. A row with guards is therefore not pushed whole.
    pub fn push_row(&mut self) {
        self.push_words(0, R::WORDS);
    }

    fn push_words(&mut self, first: usize, count: usize) {
        for index in first..first + count {
            self.own_region.word(HEADER + index).publish(self.local_row[index]);
        }
        self.copied.set(self.copied.get() + (count * WORD) as u64);
        self.pushes.push(WordRange::new(HEADER + first, count));
    }

    /// Reads a cell of any row: the own row as last set, other rows as last seen.
    #[inline]
    pub fn get<C: Cell>(&self, rank: Rank, column: Column<R, C>) -> C {
        self.look(C::WORDS);
        column.take(|word| self.word(rank, word))
    }

    /// Reads a whole row. Its cells may come from different pushes, even if one guards another:
    /// read a guard first by [`Table::get`], or take a [`Table::snapshot`].
    pub fn row(&self, rank: Rank) -> R {
        self.look(R::WORDS);
        R::take(&mut |word| self.word(rank, word))
    }

    /// Returns all rows, including frozen ones, for reduction.
    pub fn rows(&self) -> RowSet<'_, R, Table<R>> {
        RowSet::new(self, true)
    }

    /// Returns the rows whose owners have not failed, for reduction.
    pub fn live(&self) -> RowSet<'_, R, Table<R>> {
        RowSet::new(self, false)
    }

    /// Returns a copy of all rows, which never changes. Each row is read from right to left, so a
    /// column that guards others to its left guards them in the copy as well.
    pub fn snapshot(&self) -> Snapshot<R> {
        let mut words = vec![0; R::WORDS];
        let copy = |rank| {
            self.look(R::WORDS);
            for index in (0..R::WORDS).rev() {
                words[index] = self.word(rank, index);
            }
            R::take(&mut |index| words[index])
        };
        Snapshot {
            me: self.me,
            rows: self.ranks().map(copy).collect(),
            frozen: self.ranks().map(|rank| self.is_frozen(rank)).collect(),
        }
    }

    /// Whether the owner of this row has failed, so that the row no longer changes.
    pub fn is_frozen(&self, rank: Rank) -> bool {
        self.peers[rank.index()].as_ref().is_some_and(|peer| peer.frozen.is_some())
    }

    /// Freezes the row of a failed node. Later writes of its owner are not seen, and nothing more
    /// is pushed to it (I-17). Freezing a row twice, or freezing the own row, does nothing.
    pub fn freeze(&mut self, rank: Rank) {
        if let Some(Some(peer)) = self.peers.get_mut(rank.index())
            && peer.frozen.is_none()
        {
            // Words are copied from right to left, as guards are read; the owner may still
            // be writing.
            let mut row = vec![0; R::WORDS].into_boxed_slice();
            for index in (0..R::WORDS).rev() {
                row[index] = peer.replica.load(HEADER + index);
            }
            peer.frozen = Some(row);
        }
    }

    /// Returns the rank of the row of a link's peer.
    pub(super) fn rank_of(&self, peer: crate::ids::Peer) -> Option<Rank> {
        let index = self
            .peers
            .iter()
            .position(|row| row.as_ref().is_some_and(|r| r.target.peer == peer))?;
        Some(Rank(index as u16))
    }

    /// Turns the pushes since the last call into posts, in their order (I-15), after the work
    /// before them.
    pub(super) fn flush(&mut self, effects: &mut Effects) {
        self.add_work(effects.work());
        for range in self.pushes.drain(..) {
            if !self.posts {
                continue;
            }
            for peer in self.peers.iter().flatten().filter(|peer| peer.frozen.is_none()) {
                effects.write(peer.target, self.region, range);
            }
        }
    }

    /// Discards the cost of reads from outside a predicate or trigger.
    pub(super) fn forget_looks(&self) {
        self.add_work(&mut Work::default());
    }

    /// Adds the reads and copies since the last call to `work`.
    pub(super) fn add_work(&self, work: &mut Work) {
        work.cells += self.looks.take();
        work.copied_bytes += self.copied.take();
    }

    #[inline]
    fn look(&self, words: usize) {
        self.looks.set(self.looks.get() + 1);
        if words > 1 {
            self.copied.set(self.copied.get() + (words * WORD) as u64);
        }
    }

    #[inline]
    fn word(&self, rank: Rank, word: usize) -> u64 {
        match &self.peers[rank.index()] {
            None => self.local_row[word],
            Some(PeerRow { frozen: Some(row), .. }) => row[word],
            Some(peer) => peer.replica.load(HEADER + word),
        }
    }
}

impl<R: TableRow> Cells<R> for Table<R> {
    fn row_count(&self) -> usize {
        self.len()
    }
    #[inline]
    fn cell<C: Cell>(&self, rank: Rank, column: Column<R, C>) -> C {
        self.get(rank, column)
    }
    fn frozen(&self, rank: Rank) -> bool {
        self.is_frozen(rank)
    }
}

/// Copy of a table at one moment. It is pure data, never changes and needs no link.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot<R> {
    me: Rank,
    rows: Vec<R>,
    frozen: Vec<bool>,
}

impl<R: TableRow> Snapshot<R> {
    /// Rank of the node that took the snapshot.
    pub fn me(&self) -> Rank {
        self.me
    }

    /// Rows of the snapshot, by rank.
    pub fn all(&self) -> &[R] {
        &self.rows
    }

    /// Returns one row.
    pub fn row(&self, rank: Rank) -> &R {
        &self.rows[rank.index()]
    }

    /// Returns the rows of the snapshot, for reduction.
    pub fn rows(&self) -> RowSet<'_, R, Snapshot<R>> {
        RowSet::new(self, true)
    }
}

impl<R: TableRow> Cells<R> for Snapshot<R> {
    fn row_count(&self) -> usize {
        self.rows.len()
    }
    fn cell<C: Cell>(&self, rank: Rank, column: Column<R, C>) -> C {
        let mut words = vec![0; R::WORDS];
        self.rows[rank.index()].put(&mut |index, word| words[index] = word);
        column.take(|word| words[word])
    }
    fn frozen(&self, rank: Rank) -> bool {
        self.frozen[rank.index()]
    }
}
