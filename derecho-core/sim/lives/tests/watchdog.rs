//! A live member that answers and makes no progress (I-336): the others continue without it, or the
//! member that does not see what the others see falls out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::group::Wait;
use derecho_core::ids::NodeId;
use derecho_core::membership::{ExitReason, WaitAnswer, WaitCondition};
use derecho_lives::{LifeMember, World};
use derecho_sim::{Config, NodeIndex};

const TOPIC: u64 = 5;
const SEEDS: u64 = 10;
/// Minimum number of runs without a message so late that a correct member is excluded as silent.
const UNDISTURBED: u64 = 6;
/// Limit of the silence of a member in these groups.
const TIMEOUT: u64 = 2_000_000;
/// Time within which a member is found to make no progress: seventeen limits, because memory is
/// copied, and a reserve.
const FOUND_WITHIN: u64 = 21 * TIMEOUT;

/// Creates a group of `nodes` nodes that all read and write one topic, the first of which
/// has written.
fn world(seed: u64, nodes: usize) -> (World, Vec<NodeIndex>) {
    let mut world = World::local(Config::adversarial(seed), nodes);
    assert!(world.settle(), "seed {seed}");
    let all = world.all();
    for &node in &all {
        world.inject(node, |member| member.enter(TOPIC, true, true));
    }
    assert!(world.settle(), "seed {seed}");
    write(&mut world, all[0], TIMEOUT);
    (world, all)
}

/// Lets a node write for `time`.
fn write(world: &mut World, node: NodeIndex, time: u64) {
    let end = world.now().after(time);
    while world.now() < end {
        world.inject(node, |member| member.write(TOPIC));
        world.run(100_000);
    }
}

/// Asserts that these members are left, and deliver what the first of them writes.
fn assert_left(world: &mut World, left: &[NodeIndex], what: &str) {
    let before = world.report().deliveries;
    write(world, left[0], TIMEOUT);
    world.run(2 * TIMEOUT);
    let delivered = world.report().deliveries - before;
    assert!(delivered >= 15 * left.len() as u64, "{what}: {delivered} deliveries");
    for node in left {
        let member = world.member(*node);
        assert_eq!(member.members().len(), left.len(), "{what}");
        assert!(member.is_settled() && member.waits().next().is_none(), "{what}");
    }
}

/// Planted error of one member; the argument is the first member's id.
type Error = fn(&mut LifeMember, NodeId);

/// Returns the conditions and answers by which a member was found to make no progress, the second
/// of three being in error.
fn found(world: &World, nodes: &[NodeIndex]) -> Vec<(WaitCondition, WaitAnswer)> {
    let name = world.member(nodes[1]).id();
    let stuck = world.stuck().into_iter();
    let stuck = stuck.map(|(by, Wait { node, condition, .. }, answer)| {
        assert_eq!(node, name, "{by:?} accuses a correct member: {condition:?}, {answer:?}");
        (condition, answer)
    });
    stuck.collect()
}

/// Asserts that after this error of the second of three members, or of the first one, the others
/// continue without the second one.
fn assert_left_out(errs: usize, error: Error, condition: WaitCondition, answer: WaitAnswer) {
    let mut undisturbed = 0;
    for seed in 0..SEEDS {
        let (mut world, nodes) = world(seed, 3);
        let other = world.member(nodes[1 - errs]).id();
        world.inject(nodes[errs], move |member| error(member, other));
        write(&mut world, nodes[0], FOUND_WITHIN);
        let found = found(&world, &nodes);
        if found.is_empty() && nodes.iter().any(|node| world.member(*node).exit_reason().is_some())
        {
            continue;
        }
        undisturbed += 1;
        let what = format!("seed {seed}: {found:?}");
        assert!(found.contains(&(condition, answer)), "{what}");
        assert_eq!(world.member(nodes[1]).exit_reason(), Some(ExitReason::Excluded), "{what}");
        assert_left(&mut world, &[nodes[0], nodes[2]], &what);
    }
    assert!(undisturbed >= UNDISTURBED, "{undisturbed} of {SEEDS}");
}

#[test]
fn sender_whose_slots_no_member_sees_is_excluded() {
    let error = |member: &mut LifeMember, _| member.withhold_stream(TOPIC, None);
    assert_left_out(1, error, WaitCondition::Slot, WaitAnswer::True);
}

#[test]
fn reader_whose_acknowledgements_no_member_sees_is_excluded() {
    let error = |member: &mut LifeMember, _| member.withhold_lines(TOPIC, None);
    assert_left_out(1, error, WaitCondition::Receipt, WaitAnswer::True);
}

#[test]
fn reader_that_misses_slots_received_by_other_members_is_excluded() {
    let error = |member: &mut LifeMember, second| member.withhold_stream(TOPIC, Some(second));
    assert_left_out(0, error, WaitCondition::Slot, WaitAnswer::Unseen);
}

/// The first member alone does not see the acknowledgements of the second one: the first one
/// falls out.
#[test]
fn member_that_alone_misses_acknowledgements_falls_out() {
    for seed in 0..SEEDS {
        let (mut world, nodes) = world(seed, 3);
        let first = world.member(nodes[0]).id();
        world.inject(nodes[1], move |member| member.withhold_lines(TOPIC, Some(first)));
        write(&mut world, nodes[0], FOUND_WITHIN);
        let found = found(&world, &nodes);
        let what = format!("seed {seed}: {found:?}");
        assert_eq!(found, [(WaitCondition::Receipt, WaitAnswer::True)], "{what}");
        assert_eq!(world.member(nodes[0]).exit_reason(), Some(ExitReason::Blind), "{what}");
        assert_left(&mut world, &[nodes[1], nodes[2]], &what);
    }
}

/// Each of two members reports that the other one errs: only the status names the awaited node.
#[test]
fn no_member_is_excluded_without_a_witness() {
    for seed in 0..SEEDS {
        let (mut world, nodes) = world(seed, 2);
        world.inject(nodes[1], |member| member.withhold_lines(TOPIC, None));
        write(&mut world, nodes[0], 2 * FOUND_WITHIN);
        assert_eq!(world.stuck(), [], "seed {seed}");
        let second = world.member(nodes[1]).id();
        let named = |wait: Wait| wait.node == second && wait.condition == WaitCondition::Receipt;
        assert!(world.member(nodes[0]).waits().any(named), "seed {seed}");
        assert_eq!(world.member(nodes[0]).members().len(), 2, "seed {seed}");
    }
}
