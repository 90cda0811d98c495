//! Lock step is never broken.

use derecho_core::sst::Strategy;
use sst_programs::counting::{self, Count};

use crate::group::Group;

/// Counts to `target` and checks at every step that no node is ahead by more than one.
fn count(seed: u64, nodes: usize, strategy: Strategy, target: u64) -> u64 {
    let (done, all) = std::sync::mpsc::channel();
    let mut group = Group::new(seed, nodes, strategy, Count::ZERO, move |rank| {
        let done = done.clone();
        Box::new(counting::setup(target, move |count| {
            done.send((rank, count)).unwrap();
        }))
    });
    group.run_until(&format!("seed {seed}: all count to {target}"), |tables| {
        let own = |table: &&derecho_core::sst::Table<Count>| table.get(table.me(), Count::count);
        let (least, most) = (tables.iter().map(own).min(), tables.iter().map(own).max());
        assert!(most <= least.map(|count| count + 1), "seed {seed}: {least:?} and {most:?}");
        tables.iter().all(|table| table.rows().all(|row| row.get(Count::done)))
    });
    let mut told: Vec<_> = all.try_iter().collect();
    told.sort_unstable();
    assert_eq!(told.len(), nodes, "seed {seed}: each is told once");
    assert!(told.iter().all(|&(_, count)| count == target));
    group.cluster.trace_hash()
}

#[test]
fn no_node_is_ever_ahead_by_more_than_one() {
    for seed in 0..40 {
        count(seed, 2 + (seed % 6) as usize, Strategy::Writes, 25);
    }
}

#[test]
fn no_node_is_ahead_by_more_than_one_when_rows_are_fetched() {
    for seed in 0..15 {
        count(seed, 2 + (seed % 4) as usize, Strategy::Reads, 15);
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in [3, 4] {
        let run = || count(seed, 4, Strategy::Writes, 10);
        assert_eq!(run(), run());
    }
    assert_ne!(count(3, 4, Strategy::Writes, 10), count(4, 4, Strategy::Writes, 10));
}

#[test]
fn a_target_of_zero_is_reached_at_once() {
    count(1, 3, Strategy::Writes, 0);
}
