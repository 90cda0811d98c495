//! Support shared by the tests: nodes in a folder of their own, and child processes that are nodes.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

pub(crate) mod raw;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::link::{Evidence, Link, LinkEvent};
use derecho_core::memory::Replica;
use tempfile::TempDir;

/// Longer than anything in these tests takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Folder in which nodes meet. Fails the test if anything is left in it at the end.
pub(crate) struct TestDomain {
    pub(crate) folder: TempDir,
    pub(crate) domain: &'static str,
}

impl TestDomain {
    pub(crate) fn new() -> TestDomain {
        TestDomain { folder: tempfile::tempdir().unwrap(), domain: "test" }
    }

    pub(crate) fn runtime_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    pub(crate) fn domain_dir(&self) -> PathBuf {
        self.runtime_dir().join(self.domain)
    }

    pub(crate) fn config(&self) -> ShmConfig {
        config(&self.runtime_dir())
    }

    pub(crate) fn join(&self) -> TestNode {
        TestNode::join(self.config())
    }

    pub(crate) fn sockets(&self) -> usize {
        let Ok(entries) = std::fs::read_dir(self.domain_dir()) else { return 0 };
        entries.flatten().filter(|entry| entry.path().extension() == Some("sock".as_ref())).count()
    }

    /// Fails the test if a process listens in the folder of a UNIX group. Only the users of the
    /// group can remove the files that they left there.
    pub(crate) fn assert_nobody_listens(&self) {
        for entry in std::fs::read_dir(self.domain_dir()).into_iter().flatten().flatten() {
            if entry.path().extension() == Some("sock".as_ref()) {
                assert!(raw::try_connect(&entry.path()).is_err(), "{:?} lives", entry.path());
            }
        }
        let _ = std::fs::remove_dir_all(self.runtime_dir());
        self.assert_empty();
    }

    pub(crate) fn assert_empty(&self) {
        let left: Vec<_> = std::fs::read_dir(self.folder.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

pub(crate) fn config(runtime_dir: &Path) -> ShmConfig {
    let mut config = ShmConfig::new("test");
    config.runtime_dir = Some(runtime_dir.to_owned());
    config.group = None;
    config
}

/// A link and the events that it has reported.
pub(crate) struct TestNode {
    pub(crate) link: ShmLink,
    pub(crate) up: Vec<NodeId>,
    pub(crate) down: Vec<(Peer, Evidence)>,
    pub(crate) regions: Vec<(Peer, RegionId, Replica)>,
    pub(crate) closed: Vec<(Peer, RegionId)>,
    pub(crate) ready: Vec<(Peer, RegionId)>,
    pub(crate) notes: Vec<(Peer, Vec<u8>)>,
}

impl TestNode {
    pub(crate) fn join(config: ShmConfig) -> TestNode {
        TestNode::new(ShmLink::join(config).unwrap())
    }

    pub(crate) fn new(link: ShmLink) -> TestNode {
        TestNode {
            link,
            up: Vec::new(),
            down: Vec::new(),
            regions: Vec::new(),
            closed: Vec::new(),
            ready: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn poll(&mut self) {
        let TestNode { link, up, down, regions, closed, ready, notes } = self;
        link.poll(&mut |event| match event {
            LinkEvent::PeerUp { node, .. } => up.push(node),
            LinkEvent::PeerDown { peer, evidence } => down.push((peer, evidence)),
            LinkEvent::RegionUp { peer, region, replica } => regions.push((peer, region, replica)),
            LinkEvent::RegionDown { peer, region } => closed.push((peer, region)),
            LinkEvent::RegionReady { peer, region } => ready.push((peer, region)),
            LinkEvent::Note { peer, bytes } => notes.push((peer, bytes)),
            LinkEvent::ReadDone { .. } => {}
        });
    }

    /// Polls until `holds` returns true.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&TestNode) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.poll();
            if holds(self) {
                return;
            }
            assert!(Instant::now() < deadline, "it did not come about that {what}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    pub(crate) fn replica(&self, region: RegionId) -> Replica {
        let found = self.regions.iter().find(|(_, name, _)| *name == region);
        found.expect("the region is up").2.clone()
    }
}

/// Waits until `holds` returns true.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it did not come about that {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Process that is a node: this test program started in a role.
pub(crate) struct ChildNode {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

const ROLE: &str = "SQUALL_TEST_ROLE";
const FOLDER: &str = "SQUALL_TEST_FOLDER";

/// Returns the role of this process and the runtime folder, if it is a child node.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, PathBuf::from(std::env::var_os(FOLDER)?)))
}

/// Sends a line from a child node to the test that started it. Not through `println`, which a test
/// harness may capture.
pub(crate) fn print_line(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{text}").unwrap();
    out.flush().unwrap();
}

/// Receives the lines of the test that started this child node, which a separate thread reads.
pub(crate) fn orders() -> Receiver<String> {
    let (lines, received) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if lines.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    received
}

/// Returns the number of open descriptors of this process, including the one that reads the list.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

impl ChildNode {
    /// Starts the test named `act` of this program in a role.
    pub(crate) fn start(role: &str, runtime_dir: &Path) -> ChildNode {
        ChildNode::start_with(role, runtime_dir, |_| {})
    }

    /// As `start`, with a change of the command.
    pub(crate) fn start_with(
        role: &str,
        runtime_dir: &Path,
        change: impl FnOnce(&mut Command),
    ) -> ChildNode {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "act", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(FOLDER, runtime_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        change(&mut command);
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        ChildNode { process, input, output }
    }

    /// Starts the child node as another user.
    pub(crate) fn start_as(role: &str, runtime_dir: &Path, uid: u32, gid: u32) -> ChildNode {
        ChildNode::start_with(role, runtime_dir, |command| {
            command.uid(uid).gid(gid);
        })
    }

    /// Returns the next line of the child node.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).unwrap();
            assert!(length > 0, "the child node has ended without a line");
            // The harness prints before the child node's first line, on the same line.
            if let Some((_, text)) = line.trim_end().split_once('@') {
                return text.to_owned();
            }
        }
    }

    pub(crate) fn tell(&mut self, text: &str) {
        writeln!(self.input, "{text}").unwrap();
        self.input.flush().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Stops every thread of the process.
    pub(crate) fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
        let stopped = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap();
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
        };
        until("all its threads are stopped", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
            tasks.flatten().all(stopped)
        });
    }

    /// Kills the process and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for an orderly end of the process.
    pub(crate) fn finish(mut self) {
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for ChildNode {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Opens the test program and the folder to other users. Returns whether that is possible.
pub(crate) fn let_others_in(meeting: &TestDomain) -> bool {
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(meeting.folder.path(), 0o777);
    let exe = std::env::current_exe().unwrap();
    let reachable = exe.ancestors().skip(1).all(|folder| {
        std::fs::metadata(folder).is_ok_and(|it| it.permissions().mode() & 0o001 != 0)
    });
    if !is_root() || !reachable {
        eprintln!("skipped: needs root, and a test program that other users can run");
        return false;
    }
    true
}
