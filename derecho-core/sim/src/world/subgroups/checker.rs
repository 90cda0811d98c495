//! Knowledge of a whole run, over all members at once, and the checkers over it.

use derecho_core::ids::NodeId;
use derecho_core::memory::Replica;
use derecho_core::multicast::entry::{EntryRead, RingEntry};
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Record;
use derecho_core::multicast::subgroup::DeliveryGuarantee;

use crate::world::ordered::{Orders, Rule, Violations, is_as_written};

/// Entries of one sender that have arrived at one member, read from the memory itself.
#[derive(Clone, Default)]
pub struct ArrivedEntries {
    /// The member's copy of the stream.
    pub replica: Option<Replica>,
    entries: u64,
    /// Number of slots in these entries.
    pub slots: u64,
    /// Number of null runs.
    pub null_entries: u64,
    /// Number of slots in null runs.
    pub null_slots: u64,
}

impl ArrivedEntries {
    /// Number of entries that had arrived when its member last turned.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Takes note of entries that have arrived since.
    pub fn look(&mut self, geometry: Geometry) {
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
pub struct DeliveryLog {
    /// The member.
    pub member: usize,
    /// Number of deliveries so far.
    pub count: usize,
    /// Next expected number of each sender.
    pub next: Vec<u64>,
}

impl DeliveryLog {
    /// Creates the log of a reader.
    pub fn new(member: usize, senders: usize) -> DeliveryLog {
        DeliveryLog { member, count: 0, next: vec![0; senders] }
    }
}

/// Safety checker of a subgroup: observes all members.
pub struct DeliveryChecker {
    /// Level of the subgroup.
    pub level: DeliveryGuarantee,
    /// Memory of each stream.
    pub geometry: Geometry,
    /// Ids of all members.
    pub ids: Vec<NodeId>,
    /// Member of each rank.
    pub senders: Vec<usize>,
    /// Whether each member reads.
    pub reads: Vec<bool>,
    /// Length of the gapless prefix of the order that had arrived at each member when it
    /// last turned.
    pub received: Vec<u64>,
    /// The single order, as far as any member has delivered it.
    orders: Orders<()>,
    /// Number of commits of each sender.
    pub committed: Vec<u64>,
    /// Number of writers that still write.
    pub writing: usize,
    /// Number of deliveries by all readers.
    delivered: usize,
    /// Number of readers.
    pub readers: usize,
    /// True once applications end.
    pub over: bool,
    /// Broken rules.
    pub violations: Violations,
}

impl DeliveryChecker {
    /// Creates the checker of a subgroup.
    pub fn new(level: DeliveryGuarantee, geometry: Geometry) -> DeliveryChecker {
        DeliveryChecker {
            level,
            geometry,
            ids: Vec::new(),
            senders: Vec::new(),
            reads: Vec::new(),
            received: Vec::new(),
            orders: Orders::default(),
            committed: Vec::new(),
            writing: 0,
            delivered: 0,
            readers: 0,
            over: false,
            violations: Violations::default(),
        }
    }

    /// Checks a record that a member has in its hands, for the first time or for the last.
    pub fn inspect(&mut self, member: usize, record: &Record, when: &str) {
        let (rank, number) = (record.sender(), record.number());
        if !is_as_written(self.senders[rank], number, record.bytes()) {
            let text = format!("member {member}: {number} of rank {rank} is corrupt when {when}");
            self.violations.record(Rule::Content, text);
        }
    }

    /// Checks a record that a reader takes.
    pub fn deliver(&mut self, log: &mut DeliveryLog, record: &Record) {
        let (member, rank, number) = (log.member, record.sender(), record.number());
        let due = std::mem::replace(&mut log.next[rank], number + 1);
        if number != due || number >= self.committed[rank] {
            let text = format!("member {member}: {number} of rank {rank} where {due} is due");
            self.violations.record(Rule::Fifo, text);
        }
        if self.level == DeliveryGuarantee::Atomic
            && let Some(agreed) = self.orders.deliver((), log.count, (rank, number))
        {
            let here = (rank, number);
            let text = format!("member {member} delivers {here:?} where {agreed:?} is due");
            self.violations.record(Rule::Order, text);
        }
        log.count += 1;
        self.delivered += 1;
        self.inspect(member, record, "taken");
    }

    /// Checks that a member has delivered the order up to here.
    pub fn agree(&mut self, member: usize, delivered: u64) {
        if self.level == DeliveryGuarantee::Unordered {
            return;
        }
        for other in (0..self.reads.len()).filter(|&other| self.reads[other]) {
            let received = self.received[other];
            if received < delivered {
                let text = format!("member {member} delivers {delivered}, {other} has {received}");
                self.violations.record(Rule::Agreement, text);
                return;
            }
        }
    }

    /// Number of commits of all senders.
    pub fn total(&self) -> u64 {
        self.committed.iter().sum()
    }

    /// Whether every reader has every message.
    pub fn is_complete(&self) -> bool {
        self.writing == 0 && self.delivered == self.total() as usize * self.readers
    }

    /// Checks a reader's sequence at the end of a run without failures.
    pub fn close(&mut self, log: &DeliveryLog) {
        for (rank, &next) in log.next.iter().enumerate() {
            let (sender, committed) = (self.senders[rank], self.committed[rank]);
            if next != committed {
                let own = sender == log.member;
                let checker = if own { Rule::SelfDelivery } else { Rule::Liveness };
                let text = format!("member {} has {next}/{committed} of {sender}", log.member);
                self.violations.record(checker, text);
            }
        }
    }
}
