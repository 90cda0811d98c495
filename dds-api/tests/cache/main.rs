//! Reader caches; these tests need no participant.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod reader_cache;
mod reader_cache_policies;
mod reader_cache_sets;
