//! Metadata that follows from a writer's policies and accompanies its samples.
//!
//! Owns: the content of this metadata, and its size. Never does: write it into a record.

use std::sync::Arc;

use qos_profiles::{
    DataWriterQos, DestinationOrderQosPolicyKind, OwnershipQosPolicyKind, PartitionQosPolicy,
    PresentationQosPolicy, PresentationQosPolicyAccessScopeKind, PublisherQos,
};

use super::{EXPIRY, NAMES_LENGTH, OFFER, STRENGTH, TAG};

/// Policies of a writer that its records repeat, because a departed writer has announced them
/// nowhere else (I-193). A set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RecordedOffer(u8);

impl RecordedOffer {
    /// PRESENTATION: coherent access, and group access scope.
    const COHERENT: u8 = 1;
    const GROUP: u8 = 2;
    /// OWNERSHIP is exclusive.
    const EXCLUSIVE: u8 = 4;
    /// DESTINATION_ORDER is by source timestamps.
    const BY_SOURCE: u8 = 8;
    /// Number of combinations.
    pub(crate) const COUNT: usize = 16;

    /// The combination with this index.
    pub(crate) fn at(index: usize) -> RecordedOffer {
        RecordedOffer((index % RecordedOffer::COUNT) as u8)
    }

    /// Index of this combination.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether OWNERSHIP is exclusive.
    pub(crate) fn is_exclusive(self) -> bool {
        self.0 & RecordedOffer::EXCLUSIVE != 0
    }

    /// Combination offered by a writer with these policies.
    pub(crate) fn of(writer: &DataWriterQos, publisher: &PublisherQos) -> RecordedOffer {
        let PresentationQosPolicy { coherent_access, access_scope, .. } = publisher.presentation;
        let by_source = DestinationOrderQosPolicyKind::BySourceTimestamp;
        let all = [
            (RecordedOffer::COHERENT, coherent_access),
            (RecordedOffer::GROUP, access_scope == PresentationQosPolicyAccessScopeKind::Group),
            (RecordedOffer::EXCLUSIVE, writer.ownership.kind == OwnershipQosPolicyKind::Exclusive),
            (RecordedOffer::BY_SOURCE, writer.destination_order.kind == by_source),
        ];
        RecordedOffer(all.into_iter().filter(|(_, has)| *has).fold(0, |bits, (bit, _)| bits | bit))
    }

    /// Sets these policies. All other policies stay at their defaults.
    pub(crate) fn put_into(self, writer: &mut DataWriterQos, publisher: &mut PublisherQos) {
        let has = |bit| self.0 & bit != 0;
        publisher.presentation.coherent_access = has(RecordedOffer::COHERENT);
        if has(RecordedOffer::GROUP) {
            publisher.presentation.access_scope = PresentationQosPolicyAccessScopeKind::Group;
        }
        if has(RecordedOffer::EXCLUSIVE) {
            writer.ownership.kind = OwnershipQosPolicyKind::Exclusive;
        }
        if has(RecordedOffer::BY_SOURCE) {
            writer.destination_order.kind = DestinationOrderQosPolicyKind::BySourceTimestamp;
        }
    }

    #[inline(always)]
    pub(super) fn flags(self) -> u32 {
        u32::from(self.0) << OFFER
    }
}

/// Metadata of a writer's samples, constant until its policies change.
#[derive(Clone, Default, Debug)]
pub(crate) struct PolicyMetadata {
    /// OWNERSHIP_STRENGTH.
    pub(crate) strength: i32,
    /// PARTITION: the names, separated by NUL; `None` without names.
    pub(crate) partition: Option<Arc<[u8]>>,
    /// Whether samples carry keys even if they are not kept. Needed for DEADLINE, which times
    /// each instance.
    pub(crate) keyed: bool,
    /// Offered policies that differ from the defaults.
    pub(crate) offer: RecordedOffer,
    /// Tag of the topic, if several topics share an order; on an unordered topic the time of the
    /// commit, if the record states that; otherwise zero.
    pub(crate) tag: u64,
    /// LIFESPAN in nanoseconds after the timestamp; `None` if samples never expire.
    pub(crate) lifespan: Option<u64>,
}

impl PolicyMetadata {
    /// Number of bytes behind a payload, without the key hash.
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        let names = self.partition.as_ref().map_or(0, |names| names.len() + NAMES_LENGTH);
        let tag = if self.tag != 0 { TAG } else { 0 };
        let expiry = if self.lifespan.is_some() { EXPIRY } else { 0 };
        names + tag + expiry + if self.strength != 0 { STRENGTH } else { 0 }
    }

    /// Metadata of a record whose time of commit is stated. The time is known later.
    pub(crate) fn stating_commit(self) -> PolicyMetadata {
        self.committed_at(1)
    }

    /// Metadata of a record that states this time of commit.
    pub(crate) fn committed_at(self, time: u64) -> PolicyMetadata {
        PolicyMetadata { tag: time.max(1), ..self }
    }

    /// Metadata of a coherent set of such samples.
    pub(crate) fn of_set(self) -> PolicyMetadata {
        PolicyMetadata { strength: 0, keyed: false, ..self }
    }

    /// Partition names in the form in which they are sent; `None` for the default partition.
    pub(crate) fn names(partition: &PartitionQosPolicy) -> Option<Arc<[u8]>> {
        let names = partition.name.join("\0").into_bytes();
        (partition.name.len() > 1 || !names.is_empty()).then(|| names.into())
    }
}

/// The partitions for names in the form in which they are sent.
pub(crate) fn partition(names: &[u8]) -> PartitionQosPolicy {
    let names = names.split(|byte| *byte == 0);
    PartitionQosPolicy { name: names.map(|name| String::from_utf8_lossy(name).into()).collect() }
}
