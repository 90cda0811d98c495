//! Members of a subgroup that crash: the remaining deliveries and reports of the others (I-24).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_sim::world::subgroups::{Pace, Scenario, SubgroupRole, World, adversarial};
use derecho_sim::{NodeIndex, StopReason};

/// Crashes a member at full rate. The checkers continue: the dead member's receptions still count.
fn crash(scenario: Scenario, seed: u64, victim: usize) -> World {
    let mut world = World::started(adversarial(seed), scenario);
    let goal = world.random.between(0, 60);
    let checker = world.checker.clone();
    let members = world.members();
    let stop = world.cluster.run_until_met(|cluster| {
        let founded = (0..members).all(|member| cluster.machine(NodeIndex(member), 0).founded);
        let checker = checker.borrow();
        founded && (checker.total() >= goal || checker.writing == 0)
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

fn survivors(world: &World, victim: usize) -> impl Iterator<Item = usize> {
    (0..world.members()).filter(move |&member| member != victim)
}

#[test]
fn survivors_deliver_only_messages_victim_received_and_report_stall() {
    let mut cut_short = 0;
    for seed in 0..300 {
        let mut scenario = Scenario::random(seed, DeliveryGuarantee::Atomic, 40);
        let victim = seed as usize % scenario.members.len();
        scenario.members[victim].reads = true;
        if scenario.senders().count() < 2 {
            scenario.members[victim].sends = Some(Pace { goal: 20, ..Pace::SILENT });
        }
        let world = crash(scenario, seed, victim);
        let checker = world.checker.borrow();
        for member in survivors(&world, victim).map(|member| world.member(member)) {
            assert!(member.stalled, "seed {seed}: member {} has not reported a stall", member.me);
            let delivered = member.node.delivered(member.id.unwrap());
            if member.role.reads {
                assert!(delivered <= checker.received[victim], "seed {seed}");
                cut_short += u64::from(delivered < checker.received[member.me]);
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
        assert!(survivors(&world, 1).all(|member| world.member(member).stalled), "seed {seed}");
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
        let all = survivors(&world, 1).map(|member| checker.received[member]).min().unwrap();
        for member in survivors(&world, 1).map(|member| world.member(member)) {
            assert!(!member.stalled, "seed {seed}");
            assert_eq!(member.node.delivered(member.id.unwrap()), all, "seed {seed}");
        }
    }
}

#[test]
fn unordered_subgroup_delivers_all_arrived_messages_after_crash() {
    for seed in 0..150 {
        let scenario = Scenario::random(seed, DeliveryGuarantee::Unordered, 40);
        let victim = seed as usize % scenario.members.len();
        let world = crash(scenario, seed, victim);
        for member in survivors(&world, victim).map(|member| world.member(member)) {
            let slots: u64 = member.arrived.iter().map(|arrived| arrived.slots).sum();
            assert!(member.logs().all(|log| log.count as u64 == slots), "seed {seed}");
        }
    }
}
