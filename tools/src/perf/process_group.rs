//! Processes of one measurement.
//!
//! Owns: the children, which are this command in other roles, their standard input and output, and
//! a temporary folder where only they meet. All of them end with the group: children that do not
//! leave are killed, and the folder is removed. Children end when their standard input does, so
//! they outlive a killed parent only briefly.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::outcome::Failure;

/// Maximum time in which a child must leave when told to.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);
/// Interval between two checks whether a child has left.
const LOOK: Duration = Duration::from_millis(2);

/// One child.
pub(crate) struct ChildProcess {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

/// All children of one measurement.
pub(crate) struct ProcessGroup {
    children: Vec<ChildProcess>,
    deadline: Instant,
    folder: Option<TempDir>,
}

impl ProcessGroup {
    /// Makes an empty group without a folder; the measurement must end within `limit`.
    pub(crate) fn without_folder(limit: Duration) -> ProcessGroup {
        ProcessGroup { children: Vec::new(), deadline: Instant::now() + limit, folder: None }
    }

    /// Makes an empty group; the measurement must end within `limit`.
    pub(crate) fn new(limit: Duration) -> Result<ProcessGroup, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("squall-perf-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|error| Failure::new(format!("no temporary folder can be made: {error}")))?;
        // Only the name is kept. The first child makes the folder, so the last one removes it, even
        // if this command was killed.
        std::fs::remove_dir(folder.path()).map_err(|error| {
            Failure::new(format!("the temporary folder cannot be left to the children: {error}"))
        })?;
        let mut process_group = ProcessGroup::without_folder(limit);
        process_group.folder = Some(folder);
        Ok(process_group)
    }

    /// Starts a child with these arguments of `squall perf`. Returns its number.
    pub(crate) fn start(&mut self, name: &str, arguments: &[String]) -> Result<usize, Failure> {
        let fail = |error| Failure::new(format!("{name} cannot be started: {error}"));
        let program = std::env::current_exe().map_err(fail)?;
        let mut command = Command::new(program);
        if let Some(folder) = &self.folder {
            command.env("SQUALL_RUNTIME_DIR", folder.path());
        }
        let mut child = command
            .arg("perf")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A process group of its own, so that an interrupt from the terminal reaches this
            // process only, and the children then leave in order.
            .process_group(0)
            .spawn()
            .map_err(fail)?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines() {
                    let Ok(line) = line else { break };
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let (name, input) = (name.to_owned(), child.stdin.take());
        self.children.push(ChildProcess { name, child, input, lines });
        Ok(self.children.len() - 1)
    }

    /// Returns the folder where the children meet.
    pub(crate) fn folder(&self) -> Result<&Path, Failure> {
        let folder = self.folder.as_ref().map(TempDir::path);
        folder.ok_or_else(|| Failure::new("this process group has no folder of its own"))
    }

    /// Kills a child; the child is not asked to leave at the end.
    pub(crate) fn kill(&mut self, hand: usize) -> Result<(), Failure> {
        let ChildProcess { name, child, input, .. } = &mut self.children[hand];
        let killed = child.kill().and_then(|()| child.wait());
        *input = None;
        killed.map(drop).map_err(|error| Failure::new(format!("{name} cannot be killed: {error}")))
    }

    /// Waits until every child is connected.
    pub(crate) fn all_ready(&mut self) -> Result<(), Failure> {
        for hand in 0..self.children.len() {
            let line = self.line(hand, "to be connected")?;
            if line != "READY" {
                let name = &self.children[hand].name;
                return Err(Failure::new(format!("{name} said `{line}` instead of READY")));
            }
        }
        Ok(())
    }

    /// Sends a line to a child.
    pub(crate) fn tell(&mut self, hand: usize, line: &str) -> Result<(), Failure> {
        let ChildProcess { name, input, .. } = &mut self.children[hand];
        let told =
            input.as_mut().map(|input| writeln!(input, "{line}").and_then(|()| input.flush()));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err(Failure::new(format!("{name} has ended early; its message is above"))),
        }
    }

    /// Waits for a child's result.
    pub(crate) fn result<T: DeserializeOwned>(&mut self, hand: usize) -> Result<T, Failure> {
        let line = self.line(hand, "to finish")?;
        serde_json::from_str(&line).map_err(|error| {
            let name = &self.children[hand].name;
            Failure::new(format!("the result of {name} cannot be read ({error}): {line}"))
        })
    }

    fn line(&mut self, hand: usize, what: &str) -> Result<String, Failure> {
        let ChildProcess { name, lines, .. } = &mut self.children[hand];
        let left = self.deadline.saturating_duration_since(Instant::now());
        lines.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => Failure::new(format!(
                "{name} took too long {what}: give it more time with --limit, or less to do"
            )),
            RecvTimeoutError::Disconnected => {
                Failure::new(format!("{name} ended early; its message is above"))
            }
        })
    }

    /// Lets all children leave, and waits until they have left.
    pub(crate) fn dismiss(mut self) -> Result<(), Failure> {
        self.children.retain(|hand| hand.input.is_some());
        for hand in 0..self.children.len() {
            self.tell(hand, "EXIT")?;
        }
        let deadline = Instant::now() + LEAVE_LIMIT;
        self.children.iter_mut().try_for_each(|hand| hand.leave(deadline))
    }

    /// Lets one child leave, and waits until it has left.
    pub(crate) fn let_go(&mut self, hand: usize) -> Result<(), Failure> {
        self.tell(hand, "EXIT")?;
        self.children[hand].leave(Instant::now() + LEAVE_LIMIT)
    }
}

impl ChildProcess {
    fn leave(&mut self, deadline: Instant) -> Result<(), Failure> {
        drop(self.input.take());
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(Failure::new(format!("{} ended with {status}", self.name)));
                }
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
                _ => return Err(Failure::new(format!("{} does not leave", self.name))),
            }
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Children that have left are only reaped. The others are killed: the measurement has
        // failed, and they must not outlive this process.
        for hand in &mut self.children {
            let _ = hand.child.kill();
            let _ = hand.child.wait();
        }
    }
}
