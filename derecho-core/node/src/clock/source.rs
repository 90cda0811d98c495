//! Sources of time: the processor's tick counter, and the clocks of the system.

use rustix::time::{ClockId, clock_gettime};

/// A counter and the clock that it is compared with.
pub(super) trait TickSource {
    /// Whether the counter is usable as a clock: it runs at one speed, whatever the processor does,
    /// and shows the same on all cores. Called once.
    fn is_trusted(&self) -> bool;
    /// Returns the counter. Only called if the counter is trusted.
    fn ticks(&self) -> u64;
    /// Returns nanoseconds on the system's clock, which never goes back.
    fn nanos(&self) -> u64;
}

/// This processor's counter, and CLOCK_MONOTONIC.
pub(super) struct Processor;

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // A clock set before 1970 counts as 1970.
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub(super) fn monotonic() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Nanoseconds of CLOCK_REALTIME.
pub(super) fn realtime() -> u64 {
    nanos(ClockId::Realtime)
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
    use std::fs::File;
    use std::io::Read;

    #[inline]
    pub(super) fn ticks() -> u64 {
        // SAFETY: every processor of this kind has the instruction; it touches no memory.
        unsafe { _rdtsc() }
    }

    #[inline]
    pub(super) fn finish_loads() {
        // SAFETY: every processor of this kind has the instruction; it touches no memory.
        unsafe { _mm_lfence() }
    }

    /// Whether the processor declares that its counter keeps one speed, and the kernel uses the
    /// counter itself. The kernel has compared the cores with each other and monitors them.
    pub(super) fn is_trusted() -> bool {
        const POWER_LEAF: u32 = 0x8000_0007;
        const INVARIANT: u32 = 1 << 8;
        const CLOCK_SOURCE: &str =
            "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let has_leaf = __cpuid(0x8000_0000).eax >= POWER_LEAF;
        if !has_leaf || __cpuid(POWER_LEAF).edx & INVARIANT == 0 {
            return false;
        }
        let mut name = [0; 8];
        let read = File::open(CLOCK_SOURCE).and_then(|mut file| file.read(&mut name));
        read.is_ok_and(|length| name[..length].trim_ascii() == b"tsc")
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub(super) fn ticks() -> u64 {
        0
    }

    /// Does nothing: only the system's clock is available here, and it is read in order.
    pub(super) fn finish_loads() {}

    pub(super) fn is_trusted() -> bool {
        false
    }
}

/// Waits until the processor has finished earlier loads, so that a later reading of the counter
/// happens after them.
#[inline]
pub(super) fn finish_loads() {
    counter::finish_loads();
}

impl TickSource for Processor {
    fn is_trusted(&self) -> bool {
        counter::is_trusted()
    }

    #[inline]
    fn ticks(&self) -> u64 {
        counter::ticks()
    }

    fn nanos(&self) -> u64 {
        monotonic()
    }
}
