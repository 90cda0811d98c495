//! Random lives of whole groups in virtual time: applications that read and write topics, faults,
//! and checkers of all deliveries, including those of crashed and excluded nodes.
//!
//! Owns: the events of a group's life, and the rules that must hold. Never does: protocol; the code
//! that runs is the product's, and no checker asks the product whether it was right.
//!
//! Read in this order: [`LifePlan`] and [`live`] (a life from a seed), [`Faults`] (the faults),
//! `checker` (rules at every delivery), `verdict` (rules at the end).
//!
//! ```text
//!   LifePlan ── seed ──> World: a cluster of LifeMembers, each a Group with an application
//!                          │  FaultInjector: faults begin and end    Journal: events, for a reader
//!                          └> SafetyChecker: writes, deliveries, views
//!                               └> LifeReport: violations, coverage
//! ```

mod aim;
mod checker;
mod fault_injector;
mod faults;
mod journal;
mod late_reader;
mod life;
mod member;
mod report;
mod topics;
mod verdict;
mod withheld;
mod world;

pub use fault_injector::STOPS_MOST;
pub use faults::{Fault, Faults};
pub use life::{LifePlan, live};
pub use member::LifeMember;
pub use report::{Coverage, LifeReport, ViewChangeStep};
pub use world::{GroupKind, World};
