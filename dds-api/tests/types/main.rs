//! Types of topics: the form of their samples, and the compatibility of versions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/levels.rs"]
mod levels;
#[path = "../support/mod.rs"]
mod support;

mod any;
mod byte_topics;
mod dynamic_topics;
mod idl_types;
mod long_types;
mod representation;
mod topic_types;
mod type_evolution;
