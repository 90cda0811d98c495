//! The domain module of the standard: participants.

mod assembly;
mod attendant;
mod collector;
mod entity_group;
mod participant;
mod rejoin;
mod roster;

pub(crate) use collector::{Charge, Collect, Found};
pub(crate) use entity_group::EntityGroup;
pub(crate) use participant::Inner;
pub use participant::{DomainParticipant, ParticipantConfig};
pub(crate) use roster::Attended;
