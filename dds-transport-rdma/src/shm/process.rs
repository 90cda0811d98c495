//! Processes of peers: detects whether one is dead or stopped.
//!
//! Owns: the identity of a process, which stays valid after the kernel reuses its number. Never
//! does: keep a descriptor of a process; [`look`] opens one, and the caller holds it only while it
//! waits for the death.
//!
//! ```text
//!   look ── Linux 6.5: the socket gives a descriptor ────────────────> readable: dead; else: alive
//!        └─ before: the number gives one; the process started ──┬─> when the peer did: as above
//!                                                               └─> at another time: dead
//! ```
//! A descriptor obtained by number is never that of an earlier process, so a readable descriptor
//! proves in each case that the peer is dead. A live process is never taken for a dead one. A
//! reused number can hide a death only on a kernel older than 6.5 that shows nothing of the process
//! in `/proc` (`hidepid`).

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use derecho_core::ids::NodeId;
use rustix::fs::{Mode, OFlags, open, readlink};
use rustix::io::{Errno, read};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, test_kill_process};

use super::socket;

/// Result of a check on a process.
#[derive(Debug)]
pub(crate) enum ProcessStatus {
    /// The process is dead.
    Dead,
    /// The process lives. The descriptor becomes readable when the process dies.
    Alive(OwnedFd),
    /// Nothing could be determined, usually because no descriptor was free.
    Unknown(Errno),
}

/// Checks the process at the other end of a socket.
pub(crate) fn look(socket: &OwnedFd, process: PeerProcess) -> ProcessStatus {
    let process_status = match socket::peer_process(socket) {
        Ok(descriptor) => status_of(descriptor),
        // Linux 6.5 to 6.15, for a process that its parent has already reaped. Later kernels give
        // a descriptor.
        Err(Errno::INVAL | Errno::SRCH) => ProcessStatus::Dead,
        // Kernels before 6.5.
        Err(Errno::NOPROTOOPT) => process.look(),
        Err(errno) => ProcessStatus::Unknown(errno),
    };
    match process_status {
        ProcessStatus::Unknown(_) if process.is_number_free() => ProcessStatus::Dead,
        life => life,
    }
}

fn status_of(descriptor: OwnedFd) -> ProcessStatus {
    if socket::is_dead(&descriptor) {
        ProcessStatus::Dead
    } else {
        ProcessStatus::Alive(descriptor)
    }
}

/// Process identified by its number and its start time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerProcess {
    /// Zero if the process has no number in the namespace of this process.
    pid: i32,
    /// Start time; `None` if `/proc` does not show it.
    started: Option<u64>,
}

impl PeerProcess {
    /// Returns the process at the other end of a socket, whose number is `pid`.
    ///
    /// # Errors
    /// `SRCH` if the process is dead, otherwise the error that prevented the check.
    pub(crate) fn at(end: &OwnedFd, pid: i32) -> Result<PeerProcess, Errno> {
        let started = match status(pid) {
            Err(errno @ (Errno::MFILE | Errno::NFILE)) => return Err(errno),
            status => status.ok().map(|status| status.started),
        };
        let process = PeerProcess { pid, started };
        // This check follows the number's look-up: if the process is alive now, it had this
        // number then.
        match look(end, process) {
            ProcessStatus::Alive(_) => Ok(process),
            ProcessStatus::Dead => Err(Errno::SRCH),
            ProcessStatus::Unknown(errno) => Err(errno),
        }
    }

    /// Process number, zero if the process has none in the namespace of this process.
    pub(crate) fn pid(self) -> i32 {
        self.pid
    }

    /// Whether the process is stopped, or traced and at a stop. False if this cannot be determined.
    pub(crate) fn is_halted(self) -> bool {
        status(self.pid).is_ok_and(|status| {
            matches!(status.state, b'T' | b't') && self.started == Some(status.started)
        })
    }

    /// Whether the process is neither stopped nor dead, as far as can be determined.
    pub(crate) fn runs(self) -> bool {
        !self.is_halted() && !matches!(self.look(), ProcessStatus::Dead)
    }

    /// Whether no process has this number any more. Needs no descriptor. The number of a dead
    /// process becomes free some time after the death.
    fn is_number_free(self) -> bool {
        Pid::from_raw(self.pid).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }

    /// Checks the process by its number.
    fn look(self) -> ProcessStatus {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return ProcessStatus::Unknown(Errno::NODATA);
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => match status(self.pid) {
                Ok(status) if self.started.is_some_and(|started| started != status.started) => {
                    ProcessStatus::Dead
                }
                _ => status_of(descriptor),
            },
            // No process has the number, or it belongs to a thread of another process.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => ProcessStatus::Dead,
            Err(errno) => ProcessStatus::Unknown(errno),
        }
    }
}

/// Processes of the peers, and of the nodes that have called or were called and have not greeted
/// yet, for callers that have no access to the link.
#[derive(Default)]
pub(crate) struct Processes(Mutex<BTreeMap<NodeId, PeerProcess>>);

impl Processes {
    fn known(&self) -> MutexGuard<'_, BTreeMap<NodeId, PeerProcess>> {
        // No operation under this lock can be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, node: NodeId, process: PeerProcess) {
        self.known().insert(node, process);
    }

    pub(crate) fn remove(&self, node: NodeId) {
        self.known().remove(&node);
    }

    /// Names a node's process, or the node if its process is unknown.
    pub(crate) fn name(&self, node: NodeId) -> String {
        let pid = self.known().get(&node).map(|process| process.pid).filter(|pid| *pid > 0);
        pid.map_or_else(|| format!("node {node}"), |pid| format!("process {pid}"))
    }

    /// Whether a node's process is stopped. False if this cannot be determined.
    pub(crate) fn is_halted(&self, node: NodeId) -> bool {
        let process = self.known().get(&node).copied();
        process.is_some_and(PeerProcess::is_halted)
    }
}

/// State and start time of a process, from `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ProcStat {
    /// State letter of the process.
    state: u8,
    /// Start time of the process, in clock ticks since the host booted.
    started: u64,
}

fn status(pid: i32) -> Result<ProcStat, Errno> {
    // `/proc` may belong to another namespace, in which other processes have the same numbers.
    let own = readlink("/proc/self", Vec::new())?;
    if own.to_bytes() != getpid().as_raw_nonzero().to_string().as_bytes() {
        return Err(Errno::XDEV);
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = open(format!("/proc/{pid}/stat"), flags, Mode::empty())?;
    // At most twenty numbers and a name of 64 bytes precede the start time.
    let mut bytes = [0; 1024];
    let length = read(&file, &mut bytes)?;
    parse_status(&bytes[..length]).ok_or(Errno::INVAL)
}

/// Parses `4711 (a name) S ...`. The name may contain any character; the text after it has no
/// bracket. The start time is the 22nd field.
fn parse_status(stat: &[u8]) -> Option<ProcStat> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let mut fields = rest.strip_prefix(' ')?.split(' ');
    let &[state] = fields.next()?.as_bytes() else { return None };
    let started = fields.nth(18)?.parse().ok()?;
    Some(ProcStat { state, started })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::{Signal, kill_process};

    use super::*;

    /// Spawns a process that sleeps until it is killed.
    fn child() -> Child {
        Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap()
    }

    fn number(child: &Child) -> i32 {
        child.id().cast_signed()
    }

    fn process(child: &Child) -> PeerProcess {
        let pid = number(child);
        PeerProcess { pid, started: Some(status(pid).unwrap().started) }
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !holds() {
            assert!(Instant::now() < deadline, "it did not come about that {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn status_parser_accepts_process_name_that_looks_like_state() {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 1234 20\n";
        let parse = |name: &str| parse_status(format!("{name}{rest}").as_bytes());
        assert_eq!(parse("12 (squall) S "), Some(ProcStat { state: b'S', started: 1234 }));
        assert_eq!(parse("12 (a) T (b)) t "), Some(ProcStat { state: b't', started: 1234 }));
        for nonsense in
            ["", "12 ", "12 (squall)", "12 (squall) ", "12 (squall)T ", "12 (squall) TT "]
        {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
        assert_eq!(parse_status(b"12 (squall) S 1 2 3"), None);
    }

    #[test]
    fn own_process_is_reported_alive_and_running() {
        let pid = std::process::id().cast_signed();
        assert!(matches!(status(pid).unwrap().state, b'R' | b'S' | b'D'));
        assert!(status(i32::MAX).is_err());
        let this = PeerProcess { pid, started: Some(status(pid).unwrap().started) };
        assert!(this.runs() && !this.is_halted());
        assert!(matches!(this.look(), ProcessStatus::Alive(_)));
    }

    #[test]
    fn killed_process_is_reported_dead_before_and_after_reaping() {
        let mut child = child();
        let process = process(&child);
        let ProcessStatus::Alive(descriptor) = process.look() else {
            panic!("{:?}", process.look())
        };
        child.kill().unwrap();
        until("the descriptor tells", || socket::is_dead(&descriptor));
        assert!(matches!(process.look(), ProcessStatus::Dead) && !process.runs(), "a zombie");
        assert!(!process.is_number_free());
        child.wait().unwrap();
        assert!(matches!(process.look(), ProcessStatus::Dead) && !process.runs(), "reaped");
        assert!(process.is_number_free());
    }

    #[test]
    fn reused_pid_shows_old_process_neither_alive_nor_stopped() {
        let mut child = child();
        let now = process(&child);
        let before = PeerProcess { started: now.started.map(|started| started - 1), ..now };
        assert!(now.runs() && !before.runs());
        assert!(matches!(before.look(), ProcessStatus::Dead));
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        until("the child is stopped", || now.is_halted());
        assert!(!before.is_halted() && !now.runs());
        // Without a start time, neither a stop nor a death is reported.
        let unknown = PeerProcess { started: None, ..now };
        assert!(!unknown.is_halted() && unknown.runs());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!now.is_halted());
    }

    #[test]
    fn thread_id_is_reported_as_dead_process() {
        let (says, told) = std::sync::mpsc::channel();
        let (ends, end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            says.send(rustix::thread::gettid()).unwrap();
            let _ = end.recv();
        });
        let pid = told.recv().unwrap().as_raw_nonzero().get();
        assert!(matches!(PeerProcess { pid, started: None }.look(), ProcessStatus::Dead));
        drop(ends);
        thread.join().unwrap();
    }

    #[test]
    fn process_without_pid_is_reported_unknown() {
        let process = PeerProcess { pid: 0, started: None };
        assert!(matches!(process.look(), ProcessStatus::Unknown(_)));
        assert!(process.runs() && !process.is_halted() && !process.is_number_free());
    }
}
