//! Drives a [`Machine`](derecho_core::machine::Machine) in production: the duty cycle over a real
//! link, the driver thread, idling and parking, and the clock.
//!
//! Owns: the choice of the thread that turns the machine, and when. Never does: know the machine's
//! type or its link; the user of this crate combines the two.
//!
//! Read [`duty`] (one turn), then [`engine`] (which thread drives), then `driver` (the thread that
//! drives when no other does); [`logs`] is independent of these.

pub mod clock;
pub mod counters;
mod driver;
pub mod duty;
pub mod engine;
mod gather;
mod hearer;
mod inside;
pub mod logs;
pub mod process;
mod threads;

pub use counters::Counters;
pub use engine::{Engine, Pace, Waited};
pub use hearer::Hearer;
pub use threads::{Cores, SchedulingClass, ThreadError, ThreadSettings};
