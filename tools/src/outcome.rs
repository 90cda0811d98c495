//! How a command ends, and how it says so.

use std::fmt;
use std::io::{IsTerminal, Write};

use dds_api::infrastructure::DdsError;
use serde_json::Value;

/// What the answer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Done as asked.
    Yes,
    /// Done, and what was found is not what should be.
    No,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense together.
    Usage(String),
    /// Something did not work.
    Failed(String),
}

/// How a command ends.
pub(crate) type Done = Result<Outcome, Failure>;

impl Failure {
    /// Something did not work.
    pub(crate) fn new(text: impl Into<String>) -> Failure {
        Failure::Failed(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Failed(text) => f.write_str(text),
        }
    }
}

impl From<DdsError> for Failure {
    fn from(error: DdsError) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// Prints the result: the JSON object as one line, or the text for people.
pub(crate) fn show(json: bool, value: &Value, text: &str) {
    if json {
        println!("{value}");
    } else {
        println!("{}", text.trim_end());
    }
}

/// Prints one line and makes sure that it leaves: somebody waits for it at the other end.
pub(crate) fn say(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(format!("standard output cannot be written: {error}")))
}

/// Tells a person at a terminal what is going on.
pub(crate) fn progress(text: fmt::Arguments<'_>) {
    let stderr = std::io::stderr();
    if stderr.is_terminal() {
        // Progress that cannot be shown is nothing that a measurement should fail for.
        let _ = writeln!(stderr.lock(), "{text}");
    }
}
