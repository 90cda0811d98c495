//! Sets over several topics whose writer is killed at any moment: no access ever shows a part of
//! one (I-211, I-213).

use std::path::Path;
use std::time::{Duration, Instant};

use crate::flight::{Display, Planner, SeenSample};
use crate::support::{self, Actor, Dice, TestDomain, join, role, say, seed, until};

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "planner" => act_planner(&folder),
        other => panic!("no such role: {other}"),
    }
}

fn level_of(seed: u64) -> &'static str {
    ["atomic", "kept"][(seed % 2) as usize]
}

/// Returns the contents of the set with this number.
fn set(of: u64) -> Vec<SeenSample> {
    let mut dice = Dice(of);
    let size = 2 + dice.below(30) as u32;
    (0..size).map(|number| (if dice.below(2) == 0 { 'w' } else { 't' }, number, of)).collect()
}

/// Writes sets in sequence, until it is killed.
fn act_planner(folder: &Path) {
    let participant = join(folder);
    let planner = Planner::new(&participant, level_of(seed()));
    planner.wait_for_readers(2);
    say("begins");
    for of in seed() << 32.. {
        planner.write_set(&set(of));
    }
}

/// Checks that the samples seen in one access are whole sets, and returns their number.
fn whole_sets(seen: &[SeenSample]) -> usize {
    let (mut sets, mut rest) = (0, seen);
    while let Some(&(.., of)) = rest.first() {
        let whole = set(of);
        assert!(
            rest.starts_with(&whole),
            "set {of:x} in parts: {:?}",
            &rest[..rest.len().min(whole.len())]
        );
        (rest, sets) = (&rest[whole.len()..], sets + 1);
    }
    sets
}

#[test]
fn group_access_shows_only_whole_sets_of_killed_writer() {
    let mut dice = Dice(7);
    let mut sets = 0;
    for round in 0..16 {
        let level = level_of(round);
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let displays = [Display::new(&here, level), Display::new(&there, level)];
        let mut actor = Actor::start(module_path!(), "planner", &domain, round);
        assert_eq!(actor.hear(), "begins");
        let end = Instant::now() + Duration::from_micros(dice.below(40_000));
        let mut seen = [Vec::new(), Vec::new()];
        let mut look = |seen: &mut [Vec<SeenSample>; 2]| {
            for (display, seen) in displays.iter().zip(seen) {
                let more = display.look();
                sets += whole_sets(&more);
                seen.extend(more);
            }
        };
        while Instant::now() < end {
            look(&mut seen);
        }
        actor.kill();
        until("the planner is gone", || {
            look(&mut seen);
            displays.iter().all(|display| display.turns.matched_publications().is_empty())
        });
        // Waits for all samples still on their way: none arrives for a while, and both have
        // the same.
        let mut quiet = 0;
        until("all has come", || {
            std::thread::sleep(Duration::from_millis(2));
            let before = seen.each_ref().map(Vec::len);
            look(&mut seen);
            let now = seen.each_ref().map(Vec::len);
            quiet = if now == before && now[0] == now[1] { quiet + 1 } else { 0 };
            quiet == 5
        });
        assert_eq!(seen[0], seen[1], "{level}, round {round}");
        if level == "kept" {
            let late = Display::new(&here, level);
            late.winds.wait_for_historical_data(support::SOON).unwrap();
            late.turns.wait_for_historical_data(support::SOON).unwrap();
            let mut all = Vec::new();
            until("the late one has all", || {
                all.extend(late.look());
                all.len() >= seen[0].len()
            });
            // One of its two readers was created first.
            all.sort_by_key(|(.., of)| *of);
            let sorted = |mut seen: Vec<SeenSample>| {
                seen.sort_unstable();
                seen
            };
            assert_eq!(sorted(all), sorted(seen[0].clone()), "{level}, round {round}");
        }
    }
    assert!(sets > 100, "only {sets} sets were seen");
}
