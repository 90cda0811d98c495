//! Processes that end, fork, hold too many samples, or write into memory wrongly: the
//! others continue.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/flight.rs"]
mod flight;
#[path = "../support/legs.rs"]
mod legs;
#[path = "../support/levels.rs"]
mod levels;
#[path = "../support/mod.rs"]
mod support;

mod accidents;
mod changing_keys;
mod changing_memory;
mod coherent_killed;
mod descriptors;
mod group_killed;
mod hoarding;
mod numb;
mod scribble;
mod stopped_owner;
