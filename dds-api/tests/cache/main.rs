//! Caches of readers; no participant is needed for any of these tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod reader_cache;
mod reader_cache_policies;
mod reader_cache_sets;
