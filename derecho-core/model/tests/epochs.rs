//! Errors planted into the epochs of a subgroup are found in random runs, each by the checker named
//! for it, in each of three ranges of seeds.
#![cfg(model)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ops::Range;

use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_model::{Fault, missed};
use derecho_sim::world::subgroups::{Rule, Scenario, World};

const SEEDS: [Range<u64>; 3] = [0..60, 10_000..10_060, 20_000..20_060];

/// A run; returns its violations.
type Run = fn(&mut World) -> Vec<(Rule, String)>;

/// Returns the checkers that fail in a run of this seed, where memory is shared and readers
/// leave late.
fn complaints(seed: u64, run: Run) -> Vec<Rule> {
    let scenario =
        Scenario { late_leavers: true, ..Scenario::decided(seed, DeliveryGuarantee::Atomic, true) };
    run(&mut World::decided(seed, scenario)).into_iter().map(|(checker, _)| checker).collect()
}

#[test]
fn planted_errors_are_found() {
    let slow_leaver: Run = |world| world.run_with_a_slow_leaver().1;
    let cases = [
        (Fault::LeaverForgotten, World::run_changes as Run, Rule::Content),
        (Fault::LinesReused, slow_leaver, Rule::Blame),
    ];
    let mut unfound = Vec::new();
    for (fault, run, checker) in cases {
        let run_of = |seed| complaints(seed, run);
        let is_meant = |with: &Vec<Rule>| with.first() == Some(&checker);
        unfound.extend(missed(fault, SEEDS, run_of, is_meant, Vec::is_empty));
    }
    assert!(unfound.is_empty(), "not found: {unfound:?}");
}
