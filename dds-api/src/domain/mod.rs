//! The domain module of the standard: participants.

mod assembly;
mod attendant;
mod participant;
mod rejoin;

pub(crate) use participant::Inner;
pub use participant::{DomainParticipant, ParticipantConfig};
