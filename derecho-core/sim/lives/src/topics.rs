//! State of these groups: readers and writers of each topic.
//!
//! Owns: the members' declarations of their parts, and the resulting layouts. Never does:
//! deliver anything.

use std::collections::BTreeMap;

use derecho_core::bytes::Wire;
use derecho_core::group::ReplicatedState;
use derecho_core::group::registry::{Layout, LayoutMember};
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::membership::View;
use derecho_core::multicast::subgroup::DeliveryGuarantee;

/// First topic with [`DeliveryGuarantee::Unordered`]; the topics before it are atomic.
pub(crate) const UNORDERED: u64 = 100;

/// Returns the level of a topic.
pub(crate) fn level_of(topic: u64) -> DeliveryGuarantee {
    if topic < UNORDERED { DeliveryGuarantee::Atomic } else { DeliveryGuarantee::Unordered }
}

/// Declaration of a member's part in a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TopicRole {
    pub(crate) topic: u64,
    pub(crate) reads: bool,
    pub(crate) sends: Option<RegionId>,
    pub(crate) lines: RegionId,
}

impl TopicRole {
    pub(crate) fn encode(&self) -> Vec<u8> {
        (((self.topic, self.reads), self.sends), self.lines).to_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<TopicRole> {
        let (((topic, reads), sends), lines) = Wire::from_bytes(bytes)?;
        Some(TopicRole { topic, reads, sends, lines })
    }
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Topics(pub(crate) BTreeMap<(u64, NodeId), TopicRole>);

impl ReplicatedState for Topics {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u64> {
        let part = TopicRole::decode(message).expect("members send only declarations of parts");
        match part.reads || part.sends.is_some() {
            true => self.0.insert((part.topic, from), part),
            false => self.0.remove(&(part.topic, from)),
        };
        vec![part.topic]
    }

    fn forget(&mut self, node: NodeId) {
        self.0.retain(|(_, known), _| *known != node);
    }

    fn keys(&self) -> Vec<u64> {
        let mut keys: Vec<u64> = self.0.keys().map(|(topic, _)| *topic).collect();
        keys.dedup();
        keys
    }

    fn layout(&self, key: u64, view: &View) -> Layout {
        let part = |node| self.0.get(&(key, node));
        let seats = view.members.iter().filter_map(|member| {
            let TopicRole { reads, sends, lines, .. } = *part(member.node)?;
            Some(LayoutMember { node: member.node, reads, sends, lines })
        });
        Layout { level: level_of(key), members: seats.collect() }
    }

    fn snapshot(&self) -> Vec<u8> {
        let parts = self.0.iter().map(|((_, node), part)| (*node, part.encode()));
        parts.collect::<Vec<_>>().to_bytes()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        let Some(parts) = Vec::<(NodeId, Vec<u8>)>::from_bytes(bytes) else { return false };
        self.0.clear();
        parts.iter().for_each(|(node, part)| drop(self.apply(*node, part)));
        true
    }
}
