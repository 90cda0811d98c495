//! Mapping of DCPS onto the protocol: endpoints as announcements, samples as records, matching.
//!
//! Owns: everything on which both sides of a match must agree. Never does: talk to an application;
//! the entities do.

pub(crate) mod announcement;
pub(crate) mod atomic;
pub(crate) mod builtin;
pub(crate) mod directory;
pub(crate) mod discovery;
pub(crate) mod endpoint;
pub(crate) mod ignored;
pub(crate) mod kept_replay;
pub(crate) mod known_writers;
mod layouts;
pub(crate) mod level;
pub(crate) mod machine;
pub(crate) mod membership_state;
pub(crate) mod order;
pub(crate) mod partners;
pub(crate) mod past;
pub(crate) mod policies;
pub(crate) mod record;
pub(crate) mod set;
pub(crate) mod shares;
pub(crate) mod timeliness;
mod topic_endpoints;
pub(crate) mod topic_logs;
pub(crate) mod topic_summary;
pub(crate) mod type_identity;
pub(crate) mod type_parts;
