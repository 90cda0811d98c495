//! Stores of a subgroup through joins, leaves and crashes: a late joiner gets the kept records, and
//! then the live ones, with no gap and nothing twice.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod seeds;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::storage::store::StoreRetention;
use derecho_sim::world::stores::World;
use derecho_sim::world::stores::checker::StoreChecker;
use derecho_sim::{Config, NodeIndex};

const ALL: StoreRetention =
    StoreRetention { depth: None, most: None, keys: None, lifespan: None, cleanup: None };
const LAST: StoreRetention = StoreRetention { depth: Some(2), ..ALL };

fn retention(seed: u64) -> StoreRetention {
    match seed % 6 {
        0 => ALL,
        1 => LAST,
        2 => StoreRetention { most: Some(40), ..ALL },
        3 => StoreRetention { cleanup: Some(seed % 8), ..LAST },
        4 => StoreRetention { most: Some(30), cleanup: Some(seed % 12), ..ALL },
        _ => StoreRetention { depth: Some(7), most: Some(30), ..ALL },
    }
}

#[test]
fn late_joiner_receives_kept_records_and_then_live_records() {
    let (mut histories, mut exact, mut late) = (0, 0, 0);
    for seed in 0..30 {
        let mut world = World::new(Config::adversarial(seed), 2, seed % 2 == 0, retention(seed));
        world.settle();
        world.flow(40);
        world.add();
        world.flow(20);
        world.add();
        world.flow(20);
        world.check();
        let checker = world.checker.borrow();
        assert!(checker.length() > 200 && !checker.lost);
        (histories, exact) = (histories + checker.histories, exact + checker.exact);
        late += checker.late;
    }
    println!("{exact} of {histories} exact, {late} late");
    assert!(late > 10, "few readers began later than their members: {late}");
    assert!(exact * 10 >= histories * 9, "{exact} of {histories}");
}

/// The sender of a state transfer dies at some moment of the transfer.
#[test]
fn state_transfer_completes_after_crash_of_its_sender() {
    for seed in 0..40 {
        let mut world = World::new(Config::adversarial(seed), 3, true, retention(seed));
        world.settle();
        world.flow(40);
        world.add();
        world.flow(seed as usize % 12);
        world.crash(NodeIndex(seed as usize % 3));
        world.flow(20);
        world.check();
        assert!(!world.checker.borrow().lost);
    }
}

/// All members that had the store die: a member that was receiving it starts afresh, with the
/// live records.
#[test]
fn late_joiner_starts_afresh_if_all_store_holders_crash() {
    let mut lost = 0;
    for seed in 0..40 {
        let mut world = World::new(Config::adversarial(seed), 2, true, retention(seed));
        world.settle();
        world.flow(30);
        world.add();
        world.add();
        world.flow(seed as usize % 40);
        world.crash(NodeIndex(0));
        world.crash(NodeIndex(1));
        world.flow(20);
        world.check();
        lost += usize::from(world.checker.borrow().lost);
    }
    assert!((3..38).contains(&lost), "lost {lost} times");
}

/// A newcomer waits longer than a later one, and gets the store from that one. The later one has
/// never learnt of the progress of a member that left in between: the newcomer's own beginning
/// counts (I-158).
#[test]
fn waiting_late_joiner_receives_store_from_a_later_joiner() {
    for seed in 0..60 {
        let mut world = World::new(Config::adversarial(seed), 3, true, retention(seed));
        world.settle();
        world.flow(20);
        let first = world.add();
        let waits = world.member(first).me;
        for holder in 0..3 {
            world.member_mut(holder).deaf_to = Some(waits);
        }
        world.flow(10);
        world.leave(NodeIndex(2));
        world.flow(20);
        let second = world.add();
        world.flow(20);
        world.run(5_000_000);
        assert!(world.member(second).whole && !world.member(first).whole, "seed {seed}");
        world.crash(NodeIndex(0));
        world.crash(NodeIndex(1));
        world.flow(5);
        world.check();
        assert!(!world.checker.borrow().lost, "seed {seed}");
    }
}

/// Returns the seeds that always run; the variable STORED_SEEDS selects others, as `60-400`.
fn seeds() -> std::ops::Range<u64> {
    seeds::seeds("STORED_SEEDS", 0..60)
}

#[test]
fn stores_stay_consistent_through_joins_leaves_and_crashes() {
    let (mut histories, mut overs, mut ended) = (0, 0, 0);
    for seed in seeds() {
        println!("seed {seed}");
        let nodes = 3 + seed as usize % 2;
        let local = !seed.is_multiple_of(3);
        let mut world = World::new(Config::adversarial(seed), nodes, local, retention(seed / 3));
        if !world.live() {
            // Too many members of a networked group crashed at once, or all others while the last
            // one left.
            ended += 1;
            continue;
        }
        world.check();
        let checker = world.checker.borrow();
        (histories, overs) = (histories + checker.histories, overs + checker.overs);
    }
    println!("{histories} histories, {overs} streams over, {ended} groups ended");
    assert!(overs > seeds().count());
    assert!(ended * 6 < seeds().count());
}

/// As the test before, where a newcomer learns of only one stream that is over, and of others
/// only through their remaining records (I-157): all members know the ends of the streams whose
/// records they have.
#[test]
fn stores_stay_consistent_if_late_joiner_learns_few_stream_ends() {
    let (mut overs, mut untold) = (0, 0);
    for seed in seeds() {
        println!("seed {seed}");
        let nodes = 3 + seed as usize % 2;
        let retention = retention(1 + seed % 5);
        let local = !seed.is_multiple_of(3);
        let checker = Rc::new(RefCell::new(StoreChecker::default()));
        (checker.borrow_mut().retention, checker.borrow_mut().tells) = (retention, Some(1));
        let config = Config::adversarial(seed);
        let mut world = World::over(config, nodes, local, Rc::clone(&checker), None);
        if !world.live() {
            continue;
        }
        world.check();
        let checker = world.checker.borrow();
        (overs, untold) = (overs + checker.overs, untold + checker.untold);
    }
    println!("{overs} streams over, {untold} of them unknown to some members");
    assert!(overs > seeds().count() && untold > 10);
}
