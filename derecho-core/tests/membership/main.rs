//! Membership services of several nodes under random schedules and faults: one sequence of views,
//! consistent cuts, and every live node that may continue does so.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod strangers;
mod world;

use derecho_core::group::membership_service::JoinMode;
use derecho_core::ids::NodeId;
use derecho_core::membership::{ExitReason, MemberStatus};
use world::{NodeFault, SimulatedGroup};

fn network(founders: usize) -> JoinMode {
    JoinMode::Network((0..founders).map(|index| (SimulatedGroup::node(index), 1)).collect())
}

#[test]
fn one_node_founds_local_group_and_other_nodes_join() {
    for seed in 0..50 {
        let mut world = SimulatedGroup::new(seed, JoinMode::Local);
        (0..4).for_each(|_| world.start());
        world.settle();
        assert_eq!(world.members(), [0, 1, 2, 3], "seed {seed}");
    }
}

#[test]
fn a_networked_group_begins_with_a_majority_of_its_founders() {
    for seed in 0..50 {
        let mut world = SimulatedGroup::new(seed, network(3));
        world.start();
        world.settle();
        assert_eq!(world.members(), [] as [usize; 0], "one of three founds nothing");
        world.start();
        world.settle();
        assert_eq!(world.members(), [0, 1], "seed {seed}");
        world.start();
        world.settle();
        assert_eq!(world.members(), [0, 1, 2], "whoever comes later joins");
    }
}

#[test]
fn leaver_is_out_and_remaining_members_continue() {
    for entrance in [JoinMode::Local, network(3)] {
        for seed in 0..50 {
            let mut world = SimulatedGroup::new(seed, entrance.clone());
            (0..3).for_each(|_| world.start());
            world.settle();
            world.leave(1);
            world.settle();
            assert_eq!(world.members(), [0, 2], "seed {seed}");
            assert_eq!(world.status(1), MemberStatus::Out(ExitReason::Left));
        }
    }
}

#[test]
fn last_local_survivor_continues_and_network_minority_does_not() {
    for seed in 0..50 {
        let mut world = SimulatedGroup::new(seed, JoinMode::Local);
        (0..4).for_each(|_| world.start());
        world.settle();
        (0..3).for_each(|index| world.fault(NodeFault::Crash(index)));
        world.settle();
        assert_eq!(world.members(), [3], "seed {seed}");

        let mut world = SimulatedGroup::new(seed, network(4));
        (0..4).for_each(|_| world.start());
        world.settle();
        [0, 1, 2].into_iter().for_each(|index| world.fault(NodeFault::Crash(index)));
        world.settle();
        assert_eq!(world.members(), [] as [usize; 0]);
        assert_eq!(world.status(3), MemberStatus::Out(ExitReason::Minority), "seed {seed}");
    }
}

#[test]
fn crash_of_new_members_does_not_cost_the_group_its_majority() {
    for seed in 0..50 {
        let mut world = SimulatedGroup::new(seed, network(2));
        (0..2).for_each(|_| world.start());
        world.settle();
        (0..3).for_each(|_| world.start());
        while !(0..2).all(|index| world.view(index).members.len() > 2) {
            world.step();
        }
        (2..5).for_each(|index| world.fault(NodeFault::Crash(index)));
        world.settle();
        assert_eq!(world.members(), [0, 1], "seed {seed}");
    }
}

#[test]
fn stopped_member_of_two_on_a_host_is_out_after_continuing() {
    for stopped in [0, 1] {
        for seed in 0..50 {
            let mut world = SimulatedGroup::new(seed, JoinMode::Local);
            (0..2).for_each(|_| world.start());
            world.settle();
            world.fault(NodeFault::Stop(stopped));
            world.start();
            world.settle();
            assert_eq!(world.members(), [1 - stopped, 2], "seed {seed}");
            world.fault(NodeFault::Continue(stopped));
            world.settle();
            assert!(matches!(world.status(stopped), MemberStatus::Out(_)), "seed {seed}");
            assert_eq!(world.members(), [1 - stopped, 2], "seed {seed}");
        }
    }
}

#[test]
fn member_that_hears_no_messages_does_not_empty_the_group() {
    for entrance in [JoinMode::Local, network(4)] {
        for deaf in 0..4 {
            for seed in 0..20 {
                let mut world = SimulatedGroup::new(seed, entrance.clone());
                (0..4).for_each(|_| world.start());
                world.settle();
                world.fault(NodeFault::Deafen(deaf));
                world.leave((deaf + 1) % 4);
                world.settle();
                let others: Vec<usize> =
                    (0..4).filter(|&i| i != deaf && i != (deaf + 1) % 4).collect();
                assert_eq!(world.members(), others, "seed {seed}, deaf {deaf}");
            }
        }
    }
}

/// All faults at any moment; the safety rules are checked after every step, progress at the end.
#[test]
fn group_stays_consistent_under_random_faults_of_all_kinds() {
    let mut changes = 0;
    for entrance in [JoinMode::Local, network(3)] {
        for seed in 0..400 {
            let mut world = SimulatedGroup::new(seed, entrance.clone());
            (0..3).for_each(|_| world.start());
            for _ in 0..world.random(2000) + 50 {
                world.step();
                world.random_fault();
            }
            world.heal();
            world.settle();
            world.check_progress();
            changes += world.changes();
        }
    }
    assert!(changes > 2000, "{changes} views are not enough to see anything");
}

#[test]
fn random_bytes_do_not_change_the_view() {
    let mut world = SimulatedGroup::new(1, network(3));
    (0..3).for_each(|_| world.start());
    world.settle();
    let before = world.view(0).clone();
    for length in 0..200 {
        let bytes: Vec<u8> = (0..length).map(|_| world.random(256) as u8).collect();
        world.send(1, 0, &bytes);
        world.say_from(NodeId(99), 0, &bytes);
    }
    world.settle();
    assert_eq!(world.view(0), &before);
}
