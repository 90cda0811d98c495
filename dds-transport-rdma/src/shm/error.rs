//! Why a node could not join, in words for whoever started it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use derecho_core::ids::NodeId;
use rustix::io::Errno;

use super::config::SHARED_HUGE_PAGES;

/// Why [`ShmLink::join`](super::ShmLink::join) failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The domain's name cannot be the name of a folder.
    BadDomain {
        /// The name as it was given.
        domain: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A setting cannot be understood.
    BadSetting {
        /// Which one.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it should look like.
        expected: &'static str,
    },
    /// The configured UNIX group does not exist on this host.
    NoSuchGroup(String),
    /// A folder is not what it has to be, so nothing in it can be trusted.
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
        /// What to do about it.
        remedy: String,
    },
    /// The socket's path is longer than the system allows.
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// The most bytes that a socket's path may have.
        limit: usize,
    },
    /// Another process held the domain's lock for too long.
    LockBusy {
        /// The lock file.
        path: PathBuf,
        /// How long this node waited.
        waited: Duration,
    },
    /// A live node has this id already.
    NodeExists(NodeId),
    /// A peer speaks no version of the protocol that this node speaks.
    Version {
        /// The versions spoken here.
        ours: Vec<u16>,
        /// The versions spoken there.
        theirs: Vec<u16>,
        /// The peer's process.
        pid: i32,
    },
    /// A peer refused this node, or was refused by it.
    Refused {
        /// The peer's process.
        pid: i32,
        /// Why.
        reason: String,
    },
    /// Others live in this domain, and none of them answers.
    Unanswered {
        /// Their processes, as far as they are known.
        pids: Vec<i32>,
    },
    /// There is not enough memory for even the link itself.
    Memory(String),
    /// The kernel gives no huge pages to shared memory; what it says of that.
    NoHugePages(String),
    /// The system refused something that should work.
    System {
        /// What was being done.
        doing: String,
        /// What the system answered.
        errno: Errno,
    },
}

impl JoinError {
    /// A refusal of the system while `doing` something.
    pub(crate) fn system(doing: impl Into<String>, errno: Errno) -> JoinError {
        JoinError::System { doing: doing.into(), errno }
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
