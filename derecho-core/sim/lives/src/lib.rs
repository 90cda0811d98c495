//! Random lives of whole groups in virtual time: applications that read and write topics, faults, and
//! checkers of what everybody delivers, crashed and evicted nodes too.
//!
//! Owns: what happens to a group, and what has to be true of it then. Never does: protocol; the code that
//! runs is the product's, and no checker asks it whether it was right.
//!
//! Read in this order: [`Plan`] and [`live`] (a life from a seed), [`Faults`] (what happens to it),
//! `court` (what has to be true at every delivery), `verdict` (what has to be true in the end).
//!
//! ```text
//!   Plan ── seed ──> World: a cluster of Members, each a Group with an application
//!                      │  storm: faults come and end           journal: what happened, to be read
//!                      └> Court: what was written, delivered, installed ── Account: violations, coverage
//! ```

mod account;
mod aim;
mod court;
mod faults;
mod journal;
mod late;
mod life;
mod member;
mod storm;
mod topics;
mod verdict;
mod withheld;
mod world;

pub use account::{Account, Coverage, Step};
pub use faults::{Fault, Faults};
pub use life::{Plan, live};
pub use member::Member;
pub use world::{Kind, World};
