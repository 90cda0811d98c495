//! The domain module of the standard: participants.

mod application;
pub(crate) mod assembly;
mod builtin;
mod cache_filler;
mod config;
mod discovered;
pub(crate) mod enabling;
mod entity;
mod entity_group;
mod factory;
mod hints;
mod listener_dispatcher;
mod log_service_thread;
mod lookup;
mod participant;
mod participant_policies;
mod profiles;
mod realtime;
mod rejoin;
mod thread_waker;

pub use application::{Application, ApplicationFiles};
pub use builtin::{
    BuiltinSource, BuiltinTopicData, ParticipantBuiltinTopicData, PublicationBuiltinTopicData,
    SubscriptionBuiltinTopicData, TopicBuiltinTopicData,
};
pub(crate) use cache_filler::{FillCache, FillResult, FillerEntry};
pub use config::ParticipantConfig;
pub use derecho_node::SchedulingClass;
pub(crate) use entity::Entity;
pub(crate) use entity_group::{EntityGroup, EntityGroupBuilder};
pub use factory::{DomainParticipantFactory, DomainParticipantFactoryQos};
pub(crate) use listener_dispatcher::ListenedEntity;
pub use participant::DomainParticipant;
pub(crate) use participant::ParticipantInner;
pub(crate) use profiles::{ProfileBinding, ProfiledEntity, default_reader_qos, default_writer_qos};
pub use profiles::{QosReload, ReloadedEntity};
