//! Row functions and reducers, which compute one value from all rows.
//!
//! Owns: the vocabulary for predicates over a whole table. Never does: store anything; a reduction
//! that others should see is kept in a column ([`Scope::keep`]).
//!
//! A *row function* is any closure over a [`RowRef`]; a *reducer* folds it over a [`RowSet`]:
//!
//! ```text
//!   table.rows().min(|row| row.get(Step::done)) >= 7        everyone has done seven steps
//! ```
//!
//! [`Scope::keep`]: super::Scope::keep

use core::marker::PhantomData;
use core::ops::Add;

use super::layout::{Cell, Column, TableRow};
use crate::ids::Rank;

/// Source of rows: a live table, or a snapshot of one.
pub trait Cells<R: TableRow> {
    /// Number of rows.
    fn row_count(&self) -> usize;
    /// Returns one cell.
    fn cell<C: Cell>(&self, rank: Rank, column: Column<R, C>) -> C;
    /// Whether the row's owner has failed.
    fn frozen(&self, rank: Rank) -> bool;
}

/// One row, as a row function sees it.
pub struct RowRef<'a, R: TableRow, T: Cells<R>> {
    table: &'a T,
    rank: Rank,
    _row: PhantomData<R>,
}

impl<R: TableRow, T: Cells<R>> RowRef<'_, R, T> {
    /// Rank of the row's owner.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns a cell of the row.
    #[inline]
    pub fn get<C: Cell>(&self, column: Column<R, C>) -> C {
        self.table.cell(self.rank, column)
    }
}

/// Rows of a table, to be reduced.
pub struct RowSet<'a, R: TableRow, T: Cells<R>> {
    table: &'a T,
    with_frozen: bool,
    _row: PhantomData<R>,
}

impl<'a, R: TableRow, T: Cells<R>> RowSet<'a, R, T> {
    pub(super) fn new(table: &'a T, with_frozen: bool) -> Self {
        RowSet { table, with_frozen, _row: PhantomData }
    }

    /// Returns the rows themselves.
    pub fn iter(&self) -> impl Iterator<Item = RowRef<'a, R, T>> + use<'a, R, T> {
        let (table, with_frozen) = (self.table, self.with_frozen);
        (0..table.row_count() as u16)
            .map(Rank)
            .filter(move |&rank| with_frozen || !table.frozen(rank))
            .map(move |rank| RowRef { table, rank, _row: PhantomData })
    }

    /// Returns the least value of a row function.
    pub fn min<V: PartialOrd>(&self, f: impl Fn(RowRef<'_, R, T>) -> V) -> V {
        self.fold(f, |a, b| if b < a { b } else { a })
    }

    /// Returns the greatest value of a row function.
    pub fn max<V: PartialOrd>(&self, f: impl Fn(RowRef<'_, R, T>) -> V) -> V {
        self.fold(f, |a, b| if b > a { b } else { a })
    }

    /// Returns the sum of a row function's values.
    pub fn sum<V: Add<Output = V>>(&self, f: impl Fn(RowRef<'_, R, T>) -> V) -> V {
        self.fold(f, |a, b| a + b)
    }

    /// Whether a row function holds in every row.
    pub fn all(&self, f: impl Fn(RowRef<'_, R, T>) -> bool) -> bool {
        self.iter().all(f)
    }

    /// Whether a row function holds in some row.
    pub fn any(&self, f: impl Fn(RowRef<'_, R, T>) -> bool) -> bool {
        self.iter().any(f)
    }

    /// Number of rows in which a row function holds.
    pub fn count(&self, f: impl Fn(RowRef<'_, R, T>) -> bool) -> usize {
        self.iter()
            .filter(|row| f(RowRef { table: row.table, rank: row.rank, _row: PhantomData }))
            .count()
    }

    fn fold<V>(&self, f: impl Fn(RowRef<'_, R, T>) -> V, join: impl Fn(V, V) -> V) -> V {
        self.iter().map(f).reduce(join).expect("a table has at least the own row, never frozen")
    }
}
