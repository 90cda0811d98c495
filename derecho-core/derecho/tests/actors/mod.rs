//! Child processes of a test: the test program itself, started once for each.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(30);
const ROLE: &str = "DERECHO_TEST_ROLE";
const FOLDER: &str = "DERECHO_TEST_FOLDER";

/// Role and folder of this process; `None` if it is the test itself.
pub(crate) fn role() -> Option<(u64, PathBuf)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role.parse().unwrap(), PathBuf::from(std::env::var_os(FOLDER).unwrap())))
}

pub(crate) fn print_line(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{text}").unwrap();
    out.flush().unwrap();
}

/// Child process with a role, and the lines that it has printed.
pub(crate) struct ChildProcess {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl ChildProcess {
    pub(crate) fn start(who: u64, folder: &Path) -> ChildProcess {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "act", "--nocapture", "--test-threads=1"])
            .env(ROLE, who.to_string())
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output: ChildStdout = process.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
                if let Some((_, text)) = line.split_once('@') {
                    let _ = sender.send(text.to_owned());
                }
            }
        });
        ChildProcess { process, input, lines }
    }

    pub(crate) fn hear(&self, beginning: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let text = self.lines.recv_timeout(left);
            let text = text.unwrap_or_else(|_| panic!("it does not say `{beginning}`"));
            if text.starts_with(beginning) {
                return text;
            }
        }
    }

    pub(crate) fn stop(&mut self) {
        writeln!(self.input, "stop").unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Returns all remaining lines of a child process that has ended.
    pub(crate) fn remaining_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(text) = self.lines.recv_timeout(LIMIT) {
            lines.push(text);
        }
        lines
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
