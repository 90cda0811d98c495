//! Clocks of a measurement: the monotonic one, which all processes of a host share, and the
//! processor time of this process.

use rustix::time::{ClockId, Timespec, clock_gettime};

fn nanos(time: Timespec) -> u64 {
    // Neither clock is ever negative, and 64 bits of nanoseconds last for centuries.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub(crate) fn now() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Returns the nanoseconds of processor time that all threads of this process have used.
pub(crate) fn cpu() -> u64 {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

/// Converts nanoseconds to seconds.
pub(crate) fn secs(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
