//! A view change in which a member crashes between any two of its acts: enumerated, not sampled.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_lives::{GroupKind, World};
use derecho_sim::{Config, NodeIndex};

/// Longest duration of a view change, in virtual time.
const LONG: u64 = 3_000_000;

/// Strides of an ordinary run through the points at which two leaders crash.
const STRIDE: (usize, usize) = (2, 2);

/// Creates a group at full rate.
fn flowing(seed: u64, kind: GroupKind, nodes: usize) -> World {
    let mut world = World::new(Config::adversarial(seed), kind, nodes);
    world.settle();
    for node in world.all() {
        world.inject(node, |member| member.enter(7, true, true));
    }
    world.settle();
    world.write_for(3);
    world
}

/// Returns the members, the leader first.
fn ranks(world: &World) -> Vec<NodeIndex> {
    let mut nodes = world.living();
    nodes.sort_by_key(|node| world.rank_of(*node));
    nodes
}

/// Starts the view change: a new node, which also needs a state transfer.
fn disturb(world: &mut World) {
    for node in world.living() {
        world.inject(node, |member| member.write(7));
    }
    world.add();
}

/// Returns the number of this node's acts until the view change is over, without any crash.
fn acts_of(world: &mut World, node: NodeIndex) -> u64 {
    let (before, views) = (world.cluster.acts(node), world.report().view_changes);
    let end = world.now().after(LONG);
    world.cluster.run_until_or(end, |cluster| {
        (0..cluster.nodes()).map(NodeIndex).all(|node| cluster.machine(node, 0).is_settled())
    });
    assert!(world.report().view_changes > views, "no view change has happened");
    world.cluster.acts(node) - before
}

/// Crashes this node after `acts` further acts. Returns whether it reached that point.
fn crash_after(world: &mut World, node: NodeIndex, acts: u64) -> bool {
    let at = world.cluster.acts(node) + acts;
    let end = world.now().after(LONG);
    let met = world.cluster.run_until_or(end, |cluster| cluster.acts(node) >= at);
    world.crash(node);
    met
}

#[track_caller]
fn ends_well(mut world: World, what: &str) {
    world.write_for(2);
    world.check();
    let report = world.report();
    assert!(report.violations.is_empty(), "{what}: {:#?}", report.violations);
}

/// Crashes each member at each point. Returns the number of points.
fn enumerate(seed: u64, kind: GroupKind, nodes: usize) -> u64 {
    let mut points = 0;
    for rank in 0..nodes {
        let mut world = flowing(seed, kind, nodes);
        let node = ranks(&world)[rank];
        disturb(&mut world);
        let acts = acts_of(&mut world, node);
        for act in 0..=acts {
            let mut world = flowing(seed, kind, nodes);
            disturb(&mut world);
            assert!(crash_after(&mut world, node, act), "the same life comes to the same point");
            let what = format!("{kind:?}, {nodes} nodes, seed {seed}: rank {rank} after {act}");
            ends_well(world, &what);
            points += 1;
        }
    }
    points
}

/// Crashes the leader at every `step`th point, and in the following change its successor at
/// every `by`th.
fn enumerate_two(seed: u64, kind: GroupKind, nodes: usize, step: usize, by: usize) -> u64 {
    let mut points = 0;
    let mut world = flowing(seed, kind, nodes);
    let (first, second) = (ranks(&world)[0], ranks(&world)[1]);
    disturb(&mut world);
    let acts = acts_of(&mut world, first);
    for act in (0..=acts).step_by(step) {
        for then in (0..).step_by(by) {
            let mut world = flowing(seed, kind, nodes);
            disturb(&mut world);
            crash_after(&mut world, first, act);
            let views = world.report().view_changes;
            // The acts of the successor until it knows of the crash and the next view
            // has begun.
            let met = crash_after(&mut world, second, then);
            let over = !met || world.report().view_changes > views + 2 || then > 90;
            let what = format!("{kind:?}, {nodes} nodes, seed {seed}: leaders after {act}, {then}");
            ends_well(world, &what);
            points += 1;
            if over {
                break;
            }
        }
    }
    points
}

#[test]
fn local_group_survives_crash_at_every_point_of_view_change() {
    let points = enumerate(1, GroupKind::Local, 3) + enumerate(2, GroupKind::Local, 4);
    println!("{points} points");
    assert!(points > 200, "{points} points cannot be all of them");
}

#[test]
fn networked_group_survives_crash_at_every_point_of_view_change() {
    let points = enumerate(1, GroupKind::Network, 3) + enumerate(2, GroupKind::Network, 4);
    println!("{points} points");
    assert!(points > 200, "{points} points cannot be all of them");
}

/// The leader stands still at each point. The others continue without it, and die; a new group is
/// founded on their host, and then the leader continues with its old knowledge.
#[test]
fn leader_resumed_after_its_group_died_breaks_no_rule() {
    let mut world = flowing(5, GroupKind::Local, 3);
    let node = ranks(&world)[0];
    disturb(&mut world);
    let acts = acts_of(&mut world, node);
    for act in 0..=acts {
        let mut world = flowing(5, GroupKind::Local, 3);
        disturb(&mut world);
        let at = world.cluster.acts(node) + act;
        let end = world.now().after(LONG);
        world.cluster.run_until_or(end, |cluster| cluster.acts(node) >= at);
        world.cluster.pause(node);
        world.run(LONG);
        for other in world.living().into_iter().filter(|other| *other != node) {
            world.crash(other);
        }
        world.add();
        world.run(LONG);
        world.cluster.resume(node);
        ends_well(world, &format!("the leader stands still after {act}"));
    }
    assert!(acts > 20, "{acts} points cannot be all of them");
}

/// Enumerates local and networked groups in parallel.
fn two_leaders(step: usize, by: usize) -> (u64, u64) {
    let points = std::thread::scope(|scope| {
        let local = scope.spawn(|| enumerate_two(3, GroupKind::Local, 4, step, by));
        let network = enumerate_two(3, GroupKind::Network, 4, step, by);
        (local.join().unwrap(), network)
    });
    println!("{} and {} points", points.0, points.1);
    points
}

#[test]
fn group_survives_crash_of_two_successive_leaders() {
    let (local, network) = two_leaders(STRIDE.0, STRIDE.1);
    assert!(local > 2000 && network > 2000, "{local} and {network} points are not enough");
}

/// Every point of the first leader with every point of the second.
#[test]
#[ignore = "takes some minutes"]
fn group_survives_two_leader_crashes_at_every_pair_of_points() {
    let (local, network) = two_leaders(1, 1);
    assert!(local > 3000 && network > 3000, "{local} and {network} points cannot be all of them");
}
