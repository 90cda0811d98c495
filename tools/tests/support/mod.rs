//! The command as tests start it: in a temporary folder of its own, which must be empty afterwards.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use serde_json::Value;

/// Time limit far above the duration of any test.
const LIMIT: Duration = Duration::from_secs(120);

/// Type of samples that tests of stores write.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    #[dds(key)]
    pub(crate) sensor: u32,
    pub(crate) value: u32,
}

/// Maximum time to wait for such samples.
pub(crate) const SOON: Timeout = Timeout::secs(60);

/// A folder for all temporary files.
pub(crate) struct TestFolder(tempfile::TempDir);

impl TestFolder {
    pub(crate) fn new() -> TestFolder {
        TestFolder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the command with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_squall"));
        command
            .args(arguments)
            .env("TMPDIR", self.path())
            .env("SQUALL_RUNTIME_DIR", self.path().join("run"));
        command
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> EndedCommand {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        EndedCommand { status, out: text(stdout), err: text(stderr) }
    }

    /// Starts the command with piped standard input and output.
    pub(crate) fn start(&self, arguments: &[&str]) -> RunningCommand {
        let mut child =
            self.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        RunningCommand { child, input, lines }
    }

    /// Checks that no file is left behind.
    pub(crate) fn assert_empty(&self) {
        let left: Vec<_> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// Waits until the folder is empty.
    pub(crate) fn wait_until_empty(&self) {
        let deadline = Instant::now() + LIMIT;
        while std::fs::read_dir(self.path()).unwrap().next().is_some() {
            assert!(Instant::now() < deadline, "something is left behind");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A command that has ended.
pub(crate) struct EndedCommand {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl EndedCommand {
    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> EndedCommand {
        assert_eq!(self.status.code(), Some(code), "out: {}\nerr: {}", self.out, self.err);
        self
    }

    /// Checks for words on standard error.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> EndedCommand {
        assert!(self.err.contains(words), "no `{words}` in: {}", self.err);
        self
    }

    /// Returns the JSON object on the last line of the output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let last = self.out.lines().last().unwrap_or_default();
        let value: Value = serde_json::from_str(last).unwrap_or_else(|error| {
            panic!("{error} in the last line of: {}\nerr: {}", self.out, self.err)
        });
        assert!(value.is_object(), "{value}");
        value
    }
}

/// A running command.
pub(crate) struct RunningCommand {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl RunningCommand {
    /// Returns the next line of the output.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        self.lines.recv_timeout(LIMIT).expect("a line in time")
    }

    #[track_caller]
    pub(crate) fn expect_ready(&mut self) {
        assert_eq!(self.line(), "READY");
    }

    #[track_caller]
    pub(crate) fn result(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Closes the standard input.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the command ends by itself, and checks its exit code.
    #[track_caller]
    pub(crate) fn leaves_with(mut self, code: i32) {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(code));
                return;
            }
            assert!(Instant::now() < deadline, "the command does not leave");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether there is unread output.
    pub(crate) fn has_more_lines(&mut self) -> bool {
        self.lines.try_recv().is_ok()
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
