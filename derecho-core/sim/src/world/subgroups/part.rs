//! A node's part in one subgroup: its memory, its writer and its readers.

use std::collections::BTreeMap;
use std::sync::Arc;

use derecho_core::ids::RegionId;
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::claim::{Claim, SenderMemory};
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::node::SubgroupId;

use super::arrivals::ArrivedEntries;
use super::checker::{DecidedEpoch, DeliveryChecker, EpochId};
use super::scenario::Pace;
use crate::Random;
use crate::world::ReadPace;
use crate::world::ordered::{Message, Rule, fill};

/// Number of acts for which a forgotten claim stays open.
const FOREVER: u64 = u64::MAX;

/// Open claim, with its later treatment.
struct OpenClaim {
    /// The claim.
    claim: Claim<'static>,
    /// Number of bytes that it gets.
    length: usize,
    /// Number of acts for which it stays open.
    acts: u64,
    /// Whether it is committed in the end, or abandoned.
    kept: bool,
}

/// State of a node's sending.
#[derive(Clone, Copy)]
pub struct SendState {
    /// Memory of the stream. Claims are kept from act to act, so it lives as long as the test.
    pub memory: &'static SenderMemory,
    /// The stream.
    pub writer: usize,
    /// Region of the memory.
    pub region: RegionId,
}

/// Two readers of one period of reading: one takes at once, the other at random, and holds
/// some records.
pub struct Readers {
    fast: Arc<Inbox>,
    slow: Arc<Inbox>,
    /// Writer of each sender of a record.
    pub(super) names: BTreeMap<usize, usize>,
    /// Records that the fast reader has taken.
    pub history: Vec<Message>,
    /// Next expected number of each writer.
    pub next: BTreeMap<usize, u64>,
    /// Number of records that the slow reader has taken.
    pub count: usize,
    held: Vec<(usize, Record)>,
}

impl Readers {
    pub(super) fn new(fast: Arc<Inbox>, slow: Arc<Inbox>) -> Readers {
        Readers {
            fast,
            slow,
            names: BTreeMap::new(),
            history: Vec::new(),
            next: BTreeMap::new(),
            count: 0,
            held: Vec::new(),
        }
    }
}

/// A node's part in a subgroup.
pub struct SubgroupPart {
    /// Index of the node.
    node: usize,
    /// Index of the subgroup.
    pub subgroup: usize,
    /// Maximum length of a record.
    longest: u64,
    /// The subgroup, while the node is a member of it or on its way.
    pub id: Option<SubgroupId>,
    /// Epoch that the node has begun.
    pub epoch: Option<u64>,
    /// Previous epoch.
    pub before: Option<u64>,
    /// Its lines.
    pub lines: Option<(RegionId, OwnRegion)>,
    /// Its stream, if it sends.
    pub sending: Option<SendState>,
    /// Whether its writer still writes.
    pub writes: bool,
    open: Vec<OpenClaim>,
    /// Whether the writer has forgotten a claim.
    has_forgotten: bool,
    /// Its readers, one pair for each period of reading.
    pub readers: Vec<Readers>,
    /// Whether the last readers still get records.
    pub reading: bool,
    /// Whether it has reported a stall.
    pub stalled: bool,
    /// Entries of each sender of a founded subgroup, where arrivals are watched.
    pub arrived: Vec<ArrivedEntries>,
}

impl SubgroupPart {
    /// Creates the part of a node that is not a member of the subgroup.
    pub(super) fn new(node: usize, subgroup: usize, longest: u64) -> SubgroupPart {
        SubgroupPart {
            node,
            subgroup,
            longest,
            id: None,
            epoch: None,
            before: None,
            lines: None,
            sending: None,
            writes: false,
            open: Vec::new(),
            has_forgotten: false,
            readers: Vec::new(),
            reading: false,
            stalled: false,
            arrived: Vec::new(),
        }
    }

    /// Begins to send, or ends it.
    pub(super) fn send_as(&mut self, sending: Option<SendState>) {
        self.open.clear();
        self.sending = sending;
    }

    /// Claims some records, and closes some of the open claims. Returns whether the writer has
    /// reached its goal.
    pub(super) fn write(
        &mut self,
        random: &mut Random,
        pace: Pace,
        checker: &mut DeliveryChecker,
    ) -> bool {
        let Some(sending) = self.sending else { return false };
        // A forgotten claim takes a chunk and a place from the others forever, and delays no entry
        // (I-7).
        let geometry = sending.memory.geometry();
        let may_forget = !pace.is_endless() && geometry.chunks() > 5 && geometry.entries() > 4;
        for _ in 0..random.between(1, pace.burst) {
            let length = random.between(1, self.longest) as usize;
            let claimed = checker.writers[sending.writer].committed + self.open.len() as u64;
            if claimed > pace.goal.saturating_add(3) {
                break;
            }
            let Ok(claim) = sending.memory.claim(length) else { break };
            let (mut acts, mut kept) = (0, true);
            if pace.careless {
                match random.below(24) {
                    0..4 => acts = random.between(1, 4),
                    4 => acts = random.between(10, 40),
                    5..7 => kept = false,
                    7 if may_forget && !self.has_forgotten => {
                        (acts, self.has_forgotten) = (FOREVER, true);
                    }
                    _ => {}
                }
            }
            // Sometimes shorter than the claim.
            let is_short = !pace.is_endless() && length.is_multiple_of(5);
            let length = if is_short { 1 } else { length };
            self.open.push(OpenClaim { claim, length, acts, kept });
            if !pace.is_endless() && random.one_in(3) {
                self.close_claims(sending, pace.goal, false, checker);
            }
        }
        self.close_claims(sending, pace.goal, false, checker);
        let is_done = checker.writers[sending.writer].committed >= pace.goal;
        if is_done {
            // Claims that are still open are abandoned, except forgotten ones.
            self.open.retain(|open| open.acts == FOREVER);
        }
        is_done
    }

    fn close_claims(
        &mut self,
        sending: SendState,
        goal: u64,
        all: bool,
        checker: &mut DeliveryChecker,
    ) {
        let writer = sending.writer;
        for mut open in std::mem::take(&mut self.open) {
            if open.acts == FOREVER || open.acts > 0 && !all {
                open.acts -= u64::from(open.acts != FOREVER);
                self.open.push(open);
            } else if open.kept && checker.writers[writer].committed < goal {
                let length = open.length;
                let number = open.claim.commit(length, |number, bytes| {
                    fill(writer, number, &mut bytes[..length]);
                });
                let committed = &mut checker.writers[writer].committed;
                assert_eq!(number, *committed, "numbers are gapless");
                *committed = number + 1;
            }
        }
    }

    /// Performs the last acts of its writer.
    pub(super) fn end_writing(&mut self, checker: &mut DeliveryChecker) {
        if let Some(sending) = self.sending {
            self.close_claims(sending, u64::MAX, true, checker);
        }
    }

    /// Commits a record at once; returns false if there is no room.
    pub(super) fn commit(&mut self, length: usize, checker: &mut DeliveryChecker) -> bool {
        let Some(SendState { memory, writer, .. }) = self.sending else { return true };
        let Ok(claim) = memory.claim(length) else { return false };
        let number = claim.commit(length, |number, bytes| fill(writer, number, bytes));
        checker.writers[writer].committed = number + 1;
        true
    }

    /// Makes the slow readers take and release some records.
    pub(super) fn take(
        &mut self,
        random: &mut Random,
        pace: ReadPace,
        checker: &mut DeliveryChecker,
    ) {
        let node = self.node;
        for readers in &mut self.readers {
            for _ in 0..pace.count {
                let Some(record) = readers.slow.take() else { break };
                let (due, at) = (readers.history.get(readers.count), readers.count);
                let writer = readers.names[&record.sender()];
                let here = (writer, record.number());
                if due != Some(&here) {
                    let text = format!("node {node}: {here:?} at {at} where {due:?} is due");
                    checker.violations.record(Rule::Order, text);
                }
                readers.count += 1;
                checker.inspect(node, writer, &record, "taken");
                if random.one_in(pace.hold_one_in) {
                    readers.held.push((writer, record));
                }
            }
            for (writer, record) in std::mem::take(&mut readers.held) {
                if random.one_in(pace.release_one_in) {
                    checker.inspect(node, writer, &record, "released");
                } else {
                    readers.held.push((writer, record));
                }
            }
        }
    }

    /// Makes the fast readers take every delivered record, in the epoch that the node is in.
    pub(super) fn observe(&mut self, checker: &mut DeliveryChecker) {
        for readers in &mut self.readers {
            while let Some(record) = readers.fast.take() {
                let writer = readers.names[&record.sender()];
                checker.inspect(self.node, writer, &record, "delivered");
                let epoch = (self.subgroup, self.epoch.expect("only members deliver"));
                let message = (writer, record.number());
                checker.deliver(self.node, epoch, message, &mut readers.next);
                readers.history.push(message);
            }
        }
    }

    /// Name of the epoch that the node has begun, if any.
    pub(super) fn epoch_id(&self) -> Option<EpochId> {
        Some((self.subgroup, self.epoch?))
    }

    /// Number of records that the application holds.
    pub(super) fn held(&self) -> usize {
        self.readers.iter().map(|readers| readers.held.len()).sum()
    }

    /// Whether the application refers to a record, or has not taken one.
    pub fn holds(&self) -> bool {
        let untaken = |readers: &Readers| readers.count != readers.history.len();
        self.held() > 0 || self.readers.iter().any(untaken)
    }

    /// Returns the first message of an epoch that the fast reader lacks, or any reader if `slow`:
    /// its writer, and its number.
    pub(super) fn lacks(
        &self,
        plan: &DecidedEpoch,
        checker: &DeliveryChecker,
        slow: bool,
    ) -> Option<Message> {
        let next = |writer: usize| {
            let start = plan.starts.get(&writer).map_or(0, |start| start.message);
            let next = self.readers.last().and_then(|readers| readers.next.get(&writer).copied());
            (writer, next.unwrap_or(start))
        };
        let mut lacking = plan.writers().map(next);
        let untaken = |readers: &Readers| readers.history.get(readers.count).copied();
        lacking
            .find(|(writer, next)| *next != checker.writers[*writer].committed)
            .or_else(|| self.readers.iter().filter(|_| slow).find_map(untaken))
    }
}
