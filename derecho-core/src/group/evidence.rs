//! Proof that a peer broke the rules (I-261).
//!
//! Owns: the decision whether this node's own lateness explains an observed fault. Never does: read
//! a peer's memory.

use super::{Group, ReplicatedState};
use crate::multicast::PeerFault;

impl<S: ReplicatedState> Group<S> {
    /// Whether the peer is to blame for an observed fault. If the group has gone on without this
    /// node, or this node is out, no sender counts this node any more: the memory and the lines
    /// that it reads may have been reused. The host is asked after the read: if it answers that the
    /// group has not gone on, the sender still counted this node at the time of the read.
    pub(super) fn is_proven(&self, fault: PeerFault) -> bool {
        match fault {
            PeerFault::Entry { .. } | PeerFault::Overrun | PeerFault::Acknowledgement { .. } => {
                !self.is_out() && !self.is_overtaken()
            }
            PeerFault::Geometry | PeerFault::Note => true,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    use super::super::membership_service::{HostInterface, JoinMode};
    use super::super::registry::Layout;
    use super::super::silence_detector::MemberTimeouts;
    use super::super::subgroup_regions::SubgroupRegions;
    use super::super::{CONTROL_LINES, CONTROL_STREAM, GroupConfig, GroupEvent, control_geometry};
    use super::*;
    use crate::atomic::{AtomicBool, Ordering};
    use crate::ids::{NodeId, Peer, Rank, Time};
    use crate::link::{Arbiter, Founding, Generation, LinkError, LinkEvent, Sharing};
    use crate::machine::{Effects, Machine};
    use crate::membership::View;
    use crate::memory::{LINE_WORDS, OwnRegion};
    use crate::multicast::ablation::Ablation;
    use crate::multicast::claim::SenderMemory;
    use crate::multicast::subgroup::{DeliveryGuarantee, SUBGROUP_LINES};
    use crate::node::{ACKS_WORDS, Node, NodeEvent};

    /// Host whose group is founded by the caller, and that says whether the caller is a member.
    struct MembershipArbiter(AtomicBool);

    impl Arbiter for MembershipArbiter {
        fn found(&self) -> Result<Founding, LinkError> {
            Ok(Founding::Founded(Generation(1)))
        }

        fn settle(&self, _: Generation, _: u64, _: Rank) -> Option<Rank> {
            None
        }

        fn entered(&self, _: Generation, _: u64, _: u8) -> bool {
            true
        }

        fn left(&self) {}

        fn is_member(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn cleared(&self, _: Generation, _: u64, _: u64) {}
    }

    /// State of a group without topics.
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

    /// Peers that a member accuses of this fault, given the host's answer whether the member
    /// still is one.
    fn accused(fault: PeerFault, is_member: bool) -> Vec<Peer> {
        let host = Arc::new(MembershipArbiter(AtomicBool::new(true)));
        let arbiter = Arc::clone(&host) as Arc<dyn Arbiter>;
        let lines = (CONTROL_LINES, OwnRegion::heap(SUBGROUP_LINES * LINE_WORDS));
        let stream = OwnRegion::heap(control_geometry().words());
        let memory = SenderMemory::with_nulls(stream, control_geometry());
        let control = SubgroupRegions { lines, memory: Some((CONTROL_STREAM, memory)) };
        let (timeouts, ablation) = (MemberTimeouts::default(), Ablation::default());
        let config = GroupConfig { join_mode: JoinMode::Local, weight: 1, timeouts, ablation };
        let node = Node::new(NodeId(1), OwnRegion::heap(ACKS_WORDS), Arc::new(|| {}));
        let host_of = HostInterface { arbiter, is_halted: Arc::new(|_| false) };
        let mut group = Group::new(node, config, EmptyState, control, Some(host_of));
        let mut effects = Effects::new();
        let (peer, node) = (Peer(1), NodeId(2));
        let up = LinkEvent::PeerUp { peer, node, sharing: Sharing::Shared, place: None };
        group.handle(up, &mut effects);
        for time in 0..4 {
            group.turn(Time(time), &mut effects);
        }
        assert!(group.is_settled(), "it has founded the group: {}", group.describe());
        while group.next_event().is_some() {}
        host.0.store(is_member, Ordering::Relaxed);
        group.take_in(NodeEvent::Faulty { peer, fault });
        let events = core::iter::from_fn(|| group.next_event());
        let faulty = events.filter_map(|event| match event {
            GroupEvent::Node(NodeEvent::Faulty { peer, .. }) => Some(peer),
            _ => None,
        });
        faulty.collect()
    }

    #[test]
    fn excluded_member_accuses_no_peer_of_faults_in_read_memory() {
        let (entry, note) = (PeerFault::Entry { index: 16 }, PeerFault::Note);
        for fault in [entry, PeerFault::Overrun, note] {
            assert_eq!(accused(fault, true), [Peer(1)], "{fault}");
        }
        assert_eq!(accused(entry, false), []);
        assert_eq!(accused(PeerFault::Overrun, false), []);
        assert_eq!(accused(note, false), [Peer(1)], "no lateness explains an invalid note");
    }
}
