//! Logs on disks that do their worst, over thousands of seeds (I-80 to I-87).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_sim::log_life::{Hazards, LogAccount, live};

fn lives(seeds: std::ops::Range<u64>, hazards: Hazards) -> LogAccount {
    let mut all = LogAccount::default();
    for seed in seeds {
        all.add(&live(seed, hazards));
        assert!(all.violations.is_empty(), "{:?}", all.violations);
    }
    all
}

#[test]
fn what_was_durable_is_there_whatever_the_disk_does() {
    let all = lives(0..4000, Hazards::ALL);
    println!("{all:?}");
    // A run in which something never happens says nothing of it.
    for (count, what) in [
        (all.commits, "commits"),
        (all.crashes, "crashes"),
        (all.torn, "torn tails"),
        (all.failed_syncs, "failed syncs"),
        (all.full, "full disks"),
        (all.checkpoints, "checkpoints"),
        (all.dropped, "dropped segments"),
        (all.cuts, "cuts"),
        (all.decays, "decays"),
        (all.misdirected, "misdirected sectors"),
    ] {
        assert!(count >= 100, "only {count} {what}");
    }
}

#[test]
fn a_seed_tells_the_same_life_each_time() {
    for seed in 0..20 {
        assert_eq!(live(seed, Hazards::ALL), live(seed, Hazards::ALL));
    }
}
