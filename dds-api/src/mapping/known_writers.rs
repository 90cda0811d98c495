//! Knowledge of a reader of an ordered topic about the topic's writers.
//!
//! All participants that read a topic receive all its samples. Whether a reader accepts a
//! sample follows from the writer's announcement and from the partitions in the sample itself
//! (I-170, I-171).
//!
//! Owns: the verdict on a writer, and on a sample's partitions. Never does: guess; the verdict on a
//! writer that may still be announced is pending.

use std::collections::BTreeMap;
use std::sync::Arc;

use derecho_core::ids::NodeId;
use derecho_core::membership::View;
use qos_profiles::{DataRepresentationId, PartitionQosPolicy, PolicyId};

use super::discovery::Discovery;
use super::endpoint::Endpoint;
use super::ignored::IgnoredEntities;
use super::policies::EndpointPolicies;
use super::record::{RecordOrigin, RecordedOffer, origin, partition, representation_of};
use super::set;

/// Whether a reader accepts a writer's samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriterAcceptance {
    Yes,
    No,
    /// The writer has not been announced yet.
    NotYet,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct KnownWriters {
    /// Announced writers, and whether they offer what the reader requests.
    writers: BTreeMap<(NodeId, u32), bool>,
    /// The members, each with the last endpoint that it has announced.
    members: BTreeMap<NodeId, u64>,
    /// Whether a forgotten writer is accepted, by the offer in its records. Such a writer is
    /// assumed to offer the defaults, the policies in its records, and the full DURABILITY of the
    /// topic, because its kept samples have outlived it.
    accepted_offers: [bool; RecordedOffer::COUNT],
    /// Representations that the reader accepts from a forgotten writer, for records that state one;
    /// all, if samples are plain.
    representations: AcceptedRepresentations,
    /// Tag in the records of the reader's topic, if several topics share an order.
    tag: u64,
    /// `None` if the stream carries only one partition.
    partition: Option<PartitionQosPolicy>,
    /// Entities that this participant ignores.
    ignored: Arc<IgnoredEntities>,
    /// Whether all writers except this participant's are ignored.
    ignores_others: bool,
    /// This participant.
    me: NodeId,
}

/// Maximum number of remembered writers whose participants departed earlier. Their samples may wait
/// to be taken.
const MOST_GONE: usize = 1 << 12;

/// Policies by which a writer promises something for the future. A departed writer neither keeps
/// nor breaks such a promise.
const PROMISES: [PolicyId; 3] = [PolicyId::Deadline, PolicyId::LatencyBudget, PolicyId::Liveliness];

/// Representations that a reader accepts from departed writers (I-177).
#[derive(Clone, Debug)]
enum AcceptedRepresentations {
    All,
    These(Vec<DataRepresentationId>),
}

impl AcceptedRepresentations {
    fn of(reader: &Endpoint) -> AcceptedRepresentations {
        match &*reader.policies {
            EndpointPolicies::Requested { reader: requested, .. }
                if reader.data_type.layout == 0 =>
            {
                AcceptedRepresentations::These(requested.representation.representations().to_vec())
            }
            _ => AcceptedRepresentations::All,
        }
    }

    #[cold]
    fn take(&self, record: &[u8]) -> bool {
        match (self, representation_of(record)) {
            (AcceptedRepresentations::These(these), Some(found)) => these.contains(&found),
            _ => true,
        }
    }
}

impl KnownWriters {
    /// Knowledge of a reader now, given its knowledge before.
    pub(super) fn new(
        reader: &Endpoint,
        before: Option<&KnownWriters>,
        state: &Discovery,
        view: &View,
        me: NodeId,
        ignored: &Arc<IgnoredEntities>,
    ) -> KnownWriters {
        let accepts = |offered: &EndpointPolicies| reader.policies.refuses(offered).is_empty();
        let writers = state.writers_once(reader.key());
        let writers = writers.filter(|(_, _, writer)| writer.topic == reader.topic);
        let writers =
            writers.map(|(node, id, writer)| ((node, id as u32), accepts(&writer.policies)));
        let members = view.members.iter().map(|member| member.node);
        let members: BTreeMap<NodeId, u64> =
            members.map(|node| (node, state.latest(node))).collect();
        // A verdict formed while the writer's participant was a member holds for all samples of
        // that writer.
        let known = || before.into_iter().flat_map(|before| &before.writers);
        let gone = || known().filter(|((node, _), _)| !members.contains_key(node));
        let was_there = |node| before.is_some_and(|before| before.members.contains_key(node));
        let just_now = gone().filter(|((node, _), _)| was_there(node));
        let earlier = gone().filter(|((node, _), _)| !was_there(node)).take(MOST_GONE);
        let gone = just_now.chain(earlier).map(|(writer, accepted)| (*writer, *accepted));
        let fits = |offer: usize| {
            let offered =
                EndpointPolicies::of_departed(reader.level).with(RecordedOffer::at(offer));
            let refused = reader.policies.refuses(&offered);
            // Each record states its own representation.
            let counts =
                |policy| !PROMISES.contains(policy) && *policy != PolicyId::DataRepresentation;
            !refused.iter().any(|refused| counts(&refused.policy))
        };
        KnownWriters {
            writers: gone.chain(writers).collect(),
            members,
            accepted_offers: std::array::from_fn(fits),
            representations: AcceptedRepresentations::of(reader),
            tag: reader.order.tag(&reader.topic),
            partition: (!reader.order.is_by_partition())
                .then(|| reader.policies.partition().clone()),
            ignored: Arc::clone(ignored),
            ignores_others: ignored.has_topic(&reader.topic),
            me,
        }
    }

    /// The verdict on a record that a participant sent.
    pub(crate) fn judge(&self, node: NodeId, record: &[u8]) -> WriterAcceptance {
        let origin = origin(record);
        // A notice about a writer concerns every reader that may have received its samples, in
        // any partition.
        let is_notice = origin.is_notice();
        if !is_notice && !self.meets(&origin.names.map(partition).unwrap_or_default()) {
            return WriterAcceptance::No;
        }
        match set::of_several(record) {
            Some(records) => self.judge_all(node, records),
            None => self.judge_origin(node, &origin, record),
        }
    }

    /// The verdict on a set of several writers. The reader accepts the set if it accepts any record
    /// in it, once the verdict on all records is known.
    #[cold]
    fn judge_all(&self, node: NodeId, records: set::SetRecords<'_>) -> WriterAcceptance {
        let mut verdict = WriterAcceptance::No;
        for record in records.map_while(Result::ok) {
            match self.judge_origin(node, &origin(record), record) {
                WriterAcceptance::NotYet => return WriterAcceptance::NotYet,
                WriterAcceptance::Yes => verdict = WriterAcceptance::Yes,
                WriterAcceptance::No => {}
            }
        }
        verdict
    }

    /// Whether the reader accepts a record of a set of several writers.
    pub(crate) fn has(&self, node: NodeId, record: &[u8]) -> bool {
        self.judge_origin(node, &origin(record), record) == WriterAcceptance::Yes
    }

    fn judge_origin(
        &self,
        node: NodeId,
        origin: &RecordOrigin<'_>,
        record: &[u8],
    ) -> WriterAcceptance {
        match origin.tag == self.tag {
            true => self.judge_writer(node, origin.writer, origin.offer(), record),
            false => WriterAcceptance::No,
        }
    }

    /// The verdict on a writer, given one of its records and the offer in that record.
    fn judge_writer(
        &self,
        node: NodeId,
        writer: u32,
        offer: RecordedOffer,
        record: &[u8],
    ) -> WriterAcceptance {
        if self.ignores(node, writer) {
            return WriterAcceptance::No;
        }
        let accepted = match self.writers.get(&(node, writer)) {
            Some(accepted) => *accepted,
            None if self.members.get(&node).is_some_and(|latest| *latest < writer.into()) => {
                return WriterAcceptance::NotYet;
            }
            None => self.accepted_offers[offer.index()] && self.representations.take(record),
        };
        if accepted { WriterAcceptance::Yes } else { WriterAcceptance::No }
    }

    /// Whether a writer is ignored here; it may be announced, departed or still to come (I-187).
    fn ignores(&self, node: NodeId, writer: u32) -> bool {
        let is_ignored = || self.ignores_others || self.ignored.hides_any(node, writer.into());
        node != self.me && is_ignored()
    }

    /// Whether the reader accepts samples of these partitions.
    fn meets(&self, partition: &PartitionQosPolicy) -> bool {
        self.partition.as_ref().is_none_or(|ours| ours.meets(partition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);

    #[test]
    fn verdict_is_pending_only_for_writer_that_may_still_be_announced() {
        let known = KnownWriters {
            writers: [((A, 3), false)].into(),
            members: [(A, 5)].into(),
            accepted_offers: std::array::from_fn(|offer| offer < 2),
            representations: AcceptedRepresentations::All,
            tag: 0,
            partition: None,
            ignored: Arc::default(),
            ignores_others: false,
            me: A,
        };
        let judge = |node, writer| known.judge_writer(node, writer, RecordedOffer::default(), &[]);
        assert_eq!(judge(A, 3), WriterAcceptance::No);
        assert_eq!(
            judge(A, 4),
            WriterAcceptance::Yes,
            "departed writer offered the usual policies"
        );
        assert_eq!(judge(A, 6), WriterAcceptance::NotYet);
        assert_eq!(
            judge(NodeId(2), 6),
            WriterAcceptance::Yes,
            "participant of the writer has left"
        );
        assert_eq!(
            known.judge_writer(NodeId(2), 6, RecordedOffer::at(2), &[]),
            WriterAcceptance::No,
            "departed writer offered unusual policies"
        );
    }

    #[test]
    fn ignored_writers_are_rejected_at_once_and_others_judged_as_before() {
        let (me, other) = (NodeId(7), NodeId(2));
        let mut ignored = IgnoredEntities::default();
        ignored.add_endpoint(A, 3);
        ignored.add_participant(other);
        let mut known = KnownWriters {
            writers: [((A, 3), true), ((A, 4), true), ((me, 3), true)].into(),
            members: [(A, 5), (other, 0), (me, 9)].into(),
            accepted_offers: [true; RecordedOffer::COUNT],
            representations: AcceptedRepresentations::All,
            tag: 0,
            partition: None,
            ignored: Arc::new(ignored),
            ignores_others: false,
            me,
        };
        let judge = |known: &KnownWriters, node, writer| {
            known.judge_writer(node, writer, RecordedOffer::default(), &[])
        };
        assert_eq!(judge(&known, A, 3), WriterAcceptance::No);
        assert_eq!(judge(&known, A, 4), WriterAcceptance::Yes);
        assert_eq!(
            judge(&known, other, 1),
            WriterAcceptance::No,
            "writer is ignored before its announcement too"
        );
        known.ignores_others = true;
        assert_eq!(judge(&known, A, 4), WriterAcceptance::No);
        assert_eq!(
            judge(&known, me, 3),
            WriterAcceptance::Yes,
            "participant does not ignore its own writers"
        );
    }
}
