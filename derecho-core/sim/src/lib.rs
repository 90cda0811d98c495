//! Derecho machines in virtual time: simulated links, a cost model of a NIC, faults, replay.
//!
//! Owns: virtual time, the simulated network and all prices. Never does: protocol. The code that
//! runs here is the code that runs in production; a seed and a commit replay any run.
//!
//! Read in this order: [`cost`] (prices), [`link`] (the contract of one-sided writes and the use of
//! every freedom in it), [`cluster`] (threads, turns and virtual time), [`world`]
//! (members, and the checkers that observe them).
//!
//! ```text
//!   Cluster ── turn, handle ──> Machine          one per thread, any number of threads per node
//!      │  <── Effects (posts, work) ──
//!      │ priced by the CostModel, executed at their moments
//!      v
//!   SimLink ── one per node ──> SimNetwork       channels, ports, replicas, faults, trace
//! ```

pub mod cluster;
pub mod cost;
pub mod disk;
mod host;
pub mod link;
pub mod log_life;
mod network;
mod queue;
mod random;
pub mod world;

pub use cluster::{Clock, Cluster, Config, StopReason, ThreadUse};
pub use cost::{CostError, CostModel, DiskPrices, Racks, Wire};
pub use disk::{DiskFaults, SimDisk};
pub use link::{Adversary, EvidenceRules, NetworkMode, NodeIndex, SimLink, SimNetwork};
pub use random::Random;
