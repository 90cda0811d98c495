//! The shared state table through its public interface, over memory that the tests
//! deliver explicitly.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod cells;
mod hostile;
mod membership;
mod predicates;
mod pushes;
mod reducers;
mod rig;
