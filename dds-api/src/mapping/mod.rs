//! Mapping of DCPS onto the protocol: endpoints as announcements, samples as records, matching.
//!
//! Owns: everything on which both sides of a match must agree. Never does: talk to an application;
//! the entities do.

pub(crate) mod acquaintance;
pub(crate) mod announcement;
pub(crate) mod atomic;
pub(crate) mod builtin;
pub(crate) mod directory;
pub(crate) mod discovery;
pub(crate) mod endpoint;
pub(crate) mod history;
pub(crate) mod ignored;
mod layouts;
pub(crate) mod level;
pub(crate) mod machine;
pub(crate) mod order;
mod participation;
pub(crate) mod partners;
pub(crate) mod past;
pub(crate) mod policies;
pub(crate) mod record;
pub(crate) mod set;
pub(crate) mod shares;
pub(crate) mod sight;
pub(crate) mod standing;
pub(crate) mod topic_logs;
pub(crate) mod type_identity;
pub(crate) mod type_parts;
pub(crate) mod vigil;
