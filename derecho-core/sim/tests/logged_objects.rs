//! Logged objects through joins, leaves, crashes, and total failure: everything durable everywhere
//! is restored, members agree on every version, and logs on every update.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod seeds;

use std::rc::Rc;

use derecho_sim::Config;
use derecho_sim::world::log_folders::LogFolders;
use derecho_sim::world::objects::World;

fn first(seed: u64, nodes: usize) -> (World, LogFolders) {
    let folders = LogFolders::default();
    let config = Config::adversarial(seed);
    (World::over(config, nodes, true, Rc::default(), Some(folders.clone())), folders)
}

/// Crashes all members, and starts as many others.
fn restart(mut world: World, folders: &LogFolders, (seed, life): (u64, u64)) -> World {
    world.crash_all();
    println!("life {life} of {seed}");
    let config = Config::adversarial(seed + 1_000_000 * life);
    let nodes = 2 + (seed + life) as usize % 2;
    World::over(config, nodes, true, Rc::clone(&world.checker), Some(folders.clone()))
}

/// Returns the number of versions of a run's objects that became durable.
fn firm(world: &World) -> u64 {
    let checker = world.checker.borrow();
    [1 << 32, (1 << 32) + 1, 2 << 32].into_iter().map(|key| checker.firm(key)).sum()
}

#[test]
fn objects_continue_from_logs_after_all_members_crash() {
    let mut durable = 0;
    for seed in 0..12 {
        let (mut world, folders) = first(seed, 2);
        for life in 1..4 {
            world.settle();
            world.flow(20);
            if seed.is_multiple_of(2) {
                world.add();
                world.flow(10);
            }
            world.check();
            world.compare_logs();
            world = restart(world, &folders, (seed, life));
        }
        world.settle();
        world.flow(5);
        world.check();
        world.compare_logs();
        durable += firm(&world);
        assert!(world.checker.borrow().logged >= 6, "too few objects began from logs");
    }
    println!("{durable} durable");
    assert!(durable > 1_000, "{durable}");
}

/// All members that have the objects die while others are receiving them: these begin with the
/// logs' content, and with what they have kept. Then all die.
#[test]
fn objects_begin_from_logs_if_all_holders_crash_during_transfer() {
    let mut begun = 0;
    for seed in 0..20 {
        let (mut world, folders) = first(seed, 1);
        world.settle();
        world.flow(10);
        world.add();
        world.add();
        while world.living().len() < 3 {
            world.flow(1);
        }
        world.flow(seed as usize % 5);
        world.crash(derecho_sim::NodeIndex(0));
        world.flow(20);
        world.check();
        world.compare_logs();
        begun += world.checker.borrow().logged;
        let mut world = restart(world, &folders, (seed, 1));
        world.flow(5);
        world.check();
        world.compare_logs();
    }
    println!("{begun} objects began from a log while members sent updates");
    assert!(begun > 5, "{begun}");
}

/// Returns the seeds that always run; the variable LOGGED_SEEDS selects others, as `60-400`.
fn seeds() -> std::ops::Range<u64> {
    seeds::seeds("LOGGED_SEEDS", 0..24)
}

/// Members join, crash and leave, then all crash at some moment, and some come back.
fn anything(seed: u64) -> u64 {
    let (mut world, folders) = first(seed, 2 + seed as usize % 2);
    for life in 1..4 {
        world.flow(10);
        for _ in 0..25 {
            world.flow(2);
            world.random_fault();
        }
        if seed.is_multiple_of(3) {
            world.check();
            world.compare_logs();
        }
        world = restart(world, &folders, (seed, life));
    }
    world.check();
    world.compare_logs();
    firm(&world)
}

#[test]
fn logged_objects_keep_durable_versions_through_random_faults() {
    let mut durable = 0;
    for seed in seeds() {
        println!("seed {seed}");
        durable += anything(seed);
    }
    println!("{durable} durable");
    assert!(durable > 20 * (seeds().end - seeds().start));
}

/// I-338: a reader waits for the object, all holders die, a log from outside the shard wins, and
/// its member dies as well before the reader has the object. The reader then begins from its own
/// log, without the deliveries that no member applied.
#[test]
fn reader_applies_no_deliveries_from_before_object_began_anew() {
    assert!(anything(1211) > 20);
}

/// I-339: a reader waits for the object, the holder puts a checkpoint into its log and dies, and
/// the reader begins from a copy of that log. The checkpoint contains updates that the reader has
/// kept.
#[test]
fn reader_skips_kept_deliveries_that_a_checkpoint_contains() {
    assert!(anything(1435) > 20);
}

/// I-340: a member hands its object over to another member, which dies at once. The first member
/// learns of both before it leaves its seat, and claims with its log afterwards.
#[test]
fn member_that_left_its_seat_claims_in_the_vacancy_that_it_knew_before() {
    assert!(anything(2574) > 20);
}
