//! Proof that the checkers can fail.

use derecho_sim::world::subgroups::Rule;

/// Checks that runs with a planted fault break the named rule first, at least once in each of these
/// numbers of ranges and of seeds in each range. `run`: returns the broken rules of a run.
pub(crate) fn caught(
    name: &str,
    by: Rule,
    (ranges, seeds): (u64, u64),
    run: impl Fn(u64) -> Vec<Rule>,
) {
    let hits_of = |range: u64| {
        let found: Vec<_> = (range * seeds..(range + 1) * seeds).map(&run).collect();
        let hits = found.iter().filter(|found| found.first() == Some(&by)).count();
        assert!(hits > 0, "{name} is not caught by {by:?} in {range}: {found:?}");
        hits
    };
    let all: Vec<usize> = (0..ranges).map(hits_of).collect();
    println!("{name}: {all:?} of {seeds} seeds each, by {by:?}");
}
