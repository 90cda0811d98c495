//! Samples that are kept for late joiners, in memory and in logs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod full_disk;
mod log_faults;
mod logged;
mod logged_views;
mod past;
mod storage;
