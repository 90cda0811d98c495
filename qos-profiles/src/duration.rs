//! A span of time in the OMG's form.
//!
//! Owns the order in which `INFINITE` is the longest. Never reads a clock.

use serde::{Deserialize, Serialize};
use std::fmt;

const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// A span of time: seconds and nanoseconds, or [`INFINITE`](Self::INFINITE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "SerializedDuration", into = "SerializedDuration")]
pub struct Duration {
    // The order of the fields makes the derived comparison right.
    sec: i32,
    nanosec: u32,
}

impl Duration {
    /// Zero duration.
    pub const ZERO: Self = Self { sec: 0, nanosec: 0 };
    /// Infinite duration, longer than any other.
    pub const INFINITE: Self = Self { sec: i32::MAX, nanosec: i32::MAX as u32 };

    /// Makes a duration from seconds and nanoseconds; `None` if the seconds are negative or the
    /// nanoseconds are at least one second.
    pub const fn new(sec: i32, nanosec: u32) -> Option<Self> {
        if sec < 0 || nanosec >= NANOS_PER_SECOND {
            return None;
        }
        Some(Self { sec, nanosec })
    }

    /// Makes a duration from whole seconds; 2147483648 or more become [`INFINITE`](Self::INFINITE).
    pub const fn from_secs(seconds: u32) -> Self {
        if seconds > i32::MAX as u32 {
            return Self::INFINITE;
        }
        Self { sec: seconds as i32, nanosec: 0 }
    }

    /// Makes a duration from whole milliseconds.
    pub const fn from_millis(milliseconds: u32) -> Self {
        Self {
            sec: (milliseconds / 1000) as i32,
            nanosec: milliseconds % 1000 * (NANOS_PER_SECOND / 1000),
        }
    }

    /// Returns the seconds; for `INFINITE`, the largest number.
    pub const fn sec(self) -> i32 {
        self.sec
    }

    /// Returns the nanoseconds after the seconds; for `INFINITE`, a number that no other
    /// duration has.
    pub const fn nanosec(self) -> u32 {
        self.nanosec
    }

    /// Whether the duration is [`INFINITE`](Self::INFINITE).
    pub const fn is_infinite(self) -> bool {
        self.nanosec >= NANOS_PER_SECOND
    }

    /// Returns the total number of nanoseconds; `None` for [`INFINITE`](Self::INFINITE).
    pub fn nanos(self) -> Option<u64> {
        let finite: Option<std::time::Duration> = self.into();
        finite.map(|finite| u64::try_from(finite.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Default for Duration {
    /// Returns zero.
    fn default() -> Self {
        Self::ZERO
    }
}

impl From<Duration> for Option<std::time::Duration> {
    /// Converts; `None` for [`Duration::INFINITE`].
    fn from(duration: Duration) -> Self {
        let sec = u64::try_from(duration.sec).ok()?;
        (!duration.is_infinite()).then(|| std::time::Duration::new(sec, duration.nanosec))
    }
}

impl From<std::time::Duration> for Duration {
    /// Converts; durations too long for 31 bits of seconds become [`Duration::INFINITE`].
    fn from(duration: std::time::Duration) -> Self {
        match i32::try_from(duration.as_secs()) {
            Ok(sec) => Self { sec, nanosec: duration.subsec_nanos() },
            Err(_) => Self::INFINITE,
        }
    }
}

impl From<Option<std::time::Duration>> for Duration {
    /// Converts; `None` becomes [`Duration::INFINITE`].
    fn from(duration: Option<std::time::Duration>) -> Self {
        duration.map_or(Self::INFINITE, Self::from)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Option::from(*self) {
            None => f.write_str("infinite"),
            Some::<std::time::Duration>(duration) => write!(f, "{duration:?}"),
        }
    }
}

/// Serialised form of a duration: the OMG's two fields.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SerializedDuration {
    #[serde(default)]
    sec: i32,
    #[serde(default)]
    nanosec: u32,
}

impl From<Duration> for SerializedDuration {
    fn from(duration: Duration) -> Self {
        Self { sec: duration.sec, nanosec: duration.nanosec }
    }
}

impl TryFrom<SerializedDuration> for Duration {
    type Error = String;

    fn try_from(SerializedDuration { sec, nanosec }: SerializedDuration) -> Result<Self, String> {
        if (sec, nanosec) == (Self::INFINITE.sec, Self::INFINITE.nanosec) {
            return Ok(Self::INFINITE);
        }
        Self::new(sec, nanosec).ok_or_else(|| {
            format!(
                "{sec} s {nanosec} ns is not a duration: expected seconds from 0 and nanoseconds \
                 below {NANOS_PER_SECOND}, or {0} and {0} for infinite",
                i32::MAX
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_duration_is_longest() {
        let longest = Duration::new(i32::MAX, NANOS_PER_SECOND - 1).unwrap();
        assert!(Duration::ZERO < Duration::from_millis(1));
        assert!(Duration::from_millis(1999) < Duration::from_secs(2));
        assert!(longest < Duration::INFINITE && !longest.is_infinite());
    }

    #[test]
    fn duration_conversions_keep_value() {
        let time = std::time::Duration::from_millis(1500);
        assert_eq!(Duration::from(time), Duration::from_millis(1500));
        assert_eq!(Option::from(Duration::from_millis(1500)), Some(time));
        assert_eq!(Option::<std::time::Duration>::from(Duration::INFINITE), None);
        assert_eq!(Duration::from_millis(1500).nanos(), Some(1_500_000_000));
        assert_eq!(Duration::INFINITE.nanos(), None);
        assert_eq!(Duration::from(None::<std::time::Duration>), Duration::INFINITE);
        assert_eq!(Duration::from(std::time::Duration::MAX), Duration::INFINITE);
        assert_eq!(Duration::from_secs(u32::MAX), Duration::INFINITE);
        let longest = i32::MAX as u32;
        assert_eq!(Duration::from_secs(longest + 1), Duration::INFINITE);
        assert_eq!(Some(Duration::from_secs(longest)), Duration::new(i32::MAX, 0));
        assert_eq!(Duration::from_secs(3).to_string(), "3s");
    }

    #[test]
    fn invalid_duration_is_rejected() {
        assert_eq!(Duration::new(-1, 0), None);
        assert_eq!(Duration::new(0, NANOS_PER_SECOND), None);
        let least = Duration::new(0, 1).unwrap();
        assert_eq!((least.sec(), least.nanosec()), (0, 1));
        assert_eq!(Duration::default(), Duration::ZERO);
        let infinite = SerializedDuration::from(Duration::INFINITE);
        assert_eq!(Duration::try_from(infinite), Ok(Duration::INFINITE));
        assert!(Duration::try_from(SerializedDuration { sec: 1, nanosec: u32::MAX }).is_err());
    }
}
