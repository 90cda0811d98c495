//! The clock: the only place that reads the time for a machine.

use std::sync::OnceLock;
use std::time::Instant;

use derecho_core::ids::Time;

/// Nanoseconds since this process first asked, on the system's monotonic clock.
pub fn now() -> Time {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    // u64 nanoseconds last for 584 years of uptime.
    Time(start.elapsed().as_nanos() as u64)
}
