//! One member of a subgroup: a node and its application.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Link, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::{LINE_WORDS, OwnRegion, Replica};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::multicast::order::received_without_gap;
use derecho_core::multicast::subgroup::SubgroupConfig;
use derecho_core::node::{
    ACKS, ACKS_WORDS, MemberRole, Node, NodeEvent, StreamOrigin, SubgroupDefinition, SubgroupId,
    SubgroupMemory,
};

use super::checker::{ArrivedEntries, DeliveryChecker, DeliveryLog};
use super::{Pace, Scenario, SubgroupRole};
use crate::world::WorldMember;
use crate::world::ordered::{FaultMoment, OpenClaim, OrderedMember, Rule, Violations, fill};
use crate::{Random, SimLink};

/// Maximum length of a record.
pub const LONGEST: u64 = 200;
/// Region of every member's lines.
pub const LINES: RegionId = RegionId(16);
/// Region of every member's stream.
pub const STREAM: RegionId = RegionId(17);

/// Planted fault, which acts before and after each turn of its member.
pub type PlantedFault = fn(&mut TestMember, FaultMoment, &mut Effects);

/// One of this member's readers, which holds some of its records.
struct Reader {
    inbox: Arc<Inbox>,
    log: DeliveryLog,
    held: Vec<Record>,
}

/// A member of the subgroup, and its application.
pub struct TestMember {
    /// Index of the member.
    pub me: usize,
    /// Its role.
    pub role: SubgroupRole,
    /// The node.
    pub node: Node,
    /// The subgroup, once it has begun to found it.
    pub id: Option<SubgroupId>,
    /// Observer of all members.
    pub checker: Rc<RefCell<DeliveryChecker>>,
    /// Its lines.
    pub lines: OwnRegion,
    /// Memory from which it sends. Claims are kept from act to act, so it lives as long as
    /// the test.
    pub memory: Option<&'static SenderMemory>,
    /// Its rank among the senders, if it sends.
    pub rank: Option<usize>,
    /// Entries of each sender, by rank.
    pub arrived: Vec<ArrivedEntries>,
    peers: BTreeMap<NodeId, Peer>,
    /// Lines of the others, as seen here.
    pub views: BTreeMap<usize, Replica>,
    /// Whether it has founded the subgroup.
    pub founded: bool,
    open: Vec<OpenClaim>,
    /// Number of claims that are never closed.
    forgotten: usize,
    readers: Vec<Reader>,
    /// Whether it has reported a stall.
    pub stalled: bool,
    /// Numbers of readers and senders, as the node has reported them.
    pub gathered: (usize, usize),
    /// Planted fault.
    pub planted: Option<PlantedFault>,
    /// Memory of a planted fault.
    pub mark: u64,
}

impl TestMember {
    /// Creates a member.
    pub fn new(
        link: &mut SimLink,
        me: usize,
        scenario: &Scenario,
        checker: &Rc<RefCell<DeliveryChecker>>,
    ) -> TestMember {
        let role = scenario.members[me];
        let acks = link.open(ACKS, ACKS_WORDS).unwrap();
        let mut node = Node::new(link.node(), acks, Arc::new(|| {}));
        assert_eq!([node.fresh_region(), node.fresh_region()], [LINES, STREAM]);
        let lines = link.open(LINES, scenario.members.len() * LINE_WORDS).unwrap();
        let memory = role.sends.map(|_| {
            let region = link.open(STREAM, scenario.geometry.words()).unwrap();
            &*Box::leak(Box::new(SenderMemory::with_nulls(region, scenario.geometry)))
        });
        let rank = memory.map(|_| scenario.senders().take_while(|&sender| sender < me).count());
        let mut arrived = vec![ArrivedEntries::default(); scenario.senders().count()];
        if let (Some(rank), Some(memory)) = (rank, memory) {
            arrived[rank].replica = Some(memory.replica());
        }
        TestMember {
            me,
            role,
            node,
            id: None,
            checker: Rc::clone(checker),
            lines,
            memory,
            rank,
            arrived,
            peers: BTreeMap::new(),
            views: BTreeMap::new(),
            founded: false,
            open: Vec::new(),
            forgotten: 0,
            readers: Vec::new(),
            stalled: false,
            gathered: (0, 0),
            planted: None,
            mark: 0,
        }
    }

    /// Founds the subgroup if all peers are known by now.
    pub fn found(&mut self, terms: SubgroupConfig, effects: &mut Effects) -> bool {
        let checker = self.checker.borrow();
        let mut members = Vec::new();
        for (index, id) in checker.ids.iter().enumerate() {
            let origin = match self.peers.get(id) {
                _ if index == self.me => StreamOrigin::Own,
                Some(&peer) => StreamOrigin::Peer(peer),
                None => return false,
            };
            let sends = checker.senders.contains(&index).then_some(STREAM);
            members.push(MemberRole { origin, reads: checker.reads[index], sends, lines: LINES });
        }
        drop(checker);
        let definition = SubgroupDefinition { name: 77, config: terms, members };
        let share = SubgroupMemory { lines: self.lines.clone(), memory: self.memory.cloned() };
        self.id = Some(self.node.found(definition, share, effects).unwrap());
        true
    }

    fn member_of(&self, peer: Peer) -> Option<usize> {
        let (id, _) = self.peers.iter().find(|(_, known)| **known == peer)?;
        self.checker.borrow().ids.iter().position(|known| known == id)
    }

    /// Claims some records, and closes some of the open claims. Returns whether the writer has
    /// reached its goal.
    pub fn write(&mut self, random: &mut Random, pace: Pace) -> bool {
        let (Some(memory), Some(rank)) = (self.memory, self.rank) else { return true };
        let mut committed = self.checker.borrow().committed[rank];
        // A forgotten claim takes a chunk and a place from the others forever, and delays no entry
        // (I-7).
        let geometry = memory.geometry();
        let may_forget = geometry.chunks() > 5 && geometry.entries() > 4;
        for _ in 0..random.between(1, pace.burst) {
            let length = random.between(1, LONGEST) as usize;
            if committed + self.open.len() as u64 > pace.goal + 3 {
                break;
            }
            let Ok(claim) = memory.claim(length) else { break };
            let (mut acts, mut kept) = (0, true);
            if pace.careless {
                match random.below(24) {
                    0..4 => acts = random.between(1, 4),
                    4 => acts = random.between(10, 40),
                    5..7 => kept = false,
                    7 if may_forget && self.forgotten == 0 => {
                        (acts, self.forgotten) = (u64::MAX, 1);
                    }
                    _ => {}
                }
            }
            self.open.push(OpenClaim { claim, length, acts, kept });
            if !random.one_in(3) {
                continue;
            }
            committed = self.close_claims(committed, pace.goal);
        }
        committed = self.close_claims(committed, pace.goal);
        if committed < pace.goal {
            return false;
        }
        // Claims that are still open are abandoned, except forgotten ones.
        self.open.retain(|open| open.acts > 1_000_000);
        true
    }

    fn close_claims(&mut self, mut committed: u64, goal: u64) -> u64 {
        let (me, rank) = (self.me, self.rank.unwrap());
        for mut open in std::mem::take(&mut self.open) {
            if open.acts > 0 {
                open.acts -= 1;
                self.open.push(open);
            } else if open.kept && committed < goal {
                // Sometimes shorter than the claim.
                let length = if open.length.is_multiple_of(5) { 1 } else { open.length };
                let number = open.claim.commit(length, |number, bytes| {
                    fill(me, number, &mut bytes[..length]);
                });
                assert_eq!(number, committed, "numbers are gapless");
                committed += 1;
                self.checker.borrow_mut().committed[rank] = committed;
            }
        }
        committed
    }

    /// Commits a record at once; returns false if there is no room.
    pub fn commit(&mut self, length: usize) -> bool {
        let (memory, rank) = (self.memory.unwrap(), self.rank.unwrap());
        let Ok(claim) = memory.claim(length) else { return false };
        let number = claim.commit(length, |number, bytes| fill(self.me, number, bytes));
        self.checker.borrow_mut().committed[rank] = number + 1;
        true
    }

    /// Makes the second reader take up to `count` records: one in `keep` is kept, and one in `drop`
    /// of those kept before is released.
    pub fn take(&mut self, random: &mut Random, count: u64, keep: u64, drop: u64) {
        let TestMember { checker, readers, me, .. } = self;
        let mut checker = checker.borrow_mut();
        for reader in readers.iter_mut().skip(1) {
            for _ in 0..count {
                let Some(record) = reader.inbox.take() else { break };
                checker.deliver(&mut reader.log, &record);
                if random.one_in(keep) {
                    reader.held.push(record);
                }
            }
            for record in std::mem::take(&mut reader.held) {
                if random.one_in(drop) {
                    checker.inspect(*me, &record, "released");
                } else {
                    reader.held.push(record);
                }
            }
        }
    }

    /// Makes the first reader take every delivered record at once.
    fn observe(&mut self) {
        let TestMember { checker, readers, .. } = self;
        if let Some(reader) = readers.first_mut() {
            let mut checker = checker.borrow_mut();
            while let Some(record) = reader.inbox.take() {
                checker.deliver(&mut reader.log, &record);
            }
        }
    }

    /// Iterates over the logs of its readers.
    pub fn logs(&self) -> impl Iterator<Item = &DeliveryLog> {
        self.readers.iter().map(|reader| &reader.log)
    }

    fn take_in(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Founded(id) => {
                self.founded = true;
                for _ in 0..2 {
                    let Some(inbox) = self.node.add_subgroup_reader(id) else { break };
                    let log = DeliveryLog::new(self.me, self.arrived.len());
                    self.readers.push(Reader { inbox, log, held: Vec::new() });
                }
                assert_eq!(self.readers.is_empty(), !self.role.reads);
            }
            NodeEvent::Gathered { readers, senders, .. } => self.gathered = (readers, senders),
            NodeEvent::Stalled(_) => self.stalled = true,
            NodeEvent::Faulty { peer, fault } => {
                let text = format!("member {} finds {:?}: {fault}", self.me, self.member_of(peer));
                self.checker.borrow_mut().violations.record(Rule::Blame, text);
            }
            _ => {}
        }
    }

    fn look(&mut self) {
        let geometry = self.checker.borrow().geometry;
        self.arrived.iter_mut().for_each(|arrived| arrived.look(geometry));
        let slots: Vec<u64> = self.arrived.iter().map(|arrived| arrived.slots).collect();
        let received = received_without_gap(slots.into_iter());
        self.checker.borrow_mut().received[self.me] = received;
    }
}

impl Machine for TestMember {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        match &event {
            LinkEvent::PeerUp { peer, node, .. } => {
                self.peers.insert(*node, *peer);
            }
            LinkEvent::RegionUp { peer, region, replica } => {
                let member = self.member_of(*peer).unwrap();
                let rank = self.checker.borrow().senders.iter().position(|&s| s == member);
                match (*region, rank) {
                    (STREAM, Some(rank)) => self.arrived[rank].replica = Some(replica.clone()),
                    (LINES, _) => drop(self.views.insert(member, replica.clone())),
                    _ => {}
                }
            }
            _ => {}
        }
        self.node.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        if self.founded {
            if let Some(planted) = self.planted {
                planted(self, FaultMoment::Before, effects);
            }
            // State that the node finds in this turn: nothing lands while it turns.
            self.look();
        }
        let mut done = self.node.turn(now, effects);
        if self.founded {
            // Nulls that the turn has committed are received with it.
            self.look();
        }
        while let Some(event) = self.node.next_event() {
            self.take_in(event);
            done += 1;
        }
        if let Some(id) = self.id.filter(|_| self.role.reads) {
            self.checker.borrow_mut().agree(self.me, self.node.delivered(id));
        }
        self.observe();
        if let Some(planted) = self.planted.filter(|_| self.founded) {
            planted(self, FaultMoment::After, effects);
        }
        done
    }
}

impl WorldMember for TestMember {
    type Checker = DeliveryChecker;
    type Setting = Scenario;
}

impl OrderedMember for TestMember {
    fn take_all(&mut self) {
        self.take(&mut Random::new(0), u64::MAX, 0, 1);
    }

    fn violations(checker: &mut DeliveryChecker) -> &mut Violations {
        &mut checker.violations
    }
}
