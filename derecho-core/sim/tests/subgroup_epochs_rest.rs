//! A subgroup that rests and changes epochs: resting members learn of announcements, and of
//! messages in the next epoch (I-26, I-29); over memory that is copied, shared, or shared by some.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::machine::Effects;
use derecho_core::multicast::changes::{CHANGES_WORDS, MOST_STREAMS};
use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_sim::world::subgroups::{
    FaultMoment, PlantedFault, RestCounts, Rule, Scenario, SubgroupMember, World,
};

mod planted;

/// Sharing of memory: among none, among all, or among the nodes of each of two hosts.
const LINKS: [Option<usize>; 3] = [None, Some(1), Some(2)];

fn world(seed: u64, level: DeliveryGuarantee, hosts: Option<usize>) -> World {
    let scenario = Scenario::decided(seed, level, hosts.is_some());
    World::decided(seed, Scenario { hosts, counts_changes: true, ..scenario })
}

fn check_all(seeds: u64, level: DeliveryGuarantee, link: Option<usize>) {
    let mut all = RestCounts::default();
    for seed in 0..seeds {
        let mut world = world(seed, level, link);
        let (complaints, rests) = world.run_with_rests();
        let log = world.setting.oracle.log.join("\n");
        assert!(
            complaints.is_empty(),
            "seed {seed}: {complaints:#?} {:#?}\n{log}",
            world.setting.scenario
        );
        all.resting += rests.resting;
        all.changes += rests.changes;
        all.resumed += rests.resumed;
    }
    println!("{all:?} in {seeds} seeds");
    let seeds = seeds as usize;
    assert!(all.resting > seeds && all.changes > seeds / 2 && all.resumed > seeds / 4, "{all:?}");
}

#[test]
fn resting_subgroup_changes_epochs_over_copied_memory() {
    check_all(400, DeliveryGuarantee::Atomic, LINKS[0]);
}

#[test]
fn resting_subgroup_changes_epochs_over_shared_memory() {
    check_all(400, DeliveryGuarantee::Atomic, LINKS[1]);
}

#[test]
fn resting_subgroup_changes_epochs_over_partly_shared_memory() {
    check_all(400, DeliveryGuarantee::Atomic, LINKS[2]);
}

#[test]
fn unordered_resting_subgroup_changes_epochs() {
    LINKS.into_iter().for_each(|link| check_all(120, DeliveryGuarantee::Unordered, link));
}

// Proof that the checkers can fail.

/// First word of the marks.
const MARKS: usize = CHANGES_WORDS - MOST_STREAMS;

/// Lets the quiet state of its streams survive the beginning of an epoch: their marks show it
/// again, and commits no longer report its end.
fn stays_quiet(member: &mut SubgroupMember, when: FaultMoment, _: &mut Effects) {
    let (FaultMoment::After, Some(changes)) = (when, &member.changes) else { return };
    let now = member.part().epoch.map_or(0, |epoch| epoch + 1);
    if std::mem::replace(&mut member.mark, now) == now {
        return;
    }
    for number in 0..MOST_STREAMS {
        let mark = changes.word(MARKS + number);
        let shows = mark.peek();
        if shows > 0 && shows & 1 == 0 {
            mark.publish(shows - 1);
        }
    }
}

fn trouble(seed: u64, link: Option<usize>, planted: Option<PlantedFault>) -> Vec<Rule> {
    let mut world = world(seed, DeliveryGuarantee::Atomic, link);
    (0..world.nodes()).for_each(|node| world.member_mut(node).planted = planted);
    world.run_with_rests().0.into_iter().map(|(checker, _)| checker).collect()
}

#[test]
fn quiet_mark_that_survives_an_epoch_change_is_caught() {
    for link in LINKS {
        let run = |seed| trouble(seed, link, Some(stays_quiet));
        planted::caught("a quiet state that survives an epoch", Rule::Liveness, (1, 40), run);
    }
}
