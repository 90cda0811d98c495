//! Round trips of detection, and a predicate that always holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use derecho_core::ids::Rank;
use derecho_core::sst::Strategy;
use sst_programs::detection::{self, Elements, Push};

use crate::group::{Group, Setup};

fn rounds<const S: usize>(seed: u64, strategy: Strategy, push: Push) {
    let mut group = Group::new(seed, 4, strategy, Elements::<S>::ready(), move |rank| {
        let setup: Setup<Elements<S>> = match rank {
            Rank(0) => Box::new(|_| {}),
            Rank(3) => Box::new(move |scope| detection::set_mark(scope, i32::MAX, push)),
            _ => Box::new(detection::echo(Rank(0), push, |_| {})),
        };
        setup
    });
    let detected = Arc::new(AtomicU64::new(0));
    for round in 1..=5 {
        let log = detected.clone();
        group.act(0, 100, move |scope| {
            detection::begin(scope, 1..=3, round, push, move |round| {
                log.store(round as u64, Ordering::Relaxed);
            });
        });
        group.run_until(&format!("seed {seed}: round {round}"), |tables| {
            let all = detected.load(Ordering::Relaxed) == round as u64;
            let held = detection::reached(tables[0], 1..=3, round);
            assert!(held || !all, "seed {seed}: detected before it held");
            all
        });
    }
}

#[test]
fn round_is_detected_but_not_before_all_rows_reach_its_number() {
    for seed in 0..10 {
        rounds::<1>(seed, Strategy::Writes, Push::Mark);
        rounds::<1>(seed, Strategy::Reads, Push::Mark);
        rounds::<100>(seed, Strategy::Writes, Push::Row);
        rounds::<33>(seed, Strategy::Reads, Push::Row);
    }
}

#[test]
fn a_predicate_that_holds_fires_at_every_evaluation() {
    let fired = Arc::new(AtomicU64::new(0));
    let count = fired.clone();
    let mut group =
        Group::new(1, 3, Strategy::Writes, Elements::<1>::HELD, move |rank| -> Setup<_> {
            let count = count.clone();
            if rank == Rank(0) {
                Box::new(detection::spin(1..=2, move || {
                    count.fetch_add(1, Ordering::Relaxed);
                }))
            } else {
                Box::new(|_| {})
            }
        });
    group.run_for(100_000);
    assert!(fired.load(Ordering::Relaxed) > 100);
}
