//! Links of Squall DDS: the transports that move bytes between nodes.
//!
//! Every link fulfils the contract of [`derecho_core::link`] and passes the same conformance suite,
//! the crate `link-conformance`. This crate has one link:
//!
//! * [`shm`]: connects nodes on one host through sealed shared memory.
//!
//! Never does: interpret the bytes it moves. The protocol alone gives meaning to the words of
//! a region.

pub mod shm;
