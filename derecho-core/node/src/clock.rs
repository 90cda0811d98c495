//! The clock: the only place that reads the time for a machine.
//!
//! Every sample asks what time it is, and the system's answer costs more than an idle turn. So on
//! processors whose counter of ticks the kernel itself takes for its clock, the counter is read
//! here too, and turned into nanoseconds along a line that is drawn anew every 4 ms from the
//! system's clock. Everywhere else, and as soon as the two disagree, the system's clock answers.
//! It is written by hand because libraries for it calibrate once, and then drift away from the
//! clock of other processes: `docs/decisions/0011-a-clock-from-the-counter.md`.
//!
//! What [`now`] says is CLOCK_MONOTONIC to within a microsecond (three for the few milliseconds
//! after the kernel has changed the clock's speed by the most that it does at once), so that it can be
//! compared with what other processes read. In one thread it never goes back.
//!
//! Owns: the lines (`follower`), the counter and the system's clocks (`source`). Never does: wait,
//! allocate, or take a lock that anybody waits for.

mod follower;
mod source;

use std::sync::atomic::{AtomicU64, Ordering};

use derecho_core::ids::Time;
use follower::Follower;
use source::{Processor, monotonic, realtime};

/// How many nanoseconds a line, and the distance of the wall clock, are believed: whoever sets the
/// wall clock waits so long until time stamps follow.
const PERIOD: u64 = 4_000_000;
/// How often the two clocks are looked at together, at most, until nothing comes in between.
const TRIES: u32 = 4;
/// Nanoseconds between two looks that nothing came in between.
const UNDISTURBED: u64 = 1000;

static CLOCK: Follower = Follower::new(PERIOD);

/// Nanoseconds on the system's monotonic clock, the same for all processes of a host.
///
/// In one thread it never goes back. A thread that has heard of another's reading can read less,
/// by some hundred nanoseconds at most: the processor may read its counter before it has done with
/// what stands before. Whoever minds takes [`in_order`].
#[inline]
pub fn now() -> Time {
    Time(CLOCK.now(&Processor))
}

/// [`now`], and never less than any reading that this thread can have heard of, from whichever
/// thread. Twice as dear: the processor first finishes what stands before.
#[inline]
pub fn in_order() -> Time {
    source::finish_loads();
    now()
}

/// The wall clock's time at `now`: nanoseconds since 1970. Costs no system call and no second
/// look at a clock, most of the time: only the distance of the two clocks is remembered.
#[inline]
pub fn wall(now: Time) -> u64 {
    static DISTANCE: AtomicU64 = AtomicU64::new(0);
    static TAKEN_AT: AtomicU64 = AtomicU64::new(0);
    // Pairs with the store below: the distance is the one taken then, or a later one.
    let taken_at = TAKEN_AT.load(Ordering::Acquire);
    if taken_at == 0 || now.0.abs_diff(taken_at) > PERIOD {
        // Threads that come here at once store nearly the same.
        DISTANCE.store(distance(), Ordering::Relaxed);
        TAKEN_AT.store(now.0, Ordering::Release);
    }
    now.0.wrapping_add(DISTANCE.load(Ordering::Relaxed))
}

/// How far the wall clock is ahead of the monotonic one.
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

    /// The most that a reading may be off: a change of the clock's speed, and some.
    const OFF: u64 = 10_000;

    #[test]
    fn it_agrees_with_the_clocks_of_the_system_for_a_second() {
        let (start, mut worst) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(1) {
            // Whatever comes in between, the reading lies between the two of the system.
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
    fn it_agrees_after_a_rest_too() {
        for rest in [0, 3, 12, 50] {
            std::thread::sleep(Duration::from_millis(rest));
            let (before, read, after) = (monotonic(), now().0, monotonic());
            assert!(before < read + OFF && read < after + OFF, "{before} {read} {after}");
        }
    }

    #[test]
    fn no_thread_reads_less_than_it_read_or_heard_of() {
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
