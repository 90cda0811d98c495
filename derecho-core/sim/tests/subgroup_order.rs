//! Subgroups over a simulated link, as adverse as its contract allows, with far less memory than
//! data: order, agreement, FIFO, every byte, liveness and quiet.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_sim::world::subgroups::{Scenario, World, adversarial};

fn check(seed: u64, level: DeliveryGuarantee, most: u64) {
    let mut world = World::started(adversarial(seed), Scenario::random(seed, level, most));
    let complaints = world.run_to_end();
    assert!(complaints.is_empty(), "seed {seed}: {complaints:#?} {:#?}", world.setting.scenario);
}

#[test]
fn members_deliver_the_same_messages_in_the_same_order() {
    (0..1_000).for_each(|seed| check(seed, DeliveryGuarantee::Atomic, 40));
}

#[test]
fn unordered_subgroup_delivers_all_messages_of_each_sender() {
    (0..600).for_each(|seed| check(seed, DeliveryGuarantee::Unordered, 40));
}

/// The lines of one member may be posted before another one can receive them.
#[test]
fn subgroup_begins_only_when_members_can_receive_lines() {
    (0..4).for_each(|seed| check(seed, DeliveryGuarantee::Unordered, 40));
}

/// All records are taken, but held, and are released to a sender that no longer looks.
#[test]
fn resting_sender_regains_memory_of_released_records() {
    check(3, DeliveryGuarantee::Unordered, 40);
    check(55, DeliveryGuarantee::Atomic, 40);
}

/// A place for a null run becomes free, and no further turn would use it.
#[test]
fn a_null_that_waits_for_its_place_is_committed() {
    check(24, DeliveryGuarantee::Atomic, 40);
}

/// A member takes entries from the words with which its replica appeared; their post may be read
/// late, or leave late, and carry later entries.
#[test]
fn entries_visible_before_their_post_do_no_harm() {
    [260, 294, 357, 374, 747]
        .into_iter()
        .for_each(|seed| check(seed, DeliveryGuarantee::Unordered, 40));
    check(87, DeliveryGuarantee::Atomic, 40);
}

#[test]
fn a_seed_determines_the_run() {
    for seed in 0..40 {
        let hash = || {
            let scenario = Scenario::random(seed, DeliveryGuarantee::Atomic, 30);
            let mut world = World::started(adversarial(seed), scenario);
            world.run_to_end();
            (world.cluster.trace_hash(), world.cluster.steps())
        };
        assert_eq!(hash(), hash(), "seed {seed}");
    }
}
