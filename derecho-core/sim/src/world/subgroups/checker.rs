//! Knowledge of a whole run, over all subgroups, epochs and members at once, and the checks of it.

use std::collections::{BTreeMap, BTreeSet};

use derecho_core::ids::{NodeId, RegionId};
use derecho_core::memory::Replica;
use derecho_core::multicast::inbox::Record;
use derecho_core::multicast::stream::StreamStart;
use derecho_core::multicast::subgroup::DeliveryGuarantee;

use crate::world::ordered::{Message, Orders, Rule, Violations, is_as_written};

/// One stream, from its first message to its last.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    /// Node that writes it.
    pub node: usize,
    /// Region of its memory.
    pub region: RegionId,
    /// Number of its messages.
    pub committed: u64,
}

/// Role of a node in an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochRole {
    /// The node.
    pub node: usize,
    /// Number of its line.
    pub slot: usize,
    /// Whether it reads.
    pub reads: bool,
    /// Its stream, if it sends.
    pub writer: Option<usize>,
    /// Region of its lines.
    pub lines: RegionId,
}

/// An epoch: its subgroup and its number.
pub type EpochId = (usize, u64);

/// An epoch, as decided.
#[derive(Clone, Default, Debug)]
pub struct DecidedEpoch {
    /// Index of the subgroup.
    pub subgroup: usize,
    /// Number of the epoch.
    pub number: u64,
    /// Members.
    pub roles: Vec<EpochRole>,
    /// Beginning of the epoch in each stream, as far as decided.
    pub starts: BTreeMap<usize, StreamStart>,
}

impl DecidedEpoch {
    /// Returns the first epoch of a subgroup, in which all streams are new.
    pub fn first(subgroup: usize, roles: Vec<EpochRole>) -> DecidedEpoch {
        let new = StreamStart { entry: 0, message: 0 };
        let starts = roles.iter().filter_map(|role| Some((role.writer?, new))).collect();
        DecidedEpoch { subgroup, number: 0, roles, starts }
    }

    /// Name of the epoch in the checker.
    pub fn id(&self) -> EpochId {
        (self.subgroup, self.number)
    }

    /// Returns the role of a node, if it is a member.
    pub fn role_of(&self, node: usize) -> Option<&EpochRole> {
        self.roles.iter().find(|role| role.node == node)
    }

    /// Whether a node reads.
    pub fn reads(&self, node: usize) -> bool {
        self.role_of(node).is_some_and(|place| place.reads)
    }

    /// Iterates over the members, each with the subgroup.
    pub fn members(&self) -> impl Iterator<Item = (usize, &EpochRole)> {
        self.roles.iter().map(|role| (self.subgroup, role))
    }

    /// Iterates over the streams.
    pub fn writers(&self) -> impl Iterator<Item = usize> + '_ {
        self.roles.iter().filter_map(|role| role.writer)
    }
}

/// Passage of one reader through one epoch.
#[derive(Clone, Copy, Default, Debug)]
struct EpochPassage {
    /// Number of deliveries.
    delivered: usize,
    /// Whether everything of the epoch is delivered there.
    finished: bool,
}

/// Safety checker of subgroups: observes all members.
pub struct DeliveryChecker {
    /// Level of all subgroups.
    pub level: DeliveryGuarantee,
    /// Ids of all nodes.
    pub ids: Vec<NodeId>,
    /// All streams.
    pub writers: Vec<Writer>,
    /// All epochs.
    pub epochs: BTreeMap<EpochId, DecidedEpoch>,
    /// Order of each epoch, as far as any member has delivered it: writers and numbers.
    orders: Orders<EpochId>,
    /// End of each stream by a change of layout, by the epoch that was ended.
    pub cuts: BTreeMap<(u64, usize), StreamStart>,
    /// Length of the gapless prefix of the order that had arrived at each member when it last
    /// turned, by subgroup and node, where arrivals are watched.
    received: BTreeMap<(usize, usize), u64>,
    passages: BTreeMap<(usize, EpochId), EpochPassage>,
    /// First number that a reader got of a writer, where it depends on the epoch's start.
    firsts: Vec<(usize, EpochId, Message)>,
    /// The regions themselves, where memory is shared.
    pub regions: BTreeMap<(usize, RegionId), Replica>,
    /// Nodes that no other node counts as members any more, and that do not know that.
    pub evicted: BTreeSet<usize>,
    /// True while nothing is written.
    pub lull: bool,
    /// True once nothing more is written.
    pub written: bool,
    /// True once applications end.
    pub over: bool,
    /// Broken rules.
    pub violations: Violations,
}

impl DeliveryChecker {
    /// Creates the checker of subgroups of this level.
    pub fn new(level: DeliveryGuarantee) -> DeliveryChecker {
        DeliveryChecker {
            level,
            ids: Vec::new(),
            writers: Vec::new(),
            epochs: BTreeMap::new(),
            orders: Orders::default(),
            cuts: BTreeMap::new(),
            received: BTreeMap::new(),
            passages: BTreeMap::new(),
            firsts: Vec::new(),
            regions: BTreeMap::new(),
            evicted: BTreeSet::new(),
            lull: false,
            written: false,
            over: false,
            violations: Violations::default(),
        }
    }

    /// Returns the stream of this node and region.
    pub fn writer(&self, node: usize, region: RegionId) -> usize {
        let is_it = |writer: &Writer| (writer.node, writer.region) == (node, region);
        self.writers.iter().position(is_it).expect("every stream has a writer")
    }

    /// Returns the last decided epoch of each subgroup.
    pub fn present(&self) -> impl Iterator<Item = &DecidedEpoch> {
        let is_last = |(subgroup, number): EpochId| {
            self.epochs.range((subgroup, number + 1)..=(subgroup, u64::MAX)).next().is_none()
        };
        self.epochs.values().filter(move |epoch| is_last(epoch.id()))
    }

    /// Number of commits of all writers.
    pub fn committed(&self) -> u64 {
        self.writers.iter().map(|writer| writer.committed).sum()
    }

    /// Checks a record that a member has in its hands, for the first time or for the last.
    pub fn inspect(&mut self, node: usize, writer: usize, record: &Record, when: &str) {
        let is_right = || is_as_written(writer, record.number(), record.bytes());
        if !self.evicted.contains(&node) && !is_right() {
            let number = record.number();
            let text = format!("node {node}: {number} of writer {writer} is corrupt when {when}");
            self.violations.record(Rule::Content, text);
        }
    }

    /// Records that a reader has begun an epoch.
    pub fn begins(&mut self, node: usize, epoch: EpochId) {
        self.passages.insert((node, epoch), EpochPassage::default());
    }

    /// Records that a reader has finished its epoch: everything of it is delivered there.
    pub fn finishes(&mut self, node: usize, epoch: EpochId) {
        if let Some(passage) = self.passages.get_mut(&(node, epoch)) {
            passage.finished = true;
        }
    }

    /// Checks a message that a reader takes in this epoch, the next one in its order. `next`: the
    /// next expected number of each writer.
    pub fn deliver(
        &mut self,
        node: usize,
        epoch: EpochId,
        (writer, number): Message,
        next: &mut BTreeMap<usize, u64>,
    ) {
        match next.insert(writer, number + 1) {
            Some(due) if due != number => {
                let text = format!("node {node}, epoch {epoch:?}: {number} of {writer}, not {due}");
                self.violations.record(Rule::Fifo, text);
            }
            Some(_) => {}
            None => self.firsts.push((node, epoch, (writer, number))),
        }
        if number >= self.writers[writer].committed {
            let text = format!("node {node}, epoch {epoch:?}: no member sent {number} of {writer}");
            self.violations.record(Rule::Fifo, text);
        }
        let Some(passage) = self.passages.get_mut(&(node, epoch)) else {
            panic!("node {node} delivers in {epoch:?} before it has begun")
        };
        let place = passage.delivered;
        passage.delivered += 1;
        if self.level == DeliveryGuarantee::Unordered {
            return;
        }
        if let Some(agreed) = self.orders.deliver(epoch, place, (writer, number)) {
            let here = (writer, number);
            let text = format!("node {node}, epoch {epoch:?}, {place}: {here:?} not {agreed:?}");
            self.violations.record(Rule::Order, text);
        }
    }

    /// Records the gapless prefix of the order that has arrived at a member.
    pub fn receives(&mut self, subgroup: usize, node: usize, received: u64) {
        self.received.insert((subgroup, node), received);
    }

    /// Returns the gapless prefix of the order that had arrived at a member.
    pub fn received(&self, subgroup: usize, node: usize) -> u64 {
        self.received.get(&(subgroup, node)).copied().unwrap_or(0)
    }

    /// Checks that all readers of a founded subgroup had received what a member has delivered of
    /// the order.
    pub fn agree(&mut self, subgroup: usize, node: usize, delivered: u64) {
        if self.level == DeliveryGuarantee::Unordered {
            return;
        }
        let mut readers = self.epochs[&(subgroup, 0)].roles.iter().filter(|role| role.reads);
        let behind = readers.find(|role| self.received(subgroup, role.node) < delivered);
        if let Some(other) = behind.map(|role| role.node) {
            let received = self.received(subgroup, other);
            let text = format!("node {node} delivers {delivered}, {other} has {received}");
            self.violations.record(Rule::Agreement, text);
        }
    }

    /// Judges the end of a run: members that have finished an epoch have delivered everything that
    /// any member has delivered in it, and every new member began where it was announced.
    pub fn close(&mut self) {
        for ((node, epoch), passage) in &self.passages {
            let all = self.orders.length(epoch).unwrap_or(0);
            let is_atomic = self.level == DeliveryGuarantee::Atomic;
            if is_atomic && passage.finished && passage.delivered != all {
                let text = format!("node {node}, epoch {epoch:?}: {passage:?} of {all}");
                self.violations.record(Rule::Agreement, text);
            }
        }
        for &(node, epoch, (writer, number)) in &self.firsts {
            let start = self.epochs[&epoch].starts.get(&writer);
            if start.is_some_and(|start| start.message != number) {
                let text =
                    format!("node {node}, epoch {epoch:?}: {number} of {writer} after {start:?}");
                self.violations.record(Rule::Fifo, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a checker of two readers in the first epoch after the founding of a subgroup, which
    /// begins at the third message of one writer, who has written five.
    fn checker() -> DeliveryChecker {
        let mut checker = DeliveryChecker::new(DeliveryGuarantee::Atomic);
        checker.writers.push(Writer { node: 0, region: RegionId(1), committed: 5 });
        let starts = [(0, StreamStart { entry: 2, message: 2 })].into();
        let epoch = DecidedEpoch { number: 1, starts, ..DecidedEpoch::default() };
        checker.epochs.insert(epoch.id(), epoch);
        [0, 1].into_iter().for_each(|node| checker.begins(node, (0, 1)));
        checker
    }

    /// Returns the broken rules at the end of a run in which both readers finish the epoch, and
    /// these messages are delivered to each.
    fn broken(delivered: [&[u64]; 2]) -> Vec<Rule> {
        let mut checker = checker();
        for (node, numbers) in delivered.into_iter().enumerate() {
            let mut next = BTreeMap::new();
            for number in numbers {
                checker.deliver(node, (0, 1), (0, *number), &mut next);
            }
            checker.finishes(node, (0, 1));
        }
        checker.close();
        checker.violations.take().into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn equal_sequences_from_the_start_break_no_rule() {
        assert_eq!(broken([&[2, 3, 4], &[2, 3, 4]]), []);
    }

    #[test]
    fn gap_duplicate_and_message_that_no_member_sent_break_the_sequence() {
        for sequence in [&[2, 4][..], &[2, 2], &[2, 3, 4, 5]] {
            assert_eq!(broken([sequence, sequence]).first(), Some(&Rule::Fifo), "{sequence:?}");
        }
    }

    #[test]
    fn first_message_that_does_not_follow_the_start_breaks_the_sequence() {
        assert_eq!(broken([&[1, 2], &[1, 2]]), [Rule::Fifo, Rule::Fifo]);
    }

    #[test]
    fn finished_reader_that_has_delivered_less_than_another_breaks_the_agreement() {
        assert_eq!(broken([&[2, 3], &[2]]), [Rule::Agreement]);
    }
}
