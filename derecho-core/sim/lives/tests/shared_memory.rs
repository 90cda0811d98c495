//! Lives of whole groups over shared memory, as in the product: readers take late, hold records,
//! come and go, and become writers, in topics of all levels.

use derecho_lives::{Fault, Faults, GroupKind, LifePlan, LifeReport, STOPS_MOST, live};

/// Runs the lives of these seeds, with two to six nodes.
#[track_caller]
fn lives(seeds: std::ops::Range<u64>, faults: Faults) -> LifeReport {
    let mut sum = LifeReport::default();
    for seed in seeds {
        let nodes = 2 + seed as usize % 5;
        let plan = LifePlan { faults, nodes, ..LifePlan::new(seed, GroupKind::Shared) };
        let report = live(plan, false);
        assert!(report.violations.is_empty(), "{plan}: {:#?}", report.violations);
        sum += &report;
    }
    sum
}

/// Checks that enough lives could be judged.
#[track_caller]
fn shows_something(sum: &LifeReport) {
    let LifeReport { lives, judged, looked_for, view_changes, .. } = *sum;
    assert!(100 * judged >= 85 * lives, "{judged} of {lives} lives were judged");
    assert!(looked_for >= 60 * lives, "{looked_for} messages were looked for in {lives} lives");
    assert!(view_changes > 3 * lives, "{view_changes} views in {lives} lives");
    let deliveries = sum.deliveries_per_message();
    assert!(deliveries > 1.0, "{deliveries} deliveries per message");
}

#[test]
fn lives_without_faults_over_shared_memory_break_no_rule() {
    shows_something(&lives(0..100, Faults::NONE));
}

#[test]
fn lives_with_crashes_over_shared_memory_break_no_rule() {
    shows_something(&lives(0..100, Faults::NONE.and(Fault::Crash).and(Fault::Restart)));
}

/// Covers the reuse of memory that an excluded or late member still read.
#[test]
fn lives_with_all_faults_over_shared_memory_break_no_rule() {
    let sum = lives(0..200, Faults::ALL);
    shows_something(&sum);
    // Most groups with all faults are not judged while nodes stand still: faults affected too many.
    assert!(sum.stops > 20 && sum.judged_without >= 2, "{sum:?}");
}

/// Covers a sender that reused memory to which a reader still referred that it had met in no epoch:
/// the reader had begun an epoch that the sender skipped, and left with the next view (I-260).
#[test]
fn sender_keeps_memory_for_members_of_a_skipped_epoch() {
    let faults = Faults::NONE.and(Fault::SlowLink).and(Fault::Delay);
    let plan = LifePlan {
        faults,
        nodes: 4,
        rounds: 600,
        toggles: true,
        ..LifePlan::new(1126, GroupKind::Shared)
    };
    let report = live(plan, false);
    assert!(report.violations.is_empty(), "{plan}: {:#?}", report.violations);
}

/// Covers members that waited for stopped nodes which no member suspected.
#[test]
fn survivors_go_on_while_nodes_stay_stopped() {
    let sum = lives(0..60, Faults::NONE.and(Fault::Stop));
    assert!(sum.stops > 40 && sum.judged_without > 20, "{sum:?}");
}

/// Covers members that learned from others who is suspected, and did not ask the host whether those
/// stand still.
#[test]
fn survivors_go_on_while_most_nodes_stay_stopped() {
    let mut sum = LifeReport::default();
    for seed in (1..1200).step_by(STOPS_MOST as usize) {
        let faults = Faults::NONE.and(Fault::Stop);
        let plan = LifePlan { faults, nodes: 6, ..LifePlan::new(seed, GroupKind::Shared) };
        let report = live(plan, false);
        assert!(report.violations.is_empty(), "{plan}: {:#?}", report.violations);
        sum += &report;
    }
    assert!(sum.stops > 200 && sum.judged_without > 40, "{sum:?}");
}

#[test]
fn a_life_over_shared_memory_follows_from_its_seed() {
    let hash = |seed| live(LifePlan::new(seed, GroupKind::Shared), false).hash;
    for seed in 0..5 {
        assert_eq!(hash(seed), hash(seed), "seed {seed}");
        assert_ne!(hash(seed), hash(seed + 1), "seed {seed}");
    }
}
