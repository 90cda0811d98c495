//! Every condition that a member waits for names a node that can make it true (I-79): if exactly
//! that node stops for good, the others continue.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use derecho_core::ids::NodeId;
use derecho_core::membership::WaitCondition;
use derecho_lives::{GroupKind, World};
use derecho_sim::{Config, NodeIndex};

/// Time within which the others continue after one has stopped: ten times their patience.
const PATIENCE: u64 = 20_000_000;

/// Interval of messages at which most stops come between two of them.
const RARELY: u64 = 700_000;

/// Scene in which a condition arises in a simulated group.
enum Scene {
    /// A group whose members join, write, and change their topics.
    Life,
    /// A networked group in which a new member has no vote yet.
    Voteless,
    /// Streams outside of subgroups, which these groups do not have:
    /// `derecho-core/sim/tests/node_untethered.rs` and `dds-api/tests/stopped.rs` test the awaited
    /// nodes there.
    Elsewhere,
}

/// Returns the scene of a condition. There is no default arm, so that a new condition needs
/// a scene.
fn scene(condition: WaitCondition) -> Scene {
    match condition {
        WaitCondition::Promotion => Scene::Voteless,
        WaitCondition::Admission
        | WaitCondition::Report
        | WaitCondition::Proposal
        | WaitCondition::Acceptance
        | WaitCondition::Introduction
        | WaitCondition::State
        | WaitCondition::Start
        | WaitCondition::Opening
        | WaitCondition::Receipt
        | WaitCondition::Slot
        | WaitCondition::End
        | WaitCondition::Room => Scene::Life,
        WaitCondition::Stream => Scene::Elsewhere,
    }
}

/// Returns the node that a running member awaits for this condition, if there is one.
fn awaited_in(world: &World, condition: WaitCondition) -> Option<NodeIndex> {
    let nodes = world.living();
    let waits = nodes.iter().flat_map(|node| world.member(*node).waits());
    let named = waits.filter(|wait| wait.condition == condition).map(|wait| wait.node);
    let running = world.living();
    named
        .filter_map(|named| running.iter().copied().find(|node| world.member(*node).id() == named))
        .next()
}

/// Lets a group live until a node is awaited for this condition.
fn catch(world: &mut World, condition: WaitCondition) -> Option<NodeIndex> {
    for node in world.all() {
        world.inject(node, |member| member.enter(5, true, true));
    }
    let first = world.all()[0];
    world.inject(first, |member| member.enter(6, false, true));
    for round in 0..60 {
        if round % 20 == 5 {
            world.add();
        }
        if round % 3 == 0 {
            world.random_change();
            world.random_toggle();
        }
        for node in world.living() {
            for topic in world.member(node).topics() {
                world.inject(node, move |member| member.write(topic));
            }
        }
        let until = world.now().after(60_000);
        while world.now() < until {
            world.run(500);
            if let Some(node) = awaited_in(world, condition) {
                return Some(node);
            }
        }
    }
    None
}

/// Lets a member join, and stops the leader before it gives that member its vote.
fn leave_voteless(world: &mut World) -> Option<NodeIndex> {
    let joins = world.add();
    while !world.member(joins).is_settled() {
        world.run(10_000);
    }
    let leader = world.living().into_iter().find(|node| world.rank_of(*node) == 0)?;
    world.cluster.pause(leader);
    for _ in 0..200 {
        world.run(500_000);
        if awaited_in(world, WaitCondition::Promotion).is_some() {
            return Some(leader);
        }
    }
    None
}

/// Whether the others have come to rest without a stopped member, or have got from it what they
/// waited for.
fn goes_on(world: &World, stopped: NodeIndex) -> bool {
    let others: Vec<NodeIndex> =
        world.living().into_iter().filter(|node| *node != stopped).collect();
    others.len() >= 2
        && others.iter().all(|node| {
            let member = world.member(*node);
            member.is_settled() && member.waits().next().is_none()
        })
}

#[test]
fn members_continue_if_the_awaited_node_of_a_condition_stops() {
    for condition in WaitCondition::ALL {
        let kind = match scene(condition) {
            Scene::Life => GroupKind::Local,
            Scene::Voteless => GroupKind::Network,
            Scene::Elsewhere => continue,
        };
        let (mut met, mut left_out) = (0, 0);
        for seed in 0..12 {
            let mut world = World::new(Config::adversarial(seed), kind, 5);
            assert!(world.settle(), "{condition:?}, seed {seed}");
            let caught = match kind {
                GroupKind::Local | GroupKind::Shared => catch(&mut world, condition),
                GroupKind::Network => leave_voteless(&mut world),
            };
            let Some(stopped) = caught else { continue };
            met += 1;
            world.cluster.pause(stopped);
            let end = world.now().after(PATIENCE);
            while world.now() < end && !goes_on(&world, stopped) {
                world.run(100_000);
            }
            let waits: Vec<_> = world
                .living()
                .into_iter()
                .filter(|node| *node != stopped)
                .flat_map(|node| world.member(node).waits().collect::<Vec<_>>())
                .collect();
            assert!(goes_on(&world, stopped), "{condition:?}, seed {seed}: {waits:?}");
            let name = world.member(stopped).id();
            let other = world.living().into_iter().find(|node| *node != stopped).unwrap();
            left_out += u64::from(!world.member(other).members().contains(&name));
        }
        println!("{condition:?}: met in {met} lives, skipped in {left_out}");
        assert!(
            met >= 3 && left_out >= 1,
            "{condition:?}: met {met} times, skipped {left_out} times"
        );
    }
}

/// An idle group: nothing is sent, and only the leader can admit a node.
#[test]
fn a_node_joins_an_idle_group_whose_leader_has_stopped() {
    for seed in 0..10 {
        let mut world = World::local(Config::adversarial(seed), 3);
        world.settle();
        let leader = world.all().into_iter().find(|node| world.rank_of(*node) == 0).unwrap();
        world.cluster.pause(leader);
        let joins = world.add();
        world.run(PATIENCE);
        assert!(world.member(joins).is_settled(), "seed {seed}");
        assert_eq!(world.member(joins).members().len(), 3, "seed {seed}: without the old leader");
    }
}

/// A writer that does not read also waits for readers: otherwise its memory would stay full while
/// one is stopped.
#[test]
fn write_only_member_continues_without_stopped_reader() {
    for seed in 0..10 {
        let mut world = World::local(Config::adversarial(seed), 3);
        world.settle();
        let [writer, reader, other] = world.all()[..] else { panic!("three nodes") };
        world.inject(writer, |member| member.enter(7, false, true));
        world.inject(reader, |member| member.enter(7, true, false));
        world.settle();
        world.cluster.pause(reader);
        let mut written = 0;
        for _ in 0..200 {
            world.inject(writer, |member| member.write(7));
            world.run(PATIENCE / 200);
            written = world.member(writer).count_written(7);
        }
        let waits: Vec<_> = world.member(writer).waits().collect();
        assert!(written > 150, "seed {seed}: {written} of 200 messages found room, {waits:?}");
        assert_eq!(world.member(other).members().len(), 2, "seed {seed}");
    }
}

/// A stream of messages hides a stopped reader no more than silence does.
#[test]
fn stopped_reader_is_excluded_at_every_message_rate() {
    for pause in [20_000, 100_000, 400_000, 1_900_000] {
        for reads in [true, false] {
            let mut world = World::local(Config::adversarial(pause), 4);
            world.settle();
            let [writer, reader, stops, _] = world.all()[..] else { panic!("four nodes") };
            world.inject(writer, move |member| member.enter(7, reads, true));
            world.inject(reader, |member| member.enter(7, true, false));
            world.inject(stops, |member| member.enter(7, true, false));
            world.settle();
            world.cluster.pause(stops);
            let begin = world.now();
            let name = world.member(stops).id();
            while world.member(reader).members().contains(&name) {
                world.inject(writer, |member| member.write(7));
                world.run(pause);
                let took = world.now().since(begin);
                assert!(took < PATIENCE / 2, "one message in {pause} ns, writer reads {reads}");
            }
            let took = world.now().since(begin) as f64 / 1e6;
            println!(
                "one message in {pause} ns, the writer reads {reads}: left out after {took} ms"
            );
        }
    }
}

/// Most of a local group stops, one node after the other, and each of the others finds other nodes
/// silent first. They learn the rest from each other, and whether it is stopped from the host.
#[test]
fn remaining_members_form_a_view_after_most_members_stop() {
    let fates = |world: &World| -> Vec<_> {
        world.all().into_iter().map(|node| (node.0, world.member(node).exit_reason())).collect()
    };
    for seed in 0..60 {
        let mut world = World::watched(Config::costed(seed), 8);
        world.settle();
        let all = world.all();
        let (stop, go_on) = all.split_at(5);
        // Each of the nodes that stop is awaited by one of the others alone, until the view
        // changes.
        let topics: Vec<(u64, NodeIndex, NodeIndex)> = (10..)
            .zip(stop.iter().zip(go_on.iter().cycle()))
            .map(|(topic, (reader, writer))| (topic, *reader, *writer))
            .collect();
        for &(topic, reader, writer) in &topics {
            world.inject(reader, move |member| member.enter(topic, true, false));
            world.inject(writer, move |member| member.enter(topic, true, true));
        }
        world.settle();
        let write = |world: &mut World, time: u64| {
            for _ in 0..time / RARELY {
                for &(topic, _, writer) in &topics {
                    world.inject(writer, move |member| member.write(topic));
                }
                world.run(RARELY);
            }
        };
        for &node in stop {
            world.halt(node);
            let pause = world.random.between(50_000, 800_000);
            write(&mut world, pause);
        }
        write(&mut world, PATIENCE);
        let names: BTreeSet<NodeId> = go_on.iter().map(|node| world.member(*node).id()).collect();
        for &node in go_on {
            let members: BTreeSet<NodeId> = world.member(node).members().into_iter().collect();
            assert_eq!(members, names, "seed {seed}, node {}: {:?}", node.0, fates(&world));
        }
    }
}
