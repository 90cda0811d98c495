//! The domain module of the standard: participants.

mod assembly;
mod attendant;
mod entity_group;
mod participant;
mod rejoin;

pub(crate) use entity_group::EntityGroup;
pub(crate) use participant::Inner;
pub use participant::{DomainParticipant, ParticipantConfig};
