//! The Derecho protocol, and nothing else: no clock, no thread, no socket, no file, no randomness.
//!
//! Reading order: [`link`] (the contract of a one-sided write, on which everything else relies),
//! [`memory`], [`machine`], then [`sst`].
#![no_std]

extern crate alloc;
#[cfg(any(test, loom))]
extern crate std;

pub mod atomic;
pub mod bytes;
mod fault;
pub mod group;
pub mod ids;
pub mod link;
pub mod lock;
pub mod log;
pub mod machine;
pub mod membership;
pub mod memory;
pub mod multicast;
pub mod node;
pub mod note;
pub mod park;
pub mod replicated;
pub mod sst;
pub mod storage;
pub mod transfer;
