//! What time comes from: the processor's counter of ticks, and the clocks of the system.

use rustix::time::{ClockId, clock_gettime};

/// A counter and the clock that it is compared with.
pub(super) trait Source {
    /// Whether the counter may be taken for a clock: it runs at one speed, whatever the processor
    /// does, and shows the same on all cores. Asked once.
    fn is_trusted(&self) -> bool;
    /// The counter. Only asked for if it is trusted.
    fn ticks(&self) -> u64;
    /// Nanoseconds on the system's clock, which never goes back.
    fn nanos(&self) -> u64;
}

/// This processor, and CLOCK_MONOTONIC.
pub(super) struct Processor;

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Clocks that were set before 1970 count as 1970.
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
        // SAFETY: every processor of this kind has the instruction; it touches nothing.
        unsafe { _rdtsc() }
    }

    #[inline]
    pub(super) fn finish_loads() {
        // SAFETY: every processor of this kind has the instruction; it touches nothing.
        unsafe { _mm_lfence() }
    }

    /// The processor says that its counter keeps one speed, and the kernel, which has compared the
    /// cores with each other and looks after them, uses it itself.
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

    /// The system's clock, which is all there is here, is read in order.
    pub(super) fn finish_loads() {}

    pub(super) fn is_trusted() -> bool {
        false
    }
}

/// Waits until the processor has finished the loads that stand before, so that a reading of the
/// counter that stands after them is made after them.
#[inline]
pub(super) fn finish_loads() {
    counter::finish_loads();
}

impl Source for Processor {
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
