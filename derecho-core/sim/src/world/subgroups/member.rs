//! One node, which may be a member of subgroups, and its application.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Link, LinkEvent, Sharing};
use derecho_core::machine::{Effects, Machine, PostKind};
use derecho_core::memory::{LINE_WORDS, OwnRegion, Replica};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::{ENTRIES, ENTRY_WORDS};
use derecho_core::multicast::order::received_without_gap;
use derecho_core::node::{
    ACKS, ACKS_WORDS, CHANGES, CHANGES_WORDS, MemberRole, Node, NodeEvent, StreamOrigin,
    SubgroupDefinition, SubgroupId, SubgroupMemory,
};

use super::SubgroupSetting;
use super::arrivals::ArrivedEntries;
use super::checker::{DeliveryChecker, Writer};
use super::part::{Readers, SendState, SubgroupPart};
use super::posts::{post, take_posts};
use super::scenario::{Pace, Scenario};
use crate::world::group::SingleThreadBarrier;
use crate::world::ordered::{FaultMoment, Rule};
use crate::world::{ReadPace, WorldMember};
use crate::{Random, SimLink};

/// Planted fault, which acts before and after each turn of its member.
pub type PlantedFault = fn(&mut SubgroupMember, FaultMoment, &mut Effects);

/// Number of additional subgroups of which a node is the only member, so that it is in many.
const OTHERS: u64 = 5;

/// Note that wakes a node with news; the simulator has no bells where memory is shared.
const BELL: &[u8] = &[0xee];

/// A node, which may be a member of subgroups, and its application.
pub struct SubgroupMember {
    /// Index of the node.
    pub me: usize,
    pub(super) scenario: Rc<Scenario>,
    link: SimLink,
    /// The node.
    pub node: Node,
    /// Counts of changes in its streams, if the node has any.
    pub changes: Option<OwnRegion>,
    /// Observer of all members.
    pub checker: Rc<RefCell<DeliveryChecker>>,
    /// Its parts in all subgroups.
    pub parts: Vec<SubgroupPart>,
    /// The other nodes.
    pub peers: BTreeMap<NodeId, Peer>,
    /// The others' regions, as seen here.
    pub replicas: BTreeMap<(usize, RegionId), Replica>,
    /// Number of entries posted to each peer so far, where posts are watched.
    pub posted: BTreeMap<(Peer, RegionId), u64>,
    /// Choice of the records that slow readers hold, if they take everything at once.
    pub(super) holding: Option<Random>,
    /// Planted fault.
    pub planted: Option<PlantedFault>,
    /// Memory of a planted fault.
    pub mark: u64,
}

impl SubgroupMember {
    /// Creates a node, and opens the regions of the subgroups that it is to found.
    pub(super) fn new(
        link: &mut SimLink,
        me: usize,
        scenario: &Rc<Scenario>,
        checker: &Rc<RefCell<DeliveryChecker>>,
    ) -> SubgroupMember {
        let acks = link.open(ACKS, ACKS_WORDS).unwrap();
        let mut node = Node::new(link.node(), acks, Arc::new(|| {}));
        let changes = scenario.counts_changes.then(|| link.open(CHANGES, CHANGES_WORDS).unwrap());
        if let Some(changes) = &changes {
            checker.borrow_mut().regions.insert((me, CHANGES), changes.replica());
            node = node.with_changes(changes.clone(), Some(Arc::new(SingleThreadBarrier)));
        }
        let subgroups = 0..scenario.subgroups.len().max(1);
        let mut member = SubgroupMember {
            me,
            scenario: Rc::clone(scenario),
            link: link.clone(),
            node,
            changes,
            checker: Rc::clone(checker),
            parts: subgroups.map(|at| SubgroupPart::new(me, at, scenario.longest)).collect(),
            peers: BTreeMap::new(),
            replicas: BTreeMap::new(),
            posted: BTreeMap::new(),
            holding: None,
            planted: None,
            mark: 0,
        };
        for (subgroup, roles) in scenario.subgroups.iter().enumerate() {
            let Some(role) = roles[me] else { continue };
            member.open_lines(subgroup, roles.len());
            if role.sends.is_some() {
                member.open_stream(subgroup);
            }
        }
        member
    }

    /// Its part in the first subgroup.
    pub fn part(&self) -> &SubgroupPart {
        &self.parts[0]
    }

    fn open_region(&mut self, words: usize) -> (RegionId, OwnRegion) {
        let id = self.node.fresh_region();
        let region = self.link.open(id, words).unwrap();
        self.checker.borrow_mut().regions.insert((self.me, id), region.replica());
        (id, region)
    }

    /// Opens this number of lines, for one membership.
    pub(super) fn open_lines(&mut self, subgroup: usize, count: usize) -> RegionId {
        let lines = self.open_region(count * LINE_WORDS);
        self.parts[subgroup].lines.insert(lines).0
    }

    /// Opens a new stream, and returns its writer.
    pub(super) fn open_stream(&mut self, subgroup: usize) -> usize {
        let (region, words) = self.open_region(self.scenario.geometry.words());
        let memory = SenderMemory::with_nulls(words, self.scenario.geometry);
        let memory = &*Box::leak(Box::new(self.node.count_changes(memory)));
        let writers = &mut self.checker.borrow_mut().writers;
        let writer = writers.len();
        writers.push(Writer { node: self.me, region, committed: 0 });
        self.parts[subgroup].send_as(Some(SendState { memory, writer, region }));
        writer
    }

    /// Makes all nodes look: where memory is shared, something may have changed in this
    /// node's memory.
    pub(super) fn ring_all(&self, effects: &mut Effects) {
        if self.scenario.hosts.is_some() {
            self.peers.values().for_each(|&peer| effects.note(peer, BELL.to_vec()));
        }
    }

    pub(super) fn origin(&self, node: usize) -> Option<StreamOrigin> {
        let id = self.checker.borrow().ids[node];
        match node == self.me {
            true => Some(StreamOrigin::Own),
            false => self.peers.get(&id).map(|&peer| StreamOrigin::Peer(peer)),
        }
    }

    pub(super) fn node_of(&self, origin: StreamOrigin) -> Option<usize> {
        match origin {
            StreamOrigin::Own => Some(self.me),
            StreamOrigin::Peer(peer) => {
                let (id, _) = self.peers.iter().find(|(_, known)| **known == peer)?;
                self.checker.borrow().ids.iter().position(|known| known == id)
            }
        }
    }

    fn shares_with(&self, node: usize) -> bool {
        self.scenario.hosts.is_some_and(|hosts| self.me % hosts == node % hosts)
    }

    /// Founds its subgroups, if all peers are known by now.
    pub(super) fn found(&mut self, effects: &mut Effects) -> bool {
        let mut definitions = Vec::new();
        for plan in self.checker.borrow().epochs.values() {
            let mut members = Vec::new();
            for role in &plan.roles {
                let Some(origin) = self.origin(role.node) else { return false };
                let sends = role.writer.map(|writer| self.checker.borrow().writers[writer].region);
                members.push(MemberRole { origin, reads: role.reads, sends, lines: role.lines });
            }
            let (name, config) = (77 + plan.subgroup as u64, self.scenario.terms);
            definitions.push((plan.subgroup, SubgroupDefinition { name, config, members }));
        }
        for (subgroup, definition) in definitions {
            let part = &mut self.parts[subgroup];
            let Some((_, lines)) = part.lines.clone() else { continue };
            let memory = part.sending.map(|sending| sending.memory.clone());
            let share = SubgroupMemory { lines, memory };
            part.id = Some(self.node.found(definition, share, effects).unwrap());
        }
        true
    }

    /// Founds subgroups of its own in which nothing ever happens.
    pub(super) fn found_others(&mut self, effects: &mut Effects) {
        for name in 1..=OTHERS {
            let (lines, region) = self.open_region(LINE_WORDS);
            let member = MemberRole { origin: StreamOrigin::Own, reads: false, sends: None, lines };
            let definition =
                SubgroupDefinition { name, config: self.scenario.terms, members: vec![member] };
            let share = SubgroupMemory { lines: region, memory: None };
            self.node
                .found(definition, share, effects)
                .expect("a node can found a subgroup of its own");
        }
    }

    /// Returns the additional time that its application waits before it acts again.
    pub(super) fn lull(&self) -> u64 {
        if self.checker.borrow().lull { 100_000 } else { 0 }
    }

    /// Performs an act of its writer. Returns whether that was the last one.
    pub(super) fn write(
        &mut self,
        subgroup: usize,
        random: &mut Random,
        pace: Pace,
        effects: &mut Effects,
    ) -> bool {
        let (part, checker) = (&mut self.parts[subgroup], &mut *self.checker.borrow_mut());
        let is_over = if checker.written {
            part.end_writing(checker);
            true
        } else if checker.lull || part.sending.is_none() {
            return false;
        } else {
            part.stalled && !pace.is_endless() || part.write(random, pace, checker)
        };
        part.writes &= !is_over;
        self.ring_all(effects);
        is_over
    }

    /// Performs an act of an application that writes to one subgroup for a while, and then to
    /// another one.
    pub(super) fn alternate(
        &mut self,
        random: &mut Random,
        preferred: &mut usize,
        effects: &mut Effects,
    ) {
        if random.one_in(8) {
            *preferred = random.below(64) as usize;
        }
        let is_open = |part: &&SubgroupPart| part.epoch.is_some() && !part.stalled;
        let open = self.parts.iter().filter(is_open).filter(|part| part.sending.is_some());
        let open: Vec<usize> = open.map(|part| part.subgroup).collect();
        if let Some(subgroup) = open.get(*preferred % open.len().max(1)) {
            self.write(*subgroup, random, Pace::ALTERNATING, effects);
        }
        if random.one_in(3) {
            self.take(random, ReadPace { count: 0, hold_one_in: 0, release_one_in: 3 });
        }
    }

    /// Commits a record at once; returns false if there is no room.
    pub fn commit(&mut self, subgroup: usize, length: usize, effects: &mut Effects) -> bool {
        let is_done = self.parts[subgroup].commit(length, &mut self.checker.borrow_mut());
        self.ring_all(effects);
        is_done
    }

    /// Makes the slow readers take and release some records.
    pub(super) fn take(&mut self, random: &mut Random, pace: ReadPace) {
        let checker = &mut self.checker.borrow_mut();
        self.parts.iter_mut().for_each(|part| part.take(random, pace, checker));
    }

    /// Takes and releases everything.
    pub fn take_all(&mut self) {
        self.take(&mut Random::new(0), ReadPace::ALL);
    }

    /// Makes the fast readers take every delivered record; the slow ones too, where these hold
    /// only some.
    pub(super) fn observe(&mut self) {
        let checker = &mut *self.checker.borrow_mut();
        self.parts.iter_mut().for_each(|part| part.observe(checker));
        if let Some(random) = &mut self.holding {
            // A held record keeps its subgroup active, and most of them are to rest.
            let held: usize = self.parts.iter().map(SubgroupPart::held).sum();
            let hold_one_in = if checker.over || held > 2 { 0 } else { 6 };
            let pace = ReadPace { count: u64::MAX, hold_one_in, release_one_in: 0 };
            self.parts.iter_mut().for_each(|part| part.take(random, pace, checker));
        }
    }

    /// Reads what has arrived in its memory.
    fn look(&mut self) {
        let SubgroupMember { scenario, parts, checker, replicas, me, .. } = self;
        let checker = &mut checker.borrow_mut();
        for part in parts.iter_mut().filter(|part| !part.arrived.is_empty()) {
            for arrived in &mut part.arrived {
                let Writer { node, region, .. } = checker.writers[arrived.writer];
                if arrived.replica.is_none() {
                    let own = part.sending.filter(|_| node == *me);
                    let own = own.map(|sending| sending.memory.replica());
                    arrived.replica = own.or_else(|| replicas.get(&(node, region)).cloned());
                }
                arrived.look(scenario.geometry);
            }
            let slots: Vec<u64> = part.arrived.iter().map(|arrived| arrived.slots).collect();
            checker.receives(part.subgroup, *me, received_without_gap(slots.into_iter()));
        }
    }

    /// Checks that all readers had received what it delivers, where arrivals are watched.
    fn check_agreement(&self) {
        for part in self.parts.iter().filter(|part| part.reading && !part.arrived.is_empty()) {
            let delivered = part.id.map_or(0, |id| self.node.delivered(id));
            self.checker.borrow_mut().agree(part.subgroup, self.me, delivered);
        }
    }

    fn part_of(&mut self, id: SubgroupId) -> Option<&mut SubgroupPart> {
        self.parts.iter_mut().find(|part| part.id == Some(id))
    }

    fn begin(&mut self, id: SubgroupId, epoch: u64) {
        let Some(at) = self.parts.iter().position(|part| part.id == Some(id)) else { return };
        let SubgroupMember { me, scenario, node, parts, checker, .. } = self;
        let (part, mut seen) = (&mut parts[at], checker.borrow_mut());
        part.stalled = false;
        if let Some(before) = part.epoch_id() {
            seen.finishes(*me, before);
            // The end, the last acknowledgement of the others and the beginning may happen in
            // one turn.
            if let Some((start, sending)) = node.own_start(id).zip(part.sending) {
                seen.cuts.entry((before.1, sending.writer)).or_insert(start);
            }
        }
        part.before = part.epoch.replace(epoch);
        let plan = &seen.epochs[&(part.subgroup, epoch)];
        let reads = plan.reads(*me);
        if scenario.watches_arrivals {
            part.arrived = plan.writers().map(ArrivedEntries::of).collect();
        }
        if reads && !part.reading {
            let mut add = || node.add_subgroup_reader(id).expect("the node reads the subgroup");
            let mut readers = Readers::new(add(), add());
            if epoch == 0 {
                // All streams are new.
                readers.next = plan.writers().map(|writer| (writer, 0)).collect();
            }
            part.readers.push(readers);
        }
        part.reading = reads;
        if !reads {
            assert!(node.add_subgroup_reader(id).is_none(), "only members that read have readers");
            return;
        }
        seen.begins(*me, (part.subgroup, epoch));
        drop(seen);
        let names: BTreeMap<usize, usize> = self
            .node
            .senders(id)
            .into_iter()
            .map(|sender| {
                let (number, origin, stream) = sender;
                let node = self.node_of(origin).expect("the sender is a member");
                (usize::from(number), self.checker.borrow().writer(node, stream))
            })
            .collect();
        self.parts[at].readers.last_mut().unwrap().names.extend(names);
    }

    fn take_in(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Founded(id) => {
                let epoch = self.node.epoch(id).unwrap();
                self.begin(id, epoch);
            }
            NodeEvent::Begun { subgroup, epoch } => self.begin(subgroup, epoch),
            NodeEvent::Left(id) => {
                let Some(part) = self.part_of(id) else { return };
                let before = part.epoch_id();
                (part.epoch, part.id, part.reading) = (None, None, false);
                part.send_as(None);
                if let Some(before) = before {
                    self.checker.borrow_mut().finishes(self.me, before);
                }
            }
            NodeEvent::Stalled(id) => {
                if let Some(part) = self.part_of(id) {
                    part.stalled = true;
                }
            }
            NodeEvent::Faulty { peer, fault } => {
                let other = self.node_of(StreamOrigin::Peer(peer));
                let text = format!("node {} finds {other:?}: {fault}", self.me);
                let mut checker = self.checker.borrow_mut();
                if !checker.evicted.contains(&self.me) {
                    checker.violations.record(Rule::Blame, text);
                }
            }
            _ => {}
        }
    }

    /// Checks that no entry of this node's streams is posted twice.
    fn check_posts(&mut self, effects: &mut Effects) {
        if self.parts.iter().all(|part| part.sending.is_none()) {
            return;
        }
        let ring = ENTRIES..ENTRIES + self.scenario.geometry.entries() as usize * ENTRY_WORDS;
        for (target, kind) in take_posts(effects) {
            if let PostKind::Write(region, range) = &kind {
                let mut sending = self.parts.iter().filter_map(|part| part.sending);
                let sending = sending.find(|sending| sending.region == *region);
                if let Some(sending) = sending.filter(|_| ring.contains(&range.first)) {
                    // The stamp contains the entry's number, shortened.
                    let word = sending.memory.replica().load(range.first);
                    let first = word >> 32 & ((1 << 21) - 1);
                    let posted = self.posted.entry((target.peer, *region)).or_default();
                    if first < *posted {
                        let text = format!("node {}: {first} after {posted}", self.me);
                        self.checker.borrow_mut().violations.record(Rule::Once, text);
                    }
                    *posted = first + (range.count / ENTRY_WORDS) as u64;
                }
            }
            post(target, kind, effects);
        }
    }
}

impl Machine for SubgroupMember {
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
        // State that the node finds in this turn: nothing lands while it turns.
        self.look();
        let mut done = self.node.turn(now, effects);
        // Nulls that the turn has committed are received with it.
        self.look();
        self.check_agreement();
        self.observe();
        self.note_cut();
        while let Some(event) = self.node.next_event() {
            self.take_in(event);
            done += 1;
        }
        if let Some(planted) = self.planted {
            planted(self, FaultMoment::After, effects);
        }
        if self.scenario.watches_posts {
            self.check_posts(effects);
        }
        if self.scenario.hosts.is_some() {
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

impl WorldMember for SubgroupMember {
    type Checker = DeliveryChecker;
    type Setting = SubgroupSetting;
}
