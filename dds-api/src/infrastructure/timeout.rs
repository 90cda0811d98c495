//! How long a call may wait.

use std::fmt;
use std::time::Duration;

use derecho_core::ids::Time;
use derecho_node::clock;

/// Maximum time that a call may wait. Every call that can wait takes one.
///
/// ```
/// use std::time::Duration;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// let next = reader.take_next_data(Timeout::millis(20))?;         // waits for so long
/// let now = reader.take_data(.., Timeout::NOW)?;                   // what is there
/// let later = reader.take_next_data(Duration::from_secs(1))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Timeout(Option<Duration>);

impl Timeout {
    /// Do not wait at all.
    pub const NOW: Timeout = Timeout(Some(Duration::ZERO));
    /// Wait without a limit.
    pub const FOREVER: Timeout = Timeout(None);

    /// A time-out of this number of seconds.
    pub const fn secs(secs: u64) -> Timeout {
        Timeout(Some(Duration::from_secs(secs)))
    }

    /// A time-out of this number of milliseconds.
    pub const fn millis(millis: u64) -> Timeout {
        Timeout(Some(Duration::from_millis(millis)))
    }

    /// A time-out of this number of microseconds.
    pub const fn micros(micros: u64) -> Timeout {
        Timeout(Some(Duration::from_micros(micros)))
    }

    /// Length of the time-out; none if it has no limit.
    pub(crate) fn duration(self) -> Option<Duration> {
        self.0
    }

    /// Length in nanoseconds; none if there is no limit, or if it exceeds the range of the clock.
    pub(crate) fn nanos(self) -> Option<u64> {
        u64::try_from(self.0?.as_nanos()).ok()
    }

    /// End of the time-out, counted from now; none if there is no limit.
    pub(crate) fn deadline(self) -> Option<Time> {
        clock::now().0.checked_add(self.nanos()?).map(Time)
    }
}

impl From<Duration> for Timeout {
    fn from(duration: Duration) -> Timeout {
        Timeout(Some(duration))
    }
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(duration) => write!(f, "{duration:?}"),
            None => f.write_str("for ever"),
        }
    }
}
