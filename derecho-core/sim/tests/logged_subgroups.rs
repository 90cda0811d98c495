//! Logged subgroups through joins, leaves, crashes, and total failure: everything durable
//! everywhere is restored, logs agree, and late joiners get all of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod seeds;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_sim::Config;
use derecho_sim::world::log_folders::LogFolders;
use derecho_sim::world::stores::World;
use derecho_sim::world::stores::checker::StoreChecker;
use derecho_sim::world::stores::member::{KEY, LOG};
use derecho_sim::world::stores::partition_lives::NetworkedCounts;
use derecho_sim::world::stores::separate_disks::{SeparateDisks, retention};

fn first(seed: u64, nodes: usize) -> (World, LogFolders) {
    let mut checker = StoreChecker::default();
    (checker.retention, checker.logged) = (retention(seed), true);
    let (checker, folders) = (Rc::new(RefCell::new(checker)), LogFolders::default());
    let config = Config::adversarial(seed);
    (World::over(config, nodes, true, checker, Some(folders.clone())), folders)
}

/// Crashes all members, and starts as many others.
fn restart(mut world: World, folders: &LogFolders, (seed, life): (u64, u64)) -> World {
    world.crash_all();
    let checker = Rc::clone(&world.checker);
    println!("life {life} of {seed}");
    checker.borrow_mut().restart(&folders.logs(LOG));
    let config = Config::adversarial(seed + 1_000_000 * life);
    let nodes = 1 + (seed + life) as usize % 3;
    World::over(config, nodes, true, checker, Some(folders.clone()))
}

#[test]
fn group_continues_from_its_logs_after_all_members_crash() {
    let mut durable = 0;
    for seed in 0..30 {
        let (mut world, folders) = first(seed, 2);
        for life in 1..4 {
            world.settle();
            world.flow(20);
            if seed % 2 == 0 {
                world.add();
                world.flow(10);
            }
            world.check();
            world.checker.borrow().compare(&folders.logs(LOG));
            durable += world.checker.borrow().durable;
            world = restart(world, &folders, (seed, life));
        }
        world.settle();
        world.flow(5);
        world.check();
    }
    assert!(durable > 1_000, "{durable}");
}

/// Returns the seeds that always run; the variable STORED_SEEDS selects others, as `60-400`.
fn seeds() -> std::ops::Range<u64> {
    seeds::seeds("STORED_SEEDS", 0..40)
}

/// Members join, crash and leave, then all crash at some moment, and some come back. Returns the
/// number of records that were durable, and of lives.
fn anything(seed: u64) -> (usize, usize) {
    let (mut durable, mut lives) = (0, 0);
    let (mut world, folders) = first(seed, 1 + seed as usize % 3);
    for life in 1..4 {
        world.flow(10);
        for _ in 0..25 {
            world.flow(2);
            world.random_fault();
        }
        if seed.is_multiple_of(3) && !world.living().is_empty() {
            world.check();
            world.checker.borrow().compare(&folders.logs(LOG));
        }
        if world.checker.borrow().lost {
            break;
        }
        (durable, lives) = (durable + world.checker.borrow().durable, lives + 1);
        world = restart(world, &folders, (seed, life));
    }
    if !world.living().is_empty() {
        world.check();
    }
    (durable, lives)
}

#[test]
fn logged_subgroup_keeps_durable_records_through_random_faults() {
    let (mut durable, mut lives) = (0, 0);
    for seed in seeds() {
        println!("seed {seed}");
        let one = anything(seed);
        (durable, lives) = (durable + one.0, lives + one.1);
    }
    println!("{durable} durable in {lives} lives");
    assert!(lives as u64 > seeds().end - seeds().start);
}

/// I-341: a member receives the store from the only holder, which then leaves. In the vacancy the
/// member copies the holder's log, which has more than the member has received, and then holds the
/// store that it has.
#[test]
fn log_with_more_than_the_received_store_is_not_replaced() {
    assert!(anything(2487).1 > 0);
}

/// I-342: a late joiner has received the store when all holders are gone, and its log is not named
/// yet (I-113). Another late joiner with an equal log claims, too.
#[test]
fn member_with_the_store_begins_it_among_equal_logs() {
    assert!(anything(2886).1 > 0);
    assert!(delayed(2656) > 0);
}

/// As [`anything`], with members that stand still or are slow for a while, and stalled disks.
/// Returns the number of records that were durable.
fn delayed(seed: u64) -> usize {
    let mut durable = 0;
    let (mut world, folders) = first(seed, 2 + seed as usize % 2);
    for life in 1..3 {
        world.flow(10);
        for _ in 0..12 {
            world.random_delay();
            world.random_fault();
        }
        if world.checker.borrow().lost {
            break;
        }
        durable += world.checker.borrow().durable;
        world = restart(world, &folders, (seed, life));
    }
    if !world.living().is_empty() {
        world.check();
    }
    durable
}

/// Everything reported as durable everywhere is in the log of every storer, not only in the longest
/// one (I-105).
#[test]
fn slow_members_and_disks_lose_no_durable_record() {
    let mut durable = 0;
    for seed in seeds() {
        println!("seed {seed}");
        durable += delayed(seed);
    }
    assert!(durable as u64 > 10 * (seeds().end - seeds().start), "{durable} durable");
}

/// Runs one group whose hosts reach only their own logs. Returns the number of durable messages, of
/// lives, of restarts that waited, and of restarts that did not wait for all.
fn hosts_apart(seed: u64) -> [usize; 4] {
    let (mut durable, mut lives, mut waited, mut early) = (0, 0, 0, 0);
    println!("seed {seed}");
    let SeparateDisks { checker, folders, mut world, .. } =
        SeparateDisks::new(seed, 1 + seed as usize % 3);
    for life in 1..5 {
        world.flow(5);
        for _ in 0..12 {
            world.flow(1);
            world.random_fault();
        }
        if checker.borrow().lost {
            break;
        }
        (durable, lives) = (durable + checker.borrow().durable, lives + 1);
        world.crash_all();
        checker.borrow_mut().restart_somewhere();
        let config = Config::adversarial(seed + 1_000_000 * life);
        world = World::over(config, 1, true, Rc::clone(&checker), Some(folders.clone()));
        world.run(3_000_000);
        let mut waits = false;
        while !world.has_begun() {
            waits = true;
            let is_back = world.bring_back();
            world.run(if is_back { 3_000_000 } else { 300_000_000 });
            assert!(is_back || world.has_begun(), "all logs are back, and the store has not begun");
        }
        waited += usize::from(waits);
        early += usize::from(folders.count().1 > 0);
    }
    // A member that was about to leave still has its folder.
    world.run(3_000_000);
    while world.bring_back() {}
    world.settle();
    world.flow(3);
    world.check();
    checker.borrow().compare(&folders.logs(LOG));
    [durable, lives, waited, early]
}

/// Every log is on a disk that no other host reaches. All crash, and some come back, then the
/// others one by one. The group continues as soon as no missing log can have more, and nothing
/// durable everywhere is lost.
#[test]
fn hosts_that_reach_only_their_own_logs_wait_for_each_other() {
    let mut sums = [0; 4];
    for seed in seeds() {
        let one = hosts_apart(seed);
        sums.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
    }
    let [durable, lives, waited, early] = sums;
    println!("{durable} durable in {lives} lives; {waited} waited, {early} did not wait for all");
    assert!(waited > 20 && early > 20, "{waited} waited, {early} did not wait for all");
}

/// A networked group is partitioned at random, also during view changes, crashes and slow disks,
/// and may be lost as a whole. Everything reported as durable everywhere is present after each
/// restart, also after one during a partition.
#[test]
fn partitioned_networked_group_loses_no_durable_record() {
    let mut sums = NetworkedCounts::default();
    let range = seeds();
    let count = (range.end - range.start) as usize;
    range.for_each(|seed| sums.live(seed));
    println!("{sums:?}");
    let NetworkedCounts { durable, partitions, survived, evicted, cut_short, .. } = sums;
    assert!(durable > 100 * count && partitions > 3 * count, "{durable} durable");
    assert!(survived > count && evicted > count && cut_short > count / 2);
}

/// A log counts only when the members that would come back without it have recorded it durably
/// (I-113): not while the first member's disk is slow, and not if the first member crashes before.
#[test]
fn log_that_no_member_has_recorded_does_not_count() {
    for (seed, crashes) in (0..10).flat_map(|seed| [(seed, false), (seed, true)]) {
        let SeparateDisks { checker, folders, mut world, .. } = SeparateDisks::new(seed, 1);
        world.settle();
        world.flow(10);
        world.settle();
        folders.stall(0, true);
        let first = world.living()[0];
        let second = world.add_one(true);
        world.run(20_000_000);
        assert!(world.member(second).whole, "the second member lacks records");
        assert!(
            !world.is_named(second),
            "seed {seed}: its log counts, and no restart would wait for it"
        );
        if crashes {
            let before = checker.borrow().durable;
            world.crash(first);
            world.run(20_000_000);
            world.flow(10);
            world.run(20_000_000);
            assert!(
                !world.is_named(second),
                "seed {seed}: its log counts after it continues alone"
            );
            assert_eq!(checker.borrow().durable, before, "nothing is durable everywhere meanwhile");
            assert!(world.bring_back());
        } else {
            folders.stall(0, false);
        }
        world.settle();
        assert!(world.is_named(second));
        world.flow(5);
        world.check();
    }
}

/// The only complete log is lost while another member has not kept it yet: in this life nothing
/// begins without it (I-156).
#[test]
fn incomplete_late_joiner_does_not_begin_without_the_complete_log() {
    let mut waited = 0;
    for seed in 0..120 {
        let SeparateDisks { checker, mut world, .. } = SeparateDisks::new(seed, 1);
        world.settle();
        world.flow(10);
        world.settle();
        let (first, durable) = (world.living()[0], checker.borrow().durable);
        let second = world.add_one(true);
        world.run(seed % 30 * 12_000);
        let is_there = world.has_seat(second);
        world.crash(first);
        world.run(30_000_000);
        // The member may have received everything in time.
        if !world.has_begun() {
            waited += 1;
            assert!(world.bring_back());
        }
        world.settle();
        let kept = world.member(second).stores.subgroup_store(KEY).unwrap().version();
        // A member that joins an empty group may know of no other log.
        assert!(kept >= durable as u64 || !is_there, "I-156: seed {seed}: {kept} of {durable}");
        world.flow(5);
        world.check();
    }
    assert!(waited > 10, "{waited} waited");
}

/// The only complete log is lost while a member without a log has everything; then all crash. A
/// member that was present, and has nothing of it in its log, waits for the lost log (I-156).
#[test]
fn restarted_member_with_empty_log_awaits_the_last_complete_log() {
    for seed in 0..20 {
        let mut separate = SeparateDisks::new(seed, 1);
        let world = &mut separate.world;
        let first = world.lean_on_the_first();
        match seed % 2 {
            0 => world.crash(first),
            _ => world.leave(first),
        }
        world.run(30_000_000);
        assert!(world.has_begun(), "a member that has the store does not continue");
        assert!(separate.durable() > 0);
        separate.restart_without(0, 1, "I-156");
        separate.bring_back(0);
    }
}

/// If no returned member has a log of a stream, all members of the last view must be back (I-151):
/// a member that took no part in the stream does not begin it afresh.
#[test]
fn stream_without_returned_log_awaits_all_members_of_last_view() {
    for seed in 0..15 {
        let mut separate = SeparateDisks::new(seed, 1);
        let world = &mut separate.world;
        world.settle();
        world.add_bystander();
        world.settle();
        world.flow(10);
        world.settle();
        assert!(separate.durable() > 0);
        separate.restart_without(0, 1, "I-151");
        separate.bring_back(0);
    }
}

/// A newcomer's log counts only once all earlier members have recorded the newcomer in their logs
/// of views (I-152): otherwise they would come back without it.
#[test]
fn late_joiner_missing_in_logged_views_begins_no_stream() {
    for (seed, crashes) in (0..10).flat_map(|seed| [(seed, false), (seed, true)]) {
        let SeparateDisks { folders, mut world, .. } = SeparateDisks::new(seed, 0);
        let first = world.add_bystander();
        world.settle();
        world.run(20_000_000);
        folders.stall(0, true);
        world.add_one(true);
        world.run(30_000_000);
        assert!(
            !world.has_begun(),
            "I-152: seed {seed}: the first member would not wait for its log"
        );
        if crashes {
            world.crash(first);
            world.run(30_000_000);
            assert!(!world.has_begun(), "I-152: seed {seed}: the store begins alone");
            assert!(world.bring_back());
        } else {
            folders.stall(0, false);
        }
        world.settle();
        world.flow(5);
        world.check();
    }
}

/// A waiting restart continues without a log if the operator says so (I-153). That log's records
/// are put aside when it comes back; once it was back, it is waited for again.
#[test]
fn restart_continues_without_a_log_by_operator_word() {
    for seed in 0..15 {
        let mut separate = SeparateDisks::new(seed, 2);
        let world = &mut separate.world;
        world.settle();
        if separate.folders.count().0 < 2 {
            world.add_one(true);
        }
        world.flow(10);
        world.settle();
        separate.restart_without(0, 1, "I-153");
        separate.folders.proceed_without(0, 1);
        separate.checker.borrow_mut().durable = 0;
        let world = &mut separate.world;
        world.settle();
        world.flow(10);
        world.settle();
        assert!(separate.durable() > 0);
        separate.bring_back(0);
        // The log has been a member since: the permission no longer counts.
        separate.restart_without(0, 2, "I-153");
        separate.bring_back(0);
    }
}

/// In a network, a majority of the last view suffices for a stream whose own keepers are back;
/// fewer wait (I-90, I-151).
#[test]
fn a_majority_of_the_last_view_restarts_in_a_network() {
    let (mut began, mut waited) = (0, 0);
    for seed in 0..24 {
        let SeparateDisks { checker, folders, .. } = SeparateDisks::new(seed, 0);
        let config = Config::adversarial(seed);
        let (bystanders, logs) = (3 + seed as usize % 2, Some(folders.clone()));
        let mut world = World::with_bystanders(config, 5, bystanders, Rc::clone(&checker), logs);
        world.settle();
        world.flow(6);
        world.settle();
        world.crash_all();
        checker.borrow_mut().restart_somewhere();
        // Of five logs these are back; the subgroup's are the first ones.
        let keepers = 5 - bystanders;
        let back = 1 + seed as usize % 5;
        (back..5).for_each(|at| folders.hide(at, true));
        let config = Config::adversarial(seed + 1_000_000);
        let (checker, logs) = (Rc::clone(&checker), Some(folders.clone()));
        let mut world = World::over(config, back, false, checker, logs);
        world.run(300_000_000);
        let may = back >= keepers && back >= 3;
        assert_eq!(
            world.has_begun(),
            may,
            "I-90: seed {seed}: {back} of five logs, {keepers} of them of the subgroup"
        );
        if may {
            began += 1;
            world.settle();
            world.flow(3);
            world.check();
        } else {
            waited += 1;
        }
    }
    assert!(began > 4 && waited > 4, "{began} began, {waited} waited");
}

/// A member whose log waits for room tells the others, until there is room.
#[test]
fn other_members_know_of_a_log_that_waits_for_room() {
    for seed in 0..10 {
        let SeparateDisks { folders, mut world, .. } = SeparateDisks::new(seed, 1);
        world.settle();
        let (first, second) = (world.living()[0], world.add_one(true));
        world.settle();
        let full = |world: &World, at| world.member(at).stores.full(KEY).collect::<Vec<_>>();
        folders.fill(0, true);
        world.flow(3);
        world.run(3_000_000);
        assert_eq!(full(&world, second), [world.member(first).me], "seed {seed}");
        assert_eq!(full(&world, first), [], "seed {seed}: only the other log is full");
        folders.fill(0, false);
        world.flow(3);
        world.settle();
        world.run(3_000_000);
        assert_eq!(full(&world, second), [], "seed {seed}");
        world.check();
    }
}

/// One of two logs is damaged. The group begins from the other one, which has everything, and the
/// damaged one is put aside and completed (I-98), whether or not the two can reach each other, and
/// whichever comes back first.
#[test]
fn harmed_log_is_completed_from_a_complete_log() {
    for (seed, apart) in (0..12).flat_map(|seed| [(seed, false), (seed, true)]) {
        let at_the_end = apart && seed % 4 == 3;
        let (checker, folders, mut world) = match apart {
            true => {
                let SeparateDisks { checker, folders, world, .. } = SeparateDisks::new(seed, 1);
                (checker, folders, world)
            }
            false => {
                let mut checker = StoreChecker::default();
                (checker.retention, checker.logged) = (retention(seed), true);
                let (checker, folders) = (Rc::new(RefCell::new(checker)), LogFolders::default());
                let (config, logs) = (Config::adversarial(seed), Some(folders.clone()));
                let world = World::over(config, 1, true, Rc::clone(&checker), logs);
                (checker, folders, world)
            }
        };
        world.settle();
        world.add_one(true);
        world.settle();
        world.flow(10);
        world.settle();
        world.run(30_000_000);
        assert_eq!(folders.count().0, 2);
        assert!(checker.borrow().durable > 0);
        world.crash_all();
        let damaged = seed as usize % 2;
        folders.damage(damaged, LOG, at_the_end);
        checker.borrow_mut().restart_somewhere();
        let config = Config::adversarial(seed + 1_000_000);
        let mut world = World::over(config, 1, true, Rc::clone(&checker), Some(folders.clone()));
        world.run(3_000_000);
        world.add_one(true);
        if at_the_end {
            // The last records are unknown: they may be missing in the other log.
            world.run(300_000_000);
            assert!(
                !world.has_begun(),
                "I-98: seed {seed}: the store begins without records that the log may have"
            );
            folders.proceed_without(damaged, 1 - damaged);
        }
        world.settle();
        while folders.count().1 > 0 {
            world.bring_back();
        }
        world.settle();
        world.flow(3);
        world.settle();
        world.check();
        assert_eq!(folders.asides(damaged, LOG), 1, "seed {seed}, apart {apart}");
        assert_eq!(folders.asides(1 - damaged, LOG), 0, "seed {seed}, apart {apart}");
        let tails: Vec<_> = folders.logs(LOG).into_iter().map(|found| found.tail).collect();
        assert!(tails.iter().all(|tail| *tail == tails[0]), "seed {seed}: {tails:?}");
    }
}

/// The group does not continue without a damaged log that has more than the other one, until an
/// operator says so (I-98).
#[test]
fn group_awaits_harmed_log_with_more_records_until_operator_word() {
    for seed in 0..12 {
        let mut separate = SeparateDisks::new(seed, 1);
        let world = &mut separate.world;
        world.settle();
        let second = world.add_one(true);
        world.settle();
        world.flow(10);
        world.settle();
        let of_both = separate.durable();
        let world = &mut separate.world;
        world.crash(second);
        world.run(30_000_000);
        let before = separate.durable();
        let world = &mut separate.world;
        world.flow(10);
        world.settle();
        world.run(3_000_000);
        assert!(separate.durable() > before);
        let SeparateDisks { checker, folders, mut world, .. } = separate;
        world.crash_all();
        folders.damage(0, LOG, false);
        checker.borrow_mut().restart_somewhere();
        let config = Config::adversarial(seed + 1_000_000);
        let mut world = World::over(config, 2, true, Rc::clone(&checker), Some(folders.clone()));
        while folders.count().1 > 0 {
            world.bring_back();
        }
        world.run(300_000_000);
        assert!(
            !world.has_begun(),
            "I-98: seed {seed}: the store begins without records that the log has"
        );
        folders.proceed_without(0, 1);
        // One of the two logs is left: the records of both stay durable.
        checker.borrow_mut().durable = of_both;
        world.settle();
        world.flow(3);
        world.check();
        assert_eq!(folders.asides(0, LOG), 1, "seed {seed}");
    }
}

/// In a network, a majority of the last view restarts a stream only with the logs that the newest
/// mark names (I-106): another of these logs may alone have records that became durable after this
/// one crashed.
#[test]
fn networked_restart_awaits_logs_named_by_the_newest_mark() {
    for seed in 0..20 {
        let (mut separate, before) = SeparateDisks::with_crashed_holder(seed);
        assert!(separate.durable() > before, "seed {seed}: the other member makes no progress");
        separate.restart_in_a_network(0);
        separate.bring_back(0);
    }
}

/// The only log with the last records crashes, while another log that it does not know yet is
/// present with older records. A log that joins later is known only to the older log, and so does
/// not count either (I-152).
#[test]
fn log_that_joins_after_crash_of_the_newest_log_does_not_count() {
    hosts_apart(32);
}
