//! What a reader of an ordered topic knows of those who write there.
//!
//! All participants that read a topic get all its samples. Whether a reader is to have one follows from its writer's
//! announcement and from the partitions that the sample itself names (I-170, I-171).
//!
//! Owns: the verdict on a writer, and on a sample's partitions. Never does: guess: of a writer that may still be announced it
//! says nothing.

use std::collections::BTreeMap;

use derecho_core::ids::NodeId;
use derecho_core::membership::View;
use qos_profiles::PartitionQosPolicy;

use super::discovery::Discovery;
use super::endpoint::Endpoint;
use super::policies::Policies;
use super::record::Offer;

/// Whether a reader is to have what a writer writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Yes,
    No,
    /// The writer is to be announced yet.
    NotYet,
}

/// See the [module](self).
#[derive(Default, Debug)]
pub(crate) struct Acquaintance {
    /// Writers that were announced, and whether they offer what is requested.
    writers: BTreeMap<(NodeId, u32), bool>,
    /// The members, each with the last endpoint that it has announced.
    members: BTreeMap<NodeId, u64>,
    /// Whether a writer does of which nothing is remembered: it offers what is usual, of PRESENTATION what its records say, and
    /// of DURABILITY all that the topic gives, for what is kept of it has outlived it.
    usual: [bool; 4],
    /// None: the stream is of one partition.
    partition: Option<PartitionQosPolicy>,
}

impl Acquaintance {
    /// What a reader may know now.
    pub(super) fn new(reader: &Endpoint, state: &Discovery, view: &View) -> Acquaintance {
        let accepts = |offered: &Policies| reader.policies.refuses(offered).is_empty();
        let writers = state.writers_once(reader.key());
        let writers =
            writers.map(|(node, id, writer)| ((node, id as u32), accepts(&writer.policies)));
        let members = view.members.iter().map(|member| member.node);
        Acquaintance {
            writers: writers.collect(),
            members: members.map(|node| (node, state.latest(node))).collect(),
            usual: Offer::ALL.map(|offer| accepts(&Policies::left(reader.level).with(offer))),
            partition: (!reader.sharded).then(|| reader.policies.partition().clone()),
        }
    }

    /// The verdict on a writer, which offers this of PRESENTATION.
    pub(crate) fn judge(&self, node: NodeId, writer: u32, offer: Offer) -> Verdict {
        let accepted = match self.writers.get(&(node, writer)) {
            Some(accepted) => *accepted,
            None if self.members.get(&node).is_some_and(|latest| *latest < writer.into()) => {
                return Verdict::NotYet;
            }
            None => self.usual[offer.index()],
        };
        if accepted { Verdict::Yes } else { Verdict::No }
    }

    /// Whether the reader is to have samples of these partitions.
    pub(crate) fn meets(&self, partition: &PartitionQosPolicy) -> bool {
        self.partition.as_ref().is_none_or(|ours| ours.meets(partition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);

    #[test]
    fn who_may_still_be_announced_is_waited_for_and_nobody_else() {
        let known = Acquaintance {
            writers: [((A, 3), false)].into(),
            members: [(A, 5)].into(),
            usual: [true, true, false, false],
            partition: None,
        };
        let judge = |node, writer| known.judge(node, writer, Offer::default());
        assert_eq!(judge(A, 3), Verdict::No);
        assert_eq!(judge(A, 4), Verdict::Yes, "it is no more, and offered what is usual");
        assert_eq!(judge(A, 6), Verdict::NotYet);
        assert_eq!(judge(NodeId(2), 6), Verdict::Yes, "its participant is gone");
        let of_group = Offer { coherent: false, group: true };
        assert_eq!(known.judge(NodeId(2), 6, of_group), Verdict::No, "it offered that");
    }
}
