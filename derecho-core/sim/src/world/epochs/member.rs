//! One node, which may be a member of the subgroup, and its application.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Link, LinkEvent, Sharing};
use derecho_core::machine::{Effects, Machine, PostKind, Target};
use derecho_core::memory::{LINE_WORDS, OwnRegion, Replica};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::{ENTRIES, ENTRY_WORDS, Geometry};
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::multicast::stream::StreamStart;
use derecho_core::multicast::subgroup::epoch::EpochPhase;
use derecho_core::multicast::subgroup::{SUBGROUP_LINES, SubgroupConfig};
use derecho_core::node::{
    ACKS, ACKS_WORDS, CHANGES, CHANGES_WORDS, EpochDescription, EpochMember, MemberRole, Node,
    NodeEvent, StreamEnd, StreamOrigin, StreamProgress, SubgroupDefinition, SubgroupId,
    SubgroupMemory,
};

use super::checker::{DecidedEpoch, EpochChecker};
use super::{EpochSetting, LONGEST, TestParameters};
use crate::world::WorldMember;
use crate::world::group::SingleThreadBarrier;
use crate::world::ordered::{FaultMoment, OpenClaim, OrderedMember, Rule, Violations, fill};
use crate::{Random, SimLink};

/// Planted fault, which acts before and after each turn of its member.
pub type PlantedFault = fn(&mut TestMember, FaultMoment, &mut Effects);

/// Number of additional subgroups of which a node is the only member, so that it is in many.
const OTHERS: u64 = 5;

/// Note that wakes a node with news; the simulator has no bells where memory is shared.
const BELL: &[u8] = &[0xee];

/// Two readers of one period of reading: one takes at once, the other at random, and holds
/// some records.
pub struct Readers {
    fast: Arc<Inbox>,
    slow: Arc<Inbox>,
    /// Writer of each sender of a record.
    names: BTreeMap<usize, usize>,
    /// Records that the fast reader has taken, and the next expected number of each writer.
    history: Vec<(usize, u64)>,
    /// Next expected number of each writer.
    pub next: BTreeMap<usize, u64>,
    /// Number of records that the slow reader has taken.
    pub count: usize,
    held: Vec<(usize, Record)>,
}

/// State of a node's sending.
#[derive(Clone, Copy)]
pub struct SendState {
    /// Memory of the stream.
    pub memory: &'static SenderMemory,
    /// The stream.
    pub writer: usize,
    /// Region of the memory.
    pub region: RegionId,
}

/// A node, which may be a member of the subgroup, and its application.
pub struct TestMember {
    /// Index of the node.
    pub me: usize,
    parameters: TestParameters,
    link: SimLink,
    /// The node.
    pub node: Node,
    /// Counts of changes in its streams, if the node has any.
    pub changes: Option<OwnRegion>,
    /// Observer of all members.
    pub checker: Rc<RefCell<EpochChecker>>,
    /// The subgroup, while the node is a member of it or on its way.
    pub id: Option<SubgroupId>,
    /// Epoch that the node has begun.
    pub epoch: Option<u64>,
    /// Previous epoch.
    pub before: Option<u64>,
    /// True if no other node counts it as a member any more, but it does not know that.
    pub evicted: bool,
    /// Its stream, if it sends.
    pub sending: Option<SendState>,
    /// Its lines.
    pub lines: Option<(RegionId, OwnRegion)>,
    /// The other nodes.
    pub peers: BTreeMap<NodeId, Peer>,
    open: Vec<OpenClaim>,
    /// Its readers, one pair for each period of reading.
    pub readers: Vec<Readers>,
    /// Whether the last readers still get records.
    pub reading: bool,
    /// The others' regions, as seen here.
    pub replicas: BTreeMap<(usize, RegionId), Replica>,
    /// Number of entries posted to each peer so far.
    pub posted: BTreeMap<(Peer, RegionId), u64>,
    /// Planted fault.
    pub planted: Option<PlantedFault>,
    /// Memory of a planted fault.
    pub mark: u64,
}

impl TestMember {
    /// Creates a node.
    pub fn new(
        link: &mut SimLink,
        me: usize,
        parameters: TestParameters,
        checker: &Rc<RefCell<EpochChecker>>,
    ) -> TestMember {
        let acks = link.open(ACKS, ACKS_WORDS).unwrap();
        let mut node = Node::new(link.node(), acks, Arc::new(|| {}));
        let changes = parameters.many.then(|| link.open(CHANGES, CHANGES_WORDS).unwrap());
        if let Some(changes) = &changes {
            checker.borrow_mut().regions.insert((me, CHANGES), changes.replica());
            node = node.with_changes(changes.clone(), Some(Arc::new(SingleThreadBarrier)));
        }
        TestMember {
            me,
            parameters,
            link: link.clone(),
            node,
            changes,
            checker: Rc::clone(checker),
            id: None,
            epoch: None,
            before: None,
            evicted: false,
            sending: None,
            lines: None,
            peers: BTreeMap::new(),
            open: Vec::new(),
            readers: Vec::new(),
            reading: false,
            replicas: BTreeMap::new(),
            posted: BTreeMap::new(),
            planted: None,
            mark: 0,
        }
    }

    fn open_region(&mut self, words: usize) -> (RegionId, OwnRegion) {
        let id = self.node.fresh_region();
        let region = self.link.open(id, words).unwrap();
        self.checker.borrow_mut().regions.insert((self.me, id), region.replica());
        (id, region)
    }

    /// Opens its lines, for one membership.
    pub fn open_lines(&mut self) -> RegionId {
        let lines = self.open_region(SUBGROUP_LINES * LINE_WORDS);
        self.lines.insert(lines).0
    }

    /// Opens a stream, and returns the region.
    pub fn open_stream(&mut self, writer: usize) -> RegionId {
        let (region, words) = self.open_region(self.parameters.geometry.words());
        let memory = SenderMemory::with_nulls(words, self.parameters.geometry);
        let memory = self.node.count_changes(memory);
        let memory = &*Box::leak(Box::new(memory));
        self.open.clear();
        self.sending = Some(SendState { memory, writer, region });
        region
    }

    /// Makes all nodes look: where memory is shared, something may have changed in this
    /// node's memory.
    fn ring_all(&self, effects: &mut Effects) {
        if self.parameters.shared {
            self.peers.values().for_each(|&peer| effects.note(peer, BELL.to_vec()));
        }
    }

    fn origin(&self, node: usize) -> Option<StreamOrigin> {
        let id = self.checker.borrow().ids[node];
        match node == self.me {
            true => Some(StreamOrigin::Own),
            false => self.peers.get(&id).map(|&peer| StreamOrigin::Peer(peer)),
        }
    }

    fn node_of(&self, origin: StreamOrigin) -> Option<usize> {
        match origin {
            StreamOrigin::Own => Some(self.me),
            StreamOrigin::Peer(peer) => {
                let (id, _) = self.peers.iter().find(|(_, known)| **known == peer)?;
                self.checker.borrow().ids.iter().position(|known| known == id)
            }
        }
    }

    fn shares_with(&self, node: usize) -> bool {
        self.parameters.shared && self.me % self.parameters.hosts == node % self.parameters.hosts
    }

    /// Founds subgroups of its own in which nothing ever happens.
    pub fn found_others(&mut self, effects: &mut Effects) {
        for name in 1..=OTHERS {
            let (lines, region) = self.open_region(LINE_WORDS);
            let member = MemberRole { origin: StreamOrigin::Own, reads: false, sends: None, lines };
            let definition =
                SubgroupDefinition { name, config: self.parameters.terms, members: vec![member] };
            let share = SubgroupMemory { lines: region, memory: None };
            self.node
                .found(definition, share, effects)
                .expect("a node can found a subgroup of its own");
        }
    }

    /// Converts a plan into the form in which it is announced to this node. `starts`: whether to
    /// include its beginnings.
    pub fn epoch_of(&self, plan: &DecidedEpoch, starts: bool) -> EpochDescription {
        let region = |writer: usize| self.checker.borrow().writers[writer].region;
        let seats = plan.roles.iter().map(|role| {
            // A node that is gone has no handle any more, and nothing can be begun with it.
            let origin = self.origin(role.node).unwrap_or(StreamOrigin::Peer(Peer(u32::MAX)));
            let (reads, sends) = (role.reads, role.writer.map(region));
            let member = MemberRole { origin, reads, sends, lines: role.lines };
            let start = role.writer.filter(|_| starts);
            let start = start.and_then(|writer| plan.starts.get(&writer).copied());
            EpochMember { slot: role.slot, role: member, start }
        });
        let seats = seats.collect();
        EpochDescription { number: plan.number, name: 1_000 + plan.number, members: seats }
    }

    /// Returns the memory that it brings into an epoch, if it begins to send there.
    fn memory_for(&self, plan: &DecidedEpoch) -> Option<SenderMemory> {
        let sends = plan.role_of(self.me).is_some_and(|place| place.writer.is_some());
        self.sending.filter(|_| sends).map(|sending| sending.memory.clone())
    }

    /// Joins the subgroup in this epoch.
    pub fn join(&mut self, terms: SubgroupConfig, plan: &DecidedEpoch, effects: &mut Effects) {
        let epoch = self.epoch_of(plan, true);
        let (_, lines) = self.lines.clone().unwrap();
        let share = SubgroupMemory { lines, memory: self.memory_for(plan) };
        self.id = self.node.join(terms, epoch, share, effects);
        if self.id.is_none() {
            self.refuses("to join", plan);
        }
        self.ring_all(effects);
    }

    fn refuses(&self, what: &str, plan: &DecidedEpoch) {
        let text = format!("node {} refuses {what} {plan:?}", self.me);
        self.checker.borrow_mut().violations.record(Rule::Refusal, text);
    }

    /// Learns of the next epoch.
    pub fn change_layout(&mut self, plan: &DecidedEpoch, effects: &mut Effects) {
        let epoch = self.epoch_of(plan, false);
        let memory = self.memory_for(plan);
        if !self.node.change_layout(self.id.unwrap(), epoch, memory, effects) {
            self.refuses("to change to", plan);
        }
        self.note_cut();
        self.ring_all(effects);
    }

    /// Returns its report: the epoch, and for each writer the beginning and the number of
    /// received entries.
    pub fn wedge(&mut self) -> (u64, BTreeMap<usize, (u64, u64)>) {
        let id = self.id.unwrap();
        self.node.wedge_subgroup(id);
        let (epoch, reach) = self.node.progress(id).unwrap();
        let reach =
            reach.into_iter().filter_map(|StreamProgress { origin, stream, start, received }| {
                let node = self.node_of(origin)?;
                Some((self.checker.borrow().writer(node, stream), (start, received)))
            });
        (epoch, reach.collect())
    }

    /// Returns the beginnings of the next epoch, as far as this node knows them.
    pub fn starts(&self) -> BTreeMap<usize, StreamStart> {
        let starts = self.node.starts(self.id.unwrap()).into_iter();
        starts
            .filter_map(|(origin, stream, start)| {
                let node = self.node_of(origin)?;
                Some((self.checker.borrow().writer(node, stream), start?))
            })
            .collect()
    }

    /// Ends the epoch at this trim. `over`: epochs to skip that have ended without the node, and
    /// whether it should have read in each.
    pub fn finish(&mut self, trim: &BTreeMap<usize, u64>, over: &[bool]) {
        let named = trim.iter().filter_map(|(&writer, &entry)| {
            let (node, region) = {
                let checker = self.checker.borrow();
                (checker.writers[writer].node, checker.writers[writer].region)
            };
            Some(StreamEnd { origin: self.origin(node)?, stream: region, entry })
        });
        let named: Vec<_> = named.collect();
        let before = self.node.phase(self.id.unwrap());
        if !self.node.finish(self.id.unwrap(), &named) {
            let text = format!("node {} cannot finish {:?} at {trim:?}", self.me, self.epoch);
            self.checker.borrow_mut().violations.record(Rule::Refusal, text);
            return;
        }
        self.observe();
        if let Some(epoch) = self.epoch.filter(|_| before == Some(EpochPhase::Wedged)) {
            self.checker.borrow_mut().finishes(self.me, epoch);
        }
        for &reads in over {
            self.node.pass_over(self.id.unwrap(), reads);
            self.reading &= reads;
        }
    }

    /// Excludes nodes that are no longer members of the group.
    pub fn put_out(&mut self, nodes: &[usize]) {
        for &node in nodes {
            if let Some(StreamOrigin::Peer(peer)) = self.origin(node) {
                self.node.put_out(peer);
            }
        }
    }

    /// Continues in this epoch after a view change.
    pub fn next_epoch(&mut self, plan: &DecidedEpoch, effects: &mut Effects) {
        let epoch = self.epoch_of(plan, true);
        let memory = self.memory_for(plan);
        if !self.node.next_epoch(self.id.unwrap(), epoch, memory, effects) {
            self.refuses("to go on to", plan);
        }
        self.ring_all(effects);
    }

    /// Whether its application refers to a record, or the node still assumes so.
    pub fn holds(&self) -> bool {
        let taken = |readers: &Readers| readers.count == readers.history.len();
        self.readers.iter().any(|readers| !readers.held.is_empty() || !taken(readers))
            || self.id.is_some_and(|id| self.node.holds(id))
    }

    fn note_cut(&mut self) {
        if let (Some(id), Some(epoch), Some(sending)) = (self.id, self.epoch, self.sending)
            && let Some(cut) = self.node.cut(id)
        {
            self.checker.borrow_mut().cuts.insert((epoch, sending.writer), cut);
        }
    }

    /// Returns the additional time that its application waits before it acts again.
    pub fn lull(&self) -> u64 {
        if self.checker.borrow().lull { 100_000 } else { 0 }
    }

    /// Claims some records, and closes some of the open claims.
    pub fn write(&mut self, random: &mut Random, burst: u64, effects: &mut Effects) {
        let Some(sending) = self.sending.filter(|_| !self.checker.borrow().lull) else { return };
        for _ in 0..random.between(1, burst) {
            let length = random.between(1, LONGEST) as usize;
            let Ok(claim) = sending.memory.claim(length) else { break };
            let (mut acts, mut kept) = (0, true);
            match random.below(24) {
                0..4 => acts = random.between(1, 4),
                4 => acts = random.between(10, 40),
                5..7 => kept = false,
                _ => {}
            }
            self.open.push(OpenClaim { claim, length, acts, kept });
        }
        self.close_claims(sending, false);
        self.ring_all(effects);
    }

    fn close_claims(&mut self, sending: SendState, all: bool) {
        for mut open in std::mem::take(&mut self.open) {
            if open.acts > 0 && !all {
                open.acts -= 1;
                self.open.push(open);
            } else if open.kept {
                let length = open.length;
                let seal = |number, bytes: &mut [u8]| fill(sending.writer, number, bytes);
                let number = open.claim.commit(length, |number, bytes| {
                    seal(number, &mut bytes[..length]);
                });
                self.checker.borrow_mut().writers[sending.writer].committed = number + 1;
            }
        }
    }

    /// Performs the last acts of its writer.
    pub fn end_writing(&mut self, effects: &mut Effects) {
        if let Some(sending) = self.sending {
            self.close_claims(sending, true);
            self.ring_all(effects);
        }
    }

    /// Commits a record at once; returns false if there is no room.
    pub fn commit(&mut self, length: usize, effects: &mut Effects) -> bool {
        let Some(sending) = self.sending else { return true };
        let Ok(claim) = sending.memory.claim(length) else { return false };
        let number = claim.commit(length, |number, bytes| fill(sending.writer, number, bytes));
        self.checker.borrow_mut().writers[sending.writer].committed = number + 1;
        self.ring_all(effects);
        true
    }

    /// Makes the slow readers take up to `count` records: one in `keep` is kept, and one in `drop`
    /// of those kept before is released.
    pub fn take(&mut self, random: &mut Random, count: u64, keep: u64, drop: u64) {
        let TestMember { checker, readers, me, evicted, .. } = self;
        let mut checker = checker.borrow_mut();
        for readers in readers {
            for _ in 0..count {
                let Some(record) = readers.slow.take() else { break };
                let (due, at) = (readers.history.get(readers.count), readers.count);
                let writer = readers.names[&record.sender()];
                let here = (writer, record.number());
                if due != Some(&here) {
                    let text = format!("node {me}: {here:?} at {at} where {due:?} is due");
                    checker.violations.record(Rule::Order, text);
                }
                readers.count += 1;
                if !*evicted {
                    checker.inspect(*me, writer, &record, "taken");
                }
                if random.one_in(keep) {
                    readers.held.push((writer, record));
                }
            }
            for (writer, record) in std::mem::take(&mut readers.held) {
                if !random.one_in(drop) {
                    readers.held.push((writer, record));
                } else if !*evicted {
                    checker.inspect(*me, writer, &record, "released");
                }
            }
        }
    }

    /// Makes the fast readers take every delivered record, in the epoch that this node is in.
    fn observe(&mut self) {
        let TestMember { checker, readers, me, evicted, epoch, .. } = self;
        let mut checker = checker.borrow_mut();
        for readers in readers {
            while let Some(record) = readers.fast.take() {
                let writer = readers.names[&record.sender()];
                if !*evicted {
                    checker.inspect(*me, writer, &record, "delivered");
                }
                let here = (*me, epoch.expect("only members deliver"));
                checker.deliver(here, (writer, record.number()), &mut readers.next);
                readers.history.push((writer, record.number()));
            }
        }
    }

    fn begin(&mut self, id: SubgroupId, epoch: u64) {
        self.before = self.epoch.replace(epoch);
        if let Some(before) = self.before {
            self.checker.borrow_mut().finishes(self.me, before);
            // The end, the last acknowledgement of the others and the beginning may happen in
            // one turn.
            if let Some((start, sending)) = self.node.own_start(id).zip(self.sending) {
                let mut checker = self.checker.borrow_mut();
                checker.cuts.entry((before, sending.writer)).or_insert(start);
            }
        }
        let reads = self.checker.borrow().epochs[&epoch].reads(self.me);
        if reads && !self.reading {
            let fast = self.node.add_subgroup_reader(id).expect("the node reads the subgroup");
            let slow = self.node.add_subgroup_reader(id).expect("the node reads the subgroup");
            self.readers.push(Readers {
                fast,
                slow,
                names: BTreeMap::new(),
                history: Vec::new(),
                next: BTreeMap::new(),
                count: 0,
                held: Vec::new(),
            });
        }
        self.reading = reads;
        if reads {
            self.checker.borrow_mut().begins(self.me, epoch);
            for (number, origin, stream) in self.node.senders(id) {
                let node = self.node_of(origin).expect("the sender is a member");
                let writer = self.checker.borrow().writer(node, stream);
                let names = &mut self.readers.last_mut().unwrap().names;
                names.insert(usize::from(number), writer);
            }
        }
    }

    fn take_in(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Founded(id) if Some(id) == self.id => {
                let epoch = self.node.epoch(id).unwrap();
                self.begin(id, epoch);
            }
            NodeEvent::Begun { subgroup, epoch } => self.begin(subgroup, epoch),
            NodeEvent::Left(_) => {
                if let Some(before) = self.epoch.take() {
                    self.checker.borrow_mut().finishes(self.me, before);
                }
                (self.id, self.reading, self.sending) = (None, false, None);
                self.open.clear();
            }
            NodeEvent::Faulty { peer, fault } if !self.evicted => {
                let who = self.node_of(StreamOrigin::Peer(peer));
                let text = format!("node {} finds {who:?}: {fault}", self.me);
                self.checker.borrow_mut().violations.record(Rule::Blame, text);
            }
            _ => {}
        }
    }

    /// Checks that no entry of this node's stream is posted twice.
    fn check_posts(&mut self, effects: &mut Effects) {
        let Some(sending) = self.sending else { return };
        let geometry: Geometry = self.parameters.geometry;
        let ring = ENTRIES..ENTRIES + geometry.entries() as usize * ENTRY_WORDS;
        let posts: Vec<_> = effects.take_posts().collect();
        for post in posts {
            let target = Target { peer: post.peer, sharing: Sharing::Copied };
            match post.kind {
                PostKind::Write(region, range) => {
                    if region == sending.region && ring.contains(&range.first) {
                        // The stamp contains the entry's number, shortened.
                        let word = sending.memory.replica().load(range.first);
                        let first = word >> 32 & ((1 << 21) - 1);
                        let count = (range.count / ENTRY_WORDS) as u64;
                        let posted = self.posted.entry((post.peer, region)).or_default();
                        if first < *posted {
                            let text = format!("node {}: {first} after {posted}", self.me);
                            self.checker.borrow_mut().violations.record(Rule::Once, text);
                        }
                        *posted = first + count;
                    }
                    effects.write(target, region, range);
                }
                PostKind::Note(bytes) => effects.note(post.peer, bytes),
                PostKind::Read(..) => {}
            }
        }
    }
}

impl Machine for TestMember {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        let event = match event {
            LinkEvent::PeerUp { peer, node, .. } => {
                self.peers.insert(node, peer);
                let other = self.node_of(StreamOrigin::Peer(peer)).unwrap();
                let shares = self.shares_with(other);
                let sharing = if shares { Sharing::Shared } else { Sharing::Copied };
                LinkEvent::PeerUp { peer, node, sharing, place: None }
            }
            LinkEvent::RegionUp { peer, region, replica } => {
                let node = self.node_of(StreamOrigin::Peer(peer)).unwrap();
                let checker = self.checker.borrow();
                let own = checker.regions.get(&(node, region)).filter(|_| self.shares_with(node));
                let replica = own.cloned().unwrap_or(replica);
                self.replicas.insert((node, region), replica.clone());
                LinkEvent::RegionUp { peer, region, replica }
            }
            LinkEvent::Note { bytes, .. } if bytes == BELL => return,
            other => other,
        };
        self.node.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        if let Some(planted) = self.planted {
            planted(self, FaultMoment::Before, effects);
        }
        let mut done = self.node.turn(now, effects);
        self.observe();
        self.note_cut();
        while let Some(event) = self.node.next_event() {
            self.take_in(event);
            done += 1;
        }
        if let Some(planted) = self.planted {
            planted(self, FaultMoment::After, effects);
        }
        self.check_posts(effects);
        if self.parameters.shared {
            let news: Vec<Peer> =
                effects.touched().iter().chain(effects.hinted()).copied().collect();
            news.into_iter().for_each(|peer| effects.note(peer, BELL.to_vec()));
        }
        done
    }

    fn wants_turn_at(&self) -> Option<Time> {
        self.node.wants_turn_at()
    }
}

impl WorldMember for TestMember {
    type Checker = EpochChecker;
    type Setting = EpochSetting;
}

impl OrderedMember for TestMember {
    fn take_all(&mut self) {
        self.take(&mut Random::new(0), u64::MAX, 0, 1);
    }

    fn violations(checker: &mut EpochChecker) -> &mut Violations {
        &mut checker.violations
    }
}
