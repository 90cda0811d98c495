//! Groups through joins, leaves, crashes and changes of layout.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod groups;

use derecho_sim::{Config, NodeIndex};
use groups::World;

fn adversarial(seed: u64) -> Config {
    Config::adversarial(seed)
}

#[test]
fn founders_come_together_and_what_one_writes_all_read() {
    for seed in 0..20 {
        let mut world = World::new(adversarial(seed), 3);
        world.settle();
        for node in world.all() {
            world.act(node, |member| member.enter(7, true, true));
        }
        world.settle();
        for _ in 0..20 {
            for node in world.all() {
                world.act(node, |member| member.write(7));
            }
            world.run(50_000);
        }
        world.check();
        let court = world.court.borrow();
        assert!(court.deliveries > 100, "{} deliveries", court.deliveries);
    }
}

/// Three members that all write and read topic 7, in full flow.
fn flowing(seed: u64) -> World {
    let mut world = World::new(adversarial(seed), 3);
    world.settle();
    for node in world.all() {
        world.act(node, |member| member.enter(7, true, true));
    }
    world.settle();
    world.write_for(20);
    world
}

#[test]
fn a_crash_in_full_flow() {
    for seed in 0..60 {
        let mut world = flowing(seed);
        let dies = NodeIndex(seed as usize % 3);
        world.cluster.crash(dies);
        world.write_for(40);
        world.check();
        assert_eq!(world.living().len(), 2);
    }
}

#[test]
fn a_join_in_full_flow() {
    for seed in 0..60 {
        let mut world = flowing(seed);
        let node = world.add();
        world.write_for(20);
        world.act(node, |member| member.enter(7, true, true));
        world.write_for(40);
        world.check();
        assert_eq!(world.living().len(), 4);
    }
}

#[test]
fn a_leave_in_full_flow() {
    for seed in 0..60 {
        let mut world = flowing(seed);
        world.act(NodeIndex(seed as usize % 3), |member| member.leave());
        world.write_for(40);
        world.check();
        assert_eq!(world.living().len(), 2);
    }
}

#[test]
fn topics_that_come_and_go() {
    for seed in 0..60 {
        let mut world = flowing(seed);
        for _ in 0..30 {
            world.random_change();
            world.write_for(2);
        }
        world.check();
    }
}

/// Everything at once.
fn random_lives(seeds: std::ops::Range<u64>, new: fn(Config, usize) -> World) {
    let (mut views, mut epochs) = (0, 0);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let mut world = new(adversarial(seed), 3);
        for _ in 0..60 {
            world.random_change();
            world.random_fault();
            world.write_for(2);
        }
        world.check();
        let court = world.court.borrow();
        (views, epochs) = (views + court.views() as u64, epochs + court.epochs);
    }
    assert!(
        views > 3 * count && epochs > 10 * count,
        "{views} views, {epochs} epochs show nothing"
    );
}

#[test]
fn random_lives_of_networked_groups() {
    random_lives(0..250, World::new);
}

#[test]
fn random_lives_of_local_groups() {
    random_lives(0..250, World::local);
}

#[test]
fn of_a_local_group_the_last_one_goes_on() {
    for seed in 0..40 {
        let mut world = World::local(adversarial(seed), 3);
        world.settle();
        for node in world.all() {
            world.act(node, |member| member.enter(7, true, true));
        }
        world.settle();
        world.write_for(10);
        for node in [seed as usize % 3, (seed as usize + 1) % 3] {
            world.cluster.crash(NodeIndex(node));
            world.write_for(5);
        }
        world.check();
        assert_eq!(world.living().len(), 1);
    }
}
