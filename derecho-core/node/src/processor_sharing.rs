//! Two threads of a conversation on one processor.
//!
//! Owns: when a waiting thread leaves its processor. Never does: leave the processors on which the
//! thread may run, or leave one while all are busy.
//!
//! A thread that offers its processor and sees another thread take it may share the processor with
//! the very peer that it waits for, while another processor is idle. The kernel moves neither of
//! two such threads for tens of milliseconds, because both have always just run; and it wakes a
//! thread on the processor of the thread that rings its bell. Such a thread therefore moves itself,
//! now and then: a round trip on one processor takes twenty times as long. Each of the two waits
//! for a random number of taken offers before that, so that they do not move together.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use derecho_core::ids::Time;
use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::clock;

/// Nanoseconds of an offer, above which another thread has taken the processor.
const TAKEN_OFFER: u64 = 2_000;

/// Minimum interval, in nanoseconds, between two attempts to move.
const MOVE_INTERVAL: u64 = 2_000_000;

/// Minimum number of consecutive taken offers before an attempt to move, and what chance adds.
const TAKEN_OFFERS: u32 = 4;
const MORE_OFFERS: u32 = 32;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct ProcessorSharing {
    /// Number of taken offers that must still follow each other before an attempt to move; zero
    /// after an offer that was not taken.
    missing: AtomicU32,
    /// Time of the last attempt to move.
    tried_at: AtomicU64,
}

impl ProcessorSharing {
    /// Offers the processor to other threads, and may leave it after that. Returns the time then.
    pub(crate) fn offer(&self, now: Time) -> Time {
        std::thread::yield_now();
        let after = clock::now();
        let missing = self.missing.load(Ordering::Relaxed);
        if after.since(now) < TAKEN_OFFER {
            if missing > 0 {
                self.missing.store(0, Ordering::Relaxed);
            }
            return after;
        }
        let next = match missing {
            0 => TAKEN_OFFERS + (after.0 / 8) as u32 % MORE_OFFERS,
            missing => missing - 1,
        };
        self.missing.store(next, Ordering::Relaxed);
        if next == 0 && after.since(Time(self.tried_at.load(Ordering::Relaxed))) >= MOVE_INTERVAL {
            self.tried_at.store(after.0, Ordering::Relaxed);
            if is_any_idle() {
                leave_processor();
            }
            return clock::now();
        }
        after
    }
}

/// Moves the calling thread to another one of its processors, if it has several.
fn leave_processor() {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut others = allowed;
    others.unset(sched_getcpu());
    // An empty set is refused.
    if sched_setaffinity(None, &others).is_ok() {
        // The thread stays where it is now, and may move again. This cannot fail after the first
        // call has succeeded.
        let _always = sched_setaffinity(None, &allowed);
    }
}

/// Whether fewer threads than processors want to run, so that a processor is idle while two threads
/// share one.
fn is_any_idle() -> bool {
    let mut text = [0; 64];
    let read = File::open("/proc/loadavg").and_then(|mut file| file.read(&mut text)).unwrap_or(0);
    let runnable = std::str::from_utf8(&text[..read]).ok().and_then(runnable);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    runnable.is_some_and(|runnable| runnable <= processors)
}

/// Number of threads that want to run, in the text of `/proc/loadavg`: `0.20 0.18 0.12 2/80 11206`.
fn runnable(loadavg: &str) -> Option<usize> {
    loadavg.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use rustix::thread::CpuSet;

    use super::*;

    /// The first processor on which this thread may run.
    fn first_processor() -> CpuSet {
        let allowed = sched_getaffinity(None).unwrap();
        let mut first = CpuSet::new();
        first.set((0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)).unwrap());
        first
    }

    /// Runs `run` beside a thread that takes each of its offers.
    fn share_processor(run: impl FnOnce() + Send) {
        let (first, is_over) = (first_processor(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sched_setaffinity(None, &first).unwrap();
                while !is_over.load(Ordering::SeqCst) {
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(20) {}
                    std::thread::yield_now();
                }
            });
            scope.spawn(|| {
                sched_setaffinity(None, &first).unwrap();
                run();
                is_over.store(true, Ordering::SeqCst);
            });
        });
    }

    #[test]
    fn thread_whose_offers_are_taken_tries_to_move_at_most_once_in_the_interval() {
        let sharing = ProcessorSharing::default();
        share_processor(|| {
            let (start, mut tries) = (clock::now(), Vec::new());
            while tries.len() < 3 {
                let now = clock::now();
                assert!(now.since(start) < 60_000_000_000, "{tries:?}");
                sharing.offer(now);
                let tried_at = sharing.tried_at.load(Ordering::Relaxed);
                if tried_at != 0 && tries.last() != Some(&tried_at) {
                    tries.push(tried_at);
                }
            }
            assert!(tries.windows(2).all(|pair| pair[1] - pair[0] >= MOVE_INTERVAL), "{tries:?}");
        });
    }

    #[test]
    fn thread_leaves_its_processor_and_keeps_its_set_of_processors() {
        std::thread::spawn(|| {
            let allowed = sched_getaffinity(None).unwrap();
            // The kernel may move the thread back in between.
            let has_moved = (0..100).any(|_| {
                let before = sched_getcpu();
                leave_processor();
                sched_getcpu() != before
            });
            assert_eq!(has_moved, allowed.count() > 1);
            assert!(sched_getaffinity(None).unwrap() == allowed);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn thread_with_one_processor_stays_there() {
        std::thread::spawn(|| {
            let mut here = CpuSet::new();
            here.set(sched_getcpu());
            if sched_setaffinity(None, &here).is_ok() {
                leave_processor();
                assert!(sched_getaffinity(None).unwrap() == here);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn threads_that_want_to_run_are_found_in_the_load_average() {
        assert_eq!(runnable("0.20 0.18 0.12 2/80 11206\n"), Some(2));
        assert_eq!(["", "0.20 0.18", "a b c d e"].map(runnable), [None; 3]);
    }
}
