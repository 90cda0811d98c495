//! The clock: the only place that reads the time for a machine.

use std::sync::atomic::{AtomicU64, Ordering};

use derecho_core::ids::Time;
use rustix::time::{ClockId, clock_gettime};

/// How long the distance between the two clocks is believed: whoever sets the wall clock waits so
/// long until time stamps follow.
const BELIEVED: u64 = 100_000_000;

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Clocks that were set before 1970 count as 1970.
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Nanoseconds on the system's monotonic clock, the same for all processes of a host.
#[inline]
pub fn now() -> Time {
    Time(nanos(ClockId::Monotonic))
}

/// The wall clock's time at `now`: nanoseconds since 1970. Costs no system call and no second
/// look at a clock, most of the time: only the distance of the two clocks is remembered.
#[inline]
pub fn wall(now: Time) -> u64 {
    static DISTANCE: AtomicU64 = AtomicU64::new(0);
    static TAKEN_AT: AtomicU64 = AtomicU64::new(0);
    let taken_at = TAKEN_AT.load(Ordering::Relaxed);
    if taken_at == 0 || now.0.wrapping_sub(taken_at) > BELIEVED {
        // Threads that come here at once store nearly the same.
        DISTANCE.store(nanos(ClockId::Realtime).wrapping_sub(now.0), Ordering::Relaxed);
        TAKEN_AT.store(now.0, Ordering::Relaxed);
    }
    now.0.wrapping_add(DISTANCE.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_follows_the_monotonic_one() {
        let (first, second) = (now(), now());
        assert!(first <= second);
        let real = nanos(ClockId::Realtime);
        // Whatever happens between the two looks, it takes less than a minute.
        assert!(wall(now()).abs_diff(real) < 60_000_000_000);
        assert!(wall(now()) > 1_700_000_000_000_000_000, "it is later than 2023");
    }
}
