//! An epoch whose ends one view has decided, and the next view decides again (I-337), is found in
//! random runs of one scene, in each of three ranges of seeds.
//!
//! ```text
//!   epoch 1   a reader, a sender, and a helper, which the sender meets late: the reader begins,
//!             and delivers what the sender has committed beyond its end of epoch 0; the sender
//!             does not begin
//!   view      the helper has crashed: the reader ends epoch 1, and gets epoch 2 with another
//!             helper, which it meets late
//!   view      the second helper has crashed: the reader has finished epoch 1, and reports it; the
//!             sender reports epoch 0
//! ```
#![cfg(model)]

use derecho_lives::{GroupKind, World};
use derecho_model::{Fault, plant};
use derecho_sim::{Config, NodeIndex, Random};

/// Starts of the ranges, and the maximum number of seeds of each.
const RANGES: [u64; 3] = [0, 10_000, 20_000];
const SEEDS: u64 = 60;

const TOPIC: u64 = 7;
/// Maximum delay, in nanoseconds, of the announcement of a helper's regions to one node.
const LATE: u64 = 3_000_000;

/// Returns the rules that one run breaks.
fn broken(seed: u64) -> Vec<String> {
    let mut random = Random::new(seed ^ 0x0242);
    let mut world = World::new(Config::adversarial(seed), GroupKind::Shared, 4);
    let [reader, sender, first, second] = [0, 1, 2, 3].map(NodeIndex);
    world.settle();
    world.inject(reader, |member| member.enter(TOPIC, true, false));
    world.inject(sender, |member| member.enter(TOPIC, false, true));
    world.settle();
    world.write_for(3);
    world.cluster.network().hamper(first, sender, 1, LATE);
    world.cluster.network().hamper(second, reader, 1, LATE);
    world.inject(first, |member| member.enter(TOPIC, false, true));
    write(&mut world, &mut random, 100_000);
    world.inject(second, |member| member.enter(TOPIC, false, true));
    write(&mut world, &mut random, 100_000);
    world.crash(first);
    write(&mut world, &mut random, 300_000);
    world.crash(second);
    world.write_for(5);
    world.run(LATE);
    world.write_for(5);
    if !world.is_guilty() {
        world.check();
    }
    world.report().violations
}

/// Lets the members write a few times, and then some time pass.
fn write(world: &mut World, random: &mut Random, most: u64) {
    world.write_for(random.between(1, 3) as usize);
    world.run(random.between(1_000, most));
}

#[test]
fn random_runs_detect_epoch_ends_that_are_decided_again() {
    for from in RANGES {
        let found: Vec<u64> = (from..from + SEEDS)
            .filter(|seed| {
                plant(Some(Fault::EndsDecidedAnew));
                let with = broken(*seed);
                plant(None);
                let without = broken(*seed);
                assert!(without.is_empty(), "seed {seed}: {without:#?}");
                with.first().is_some_and(|rule| rule.starts_with("honesty:"))
            })
            .collect();
        println!("EndsDecidedAnew from {from}: {found:?}");
        assert!(!found.is_empty(), "not found from {from}");
    }
}
