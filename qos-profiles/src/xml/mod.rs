//! Profiles in XML: libraries of named sets of policies, as the OMG's DDS-XML has them and as users of
//! other DDS products write them.
//!
//! Owns: reading, inheriting, checking and writing profiles, and the ready-made ones. Never does: hold a
//! value or a rule of a policy; those are in the rest of the crate, which knows nothing of files.
//!
//! ```text
//! file -> source (elements, limits) -> read, entity, values -> model (what files say)
//!                                                                |
//!          provider <- resolved (values, origins) <- resolve (bases), check   write -> file
//! ```
//! A file is checked as a whole when it is read: every error names file, line, column and elements, says
//! what was found and what would be right, and several are told in one run. What only other products
//! understand is ignored and told; anything else that is unknown is an error.

mod application;
mod check;
mod entity;
mod error;
mod model;
mod octets;
mod provider;
mod read;
mod ready;
mod resolve;
mod resolved;
mod source;
mod suggest;
mod uri;
mod values;
mod vendor;
mod write;

pub use application::{
    ApplicationTypes, EndpointDescription, FilterDescription, GroupDescription,
    ParticipantDescription, RegisteredType, TopicDescription, TypeText, UnknownParticipant,
};
pub use error::{Ignored, Place, ProfileError, ProfileErrors};
pub use model::Property;
pub use provider::{DEFAULT_FILE, FILES_VARIABLE, QosProvider};
pub use resolved::{
    DeliveryLevel, Origin, ResolvedEntity, ResolvedProfile, Source, UnknownProfile,
};
pub use suggest::suggest as nearest_name;
