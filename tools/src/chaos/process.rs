//! A member from the view of the cycle: a child process, its output lines, and its history.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender};

use rustix::process::{Pid, Signal, kill_process};

use super::Settings;
use super::sample::{ChaosLevel, FeignedViolation};
use crate::outcome::{Failure, tell};
use crate::perf::clock;

/// A line from a member.
pub(crate) struct MemberLine {
    pub(crate) process: u32,
    pub(crate) line: String,
}

/// Ways in which a member ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MemberEnd {
    Killed,
    Left,
}

/// History of a member. Times are nanoseconds of the monotonic clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberHistory {
    pub(crate) ready: Option<u64>,
    /// Times of SIGSTOP and SIGCONT; the latter is missing while the process is stopped.
    pub(crate) stops: Vec<(u64, Option<u64>)>,
    pub(crate) isolated: Option<(u64, String)>,
    /// Time at which the process was killed or told to leave.
    pub(crate) ended: Option<(u64, MemberEnd)>,
}

impl MemberHistory {
    /// Whether the process is stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.stops.last(), Some((_, None)))
    }
}

/// A member's process.
pub(crate) struct MemberProcess {
    pub(crate) number: u32,
    child: Child,
    input: Option<ChildStdin>,
    pub(crate) history: MemberHistory,
    /// Levels read by the process, and the names of their readers, once the process has settled.
    pub(crate) settled: Option<BTreeMap<ChaosLevel, String>>,
    /// Whether the process has answered what it waits for.
    pub(crate) is_described: bool,
    status: Option<ExitStatus>,
}

impl MemberProcess {
    /// Starts a member in the folders of a cycle.
    pub(crate) fn start(
        number: u32,
        folder: &Path,
        settings: &Settings,
        plant: Option<FeignedViolation>,
        line_sender: &Sender<MemberLine>,
    ) -> Result<MemberProcess, Failure> {
        let fail = |error| Failure::new(format!("process {number} cannot be started: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(fail)?);
        command.arg("chaos-member").args(["--process", &number.to_string()]);
        command.arg("--runtime-dir").arg(folder.join("run"));
        command.arg("--logs").arg(folder.join("logs"));
        command.arg("--journals").arg(folder.join("journals"));
        command.args(["--member-timeout", &settings.member_timeout.as_millis().to_string()]);
        command.args(["--limit", &settings.limit.as_millis().to_string()]);
        if let Some(plant) = plant {
            let value = clap::ValueEnum::to_possible_value(&plant);
            command.arg("--plant").args(value.iter().map(clap::builder::PossibleValue::get_name));
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A process group of its own, so that an interrupt from the terminal reaches the
            // cycle only.
            .process_group(0)
            .spawn()
            .map_err(fail)?;
        if let Some(output) = child.stdout.take() {
            let line_sender = line_sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines() {
                    let Ok(line) = line else { break };
                    if line_sender.send(MemberLine { process: number, line }).is_err() {
                        break;
                    }
                }
            });
        }
        let input = child.stdin.take();
        let history = MemberHistory::default();
        Ok(MemberProcess {
            number,
            child,
            input,
            history,
            settled: None,
            is_described: false,
            status: None,
        })
    }

    /// Whether the process takes part: it has neither ended nor been told to end.
    pub(crate) fn takes_part(&self) -> bool {
        self.history.ended.is_none() && self.history.isolated.is_none()
    }

    /// Whether the process is expected to make progress.
    pub(crate) fn is_healthy(&self) -> bool {
        self.takes_part() && !self.history.is_stopped()
    }

    /// Sends a line to the member. A member that has ended does not receive it.
    pub(crate) fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    pub(crate) fn stop(&mut self) {
        self.history.stops.push((clock::now(), None));
        self.signal(Signal::STOP);
    }

    pub(crate) fn go_on(&mut self) {
        self.signal(Signal::CONT);
        if let Some((_, end @ None)) = self.history.stops.last_mut() {
            *end = Some(clock::now());
        }
    }

    pub(crate) fn kill(&mut self) {
        self.history.ended = Some((clock::now(), MemberEnd::Killed));
        self.signal(Signal::KILL);
    }

    /// Tells the member to leave.
    pub(crate) fn leave(&mut self, keep: bool) {
        self.history.ended = Some((clock::now(), MemberEnd::Left));
        self.tell(&format!("LEAVE {keep}"));
        self.input = None;
    }

    fn signal(&mut self, signal: Signal) {
        if self.status().is_none() {
            // The process is a child that has not been reaped, so the pid is its own.
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Prints the kernel function in which each thread of the process waits.
    pub(crate) fn show_threads(&self) {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        for task in tasks.into_iter().flatten().flatten() {
            let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
            tell(format_args!(
                "squall: process {}: thread {} waits in {}",
                self.number,
                read("comm").trim_end(),
                read("wchan").trim_end(),
            ));
        }
    }

    /// Returns the exit status of the process, if it has ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }
}

impl Drop for MemberProcess {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Creates the channel for all lines of a cycle.
pub(crate) fn lines() -> (Sender<MemberLine>, Receiver<MemberLine>) {
    std::sync::mpsc::channel()
}
