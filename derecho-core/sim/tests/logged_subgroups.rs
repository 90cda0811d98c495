//! Subgroups that are kept in logs, through joins, leaves, crashes, and the end of all: what was durable everywhere is
//! there again, logs agree, and who comes later gets all of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod stored;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::storage::store::Retention;
use derecho_sim::Config;
use stored::World;
use stored::court::Court;
use stored::member::LOG;
use stored::root::Root;

fn retention(seed: u64) -> Retention {
    match seed % 3 {
        0 => Retention::default(),
        1 => Retention { depth: Some(2), ..Retention::default() },
        _ => Retention { most: Some(40), ..Retention::default() },
    }
}

fn first(seed: u64, nodes: usize) -> (World, Root) {
    let mut court = Court::default();
    (court.retention, court.logged) = (retention(seed), true);
    let (court, root) = (Rc::new(RefCell::new(court)), Root::default());
    let config = Config::adversarial(seed);
    (World::over(config, nodes, true, (court, Some(root.clone()))), root)
}

/// All crash, and as many others come.
fn restart(mut world: World, root: &Root, (seed, life): (u64, u64)) -> World {
    world.crash_all();
    let court = Rc::clone(&world.court);
    println!("life {life} of {seed}");
    court.borrow_mut().restart(&root.logs(LOG));
    let config = Config::adversarial(seed + 1_000_000 * life);
    let nodes = 1 + (seed + life) as usize % 3;
    World::over(config, nodes, true, (court, Some(root.clone())))
}

#[test]
fn a_group_that_all_have_left_goes_on_from_its_logs() {
    let mut durable = 0;
    for seed in 0..30 {
        let (mut world, root) = first(seed, 2);
        for life in 1..4 {
            world.settle();
            world.flow(20);
            if seed % 2 == 0 {
                world.add();
                world.flow(10);
            }
            world.check();
            world.court.borrow().compare(&root.logs(LOG));
            durable += world.court.borrow().durable;
            world = restart(world, &root, (seed, life));
        }
        world.settle();
        world.flow(5);
        world.check();
    }
    assert!(durable > 1_000, "{durable}");
}

/// What is run always; more by the variable STORED_SEEDS, as `60-400`.
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("STORED_SEEDS").ok();
    let bounds = wanted.as_ref().and_then(|text| text.split_once('-'));
    bounds.map_or(0..40, |(from, to)| from.parse().unwrap()..to.parse().unwrap())
}

/// Members come, crash and leave, then all crash at some moment, and some come again.
#[test]
fn whatever_happens() {
    let (mut durable, mut lives) = (0, 0);
    for seed in seeds() {
        println!("seed {seed}");
        let (mut world, root) = first(seed, 1 + seed as usize % 3);
        for life in 1..4 {
            world.flow(10);
            for _ in 0..25 {
                world.flow(2);
                world.random_fault();
            }
            if seed % 3 == 0 && !world.living().is_empty() {
                world.check();
                world.court.borrow().compare(&root.logs(LOG));
            }
            if world.court.borrow().lost {
                break;
            }
            (durable, lives) = (durable + world.court.borrow().durable, lives + 1);
            world = restart(world, &root, (seed, life));
        }
        if !world.living().is_empty() {
            world.check();
        }
    }
    println!("{durable} durable in {lives} lives");
    assert!(lives as u64 > seeds().end - seeds().start);
}

/// Every log is on a disk that nobody else reaches. All crash, and some come back, then the others one by one: the group
/// goes on as soon as nobody who is not back can have more, and nothing that was durable everywhere is lost.
#[test]
fn hosts_that_reach_no_log_but_their_own_wait_for_each_other() {
    let (mut durable, mut lives, mut waited, mut early) = (0, 0, 0, 0);
    for seed in seeds() {
        println!("seed {seed}");
        let mut court = Court::default();
        (court.retention, court.logged) = (retention(seed), true);
        let (court, root) = (Rc::new(RefCell::new(court)), Root::apart());
        let config = Config::adversarial(seed);
        let nodes = 1 + seed as usize % 3;
        let mut world = World::over(config, nodes, true, (Rc::clone(&court), Some(root.clone())));
        for life in 1..5 {
            world.flow(5);
            for _ in 0..12 {
                world.flow(1);
                world.random_fault();
            }
            if court.borrow().lost {
                break;
            }
            (durable, lives) = (durable + court.borrow().durable, lives + 1);
            world.crash_all();
            court.borrow_mut().restart_somewhere();
            let config = Config::adversarial(seed + 1_000_000 * life);
            world = World::over(config, 1, true, (Rc::clone(&court), Some(root.clone())));
            world.run(3_000_000);
            let mut waits = false;
            while !world.has_begun() {
                waits = true;
                let is_back = world.bring_back();
                world.run(3_000_000);
                assert!(is_back || world.has_begun(), "all are back");
            }
            waited += usize::from(waits);
            early += usize::from(root.count().1 > 0);
        }
        while world.bring_back() {}
        world.settle();
        world.flow(3);
        world.check();
        court.borrow().compare(&root.logs(LOG));
    }
    println!("{durable} durable in {lives} lives; {waited} waited, {early} did not wait for all");
    assert!(waited > 20 && early > 20, "{waited} waited, {early} did not wait for all");
}

/// A log counts only when those that would come back without it know of it for good (I-113): not while the disk of
/// the one that was there first is slow, and not when that one crashes before.
#[test]
fn a_log_that_nobody_knows_of_does_not_count() {
    for (seed, crashes) in (0..10).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut court = Court::default();
        (court.retention, court.logged) = (retention(seed), true);
        let (court, root) = (Rc::new(RefCell::new(court)), Root::apart());
        let config = Config::adversarial(seed);
        let mut world = World::over(config, 1, true, (Rc::clone(&court), Some(root.clone())));
        world.settle();
        world.flow(10);
        world.settle();
        root.stall(0, true);
        let first = world.living()[0];
        let second = world.add_one(true);
        world.run(20_000_000);
        assert!(world.member(second).whole, "it has all");
        assert!(!world.is_named(second), "seed {seed}: it counts, and nobody would wait for it");
        if crashes {
            let before = court.borrow().durable;
            world.crash(first);
            world.run(20_000_000);
            world.flow(10);
            world.run(20_000_000);
            assert!(!world.is_named(second), "seed {seed}: it goes on alone");
            assert_eq!(court.borrow().durable, before, "nothing is durable everywhere meanwhile");
            assert!(world.bring_back());
        } else {
            root.stall(0, false);
        }
        world.settle();
        assert!(world.is_named(second));
        world.flow(5);
        world.check();
    }
}
