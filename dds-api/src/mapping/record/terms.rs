//! What goes with the samples of a writer by its policies.
//!
//! Owns: what a record says of them, and how many bytes that takes. Never does: write it into one.

use std::sync::Arc;

use qos_profiles::{
    DataWriterQos, DestinationOrderQosPolicyKind, OwnershipQosPolicyKind, PartitionQosPolicy,
    PresentationQosPolicy, PresentationQosPolicyAccessScopeKind, PublisherQos,
};

use super::{EXPIRY, NAMES_LENGTH, OFFER, STRENGTH, TAG};

/// What a record says of its writer's policies: who is gone has said it nowhere else (I-193). A set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Offer(u8);

impl Offer {
    /// PRESENTATION: coherent access, and that of a group.
    const COHERENT: u8 = 1;
    const GROUP: u8 = 2;
    /// OWNERSHIP is exclusive.
    const EXCLUSIVE: u8 = 4;
    /// DESTINATION_ORDER is by source timestamps.
    const BY_SOURCE: u8 = 8;
    /// So many there are.
    pub(crate) const COUNT: usize = 16;

    /// The one of this index.
    pub(crate) fn at(index: usize) -> Offer {
        Offer((index % Offer::COUNT) as u8)
    }

    /// Which of all it is.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// That of a writer with these policies.
    pub(crate) fn of(writer: &DataWriterQos, publisher: &PublisherQos) -> Offer {
        let PresentationQosPolicy { coherent_access, access_scope, .. } = publisher.presentation;
        let by_source = DestinationOrderQosPolicyKind::BySourceTimestamp;
        let all = [
            (Offer::COHERENT, coherent_access),
            (Offer::GROUP, access_scope == PresentationQosPolicyAccessScopeKind::Group),
            (Offer::EXCLUSIVE, writer.ownership.kind == OwnershipQosPolicyKind::Exclusive),
            (Offer::BY_SOURCE, writer.destination_order.kind == by_source),
        ];
        Offer(all.into_iter().filter(|(_, has)| *has).fold(0, |bits, (bit, _)| bits | bit))
    }

    /// Policies that say this, and nothing else that is not usual.
    pub(crate) fn put_into(self, writer: &mut DataWriterQos, publisher: &mut PublisherQos) {
        let has = |bit| self.0 & bit != 0;
        publisher.presentation.coherent_access = has(Offer::COHERENT);
        if has(Offer::GROUP) {
            publisher.presentation.access_scope = PresentationQosPolicyAccessScopeKind::Group;
        }
        if has(Offer::EXCLUSIVE) {
            writer.ownership.kind = OwnershipQosPolicyKind::Exclusive;
        }
        if has(Offer::BY_SOURCE) {
            writer.destination_order.kind = DestinationOrderQosPolicyKind::BySourceTimestamp;
        }
    }

    #[inline(always)]
    pub(super) fn flags(self) -> u32 {
        u32::from(self.0) << OFFER
    }
}

/// What goes with the samples of a writer, until its policies change.
#[derive(Clone, Default, Debug)]
pub(crate) struct Terms {
    /// OWNERSHIP_STRENGTH.
    pub(crate) strength: i32,
    /// PARTITION: the names, if there are any, with NUL between them.
    pub(crate) partition: Option<Arc<[u8]>>,
    /// Keys go along, although nothing is kept: somebody counts how long instances were silent.
    pub(crate) keyed: bool,
    /// What is offered that is not usual.
    pub(crate) offer: Offer,
    /// What its topic is told by from others in the same order; zero if there are none.
    pub(crate) tag: u64,
    /// LIFESPAN, in nanoseconds, if it ends: so long after its timestamp a sample is out of date.
    pub(crate) lifespan: Option<u64>,
}

impl Terms {
    /// Bytes that they take behind a payload, beside the key.
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        let names = self.partition.as_ref().map_or(0, |names| names.len() + NAMES_LENGTH);
        let tag = if self.tag != 0 { TAG } else { 0 };
        let expiry = if self.lifespan.is_some() { EXPIRY } else { 0 };
        names + tag + expiry + if self.strength != 0 { STRENGTH } else { 0 }
    }

    /// What goes with a coherent set of such samples.
    pub(crate) fn of_set(self) -> Terms {
        Terms { strength: 0, keyed: false, ..self }
    }

    /// The names of partitions as they are sent; none for the default.
    pub(crate) fn names(partition: &PartitionQosPolicy) -> Option<Arc<[u8]>> {
        let names = partition.name.join("\0").into_bytes();
        (partition.name.len() > 1 || !names.is_empty()).then(|| names.into())
    }
}

/// The partitions that names stand for, as they were sent.
pub(crate) fn partition(names: &[u8]) -> PartitionQosPolicy {
    let names = names.split(|byte| *byte == 0);
    PartitionQosPolicy { name: names.map(|name| String::from_utf8_lossy(name).into()).collect() }
}
