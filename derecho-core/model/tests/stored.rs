//! Errors planted into a subgroup's store are found in random runs, each by the rule named for it,
//! in each of three ranges of seeds.
#![cfg(model)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

use derecho_core::storage::store::StoreRetention;
use derecho_model::{Fault, missed};
use derecho_sim::Config;
use derecho_sim::world::stores::World;

const SEEDS: [Range<u64>; 3] = [0..60, 10_000..10_060, 20_000..20_060];

/// Returns the rule that a run of this seed breaks, if any.
fn broken(seed: u64, retention: StoreRetention) -> Option<String> {
    let run = || {
        let mut world = World::new(Config::adversarial(seed), 2, true, retention);
        world.checker.borrow_mut().strict = true;
        world.settle();
        world.flow(40);
        world.add();
        world.flow(20);
        world.check();
    };
    let told = catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = told.downcast_ref::<String>().cloned();
    Some(
        text.or_else(|| told.downcast_ref::<&str>().map(|it| (*it).to_owned())).unwrap_or_default(),
    )
}

#[test]
fn planted_errors_are_found() {
    set_hook(Box::new(|_| {}));
    let all = StoreRetention::default();
    let last = StoreRetention { depth: Some(2), ..all };
    let few = StoreRetention { most: Some(40), ..all };
    let cases = [
        (Fault::HistoryCutLate, last, "differs from the kept records"),
        (Fault::HistoryWithoutLive, last, "have a gap"),
        (Fault::HistoryTooShort, all, "lacks kept records"),
        (Fault::HistoryCutLate, few, "differs from the kept records"),
        (Fault::HistoryUnripe, few, "differs from the kept records"),
    ];
    let mut unfound = Vec::new();
    for (fault, retention, rule) in cases {
        let run_of = |seed| broken(seed, retention);
        let is_meant =
            |with: &Option<String>| with.as_ref().is_some_and(|text| text.contains(rule));
        unfound.extend(missed(fault, SEEDS, run_of, is_meant, Option::is_none));
    }
    assert!(unfound.is_empty(), "not found: {unfound:?}");
}
