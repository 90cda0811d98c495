//! What the examples share: each is one program that plays every part.
//!
//! Owns: starting the other processes of an example. Never does: anything with DDS.
//!
//! Started without arguments, an example starts itself once more for each further process and
//! waits for all; with `--part NAME` it plays one part, so that the parts can be started by hand
//! in several terminals.

use std::error::Error;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

/// What an example's `main` answers.
pub type Outcome = Result<(), Box<dyn Error>>;

/// The part that the command line asks for; `None` asks for all of them.
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
pub fn play_all<S: AsRef<str>>(parts: impl IntoIterator<Item = S>) -> Outcome {
    let started = parts.into_iter().map(|part| Playing::start(part.as_ref()));
    // All run before one is waited for.
    let playing: Vec<Playing> = started.collect::<Result<_, _>>()?;
    playing.into_iter().try_for_each(Playing::finish)
}

/// A process that plays a part. It does not outlive its parent's interest.
pub struct Playing {
    part: String,
    process: Child,
    /// What it says, if somebody listens, and what it has said so far.
    says: Option<Lines<BufReader<ChildStdout>>>,
    said: Vec<String>,
}

impl Playing {
    /// Starts this program in a part.
    pub fn start(part: &str) -> Result<Playing, Box<dyn Error>> {
        Self::spawn(part, Stdio::inherit())
    }

    /// Starts it, and listens to what it says.
    pub fn listened_to(part: &str) -> Result<Playing, Box<dyn Error>> {
        Self::spawn(part, Stdio::piped())
    }

    fn spawn(part: &str, output: Stdio) -> Result<Playing, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut process = command.args(["--part", part]).stdout(output).spawn()?;
        let says = process.stdout.take().map(|output| BufReader::new(output).lines());
        Ok(Playing { part: part.to_owned(), process, says, said: Vec::new() })
    }

    /// Waits until it says a line with these words.
    pub fn wait_for(&mut self, words: &str) -> Outcome {
        while let Some(line) = self.says.as_mut().and_then(Iterator::next) {
            self.said.push(line?);
            if self.said.last().is_some_and(|line| line.contains(words)) {
                return Ok(());
            }
        }
        Err(format!("part `{}` has ended, and never said `{words}`", self.part).into())
    }

    /// All that it has said when it has ended.
    pub fn listen_to_the_end(mut self) -> Result<Vec<String>, Box<dyn Error>> {
        while let Some(line) = self.says.as_mut().and_then(Iterator::next) {
            self.said.push(line?);
        }
        let said = std::mem::take(&mut self.said);
        self.finish()?;
        Ok(said)
    }

    /// Waits until it has ended as it should.
    pub fn finish(mut self) -> Outcome {
        let status = self.process.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("part `{}` ended with {status}", self.part).into()),
        }
    }

    /// Kills it, as an accident would.
    pub fn kill(mut self) -> Outcome {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        // Only matters if it runs still; a child that has ended is no concern.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
