//! The domain module of the standard: participants.

mod application;
mod assembly;
mod attendant;
mod bell;
mod builtin;
mod collector;
mod config;
mod discovered;
pub(crate) mod enabling;
mod entity;
mod entity_group;
mod factory;
mod hints;
mod lookup;
mod participant;
mod participant_policies;
mod profiles;
mod realtime;
mod rejoin;
mod roster;

pub use application::{Application, ApplicationFiles};
pub use builtin::{
    BuiltinSource, BuiltinTopicData, ParticipantBuiltinTopicData, PublicationBuiltinTopicData,
    SubscriptionBuiltinTopicData, TopicBuiltinTopicData,
};
pub(crate) use collector::{Charge, Collect, Found};
pub use config::ParticipantConfig;
pub use derecho_node::SchedulingClass;
pub(crate) use entity::Entity;
pub(crate) use entity_group::{Draft, EntityGroup};
pub use factory::{DomainParticipantFactory, DomainParticipantFactoryQos};
pub use participant::DomainParticipant;
pub(crate) use participant::Inner;
pub(crate) use profiles::{Following, Shared, usual_reader, usual_topic, usual_writer};
pub use profiles::{QosReload, ReloadedEntity};
pub(crate) use roster::Attended;
