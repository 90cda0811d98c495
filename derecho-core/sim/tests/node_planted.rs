//! Proof that the checkers can fail: nodes with a planted fault, each of which must be caught in
//! every range of seeds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::Time;
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::acknowledgement::{ACK_HELD, ACK_RECEIVED, ACK_TAKEN, ACK_WORDS};
use derecho_core::node::ACK_LINES;
use derecho_sim::world::streams::{PlantedFault, World, has, tiny};
use derecho_sim::{Config, StopReason};

const GOAL: u64 = 200;
const END: Time = Time(40_000_000);
const RANGES: u64 = 3;
const SEEDS: u64 = 12;

/// Iterates over the words of every line in use.
fn lines(acks: &OwnRegion) -> impl Iterator<Item = usize> + '_ {
    let lines = (0..ACK_LINES).map(|line| line * ACK_WORDS);
    lines.filter(|first| acks.word(first + ACK_TAKEN).peek() != 0)
}

fn add(acks: &OwnRegion, word: usize, value: u64) {
    let word = acks.word(word);
    word.publish(word.peek() + value);
}

fn clears_held_while_it_still_reads(acks: &OwnRegion) {
    for first in lines(acks) {
        let word = acks.word(first + ACK_HELD);
        word.publish(word.peek() & !0xffff);
    }
}

/// Reports two more taken records than there are on every line, after the start phase.
fn takes_too_much(acks: &OwnRegion) {
    for first in lines(acks) {
        if acks.word(first + ACK_TAKEN).peek() & 0xff >= 20 {
            add(acks, first + ACK_TAKEN, 2);
            // With the matching stamp, and without any chunk.
            let word = acks.word(first + ACK_HELD);
            word.publish((word.peek() & !0xffff) + (2 << 16));
        }
    }
}

fn receives_too_much(acks: &OwnRegion) {
    lines(acks).for_each(|first| add(acks, first + ACK_RECEIVED, 3));
}

/// Returns the error of a run in which one reader has a fault, if any.
fn trouble(seed: u64, planted: Option<PlantedFault>) -> Option<String> {
    let mut world = World::new(Config { deadline: END, ..Config::adversarial(seed) });
    let (writer, readers) = (world.add(false), [world.add(true), world.add(true)]);
    world.cluster.machine_mut(readers[1], 0).planted = planted;
    world.act(writer, |app, effects| app.open(1, tiny(), effects));
    world.writes(writer, GOAL, 6, readers.len());
    readers.iter().for_each(|&reader| world.takes(reader, Time(END.0 / 2)));
    let stop = world
        .cluster
        .run_until_met(|cluster| readers.iter().all(|&reader| has(cluster, reader, 1, GOAL)));
    let mut violations = world.violations();
    if stop != StopReason::Reached {
        violations.push(format!("the run did not end: {stop:?}"));
    }
    violations.pop()
}

#[test]
fn checkers_accept_node_runs_without_a_planted_fault() {
    for seed in 0..RANGES * SEEDS {
        assert_eq!(trouble(seed, None), None, "seed {seed}");
    }
}

#[test]
fn every_planted_fault_is_caught_in_every_range_of_seeds() {
    let faults: [(&str, PlantedFault); 3] = [
        ("clears held too early", clears_held_while_it_still_reads),
        ("takes too much", takes_too_much),
        ("receives too much", receives_too_much),
    ];
    for (name, planted) in faults {
        for range in 0..RANGES {
            let seeds = range * SEEDS..(range + 1) * SEEDS;
            let caught = seeds.filter_map(|seed| trouble(seed, Some(planted))).count();
            assert!(caught > 0, "a reader that {name} is not caught in range {range}");
        }
    }
}
