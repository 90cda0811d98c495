//! The domain module of the standard: participants.

mod assembly;
mod attendant;
mod collector;
mod participant;
mod rejoin;

pub(crate) use collector::{Charge, Collect, Found};
pub(crate) use participant::Inner;
pub use participant::{DomainParticipant, ParticipantConfig};
