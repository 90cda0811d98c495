//! Logs on real files: the folder, and the thread that writes them.
//!
//! Owns: the port [`Disk`](derecho_core::log::Disk) over a folder of this host, and a log thread
//! that makes durable what machines push to it. Never does: block a machine's turn; a full queue
//! refuses the push.
//!
//! ```text
//!   a turn ── try_push(batch) ──> queue ──> log thread: append all that is ready, write, sync
//!      ^                                        │
//!      └──── durable(): a load <── waker ───────┘ publishes each stream's durable version
//! ```
//! Read [`folder`], then [`batch`], then `shown`, then [`thread`]; then [`archive`] (ownership of
//! folders) and [`journal`] (the log as a turn sees it).

pub mod archive;
pub mod batch;
pub mod folder;
mod harm;
pub mod journal;
mod shown;
pub mod thread;

pub use archive::{Archive, Home};
pub use batch::Batch;
pub use folder::Folder;
pub use thread::{Ending, Logs, OnFull, Refused, Settings, StreamHandle, StreamState};
