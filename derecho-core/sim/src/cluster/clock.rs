//! A node's clock.
//!
//! Owns: its relation to the cluster's time. Never does: go backwards.

use derecho_core::ids::Time;

/// Clock that is ahead, and fast or slow. The default is accurate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clock {
    /// Lead at the cluster's time zero, in nanoseconds.
    pub ahead: u64,
    /// Rate error in parts per million; negative if slow, and then by at most half.
    pub fast_ppm: i32,
}

const MILLION: u128 = 1_000_000;

impl Clock {
    fn rate(self) -> u128 {
        (1_000_000 + i64::from(self.fast_ppm)).max(500_000) as u128
    }

    /// Returns the clock's reading at this moment of the cluster's time.
    pub(super) fn reading(self, at: Time) -> Time {
        let passed = u128::from(at.0) * self.rate() / MILLION;
        Time(u64::try_from(passed).unwrap_or(u64::MAX).saturating_add(self.ahead))
    }

    /// Returns the first moment of the cluster's time at which the clock shows this reading.
    pub(super) fn moment(self, reading: Time) -> Time {
        let passed = u128::from(reading.0.saturating_sub(self.ahead)) * MILLION;
        Time(u64::try_from(passed.div_ceil(self.rate())).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moment_is_earliest_time_with_at_least_the_given_reading() {
        for clock in [(0, 0), (7, 0), (1000, 500), (3, -100_000), (0, 333_333)] {
            let clock = Clock { ahead: clock.0, fast_ppm: clock.1 };
            for shown in [0, 1, 6, 7, 1000, 999_999, 123_456_789] {
                let at = clock.moment(Time(shown));
                assert!(clock.reading(at) >= Time(shown), "{clock:?} {shown}");
                assert!(at.0 == 0 || clock.reading(Time(at.0 - 1)) < Time(shown), "{clock:?}");
            }
        }
        assert_eq!(Clock::default().reading(Time(1 << 60)), Time(1 << 60));
    }
}
