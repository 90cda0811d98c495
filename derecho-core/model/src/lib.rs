//! The view change of derecho-core, in every order of events that small groups can have.
//!
//! ```text
//! cd derecho-core/model
//! RUSTFLAGS="--cfg model" cargo test --release
//! RUSTFLAGS="--cfg model" cargo run --release -- network 3 crashes=1 doubts=1
//! ```
//! Owns: the world around the members, and the properties. Never does: contain a copy of the
//! checked code; the code that runs is derecho-core's own. Without `--cfg model` this crate
//! is empty.
#![cfg(model)]

mod channel;
mod event;
mod explore;
mod intern;
mod node;
mod planted;
mod progress;
mod property;
mod setting;
mod state_tree;
pub mod walk;
mod world;

pub use derecho_core::membership::{Arbitration, Fault, plant};
pub use event::Event;
pub use explore::{Explored, Failure, explore, replay};
pub use planted::{found_in, missed};
pub use setting::Setting;
