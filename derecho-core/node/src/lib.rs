//! Drives a [`Machine`](derecho_core::machine::Machine) in production: the duty cycle over a real
//! link, the driver thread, idling and parking, and the clock.
//!
//! Owns: who turns the machine when. Never does: know what the machine is, or which link it has;
//! the two are joined by whoever uses this crate.
//!
//! Read [`duty`] (one turn), then [`engine`] (who drives), then `driver` (the thread that drives
//! when nobody else does); [`logs`] is a room of its own.

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
