//! Claims of a non-member about the group are not believed.

use derecho_core::bytes::Wire;
use derecho_core::group::membership_service::JoinMode;
use derecho_core::ids::NodeId;
use derecho_core::link::Generation;
use derecho_core::membership::{Decision, MemberStatus, View, ViewChangeMessage, ViewMember};

use crate::network;
use crate::world::{SimulatedGroup, TestReport};

const STRANGER: NodeId = NodeId(900);

/// Encodes a message of the membership rules.
fn word(message: &ViewChangeMessage<TestReport>) -> Vec<u8> {
    [&[0], &message.to_bytes()[..]].concat()
}

fn member(node: NodeId, slot: u8) -> ViewMember {
    ViewMember { node, slot, votes: 1, weight: 1 }
}

/// Creates three members that have come to a view, in which the last of them was admitted.
fn settled(seed: u64, entrance: JoinMode) -> SimulatedGroup {
    let mut world = SimulatedGroup::new(seed, entrance);
    for _ in 0..3 {
        world.start();
        world.settle();
    }
    assert_eq!(world.members(), [0, 1, 2]);
    (0..3).for_each(|index| world.meet(index, STRANGER));
    world
}

#[test]
fn invented_nodes_are_not_admitted() {
    for entrance in [JoinMode::Local, network(3)] {
        for seed in 0..20 {
            let mut world = settled(seed, entrance.clone());
            let before = world.view(0).clone();
            for number in 0..40 {
                let join = ViewChangeMessage::Join { node: NodeId(1000 + number), weight: 1 };
                (0..3).for_each(|index| world.hear(index, STRANGER, &word(&join)));
            }
            world.settle();
            assert_eq!(world.members(), [0, 1, 2], "seed {seed}");
            assert_eq!(world.view(0), &before, "seed {seed}");
            // A member cannot admit a node that the leader has not met, either.
            let join = ViewChangeMessage::Join { node: NodeId(2000), weight: 1 };
            world.hear(0, SimulatedGroup::node(1), &word(&join));
            world.settle();
            assert_eq!((world.members(), world.view(0)), (vec![0, 1, 2], &before), "seed {seed}");
        }
    }
}

#[test]
fn decision_that_only_a_stranger_knows_is_not_final() {
    for entrance in [JoinMode::Local, network(3)] {
        for seed in 0..20 {
            let mut world = settled(seed, entrance.clone());
            let before = world.view(1).clone();
            let View { group, number, .. } = *world.view(1);
            let without = vec![member(SimulatedGroup::node(0), 0), member(STRANGER, 9)];
            let with = vec![member(SimulatedGroup::node(1), 1), member(STRANGER, 9)];
            for members in [without, with] {
                let next = View { group, number: number + 1, members };
                let decided = ViewChangeMessage::Decided(Decision { next, cut: 7 });
                world.hear(1, STRANGER, &word(&decided));
            }
            world.settle();
            assert_eq!(world.status(1), MemberStatus::Member, "seed {seed}");
            assert_eq!((world.members(), world.view(1)), (vec![0, 1, 2], &before), "seed {seed}");
        }
    }
}

/// A member's message counts, whatever node it concerns: the stranger of the tests above is refused
/// because it is a stranger.
#[test]
fn decision_that_a_member_tells_is_final() {
    let mut world = settled(1, JoinMode::Local);
    let View { group, number, .. } = *world.view(1);
    assert_ne!(group, Generation::NONE);
    let members = vec![member(SimulatedGroup::node(0), 0), member(SimulatedGroup::node(2), 2)];
    let next = View { group, number: number + 1, members };
    world.hear(
        1,
        SimulatedGroup::node(0),
        &word(&ViewChangeMessage::Decided(Decision { next, cut: 7 })),
    );
    assert!(matches!(world.status(1), MemberStatus::Out(_)));
}
