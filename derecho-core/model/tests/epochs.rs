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

/// Checkers that complain about a run of this seed, where memory is shared and readers leave late.
fn complaints(seed: u64) -> Vec<Checker> {
    let shape = Shape { late_leavers: true, ..Shape::random(seed, Level::Atomic, true) };
    World::new(seed, shape).run().into_iter().map(|(checker, _)| checker).collect()
}

#[test]
fn planted_errors_are_found() {
    for from in RANGES {
        let found = (from..from + SEEDS).find(|seed| {
            plant(Some(Fault::LeaverForgotten));
            let with = complaints(*seed);
            plant(None);
            with.first() == Some(&Checker::Content) && complaints(*seed).is_empty()
        });
        println!("LeaverForgotten from {from}: {found:?}");
        assert!(found.is_some(), "not found from {from}");
    }
}
