//! Profiles in XML: libraries of named sets of policies, in the form of the OMG's DDS-XML and of
//! other DDS products.
//!
//! Owns: reading, inheriting, checking and writing profiles, and the ready-made ones. Never
//! does: hold a value or a rule of a policy; those are in the rest of the crate, which knows
//! nothing of files.
//!
//! ```text
//! file -> source (elements, limits) -> read, fast, entity, values -> model (contents of files)
//!                                                                |
//!          provider <- resolved (values, origins) <- resolve (bases), check   write -> file
//! ```
//! A file is checked as a whole when it is read. Every error gives file, line, column and elements,
//! the found and the expected text; one run reports several errors. Elements of other products are
//! ignored and reported as such; any other unknown element is an error.

mod application;
mod check;
mod entity;
mod error;
mod fast;
mod foreign;
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
mod variables;
mod vendor;
mod write;

pub use application::{
    ApplicationTypes, EndpointDescription, FilterDescription, GroupDescription,
    ParticipantDescription, RegisteredType, TopicDescription, TypeText, UnknownParticipant,
};
pub use error::{FilePosition, Ignored, ProfileError, ProfileErrors};
pub use model::Property;
pub use provider::{DEFAULT_FILE, FILES_VARIABLE, QosProvider};
pub use resolved::{
    DefiningSet, DeliveryLevel, Origin, ResolvedEntity, ResolvedProfile, UnknownProfile,
};
pub use suggest::suggest as nearest_name;
