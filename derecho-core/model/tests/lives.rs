//! Errors that were planted into the protocol are found in random lives of whole groups, each by the rule
//! that was named for it, in each of three ranges of seeds. An error is there for the whole process, so all of
//! them are one test.
#![cfg(model)]

use derecho_lives::{Fault as Happens, Faults, Kind, Plan, live};
use derecho_model::{Fault, plant};

/// Where the ranges begin, and how many seeds each has at most.
const RANGES: [u64; 3] = [0, 10_000, 20_000];
const SEEDS: u64 = 120;

const AGREEMENT: &[&str] = &["agreement"];
const STATE: &[&str] = &["state"];
const LIVENESS: &[&str] = &["liveness"];
const VIEWS: &[&str] = &["views"];
const PARTITION: &[&str] = &["partition"];
const ISOLATION: &[&str] = &["isolation"];
const ORDER: &[&str] = &["order"];
const SEQUENCE: &[&str] = &["sequence"];
const HONESTY: &[&str] = &["honesty"];

/// The first seed of the range at which a life breaks this rule before all others.
fn found(from: u64, kind: Kind, faults: Faults, rule: &str) -> Option<u64> {
    (from..from + SEEDS).find(|seed| {
        let account = live(Plan { faults, ..Plan::new(*seed, kind) }, false);
        account.violations.first().is_some_and(|what| what.starts_with(&format!("{rule}: ")))
    })
}

#[test]
fn planted_errors_are_found() {
    let crashes = Faults::NONE.and(Happens::Crash);
    let cuts = crashes.and(Happens::Partition).and(Happens::Pause);
    let slow = crashes.and(Happens::SlowNode).and(Happens::SlowLink).and(Happens::Delay);
    let (local, network) = (Kind::Local, Kind::Network);
    let cases = [
        (Fault::TrimIgnored, network, crashes, AGREEMENT),
        (Fault::WedgedLate, network, crashes, AGREEMENT),
        (Fault::CutOfOne, network, crashes, AGREEMENT),
        (Fault::CompleteEarly, network, slow, AGREEMENT),
        (Fault::NewcomerOffByOne, network, crashes, ORDER),
        (Fault::NullsTwice, network, crashes, ORDER),
        (Fault::UnsentForgotten, network, crashes, SEQUENCE),
        (Fault::TakenTooFar, network, crashes, HONESTY),
        (Fault::OldLines, network, crashes, AGREEMENT),
        (Fault::SnapshotEarly, network, crashes, STATE),
        (Fault::InformedLate, local, crashes, STATE),
        (Fault::BeyondTheEnd, local, crashes, STATE),
        (Fault::NotBegunKnows, local, crashes, LIVENESS),
        (Fault::StrangersStay, local, slow, LIVENESS),
        (Fault::MajorityOffByOne, network, cuts, PARTITION),
        (Fault::DeadDoNotCount, network, crashes, PARTITION),
        (Fault::OutGoesOn, network, cuts, ISOLATION),
        (Fault::WithoutKernel, local, cuts.and(Happens::Delay), VIEWS),
    ];
    let mut missed = Vec::new();
    for (fault, kind, faults, rules) in cases {
        plant(Some(fault));
        let seeds = RANGES.map(|from| {
            let seed = rules.iter().find_map(|rule| found(from, kind, faults, rule));
            seed.map(|seed| seed - from)
        });
        plant(None);
        println!("{fault:?}: {rules:?} after {seeds:?} seeds");
        if seeds.iter().any(Option::is_none) {
            missed.push(format!("{fault:?} {seeds:?}"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
