//! Lets a stream in full flow come in batches.
//!
//! Owns: the moment that whoever takes waits before it looks again. Never does: delay what comes one
//! at a time: only a stream that never leaves a turn without news is slowed down.
//!
//! Whoever takes each message as it comes has its processor ask for the line that the sender is just
//! writing, again and again, and the sender waits for it each time: both go at the speed of lines
//! between cores. If the reader looks a little later, the sender fills many lines undisturbed.

use std::sync::atomic::{AtomicU32, Ordering};

use derecho_core::ids::Time;

use crate::clock;

/// Waits in a row that brought a little at once, before the next one waits for more, and before it
/// waits twice as long.
const IN_A_ROW: u32 = 8;
/// Less than this is a little, in what turns count.
const LITTLE: usize = 64;
/// How long it waits at first.
const PAUSE_NS: u64 = 500;
/// How often that may be doubled.
const DOUBLINGS: u32 = 2;

/// One wait of an application thread.
pub(crate) struct Gather<'a> {
    thin: &'a AtomicU32,
    before: u32,
}

impl<'a> Gather<'a> {
    /// Pauses if the last waits have brought a little one after the other; `thin` counts them.
    #[inline]
    pub(crate) fn begin(thin: &'a AtomicU32, now: Time) -> Gather<'a> {
        let before = thin.load(Ordering::Relaxed);
        if before >= IN_A_ROW {
            pause(now, before / IN_A_ROW - 1);
        }
        Gather { thin, before }
    }

    /// What the first turn of the wait brought.
    #[inline]
    pub(crate) fn learn(self, done: usize, is_ready: bool) {
        let thin = match is_ready && done > 0 {
            // As long as pauses help they stay as they are.
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
    fn only_thin_batches_without_a_break_lead_to_pauses() {
        let thin = AtomicU32::new(0);
        let wait = |done, ready| {
            let began = clock::now();
            Gather::begin(&thin, began).learn(done, ready);
            clock::now().since(began) >= PAUSE_NS
        };
        assert!((0..IN_A_ROW).all(|_| !wait(2, true) || thin.load(Ordering::Relaxed) < IN_A_ROW));
        assert!(wait(2, true), "it waits for more");
        assert!(wait(1000, true), "a batch that is worth it shows that pauses help");
        wait(0, false);
        assert_eq!(thin.load(Ordering::Relaxed), 0, "a turn without news ends it");
    }
}
