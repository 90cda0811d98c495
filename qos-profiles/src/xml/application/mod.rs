//! Applications in XML: types, domains with their topics, and participants with their entities.
//!
//! ```text
//! types ──> IDL, line by line (type_text) ──> compiled by the caller
//! domains, participants ──> read ──> model ──> resolve (bases, references) ──> descriptions
//! policies of topics, writers ... ──> sets of policies, as any other
//! ```
//! Owns: the description of applications in files, and the check of their references. Never does:
//! make an entity, or interpret a type.

mod attributes;
mod describe;
mod model;
mod read;
mod resolve;
mod type_text;
mod types;

pub use describe::{
    ApplicationTypes, EndpointDescription, FilterDescription, GroupDescription,
    ParticipantDescription, RegisteredType, TopicDescription, UnknownParticipant,
};
pub(super) use model::{Applications, DomainOrParticipant, MOST_ROOMS};
pub(super) use read::{domain, participant};
pub(super) use resolve::{check, describe};
pub use type_text::TypeText;
pub(super) use types::TypeReader;
