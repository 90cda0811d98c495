//! The links of Squall DDS: what moves bytes between nodes.
//!
//! Every link gives the contract of [`derecho_core::link`] and passes the same conformance suite,
//! the crate `link-conformance`. There is one link so far:
//!
//! * [`shm`]: nodes on one host, over sealed shared memory.
//!
//! Never does: interpret what it moves. The words of a region are the protocol's business.

pub mod shm;
