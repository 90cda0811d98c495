//! Commands of the harness over standard input, and lines to it over standard output.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::PeerResult;

/// Maximum time in which a process must leave after its standard input has ended.
const GRACE: Duration = Duration::from_secs(5);

/// Standard input, read line by line on a thread of its own.
pub(crate) struct HarnessControl {
    lines: Receiver<String>,
    ended: Arc<AtomicBool>,
}

impl HarnessControl {
    /// Begins to read standard input.
    pub(crate) fn new() -> HarnessControl {
        let ended = Arc::new(AtomicBool::new(false));
        let (sender, lines) = channel();
        let flag = Arc::clone(&ended);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if sender.send(line.trim().to_owned()).is_err() {
                    return;
                }
            }
            flag.store(true, Ordering::Release);
            drop(sender);
            std::thread::sleep(GRACE);
            std::process::exit(1);
        });
        HarnessControl { lines, ended }
    }

    /// Whether the role must end now.
    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Reports that this role is matched, and waits for `GO` if the role `starts`.
    ///
    /// Returns whether to continue.
    pub(crate) fn ready(&self, starts: bool) -> PeerResult<bool> {
        say("READY")?;
        Ok(!starts || self.lines.iter().any(|line| line == "GO"))
    }

    /// Waits until the role may leave.
    pub(crate) fn wait_for_exit(&self) {
        self.lines.iter().any(|line| line == "EXIT");
    }
}

/// Prints one line.
pub(crate) fn say(line: &str) -> PeerResult<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}
