//! Announcements of a participant about its writers and readers.
//!
//! Owns: the announcement's content and encoding (CDR, like any sample), and the rule by which a
//! reader and a writer match: topic, type, PARTITION, and offered and requested policies. Never
//! does: trust a peer's announcement beyond decoding it.

use std::sync::Arc;

use idl_cdr::{DdsType, from_cdr, to_cdr};
use qos_profiles::Incompatibility;

use super::level::{TopicLevel, TopicRetention};
use super::order::{TopicOrder, shard};
use super::policies::{EndpointPolicies, PolicySetting};
use super::type_identity::{AnnouncedTypes, TypeIdentity};

/// Role of an endpoint.
#[derive(DdsType, Clone, Copy, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr")]
pub(crate) enum EndpointKind {
    Writer,
    Reader,
    /// Stands for a former reader of an ordered topic whose application still holds samples.
    FormerReader,
    /// Stands for a participant's log of the topic.
    Log,
}

/// An endpoint in its announced form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Endpoint {
    pub(crate) kind: EndpointKind,
    pub(crate) topic: String,
    pub(crate) data_type: TypeIdentity,
    pub(crate) level: TopicLevel,
    /// The scope of the topic's order.
    pub(crate) order: TopicOrder,
    /// Retention of the topic, if its samples are kept.
    pub(crate) retention: TopicRetention,
    /// A writer's stream; zero for a reader.
    pub(crate) stream: u64,
    /// For an ordered topic: the region in which the participant shows its progress.
    pub(crate) lines: u64,
    /// Id of the endpoint's publisher or subscriber in its participant; zero if it has none of
    /// its own.
    pub(crate) group: u64,
    /// Whether a writer keeps its lease, or has none to keep.
    pub(crate) alive: bool,
    /// Offered or requested policies.
    pub(crate) policies: Arc<EndpointPolicies>,
}

/// Encoded form of an endpoint.
#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct EncodedEndpoint {
    kind: EndpointKind,
    topic: String,
    data_type: TypeIdentity,
    level: TopicLevel,
    order: TopicOrder,
    retention: TopicRetention,
    stream: u64,
    lines: u64,
    group: u64,
    alive: bool,
    settings: Vec<PolicySetting>,
}

/// Relation of a reader and a writer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum MatchVerdict {
    Yes,
    /// The topics differ.
    OtherTopic,
    /// The endpoints have no common partition.
    OtherPartition,
    /// The writer offers less than the reader requests.
    Incompatible(Vec<Incompatibility>),
    /// The endpoints name the same topic but cannot communicate. The text says why.
    Inconsistent(String),
}

impl Endpoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let endpoint = self.clone();
        let Endpoint { kind, topic, data_type, level, order, retention: keeping, .. } = endpoint;
        let Endpoint { stream, lines, group, alive, policies, .. } = endpoint;
        let settings = policies.settings(level);
        let announced = EncodedEndpoint {
            kind,
            topic,
            data_type,
            level,
            order,
            retention: keeping,
            stream,
            lines,
            group,
            alive,
            settings,
        };
        to_cdr(&announced).expect("announcement of an endpoint has no bounded members")
    }

    /// The endpoint in a peer's announcement, if there is one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Endpoint> {
        let announced: EncodedEndpoint = from_cdr(bytes).ok()?;
        let EncodedEndpoint { kind, topic, data_type, level, order, retention: keeping, .. } =
            announced;
        let EncodedEndpoint { stream, lines, group, alive, settings, .. } = announced;
        let policies = Arc::new(EndpointPolicies::decoded_with(
            kind == EndpointKind::Writer,
            level,
            settings,
        )?);
        let endpoint = Endpoint {
            kind,
            topic,
            data_type,
            level,
            order,
            retention: keeping,
            stream,
            lines,
            group,
            alive,
            policies,
        };
        // Several partitions, or a pattern, determine no stream.
        let is_somewhere =
            !endpoint.order.is_by_partition() || shard(endpoint.policies.partition()).is_some();
        is_somewhere.then_some(endpoint)
    }

    /// A stand-in on this endpoint's topic, for a participant that neither writes nor reads there.
    pub(crate) fn stand_in(&self, kind: EndpointKind, stream: u64, lines: u64) -> Endpoint {
        let mut policies = EndpointPolicies::requested(self.level);
        if self.order.is_by_partition() {
            policies.partition_mut().clone_from(self.policies.partition());
        }
        Endpoint { kind, stream, lines, group: 0, policies: Arc::new(policies), ..self.clone() }
    }

    /// Key of the topic's subgroup. Endpoints that share an order have the same key.
    pub(crate) fn key(&self) -> u64 {
        let partition = self.policies.partition();
        let by_partition = self.order.is_by_partition();
        let shard = if by_partition { shard(partition).unwrap_or("") } else { "" };
        self.order.key(&self.topic, &self.data_type, shard)
    }

    /// Whether another announcement of this endpoint leaves its part in the topic unchanged.
    pub(crate) fn takes_part_as(&self, other: &Endpoint) -> bool {
        let regions =
            |it: &Endpoint| (it.kind, it.key(), it.level, it.retention, it.stream, it.lines);
        regions(self) == regions(other)
    }

    /// Whether this reader receives samples of that writer (I-172).
    pub(crate) fn matches(&self, writer: &Endpoint, types: &AnnouncedTypes) -> MatchVerdict {
        if self.topic != writer.topic {
            return MatchVerdict::OtherTopic;
        }
        if let Some(why) = self.contradicts(writer) {
            return MatchVerdict::Inconsistent(why);
        }
        if let Some(why) = self.type_conflict(writer, types) {
            return MatchVerdict::Inconsistent(why);
        }
        if !self.policies.partition().meets(writer.policies.partition()) {
            return MatchVerdict::OtherPartition;
        }
        let refused = self.policies.refuses(&writer.policies);
        if refused.is_empty() { MatchVerdict::Yes } else { MatchVerdict::Incompatible(refused) }
    }

    /// Reason why two endpoints of the same topic name contradict each other; `None` if they
    /// do not.
    pub(crate) fn contradicts(&self, other: &Endpoint) -> Option<String> {
        let (ours, theirs) = (&self.data_type, &other.data_type);
        if ours.name != theirs.name {
            return Some(format!(
                "topic `{}` has type `{}` here and `{}` there: give one of the two topics \
                 another name",
                self.topic, ours.name, theirs.name
            ));
        }
        if let Some(why) = self.stream_conflict(other, &format!("topic `{}`", self.topic)) {
            return Some(why);
        }
        if self.order != other.order {
            return Some(format!(
                "topic `{}` has {} in one participant and {} in the other: use the same order in \
                 all participants",
                self.topic, self.order, other.order
            ));
        }
        (self.level.is_ordered() && !ours.shares_order(theirs)).then(|| {
            format!(
                "type `{}` of topic `{}` is final, and differs there: samples in one order have \
                 one type; build both from the same declaration, or make the type appendable or \
                 mutable",
                ours.name, self.topic
            )
        })
    }

    /// Reason why two endpoints cannot be in one stream: all its samples have one level and one
    /// retention. `what` names the stream.
    fn stream_conflict(&self, other: &Endpoint, what: &str) -> Option<String> {
        if self.level != other.level {
            return Some(format!(
                "{what} is {} here and {} there: use the same level in all participants",
                self.level, other.level
            ));
        }
        (self.retention != other.retention).then(|| {
            format!(
                "{what} keeps {} here and {} there: use the same settings in all participants",
                self.retention, other.retention
            )
        })
    }

    /// Reason why two endpoints with the same stream key cannot share the stream; `None` if they
    /// can (I-210).
    pub(crate) fn sharing_conflict(&self, other: &Endpoint) -> Option<String> {
        if let Some(order) = self.order.common().filter(|_| self.order == other.order) {
            let what =
                format!("common order `{order}` (topics `{}`, `{}`)", self.topic, other.topic);
            return self.stream_conflict(other, &what);
        }
        match self.topic == other.topic {
            true => self.contradicts(other),
            false => Some(format!(
                "topics `{}` and `{}` have the same key: give one of them another name",
                self.topic, other.topic
            )),
        }
    }

    /// Reason why this reader cannot read samples of that writer's type; `None` if it can.
    pub(crate) fn type_conflict(
        &self,
        writer: &Endpoint,
        types: &AnnouncedTypes,
    ) -> Option<String> {
        let (ours, theirs) = (&self.data_type, &writer.data_type);
        let (name, topic) = (&ours.name, &self.topic);
        if let Err(why) = types.check(ours, self.policies.consistency(), theirs) {
            return Some(format!(
                "the writer's type `{name}` of topic `{topic}` is not assignable to the reader's: \
                 {why}"
            ));
        }
        // Plain samples of the writer are read by its announced layout (I-174).
        let alike = theirs.layout == 0 || ours.layout == theirs.layout;
        let is_known = || types.layout(theirs).is_some() && ours.mark() != theirs.mark();
        (!alike && !is_known()).then(|| {
            format!(
                "type `{name}` of topic `{topic}` has different memory layouts in reader and \
                 writer, and the writer's layout is not announced: build both with the same \
                 compiler, or give the type #[repr(C)]"
            )
        })
    }
}

#[cfg(test)]
impl Endpoint {
    /// An endpoint with default settings, of a made-up type.
    pub(super) fn with_defaults(kind: EndpointKind, topic: &str, level: TopicLevel) -> Endpoint {
        let digest = [1; 14];
        let data_type = TypeIdentity { name: "T".into(), digest, layout: 2, evolves: false };
        let policies = match kind {
            EndpointKind::Writer => EndpointPolicies::offered(level),
            _ => EndpointPolicies::requested(level),
        };
        Endpoint {
            kind,
            topic: topic.into(),
            data_type,
            level,
            order: TopicOrder::Own,
            retention: TopicRetention::default(),
            stream: 0,
            lines: 0,
            group: 0,
            alive: true,
            policies: policies.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use qos_profiles::{PolicyId, ReliabilityQosPolicyKind};

    use super::*;

    fn endpoint(kind: EndpointKind, topic: &str) -> Endpoint {
        let default = Endpoint::with_defaults(kind, topic, TopicLevel::Unordered);
        Endpoint { stream: 16, group: 3, ..default }
    }

    fn within(mut endpoint: Endpoint, names: &[&str]) -> Endpoint {
        let policies = Arc::make_mut(&mut endpoint.policies);
        policies.partition_mut().name = names.iter().map(|name| (*name).to_owned()).collect();
        endpoint
    }

    #[test]
    fn announcement_decodes_as_encoded_and_is_rejected_when_truncated() {
        for writer in [
            endpoint(EndpointKind::Writer, "Attitude"),
            within(endpoint(EndpointKind::Writer, "Attitude"), &["left", "right"]),
        ] {
            let bytes = writer.encode();
            assert_eq!(Endpoint::decode(&bytes), Some(writer));
            for end in 0..bytes.len() - 4 {
                assert_eq!(Endpoint::decode(&bytes[..end]), None);
            }
        }
    }

    #[test]
    fn match_requires_same_topic_same_level_and_understood_type() {
        let types = AnnouncedTypes::default();
        let reader = endpoint(EndpointKind::Reader, "A");
        let mut writer = endpoint(EndpointKind::Writer, "A");
        let matches = |writer: &Endpoint| reader.matches(writer, &types);
        assert_eq!(matches(&writer), MatchVerdict::Yes);
        assert_eq!(matches(&endpoint(EndpointKind::Writer, "B")), MatchVerdict::OtherTopic);
        let why = |writer: &Endpoint| match matches(writer) {
            MatchVerdict::Inconsistent(why) => why,
            other => panic!("{other:?}"),
        };
        writer.data_type.layout = 3;
        assert!(why(&writer).contains("repr(C)"));
        writer.data_type.digest = [3; 14];
        assert!(why(&writer).contains("has not been announced"));
        writer.level = TopicLevel::Atomic;
        assert!(why(&writer).contains("atomic"));
        writer.data_type.name = "U".into();
        assert!(why(&writer).contains("`U`"));
    }

    /// Endpoints of different type versions share a subgroup only if the type may change.
    #[test]
    fn only_versions_of_evolving_type_share_a_subgroup() {
        let of = |digest, evolves| {
            let mut writer = endpoint(EndpointKind::Writer, "A");
            writer.level = TopicLevel::Atomic;
            let (name, digest) = ("T".into(), [digest; 14]);
            writer.data_type = TypeIdentity { name, digest, layout: 0, evolves };
            writer
        };
        assert_eq!(of(1, true).key(), of(2, true).key());
        assert_eq!(of(1, true).contradicts(&of(2, true)), None);
        assert_ne!(of(1, false).key(), of(2, false).key());
        let why = of(1, false).contradicts(&of(2, false)).unwrap();
        assert!(why.contains("appendable"), "{why}");
        assert_ne!(of(1, true).key(), of(1, false).key());
    }

    #[test]
    fn match_requires_common_partition_and_sufficient_offer() {
        let reader = within(endpoint(EndpointKind::Reader, "A"), &["l*"]);
        let writer = |names: &[&str]| within(endpoint(EndpointKind::Writer, "A"), names);
        let types = AnnouncedTypes::default();
        assert_eq!(reader.matches(&writer(&[]), &types), MatchVerdict::OtherPartition);
        assert_eq!(reader.matches(&writer(&["right", "left"]), &types), MatchVerdict::Yes);
        let mut lesser = writer(&["left"]);
        if let EndpointPolicies::Offered { writer, .. } = Arc::make_mut(&mut lesser.policies) {
            writer.reliability.kind = ReliabilityQosPolicyKind::BestEffort;
        }
        let MatchVerdict::Incompatible(why) = reader.matches(&lesser, &types) else {
            panic!("best-effort offer is incompatible")
        };
        assert_eq!(why.iter().map(|why| why.policy).collect::<Vec<_>>(), [PolicyId::Reliability]);
    }

    #[test]
    fn sharded_topic_has_one_key_per_partition() {
        let mut one = within(endpoint(EndpointKind::Writer, "A"), &["left"]);
        let other = within(one.clone(), &["right"]);
        assert_eq!(one.key(), other.key());
        one.order = TopicOrder::ByPartition;
        let other = within(one.clone(), &["right"]);
        assert_ne!(one.key(), other.key());
        assert_eq!(within(one.clone(), &[]).key(), endpoint(EndpointKind::Writer, "A").key());
        for names in [&["left", "right"][..], &["l*"]] {
            assert_eq!(Endpoint::decode(&within(one.clone(), names).encode()), None);
        }
    }
}
