//! Errors that were planted into the epochs of a subgroup are found in random runs, each by the checker that was named for it,
//! in each of three ranges of seeds.
#![cfg(model)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../sim/tests/epochs/mod.rs"]
mod epochs;

use derecho_core::multicast::subgroup::Level;
use derecho_model::{Fault, plant};
use epochs::{Checker, Shape, World};

const RANGES: [u64; 3] = [0, 10_000, 20_000];
const SEEDS: u64 = 60;

/// A run in which a leaver stands still.
fn slow_leaver(world: &mut World) -> Vec<(Checker, String)> {
    world.run_with_a_slow_leaver().1
}

/// What is wrong with a run of this seed, where memory is shared.
fn complaints(seed: u64, run: fn(&mut World) -> Vec<(Checker, String)>) -> Vec<Checker> {
    let shape = Shape { late_leavers: true, ..Shape::random(seed, Level::Atomic, true) };
    run(&mut World::new(seed, shape)).into_iter().map(|(checker, _)| checker).collect()
}

type Run = fn(&mut World) -> Vec<(Checker, String)>;

#[test]
fn planted_errors_are_found() {
    let cases: [(Fault, Run, Checker); 2] = [
        (Fault::LinesReused, slow_leaver, Checker::Liveness),
        (Fault::LeaverForgotten, World::run, Checker::Content),
    ];
    let mut missed = Vec::new();
    for (fault, run, checker) in cases {
        for from in RANGES {
            let found = (from..from + SEEDS).find(|seed| {
                plant(Some(fault));
                let with = complaints(*seed, run);
                plant(None);
                with.first() == Some(&checker) && complaints(*seed, run).is_empty()
            });
            println!("{fault:?} from {from}: {found:?}");
            missed.extend(found.is_none().then_some((fault, from)));
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
