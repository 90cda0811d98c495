//! Processes of one measurement. Each has a deadline; none outlives its measurement.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks at a process that is to end.
const LOOK: Duration = Duration::from_millis(1);
/// Maximum length of an error text.
const LONGEST_ERROR: usize = 300;

/// A process that speaks the measuring protocol.
pub(crate) struct PeerProcess {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    deadline: Instant,
    has_ended: bool,
}

impl PeerProcess {
    /// Starts a process.
    pub(crate) fn start(
        name: String,
        command: &mut Command,
        deadline: Instant,
    ) -> Result<PeerProcess, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{name} cannot start: {error}"))?;
        let input = child.stdin.take();
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let errors = child.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error is shown.
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).trim().to_owned()
            })
        });
        Ok(PeerProcess { name, child, input, lines, errors, deadline, has_ended: false })
    }

    /// Returns the next line that begins with `start`.
    pub(crate) fn line(&mut self, start: &str) -> Result<String, String> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.starts_with(start) => return Ok(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Err(self.fail("took too long")),
                Err(RecvTimeoutError::Disconnected) => return Err(self.fail("has ended early")),
            }
        }
    }

    /// Sends a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), String> {
        let sent = self.input.as_mut().is_some_and(|input| writeln!(input, "{line}").is_ok());
        if sent { Ok(()) } else { Err(self.fail("reads no more lines")) }
    }

    /// Waits for the end, which must be a success.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.has_ended = true;
                    let ended_well = status.success();
                    return if ended_well { Ok(()) } else { Err(self.fail("has failed")) };
                }
                Ok(None) if Instant::now() < self.deadline => std::thread::sleep(LOOK),
                _ => return Err(self.fail("did not leave")),
            }
        }
    }

    /// Ends the process and returns the text of an error.
    fn fail(&mut self, what: &str) -> String {
        self.stop();
        let errors = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        let lines = errors.lines().filter(|line| !line.trim().is_empty());
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with("note:")).collect();
        let last = lines[lines.len().saturating_sub(3)..].join(" / ");
        let text = format!("{} {what}: {last}", self.name);
        text.chars().take(LONGEST_ERROR).collect()
    }

    fn stop(&mut self) {
        if !self.has_ended {
            // Both fail only if the process has ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.has_ended = true;
        }
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> PeerProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        PeerProcess::start("peer".to_owned(), &mut command, Instant::now() + limit).unwrap()
    }

    #[test]
    fn process_that_speaks_the_protocol_is_heard() {
        let script = "echo other; echo READY; read go; echo \"{$go}\"; read exit";
        let mut peer = shell(script, Duration::from_secs(20));
        assert_eq!(peer.line("READY"), Ok("READY".to_owned()));
        peer.tell("GO").unwrap();
        assert_eq!(peer.line("{"), Ok("{GO}".to_owned()));
        peer.tell("EXIT").unwrap();
        assert_eq!(peer.end(), Ok(()));
    }

    #[test]
    fn silent_process_is_ended_at_its_deadline() {
        let mut peer = shell("exec sleep 60", Duration::from_millis(50));
        assert_eq!(peer.line("READY"), Err("peer took too long: ".to_owned()));
    }

    #[test]
    fn error_output_is_part_of_the_error() {
        let script = "echo panicked >&2; echo no room >&2; echo note: more >&2; exit 3";
        let mut peer = shell(script, Duration::from_secs(20));
        assert_eq!(peer.line("READY"), Err("peer has ended early: panicked / no room".to_owned()));
    }
}
