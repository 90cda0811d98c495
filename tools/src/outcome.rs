//! Results of commands, and their output.

use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use dds_api::infrastructure::DdsError;
use serde_json::Value;

/// Answer of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommandAnswer {
    /// The command succeeded.
    Yes,
    /// The command ran, and the result is not as required.
    No,
}

/// Reason for the lack of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The arguments are contradictory.
    Usage(String),
    /// An operation failed.
    Failed(String),
    /// The reader of the output has closed it, and needs nothing more.
    OutputClosed,
}

/// Result of a command.
pub(crate) type CommandResult = Result<CommandAnswer, Failure>;

impl Failure {
    /// Makes a failure of an operation.
    pub(crate) fn new(text: impl Into<String>) -> Failure {
        Failure::Failed(text.into())
    }

    /// Makes the failure about a file that cannot be read: a missing file is no wrong usage.
    pub(crate) fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
        Failure::Failed(format!("{} cannot be read: {error}", file.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Failed(text) => f.write_str(text),
            Failure::OutputClosed => f.write_str("standard output is closed"),
        }
    }
}

impl From<DdsError> for Failure {
    fn from(error: DdsError) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// Prints the result: the JSON object as one line, or the text for human readers. The answer of
/// the command stands, whether somebody reads the result or not.
pub(crate) fn show(json: bool, value: &Value, text: &str) -> Result<(), Failure> {
    let said = if json { say(&value.to_string()) } else { say(text.trim_end()) };
    match said {
        Err(Failure::OutputClosed) => Ok(()),
        said => said,
    }
}

/// Prints one line and flushes it, because a process at the other end waits for it.
pub(crate) fn say(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::new(format!("standard output cannot be written: {error}")),
    })
}

/// Prints one line on standard error, if that is open.
pub(crate) fn tell(text: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Shows progress on a terminal.
pub(crate) fn progress(text: fmt::Arguments<'_>) {
    let stderr = std::io::stderr();
    if stderr.is_terminal() {
        // A measurement must not fail because progress cannot be shown.
        let _ = writeln!(stderr.lock(), "{text}");
    }
}
