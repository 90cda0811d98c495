//! Store of a subgroup: the records that members keep in memory for late joiners.
//!
//! Owns: which members have it, and how it is transferred to members that lack it. Never does:
//! interpret a record; the creator of the store passes functions that find a record's key.
//!
//! Reading order: [`store`] (the records of one member), [`cursor`] (reading them), [`holders`]
//! (which members are known to have them), `keeper` (a member's part in one subgroup), [`depot`]
//! (its part in all subgroups), `porter` (transfer of records from one member to another). For
//! stores that are also logged: [`journal`] (the port), [`logbook`] (the logs that a store begins
//! from), `scribe` (how a log follows a store), `trail` (a store as a log follows it), [`state`]
//! (the content of a checkpoint), [`errands`] (slow operations), [`harmed`] (errands of a log that
//! cannot be opened), `frontier` (what is durable everywhere).

pub mod cursor;
pub mod depot;
pub mod errands;
pub(crate) mod frontier;
pub mod harmed;
pub mod holders;
pub mod journal;
mod keeper;
pub mod logbook;
mod motion;
mod parcel;
mod porter;
pub(crate) mod scribe;
mod segment;
mod several;
pub mod state;
pub mod store;
mod trail;

pub use scribe::MOST_BEHIND;
