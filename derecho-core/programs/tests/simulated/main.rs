//! The programs on simulated networks that use every freedom that the contract of a link allows.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod broadcast;
mod counting;
mod detection;
mod group;
mod routing;
mod two_phase_commit;
