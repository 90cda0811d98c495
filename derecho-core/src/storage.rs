//! What members of a subgroup keep in memory for those who come later.
//!
//! Owns: who has it, and how it comes to those who have not. Never does: know what a record means; the key
//! in it is found by whoever makes the store.
//!
//! Read in this order: [`store`] (what one member keeps), [`cursor`] (how it is read), [`holders`] (who is
//! known to have it), `keeper` (a member's part in one subgroup), [`depot`] (its part in all), `porter` (how records go from one
//! member to another). What is kept in logs as well: [`journal`] (the port), [`logbook`] (which logs it begins from),
//! `scribe` (how a log follows), `trail` (a store, followed), [`state`] (what a checkpoint says of one), [`errands`] (what takes
//! its time), [`harmed`] (errands of a log that cannot be opened), `frontier` (what is durable everywhere).

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
