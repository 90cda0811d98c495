//! Entities that a participant ignores by the standard's `ignore_..` calls.
//!
//! Owns: their names. Never does: notify anyone; the other participants are unaffected (I-187).

use std::collections::BTreeSet;

use derecho_core::ids::NodeId;

/// See the [module](self).
#[derive(Clone, Default, Debug)]
pub(crate) struct IgnoredEntities {
    participants: BTreeSet<NodeId>,
    /// Names of topics, on all other participants.
    topics: BTreeSet<String>,
    endpoints: BTreeSet<(NodeId, u64)>,
}

impl IgnoredEntities {
    pub(super) fn add_participant(&mut self, node: NodeId) {
        self.participants.insert(node);
    }

    pub(super) fn add_topic(&mut self, name: String) {
        self.topics.insert(name);
    }

    pub(super) fn add_endpoint(&mut self, node: NodeId, id: u64) {
        self.endpoints.insert((node, id));
    }

    /// Whether another participant is ignored.
    pub(crate) fn has_participant(&self, node: NodeId) -> bool {
        self.participants.contains(&node)
    }

    /// Whether other participants' topics of this name are ignored.
    pub(crate) fn has_topic(&self, name: &str) -> bool {
        self.topics.contains(name)
    }

    /// Whether a topic of another participant is ignored.
    pub(crate) fn hides_topic(&self, node: NodeId, name: &str) -> bool {
        self.has_participant(node) || self.has_topic(name)
    }

    /// Whether an endpoint of another participant is ignored, independent of its topic.
    pub(crate) fn hides_any(&self, node: NodeId, id: u64) -> bool {
        self.has_participant(node) || self.endpoints.contains(&(node, id))
    }

    /// Whether an endpoint of another participant on this topic is ignored.
    pub(crate) fn hides(&self, node: NodeId, id: u64, topic: &str) -> bool {
        self.hides_any(node, id) || self.has_topic(topic)
    }
}
