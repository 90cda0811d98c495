//! A small simulated group of membership services: channels in order, a clock, a host's decision
//! word, faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use derecho_core::bytes::{ByteReader, Wire};
use derecho_core::group::membership_service::{
    HostInterface, JoinMode, MembershipAction, MembershipService,
};
use derecho_core::group::silence_detector::MemberTimeouts;
use derecho_core::ids::{NodeId, Rank, Time};
use derecho_core::link::{Arbiter, Evidence, Founding, Generation, LinkError};
use derecho_core::membership::{Decision, ExitReason, MemberStatus, RankSet, Report, View};

/// Report of a member: its progress in one stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TestReport(u64);

impl Report for TestReport {
    type Cut = u64;

    fn cut<'a>(reports: impl Iterator<Item = (NodeId, &'a TestReport)>) -> u64 {
        reports.map(|(_, progress)| progress.0).min().unwrap_or(0)
    }
}

impl Wire for TestReport {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        u64::decode(from).map(TestReport)
    }
}

/// State that all nodes share: the decision word, and the owners of the slots with their views.
#[derive(Default)]
struct SharedHost {
    group: u64,
    view: u64,
    ballot: u16,
    seats: BTreeMap<NodeId, (u64, u64, u8)>,
    dead: Vec<NodeId>,
    halted: Vec<NodeId>,
}

struct TestHost {
    me: NodeId,
    host: Arc<Mutex<SharedHost>>,
}

impl Arbiter for TestHost {
    fn found(&self) -> Result<Founding, LinkError> {
        let mut host = self.host.lock().unwrap();
        let SharedHost { seats, dead, group, .. } = &*host;
        if seats.iter().any(|(node, seat)| seat.0 == *group && !dead.contains(node)) {
            return Ok(Founding::Exists(Generation(*group)));
        }
        host.group += 1;
        (host.view, host.ballot) = (1, 0);
        let group = host.group;
        host.seats = [(self.me, (group, 1, 0))].into();
        Ok(Founding::Founded(Generation(group)))
    }

    fn settle(&self, group: Generation, view: u64, ballot: Rank) -> Option<Rank> {
        let mut host = self.host.lock().unwrap();
        if group.0 != host.group || host.view > view {
            return None;
        }
        if host.view < view {
            (host.view, host.ballot) = (view, ballot.0);
        }
        Some(Rank(host.ballot))
    }

    fn entered(&self, group: Generation, view: u64, slot: u8) -> bool {
        let mut host = self.host.lock().unwrap();
        let current = group.0 == host.group;
        if current {
            host.seats.insert(self.me, (group.0, view, slot));
        }
        current
    }

    fn left(&self) {
        self.host.lock().unwrap().seats.remove(&self.me);
    }

    fn is_member(&self) -> bool {
        let host = self.host.lock().unwrap();
        host.seats.get(&self.me).is_some_and(|seat| seat.0 == host.group)
    }

    fn cleared(&self, group: Generation, view: u64, slots: u64) {
        let is_out = |seat: &(u64, u64, u8)| seat.0 == group.0 && seat.1 < view;
        let mut host = self.host.lock().unwrap();
        host.seats.retain(|_, seat| !(is_out(seat) && slots >> seat.2 & 1 == 1));
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeFault {
    /// The node is gone; each other node learns of it at its own time.
    Crash(usize),
    /// The node does nothing until it continues.
    Stop(usize),
    Continue(usize),
    /// The node receives nothing any more.
    Deafen(usize),
}

struct TestNode {
    service: MembershipService<TestReport>,
    alive: bool,
    stopped: bool,
    received: u64,
    wedged: bool,
    /// Decisions that it has installed, with its reports for them.
    installed: Vec<Decision<TestReport>>,
}

/// Item on its way from one node to another.
enum InTransit {
    Bytes(Vec<u8>),
    Up,
    Gone,
}

pub(crate) struct SimulatedGroup {
    seed: u64,
    join_mode: JoinMode,
    host: Arc<Mutex<SharedHost>>,
    nodes: Vec<TestNode>,
    channels: BTreeMap<(usize, usize), VecDeque<InTransit>>,
    deaf: Vec<usize>,
    now: u64,
    decided: BTreeMap<(u64, u64), Decision<TestReport>>,
    reported: BTreeMap<(u64, NodeId), u64>,
    /// Members that announced their leaving with their reports, by group and view.
    leavers: BTreeSet<(u64, u64, NodeId)>,
}

const TICK: u64 = 100_000;
const PATIENCE: MemberTimeouts =
    MemberTimeouts { member_timeout: Some(20_000_000), gather: 2_000_000 };

impl SimulatedGroup {
    pub(crate) fn new(seed: u64, entrance: JoinMode) -> SimulatedGroup {
        SimulatedGroup {
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            join_mode: entrance,
            host: Arc::default(),
            nodes: Vec::new(),
            channels: BTreeMap::new(),
            deaf: Vec::new(),
            now: 0,
            decided: BTreeMap::new(),
            reported: BTreeMap::new(),
            leavers: BTreeSet::new(),
        }
    }

    pub(crate) fn node(index: usize) -> NodeId {
        NodeId(index as u128 + 1)
    }

    fn index(node: NodeId) -> usize {
        node.0 as usize - 1
    }

    pub(crate) fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    pub(crate) fn start(&mut self) {
        let (index, me) = (self.nodes.len(), SimulatedGroup::node(self.nodes.len()));
        let seat = TestHost { me, host: Arc::clone(&self.host) };
        let shared = Arc::clone(&self.host);
        let host = matches!(self.join_mode, JoinMode::Local).then(|| HostInterface {
            arbiter: Arc::new(seat),
            is_halted: Arc::new(move |node| shared.lock().unwrap().halted.contains(&node)),
        });
        let service = MembershipService::new(me, 1, self.join_mode.clone(), PATIENCE, host);
        let node = TestNode {
            service,
            alive: true,
            stopped: false,
            received: 0,
            wedged: false,
            installed: Vec::new(),
        };
        self.nodes.push(node);
        for other in (0..index).filter(|&other| self.nodes[other].alive) {
            for way in [(index, other), (other, index)] {
                self.channels.entry(way).or_default().push_back(InTransit::Up);
            }
        }
    }

    /// Makes a node outside of the group reachable for a node in it.
    pub(crate) fn meet(&mut self, index: usize, stranger: NodeId) {
        self.nodes[index].service.linked(stranger);
    }

    /// Delivers bytes of one node to another.
    pub(crate) fn hear(&mut self, index: usize, from: NodeId, bytes: &[u8]) {
        assert!(self.nodes[index].service.hear(from, bytes, Time(self.now)));
    }

    pub(crate) fn leave(&mut self, index: usize) {
        self.nodes[index].service.leave();
    }

    pub(crate) fn fault(&mut self, fault: NodeFault) {
        let halt = |world: &mut SimulatedGroup, index: usize, halted: bool| {
            world.nodes[index].stopped = halted;
            let mut host = world.host.lock().unwrap();
            host.halted.retain(|node| *node != SimulatedGroup::node(index));
            host.halted.extend(halted.then_some(SimulatedGroup::node(index)));
        };
        match fault {
            NodeFault::Crash(index) => {
                self.nodes[index].alive = false;
                self.host.lock().unwrap().dead.push(SimulatedGroup::node(index));
                self.part(index);
            }
            NodeFault::Stop(index) => halt(self, index, true),
            NodeFault::Continue(index) => halt(self, index, false),
            NodeFault::Deafen(index) => self.deaf.push(index),
        }
    }

    fn part(&mut self, index: usize) {
        for other in 0..self.nodes.len() {
            if let Some(channel) = self.channels.get_mut(&(index, other)) {
                channel.push_back(InTransit::Gone);
            }
        }
    }

    pub(crate) fn random_fault(&mut self) {
        let index = self.random(self.nodes.len() as u64) as usize;
        let (alive, stopped) = (self.nodes[index].alive, self.nodes[index].stopped);
        match self.random(1500) {
            0..4 if alive => self.fault(NodeFault::Crash(index)),
            4..8 if alive => self.leave(index),
            8..12 => self.fault(NodeFault::Stop(index)),
            12..60 if stopped => self.fault(NodeFault::Continue(index)),
            60..62 => self.fault(NodeFault::Deafen(index)),
            62..72 if self.nodes.len() < 8 => self.start(),
            _ => {}
        }
    }

    /// Ends all stops. Lost messages stay lost.
    pub(crate) fn heal(&mut self) {
        (0..self.nodes.len()).for_each(|index| self.fault(NodeFault::Continue(index)));
    }

    /// Performs one random event.
    pub(crate) fn step(&mut self) {
        if self.random(3) == 0 {
            self.now += self.random(TICK);
        }
        let index = self.random(self.nodes.len() as u64) as usize;
        if !self.nodes[index].alive || self.nodes[index].stopped {
            return;
        }
        let ways: Vec<(usize, usize)> = self.channels.keys().copied().collect();
        for way in ways.into_iter().filter(|way| way.1 == index) {
            for _ in 0..self.random(4) {
                self.deliver(way);
            }
        }
        if !self.nodes[index].wedged {
            self.nodes[index].received += self.random(3);
        }
        self.turn(index);
    }

    fn deliver(&mut self, way: (usize, usize)) {
        let Some(message) = self.channels.get_mut(&way).and_then(VecDeque::pop_front) else {
            return;
        };
        let (from, now) = (SimulatedGroup::node(way.0), Time(self.now));
        let service = &mut self.nodes[way.1].service;
        match message {
            InTransit::Up => service.linked(from),
            InTransit::Gone => service.disconnected(from, Evidence::Certain, now),
            InTransit::Bytes(_) if self.deaf.contains(&way.1) => {}
            InTransit::Bytes(bytes) => assert!(service.hear(from, &bytes, now)),
        }
    }

    fn turn(&mut self, index: usize) {
        let awaited: Vec<NodeId> = self.awaited(index);
        loop {
            let actions = self.nodes[index].service.turn(&awaited, Time(self.now));
            if actions.is_empty() {
                break;
            }
            actions.into_iter().for_each(|action| self.act(index, action));
        }
    }

    /// Returns the nodes for which a stream waits: nodes that do not turn, so that a stopped node
    /// is noticed; a node that receives nothing waits for all.
    fn awaited(&self, index: usize) -> Vec<NodeId> {
        let view = self.view(index);
        let stuck = |node: &NodeId| {
            let other = SimulatedGroup::index(*node);
            if other >= self.nodes.len() {
                return false;
            }
            let deaf = |index| self.deaf.contains(&index);
            other != index && (self.nodes[other].stopped || deaf(other) || deaf(index))
        };
        let stuck = view.members.iter().map(|member| member.node).filter(stuck);
        let service = &self.nodes[index].service;
        let awaited = service.membership().awaited();
        let awaited = awaited.iter().map(|rank| view.member(rank).node);
        stuck.chain(awaited).chain(service.unlinked()).collect()
    }

    fn act(&mut self, index: usize, action: MembershipAction<TestReport>) {
        match action {
            MembershipAction::Tell(node, bytes) => {
                let way = (index, SimulatedGroup::index(node));
                self.channels.entry(way).or_default().push_back(InTransit::Bytes(bytes));
            }
            MembershipAction::Wedge => {
                let node = &mut self.nodes[index];
                node.wedged = true;
                let view = node.service.membership().view().number;
                let known =
                    self.reported.insert((view, SimulatedGroup::node(index)), node.received);
                assert!(known.is_none(), "a member reports once in a view");
                let membership = node.service.membership();
                if membership.wants_to_leave() {
                    let group = membership.view().group.0;
                    self.leavers.insert((group, view, SimulatedGroup::node(index)));
                }
                node.service.report(TestReport(node.received));
            }
            MembershipAction::Install(decision) => self.installed(index, decision),
            // The leaving node has closed its end of all channels.
            MembershipAction::Out(ExitReason::Left) => self.part(index),
            MembershipAction::Out(_) => {}
        }
    }

    fn installed(&mut self, index: usize, decision: Decision<TestReport>) {
        let generation = decision.next.group.0;
        let number = decision.next.number;
        let known = self.decided.entry((generation, number)).or_insert_with(|| decision.clone());
        assert_eq!(*known, decision, "one decision for a number");
        let node = &mut self.nodes[index];
        if let Some(last) = node.installed.last() {
            assert_eq!(last.next.group, decision.next.group, "one group");
            assert_eq!(last.next.number + 1, number, "views in their order");
        }
        for member in &decision.next.members {
            // I-335: the memory that such a member refers to is private by now.
            let leaver = (generation, number - 1, member.node);
            assert!(!self.leavers.contains(&leaver), "who leaves is in no view that follows");
            if let Some(&reported) = self.reported.get(&(number - 1, member.node)) {
                assert!(decision.cut <= reported, "nobody goes on below what it has");
            }
        }
        node.received = decision.cut;
        node.wedged = false;
        node.installed.push(decision);
    }

    /// Runs until nothing changes any more.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 40 {
            let before = self.picture();
            for _ in 0..self.nodes.len() * 20 {
                self.step();
            }
            self.now += PATIENCE.member_timeout.unwrap() / 10;
            quiet = if before == self.picture() { quiet + 1 } else { 0 };
        }
    }

    fn picture(&self) -> Vec<(MemberStatus, u64)> {
        let nodes = self.nodes.iter().map(|node| node.service.membership());
        nodes.map(|membership| (membership.status(), membership.view().number)).collect()
    }

    pub(crate) fn status(&self, index: usize) -> MemberStatus {
        self.nodes[index].service.membership().status()
    }

    pub(crate) fn view(&self, index: usize) -> &View {
        self.nodes[index].service.membership().view()
    }

    /// Returns the members of the newest view, according to its members.
    pub(crate) fn members(&self) -> Vec<usize> {
        let living = |index: &usize| self.nodes[*index].alive && !self.nodes[*index].stopped;
        let founded = |index: &usize| {
            self.status(*index) == MemberStatus::Member && self.view(*index).number > 0
        };
        (0..self.nodes.len()).filter(living).filter(founded).collect()
    }

    pub(crate) fn changes(&self) -> usize {
        self.decided.len()
    }

    /// Checks that every remaining node that claims membership has the same view as the others,
    /// whose members all live.
    pub(crate) fn check_progress(&self) {
        let members = self.members();
        for &index in &members {
            let membership = self.nodes[index].service.membership();
            assert!(!membership.is_wedged(), "node {index} is stuck in {:?}", membership);
            let view: Vec<usize> =
                membership.view().members.iter().map(|m| SimulatedGroup::index(m.node)).collect();
            let mut sorted = view.clone();
            sorted.sort_unstable();
            let all = self.picture();
            assert_eq!(sorted, members, "node {index}, deaf {:?}, of {all:?}", self.deaf);
        }
        let voters = |view: &View| {
            let alive = view.members.iter().enumerate().filter(|(_, m)| {
                let index = SimulatedGroup::index(m.node);
                self.nodes[index].alive && !matches!(self.status(index), MemberStatus::Out(_))
            });
            alive.map(|(rank, _)| Rank(rank as u16)).collect::<RankSet>()
        };
        let newest = self.decided.iter().next_back();
        if let (JoinMode::Network(_), Some((_, newest)), []) =
            (&self.join_mode, newest, &members[..])
        {
            let left = voters(&newest.next);
            assert!(!newest.next.is_primary(left), "{left:?} of {:?} could go on", newest.next);
        }
    }

    pub(crate) fn send(&mut self, from: usize, to: usize, bytes: &[u8]) {
        self.say_from(SimulatedGroup::node(from), to, bytes);
    }

    pub(crate) fn say_from(&mut self, from: NodeId, to: usize, bytes: &[u8]) {
        let now = Time(self.now);
        let _ = self.nodes[to].service.hear(from, bytes, now);
    }
}
