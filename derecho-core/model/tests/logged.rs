//! Errors planted into the logging of objects are found in random runs, each by the rule named for
//! it, in each of three ranges of seeds.
#![cfg(model)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::rc::Rc;

use derecho_model::{Fault, missed};
use derecho_sim::world::log_folders::LogFolders;
use derecho_sim::world::objects::World;
use derecho_sim::{Config, NodeIndex};

const SEEDS: [Range<u64>; 3] = [0..400, 10_000..10_400, 20_000..20_400];

/// Returns the rule that a run of this seed breaks, if any.
fn broken(seed: u64) -> Option<String> {
    let run = || {
        let root = LogFolders::default();
        let config = Config::adversarial(seed);
        let mut world = World::over(config, 1, true, Rc::default(), Some(root.clone()));
        world.settle();
        world.flow(10);
        world.add();
        world.add();
        while world.living().len() < 3 {
            world.flow(1);
        }
        // Views are logged first, so it takes a while until any member has a log.
        world.flow(seed as usize % 16);
        world.crash(NodeIndex(0));
        world.flow(20);
        world.settle();
        world.crash_all();
        let (config, checker) = (Config::adversarial(seed + 1_000_000), Rc::clone(&world.checker));
        let mut world = World::over(config, 2, true, checker, Some(root.clone()));
        world.check();
        world.compare_logs();
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
    let cases = [
        (Fault::DurableBeforeSync, "I-111"),
        (Fault::AppendedTwice, "I-110"),
        (Fault::RecallUncut, "I-110"),
    ];
    let mut unfound = Vec::new();
    for (fault, rule) in cases {
        let is_meant =
            |with: &Option<String>| with.as_ref().is_some_and(|text| text.contains(rule));
        unfound.extend(missed(fault, SEEDS, broken, is_meant, Option::is_none));
    }
    assert!(unfound.is_empty(), "not found: {unfound:?}");
}
