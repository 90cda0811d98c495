//! Knowledge of a whole run through many epochs, over all members at once, and the checkers
//! over it.

use std::collections::BTreeMap;

use derecho_core::ids::{NodeId, RegionId};
use derecho_core::memory::Replica;
use derecho_core::multicast::inbox::Record;
use derecho_core::multicast::stream::StreamStart;
use derecho_core::multicast::subgroup::DeliveryGuarantee;

use crate::world::ordered::{Orders, Rule, Violations, is_as_written};

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

/// An epoch, as decided.
#[derive(Clone, Debug)]
pub struct DecidedEpoch {
    /// Number of the epoch.
    pub number: u64,
    /// Members.
    pub roles: Vec<EpochRole>,
    /// Beginning of the epoch in each stream, as far as decided.
    pub starts: BTreeMap<usize, StreamStart>,
}

impl DecidedEpoch {
    /// Returns the role of a node, if it is a member.
    pub fn role_of(&self, node: usize) -> Option<&EpochRole> {
        self.roles.iter().find(|role| role.node == node)
    }

    /// Whether a node reads.
    pub fn reads(&self, node: usize) -> bool {
        self.role_of(node).is_some_and(|place| place.reads)
    }

    /// Iterates over the streams.
    pub fn writers(&self) -> impl Iterator<Item = usize> + '_ {
        self.roles.iter().filter_map(|role| role.writer)
    }
}

/// Passage of one reader through one epoch.
#[derive(Clone, Debug)]
pub struct EpochPassage {
    /// The reader.
    pub node: usize,
    /// Number of the epoch.
    pub epoch: u64,
    /// Number of deliveries.
    pub delivered: usize,
    /// Whether everything of the epoch is delivered there.
    pub finished: bool,
}

/// Safety checker over all epochs: observes all members.
pub struct EpochChecker {
    /// Level of the subgroup.
    pub level: DeliveryGuarantee,
    /// Ids of all nodes.
    pub ids: Vec<NodeId>,
    /// All streams.
    pub writers: Vec<Writer>,
    /// All epochs.
    pub epochs: BTreeMap<u64, DecidedEpoch>,
    /// Order of each epoch, as far as any member has delivered it: writers and numbers.
    orders: Orders<u64>,
    /// End of each stream by a change of layout, by the epoch that was ended.
    pub cuts: BTreeMap<(u64, usize), StreamStart>,
    /// Passages of all readers.
    pub passages: Vec<EpochPassage>,
    /// First number that a reader got of a writer, and the epoch.
    firsts: Vec<(u64, usize, u64, usize)>,
    /// The regions themselves, where memory is shared.
    pub regions: BTreeMap<(usize, RegionId), Replica>,
    /// True while nothing is written.
    pub lull: bool,
    /// True once nothing more is written.
    pub written: bool,
    /// True once applications end.
    pub over: bool,
    /// Broken rules.
    pub violations: Violations,
}

impl EpochChecker {
    /// Creates the checker of a subgroup of this level.
    pub fn new(level: DeliveryGuarantee) -> EpochChecker {
        EpochChecker {
            level,
            ids: Vec::new(),
            writers: Vec::new(),
            epochs: BTreeMap::new(),
            orders: Orders::default(),
            cuts: BTreeMap::new(),
            passages: Vec::new(),
            firsts: Vec::new(),
            regions: BTreeMap::new(),
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

    /// Checks a record that a member has in its hands, for the first time or for the last.
    pub fn inspect(&mut self, node: usize, writer: usize, record: &Record, when: &str) {
        if !is_as_written(writer, record.number(), record.bytes()) {
            let number = record.number();
            let text = format!("node {node}: {number} of writer {writer} is corrupt when {when}");
            self.violations.record(Rule::Content, text);
        }
    }

    /// Records that a reader has begun an epoch.
    pub fn begins(&mut self, node: usize, epoch: u64) {
        self.passages.push(EpochPassage { node, epoch, delivered: 0, finished: false });
    }

    /// Records that a reader has finished its epoch: everything of it is delivered there.
    pub fn finishes(&mut self, node: usize, epoch: u64) {
        let passage =
            self.passages.iter_mut().find(|stay| (stay.node, stay.epoch) == (node, epoch));
        passage.into_iter().for_each(|stay| stay.finished = true);
    }

    /// Checks a message that a reader takes in this epoch, the next one in its order. `next`: the
    /// next expected number of each writer.
    pub fn deliver(
        &mut self,
        (node, epoch): (usize, u64),
        (writer, number): (usize, u64),
        next: &mut BTreeMap<usize, u64>,
    ) {
        match next.insert(writer, number + 1) {
            Some(due) if due != number => {
                let text = format!("node {node}, epoch {epoch}: {number} of {writer}, not {due}");
                self.violations.record(Rule::Fifo, text);
            }
            Some(_) => {}
            None => self.firsts.push((epoch, writer, number, node)),
        }
        if number >= self.writers[writer].committed {
            let text = format!("node {node}, epoch {epoch}: no member sent {number} of {writer}");
            self.violations.record(Rule::Fifo, text);
        }
        let passage =
            self.passages.iter_mut().find(|stay| (stay.node, stay.epoch) == (node, epoch));
        let Some(passage) = passage else {
            panic!("node {node} delivers in {epoch} before it has begun")
        };
        let place = passage.delivered;
        passage.delivered += 1;
        if self.level == DeliveryGuarantee::Unordered {
            return;
        }
        if let Some(agreed) = self.orders.deliver(epoch, place, (writer, number)) {
            let here = (writer, number);
            let text = format!("node {node}, epoch {epoch}, {place}: {here:?} not {agreed:?}");
            self.violations.record(Rule::Order, text);
        }
    }

    /// Judges the end of a run: members that have finished an epoch have delivered everything that
    /// any member has delivered in it, and every new member began where it was announced.
    pub fn close(&mut self) {
        let mut violations = Vec::new();
        if self.level == DeliveryGuarantee::Atomic {
            for stay in &self.passages {
                let all = self.orders.length(&stay.epoch).unwrap_or(0);
                if stay.finished && stay.delivered != all {
                    violations.push((Rule::Agreement, format!("{stay:?} of {all}")));
                }
            }
        }
        for &(epoch, writer, number, node) in &self.firsts {
            let start = self.epochs[&epoch].starts.get(&writer);
            if start.is_some_and(|start| start.message != number) {
                let text =
                    format!("node {node}, epoch {epoch}: {number} of {writer} after {start:?}");
                violations.push((Rule::Fifo, text));
            }
        }
        violations.into_iter().for_each(|(checker, text)| self.violations.record(checker, text));
    }
}
