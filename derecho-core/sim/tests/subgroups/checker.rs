//! Knowledge of a whole run, over all members at once, and the checkers over it.

use derecho_core::ids::NodeId;
use derecho_core::memory::Replica;
use derecho_core::multicast::entry::{EntryRead, RingEntry};
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Record;
use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_sim::Random;

/// Violated rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// Two members deliver in different orders (I-20).
    Order,
    /// A gap, a duplicate or a message that no member sent (I-4).
    Fifo,
    /// Bytes differ from those written, when taken or when released (I-5, I-6).
    Content,
    /// A delivery happened before all readers had received the message (I-21, I-24).
    Agreement,
    /// A member lacks messages of its own.
    SelfDelivery,
    /// An expected event does not occur although all members continue, for example because members
    /// wait for each other's room (I-23).
    Liveness,
    /// A post is made although there is nothing to say (I-22).
    Quiescence,
    /// A member calls a correct one faulty.
    Blame,
}

/// Fills the record of this number with a sender's content.
pub(crate) fn fill(tag: usize, number: u64, bytes: &mut [u8]) {
    let seed = (tag as u64).rotate_left(20) ^ number.rotate_left(32) ^ bytes.len() as u64;
    let mut random = Random::new(seed);
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&random.next_word().to_le_bytes()[..part.len()]);
    }
}

fn is_as_written(tag: usize, number: u64, bytes: &[u8]) -> bool {
    let mut room = [0; 512];
    let written = &mut room[..bytes.len()];
    fill(tag, number, written);
    written == bytes
}

/// Entries of one sender that have arrived at one member, read from the memory itself.
#[derive(Clone, Default)]
pub(crate) struct ArrivedEntries {
    pub(crate) replica: Option<Replica>,
    entries: u64,
    pub(crate) slots: u64,
    pub(crate) null_entries: u64,
    pub(crate) null_slots: u64,
}

impl ArrivedEntries {
    /// Number of entries that had arrived when its member last turned.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    pub(crate) fn look(&mut self, geometry: Geometry) {
        let Some(replica) = &self.replica else { return };
        loop {
            let word = geometry.entry_word(self.entries);
            let words = [replica.load(word), replica.load(word + 1)];
            let EntryRead::Entry(entry) = RingEntry::decode(words, self.entries, geometry) else {
                return;
            };
            self.entries += 1;
            self.slots += entry.slots();
            if let RingEntry::Nulls(run) = entry {
                self.null_entries += 1;
                self.null_slots += u64::from(run);
            }
        }
    }
}

/// One reader's sequence of deliveries.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryLog {
    pub(crate) member: usize,
    /// Number of deliveries so far.
    pub(crate) count: usize,
    /// Next expected number of each sender.
    pub(crate) next: Vec<u64>,
}

impl DeliveryLog {
    pub(crate) fn new(member: usize, senders: usize) -> DeliveryLog {
        DeliveryLog { member, count: 0, next: vec![0; senders] }
    }
}

/// Safety checker of a subgroup: observes all members.
pub(crate) struct DeliveryChecker {
    pub(crate) level: DeliveryGuarantee,
    pub(crate) geometry: Geometry,
    pub(crate) ids: Vec<NodeId>,
    /// Member of each rank.
    pub(crate) senders: Vec<usize>,
    pub(crate) reads: Vec<bool>,
    /// Length of the gapless prefix of the order that had arrived at each member when it
    /// last turned.
    pub(crate) received: Vec<u64>,
    /// The single order, as far as any member has delivered it.
    order: Vec<(usize, u64)>,
    /// Number of commits of each sender.
    pub(crate) committed: Vec<u64>,
    /// Number of writers that still write.
    pub(crate) writing: usize,
    /// Number of deliveries by all readers, and number of readers.
    delivered: usize,
    pub(crate) readers: usize,
    /// True once applications end.
    pub(crate) over: bool,
    pub(crate) violations: Vec<(Rule, String)>,
}

impl DeliveryChecker {
    pub(crate) fn new(level: DeliveryGuarantee, geometry: Geometry) -> DeliveryChecker {
        DeliveryChecker {
            level,
            geometry,
            ids: Vec::new(),
            senders: Vec::new(),
            reads: Vec::new(),
            received: Vec::new(),
            order: Vec::new(),
            committed: Vec::new(),
            writing: 0,
            delivered: 0,
            readers: 0,
            over: false,
            violations: Vec::new(),
        }
    }

    pub(crate) fn record_violation(&mut self, checker: Rule, text: String) {
        if self.violations.len() < 8 {
            self.violations.push((checker, text));
        }
    }

    /// Checks a record that a member has in its hands, for the first time or for the last.
    pub(crate) fn inspect(&mut self, member: usize, record: &Record, when: &str) {
        let (rank, number) = (record.sender(), record.number());
        if !is_as_written(self.senders[rank], number, record.bytes()) {
            let text = format!("member {member}: {number} of rank {rank} is corrupt when {when}");
            self.record_violation(Rule::Content, text);
        }
    }

    /// Checks a record that a reader takes.
    pub(crate) fn deliver(&mut self, log: &mut DeliveryLog, record: &Record) {
        let (member, rank, number) = (log.member, record.sender(), record.number());
        let due = std::mem::replace(&mut log.next[rank], number + 1);
        if number != due || number >= self.committed[rank] {
            let text = format!("member {member}: {number} of rank {rank} where {due} is due");
            self.record_violation(Rule::Fifo, text);
        }
        if self.level == DeliveryGuarantee::Atomic {
            match self.order.get(log.count) {
                Some(&agreed) if agreed != (rank, number) => {
                    let here = (rank, number);
                    let text = format!("member {member} delivers {here:?} where {agreed:?} is due");
                    self.record_violation(Rule::Order, text);
                }
                Some(_) => {}
                None => self.order.push((rank, number)),
            }
        }
        log.count += 1;
        self.delivered += 1;
        self.inspect(member, record, "taken");
    }

    /// Checks that a member has delivered the order up to here.
    pub(crate) fn agree(&mut self, member: usize, delivered: u64) {
        if self.level == DeliveryGuarantee::Unordered {
            return;
        }
        for other in (0..self.reads.len()).filter(|&other| self.reads[other]) {
            let received = self.received[other];
            if received < delivered {
                let text = format!("member {member} delivers {delivered}, {other} has {received}");
                self.record_violation(Rule::Agreement, text);
                return;
            }
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.committed.iter().sum()
    }

    /// Whether every reader has every message.
    pub(crate) fn is_complete(&self) -> bool {
        self.writing == 0 && self.delivered == self.total() as usize * self.readers
    }

    /// Checks a reader's sequence at the end of a run without failures.
    pub(crate) fn close(&mut self, log: &DeliveryLog) {
        for (rank, &next) in log.next.iter().enumerate() {
            let (sender, committed) = (self.senders[rank], self.committed[rank]);
            if next != committed {
                let own = sender == log.member;
                let checker = if own { Rule::SelfDelivery } else { Rule::Liveness };
                let text = format!("member {} has {next}/{committed} of {sender}", log.member);
                self.record_violation(checker, text);
            }
        }
    }
}
