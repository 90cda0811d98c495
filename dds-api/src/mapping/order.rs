//! The scope of an order: which topics, and which parts of a topic, share a stream.
//!
//! Owns: the key of that stream, which is equal for all endpoints of one order. Never does: decide
//! which endpoints take part.

use std::fmt;

use derecho_core::group::CONTROL;
use idl_cdr::DdsType;
use qos_profiles::{Glob, PartitionQosPolicy};

use super::level::TopicLevel;
use super::type_identity::TypeIdentity;
use crate::infrastructure::{DdsError, DdsResult};

/// Maximum length of the name of a common order in bytes, as of a topic.
const LONGEST_NAME: usize = 255;

/// Scope of the order of an ordered topic's samples.
#[derive(DdsType, Clone, PartialEq, Eq, Debug, Default)]
#[dds(crate = "idl_cdr", union, discriminator = "u8")]
pub(crate) enum TopicOrder {
    /// The whole topic, and no other one.
    #[default]
    #[dds(case = 0)]
    Own,
    /// Each partition has an order of its own.
    #[dds(case = 1)]
    ByPartition,
    /// One order for all topics that name the same common order (I-210).
    #[dds(case = 2)]
    Common(String),
}

impl TopicOrder {
    /// Whether each partition is a stream by itself.
    pub(crate) fn is_by_partition(&self) -> bool {
        *self == TopicOrder::ByPartition
    }

    /// Name of the common order, if there is one.
    pub(crate) fn common(&self) -> Option<&str> {
        match self {
            TopicOrder::Common(name) => Some(name),
            _ => None,
        }
    }

    /// Checks whether a topic of this level can have this order.
    ///
    /// # Errors
    /// If it cannot.
    pub(crate) fn check(&self, topic: &str, level: TopicLevel) -> DdsResult<()> {
        let wrong = match self.common() {
            Some("") => "it has no name",
            Some(name) if name.len() > LONGEST_NAME => "its name has more than 255 bytes",
            Some(_) if !level.is_ordered() => {
                "an unordered topic has no order: make the topic atomic"
            }
            Some(_) if level.is_logged() => {
                "a log belongs to one topic, so logged topics share no order: make the topic \
                 transient_local, or leave the common order out"
            }
            _ => return Ok(()),
        };
        Err(DdsError::InconsistentPolicy(format!("the common order of topic `{topic}`: {wrong}")))
    }

    /// Key of the subgroup for a topic of this name and type, or for a shard of it.
    pub(crate) fn key(&self, topic: &str, data_type: &TypeIdentity, shard: &str) -> u64 {
        let key = match self {
            TopicOrder::Common(name) => {
                TopicKeyHash::new().add(b"common order").add(name.as_bytes()).0
            }
            TopicOrder::Own | TopicOrder::ByPartition => topic_key(topic, data_type, shard),
        };
        // The key of the control stream belongs to no topic.
        if key == CONTROL { !CONTROL } else { key }
    }

    /// Tag of a topic's records in a common order; zero if the order is not shared.
    pub(crate) fn tag(&self, topic: &str) -> u64 {
        match self {
            TopicOrder::Common(_) => TopicKeyHash::new().add(topic.as_bytes()).0.max(1),
            TopicOrder::Own | TopicOrder::ByPartition => 0,
        }
    }
}

impl fmt::Display for TopicOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicOrder::Own => f.write_str("one order of its own"),
            TopicOrder::ByPartition => f.write_str("one order for each partition"),
            TopicOrder::Common(name) => write!(f, "the common order `{name}`"),
        }
    }
}

/// The single partition of an endpoint of a sharded topic; `None` if the endpoint may be
/// in several.
pub(crate) fn shard(partition: &PartitionQosPolicy) -> Option<&str> {
    match &partition.name[..] {
        [] => Some(""),
        [name] if !Glob::is_pattern(name) => Some(name),
        _ => None,
    }
}

fn topic_key(topic: &str, data_type: &TypeIdentity, shard: &str) -> u64 {
    let TypeIdentity { name, digest, evolves, .. } = data_type;
    let key = TopicKeyHash::new().add(topic.as_bytes()).add(name.as_bytes());
    // All versions of a type that may change share an order.
    let key = match evolves {
        true => key.add(b"evolves"),
        false => key.add(digest),
    };
    if shard.is_empty() { key.0 } else { key.add(shard.as_bytes()).0 }
}

/// A hash of several parts: FNV-1a, equal in every process.
struct TopicKeyHash(u64);

impl TopicKeyHash {
    fn new() -> TopicKeyHash {
        TopicKeyHash(0xcbf2_9ce4_8422_2325)
    }

    fn add(mut self, bytes: &[u8]) -> TopicKeyHash {
        // The length comes first, so that different divisions into parts have different hashes.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self
    }
}
