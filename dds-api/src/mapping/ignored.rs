//! What a participant wants to know nothing of: the standard's `ignore_..`.
//!
//! Owns: the names of that. Never does: tell anybody; the others go on as if nothing were (I-187).

use std::collections::BTreeSet;

use derecho_core::ids::NodeId;

/// See the [module](self).
#[derive(Clone, Default, Debug)]
pub(crate) struct Ignored {
    participants: BTreeSet<NodeId>,
    /// The names of topics, whoever has them.
    topics: BTreeSet<String>,
    endpoints: BTreeSet<(NodeId, u64)>,
}

impl Ignored {
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

    /// Whether topics of others of this name are ignored.
    pub(crate) fn has_topic(&self, name: &str) -> bool {
        self.topics.contains(name)
    }

    /// Whether a topic that another participant has is ignored.
    pub(crate) fn hides_topic(&self, node: NodeId, name: &str) -> bool {
        self.has_participant(node) || self.has_topic(name)
    }

    /// Whether an endpoint that another participant has is ignored, whatever its topic.
    pub(crate) fn hides_any(&self, node: NodeId, id: u64) -> bool {
        self.has_participant(node) || self.endpoints.contains(&(node, id))
    }

    /// Whether an endpoint of this topic that another participant has is ignored.
    pub(crate) fn hides(&self, node: NodeId, id: u64, topic: &str) -> bool {
        self.hides_any(node, id) || self.has_topic(topic)
    }
}
