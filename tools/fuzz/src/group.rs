//! Messages of nodes to a member of a group, or to a joining node. Whether a message is valid or
//! not, a turn does a bounded amount of work, and the state that messages leave behind stays within
//! its budgets.

use std::sync::Arc;

use derecho_core::bytes::Wire;
use derecho_core::group::membership_service::JoinMode;
use derecho_core::group::registry::{Layout, Registry};
use derecho_core::group::report::{GroupCut, MemberReport};
use derecho_core::group::silence_detector::MemberTimeouts;
use derecho_core::group::{
    CONTROL_LINES, CONTROL_STREAM, Group, GroupConfig, ReplicatedState, SubgroupRegions,
    control_geometry,
};
use derecho_core::ids::{NodeId, Peer, Time};
use derecho_core::link::{LinkEvent, Sharing};
use derecho_core::machine::{Effects, Machine};
use derecho_core::membership::{View, ViewChangeMessage};
use derecho_core::memory::{LINE_WORDS, OwnRegion};
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SUBGROUP_LINES};
use derecho_core::node::{ACKS_WORDS, Node};
use derecho_core::note::Note;

use crate::frames::frames;
use crate::outcome::{Outcome, OutcomeBuilder};

/// Number of peers that send. The first two are founders if the group has three.
const PEERS: u8 = 3;
/// Maximum work in one turn of a group of this size.
const MOST_WORK: usize = 4096;

/// State without contents.
struct EmptyState;

impl ReplicatedState for EmptyState {
    fn apply(&mut self, _: NodeId, _: &[u8]) -> Vec<u64> {
        Vec::new()
    }

    fn forget(&mut self, _: NodeId) {}

    fn keys(&self) -> Vec<u64> {
        Vec::new()
    }

    fn layout(&self, _: u64, _: &View) -> Layout {
        Layout { level: DeliveryGuarantee::Atomic, members: Vec::new() }
    }

    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: &[u8]) -> bool {
        true
    }
}

fn group(founders: &[u128]) -> Group<EmptyState> {
    let node = Node::new(NodeId(1), OwnRegion::heap(ACKS_WORDS), Arc::new(|| {}));
    let lines = OwnRegion::heap(SUBGROUP_LINES * LINE_WORDS);
    let geometry = control_geometry();
    let memory = SenderMemory::with_nulls(OwnRegion::heap(geometry.words()), geometry);
    let control =
        SubgroupRegions { lines: (CONTROL_LINES, lines), memory: Some((CONTROL_STREAM, memory)) };
    let entrance = JoinMode::Network(founders.iter().map(|node| (NodeId(*node), 1)).collect());
    let (patience, ablation) = (MemberTimeouts::default(), Ablation::default());
    Group::new(
        node,
        GroupConfig { join_mode: entrance, weight: 1, timeouts: patience, ablation },
        EmptyState,
        control,
        None,
    )
}

/// Whether a value that is read can be written and read again as the same.
fn comes_back<T: Wire + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> bool {
    let read = T::from_bytes(bytes);
    if let Some(read) = &read {
        assert_eq!(T::from_bytes(&read.to_bytes()).as_ref(), Some(read), "read as written");
    }
    read.is_some()
}

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    let [how, words @ ..] = bytes else { return outcome.outcome() };
    // A member of its own group, a founder of three, or a joining node.
    let founders: &[u128] = match how % 3 {
        0 => &[1],
        1 => &[1, 2, 3],
        _ => &[2],
    };
    outcome.kind(how % 3);
    let mut group = group(founders);
    let mut effects = Effects::new();
    for index in 0..PEERS {
        let (peer, node) = (Peer(index.into()), NodeId(u128::from(index) + 2));
        let sharing = Sharing::Shared;
        group.handle(LinkEvent::PeerUp { peer, node, sharing, place: None }, &mut effects);
    }
    let mut now = 0;
    for (who, said) in frames(words) {
        if let [0, rest @ ..] = said {
            let rule = Vec::<u8>::from_bytes(rest).unwrap_or_default();
            outcome.kind(rule.get(..2));
            if let [0, rule @ ..] = &rule[..] {
                outcome.kind(comes_back::<ViewChangeMessage<MemberReport>>(rule));
            }
        }
        let readers: [fn(&[u8]) -> bool; 3] =
            [comes_back::<Registry>, comes_back::<GroupCut>, comes_back::<MemberReport>];
        for read in readers {
            outcome.kind(read(said));
        }
        let peer = Peer(u32::from(who % PEERS));
        let note = Note::Fragment { left: 0, bytes: said.to_vec() }.encode();
        group.handle(LinkEvent::Note { peer, bytes: note }, &mut effects);
        // Time passes, so that every awaited member is suspected in the end.
        now += 1_000_000 * u64::from(who / PEERS);
        let done = group.turn(Time(now), &mut effects);
        assert!(done <= MOST_WORK, "a turn did {done} things");
        outcome.size(effects.take_posts().count());
        effects.clear();
        while let Some(event) = group.next_event() {
            outcome.kind(core::mem::discriminant(&event));
        }
        outcome.kind((group.status(), group.view().number, group.is_informed()));
    }
    outcome.outcome()
}
