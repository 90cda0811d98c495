//! Discovery of participants, its notifications to applications, and sources of policies.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod announced_data;
mod application_files;
mod builtin_topics;
mod data_statuses;
mod early_listeners;
mod equal_names;
mod ignoring;
mod left_out;
mod listeners;
mod matched_counts;
mod profiles;
mod publication;
mod served;
mod shared_state;
mod statuses;
mod wait_sets;
