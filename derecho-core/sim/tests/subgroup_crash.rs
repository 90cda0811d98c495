//! Members of a subgroup that crash: the remaining deliveries and reports of the others (I-24).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_sim::world::subgroups::{
    Pace, Scenario, SubgroupMember, SubgroupRole, World, adversarial,
};
use derecho_sim::{NodeIndex, StopReason};

/// Crashes a member at full rate. The checkers continue: the dead member's receptions still count.
fn crash(scenario: Scenario, seed: u64, victim: usize) -> World {
    let mut world = World::started(adversarial(seed), scenario);
    let goal = world.random.between(0, 60);
    let checker = world.checker.clone();
    let nodes = world.nodes();
    let stop = world.cluster.run_until_met(|cluster| {
        let has_begun = |node| cluster.machine(NodeIndex(node), 0).part().epoch.is_some();
        let has_goal = || checker.borrow().committed() >= goal || !World::is_writing(cluster);
        (0..nodes).all(has_begun) && has_goal()
    });
    assert_eq!(stop, StopReason::Reached, "seed {seed}");
    let later = world.cluster.now().after(world.random.between(0, 20_000));
    world.cluster.run_until(later);
    world.cluster.crash(NodeIndex(victim));
    let later = world.cluster.now().after(1_000_000);
    world.cluster.run_until(later);
    world.calm();
    world.assert_no_complaints();
    world
}

fn survivors(world: &World, victim: usize) -> impl Iterator<Item = (&SubgroupMember, u64)> {
    let nodes = (0..world.nodes()).filter(move |&node| node != victim);
    nodes.map(|node| {
        let member = world.member(node);
        (member, member.node.delivered(member.part().id.unwrap()))
    })
}

#[test]
fn survivors_deliver_only_messages_victim_received_and_report_stall() {
    let mut cut_short = 0;
    for seed in 0..300 {
        let mut scenario = Scenario::random(seed, DeliveryGuarantee::Atomic, 40);
        let victim = seed as usize % scenario.nodes;
        scenario.role_mut(victim).reads = true;
        let roles = scenario.subgroups[0].iter().flatten();
        if roles.filter(|role| role.sends.is_some()).count() < 2 {
            scenario.role_mut(victim).sends = Some(Pace { goal: 20, ..Pace::SILENT });
        }
        let world = crash(scenario, seed, victim);
        let checker = world.checker.borrow();
        for (member, delivered) in survivors(&world, victim) {
            let (part, me) = (member.part(), member.me);
            assert!(part.stalled, "seed {seed}: member {me} has not reported a stall");
            if part.reading {
                assert!(delivered <= checker.received(0, victim), "seed {seed}");
                cut_short += u64::from(delivered < checker.received(0, me));
            }
        }
    }
    assert!(cut_short > 100, "few crashes cut deliveries short: {cut_short}");
}

/// A sender that does not read is not asked for its receptions; but the order waits for it.
#[test]
fn a_dead_sender_among_several_stalls_the_order() {
    for seed in 0..150 {
        let pace = Pace { goal: 60, burst: 4, pause_ns: 2_000, careless: seed % 2 == 0 };
        let mut members = vec![SubgroupRole::both(pace); 3];
        members[1].reads = false;
        let world = crash(Scenario::atomic(members), seed, 1);
        let mut all = survivors(&world, 1);
        assert!(all.all(|(member, _)| member.part().stalled), "seed {seed}");
    }
}

/// Without another sender to wait for, all readers deliver everything of it that all of them
/// have received.
#[test]
fn crash_of_the_only_sender_does_not_stall_its_readers() {
    for seed in 0..150 {
        let pace = Pace { goal: 60, burst: 4, pause_ns: 2_000, careless: seed % 2 == 0 };
        let reader = SubgroupRole { reads: true, sends: None };
        let sender = SubgroupRole { reads: false, sends: Some(pace) };
        let world = crash(Scenario::atomic(vec![reader, sender, reader, reader]), seed, 1);
        let checker = world.checker.borrow();
        let received = survivors(&world, 1).map(|(member, _)| checker.received(0, member.me));
        let all = received.min().unwrap();
        for (member, delivered) in survivors(&world, 1) {
            assert!(!member.part().stalled, "seed {seed}");
            assert_eq!(delivered, all, "seed {seed}");
        }
    }
}

#[test]
fn unordered_subgroup_delivers_all_arrived_messages_after_crash() {
    for seed in 0..150 {
        let scenario = Scenario::random(seed, DeliveryGuarantee::Unordered, 40);
        let victim = seed as usize % scenario.nodes;
        let world = crash(scenario, seed, victim);
        for (member, _) in survivors(&world, victim) {
            let part = member.part();
            let slots: u64 = part.arrived.iter().map(|arrived| arrived.slots).sum();
            let has_all = |count: usize| count as u64 == slots;
            let mut readers = part.readers.iter();
            let all = readers.all(|all| has_all(all.history.len()) && has_all(all.count));
            assert!(all, "seed {seed}");
        }
    }
}
