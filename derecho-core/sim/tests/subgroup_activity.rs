//! Many subgroups, most of them idle: no member looks at the idle ones, and no commit stays unseen
//! (I-26). Over a simulated link, as adverse as its contract allows.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::Time;
use derecho_core::machine::{Effects, PostKind};
use derecho_core::multicast::changes::{CHANGES_WORDS, MOST_STREAMS};
use derecho_core::node::CHANGES;
use derecho_sim::world::subgroups::{
    Alternation, FaultMoment, Pace, PlantedFault, Rule, Scenario, SubgroupMember, SubgroupRole,
    World, post, take_posts,
};
use derecho_sim::{Config, NodeIndex};

mod planted;

fn config(seed: u64) -> Config {
    Config { deadline: Time(10_000_000_000), ..Config::adversarial(seed) }
}

/// Number of subgroups that each node looks at.
fn looked_at(world: &World) -> Vec<usize> {
    (0..world.nodes()).map(|node| world.member(node).node.subgroups_looked_at()).collect()
}

/// Whether each node is in so many subgroups that idle ones rest.
fn all_are_in_many(Scenario { nodes, subgroups, .. }: &Scenario) -> bool {
    let is_in = |node: usize| subgroups.iter().filter(move |roles| roles[node].is_some());
    (0..*nodes).all(|node| is_in(node).count() > 4)
}

#[test]
fn every_committed_message_of_resting_subgroups_is_delivered() {
    let (mut rested, mut seeds) = (0, 0);
    for seed in 0..150 {
        let scenario = Scenario::random_many(seed);
        let mut world = World::started(config(seed), scenario.clone());
        let complaints = world.run_to_end();
        assert!(complaints.is_empty(), "seed {seed}: {complaints:#?} {scenario:?}");
        if all_are_in_many(&scenario) {
            let looked_at = looked_at(&world);
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
        let alternation = Some(Alternation { acts: 400, pause_ns: 3_000_000 });
        let scenario = Scenario { alternation, ..Scenario::many(3, 20) };
        let mut world = World::started(config(seed), scenario);
        world.cluster.run_until(Time(20_000_000));
        let (mut looks, mut samples) = (0, 0);
        for _ in 0..40 {
            let next = world.cluster.now().after(500_000);
            world.cluster.run_until(next);
            let looked_at = looked_at(&world);
            looks += looked_at.iter().sum::<usize>();
            samples += looked_at.len();
        }
        // Each of the three members prefers one subgroup for a while.
        assert!(looks < 8 * samples, "seed {seed}: {looks} in {samples}");
        assert_eq!(world.run_to_end(), [], "seed {seed}");
    }
}

/// Subgroups without the dead member continue, at rest or not.
#[test]
fn crash_stops_only_subgroups_of_the_crashed_member() {
    let mut went_on = 0;
    for seed in 0..100 {
        let mut scenario = Scenario::random_many(seed);
        let victim = 0;
        for (at, roles) in scenario.subgroups.iter_mut().enumerate() {
            if at % 2 == 0 && roles.len() > 2 {
                roles[victim] = None;
                roles[1] = Some(SubgroupRole::both(Pace::SILENT));
            }
        }
        let mut world = World::started(config(seed), scenario.clone());
        let later = Time(world.random.between(0, 30_000_000));
        world.cluster.run_until(later);
        world.cluster.crash(NodeIndex(victim));
        world.complete();
        let checker = world.checker.borrow();
        let without = checker.present().filter(|epoch| epoch.role_of(victim).is_none());
        let writers = without.flat_map(|epoch| epoch.writers());
        went_on += writers.filter(|writer| checker.writers[*writer].committed > 0).count();
        drop(checker);
        let complaints = world.run_to_end();
        assert!(complaints.is_empty(), "seed {seed}: {complaints:#?} {scenario:?}");
    }
    assert!(went_on > 100, "few subgroups continued: {went_on}");
}

#[test]
fn a_seed_determines_the_run() {
    for seed in 0..10 {
        let hash = || {
            let mut world = World::started(config(seed), Scenario::random_many(seed));
            world.run_to_end();
            (world.cluster.trace_hash(), world.cluster.steps())
        };
        assert_eq!(hash(), hash(), "seed {seed}");
    }
}

// Proof that the checkers can fail.

/// After a turn, takes its posts and puts them back in another order, or drops them.
fn repost(when: FaultMoment, effects: &mut Effects, place: impl Fn(usize) -> Option<u8>) {
    if when == FaultMoment::Before {
        return;
    }
    let mut posts = take_posts(effects);
    let of = |kind: &PostKind| match kind {
        PostKind::Write(CHANGES, range) => place(range.first),
        _ => Some(1),
    };
    posts.retain(|(_, kind)| of(kind).is_some());
    posts.sort_by_key(|(_, kind)| of(kind));
    posts.into_iter().for_each(|(target, kind)| post(target, kind, effects));
}

/// First word of the marks; the counts precede it.
const MARKS: usize = CHANGES_WORDS - MOST_STREAMS;

fn posts_counts_before_marks(_: &mut SubgroupMember, when: FaultMoment, effects: &mut Effects) {
    repost(when, effects, |first| Some(if first < MARKS { 0 } else { 1 }));
}

fn posts_no_counts(_: &mut SubgroupMember, when: FaultMoment, effects: &mut Effects) {
    repost(when, effects, |first| (first >= MARKS).then_some(1));
}

/// Does not post marks that have become even before the next ones.
fn posts_marks_only_when_quiet(
    member: &mut SubgroupMember,
    when: FaultMoment,
    effects: &mut Effects,
) {
    let region = member.changes.clone().unwrap();
    repost(when, effects, |first| {
        (first < MARKS || region.word(first).peek() & 1 == 1).then_some(1)
    });
}

fn trouble(seed: u64, planted: Option<PlantedFault>) -> Vec<Rule> {
    // Two members that write now and then: the next message does not immediately reveal an
    // unseen one.
    let mut world = World::started(config(seed), Scenario::many(2, 8));
    for member in 0..2 {
        world.member_mut(member).planted = planted;
    }
    world.run_to_end().into_iter().map(|(rule, _)| rule).collect()
}

fn caught(name: &str, planted: PlantedFault) {
    planted::caught(name, Rule::Liveness, (1, 12), |seed| trouble(seed, Some(planted)));
}

#[test]
fn checkers_accept_many_idle_subgroups_without_a_planted_fault() {
    for seed in 0..12 {
        assert_eq!(trouble(seed, None), [], "seed {seed}");
    }
}

#[test]
fn counts_that_are_posted_before_their_marks_are_caught() {
    caught("a member that posts counts first", posts_counts_before_marks);
}

#[test]
fn counts_that_are_not_posted_are_caught() {
    caught("a member that posts no counts", posts_no_counts);
}

#[test]
fn marks_that_stay_quiet_are_caught() {
    caught("a member that posts marks only when quiet", posts_marks_only_when_quiet);
}
