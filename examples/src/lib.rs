//! Common parts of the examples, each of which is one program with several parts.
//!
//! Owns: starting the other processes of an example. Never does: anything with DDS.
//!
//! Without arguments, an example starts itself once more for each further process and waits for all
//! of them. With `--part NAME` it runs one part, so that the parts can be started by hand in
//! several terminals.

use std::error::Error;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Result of an example's `main`.
pub type ExampleResult = Result<(), Box<dyn Error>>;

/// Returns the part that the command line asks for; `None` for all of them.
pub fn part() -> Result<Option<String>, String> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (None, None, None) => Ok(None),
        (Some("--part"), Some(part), None) => Ok(Some(part)),
        (Some(other), ..) => Err(format!(
            "`{other}` is not understood: start without arguments to run everything, or with \
             `--part NAME` for one part"
        )),
        (None, ..) => Ok(None),
    }
}

/// Starts this program once for each part and waits until all have ended.
pub fn play_all<S: AsRef<str>>(parts: impl IntoIterator<Item = S>) -> ExampleResult {
    let started = parts.into_iter().map(|part| PartProcess::start(part.as_ref()));
    // All parts are started before one is waited for.
    let process: Vec<PartProcess> = started.collect::<Result<_, _>>()?;
    process.into_iter().try_for_each(PartProcess::finish)
}

/// A process that runs a part. It ends at the latest when this value is dropped.
pub struct PartProcess {
    part: String,
    process: Child,
    /// Output of the process, if it is read, and the lines read so far.
    says: Option<Lines<BufReader<ChildStdout>>>,
    lines: Vec<String>,
}

impl PartProcess {
    /// Starts this program as one part.
    pub fn start(part: &str) -> Result<PartProcess, Box<dyn Error>> {
        Self::spawn(part, Stdio::inherit())
    }

    /// Starts one part, and reads its output.
    pub fn listened_to(part: &str) -> Result<PartProcess, Box<dyn Error>> {
        Self::spawn(part, Stdio::piped())
    }

    fn spawn(part: &str, output: Stdio) -> Result<PartProcess, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut process = command.args(["--part", part]).stdout(output).spawn()?;
        let says = process.stdout.take().map(|output| BufReader::new(output).lines());
        Ok(PartProcess { part: part.to_owned(), process, says, lines: Vec::new() })
    }

    /// Waits until the part prints a line with these words.
    pub fn wait_for(&mut self, words: &str) -> ExampleResult {
        while let Some(line) = self.says.as_mut().and_then(Iterator::next) {
            self.lines.push(line?);
            if self.lines.last().is_some_and(|line| line.contains(words)) {
                return Ok(());
            }
        }
        Err(format!("part `{}` has ended, and never said `{words}`", self.part).into())
    }

    /// Returns all lines of the part when it has ended.
    pub fn listen_to_the_end(mut self) -> Result<Vec<String>, Box<dyn Error>> {
        while let Some(line) = self.says.as_mut().and_then(Iterator::next) {
            self.lines.push(line?);
        }
        let lines = std::mem::take(&mut self.lines);
        self.finish()?;
        Ok(lines)
    }

    /// Waits until the part has ended successfully.
    pub fn finish(mut self) -> ExampleResult {
        let status = self.process.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("part `{}` ended with {status}", self.part).into()),
        }
    }

    /// Kills the part, like an accident.
    pub fn kill(mut self) -> ExampleResult {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for PartProcess {
    fn drop(&mut self) {
        // The kill matters only if the process is still running.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
