//! The search for an error that was planted: random runs with it and without it.
//!
//! Owns: which runs are made, and that nothing stays planted. Never does: judge a run.

use core::ops::Range;

use crate::{Fault, plant};

/// The first seed whose run is wrong in the way that is meant while the error is planted, and in order without it.
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

/// The beginnings of those ranges of so many seeds in which the error is not [found](found_in).
pub fn missed<T>(
    fault: Fault,
    (ranges, seeds): ([u64; 3], u64),
    run: impl Fn(u64) -> T,
    is_meant: impl Fn(&T) -> bool,
    is_in_order: impl Fn(&T) -> bool,
) -> Vec<(Fault, u64)> {
    let is_missed = |from: &u64| {
        let found = found_in(fault, *from..*from + seeds, &run, &is_meant, &is_in_order);
        println!("{fault:?} from {from}: {found:?}");
        found.is_none()
    };
    ranges.into_iter().filter(is_missed).map(|from| (fault, from)).collect()
}
