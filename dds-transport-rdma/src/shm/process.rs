//! What the kernel shows of a peer's process.
//!
//! Owns: the descriptor that stands for the process, so that its number is never taken for another's.
//! Never does: watch it; the rendezvous thread does.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::ids::NodeId;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};

use super::socket;

/// A process, whether it lives or not.
pub(crate) struct Process {
    /// Zero if it has no number in this process's namespace.
    pid: i32,
    handle: OwnedFd,
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Process {
    /// The one at the other end of a socket, whose number is `pid`.
    pub(crate) fn at(end: &OwnedFd, pid: i32) -> Result<Process, Errno> {
        Ok(Process { pid, handle: socket::process(end, pid)? })
    }

    /// Its number, zero if it has none in this process's namespace.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it is dead.
    pub(crate) fn is_dead(&self) -> bool {
        socket::is_dead(&self.handle)
    }

    /// Whether it is stopped, or traced and at a stop. False if it cannot be known.
    pub(crate) fn is_halted(&self) -> bool {
        let halted = self.pid > 0 && matches!(state(self.pid), Some(b'T' | b't'));
        // Looked at last: was the number another's already, this one is dead.
        halted && !self.is_dead()
    }
}

/// The processes of the peers that are there, for whoever asks without the link at hand.
#[derive(Default)]
pub(crate) struct Processes(Mutex<BTreeMap<NodeId, Arc<Process>>>);

impl Processes {
    fn known(&self) -> MutexGuard<'_, BTreeMap<NodeId, Arc<Process>>> {
        // Nothing in there can be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, node: NodeId, process: &Arc<Process>) {
        self.known().insert(node, Arc::clone(process));
    }

    pub(crate) fn remove(&self, node: NodeId) {
        self.known().remove(&node);
    }

    /// Whether a node's process is stopped; false if it cannot be known.
    pub(crate) fn is_halted(&self, node: NodeId) -> bool {
        let process = self.known().get(&node).cloned();
        process.is_some_and(|process| process.is_halted())
    }
}

/// The letter that stands for what a process is doing.
fn state(pid: i32) -> Option<u8> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = open(format!("/proc/{pid}/stat"), flags, Mode::empty()).ok()?;
    let mut bytes = [0; 256];
    let length = read(&file, &mut bytes).ok()?;
    parse_state(&bytes[..length])
}

/// `4711 (a name) S ...`: the name may have anything in it, what follows has no bracket.
fn parse_state(stat: &[u8]) -> Option<u8> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    match stat.get(name_end + 1..)? {
        [b' ', state, ..] => Some(*state),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_a_state() {
        assert_eq!(parse_state(b"12 (squall) S 1 12"), Some(b'S'));
        assert_eq!(parse_state(b"12 (a) T (b)) t 1 12"), Some(b't'));
        for nonsense in [&b""[..], b"12", b"12 (squall)", b"12 (squall) ", b"12 (squall)T 1"] {
            assert_eq!(parse_state(nonsense), None);
        }
    }

    #[test]
    fn this_very_process_runs() {
        let pid = std::process::id().cast_signed();
        assert!(matches!(state(pid), Some(b'R' | b'S' | b'D')));
        assert_eq!(state(i32::MAX), None);
    }
}
