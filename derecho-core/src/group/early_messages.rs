//! Messages of other nodes about views that are not installed here, within a budget for
//! each node (I-333).
//!
//! Owns: the budget of each node, and the messages kept within it. Never does: keep messages of
//! a node that cannot be a member of the view that they name, or accuse a node that stays
//! within its budget.
//!
//! ```text
//!   sender     sends direct messages within the budget, holds the rest  ──asks──> receiver
//!              sends the rest                             <─installed─ has installed the view
//!   receiver   keeps messages ahead of the view, by sender, until the view is installed or the
//!              sender is gone
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::control::{EpochStart, UnicastMessage};
use super::report::StreamId;
use super::{Group, GroupEvent, ReplicatedState};
use crate::bytes::Wire;
use crate::ids::NodeId;
use crate::machine::Effects;
use crate::multicast::stream::StreamStart;

/// Maximum number of direct messages of one node that wait for their view, and of their bytes. A
/// sender holds further messages back.
const MOST_EARLY: usize = 1024;
const MOST_EARLY_BYTES: usize = 4 << 20;
/// Maximum number of epoch beginnings remembered for one node's streams, usually one
/// for each stream.
const MOST_STARTS: usize = 1 << 14;

/// Messages of one node about views that are not installed here.
#[derive(Default)]
pub(super) struct EarlyMessages {
    /// Direct messages, with the views in which they were sent.
    early: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    /// View that the node has asked about: it is notified when this node has installed the view.
    asks: Option<u64>,
    /// Upper bound of the remembered epoch beginnings of the node's streams.
    starts: usize,
}

/// Direct messages to one member since this node has installed its view.
#[derive(Default)]
pub(super) struct HeldMessages {
    sent: usize,
    bytes: usize,
    /// The member has installed the view: nothing is held back.
    installed: bool,
    /// The member was asked to say when it has installed the view.
    awaits_view: bool,
    waiting: VecDeque<Vec<u8>>,
}

impl HeldMessages {
    /// Whether the member may be sent this message at once.
    fn may_send(&mut self, length: usize) -> bool {
        if self.installed {
            return true;
        }
        let fits = self.sent < MOST_EARLY && self.bytes + length <= MOST_EARLY_BYTES;
        let may = fits && self.waiting.is_empty();
        if may {
            (self.sent, self.bytes) = (self.sent + 1, self.bytes + length);
        }
        may
    }
}

impl<S: ReplicatedState> Group<S> {
    /// Sends another member a direct message, as soon as the budget permits.
    pub(super) fn send_within_budget(
        &mut self,
        node: NodeId,
        bytes: Vec<u8>,
        effects: &mut Effects,
    ) {
        let view = self.installed.number;
        let held = self.held.entry(node).or_default();
        if held.may_send(bytes.len()) {
            return self.tell(node, &UnicastMessage::Direct { view, bytes }, effects);
        }
        held.waiting.push_back(bytes);
        if !core::mem::replace(&mut held.awaits_view, true) {
            self.tell(node, &UnicastMessage::AwaitsView { view }, effects);
        }
    }

    /// Notes that a node has installed this view.
    pub(super) fn note_installed(&mut self, node: NodeId, view: u64) {
        if view == self.installed.number && self.installed.rank_of(node).is_some() {
            let held = self.held.entry(node).or_default();
            held.installed = true;
            let waiting = core::mem::take(&mut held.waiting);
            self.send_held(node, view, waiting);
        }
    }

    /// Sends held messages with the number of the view in which they were submitted.
    fn send_held(&mut self, node: NodeId, view: u64, waiting: VecDeque<Vec<u8>>) {
        let messages =
            waiting.into_iter().map(|bytes| UnicastMessage::Direct { view, bytes }.to_bytes());
        let messages: Vec<Vec<u8>> = messages.collect();
        if !messages.is_empty() {
            self.unsent.entry(node).or_default().extend(messages);
        }
    }

    /// Answers a node that asks to be notified when this node has installed a view.
    pub(super) fn asked_for(&mut self, node: NodeId, view: u64) {
        if view <= self.installed.number {
            let message = UnicastMessage::ViewInstalled { view }.to_bytes();
            self.unsent.entry(node).or_default().push(message);
        } else {
            self.early_messages.entry(node).or_default().asks = Some(view);
        }
    }

    /// Whether a node may send messages about a view after the installed one. Members of a view are
    /// at most one view apart: no member goes further before all members that go on with it have
    /// said that they stopped.
    fn may_be_in(&self, view: u64) -> bool {
        !self.is_member() || view == self.installed.number + 1
    }

    fn is_member(&self) -> bool {
        self.installed.rank_of(self.node.id()).is_some()
    }

    /// Keeps a direct message that was sent in a view after the installed one, until that view is
    /// installed (I-53). `false` if the message exceeds the budget, which no correct node does.
    pub(super) fn keep_early(&mut self, from: NodeId, view: u64, bytes: Vec<u8>) -> bool {
        if !self.may_be_in(view) {
            return true;
        }
        let early = self.early_messages.entry(from).or_default();
        let length = early.bytes + bytes.len();
        if early.early.len() == MOST_EARLY || length > MOST_EARLY_BYTES {
            return false;
        }
        early.bytes = length;
        early.early.push_back((view, bytes));
        true
    }

    /// Applies a view change: takes in messages that waited for the view, and sends messages that
    /// were held back in the view before. Drops messages of nodes that are not members of the view.
    pub(super) fn take_in_early(&mut self) {
        let view = self.installed.number;
        for (node, held) in core::mem::take(&mut self.held) {
            if self.installed.rank_of(node).is_some() {
                // A member of this view has installed the view before.
                self.send_held(node, view.saturating_sub(1), held.waiting);
            }
        }
        for (node, early) in core::mem::take(&mut self.early_messages) {
            if self.installed.rank_of(node).is_none() {
                continue;
            }
            for (sent, bytes) in early.early {
                if sent <= view {
                    self.events.push_back(GroupEvent::Direct { from: node, view: sent, bytes });
                }
            }
            early.asks.into_iter().for_each(|view| self.asked_for(node, view));
            self.early_messages.entry(node).or_default().starts = early.starts;
        }
    }

    /// Takes in the beginnings of epochs in a node's streams (I-334). `false` if there are more of
    /// them than any correct node sends.
    pub(super) fn receive_starts(&mut self, node: NodeId, starts: Vec<EpochStart>) -> bool {
        if self.is_member() && self.installed.rank_of(node).is_none() {
            // The node may have been a member when it sent this message.
            return true;
        }
        let early = self.early_messages.entry(node).or_default();
        early.starts += starts.len();
        if early.starts > MOST_STARTS {
            // Some beginnings may have been forgotten since they were counted.
            let streams = self.announced_starts.values().flat_map(|known| known.keys());
            early.starts = streams.filter(|stream| stream.node == node).count() + starts.len();
            if early.starts > MOST_STARTS {
                return false;
            }
        }
        for (key, epoch, region, entry, message) in starts {
            let stream = StreamId { node, region };
            let known = self.announced_starts.entry((key, epoch)).or_default();
            known.insert(stream, StreamStart { entry, message });
        }
        self.unsettled = true;
        true
    }

    /// Forgets the epoch beginnings in streams of all nodes except those for which `stays` holds.
    pub(super) fn forget_starts(&mut self, is_present: impl Fn(&NodeId) -> bool) {
        self.announced_starts.retain(|_, known| {
            known.retain(|stream, _| is_present(&stream.node));
            !known.is_empty()
        });
    }

    /// Releases the budget of a node that is gone. The epoch beginnings of a member's streams stay
    /// until the next view: a newcomer may need them to begin with the other members.
    pub(super) fn release_budget(&mut self, node: NodeId) {
        self.early_messages.remove(&node);
        self.held.remove(&node);
        self.control.forget_early(node);
        if self.installed.rank_of(node).is_none() {
            self.forget_starts(|known| *known != node);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::sync::Arc;

    use super::super::log_register::LogRegister;
    use super::super::membership_service::JoinMode;
    use super::super::registry::{Layout, Registry};
    use super::super::silence_detector::MemberTimeouts;
    use super::super::{
        CONTROL_LINES, CONTROL_STREAM, GroupConfig, SubgroupRegions, control_geometry,
    };
    use super::*;
    use crate::ids::{Peer, RegionId, Time};
    use crate::link::Evidence;
    use crate::machine::Machine;
    use crate::membership::{View, ViewMember};
    use crate::memory::{LINE_WORDS, OwnRegion};
    use crate::multicast::ablation::Ablation;
    use crate::multicast::claim::SenderMemory;
    use crate::multicast::subgroup::{DeliveryGuarantee, SUBGROUP_LINES};
    use crate::node::{ACKS_WORDS, Node, NodeEvent};

    const ME: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);
    const STRANGERS: [NodeId; 2] = [NodeId(8), NodeId(9)];

    /// State that holds only the bytes from which it was restored.
    #[derive(Default)]
    struct RestoredBytes(Vec<u8>);

    impl ReplicatedState for RestoredBytes {
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
            self.0.clone()
        }

        fn restore(&mut self, bytes: &[u8]) -> bool {
            self.0 = bytes.to_vec();
            true
        }
    }

    /// Returns a node whose networked group has these founders, and that has met two strangers.
    fn group_of(founders: &[NodeId]) -> Group<RestoredBytes> {
        let node = Node::new(ME, OwnRegion::heap(ACKS_WORDS), Arc::new(|| {}));
        let lines = OwnRegion::heap(SUBGROUP_LINES * LINE_WORDS);
        let geometry = control_geometry();
        let memory = SenderMemory::with_nulls(OwnRegion::heap(geometry.words()), geometry);
        let control = SubgroupRegions {
            lines: (CONTROL_LINES, lines),
            memory: Some((CONTROL_STREAM, memory)),
        };
        let join_mode = JoinMode::Network(founders.iter().map(|node| (*node, 1)).collect());
        let (timeouts, ablation) = (MemberTimeouts::default(), Ablation::default());
        let config = GroupConfig { join_mode, weight: 1, timeouts, ablation };
        let mut group = Group::new(node, config, RestoredBytes::default(), control, None);
        let mut effects = Effects::new();
        for now in 0..4 {
            group.turn(Time(now), &mut effects);
        }
        for (node, peer) in STRANGERS.into_iter().zip(1..) {
            group.take_in(NodeEvent::PeerUp { peer: Peer(peer), node });
        }
        group
    }

    fn goes(group: &mut Group<RestoredBytes>, node: NodeId, peer: u32) {
        let evidence = Evidence::Certain;
        group.take_in(NodeEvent::PeerDown { peer: Peer(peer), node, evidence });
    }

    fn starts(from: u64, count: u64) -> UnicastMessage {
        UnicastMessage::EpochStarts(
            (from..from + count).map(|key| (key, 0, RegionId(key), 0, 0)).collect(),
        )
    }

    fn direct(view: u64, length: usize) -> UnicastMessage {
        UnicastMessage::Direct { view, bytes: alloc::vec![0; length] }
    }

    fn early_bytes(group: &Group<RestoredBytes>) -> usize {
        let early = group.early_messages.values().flat_map(|ahead| &ahead.early);
        early.map(|(_, bytes)| bytes.len()).sum()
    }

    #[test]
    fn memory_of_stranger_is_bounded_and_freed_when_stranger_is_gone() {
        let mut group = group_of(&[ME]);
        let view = group.view().number;
        assert!(view > 0 && group.is_member());
        for node in STRANGERS {
            assert!((0..100).all(|n| group.receive_unicast(node, starts(n * 1000, 1000))));
            assert!(group.announced_starts.is_empty(), "a stranger sends in no epoch");
            assert!((0..100).all(|n| group.receive_unicast(node, direct(view + 2 + n, 1 << 20))));
            assert_eq!(early_bytes(&group), 0, "no member of that view is so far ahead");
        }
        for node in STRANGERS {
            // The node may be a member of the next view.
            let kept = (0..100)
                .take_while(|_| group.receive_unicast(node, direct(view + 1, 1 << 20)))
                .count();
            assert_eq!(kept, MOST_EARLY_BYTES >> 20);
            let more =
                (0..9999).take_while(|_| group.receive_unicast(node, direct(view + 1, 0))).count();
            assert_eq!(more, MOST_EARLY - kept);
        }
        assert_eq!(early_bytes(&group), 2 * MOST_EARLY_BYTES, "each has a budget of its own");
        goes(&mut group, STRANGERS[0], 1);
        assert_eq!(early_bytes(&group), MOST_EARLY_BYTES);
        goes(&mut group, STRANGERS[1], 2);
        assert!(group.early_messages.is_empty());
    }

    #[test]
    fn node_without_view_hears_all_nodes_within_their_budgets() {
        let mut group = group_of(&[OTHER]);
        assert!(!group.is_member());
        for node in STRANGERS {
            let kept =
                (0..99).take_while(|n| group.receive_unicast(node, starts(n * 1024, 1024))).count();
            assert_eq!(kept, MOST_STARTS / 1024);
            // Repeated beginnings use no more budget, and forgotten ones are released.
            group.forget_starts(|known| *known != node);
            assert!(group.receive_unicast(node, starts(0, 1024)));
            assert!(group.receive_unicast(node, direct(77, 10)));
            for state in [b"old", b"new"] {
                let registry = Registry::default();
                let state = state.to_vec();
                assert!(
                    group.receive_unicast(
                        node,
                        UnicastMessage::Snapshot { view: 5, registry, state }
                    )
                );
            }
        }
        assert_eq!(group.control.take_early().len(), 2, "one of each, whoever came last");
        goes(&mut group, STRANGERS[0], 1);
        goes(&mut group, STRANGERS[1], 2);
        assert!(group.early_messages.is_empty() && group.announced_starts.is_empty());
    }

    #[test]
    fn state_is_accepted_only_from_member_of_view() {
        let mut group = group_of(&[ME]);
        let view = group.view().number;
        group.informed = false;
        let bytes = |state: &[u8]| (LogRegister::new(false), state.to_vec()).to_bytes();
        let snapshot = |state: &[u8]| (view, Registry::default(), bytes(state));
        group.inform(STRANGERS[0], snapshot(b"forged"));
        assert!(!group.informed && group.state.0.is_empty());
        group.inform(ME, snapshot(b"told"));
        assert!(group.informed && group.state.0 == b"told");
    }

    #[test]
    fn sender_holds_back_messages_over_budget_until_member_enters_view() {
        let mut group = group_of(&[ME]);
        let mut effects = Effects::new();
        // Treats the stranger as a member.
        let node = STRANGERS[0];
        let mut members = group.installed.members.clone();
        let own = members[0];
        members.push(ViewMember { node, slot: 1, ..own });
        group.installed.members = members;
        let view = group.installed.number;
        for _ in 0..MOST_EARLY + 10 {
            assert!(group.send_direct(node, alloc::vec![1; 8], &mut effects));
        }
        let waiting =
            |group: &Group<RestoredBytes>| group.held.get(&node).map(|held| held.waiting.len());
        assert_eq!(waiting(&group), Some(10));
        group.note_installed(node, view + 1);
        group.note_installed(STRANGERS[1], view);
        assert_eq!(waiting(&group), Some(10), "that was another view, and another node");
        assert!(group.receive_unicast(node, UnicastMessage::ViewInstalled { view }));
        assert_eq!((waiting(&group), group.unsent[&node].len()), (Some(0), 10));
        assert!(group.send_direct(node, alloc::vec![1; MOST_EARLY_BYTES + 1], &mut effects));
        assert_eq!(waiting(&group), Some(0), "nothing is held back any more");
        // A node that asks is answered at once, or when this node installs the view.
        group.unsent.clear();
        assert!(
            group.receive_unicast(node, UnicastMessage::AwaitsView { view })
                && group.receive_unicast(node, UnicastMessage::AwaitsView { view: view + 1 })
        );
        assert_eq!(group.unsent[&node], [UnicastMessage::ViewInstalled { view }.to_bytes()]);
        group.installed.number += 1;
        group.take_in_early();
        assert_eq!(
            group.unsent[&node].last(),
            Some(&UnicastMessage::ViewInstalled { view: view + 1 }.to_bytes())
        );
    }

    #[test]
    fn sender_holds_back_messages_over_budget_and_all_later_messages() {
        let mut held = HeldMessages::default();
        assert!((0..MOST_EARLY).all(|_| held.may_send(1)));
        assert!(!held.may_send(0), "more messages than may wait");
        let mut held = HeldMessages::default();
        assert!(held.may_send(MOST_EARLY_BYTES - 1) && !held.may_send(2));
        held.waiting.push_back(Vec::new());
        assert!(!held.may_send(1), "it would overtake one that is held back");
        held.waiting.clear();
        assert!(held.may_send(1));
        held.installed = true;
        assert!(held.may_send(usize::MAX));
    }
}
