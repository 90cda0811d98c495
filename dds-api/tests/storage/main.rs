//! Samples that are kept, in memory and in logs, for those who come later.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod full_disk;
mod log_faults;
mod logged;
mod logged_views;
mod past;
mod storage;
