//! Report of a member on its streams when it wedges, and the cut that follows from all reports.
//!
//! Owns: the rule I-47 for streams that may be in the middle of a layout change. Never does:
//! access a stream.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::bytes::{ByteReader, Wire, in_order};
use crate::fault::{Fault, planted};
use crate::ids::{NodeId, RegionId};
use crate::membership::Report;

/// Identity of a sender's stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId {
    /// Node that sends the stream.
    pub node: NodeId,
    /// Region that holds the stream.
    pub region: RegionId,
}

/// Progress of a member in one sender's part of an epoch, in entries from the beginning
/// of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamReport {
    /// Identity of the stream.
    pub stream: StreamId,
    /// Minimum end of the epoch: the entry where the epoch begins, or its end if a view has decided
    /// the end (I-337).
    pub start: u64,
    /// Number of entries received.
    pub received: u64,
}

/// Report of a member on one subgroup.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SubgroupReport {
    /// Key of the subgroup.
    pub key: u64,
    /// Current epoch of the member.
    pub epoch: u64,
    /// The member has finished the epoch before and is no member from this epoch on.
    pub left: bool,
    /// Nodes that deliver in that epoch.
    pub readers: Vec<NodeId>,
    /// Progress in each stream, in the order of ranks.
    pub streams: Vec<StreamReport>,
}

/// Report of a member.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct MemberReport {
    /// The member has the replicated state of the group.
    pub informed: bool,
    /// Subgroups of the member, including the control stream.
    pub subgroups: Vec<SubgroupReport>,
}

/// End of one epoch of a subgroup.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EpochCut {
    /// Number of the epoch.
    pub epoch: u64,
    /// End of the epoch in each sender's stream.
    pub ends: Vec<(StreamId, u64)>,
}

/// Ends of a subgroup's epochs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SubgroupCut {
    /// Key of the subgroup.
    pub key: u64,
    /// Newest epoch that any member has reported.
    pub last: EpochCut,
    /// Earlier epochs in which some members still are. These members finish the earlier epoch first
    /// and have no part in the newest one. More than one earlier epoch occurs only without senders:
    /// newcomers have nothing to wait for in that case.
    pub before: Vec<EpochCut>,
}

/// Cut that follows from the reports.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct GroupCut {
    /// Members that have the replicated state of the group.
    pub informed: Vec<NodeId>,
    /// Subgroups with at least one report, by key.
    pub subgroups: Vec<SubgroupCut>,
}

impl GroupCut {
    /// Cut of one subgroup.
    pub fn of(&self, key: u64) -> Option<&SubgroupCut> {
        self.subgroups.iter().find(|cut| cut.key == key)
    }
}

impl Report for MemberReport {
    type Cut = GroupCut;

    fn cut<'a>(reports: impl Iterator<Item = (NodeId, &'a MemberReport)>) -> GroupCut {
        let mut cut = GroupCut::default();
        let (mut nodes, mut all, mut keys) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
        for (node, progress) in reports {
            nodes.insert(node);
            cut.informed.extend(progress.informed.then_some(node));
            for report in &progress.subgroups {
                keys.insert(report.key);
                all.insert((report.key, node), report);
            }
        }
        for key in keys {
            let of = |node: NodeId| all.get(&(key, node)).copied();
            cut.subgroups.extend(cut_one(key, &nodes, of));
        }
        cut
    }
}

/// Applies I-47 to one subgroup. The newest epoch ends at the least that its readers have received.
/// If a reader has not begun that epoch, the reader has received nothing of it, and no member has
/// delivered any of it. A member that is still in the epoch before has received all of the earlier
/// epoch, because other members have gone on.
fn cut_one<'a>(
    key: u64,
    nodes: &BTreeSet<NodeId>,
    of: impl Fn(NodeId) -> Option<&'a SubgroupReport>,
) -> Option<SubgroupCut> {
    let reports = || nodes.iter().filter_map(|&node| Some((node, of(node)?)));
    let epoch = reports().map(|(_, report)| report.epoch).max()?;
    let newest = || reports().filter(|(_, report)| report.epoch == epoch);
    let is_older = |report: &SubgroupReport| report.epoch < epoch && !report.left;
    let older = || reports().filter(|(_, report)| is_older(report)).map(|(_, report)| report);
    // A member that has left knows the readers of the epoch, but nothing of its streams.
    let (_, sample) = newest().min_by_key(|(_, report)| report.left)?;
    let reads = |node: &NodeId| sample.readers.contains(node);
    let reached = |report: &SubgroupReport, stream: StreamId| {
        report.streams.iter().find(|reached| reached.stream == stream).copied()
    };
    let waits = nodes.iter().filter(|node| reads(node)).any(|&node| {
        let report = of(node);
        report.is_none_or(|report| report.epoch < epoch || report.left)
    });
    let ends = sample.streams.iter().map(|known| {
        let stream = known.stream;
        let received = newest().filter(|(node, _)| reads(node));
        let received = received.filter_map(|(_, report)| Some(reached(report, stream)?.received));
        // A member that has finished an epoch knows its end. A member that has not begun the newest
        // epoch may not know its start.
        let starts = reports().filter_map(|(_, report)| Some(reached(report, stream)?.start));
        let start = starts.fold(known.start, u64::max);
        // Without a reader, the sender's own report is used.
        let own = of(stream.node).and_then(|report| Some(reached(report, stream)?.received));
        let least = received.min().or(own).unwrap_or(start);
        let waits = waits && !planted(Fault::LateUncounted);
        (stream, if waits { start } else { least.max(start) })
    });
    let mut last = EpochCut { epoch, ends: ends.collect() };
    let mut before: Vec<EpochCut> = Vec::new();
    for sample in older() {
        if before.iter().any(|known| known.epoch == sample.epoch) {
            continue;
        }
        let ends = sample.streams.iter().map(|known| {
            let stream = known.stream;
            // The end is the last entry counted by members that have ended the epoch, and all
            // readers have received it.
            let readers = older().filter(|report| report.epoch == sample.epoch);
            let shown = readers.filter_map(|report| Some(reached(report, stream)?.received));
            let no_newer = older().filter(|report| report.epoch <= sample.epoch);
            let starts_so_far = no_newer.filter_map(|it| Some(reached(it, stream)?.start));
            let newer = reports().filter(|(_, report)| report.epoch > sample.epoch && !report.left);
            let starts = newer.filter_map(|(_, report)| Some(reached(report, stream)?.start));
            let end = starts.min().or(shown.min()).unwrap_or(known.received);
            (stream, starts_so_far.fold(end, u64::max))
        });
        before.push(EpochCut { epoch: sample.epoch, ends: ends.collect() });
    }
    for (stream, end) in before.iter().flat_map(|before| &before.ends) {
        if last.ends.iter().all(|(known, _)| known != stream) {
            last.ends.push((*stream, *end));
        }
    }
    Some(SubgroupCut { key, last, before })
}

impl Wire for RegionId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        u64::decode(from).map(RegionId)
    }
}

in_order! {
    StreamId { node, region }
    StreamReport { stream, start, received }
    SubgroupReport { key, epoch, left, readers, streams }
    MemberReport { informed, subgroups }
    EpochCut { epoch, ends }
    SubgroupCut { key, last, before }
    GroupCut { informed, subgroups }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);
    const KEY: u64 = 7;

    fn stream(node: NodeId) -> StreamId {
        StreamId { node, region: RegionId(9) }
    }

    fn report(epoch: u64, readers: &[NodeId], reached: &[(NodeId, u64, u64)]) -> MemberReport {
        let reached = reached.iter().map(|&(node, start, received)| StreamReport {
            stream: stream(node),
            start,
            received,
        });
        let reached = reached.collect();
        let (key, left) = (KEY, false);
        let subgroup =
            SubgroupReport { key, epoch, left, readers: readers.into(), streams: reached };
        MemberReport { informed: true, subgroups: [subgroup].into() }
    }

    fn cut(reports: &[(NodeId, MemberReport)]) -> SubgroupCut {
        let cut = MemberReport::cut(reports.iter().map(|(node, progress)| (*node, progress)));
        cut.of(KEY).cloned().expect("it was reported")
    }

    #[test]
    fn cut_is_the_minimum_that_all_readers_have_received() {
        let reports = [
            (A, report(3, &[A, B], &[(A, 5, 9), (C, 0, 4)])),
            (B, report(3, &[A, B], &[(A, 5, 7), (C, 0, 6)])),
            (C, report(3, &[A, B], &[(A, 5, 5), (C, 0, 8)])),
        ];
        let ends = [(stream(A), 7), (stream(C), 4)];
        assert_eq!(cut(&reports).last, EpochCut { epoch: 3, ends: ends.into() });
        assert_eq!(cut(&reports).before, []);
    }

    #[test]
    fn sender_without_readers_loses_no_message() {
        let reports = [(C, report(3, &[A], &[(C, 2, 8)]))];
        assert_eq!(cut(&reports).last.ends, [(stream(C), 8)]);
    }

    #[test]
    fn lagging_member_finishes_old_epoch_and_new_epoch_ends_at_its_start() {
        let reports = [
            (A, report(4, &[A, B], &[(A, 6, 9), (C, 3, 5)])),
            (B, report(3, &[A, B], &[(A, 0, 6), (B, 0, 2)])),
        ];
        let SubgroupCut { last, before, .. } = cut(&reports);
        assert_eq!(last.ends, [(stream(A), 6), (stream(C), 3), (stream(B), 2)]);
        let ends = [(stream(A), 6), (stream(B), 2)];
        assert_eq!(before, [EpochCut { epoch: 3, ends: ends.into() }]);
    }

    /// Without senders, newcomers begin at once, and some members may be two epochs behind.
    #[test]
    fn each_epoch_that_still_has_a_member_gets_its_end() {
        let reports = [
            (A, report(6, &[A, B], &[(A, 9, 42)])),
            (B, report(7, &[B], &[])),
            (C, report(8, &[B, C], &[])),
        ];
        let SubgroupCut { last, before, .. } = cut(&reports);
        assert_eq!(last, EpochCut { epoch: 8, ends: [(stream(A), 42)].into() });
        let seven = EpochCut { epoch: 7, ends: Vec::new() };
        assert_eq!(before, [EpochCut { epoch: 6, ends: [(stream(A), 42)].into() }, seven]);
    }

    /// A reader that has finished an epoch has delivered all of it and reports its ends as its
    /// starts. The next cut keeps these ends, whatever the readers are by then, and wherever a
    /// member that was told the epoch and has not begun it expects its start.
    #[test]
    fn an_epoch_that_a_view_has_ended_keeps_its_ends() {
        let finished = report(4, &[], &[(A, 9, 9), (C, 5, 5)]);
        let untold = report(4, &[A, B], &[(A, 6, 6), (C, 3, 3)]);
        let sender = report(3, &[A, B], &[(A, 6, 6), (C, 3, 3)]);
        let others = [(B, untold), (C, sender)];
        for other in others {
            let ends = [(stream(A), 9), (stream(C), 5)];
            let reports = [(A, finished.clone()), other.clone()];
            assert_eq!(cut(&reports).last.ends, ends, "{other:?}");
        }
    }

    /// A member that was told the newest epoch and has not begun the one before expects the start
    /// where its own epoch ended.
    #[test]
    fn no_epoch_begins_below_an_end_that_a_view_has_decided() {
        let finished = report(5, &[A, C], &[(C, 8, 8)]);
        let sender = report(4, &[A, B, C], &[(C, 6, 6)]);
        let told = report(6, &[A, C], &[(C, 6, 6)]);
        let SubgroupCut { last, before, .. } = cut(&[(A, finished), (B, told), (C, sender)]);
        assert_eq!(last.ends, [(stream(C), 8)]);
        let ends: Vec<u64> = before.iter().flat_map(|cut| &cut.ends).map(|end| end.1).collect();
        assert!(ends.iter().all(|end| *end <= 8), "{before:?}");
    }

    #[test]
    fn member_that_left_with_previous_epoch_does_not_lower_the_cut() {
        let reports = [(A, report(4, &[A], &[(A, 6, 9)])), (B, report(3, &[A, B], &[(A, 0, 6)]))];
        assert_eq!(cut(&reports).last.ends, [(stream(A), 9)]);
    }

    /// Otherwise the cut would remove messages of the epoch that other members have delivered.
    #[test]
    fn leaver_counts_as_having_received_its_whole_last_epoch() {
        let mut gone = report(5, &[A], &[]);
        gone.subgroups[0].left = true;
        let in_it = report(4, &[A, B], &[(A, 6, 9)]);
        let SubgroupCut { last, before, .. } = cut(&[(A, in_it.clone()), (B, gone.clone())]);
        assert_eq!(last, EpochCut { epoch: 5, ends: [(stream(A), 9)].into() });
        assert_eq!(before, [EpochCut { epoch: 4, ends: [(stream(A), 9)].into() }]);
        let later = report(7, &[A], &[(A, 20, 24)]);
        let SubgroupCut { last, before, .. } = cut(&[(A, later), (B, gone)]);
        assert_eq!((last.ends, before), ([(stream(A), 24)].into(), Vec::new()));
    }

    #[test]
    fn new_reader_that_has_not_begun_has_received_no_message() {
        let nothing = MemberReport { informed: false, subgroups: Vec::new() };
        let mut reports = [(A, report(4, &[A, B], &[(A, 6, 9)])), (B, nothing)];
        assert_eq!(cut(&reports[..1]).last.ends, [(stream(A), 9)], "it is gone");
        reports[1].1.subgroups.push(SubgroupReport {
            left: false,
            key: KEY + 1,
            epoch: 0,
            readers: Vec::new(),
            streams: Vec::new(),
        });
        assert_eq!(cut(&reports).last.ends, [(stream(A), 6)]);
        let all = MemberReport::cut(reports.iter().map(|(node, progress)| (*node, progress)));
        assert_eq!(all.informed, [A]);
        assert_eq!(GroupCut::from_bytes(&all.to_bytes()), Some(all));
    }
}
