//! Two threads of a conversation on one processor.
//!
//! Owns: when a driving thread sleeps instead of offering its processor. Never does: choose a
//! processor.
//!
//! A thread that offers its processor and sees another thread take it may share the processor with
//! the very peer that it waits for, while another processor is idle. The kernel moves neither of two
//! such threads for tens of milliseconds, because both have always just run. For a thread that
//! wakes, however, it looks for an idle processor. A thread that shares its processor therefore
//! sleeps now and then, and its peer's bell moves it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use derecho_core::ids::Time;

use crate::clock;

/// Nanoseconds of an offer, above which another thread has taken the processor.
const TAKEN_OFFER: u64 = 2_000;

/// Minimum interval, in nanoseconds, between two such sleeps: where all processors are busy, they
/// change nothing.
const SLEEP_INTERVAL: u64 = 10_000_000;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct ProcessorSharing {
    /// Whether another thread took the processor at the last offer.
    is_taken: AtomicBool,
    /// Time of the last sleep.
    slept_at: AtomicU64,
}

impl ProcessorSharing {
    /// Offers the processor to other threads. Returns the time after that, or `None` if the thread
    /// must sleep instead.
    pub(crate) fn offer(&self, now: Time) -> Option<Time> {
        if self.is_taken.load(Ordering::Relaxed)
            && now.since(Time(self.slept_at.load(Ordering::Relaxed))) >= SLEEP_INTERVAL
        {
            self.is_taken.store(false, Ordering::Relaxed);
            self.slept_at.store(now.0, Ordering::Relaxed);
            return None;
        }
        std::thread::yield_now();
        let after = clock::now();
        let is_taken = after.since(now) >= TAKEN_OFFER;
        if is_taken != self.is_taken.load(Ordering::Relaxed) {
            self.is_taken.store(is_taken, Ordering::Relaxed);
        }
        Some(after)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::time::{Duration, Instant};

    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::*;
    use crate::threads::{Cores, ThreadSettings};

    /// Runs both on one processor, `other` until `run` has ended.
    fn share_processor(other: impl Fn() + Sync, run: impl FnOnce() + Send) {
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)).unwrap();
        let pin = || ThreadSettings { cores: Cores::new([first]).unwrap(), class: None }.apply();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin().unwrap();
                while !is_over.load(Ordering::SeqCst) {
                    other();
                }
            });
            scope.spawn(|| {
                pin().unwrap();
                run();
                is_over.store(true, Ordering::SeqCst);
            });
        });
    }

    #[test]
    fn thread_sleeps_now_and_then_while_another_thread_takes_its_offers() {
        let sharing = ProcessorSharing::default();
        let answer = || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(20) {}
            std::thread::yield_now();
        };
        share_processor(answer, || {
            let (start, mut slept) = (clock::now(), Vec::new());
            while slept.len() < 3 {
                let now = clock::now();
                assert!(now.since(start) < 20_000_000_000, "{} sleeps", slept.len());
                if sharing.offer(now).is_none() {
                    slept.push(now);
                }
            }
            let intervals = slept.windows(2).map(|pair| pair[1].since(pair[0]));
            assert!(intervals.into_iter().all(|interval| interval >= SLEEP_INTERVAL));
        });
    }
}
