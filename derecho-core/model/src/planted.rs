//! Search for a planted error: random runs with the error and without it.
//!
//! Owns: the choice of the runs, and the removal of the planted error. Never does: judge a run.

use core::ops::Range;

use crate::{Fault, plant};

/// Returns the first seed whose run fails in the intended way with the planted error, and passes
/// without it.
pub fn found_in<T>(
    fault: Fault,
    mut seeds: Range<u64>,
    run: impl Fn(u64) -> T,
    is_meant: impl Fn(&T) -> bool,
    is_in_order: impl Fn(&T) -> bool,
) -> Option<u64> {
    seeds.find(|seed| {
        plant(Some(fault));
        let with = run(*seed);
        plant(None);
        is_meant(&with) && is_in_order(&run(*seed))
    })
}

/// Returns the starts of those ranges of seeds in which the error is not [found](found_in).
pub fn missed<T>(
    fault: Fault,
    ranges: [Range<u64>; 3],
    run: impl Fn(u64) -> T,
    is_meant: impl Fn(&T) -> bool,
    is_in_order: impl Fn(&T) -> bool,
) -> Vec<(Fault, u64)> {
    let is_missed = |seeds: &Range<u64>| {
        let found = found_in(fault, seeds.clone(), &run, &is_meant, &is_in_order);
        println!("{fault:?} in {seeds:?}: {found:?}");
        found.is_none()
    };
    ranges.into_iter().filter(is_missed).map(|seeds| (fault, seeds.start)).collect()
}
