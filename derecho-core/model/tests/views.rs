//! Errors planted into the logging of views are found in random runs, each by the rule named for
//! it, in each of three ranges of seeds.
#![cfg(model)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::RefCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::rc::Rc;

use derecho_model::{Fault, missed};
use derecho_sim::Config;
use derecho_sim::world::log_folders::LogFolders;
use derecho_sim::world::stores::World;
use derecho_sim::world::stores::checker::StoreChecker;
use derecho_sim::world::stores::separate_disks::SeparateDisks;

const SEEDS: [Range<u64>; 3] = [0..60, 10_000..10_060, 20_000..20_060];

/// A run of a seed.
type Run = fn(u64);

/// Returns the rule that a run of this seed breaks, if any.
fn broken(seed: u64, run: Run) -> Option<String> {
    let told = catch_unwind(AssertUnwindSafe(|| run(seed))).err()?;
    let text = told.downcast_ref::<String>().cloned();
    Some(
        text.or_else(|| told.downcast_ref::<&str>().map(|it| (*it).to_owned())).unwrap_or_default(),
    )
}

/// Creates a group of this number of nodes on one host, with a logged subgroup.
fn first(seed: u64, nodes: usize, root: &LogFolders) -> World {
    let (config, checker) = (Config::adversarial(seed), Rc::<RefCell<StoreChecker>>::default());
    checker.borrow_mut().logged = true;
    World::over(config, nodes, true, checker, Some(root.clone()))
}

/// Others join while the first member writes.
fn newcomers(seed: u64) {
    let mut world = first(seed, 1, &LogFolders::default());
    world.settle();
    for _ in 0..3 {
        world.flow(6);
        world.add_one(true);
    }
    world.flow(12);
    world.check();
}

/// All crash, and a member comes back without this folder.
fn restart_without(hidden: usize, seed: u64, mut world: World, root: LogFolders) {
    world.crash_all();
    world.checker.borrow_mut().restart_somewhere();
    root.hide(hidden, true);
    let config = Config::adversarial(seed + 1_000_000);
    let mut world = World::over(config, 1, true, Rc::clone(&world.checker), Some(root));
    world.run(30_000_000);
}

/// A member that keeps logs and took no part is back first.
fn bystander(seed: u64) {
    let root = LogFolders::separate();
    let mut world = first(seed, 1, &root);
    world.settle();
    world.add_bystander();
    world.settle();
    world.flow(10);
    world.settle();
    restart_without(0, seed, world, root);
}

/// Every earlier member dies before it can have recorded a newcomer, and comes back without it.
fn newcomer(seed: u64) {
    let root = LogFolders::separate();
    let mut world = first(seed, 0, &root);
    let first = world.add_bystander();
    world.settle();
    world.run(20_000_000);
    root.stall(0, true);
    world.add_one(true);
    world.run(10_000_000);
    world.crash(first);
    world.flow(20);
    world.run(20_000_000);
    restart_without(1, seed, world, root);
}

/// The only complete log is lost while a member without a log has everything, and the present
/// member that keeps logs comes back alone.
fn leaning(seed: u64) {
    let root = LogFolders::separate();
    let mut world = first(seed, 1, &root);
    let first = world.lean_on_the_first();
    world.crash(first);
    world.run(30_000_000);
    restart_without(0, seed, world, root);
}

/// One of two disks makes no progress while the members write.
fn slow_disk(seed: u64) {
    let root = LogFolders::default();
    let mut world = first(seed, 1, &root);
    world.settle();
    world.add_one(true);
    world.settle();
    root.stall(seed as usize % 2, true);
    world.flow(6);
    root.stall(seed as usize % 2, false);
    world.check();
}

/// In a network, the only log with the last records is not back, and a majority of the last
/// view is.
fn named(seed: u64) {
    let (mut apart, _) = SeparateDisks::with_crashed_holder(seed);
    apart.restart_in_a_network(0);
}

#[test]
fn planted_errors_are_found() {
    set_hook(Box::new(|_| {}));
    let cases: [(Fault, Run, &str); 6] = [
        (Fault::DurableBeforeView, newcomers, "I-150"),
        (Fault::LastViewForgotten, bystander, "durable, and"),
        (Fault::NewcomerCounts, newcomer, "durable, and"),
        (Fault::NobodyLeans, leaning, "durable, and"),
        (Fault::DurableAnywhere, slow_disk, "I-105"),
        (Fault::NamedNotAwaited, named, "durable, and"),
    ];
    let mut unfound = Vec::new();
    for (fault, run, rule) in cases {
        let run_of = |seed| broken(seed, run);
        let is_meant =
            |with: &Option<String>| with.as_ref().is_some_and(|text| text.contains(rule));
        unfound.extend(missed(fault, SEEDS, run_of, is_meant, Option::is_none));
    }
    assert!(unfound.is_empty(), "not found: {unfound:?}");
}
