//! Many subgroups, most of them idle: no member looks at the idle ones, and no commit stays unseen
//! (I-26). Over a simulated link, as adverse as its contract allows.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::Time;
use derecho_core::link::Sharing;
use derecho_core::machine::{Effects, PostKind, Target};
use derecho_core::multicast::changes::{CHANGES_WORDS, MOST_STREAMS};
use derecho_core::node::CHANGES;
use derecho_sim::world::many::{PlantedFault, Rule, Scenario, TestMember, World};
use derecho_sim::{Config, NodeIndex};

fn config(seed: u64) -> Config {
    Config { deadline: Time(10_000_000_000), ..Config::adversarial(seed) }
}

#[test]
fn every_committed_message_of_resting_subgroups_is_delivered() {
    let (mut rested, mut seeds) = (0, 0);
    for seed in 0..150 {
        let mut world = World::new(config(seed), Scenario::random(seed));
        world.run_to_end();
        let complaints = world.judge();
        assert!(complaints.is_empty(), "seed {seed}: {complaints:#?} {:?}", world.setting);
        if world.everyone_is_in_many() {
            let looked_at = world.looked_at();
            assert!(looked_at.iter().all(|&count| count == 0), "seed {seed}: {looked_at:?}");
            rested += 1;
        }
        seeds += 1;
    }
    assert!(rested > seeds / 3, "few scenarios came to rest: {rested}");
}

/// Members look only at active subgroups.
#[test]
fn members_look_only_at_active_subgroups() {
    for seed in 0..5 {
        let mut world = World::new(config(seed), Scenario { acts: 400, ..Scenario::full(3, 20) });
        world.cluster.run_until(Time(20_000_000));
        let (mut looks, mut samples) = (0, 0);
        for _ in 0..40 {
            let next = world.cluster.now().after(500_000);
            world.cluster.run_until(next);
            let looked_at = world.looked_at();
            looks += looked_at.iter().sum::<usize>();
            samples += looked_at.len();
        }
        // Each of the three members prefers one subgroup for a while.
        assert!(looks < 8 * samples, "seed {seed}: {looks} in {samples}");
        world.run_to_end();
        assert!(world.judge().is_empty(), "seed {seed}");
    }
}

/// Subgroups without the dead member continue, at rest or not.
#[test]
fn crash_stops_only_subgroups_of_the_crashed_member() {
    let mut went_on = 0;
    for seed in 0..100 {
        let mut scenario = Scenario::random(seed);
        let victim = 0;
        for (at, roles) in scenario.subgroups.iter_mut().enumerate() {
            if at % 2 == 0 && roles.len() > 2 {
                roles[victim] = (false, false);
                roles[1] = (true, true);
            }
        }
        let mut world = World::new(config(seed), scenario);
        let later = Time(world.random.between(0, 30_000_000));
        world.cluster.run_until(later);
        world.cluster.crash(NodeIndex(victim));
        world.run_to_end();
        let complaints = world.judge();
        // Subgroups of the dead member may be not founded, or not wedged, at some members.
        let without = |at: usize| world.setting.subgroups[at][victim] == (false, false);
        let complaints = complaints.iter().filter(|violation| match violation.at {
            Some(at) => without(at),
            None => true,
        });
        let complaints: Vec<_> = complaints.collect();
        assert!(complaints.is_empty(), "seed {seed}: {complaints:#?} {:?}", world.setting);
        let checker = world.checker.borrow();
        went_on += checker.committed.keys().filter(|(at, _)| without(*at)).count();
    }
    assert!(went_on > 100, "few subgroups continued: {went_on}");
}

#[test]
fn a_seed_determines_the_run() {
    for seed in 0..10 {
        let hash = || {
            let mut world = World::new(config(seed), Scenario::random(seed));
            world.run_to_end();
            (world.cluster.trace_hash(), world.cluster.steps())
        };
        assert_eq!(hash(), hash(), "seed {seed}");
    }
}

// Proof that the checkers can fail.

/// Takes this turn's posts and puts them back in another order, or drops them.
fn repost(effects: &mut Effects, place: impl Fn(usize) -> Option<u8>) {
    let mut posts: Vec<_> = effects.take_posts().collect();
    let of = |kind: &PostKind| match kind {
        PostKind::Write(CHANGES, range) => place(range.first),
        _ => Some(1),
    };
    posts.retain(|post| of(&post.kind).is_some());
    posts.sort_by_key(|post| of(&post.kind));
    for post in posts {
        let target = Target { peer: post.peer, sharing: Sharing::Copied };
        match post.kind {
            PostKind::Write(region, range) => effects.write(target, region, range),
            PostKind::Note(bytes) => effects.note(post.peer, bytes),
            PostKind::Read(..) => {}
        }
    }
}

/// First word of the marks; the counts precede it.
const MARKS: usize = CHANGES_WORDS - MOST_STREAMS;

fn posts_counts_before_marks(_: &mut TestMember, effects: &mut Effects) {
    repost(effects, |first| Some(if first < MARKS { 0 } else { 1 }));
}

fn posts_no_counts(_: &mut TestMember, effects: &mut Effects) {
    repost(effects, |first| (first >= MARKS).then_some(1));
}

/// Does not post marks that have become even before the next ones.
fn posts_marks_only_when_quiet(member: &mut TestMember, effects: &mut Effects) {
    let region = member.changes.clone();
    repost(effects, |first| (first < MARKS || region.word(first).peek() & 1 == 1).then_some(1));
}

fn trouble(seed: u64, planted: Option<PlantedFault>) -> Vec<Rule> {
    // Two members that write now and then: the next message does not immediately reveal an
    // unseen one.
    let mut world = World::new(config(seed), Scenario::full(2, 8));
    for member in 0..2 {
        world.member_mut(member).planted = planted;
    }
    world.run_to_end();
    world.judge().into_iter().map(|violation| violation.rule).collect()
}

fn caught(name: &str, planted: PlantedFault) {
    let found: Vec<_> = (0..12).map(|seed| trouble(seed, Some(planted))).collect();
    let hits = found.iter().filter(|found| found.first() == Some(&Rule::Liveness)).count();
    println!("a member that {name}: {hits} of 12 seeds, by liveness");
    assert!(hits > 0, "a member that {name} is not caught: {found:?}");
}

#[test]
fn checkers_accept_many_idle_subgroups_without_a_planted_fault() {
    for seed in 0..12 {
        assert_eq!(trouble(seed, None), [], "seed {seed}");
    }
}

#[test]
fn counts_that_are_posted_before_their_marks_are_caught() {
    caught("posts counts first", posts_counts_before_marks);
}

#[test]
fn counts_that_are_not_posted_are_caught() {
    caught("posts no counts", posts_no_counts);
}

#[test]
fn marks_that_stay_quiet_are_caught() {
    caught("posts marks only when quiet", posts_marks_only_when_quiet);
}
