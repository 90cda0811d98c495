//! Batching of a stream at full rate on the taking side.
//!
//! Owns: the pause of a taking thread before it looks again. Never does: delay messages that come
//! one at a time; only a stream that brings news in every turn is slowed down.
//!
//! If a thread takes each message as it comes, its processor repeatedly requests the cache line
//! that the sender is writing, and the sender waits for the line each time. Both then run at the
//! speed of cache-line transfers between cores. If the reader looks a little later, the sender
//! fills many lines undisturbed.

use std::sync::atomic::{AtomicU32, Ordering};

use derecho_core::ids::Time;

use crate::clock;

/// Number of consecutive waits that brought little at once, before the next wait pauses, and before
/// the pause doubles.
const IN_A_ROW: u32 = 8;
/// Amount of work of a turn below which it counts as little.
const LITTLE: usize = 64;
/// Length of the first pauses.
const PAUSE_NS: u64 = 500;
/// Maximum number of doublings of the pause.
const DOUBLINGS: u32 = 2;

/// One wait of an application thread.
pub(crate) struct BatchPause<'a> {
    thin: &'a AtomicU32,
    before: u32,
}

impl<'a> BatchPause<'a> {
    /// Pauses if the last waits, which `thin` counts, have each brought little.
    #[inline]
    pub(crate) fn begin(thin: &'a AtomicU32, now: Time) -> BatchPause<'a> {
        let before = thin.load(Ordering::Relaxed);
        if before >= IN_A_ROW {
            pause(now, before / IN_A_ROW - 1);
        }
        BatchPause { thin, before }
    }

    /// Records the result of the wait's first turn.
    #[inline]
    pub(crate) fn learn(self, done: usize, is_ready: bool) {
        let thin = match is_ready && done > 0 {
            // While pauses help, they stay as they are.
            true if done >= LITTLE => self.before,
            true => (self.before + 1).min(IN_A_ROW * (DOUBLINGS + 1)),
            false => 0,
        };
        if thin != self.before {
            self.thin.store(thin, Ordering::Relaxed);
        }
    }
}

fn pause(now: Time, doublings: u32) {
    let until = now.after(PAUSE_NS << doublings.min(DOUBLINGS));
    while clock::now() < until {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_consecutive_thin_batches_lead_to_pauses() {
        let thin = AtomicU32::new(0);
        let wait = |done, ready| {
            let began = clock::now();
            BatchPause::begin(&thin, began).learn(done, ready);
            clock::now().since(began) >= PAUSE_NS
        };
        assert!((0..IN_A_ROW).all(|_| !wait(2, true) || thin.load(Ordering::Relaxed) < IN_A_ROW));
        assert!(wait(2, true), "it waits for more");
        assert!(wait(1000, true), "a batch that is worth it shows that pauses help");
        wait(0, false);
        assert_eq!(thin.load(Ordering::Relaxed), 0, "a turn without news ends it");
    }
}
