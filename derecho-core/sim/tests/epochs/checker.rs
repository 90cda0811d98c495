//! Knowledge of a whole run through many epochs, over all members at once, and the checkers
//! over it.

use std::collections::BTreeMap;

use derecho_core::ids::{NodeId, RegionId};
use derecho_core::memory::Replica;
use derecho_core::multicast::inbox::Record;
use derecho_core::multicast::stream::StreamStart;
use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_sim::Random;

/// Violated rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// Two members deliver an epoch in different orders (I-20).
    Order,
    /// A gap, a duplicate or a message that no member sent, within an epoch or from one to the next
    /// (I-4, I-30).
    Fifo,
    /// Bytes differ from those written, when taken or when released (I-5, I-6, I-32, I-36).
    Content,
    /// A member has delivered more of an epoch than others that have finished it (I-31).
    Agreement,
    /// A member lacks messages of its own.
    SelfDelivery,
    /// An expected event does not occur although all members continue.
    Liveness,
    /// A post is made although there is nothing to say.
    Quiescence,
    /// A member calls a correct one faulty.
    Blame,
    /// An entry is posted to a node twice (I-9a, I-34).
    Once,
    /// A member refuses a valid request.
    Refusal,
}

/// Fills the record of this number with a writer's content.
pub(crate) fn fill(writer: usize, number: u64, bytes: &mut [u8]) {
    let seed = (writer as u64).rotate_left(20) ^ number.rotate_left(32) ^ bytes.len() as u64;
    let mut random = Random::new(seed);
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&random.next_word().to_le_bytes()[..part.len()]);
    }
}

fn is_as_written(writer: usize, number: u64, bytes: &[u8]) -> bool {
    let mut room = [0; 512];
    let written = &mut room[..bytes.len()];
    fill(writer, number, written);
    written == bytes
}

/// One stream, from its first message to its last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    pub(crate) node: usize,
    pub(crate) region: RegionId,
    pub(crate) committed: u64,
}

/// Role of a node in an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EpochRole {
    pub(crate) node: usize,
    pub(crate) slot: usize,
    pub(crate) reads: bool,
    pub(crate) writer: Option<usize>,
    pub(crate) lines: RegionId,
}

/// An epoch, as decided.
#[derive(Clone, Debug)]
pub(crate) struct DecidedEpoch {
    pub(crate) number: u64,
    pub(crate) roles: Vec<EpochRole>,
    /// Beginning of the epoch in each stream, as far as decided.
    pub(crate) starts: BTreeMap<usize, StreamStart>,
}

impl DecidedEpoch {
    pub(crate) fn role_of(&self, node: usize) -> Option<&EpochRole> {
        self.roles.iter().find(|role| role.node == node)
    }

    pub(crate) fn reads(&self, node: usize) -> bool {
        self.role_of(node).is_some_and(|place| place.reads)
    }

    pub(crate) fn writers(&self) -> impl Iterator<Item = usize> + '_ {
        self.roles.iter().filter_map(|role| role.writer)
    }
}

/// Passage of one reader through one epoch.
#[derive(Clone, Debug)]
pub(crate) struct EpochPassage {
    pub(crate) node: usize,
    pub(crate) epoch: u64,
    pub(crate) delivered: usize,
    pub(crate) finished: bool,
}

/// Safety checker over all epochs: observes all members.
pub(crate) struct EpochChecker {
    pub(crate) level: DeliveryGuarantee,
    pub(crate) ids: Vec<NodeId>,
    pub(crate) writers: Vec<Writer>,
    pub(crate) epochs: BTreeMap<u64, DecidedEpoch>,
    /// Order of each epoch, as far as any member has delivered it: writers and numbers.
    orders: BTreeMap<u64, Vec<(usize, u64)>>,
    /// End of each stream by a change of layout, by the epoch that was ended.
    pub(crate) cuts: BTreeMap<(u64, usize), StreamStart>,
    pub(crate) passages: Vec<EpochPassage>,
    /// First number that a reader got of a writer, and the epoch.
    firsts: Vec<(u64, usize, u64, usize)>,
    /// The regions themselves, where memory is shared.
    pub(crate) regions: BTreeMap<(usize, RegionId), Replica>,
    /// True while nothing is written.
    pub(crate) lull: bool,
    /// True once nothing more is written.
    pub(crate) written: bool,
    /// True once applications end.
    pub(crate) over: bool,
    pub(crate) violations: Vec<(Rule, String)>,
}

impl EpochChecker {
    pub(crate) fn new(level: DeliveryGuarantee) -> EpochChecker {
        EpochChecker {
            level,
            ids: Vec::new(),
            writers: Vec::new(),
            epochs: BTreeMap::new(),
            orders: BTreeMap::new(),
            cuts: BTreeMap::new(),
            passages: Vec::new(),
            firsts: Vec::new(),
            regions: BTreeMap::new(),
            lull: false,
            written: false,
            over: false,
            violations: Vec::new(),
        }
    }

    pub(crate) fn record_violation(&mut self, checker: Rule, text: String) {
        if self.violations.len() < 8 {
            self.violations.push((checker, text));
        }
    }

    pub(crate) fn writer(&self, node: usize, region: RegionId) -> usize {
        let is_it = |writer: &Writer| (writer.node, writer.region) == (node, region);
        self.writers.iter().position(is_it).expect("every stream has a writer")
    }

    /// Checks a record that a member has in its hands, for the first time or for the last.
    pub(crate) fn inspect(&mut self, node: usize, writer: usize, record: &Record, when: &str) {
        if !is_as_written(writer, record.number(), record.bytes()) {
            let number = record.number();
            let text = format!("node {node}: {number} of writer {writer} is corrupt when {when}");
            self.record_violation(Rule::Content, text);
        }
    }

    /// Records that a reader has begun an epoch.
    pub(crate) fn begins(&mut self, node: usize, epoch: u64) {
        self.passages.push(EpochPassage { node, epoch, delivered: 0, finished: false });
    }

    /// Records that a reader has finished its epoch: everything of it is delivered there.
    pub(crate) fn finishes(&mut self, node: usize, epoch: u64) {
        let passage =
            self.passages.iter_mut().find(|stay| (stay.node, stay.epoch) == (node, epoch));
        passage.into_iter().for_each(|stay| stay.finished = true);
    }

    /// Checks a message that a reader takes in this epoch, the next one in its order. `next`: the
    /// next expected number of each writer.
    pub(crate) fn deliver(
        &mut self,
        (node, epoch): (usize, u64),
        (writer, number): (usize, u64),
        next: &mut BTreeMap<usize, u64>,
    ) {
        match next.insert(writer, number + 1) {
            Some(due) if due != number => {
                let text = format!("node {node}, epoch {epoch}: {number} of {writer}, not {due}");
                self.record_violation(Rule::Fifo, text);
            }
            Some(_) => {}
            None => self.firsts.push((epoch, writer, number, node)),
        }
        if number >= self.writers[writer].committed {
            let text = format!("node {node}, epoch {epoch}: no member sent {number} of {writer}");
            self.record_violation(Rule::Fifo, text);
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
        let order = self.orders.entry(epoch).or_default();
        match order.get(place) {
            Some(&agreed) if agreed != (writer, number) => {
                let here = (writer, number);
                let text = format!("node {node}, epoch {epoch}, {place}: {here:?} not {agreed:?}");
                self.record_violation(Rule::Order, text);
            }
            Some(_) => {}
            None => order.push((writer, number)),
        }
    }

    /// Judges the end of a run: members that have finished an epoch have delivered everything that
    /// any member has delivered in it, and every new member began where it was announced.
    pub(crate) fn close(&mut self) {
        let mut violations = Vec::new();
        if self.level == DeliveryGuarantee::Atomic {
            for stay in &self.passages {
                let all = self.orders.get(&stay.epoch).map_or(0, Vec::len);
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
        violations.into_iter().for_each(|(checker, text)| self.record_violation(checker, text));
    }
}
