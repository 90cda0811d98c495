//! Seeds of the random lives of a suite.

use std::ops::Range;

/// Returns the seeds that always run; this environment variable selects others, as `60-400`.
pub(crate) fn seeds(variable: &str, always: Range<u64>) -> Range<u64> {
    let wanted = std::env::var(variable).ok();
    let bounds = wanted.as_ref().and_then(|text| text.split_once('-'));
    bounds.map_or(always, |(from, to)| from.parse().unwrap()..to.parse().unwrap())
}
