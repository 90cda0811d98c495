//! Coherent sets whose writer is killed at any moment: no reader ever sees a part of a set
//! (I-190, I-191).

use std::path::Path;
use std::time::{Duration, Instant};

use crate::legs::{Leg, join_at, publisher, route, subscriber, taken, topic};
use crate::support::{Actor, Dice, PATIENCE, SOON, TestDomain, join, role, say, seed, until};

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "writer" => act_writer(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Returns the level for a seed.
fn level_of(seed: u64) -> &'static str {
    ["unordered", "atomic", "kept", "logged"][(seed % 4) as usize]
}

/// Writes sets in sequence, of sizes derived from their numbers, until it is killed.
fn act_writer(folder: &Path) {
    let level = level_of(seed());
    let participant = join_at(folder, level);
    let publisher = publisher(&participant);
    let writer = publisher.writer(&topic::<Leg>(&participant, level)).max_sample_size(1 << 16);
    let writer = writer.max_blocking_time(SOON).create().unwrap();
    if level == "unordered" || level == "atomic" {
        writer.wait_for_readers(2, SOON).unwrap();
    }
    say("begins");
    for route in seed() << 32.. {
        publisher.begin_coherent_changes().unwrap();
        for number in 0..size_of_set(route) {
            writer.write(&Leg { number, route }).unwrap();
        }
        publisher.end_coherent_changes().unwrap();
    }
}

fn size_of_set(route: u64) -> u32 {
    2 + Dice(route).below(600) as u32
}

/// Checks that the samples of one take are whole sets, and returns their number.
fn whole_sets(legs: &[(u32, u64)]) -> usize {
    let mut sets = 0;
    let mut rest = legs;
    while let Some(&(_, of)) = rest.first() {
        let size = size_of_set(of) as usize;
        assert!(rest.len() >= size, "{} of {size} samples of set {of:x}", rest.len());
        assert_eq!(rest[..size], route(of, size as u32));
        (rest, sets) = (&rest[size..], sets + 1);
    }
    sets
}

/// Writers are killed at any moment: each call returns whole sets, the same for all readers, and
/// for readers that join after the writer is gone.
fn survive(level: &str, rounds: u64) {
    let level_seed = (0..4).find(|seed| level_of(*seed) == level).unwrap();
    let mut dice = Dice(level_seed);
    let mut sets = 0;
    for round in 0..rounds {
        let domain = TestDomain::new();
        let here = join_at(&domain.runtime_dir(), level);
        let there = join(&domain.runtime_dir());
        let (near, far) = (subscriber(&here), subscriber(&there));
        let readers = [
            near.reader(&topic::<Leg>(&here, level)).reliable_all().create().unwrap(),
            far.reader(&topic::<Leg>(&there, level)).reliable_all().create().unwrap(),
        ];
        let mut actor = Actor::start(module_path!(), "writer", &domain, round * 4 + level_seed);
        assert_eq!(actor.hear(), "begins");
        let end = Instant::now() + Duration::from_micros(dice.below(40_000));
        let mut got = [Vec::new(), Vec::new()];
        let mut take = |got: &mut [Vec<(u32, u64)>; 2]| {
            for (reader, got) in readers.iter().zip(got) {
                let legs = taken(reader);
                sets += whole_sets(&legs);
                got.extend(legs);
            }
        };
        while Instant::now() < end {
            take(&mut got);
        }
        actor.kill();
        let gone = || readers.iter().all(|reader| reader.matched_publications().is_empty());
        until("the writer is gone", || {
            take(&mut got);
            gone()
        });
        // Takes all samples still on their way: none arrives for a while, and both readers have
        // the same.
        let mut quiet = 0;
        until("all has come", || {
            std::thread::sleep(Duration::from_millis(2));
            let before = got.each_ref().map(Vec::len);
            take(&mut got);
            let now = got.each_ref().map(Vec::len);
            let is_over = now == before && (level == "unordered" || now[0] == now[1]);
            quiet = if is_over { quiet + 1 } else { 0 };
            quiet == 5
        });
        let [first, second] = got;
        if level != "unordered" {
            assert_eq!(first.len(), second.len(), "{level}, round {round}");
            assert_eq!(first, second, "{level}, round {round}");
        }
        if level == "kept" || level == "logged" {
            let late = near.reader(&topic::<Leg>(&here, level)).reliable_all().create().unwrap();
            late.wait_for_historical_data(SOON).unwrap();
            let (mut all, deadline) = (Vec::new(), Instant::now() + PATIENCE);
            while all.len() < first.len() {
                assert!(Instant::now() < deadline, "{} of {}", all.len(), first.len());
                let legs = taken(&late);
                whole_sets(&legs);
                all.extend(legs);
            }
            assert_eq!(all, first, "{level}, round {round}");
        }
    }
    assert!(sets as u64 > rounds, "only {sets} sets came in {rounds} rounds");
}

#[test]
fn readers_see_only_whole_unordered_sets_of_killed_writer() {
    survive("unordered", 12);
}

#[test]
fn readers_see_only_whole_atomic_sets_of_killed_writer() {
    survive("atomic", 12);
}

#[test]
fn readers_see_only_whole_kept_sets_of_killed_writer() {
    survive("kept", 12);
}

#[test]
fn readers_see_only_whole_logged_sets_of_killed_writer() {
    survive("logged", 6);
}
