//! The shared state table (SST): every node owns one row, sees all rows, and acts when predicates
//! over them become true.
//!
//! ```text
//!            column a   column b   column c
//!   row 0   [   ...   |   ...    |   ...   ]   one row a node; only its owner writes it
//!   row 1   [   ...   |   ...    |   ...   ]   everyone has a replica of every other row
//!   row 2   [   ...   |   ...    |   ...   ]
//! ```
//!
//! * [`row!`](crate::row) declares the row: named columns of plain data. The compiler refuses any
//!   type with a pointer, which would be meaningless in another process.
//! * [`Table`] is the table as one node sees it: set cells of the own row, push columns or the
//!   whole row, read any row, take a [`Snapshot`].
//! * [`RowSet`] reduces a function of rows to one value: min, max, sum, all, any, count.
//! * [`Sst`] is the machine: it waits until all members are present, then evaluates predicates and
//!   runs their triggers, which may change the own row and add predicates.
//! * [`Refresher`] is the second half of SST-reads: it continuously fetches the others' rows, where
//!   in SST-writes each node pushes its own.
//!
//! # What a reader may rely on
//! A scalar column, or one element of an array column, is never torn (I-16). Two pushes arrive in
//! the order in which they were made (I-15), so a column that is pushed after another *guards* it:
//! a reader that sees the guard's new value also sees the other's. A guard is pushed by itself,
//! because nothing is ordered within one push. If a push is longer than a cache line, its words may
//! be fetched late, when some of them already have their next value.
//!
//! Programs keep their predicates *monotonic* where possible: once true, a predicate stays true.
//! Then it does not matter which node saw which intermediate state.

mod layout;
mod predicate;
mod reduce;
mod refresh;
mod sst_machine;
mod table;

pub use layout::{Cell, Column, Scalar, TableRow, fingerprint, prefix};
pub use predicate::{FireCondition, PredicateId, Scope};
pub use reduce::{Cells, RowRef, RowSet};
pub use refresh::Refresher;
pub use sst_machine::{Sst, SstError, Strategy};
pub use table::{Snapshot, Table};
