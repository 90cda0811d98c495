//! The domain module of the standard: participants.

mod assembly;
mod participant;
mod rejoin;

pub(crate) use participant::Inner;
pub use participant::{DomainParticipant, ParticipantConfig};
