//! The domain module of the standard: participants.

mod assembly;
mod participant;

pub(crate) use participant::Inner;
pub use participant::{DomainParticipant, ParticipantConfig};
