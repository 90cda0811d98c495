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
