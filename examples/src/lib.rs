//! What the examples share: each is one program that plays every part.
//!
//! Owns: starting the other processes of an example. Never does: anything with DDS.
//!
//! Started without arguments, an example starts itself once more for each further process and
//! waits for all; with `--part NAME` it plays one part, so that the parts can be started by hand
//! in several terminals.

use std::error::Error;
use std::process::{Child, Command};

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
    let program = std::env::current_exe()?;
    let mut children = Vec::new();
    for part in parts {
        let part = part.as_ref();
        let child = Command::new(&program).args(["--part", part]).spawn()?;
        children.push((part.to_owned(), Playing(child)));
    }
    for (part, child) in &mut children {
        let status = child.0.wait()?;
        if !status.success() {
            return Err(format!("part `{part}` ended with {status}").into());
        }
    }
    Ok(())
}

/// A child that does not outlive its parent's interest.
struct Playing(Child);

impl Drop for Playing {
    fn drop(&mut self) {
        // Only matters after an error; a child that has ended already is no concern.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
