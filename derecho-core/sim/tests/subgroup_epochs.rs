//! A subgroup through many epochs: members crash, join, leave, or are excluded and continue on
//! their own; senders and readers come and go; over copied and over shared memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod epochs;

use derecho_core::multicast::subgroup::Level;
use epochs::{Shape, World};

fn check(seed: u64, level: Level, shared: bool) -> World {
    check_shape(seed, Shape::random(seed, level, shared))
}

fn check_shape(seed: u64, shape: Shape) -> World {
    let mut world = World::new(seed, shape);
    let complaints = world.run();
    let log = world.oracle.log.join("\n");
    assert!(complaints.is_empty(), "seed {seed}: {complaints:#?} {:#?}\n{log}", world.shape);
    world
}

/// Checks that a range of runs covers the required events.
fn check_all(seeds: u64, level: Level, shared: bool) {
    let (mut views, mut layouts, mut mixed, mut cut_off, mut crashes) = (0, 0, 0, 0, 0);
    for seed in 0..seeds {
        let shape = Shape { late_leavers: true, ..Shape::random(seed, level, shared) };
        let oracle = check_shape(seed, shape).oracle;
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
    check_all(400, Level::Atomic, false);
}

#[test]
fn epochs_follow_each_other_where_memory_is_shared() {
    check_all(400, Level::Atomic, true);
}

#[test]
fn epochs_without_an_order_follow_each_other() {
    check_all(150, Level::Unordered, false);
    check_all(150, Level::Unordered, true);
}

/// A paused leaver has not seen that an epoch is complete, while a newcomer waits for its line slot
/// (I-33). Copied lines are posted only to the members of an epoch, so only shared lines can be
/// reused too early.
#[test]
fn lines_are_not_used_again_while_a_leaver_looks_at_them() {
    let mut late = 0;
    for seed in 0..60 {
        let shape = Shape { late_leavers: true, ..Shape::random(seed, Level::Atomic, true) };
        let (is_late, complaints) = World::new(seed, shape).run_with_a_slow_leaver();
        assert!(complaints.is_empty(), "seed {seed}: {complaints:#?}");
        late += usize::from(is_late);
    }
    println!("{late} of 60 leavers were late");
    assert!(late > 20, "{late}");
}

/// A member that passes the end of a cut-off epoch must not count it as delivered above the trim.
#[test]
fn what_ends_another_epoch_is_passed_and_not_delivered() {
    check(5, Level::Atomic, false);
}

/// A member that had not read before may still lack entries below the start of its epoch.
#[test]
fn a_member_that_is_behind_reports_the_start() {
    check(612, Level::Atomic, false);
    check(379, Level::Unordered, false);
}

/// A member misses an epoch in which it should not read, and reads again in the next one.
#[test]
fn who_was_not_to_read_in_an_epoch_that_it_has_missed_begins_anew() {
    check(730, Level::Atomic, true);
}

/// Records that a sender committed before it began may be delivered by others, which still refer
/// to them.
#[test]
fn what_was_seen_before_its_sender_began_is_not_overwritten() {
    check(1487, Level::Unordered, true);
}

/// A member is away while another one begins a new stream.
#[test]
fn of_a_new_stream_nothing_was_posted_to_who_comes_back() {
    check(343, Level::Atomic, false);
}

/// A null run above the trim waits for messages of others; there is nothing to acknowledge.
#[test]
fn nulls_that_are_left_over_need_no_acknowledgement() {
    check(10_085, Level::Atomic, false);
}

/// A member begins in an epoch that one of its senders has missed.
#[test]
fn who_began_in_an_epoch_that_its_sender_has_missed_is_shown_all() {
    check(13_777, Level::Atomic, false);
    check(14_951, Level::Atomic, false);
}
