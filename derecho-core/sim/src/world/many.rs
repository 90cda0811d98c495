//! Many subgroups over few members in a simulated cluster: most of them idle, some occasionally in
//! use, and the rules for their deliveries.
//!
//! Every member's application writes to one subgroup for a while and then to another one, with
//! pauses shorter and longer than the time after which a stream is quiet. It takes deliveries at
//! once, and holds some records for a long time.
#![allow(clippy::unwrap_used, reason = "a run that cannot go on fails")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::WorldMember;
use super::group::SingleThreadBarrier;
use super::ordered::Orders;
pub use super::ordered::Rule;
use crate::{Config, NodeIndex, Random, SimLink, StopReason};
use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Link, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::{LINE_WORDS, OwnRegion};
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};
use derecho_core::node::{
    ACKS, ACKS_WORDS, CHANGES, CHANGES_WORDS, MemberRole, Node, NodeEvent, StreamOrigin,
    SubgroupDefinition, SubgroupId, SubgroupMemory,
};

/// A violation, and its subgroup.
#[derive(Debug)]
pub struct RuleViolation {
    /// The rule.
    pub rule: Rule,
    /// The subgroup, if it is about one.
    pub at: Option<usize>,
    /// Description.
    pub text: String,
}

/// Whether each member reads and sends in a subgroup; neither means that it is not a member.
pub type Roles = Vec<(bool, bool)>;

/// Subgroups, and the duration of writes to them.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Level of all subgroups.
    pub level: DeliveryGuarantee,
    /// Roles of all members in each subgroup.
    pub subgroups: Vec<Roles>,
    /// Number of acts of each member's writer, and the longest pause between two.
    pub acts: u64,
    /// Longest pause between two acts, in nanoseconds.
    pub pause_ns: u64,
}

impl Scenario {
    /// Returns a scenario of `subgroups` subgroups in which all members read and send.
    pub fn full(members: usize, subgroups: usize) -> Scenario {
        let subgroups = vec![vec![(true, true); members]; subgroups];
        Scenario { level: DeliveryGuarantee::Atomic, subgroups, acts: 60, pause_ns: 3_000_000 }
    }

    /// Returns a random scenario.
    pub fn random(seed: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0xac71);
        let members = random.between(2, 5) as usize;
        let mut scenario = Scenario::full(members, random.between(5, 14) as usize);
        for roles in &mut scenario.subgroups {
            for role in roles.iter_mut() {
                *role = (!random.one_in(4), !random.one_in(3));
            }
            roles[random.below(members as u64) as usize] = (true, true);
        }
        if random.one_in(3) {
            scenario.level = DeliveryGuarantee::Unordered;
        }
        scenario.pause_ns = [30_000, 1_500_000, 5_000_000][random.below(3) as usize];
        scenario
    }

    /// Number of members.
    pub fn members(&self) -> usize {
        self.subgroups[0].len()
    }

    /// Iterates over the subgroups of a member.
    fn of(&self, member: usize) -> impl Iterator<Item = usize> {
        (0..self.subgroups.len()).filter(move |&at| self.subgroups[at][member] != (false, false))
    }

    fn senders(&self, at: usize) -> impl Iterator<Item = usize> {
        let roles = self.subgroups[at].iter().enumerate();
        roles.filter(|(_, role)| role.1).map(|(member, _)| member)
    }
}

/// Returns the region of each member's lines in a subgroup.
pub fn lines_of(at: usize) -> RegionId {
    RegionId(16 + 2 * at as u64)
}

/// Returns the region of each member's stream in a subgroup.
pub fn stream_of(at: usize) -> RegionId {
    RegionId(17 + 2 * at as u64)
}

/// Observer of all members.
#[derive(Default)]
pub struct DeliveryChecker {
    ids: Vec<NodeId>,
    /// Number of commits of each member in each subgroup.
    pub committed: BTreeMap<(usize, usize), u64>,
    /// Order of each subgroup, as far as any member has delivered it.
    orders: Orders<usize>,
    /// Broken rules.
    pub violations: Vec<RuleViolation>,
}

impl DeliveryChecker {
    fn record_violation(&mut self, checker: Rule, at: Option<usize>, text: String) {
        if self.violations.len() < 40 {
            self.violations.push(RuleViolation { rule: checker, at, text });
        }
    }
}

/// A member's part in one subgroup.
pub struct SubgroupPart {
    at: usize,
    reads: bool,
    id: Option<SubgroupId>,
    lines: OwnRegion,
    memory: Option<SenderMemory>,
    inbox: Option<Arc<Inbox>>,
    /// Number of deliveries, and the next expected number of each sender by rank.
    count: usize,
    next: Vec<u64>,
    wedged: bool,
}

/// Planted fault, which acts after each turn of its member.
pub type PlantedFault = fn(&mut TestMember, &mut Effects);

/// A member of many subgroups.
pub struct TestMember {
    /// Index of the member.
    pub me: usize,
    /// The node.
    pub node: Node,
    /// Counts of changes in its streams.
    pub changes: OwnRegion,
    /// The other members.
    pub peers: BTreeMap<NodeId, Peer>,
    scenario: Rc<Scenario>,
    checker: Rc<RefCell<DeliveryChecker>>,
    parts: Vec<SubgroupPart>,
    random: Random,
    held: Vec<Record>,
    /// True if the application releases everything at once.
    pub over: bool,
    /// Planted fault.
    pub planted: Option<PlantedFault>,
}

impl TestMember {
    fn new(
        link: &mut SimLink,
        me: usize,
        scenario: &Rc<Scenario>,
        checker: &Rc<RefCell<DeliveryChecker>>,
        random: Random,
    ) -> TestMember {
        let acks = link.open(ACKS, ACKS_WORDS).unwrap();
        let changes = link.open(CHANGES, CHANGES_WORDS).unwrap();
        let node = Node::new(link.node(), acks, Arc::new(|| {}));
        let mut node = node.with_changes(changes.clone(), Some(Arc::new(SingleThreadBarrier)));
        let geometry = Geometry::fitting(2048, 16, 16).unwrap();
        let parts = scenario.of(me).map(|at| {
            let (reads, sends) = scenario.subgroups[at][me];
            let lines = link.open(lines_of(at), scenario.members() * LINE_WORDS).unwrap();
            let memory = sends.then(|| {
                let region = link.open(stream_of(at), geometry.words()).unwrap();
                node.count_changes(SenderMemory::with_nulls(region, geometry))
            });
            let next = vec![0; scenario.senders(at).count()];
            let (id, inbox) = (None, None);
            SubgroupPart { at, reads, id, lines, memory, inbox, count: 0, next, wedged: false }
        });
        let parts = parts.collect();
        TestMember {
            me,
            node,
            changes,
            peers: BTreeMap::new(),
            scenario: Rc::clone(scenario),
            checker: Rc::clone(checker),
            parts,
            random,
            held: Vec::new(),
            over: false,
            planted: None,
        }
    }

    /// Founds all subgroups, once all peers are known.
    fn found(&mut self, effects: &mut Effects) -> bool {
        let checker = self.checker.borrow();
        if checker.ids.len() < self.scenario.members() || self.peers.len() + 1 < checker.ids.len() {
            return false;
        }
        for part in &mut self.parts {
            let at = part.at;
            let roles = self.scenario.subgroups[at].iter().enumerate();
            let members =
                roles.filter(|(_, role)| **role != (false, false)).map(|(index, role)| {
                    let origin = match self.peers.get(&checker.ids[index]) {
                        Some(&peer) => StreamOrigin::Peer(peer),
                        None => StreamOrigin::Own,
                    };
                    let sends = role.1.then_some(stream_of(at));
                    MemberRole { origin, reads: role.0, sends, lines: lines_of(at) }
                });
            let terms =
                SubgroupConfig { level: self.scenario.level, ablation: Ablation::default() };
            let definition = SubgroupDefinition {
                name: at as u64 + 5,
                config: terms,
                members: members.collect(),
            };
            let share = SubgroupMemory { lines: part.lines.clone(), memory: part.memory.clone() };
            part.id = Some(self.node.found(definition, share, effects).unwrap());
        }
        true
    }

    /// Commits to one of its subgroups, most often to its preferred one.
    fn write(&mut self, liking: &mut usize, random: &mut Random) {
        if random.one_in(8) {
            *liking = random.below(64) as usize;
        }
        let sending = self.parts.iter().filter(|part| part.memory.is_some() && part.inbox_or_not());
        let sending: Vec<&SubgroupPart> = sending.collect();
        let Some(part) = sending.get(*liking % sending.len().max(1)) else { return };
        let Some(memory) = &part.memory else { return };
        for _ in 0..random.between(1, 3) {
            let Ok(claim) = memory.claim(8) else { return };
            let number = claim.commit(8, |_, _| {});
            self.checker.borrow_mut().committed.insert((part.at, self.me), number + 1);
        }
    }

    /// Releases a held record.
    fn let_go(&mut self, random: &mut Random) {
        if !self.held.is_empty() {
            self.held.swap_remove(random.below(self.held.len() as u64) as usize);
        }
    }

    /// Ends the application: everything is released.
    pub fn let_all_go(&mut self) {
        self.over = true;
        self.held.clear();
    }

    fn take(&mut self) {
        let TestMember { checker, parts, held, random, me, scenario, over, .. } = self;
        let mut checker = checker.borrow_mut();
        for part in parts {
            let Some(inbox) = &part.inbox else { continue };
            while let Some(record) = inbox.take() {
                let this = (record.sender(), record.number());
                let due = std::mem::replace(&mut part.next[this.0], this.1 + 1);
                let agreed = checker.orders.deliver(part.at, part.count, this).unwrap_or(this);
                part.count += 1;
                if this.1 != due || (scenario.level == DeliveryGuarantee::Atomic && this != agreed)
                {
                    let text = format!("{me} delivers {this:?}, {due} and {agreed:?} are due");
                    checker.record_violation(Rule::Order, Some(part.at), text);
                }
                if !*over && random.one_in(6) && held.len() < 4 {
                    held.push(record);
                }
            }
        }
    }

    fn take_in(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Founded(id) => {
                let part = self.parts.iter_mut().find(|part| part.id == Some(id)).unwrap();
                part.inbox = self.node.add_subgroup_reader(id);
            }
            NodeEvent::Stalled(id) => {
                self.parts.iter_mut().filter(|part| part.id == Some(id)).for_each(|part| {
                    part.wedged = true;
                });
            }
            NodeEvent::Faulty { fault, .. } => {
                self.checker.borrow_mut().record_violation(Rule::Blame, None, fault.to_string());
            }
            _ => {}
        }
    }
}

impl SubgroupPart {
    /// Whether the subgroup is founded, as far as that is visible.
    fn inbox_or_not(&self) -> bool {
        !self.wedged && self.id.is_some() && (self.inbox.is_some() || !self.reads)
    }
}

impl Machine for TestMember {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        if let LinkEvent::PeerUp { peer, node, .. } = &event {
            self.peers.insert(*node, *peer);
        }
        self.node.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        let mut done = self.node.turn(now, effects);
        while let Some(event) = self.node.next_event() {
            self.take_in(event);
            done += 1;
        }
        self.take();
        if let Some(planted) = self.planted {
            planted(self, effects);
        }
        done
    }

    fn wants_turn_at(&self) -> Option<Time> {
        self.node.wants_turn_at()
    }
}

/// The running members.
pub type World = super::World<TestMember>;

impl WorldMember for TestMember {
    type Checker = DeliveryChecker;
    type Setting = Rc<Scenario>;
}

impl World {
    /// Creates the members, each of which founds its subgroups at a time of its own.
    pub fn new(config: Config, scenario: Scenario) -> World {
        let (checker, scenario) = (Rc::default(), Rc::new(scenario));
        let mut world = World::empty(config, 0xac7, checker, scenario);
        let World { cluster, checker, random, setting: scenario, .. } = &mut world;
        for me in 0..scenario.members() {
            let own = Random::new(random.next_word());
            let node = cluster.add_node(|link| {
                checker.borrow_mut().ids.push(link.node());
                vec![TestMember::new(link, me, scenario, checker, own)]
            });
            let mut founded = false;
            let start = Time(random.between(1, 20_000));
            cluster.inject_again(node, 0, start, move |member, now, effects| {
                founded = founded || member.found(effects);
                (!founded).then(|| now.after(1_000))
            });
            let mut own = Random::new(random.next_word());
            let (mut acts, pause) = (scenario.acts, scenario.pause_ns);
            let mut liking = me;
            cluster.inject_again(node, 0, Time(100_000), move |member, now, _| {
                member.write(&mut liking, &mut own);
                if own.one_in(3) {
                    member.let_go(&mut own);
                }
                acts -= 1;
                let pause = if own.one_in(4) { pause } else { 3_000 };
                (acts > 0).then(|| now.after(own.between(1, pause)))
            });
        }
        world
    }

    /// Runs until nothing happens any more, then ends all applications.
    pub fn run_to_end(&mut self) {
        for over in [false, true] {
            for member in 0..self.setting.members() {
                let now = self.cluster.now();
                self.cluster.inject(NodeIndex(member), 0, now, move |member, _, _| {
                    if over {
                        member.let_all_go();
                    }
                });
            }
            let stop = self.cluster.run_until_met(|_| false);
            assert_eq!(stop, StopReason::Quiet, "the cluster becomes quiet");
        }
    }

    /// Returns the subgroups in which a running reader lacks a committed message.
    pub fn judge(&mut self) -> Vec<RuleViolation> {
        let mut checker = self.checker.borrow_mut();
        for index in 0..self.setting.members() {
            let member = self.cluster.machine(NodeIndex(index), 0);
            let parts = member.parts.iter().filter(|part| part.reads && !part.wedged);
            for part in parts.filter(|_| self.cluster.is_running(NodeIndex(index))) {
                for (rank, sender) in self.setting.senders(part.at).enumerate() {
                    let committed = checker.committed.get(&(part.at, sender)).copied().unwrap_or(0);
                    if part.next[rank] != committed {
                        let text = format!(
                            "{index} has {} of {committed} of {sender} in {}",
                            part.next[rank], part.at
                        );
                        checker.record_violation(Rule::Liveness, Some(part.at), text);
                    }
                }
            }
        }
        std::mem::take(&mut checker.violations)
    }

    /// Returns the subgroups that each member still looks at.
    pub fn looked_at(&self) -> Vec<usize> {
        let members = 0..self.setting.members();
        members.map(|member| self.member(member).node.subgroups_looked_at()).collect()
    }

    /// Whether each member is in so many subgroups that idle ones rest.
    pub fn everyone_is_in_many(&self) -> bool {
        (0..self.setting.members()).all(|member| self.setting.of(member).count() > 4)
    }
}
