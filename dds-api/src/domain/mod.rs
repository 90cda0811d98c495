//! The domain module of the standard: participants.

mod application;
mod assembly;
mod attendant;
mod bell;
mod collector;
mod entity_group;
mod participant;
mod profiles;
mod rejoin;
mod roster;

pub use application::{Application, ApplicationFiles};
pub(crate) use collector::{Charge, Collect, Found};
pub(crate) use entity_group::{Draft, EntityGroup};
pub(crate) use participant::Inner;
pub use participant::{DomainParticipant, ParticipantConfig};
pub(crate) use profiles::{Following, Shared, usual_reader, usual_topic, usual_writer};
pub use profiles::{QosReload, ReloadedEntity};
pub(crate) use roster::Attended;
