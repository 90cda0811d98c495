//! Values of options that several commands have.
//!
//! Owns: the ranges of times and of domains. A value out of range is wrong usage.

use std::time::Duration;

use clap::builder::RangedU64ValueParser;

/// Maximum time in seconds, about 31 years: far below the end of the system's clocks.
pub(crate) const MOST_SECONDS: u64 = 1_000_000_000;
/// Greatest number of a domain.
const GREATEST_DOMAIN: u64 = 232;

/// Parses a time in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let most = Duration::from_secs(MOST_SECONDS);
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|time| *time <= most)
        .ok_or_else(|| format!("expected a number of seconds from 0 to {MOST_SECONDS}"))
}

/// Parses a time limit in whole seconds.
pub(crate) fn whole_seconds() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=MOST_SECONDS)
}

/// Parses the number of a domain.
pub(crate) fn domain() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(0..=GREATEST_DOMAIN)
}
