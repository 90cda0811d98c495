//! Types of topics: how samples of each travel, and which versions go together.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/levels.rs"]
mod levels;
#[path = "../support/mod.rs"]
mod support;

mod any;
mod byte_topics;
mod dynamic_topics;
mod long_types;
mod representation;
mod topic_types;
mod type_evolution;
