//! Drives a [`Machine`](derecho_core::machine::Machine) in production: the duty cycle over a real
//! link, the driver thread, idling and parking, and the clock.
//!
//! Owns: the choice of the thread that turns the machine, and when. Never does: know the machine's
//! type or its link; the user of this crate combines the two.
//!
//! Read [`event_loop`] (one turn), then [`engine`] (which thread drives), then `driver` (the thread
//! that drives when no other does); [`logs`] is independent of these.

mod batch_pause;
pub mod clock;
mod condition_scope;
pub mod counters;
mod driver;
pub mod engine;
pub mod event_loop;
pub mod logs;
pub mod process;
mod processor_sharing;
mod threads;
mod turn_listener;

pub use counters::EngineCounters;
pub use engine::{Engine, Pace, WaitOutcome};
pub use threads::{Cores, SchedulingClass, ThreadError, ThreadSettings};
pub use turn_listener::TurnListener;
