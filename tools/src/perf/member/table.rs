//! Node of a member of a subgroup without DDS: a node that founds one subgroup.
//!
//! Owns: the announcements by which the members find each other, and the subgroup definition that
//! follows from them. Never does: more than a measurement needs; members never change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Interest, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::{SubgroupConfig, Upcall};
use derecho_core::node::{
    MemberRole, Node, NodeEvent, StreamOrigin, SubgroupDefinition, SubgroupId, SubgroupMemory,
};

/// Number of the only announcement of a node.
const ANNOUNCEMENT: u64 = 1;
/// Name of the subgroup.
const NAME: u64 = 0x5351_4c4c;

/// Contribution of a member.
#[derive(Clone)]
pub(super) struct Contribution {
    pub(super) lines: (RegionId, OwnRegion),
    pub(super) memory: Option<(RegionId, SenderMemory)>,
    pub(super) reads: bool,
}

/// State of the subgroup that the application's thread reads.
#[derive(Default)]
pub(super) struct SharedSubgroupState {
    /// Queue of this member, if it reads; set once the subgroup is founded.
    pub(super) inbox: OnceLock<Option<Arc<Inbox>>>,
    /// Number of members that read and have begun.
    pub(super) readers: AtomicUsize,
}

/// State machine. See the [module](self).
pub(super) struct SubgroupFounder {
    node: Node,
    terms: SubgroupConfig,
    processes: usize,
    contribution: Option<Contribution>,
    parts: BTreeMap<NodeId, MemberRole>,
    peers: BTreeMap<Peer, NodeId>,
    shared: Arc<SharedSubgroupState>,
    subgroup: Option<SubgroupId>,
    upcall: Option<Upcall>,
}

impl SubgroupFounder {
    pub(super) fn new(node: Node, terms: SubgroupConfig, processes: usize) -> SubgroupFounder {
        SubgroupFounder {
            node,
            terms,
            processes,
            contribution: None,
            parts: BTreeMap::new(),
            peers: BTreeMap::new(),
            shared: Arc::new(SharedSubgroupState::default()),
            subgroup: None,
            upcall: None,
        }
    }

    pub(super) fn shared(&self) -> Arc<SharedSubgroupState> {
        Arc::clone(&self.shared)
    }

    pub(super) fn fresh_region(&mut self) -> RegionId {
        self.node.fresh_region()
    }

    /// Sets a callback that receives the deliveries from the first one on.
    pub(super) fn set_upcall(&mut self, upcall: Option<Upcall>) {
        self.upcall = upcall;
    }

    /// Declares that this member sends nothing in a number of rounds of the order.
    pub(super) fn declare_silence(&mut self, rounds: u64) -> bool {
        self.subgroup.is_some_and(|subgroup| self.node.declare_silence(subgroup, rounds))
    }

    /// Takes part with this contribution.
    pub(super) fn join(&mut self, contribution: Contribution, effects: &mut Effects) {
        let sends = contribution.memory.as_ref().map(|(region, _)| *region);
        let own = MemberRole {
            origin: StreamOrigin::Own,
            reads: contribution.reads,
            sends,
            lines: contribution.lines.0,
        };
        self.node.announce(ANNOUNCEMENT, encode(own), effects);
        self.parts.insert(self.node.id(), own);
        self.contribution = Some(contribution);
        self.try_found(effects);
    }

    /// Founds the subgroup once all members have announced their contributions. All members list
    /// them by name.
    fn try_found(&mut self, effects: &mut Effects) {
        if self.parts.len() < self.processes {
            return;
        }
        let Some(Contribution { lines, memory, .. }) = self.contribution.take() else { return };
        let members = self.parts.values().copied().collect();
        let definition = SubgroupDefinition { name: NAME, config: self.terms, members };
        let share = SubgroupMemory { lines: lines.1, memory: memory.map(|(_, memory)| memory) };
        // If the announcements do not fit, there is no subgroup, and no member becomes ready.
        self.subgroup = self.node.found(definition, share, effects);
    }

    fn take_in(&mut self, event: NodeEvent, effects: &mut Effects) {
        match event {
            NodeEvent::PeerUp { peer, node } => {
                self.peers.insert(peer, node);
            }
            NodeEvent::Announced { peer, id: ANNOUNCEMENT, bytes } => {
                let member = decode(&bytes, peer);
                if let Some((member, node)) = member.zip(self.peers.get(&peer)) {
                    self.parts.insert(*node, member);
                    self.try_found(effects);
                }
            }
            NodeEvent::Founded(subgroup) => {
                let inbox = self.node.add_subgroup_reader(subgroup);
                if let Some(upcall) = self.upcall.take() {
                    self.node.set_subgroup_upcall(subgroup, upcall);
                }
                // The subgroup is founded once, so the value was not set before.
                let _ = self.shared.inbox.set(inbox);
            }
            NodeEvent::Gathered { readers, .. } => {
                self.shared.readers.store(readers, Ordering::Release);
            }
            _ => {}
        }
    }

    /// Handles the events of the node. Returns their number.
    fn listen(&mut self, effects: &mut Effects) -> usize {
        let mut heard = 0;
        while let Some(event) = self.node.next_event() {
            self.take_in(event, effects);
            heard += 1;
        }
        heard
    }
}

impl Machine for SubgroupFounder {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        self.node.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        self.node.turn(now, effects) + self.listen(effects)
    }

    fn interest(&self) -> Interest {
        self.node.interest()
    }

    fn awaits_others(&self) -> bool {
        self.node.awaits_others()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        self.node.wants_turn_at()
    }
}

fn encode(member: MemberRole) -> Vec<u8> {
    let stream = member.sends.map_or(0, |region| region.0);
    let words = [u64::from(member.reads), stream, member.lines.0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn decode(bytes: &[u8], peer: Peer) -> Option<MemberRole> {
    let (words, rest) = bytes.as_chunks::<8>();
    let &[reads, stream, lines] = words else { return None };
    let [stream, lines] = [stream, lines].map(|word| RegionId(u64::from_le_bytes(word)));
    rest.is_empty().then_some(MemberRole {
        origin: StreamOrigin::Peer(peer),
        reads: u64::from_le_bytes(reads) != 0,
        sends: (stream.0 != 0).then_some(stream),
        lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_membership_equals_announced_membership() {
        let peer = Peer(3);
        for sends in [None, Some(RegionId(17))] {
            let member = MemberRole {
                origin: StreamOrigin::Peer(peer),
                reads: true,
                sends,
                lines: RegionId(16),
            };
            let bytes = encode(member);
            assert_eq!(decode(&bytes, peer), Some(member));
            assert_eq!(decode(&bytes[1..], peer), None);
        }
    }
}
