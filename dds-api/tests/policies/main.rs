//! Effects of policies on matching and on samples.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/flight.rs"]
mod flight;
#[path = "../support/legs.rs"]
mod legs;
#[path = "../support/levels.rs"]
mod levels;
#[path = "../support/runtime.rs"]
mod runtime;
#[path = "../support/mod.rs"]
mod support;

mod asynchronous;
mod best_effort;
mod coherent;
mod group_access;
mod latency_budget;
mod lifespan;
mod partitions;
mod promises;
mod qos_matching;
mod silent_owners;
mod transport_priority;
mod writer_limits;
