//! A subgroup through many epochs: members crash, join, leave, or are excluded and continue on
//! their own; senders and readers come and go; over copied and over shared memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_sim::world::subgroups::{Scenario, World};

fn check(seed: u64, level: DeliveryGuarantee, shared: bool) -> World {
    check_shape(seed, Scenario::decided(seed, level, shared))
}

fn check_shape(seed: u64, scenario: Scenario) -> World {
    let mut world = World::decided(seed, scenario);
    let complaints = world.run_changes();
    let log = world.setting.oracle.log.join("\n");
    assert!(
        complaints.is_empty(),
        "seed {seed}: {complaints:#?} {:#?}\n{log}",
        world.setting.scenario
    );
    world
}

/// Checks that a range of runs covers the required events.
fn check_all(seeds: u64, level: DeliveryGuarantee, shared: bool) {
    let (mut views, mut layouts, mut mixed, mut cut_off, mut crashes) = (0, 0, 0, 0, 0);
    for seed in 0..seeds {
        let scenario = Scenario { late_leavers: true, ..Scenario::decided(seed, level, shared) };
        let oracle = check_shape(seed, scenario).setting.oracle;
        views += oracle.views;
        layouts += oracle.layouts;
        mixed += oracle.mixed;
        cut_off += oracle.cut_off;
        crashes += oracle.crashes;
    }
    println!(
        "{views} views, {layouts} layouts, {mixed} mixed, {cut_off} cut off, {crashes} crashes"
    );
    assert!(views > 2 * seeds as usize && layouts > seeds as usize && crashes > seeds as usize);
    assert!(mixed > 0 && cut_off > seeds as usize / 4);
}

#[test]
fn epochs_follow_each_other_where_memory_is_copied() {
    check_all(400, DeliveryGuarantee::Atomic, false);
}

#[test]
fn epochs_follow_each_other_where_memory_is_shared() {
    check_all(400, DeliveryGuarantee::Atomic, true);
}

#[test]
fn epochs_without_an_order_follow_each_other() {
    check_all(150, DeliveryGuarantee::Unordered, false);
    check_all(150, DeliveryGuarantee::Unordered, true);
}

/// A paused leaver has not seen that an epoch is complete, while a newcomer waits for its line slot
/// (I-33). Copied lines are posted only to the members of an epoch, so only shared lines can be
/// reused too early.
#[test]
fn line_slot_is_not_reused_before_its_leaver_finishes_the_epoch() {
    let mut late = 0;
    for seed in 0..60 {
        let scenario = Scenario {
            late_leavers: true,
            ..Scenario::decided(seed, DeliveryGuarantee::Atomic, true)
        };
        let (is_late, complaints) = World::decided(seed, scenario).run_with_a_slow_leaver();
        assert!(complaints.is_empty(), "seed {seed}: {complaints:#?}");
        late += usize::from(is_late);
    }
    println!("{late} of 60 leavers were late");
    assert!(late > 20, "{late}");
}

/// A member that passes the end of a cut-off epoch must not count it as delivered above the trim.
#[test]
fn end_of_a_cut_off_epoch_is_passed_but_not_delivered() {
    check(5, DeliveryGuarantee::Atomic, false);
}

/// A member that had not read before may still lack entries below the start of its epoch.
#[test]
fn member_behind_its_epoch_start_reports_the_start() {
    check(612, DeliveryGuarantee::Atomic, false);
    check(379, DeliveryGuarantee::Unordered, false);
}

/// A member misses an epoch in which it should not read, and reads again in the next one.
#[test]
fn non_reader_of_a_missed_epoch_begins_anew_in_the_next_epoch() {
    check(730, DeliveryGuarantee::Atomic, true);
}

/// Records that a sender committed before it began may be delivered by others, which still refer
/// to them.
#[test]
fn records_delivered_before_their_sender_began_are_not_overwritten() {
    check(1487, DeliveryGuarantee::Unordered, true);
}

/// A member is away while another one begins a new stream.
#[test]
fn returning_member_receives_a_stream_begun_in_its_absence() {
    check(343, DeliveryGuarantee::Atomic, false);
}

/// A null run above the trim waits for messages of others; there is nothing to acknowledge.
#[test]
fn nulls_above_the_trim_need_no_acknowledgement() {
    check(10_085, DeliveryGuarantee::Atomic, false);
}

/// A member begins in an epoch that one of its senders has missed.
#[test]
fn sender_shows_all_entries_to_member_of_a_missed_epoch() {
    check(13_777, DeliveryGuarantee::Atomic, false);
    check(14_951, DeliveryGuarantee::Atomic, false);
}
