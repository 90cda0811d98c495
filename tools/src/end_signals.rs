//! Signals that ask a command to end.
//!
//! Owns: receiving them. Never does: end anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::outcome::Failure;

/// Receiver of SIGINT and SIGTERM.
pub(crate) struct EndSignals(Arc<AtomicBool>);

impl EndSignals {
    pub(crate) fn new() -> Result<EndSignals, Failure> {
        let requested = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&requested))
                .map_err(|error| Failure::new(format!("waiting for signals failed: {error}")))?;
        }
        Ok(EndSignals(requested))
    }

    /// Whether a signal has been received.
    pub(crate) fn are_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
