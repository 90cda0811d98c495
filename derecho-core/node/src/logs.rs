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
//! Read [`folder`], then [`batch`], then `shared_log_state`, then [`thread`]; then [`process_logs`]
//! (ownership of folders) and [`stream_log_port`] (the log as a turn sees it).

pub mod batch;
mod damage_cache;
pub mod folder;
pub mod process_logs;
mod shared_log_state;
pub mod stream_log_port;
pub mod thread;

pub use batch::Batch;
pub use folder::LogFolder;
pub use process_logs::{LogScope, ProcessLogs};
pub use thread::{
    CloseOutcome, FullDiskPolicy, LogSettings, Logs, PushRefusal, StreamHandle, StreamState,
};
