//! Commands to a role from its harness, over standard input.
//!
//! Owns: standard input, read line by line on a thread of its own. Under a harness (the measuring
//! protocol) a role waits for `GO` before it sends and for `EXIT` before it leaves. The end of
//! standard input means that the role must end now, so that no process outlives its harness. A role
//! started by a person waits for nothing.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::outcome::{Failure, say, tell};

/// Maximum time in which a process must leave after its standard input has ended.
const GRACE: Duration = Duration::from_secs(5);

/// Standard input under a harness, or no input.
pub(crate) struct HarnessControl {
    lines: Option<Receiver<String>>,
    shared: Arc<ControlState>,
}

struct ControlState {
    ended: AtomicBool,
    /// Total number of samples, once it is known.
    total: AtomicU64,
}

impl HarnessControl {
    /// Makes a control for a role under a harness if `harness`, otherwise for a free one.
    pub(crate) fn new(harness: bool) -> HarnessControl {
        let shared = Arc::new(ControlState {
            ended: AtomicBool::new(false),
            total: AtomicU64::new(u64::MAX),
        });
        if !harness {
            return HarnessControl { lines: None, shared };
        }
        let (sender, lines) = channel();
        let heard = Arc::clone(&shared);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                let line = line.trim();
                // Only this command's own harness sends this line: a run limited by time has ended.
                if let Some(total) = line.strip_prefix("TOTAL ").and_then(|n| n.parse().ok()) {
                    heard.total.store(total, Ordering::Release);
                } else if sender.send(line.to_owned()).is_err() {
                    return;
                }
            }
            heard.ended.store(true, Ordering::Release);
            drop(sender);
            std::thread::sleep(GRACE);
            tell(format_args!(
                "squall: standard input has ended and this process could not leave in time"
            ));
            std::process::exit(1);
        });
        HarnessControl { lines: Some(lines), shared }
    }

    /// Whether the role must end now.
    #[inline]
    pub(crate) fn ended(&self) -> bool {
        self.shared.ended.load(Ordering::Relaxed)
    }

    /// Returns the total number of samples, once the harness has sent it.
    pub(crate) fn total(&self) -> Option<u64> {
        let total = self.shared.total.load(Ordering::Acquire);
        (total != u64::MAX).then_some(total)
    }

    /// Reports that this role is connected, and waits for `word` if one is given.
    ///
    /// Returns whether to continue.
    pub(crate) fn ready(&self, word: Option<&str>) -> Result<bool, Failure> {
        let Some(lines) = &self.lines else { return Ok(true) };
        say("READY")?;
        Ok(word.is_none_or(|word| wait_for(lines, word)))
    }

    /// Waits until the role may leave.
    pub(crate) fn wait_for_exit(&self) {
        if let Some(lines) = &self.lines {
            wait_for(lines, "EXIT");
        }
    }

    /// Whether the role may leave; does not wait.
    pub(crate) fn may_leave(&self) -> bool {
        self.has_received("EXIT")
    }

    /// Whether `word` was received, or the harness has ended; does not wait. Other lines before it
    /// are ignored.
    pub(crate) fn has_received(&self, word: &str) -> bool {
        self.ended()
            || self.lines.as_ref().is_none_or(|lines| lines.try_iter().any(|line| line == word))
    }

    /// Whether there is a harness.
    pub(crate) fn is_harnessed(&self) -> bool {
        self.lines.is_some()
    }
}

/// Waits for a line and ignores others; `false` at the end of standard input.
fn wait_for(lines: &Receiver<String>, word: &str) -> bool {
    lines.iter().any(|line| line == word)
}
