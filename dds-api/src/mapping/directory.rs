//! Announcements of participants about themselves and their topics: a part of the state that the
//! domain's group replicates (I-180).
//!
//! Owns: these announcements, and their encoding (CDR, like any sample). Never does: decide
//! anything by them: writers and readers are matched by their own announcements, which contain
//! everything necessary for that.

use std::collections::{BTreeMap, BTreeSet};

use derecho_core::bytes::Wire;
use derecho_core::ids::NodeId;
use idl_cdr::{DdsType, from_cdr, to_cdr};
use qos_profiles::{EntityKind, EntityQos, TopicDataQosPolicy, TopicQos};

use super::endpoint::Endpoint;
use super::level::{TopicLevel, TopicRetention};
use super::order::TopicOrder;
use super::policies::{PolicySetting, decoded_over, settings_beyond};
use super::type_identity::TypeIdentity;
use crate::infrastructure::InstanceHandle;

/// Maximum number of topics of one participant. Further ones are ignored.
const MOST_TOPICS: usize = 1 << 16;

/// Announcement of a participant about itself.
#[derive(DdsType, Clone, PartialEq, Eq, Debug, Default)]
#[dds(crate = "idl_cdr")]
pub(crate) struct ParticipantFacts {
    pub(crate) user_data: Vec<u8>,
}

/// Announcement of a participant about one of its topics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TopicFacts {
    pub(crate) name: String,
    pub(crate) data_type: TypeIdentity,
    pub(crate) level: TopicLevel,
    pub(crate) order: TopicOrder,
    pub(crate) retention: TopicRetention,
    pub(crate) qos: TopicQos,
}

/// Encoded form of [`TopicFacts`].
#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct EncodedTopicFacts {
    name: String,
    data_type: TypeIdentity,
    level: TopicLevel,
    order: TopicOrder,
    retention: TopicRetention,
    settings: Vec<PolicySetting>,
}

impl ParticipantFacts {
    pub(crate) fn encode(&self) -> Vec<u8> {
        to_cdr(self).expect("facts of a participant have no bounded members")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        from_cdr(bytes).ok()
    }
}

impl TopicFacts {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let TopicFacts { name, data_type, level, order, retention: keeping, qos } = self.clone();
        let settings = settings_beyond(&EntityKind::Topic.default_qos(), &qos.into());
        to_cdr(&EncodedTopicFacts { name, data_type, level, order, retention: keeping, settings })
            .expect("facts of a topic have no bounded members")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let EncodedTopicFacts { name, data_type, level, order, retention: keeping, settings } =
            from_cdr(bytes).ok()?;
        match decoded_over(EntityKind::Topic.default_qos(), settings)? {
            EntityQos::Topic(qos) => {
                Some(TopicFacts { name, data_type, level, order, retention: keeping, qos })
            }
            _ => None,
        }
    }
}

/// An endpoint, its handle, and TOPIC_DATA of its topic.
pub(crate) type KnownEndpoint = (InstanceHandle, Endpoint, TopicDataQosPolicy);

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Directory {
    participants: BTreeMap<NodeId, ParticipantFacts>,
    topics: BTreeMap<NodeId, BTreeMap<u64, TopicFacts>>,
    /// The topics by name.
    names: BTreeMap<String, BTreeSet<(NodeId, u64)>>,
}

impl Directory {
    /// Topics of this name, with participant, id and announcement.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = (NodeId, u64, &TopicFacts)> {
        let all = self.names.get(name).into_iter().flatten();
        all.filter_map(|&(node, id)| Some((node, id, self.topic(node, id)?)))
    }

    /// Participants that have announced themselves.
    pub(crate) fn participants(&self) -> impl Iterator<Item = (NodeId, &ParticipantFacts)> {
        self.participants.iter().map(|(node, data)| (*node, data))
    }

    /// Announcement of a participant about itself.
    pub(crate) fn participant(&self, node: NodeId) -> Option<&ParticipantFacts> {
        self.participants.get(&node)
    }

    /// Ids of a participant's topics.
    pub(super) fn topics_of(&self, node: NodeId) -> Vec<u64> {
        self.topics.get(&node).into_iter().flatten().map(|(id, _)| *id).collect()
    }

    /// All topics, with participant and id.
    pub(crate) fn topics(&self) -> impl Iterator<Item = (NodeId, u64, &TopicFacts)> {
        let all = self.topics.iter();
        all.flat_map(|(node, all)| all.iter().map(move |(id, data)| (*node, *id, data)))
    }

    /// Announcement of a participant about the topic of its endpoint.
    pub(crate) fn topic_of(&self, node: NodeId, endpoint: &Endpoint) -> Option<&TopicFacts> {
        let mut named = self.named(&endpoint.topic);
        let is_it =
            |of: NodeId, data: &TopicFacts| of == node && data.data_type == endpoint.data_type;
        named.find(|(of, _, data)| is_it(*of, data)).map(|(_, _, data)| data)
    }

    /// Announcement about a topic.
    pub(crate) fn topic(&self, node: NodeId, id: u64) -> Option<&TopicFacts> {
        self.topics.get(&node)?.get(&id)
    }

    /// Stores a participant's announcement about itself.
    pub(super) fn introduced(&mut self, node: NodeId, data: ParticipantFacts) {
        self.participants.insert(node, data);
    }

    /// Stores the announcement of a topic.
    pub(super) fn announced(&mut self, node: NodeId, id: u64, data: TopicFacts) {
        let of_node = self.topics.entry(node).or_default();
        if of_node.len() >= MOST_TOPICS && !of_node.contains_key(&id) {
            tracing::warn!(%node, "topic ignored: its participant announces too many");
            return;
        }
        self.retracted(node, id);
        self.names.entry(data.name.clone()).or_default().insert((node, id));
        self.topics.entry(node).or_default().insert(id, data);
    }

    /// Removes a topic.
    pub(super) fn retracted(&mut self, node: NodeId, id: u64) {
        let Some(data) = self.topics.get_mut(&node).and_then(|all| all.remove(&id)) else { return };
        if let Some(named) = self.names.get_mut(&data.name) {
            named.remove(&(node, id));
            if named.is_empty() {
                self.names.remove(&data.name);
            }
        }
    }

    /// Removes the announcements of a departed participant.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.topics_of(node).into_iter().for_each(|id| self.retracted(node, id));
        self.topics.remove(&node);
        self.participants.remove(&node);
    }

    /// All announcements, for a state transfer to a new member.
    pub(super) fn snapshot(&self) -> Vec<u8> {
        let participants: Vec<(NodeId, Vec<u8>)> =
            self.participants.iter().map(|(node, data)| (*node, data.encode())).collect();
        let of_node = |(node, all): (&NodeId, &BTreeMap<u64, TopicFacts>)| {
            all.iter().map(|(id, data)| ((*node, *id), data.encode())).collect::<Vec<_>>()
        };
        let topics: Vec<((NodeId, u64), Vec<u8>)> = self.topics.iter().flat_map(of_node).collect();
        (participants, topics).to_bytes()
    }

    /// The directory from a snapshot; `None` if the bytes are invalid.
    pub(super) fn restored(bytes: &[u8]) -> Option<Directory> {
        type Participants = Vec<(NodeId, Vec<u8>)>;
        type Topics = Vec<((NodeId, u64), Vec<u8>)>;
        let (participants, topics) = <(Participants, Topics)>::from_bytes(bytes)?;
        let mut directory = Directory::default();
        for (node, bytes) in participants {
            directory.introduced(node, ParticipantFacts::decode(&bytes)?);
        }
        for ((node, id), bytes) in topics {
            directory.announced(node, id, TopicFacts::decode(&bytes)?);
        }
        Some(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn topic(name: &str, data: &[u8]) -> TopicFacts {
        let data_type =
            TypeIdentity { name: "T".into(), digest: [1; 14], layout: 2, evolves: false };
        let (level, retention) = (TopicLevel::Atomic, TopicRetention::default());
        let mut qos = TopicQos::default();
        qos.topic_data.value = data.into();
        TopicFacts {
            name: name.into(),
            data_type,
            level,
            order: TopicOrder::ByPartition,
            retention,
            qos,
        }
    }

    #[test]
    fn directory_decodes_its_announcements_and_rejects_truncated_bytes() {
        let (node, what) =
            (ParticipantFacts { user_data: vec![1, 2, 3] }, topic("Attitude", &[9; 5]));
        assert_eq!(ParticipantFacts::decode(&node.encode()), Some(node.clone()));
        let bytes = what.encode();
        assert_eq!(TopicFacts::decode(&bytes), Some(what.clone()));
        for end in 0..bytes.len() - 4 {
            assert_eq!(TopicFacts::decode(&bytes[..end]), None);
        }
        let mut directory = Directory::default();
        directory.introduced(A, node);
        directory.announced(A, 7, what);
        let bytes = directory.snapshot();
        assert_eq!(Directory::restored(&bytes).unwrap().snapshot(), bytes);
        assert!(Directory::restored(&bytes[..bytes.len() - 1]).is_none());
    }

    #[test]
    fn directory_finds_topics_by_name_while_they_are_announced() {
        let mut directory = Directory::default();
        directory.announced(A, 7, topic("a", &[]));
        directory.announced(B, 3, topic("a", &[1]));
        let named = |directory: &Directory| {
            directory.named("a").map(|(node, id, _)| (node, id)).collect::<Vec<_>>()
        };
        assert_eq!(named(&directory), [(A, 7), (B, 3)]);
        directory.announced(A, 7, topic("b", &[]));
        assert_eq!(named(&directory), [(B, 3)], "topic 7 of A has another name");
        directory.forget(B);
        directory.retracted(A, 7);
        assert!(directory.names.is_empty());
    }
}
