//! Reasons why a node could not join, worded for the user who started it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use derecho_core::ids::NodeId;
use derecho_core::link::LinkError;
use derecho_core::membership::RankSet;
use rustix::io::Errno;

use super::config::SHARED_HUGE_PAGES;

/// Error of [`ShmLink::join`](super::ShmLink::join).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The domain's name cannot be the name of a folder.
    BadDomain {
        /// Name as given.
        domain: String,
        /// Fault of the name.
        why: &'static str,
    },
    /// A setting cannot be understood.
    BadSetting {
        /// Name of the setting.
        name: &'static str,
        /// Value of the setting.
        value: String,
        /// Form that is expected.
        expected: &'static str,
    },
    /// The configured UNIX group does not exist on this host.
    NoSuchGroup(String),
    /// A folder does not have the required properties, so nothing in it can be trusted.
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Fault of the folder.
        fault: String,
        /// Advice to the user.
        remedy: String,
    },
    /// The socket's path is longer than the system allows.
    PathTooLong {
        /// Path of the socket.
        path: PathBuf,
        /// Maximum length of a socket's path, in bytes.
        limit: usize,
    },
    /// Another process held the domain's lock for too long.
    LockBusy {
        /// Path of the lock file.
        path: PathBuf,
        /// Time that this node waited.
        waited: Duration,
    },
    /// A live node already has this id.
    NodeExists(NodeId),
    /// A peer speaks no version of the protocol that this node speaks.
    Version {
        /// Versions that this node speaks.
        ours: Vec<u16>,
        /// Versions that the peer speaks.
        theirs: Vec<u16>,
        /// Process number of the peer.
        pid: i32,
    },
    /// A peer refused this node, or was refused by it.
    Refused {
        /// Process number of the peer.
        pid: i32,
        /// Reason of the refusal.
        reason: String,
    },
    /// Other nodes live in this domain, and none of them answers.
    Unanswered {
        /// Process numbers of these nodes, as far as they are known.
        pids: Vec<i32>,
    },
    /// This process can open too few files for a node and the peers that a group can have.
    Descriptors {
        /// Number of files that it can open.
        free: usize,
        /// Number of files that it must be able to open.
        needed: usize,
        /// Limit of its open files.
        limit: u64,
    },
    /// The memory does not suffice even for the link itself.
    Memory(String),
    /// The kernel gives no huge pages to shared memory; holds the kernel's setting.
    NoHugePages(String),
    /// The system refused an operation that should work.
    System {
        /// Operation that failed.
        doing: String,
        /// Error that the system returned.
        errno: Errno,
    },
}

impl JoinError {
    /// Creates the error of a failed system operation.
    pub(crate) fn system(doing: impl Into<String>, errno: Errno) -> JoinError {
        JoinError::System { doing: doing.into(), errno }
    }

    /// Whether this process or the system lacks descriptors or memory.
    pub fn is_exhaustion(&self) -> bool {
        match self {
            JoinError::Descriptors { .. } | JoinError::Memory(_) | JoinError::NoHugePages(_) => {
                true
            }
            JoinError::System { errno, .. } => {
                matches!(*errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSPC)
            }
            _ => false,
        }
    }
}

impl From<JoinError> for LinkError {
    fn from(error: JoinError) -> LinkError {
        match error.is_exhaustion() {
            true => LinkError::Exhausted(error.to_string()),
            false => LinkError::System(error.to_string()),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::BadDomain { domain, why } => write!(
                f,
                "the domain name {domain:?} {why}; use 1 to 64 letters, digits, '-', '_' or '.'"
            ),
            JoinError::BadSetting { name, value, expected } => {
                write!(f, "{name} is {value:?}; it has to be {expected}")
            }
            JoinError::NoSuchGroup(group) => write!(
                f,
                "there is no UNIX group {group:?} on this host; create it (groupadd) or correct \
                 SQUALL_GROUP"
            ),
            JoinError::Folder { path, fault, remedy } => {
                write!(f, "the folder {} {fault}; {remedy}", path.display())
            }
            JoinError::PathTooLong { path, limit } => write!(
                f,
                "the socket path {} is longer than the {limit} bytes that the system allows; set \
                 SQUALL_RUNTIME_DIR to a shorter folder",
                path.display()
            ),
            JoinError::LockBusy { path, waited } => write!(
                f,
                "another process has held {} for more than {} ms; it may be stopped: find it with \
                 'fuser {}' and continue or end it",
                path.display(),
                waited.as_millis(),
                path.display()
            ),
            JoinError::NodeExists(node) => write!(
                f,
                "a node with the id {node} is in this domain already; node ids are never reused, \
                 take a random one"
            ),
            JoinError::Version { ours, theirs, pid } => write!(
                f,
                "process {pid} in this domain speaks protocol versions {theirs:?} and this process \
                 speaks {ours:?}; run the same release of Squall in both"
            ),
            JoinError::Refused { pid, reason } => {
                write!(f, "process {pid} in this domain cannot be a peer: {reason}")
            }
            JoinError::Unanswered { pids } => write!(
                f,
                "other processes are in this domain and none of them answers (processes {pids:?}), so this process \
                 would be alone in it; they may have no descriptor or no processor left: end them, or try again"
            ),
            JoinError::Descriptors { free, needed, limit } => write!(
                f,
                "this process can open {free} more files, and a participant needs {needed}, most of them for up to {} \
                 other participants: raise the limit of {limit} open files (`ulimit -n`), or close files",
                RankSet::MOST - 1
            ),
            JoinError::Memory(text) => f.write_str(text),
            JoinError::NoHugePages(is) => write!(
                f,
                "this kernel gives no huge pages to shared memory that asks for them ({SHARED_HUGE_PAGES} is `{is}`): have \
                 root write `advise` there, or do without huge pages"
            ),
            JoinError::System { doing, errno } => {
                write!(f, "{doing} failed: {}", std::io::Error::from(*errno))
            }
        }
    }
}

impl std::error::Error for JoinError {}
