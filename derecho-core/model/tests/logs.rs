//! Errors planted into logs are found, each by the rule named for it, in each of three ranges of
//! seeds. An error affects the whole process, so all of them are one test.
#![cfg(model)]

use derecho_model::{Fault, plant};
use derecho_sim::log_life::{Hazards, live};

/// Starts of the ranges, and the maximum number of seeds of each.
const RANGES: [u64; 3] = [0, 10_000, 20_000];
const SEEDS: u64 = 1500;

/// Returns the first seed of the range whose life breaks this rule before all others, and breaks no
/// rule without the error.
fn found(from: u64, hazards: Hazards, (fault, rule): (Fault, &str)) -> Option<u64> {
    (from..from + SEEDS).find(|seed| {
        plant(Some(fault));
        let with = live(*seed, hazards);
        plant(None);
        let broke =
            with.violations.first().is_some_and(|what| what.split(':').next() == Some(rule));
        broke && live(*seed, hazards).violations.is_empty()
    })
}

#[test]
fn planted_errors_are_found() {
    let none = Hazards {
        power: false,
        failing_syncs: false,
        full: false,
        decay: false,
        misdirected: false,
    };
    let power = Hazards { power: true, ..none };
    let syncs = Hazards { failing_syncs: true, ..power };
    let cases = [
        (Fault::DurableBeforeSync, power, "durable"),
        (Fault::SyncRetried, syncs, "durable"),
        (Fault::RenameNotSynced, power, "durable"),
        (Fault::UnprovenBelieved, syncs, "durable"),
        (Fault::BadRecordSkipped, Hazards { decay: true, ..none }, "found"),
    ];
    let mut missed = Vec::new();
    for (fault, hazards, rule) in cases {
        let seeds = RANGES.map(|from| found(from, hazards, (fault, rule)));
        println!("{fault:?}: {seeds:?}");
        if seeds.contains(&None) {
            missed.push(format!("{fault:?} by {rule}: {seeds:?}"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
