//! Groups through joins, leaves, crashes and changes of layout.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_lives::{Coverage, Fault, Faults, GroupKind, LifePlan, LifeReport, World, live};
use derecho_sim::{Config, NodeIndex};

/// Checks the end of a life in which no rule was broken.
#[track_caller]
fn check(world: &mut World) {
    world.check();
    holds(world);
}

#[track_caller]
fn holds(world: &World) {
    let report = world.report();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

fn adversarial(seed: u64) -> Config {
    Config::adversarial(seed)
}

#[test]
fn founders_form_a_group_and_each_member_reads_all_messages() {
    for seed in 0..20 {
        let mut world = World::network(adversarial(seed), 3);
        world.settle();
        for node in world.all() {
            world.inject(node, |member| member.enter(7, true, true));
        }
        world.settle();
        for _ in 0..20 {
            for node in world.all() {
                world.inject(node, |member| member.write(7));
            }
            world.run(50_000);
        }
        check(&mut world);
        let deliveries = world.report().deliveries;
        assert!(deliveries > 100, "{deliveries} deliveries");
    }
}

/// Creates three members that all write and read topic 7, at full rate.
fn flowing(seed: u64) -> World {
    let mut world = World::network(adversarial(seed), 3);
    world.settle();
    for node in world.all() {
        world.inject(node, |member| member.enter(7, true, true));
    }
    world.settle();
    world.write_for(20);
    world
}

#[test]
fn group_under_load_survives_member_crash() {
    for seed in 0..60 {
        let mut world = flowing(seed);
        let dies = NodeIndex(seed as usize % 3);
        world.cluster.crash(dies);
        world.write_for(40);
        check(&mut world);
        assert_eq!(world.living().len(), 2);
    }
}

#[test]
fn member_joins_group_under_load() {
    for seed in 0..60 {
        let mut world = flowing(seed);
        let node = world.add();
        world.write_for(20);
        world.inject(node, |member| member.enter(7, true, true));
        world.write_for(40);
        check(&mut world);
        assert_eq!(world.living().len(), 4);
    }
}

#[test]
fn member_leaves_group_under_load() {
    for seed in 0..60 {
        let mut world = flowing(seed);
        world.inject(NodeIndex(seed as usize % 3), |member| member.leave());
        world.write_for(40);
        check(&mut world);
        assert_eq!(world.living().len(), 2);
    }
}

#[test]
fn random_topic_changes_under_load_break_no_rule() {
    for seed in 0..60 {
        let mut world = flowing(seed);
        for _ in 0..30 {
            world.random_change();
            world.write_for(2);
        }
        check(&mut world);
    }
}

/// Runs a life in which no rule is broken.
#[track_caller]
fn one_life(seed: u64, kind: GroupKind, faults: Faults) -> LifeReport {
    without_violation(LifePlan { faults, ..LifePlan::new(seed, kind) })
}

/// Runs the life of this plan, in which no rule is broken.
#[track_caller]
fn without_violation(plan: LifePlan) -> LifeReport {
    let report = live(plan, false);
    assert!(report.violations.is_empty(), "{plan}: {:#?}", report.violations);
    report
}

/// Checks that the lives are meaningful: most of them end with a group to judge, and messages
/// have readers.
#[track_caller]
fn shows_something(sum: &LifeReport, deliveries_per_message: f64) {
    let LifeReport { lives, judged, looked_for, .. } = *sum;
    assert!(10 * judged >= 8 * lives, "{judged} of {lives} lives were judged");
    assert!(looked_for >= 40 * lives, "{looked_for} messages were looked for in {lives} lives");
    let deliveries = sum.deliveries_per_message();
    assert!(deliveries >= deliveries_per_message, "{deliveries} deliveries per message");
}

/// Number of aimed lives of each kind of group that meet every situation a hundred times.
const AIMED: u64 = 220;

#[track_caller]
fn aimed_life(seed: u64, kind: GroupKind) -> LifeReport {
    // With three nodes, the second one to accept has decided.
    let nodes = 3 + seed as usize % 3;
    without_violation(LifePlan {
        aimed: true,
        nodes,
        wild: true,
        faults: Faults::ALL.without(Fault::Stop),
        ..LifePlan::new(seed, kind)
    })
}

/// Whether nodes may stand still until the others have been judged.
const STOPS: bool = true;

/// Faults of the random lives.
fn all_faults() -> Faults {
    if STOPS { Faults::ALL } else { Faults::ALL.without(Fault::Stop) }
}

/// Runs lives with all of these faults at once.
fn random_lives(seeds: std::ops::Range<u64>, kind: GroupKind, faults: Faults) -> LifeReport {
    let mut sum = LifeReport::default();
    let count = seeds.end - seeds.start;
    seeds.for_each(|seed| sum += &one_life(seed, kind, faults));
    let LifeReport { view_changes: views, epochs, coverage, .. } = sum;
    assert!(views > 2 * count && epochs > 5 * count, "{views} views, {epochs} epochs show nothing");
    if count >= 100 && faults.has(Fault::Crash) {
        let met = coverage.crashes.iter().all(|met| *met >= 10) && coverage.transfers_cut > 5;
        assert!(met && coverage.layouts_met > 20, "{coverage:?} shows nothing");
    }
    sum
}

#[test]
fn networked_groups_with_crashes_break_no_rule() {
    shows_something(&random_lives(0..100, GroupKind::Network, Faults::NONE.and(Fault::Crash)), 0.6);
}

#[test]
fn local_groups_with_crashes_break_no_rule() {
    shows_something(&random_lives(0..100, GroupKind::Local, Faults::NONE.and(Fault::Crash)), 0.6);
}

/// Every kind of fault by itself, and then all of them.
#[test]
fn groups_with_each_kind_of_fault_and_all_faults_break_no_rule() {
    for kind in [GroupKind::Local, GroupKind::Network] {
        let mut each = LifeReport::default();
        for fault in all_faults().iter() {
            each += &random_lives(0..12, kind, Faults::NONE.and(fault));
        }
        shows_something(&each, 0.6);
        shows_something(&random_lives(0..40, kind, all_faults()), 0.6);
    }
}

/// Faults at every step of a view change, and often: rare situations show little.
#[test]
fn aimed_lives_cover_faults_at_every_view_change_step() {
    let met = |kind| {
        let lives = (0..AIMED).map(|seed| aimed_life(seed, kind).coverage);
        lives.fold(Coverage::default(), |mut sum, coverage| {
            sum += coverage;
            sum
        })
    };
    let (mut coverage, local) = std::thread::scope(|scope| {
        let local = scope.spawn(|| met(GroupKind::Local));
        (met(GroupKind::Network), local.join().unwrap())
    });
    println!("local groups: {:?}\nnetworked ones: {:?}", local.counts(), coverage.counts());
    coverage += local;
    let counts = coverage.counts();
    let seldom: Vec<_> = counts.iter().filter(|(_, count)| *count < 100).collect();
    assert!(seldom.is_empty(), "{seldom:?}");
}

#[test]
fn seed_determines_the_life_of_a_group() {
    for kind in [GroupKind::Local, GroupKind::Network] {
        let hash = |seed| live(LifePlan::new(seed, kind), false).hash;
        for seed in 0..5 {
            assert_eq!(hash(seed), hash(seed), "{kind:?} {seed}");
            assert_ne!(hash(seed), hash(seed + 1), "{kind:?} {seed}");
            let read = live(LifePlan::new(seed, kind), true).hash;
            assert_eq!(hash(seed), read, "a journal changes nothing: {kind:?} {seed}");
        }
    }
}

/// Without I-52 for members that were readers, and without I-78, every tenth of these lives
/// stands still.
#[test]
fn readers_become_writers_across_view_changes() {
    for (kind, nodes, faults) in [
        (GroupKind::Local, 3, Faults::NONE.and(Fault::Crash)),
        (GroupKind::Local, 4, Faults::ALL),
        (GroupKind::Network, 4, Faults::NONE.and(Fault::Crash)),
    ] {
        let mut deliveries = 0;
        for seed in 0..60 {
            let plan = LifePlan { toggles: true, nodes, faults, ..LifePlan::new(seed, kind) };
            let report = live(plan, false);
            assert!(report.violations.is_empty(), "{plan}: {:#?}", report.violations);
            deliveries += report.deliveries;
        }
        assert!(deliveries > 2_000, "{kind:?}: {deliveries} deliveries show nothing");
    }
}

/// Lives that once broke a rule.
#[test]
fn lives_that_once_broke_a_rule_break_no_rule() {
    let crash = Faults::NONE.and(Fault::Crash);
    let slow = Faults::NONE.and(Fault::SlowLink).and(Fault::Delay);
    let lives = [
        // I-50: names of epochs were reused when no member was left that had the state.
        (84, GroupKind::Local, crash),
        // I-55: the state came to a member that had reported that it has none.
        (156, GroupKind::Local, crash),
        // I-56: a report of receptions beyond the end of an epoch.
        (201, GroupKind::Local, crash),
        (302, GroupKind::Local, crash),
        (60, GroupKind::Local, slow),
        // I-57: members that had died before others met them.
        (67, GroupKind::Local, Faults::ALL),
        // I-58: an epoch that was announced and never begun ended beyond its start.
        (155, GroupKind::Local, Faults::NONE),
        (298, GroupKind::Local, Faults::NONE),
        // A newcomer did not get the beginning of an epoch that had ended and begun in one turn.
        (471, GroupKind::Local, Faults::ALL),
        (566, GroupKind::Local, Faults::ALL),
        // I-64: newcomers waited for a node that had fallen out before it knew them.
        (30, GroupKind::Local, Faults::ALL),
        (116, GroupKind::Local, Faults::ALL),
        (769, GroupKind::Local, Faults::ALL),
        (785, GroupKind::Local, Faults::ALL),
        (842, GroupKind::Local, Faults::ALL),
        (1002, GroupKind::Local, Faults::ALL),
        // Two views in one turn: an epoch belongs to the view that was installed before it.
        (599, GroupKind::Network, Faults::ALL),
        // I-48: the state came to a node that was out.
        (2252, GroupKind::Network, Faults::ALL),
    ];
    for (seed, kind, faults) in lives {
        // These lives predate stops, and networked groups that are spared.
        let faults = faults.without(Fault::Stop);
        without_violation(LifePlan { faults, wild: true, ..LifePlan::new(seed, kind) });
    }
}

/// Lives with stopped nodes that once broke a rule.
#[test]
fn lives_with_stops_that_once_broke_a_rule_break_no_rule() {
    let lives = [
        // I-337: an epoch that a view had ended was ended once more, below what a reader had
        // delivered.
        (4459, GroupKind::Network, 6),
        // I-54: a view had a member that had fallen out before, and no member waited for it.
        (301_936, GroupKind::Shared, 3),
        (402_539, GroupKind::Shared, 4),
        // I-76: two views in one turn, the second of which expected an epoch of a subgroup that
        // this node had left.
        (9_101_676, GroupKind::Local, 5),
    ];
    for (seed, kind, nodes) in lives {
        without_violation(LifePlan { nodes, ..LifePlan::new(seed, kind) });
    }
}

#[test]
fn last_member_of_a_local_group_continues() {
    for seed in 0..40 {
        let mut world = World::local(adversarial(seed), 3);
        world.settle();
        for node in world.all() {
            world.inject(node, |member| member.enter(7, true, true));
        }
        world.settle();
        world.write_for(10);
        for node in [seed as usize % 3, (seed as usize + 1) % 3] {
            world.cluster.crash(NodeIndex(node));
            world.write_for(5);
        }
        check(&mut world);
        assert_eq!(world.living().len(), 1);
    }
}
