//! Shared-memory link: nodes of one host map each other's regions as the same physical pages.
//!
//! Owns: the rendezvous in the runtime folder, the memory of own regions, the mappings of the
//! peers' regions, and the doorbells. Never does: interpret a word, or trust a peer.
//!
//! ```text
//!   node A                                         node B
//!   ShmLink --- commands --> shm-rendezvous <==socket==> shm-rendezvous --> events --> ShmLink
//!      |                                                                                 |
//!   arena (memfd, sealed)  ---- the same pages, mapped read-only ---->  Replica of A's region
//!   header line `parked`   <--- read by B, which sends to A's socket `<node>.bell` if A sleeps
//! ```
//! Every thread of B may ring: its bell table shows it the headers of all peers.
//!
//! * **Sockets are the only names in the file system**, plus one file that locates the words by
//!   which the host decides among the nodes of a group. That file exists once a node asks for the
//!   [`arbiter`](derecho_core::link::Link::arbiter). Memory is an anonymous `memfd`, sealed against
//!   shrinking, growing and new writers before another process receives it. No memory outlives its
//!   last user, and truncation of a file can never hit a reader.
//! * **No configuration.** Nodes meet in a folder: each listens on a socket of its own, and a
//!   joining node connects to all the others while it holds the folder's lock. The kernel releases
//!   that lock when its holder dies; the next joining node removes the files of dead nodes.
//! * **No thread on the data path.** A store is visible at once; [`Link::write`] only checks and
//!   counts. One sleeping thread passes descriptors and notes and watches for deaths.
//! * **Trust.** A peer is a process of the same user, or of the configured UNIX group. Its
//!   memory is mapped read-only and its announcements are checked against that memory. A process
//!   that sends invalid packets is disconnected and harms no other node. Members of a group can
//!   still waste each other's time. All of them can write the words of the group, and none can
//!   truncate them.
//!
//! [`Link::write`]: derecho_core::link::Link::write

mod arbiter;
mod arena;
mod barrier;
mod bell_table;
mod budget;
mod command;
mod config;
mod connection;
mod domain_folder;
mod doorbell;
mod error;
mod event;
mod exports;
mod imports;
mod link;
mod liveness_marks;
mod mapping;
mod names;
mod pages;
mod process;
mod rendezvous;
mod reserved_descriptors;
mod socket;
#[doc(hidden)]
pub mod wire;

pub use config::{ShmConfig, environment};
pub use doorbell::ShmParker;
pub use error::JoinError;
pub use link::ShmLink;
