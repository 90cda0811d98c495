//! Writing, reading and taking of samples, and their order.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod atomic;
mod content_filter;
mod default_readers;
mod handles;
mod handover;
mod held_samples;
mod instances;
mod known_instances;
mod late_looks;
mod loans;
mod multi_topic;
mod notices;
mod passing;
mod reading;
mod reported_ends;
mod taking;
mod unattended;
