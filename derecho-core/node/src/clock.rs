//! The clock: the only place that reads the time for a machine.
//!
//! Every sample needs the time, and the system's answer costs more than an idle turn. On processors
//! whose tick counter the kernel itself uses as its clock, this module reads the counter too. It
//! converts ticks into nanoseconds along a segment of a line that is drawn afresh every 4 ms from
//! the system's clock. Everywhere else, and as soon as counter and clock disagree, the system's
//! clock answers. The code is written by hand because libraries for this purpose calibrate once,
//! and then drift away from the clock of other processes:
//! `docs/decisions/0011-a-clock-from-the-counter.md`.
//!
//! [`now`] returns CLOCK_MONOTONIC to within a microsecond, so that it can be compared with
//! readings of other processes. The error is up to three microseconds for the few milliseconds
//! after the kernel has changed the clock's speed by the most that it does at once. In one thread
//! the time never goes back.
//!
//! Owns: the segments (`follower`), the counter and the system's clocks (`source`). Never does:
//! wait, allocate, or take a lock that any thread waits for.

mod follower;
mod source;

use std::sync::atomic::{AtomicU64, Ordering};

use derecho_core::ids::Time;
use follower::ClockFollower;
use source::{Processor, monotonic, realtime};

/// Nanoseconds for which a segment, and the offset of the wall clock, are valid. After a change of
/// the wall clock, time stamps follow within this time.
const PERIOD: u64 = 4_000_000;
/// Maximum number of attempts to read both clocks together without an interruption.
const TRIES: u32 = 4;
/// Nanoseconds between two readings that count as uninterrupted.
const UNDISTURBED: u64 = 1000;

static CLOCK: ClockFollower = ClockFollower::new(PERIOD);

/// Returns nanoseconds on the system's monotonic clock, the same for all processes of a host.
///
/// In one thread the time never goes back. A thread that has heard of another thread's reading can
/// read a smaller value, by some hundred nanoseconds at most, because the processor may read its
/// counter before it has executed earlier instructions. Use [`in_order`] where this matters.
#[inline]
pub fn now() -> Time {
    Time(CLOCK.now(&Processor))
}

/// Returns [`now`], and never less than any reading of any thread that this thread can have heard
/// of. Costs twice as much: the processor first finishes earlier instructions.
#[inline]
pub fn in_order() -> Time {
    source::finish_loads();
    now()
}

/// Returns the wall clock's time at `now`: nanoseconds since 1970. Usually costs no system call and
/// no second clock reading, because only the offset of the two clocks is stored.
#[inline]
pub fn wall(now: Time) -> u64 {
    static DISTANCE: AtomicU64 = AtomicU64::new(0);
    static TAKEN_AT: AtomicU64 = AtomicU64::new(0);
    // Pairs with the store below: the offset is the one stored with this time, or a later one.
    let taken_at = TAKEN_AT.load(Ordering::Acquire);
    if taken_at == 0 || now.0.abs_diff(taken_at) > PERIOD {
        // Concurrent threads store nearly the same value.
        DISTANCE.store(distance(), Ordering::Relaxed);
        TAKEN_AT.store(now.0, Ordering::Release);
    }
    now.0.wrapping_add(DISTANCE.load(Ordering::Relaxed))
}

/// Returns how far the wall clock is ahead of the monotonic clock.
#[cold]
fn distance() -> u64 {
    let look = || {
        let (before, real, after) = (monotonic(), realtime(), monotonic());
        let took = after.wrapping_sub(before);
        (took, real.wrapping_sub(before).wrapping_sub(took / 2))
    };
    let mut best = look();
    for _ in 1..TRIES {
        if best.0 < UNDISTURBED {
            break;
        }
        best = best.min(look());
    }
    best.1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::time::{Duration, Instant};

    use super::*;

    /// Largest permitted error of a reading: one change of the clock's speed, with a margin.
    const OFF: u64 = 10_000;

    #[test]
    fn clock_agrees_with_system_clocks_for_one_second() {
        let (start, mut worst) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(1) {
            // The reading lies between the two of the system, whatever interrupts it.
            let (before, read, after) = (monotonic(), now().0, monotonic());
            let off = before.saturating_sub(read).max(read.saturating_sub(after));
            let (before, read, after) = (realtime(), wall(now()), realtime());
            let wall_off = before.saturating_sub(read).max(read.saturating_sub(after));
            assert!(off < OFF && wall_off < OFF, "{off} ns off, the wall clock {wall_off}");
            worst = worst.max(off).max(wall_off);
        }
        println!("at most {worst} ns outside of two looks at the system's clock");
    }

    #[test]
    fn clock_agrees_with_system_clock_after_idle_time() {
        for rest in [0, 3, 12, 50] {
            std::thread::sleep(Duration::from_millis(rest));
            let (before, read, after) = (monotonic(), now().0, monotonic());
            assert!(before < read + OFF && read < after + OFF, "{before} {read} {after}");
        }
    }

    #[test]
    fn clock_never_goes_back_within_or_across_threads() {
        let heard = AtomicU64::new(0);
        let run = || {
            let (start, mut own) = (Instant::now(), now());
            while start.elapsed() < Duration::from_millis(300) {
                for _ in 0..100 {
                    let read = now();
                    assert!(own <= read, "{own:?} was read before {read:?}");
                    own = read;
                    let before = heard.load(Ordering::Acquire);
                    let read = in_order();
                    assert!(before <= read.0, "{before} was heard of before {read:?}");
                    heard.fetch_max(read.0, Ordering::AcqRel);
                }
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(run))));
    }

    #[test]
    fn the_wall_clock_shows_this_century() {
        assert!(wall(now()) > 1_700_000_000_000_000_000, "it is later than 2023");
    }
}
