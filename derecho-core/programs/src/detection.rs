//! Predicates of chosen size, to measure how fast and how often they are detected (SST paper, 5.5
//! and 5.6).
//!
//! Owns: a row of `S` integers, and the predicates of the paper's tables 2 and 3 and its figures 5
//! to 7. Never does: read a clock; measurements are made in the callbacks.
//!
//! ```text
//!   node 0                                            node r
//!   begin: registers (P0, T0), once                   echo: (P1, T1) is registered always
//!          a[0] = k, pushed          ------------>    P1: a[0] > a[me]
//!   P0: for i in rows, for all j: a[i][j] >= k        T1: a[me] = a[0], pushed
//!   T0: detected(k)                  <------------
//! ```
//! The paper sets the value 1 once and starts afresh; here round k sets it to k, so that one table
//! serves many rounds and its cells only grow. In an array the last element carries the round;
//! [`Elements::HELD`] is a row that satisfies every predicate from the start.

use core::ops::RangeInclusive;

use derecho_core::ids::Rank;
use derecho_core::sst::{Cell, Column, FireCondition, Scope, Table, TableRow, fingerprint};

/// A row of one column `a` of `S` integers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Elements<const S: usize> {
    /// The integers.
    pub a: [i32; S],
}

impl<const S: usize> Elements<S> {
    /// The only column.
    pub const A: Column<Self, [i32; S]> = Column::at_word(0);

    /// Row of a node that has reached every round.
    pub const HELD: Self = Elements { a: [i32::MAX; S] };

    /// Returns the row of a node that takes part in rounds: all elements satisfy the predicate
    /// except the last, which is set round by round.
    pub const fn ready() -> Self {
        let mut row = Self::HELD;
        row.a[S - 1] = 0;
        row
    }

    /// Returns the element that carries the round.
    pub fn mark() -> Column<Self, i32> {
        Self::A.at(S - 1)
    }
}

impl<const S: usize> TableRow for Elements<S> {
    const WORDS: usize = <[i32; S] as Cell>::WORDS;
    const FINGERPRINT: u64 = fingerprint(&["a", "[i32]"]).rotate_left(7) ^ S as u64;

    fn put(self, put: &mut impl FnMut(usize, u64)) {
        self.a.put(put);
    }

    fn take(get: &mut impl FnMut(usize) -> u64) -> Self {
        Elements { a: Cell::take(get) }
    }
}

/// Columns that are pushed when the mark is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Push {
    /// The mark alone.
    Mark,
    /// The whole row.
    Row,
}

/// Sets the own mark and pushes it.
pub fn set_mark<const S: usize>(table: &mut Table<Elements<S>>, round: i32, push: Push) {
    table.set(Elements::mark(), round);
    match push {
        Push::Mark => table.push(Elements::<S>::mark()),
        Push::Row => table.push_row(),
    }
}

/// Whether all elements of these rows have reached the round.
pub fn reached<const S: usize>(
    table: &Table<Elements<S>>,
    rows: RangeInclusive<u16>,
    round: i32,
) -> bool {
    rows.map(Rank).all(|rank| table.get(rank, Elements::A).iter().all(|&element| element >= round))
}

/// Begins a round at node 0: registers the one-time predicate that all `rows` have reached it, then
/// sets the own mark. The predicate calls `detected` when it fires.
pub fn begin<const S: usize>(
    scope: &mut Scope<'_, Elements<S>>,
    rows: RangeInclusive<u16>,
    round: i32,
    push: Push,
    mut detected: impl FnMut(i32) + Send + 'static,
) {
    scope.when(
        FireCondition::Once,
        move |table| reached(table, rows.clone(), round),
        move |_| detected(round),
    );
    set_mark(scope, round, push);
}

/// Repeats every round that node `of` has begun, and calls `noticed` for it.
pub fn echo<const S: usize>(
    of: Rank,
    push: Push,
    mut noticed: impl FnMut(i32) + Send + 'static,
) -> impl FnOnce(&mut Scope<'_, Elements<S>>) + Send + 'static {
    move |scope| {
        scope.when(
            FireCondition::Always,
            move |table| table.get(of, Elements::mark()) > table.get(table.me(), Elements::mark()),
            move |scope| {
                let round = scope.get(of, Elements::mark());
                set_mark(scope, round, push);
                noticed(round);
            },
        );
    }
}

/// Registers a predicate over `rows` that always holds, to count how often it fires.
pub fn spin<const S: usize>(
    rows: RangeInclusive<u16>,
    mut fired: impl FnMut() + Send + 'static,
) -> impl FnOnce(&mut Scope<'_, Elements<S>>) + Send + 'static {
    move |scope| {
        scope.when(
            FireCondition::Always,
            move |table| reached(table, rows.clone(), 1),
            move |_| fired(),
        );
    }
}
