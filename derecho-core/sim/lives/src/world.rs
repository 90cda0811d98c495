//! A group in a simulated cluster, with applications that write and read topics.
//!
//! Owns: the nodes and the actions of their applications. Never does: check, or cause a fault.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use derecho_core::group::Wait;
use derecho_core::group::membership_service::JoinMode;
use derecho_core::ids::NodeId;
use derecho_core::link::Sharing;
use derecho_core::membership::{MemberStatus, View, WaitAnswer};
use derecho_sim::world::{self, HaltedNodes};
use derecho_sim::{Config, NodeIndex, Random};

use crate::checker::WrittenStream;
use crate::fault_injector::FaultInjector;
use crate::member::LifeMember;
use crate::report::LifeReport;
use crate::topics::UNORDERED;

/// Environment of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GroupKind {
    /// Nodes of one host over copied memory: any survivors continue.
    Local,
    /// Nodes of several hosts: only a primary partition continues.
    Network,
    /// Nodes of one host over shared memory, as in the product. The applications read late, hold
    /// samples, and use topics of all levels.
    Shared,
}

impl GroupKind {
    /// Whether the nodes are on one host.
    pub fn is_local(self) -> bool {
        self != GroupKind::Network
    }

    /// Name of the kind in commands.
    pub fn name(self) -> &'static str {
        match self {
            GroupKind::Local => "local",
            GroupKind::Network => "network",
            GroupKind::Shared => "shared",
        }
    }
}

/// Topics of demanding lives: two atomic ones and an unordered one.
const DEMANDING: [u64; 3] = [5, 6, UNORDERED];

/// A simulated group, its applications, and the checker that observes them.
pub struct World {
    base: world::World<LifeMember>,
    pub(crate) kind: GroupKind,
    /// Number of founders of a networked group.
    founders: usize,
    /// Nodes that the host shows as standing still.
    pub(crate) halted: HaltedNodes,
    /// Whether members query the host for halted nodes.
    pub(crate) asks_host: bool,
    pub(crate) injector: FaultInjector,
    pub(crate) report: LifeReport,
}

impl Deref for World {
    type Target = world::World<LifeMember>;

    fn deref(&self) -> &world::World<LifeMember> {
        &self.base
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut world::World<LifeMember> {
        &mut self.base
    }
}

impl World {
    /// Creates a group of `nodes` nodes on one host.
    pub fn local(config: Config, nodes: usize) -> World {
        World::new(config, GroupKind::Local, nodes)
    }

    /// Creates a group of `nodes` nodes on one host that share memory.
    pub fn shared(config: Config, nodes: usize) -> World {
        World::new(config, GroupKind::Shared, nodes)
    }

    /// Creates a group of `nodes` nodes on one host that share memory, and to which the host shows
    /// the nodes that stand still.
    pub fn watched(config: Config, nodes: usize) -> World {
        let mut world = World::empty(config, GroupKind::Shared);
        world.asks_host = true;
        world.populate(nodes);
        world
    }

    /// Creates a networked group of `founders` founders.
    pub fn network(config: Config, founders: usize) -> World {
        World::new(config, GroupKind::Network, founders)
    }

    /// Creates a group of `nodes` nodes.
    pub fn new(config: Config, kind: GroupKind, nodes: usize) -> World {
        let mut world = World::empty(config, kind);
        world.populate(nodes);
        world
    }

    /// Creates a world without nodes.
    pub(crate) fn empty(mut config: Config, kind: GroupKind) -> World {
        let seed = config.seed;
        if kind == GroupKind::Shared {
            config.sharing = Sharing::Shared;
        }
        World {
            base: world::World::empty(config, 0x9009, Rc::default(), ()),
            kind,
            founders: 0,
            halted: HaltedNodes::default(),
            asks_host: false,
            injector: FaultInjector::new(seed),
            report: LifeReport::default(),
        }
    }

    /// Adds the first nodes.
    pub(crate) fn populate(&mut self, nodes: usize) {
        if self.kind == GroupKind::Network {
            self.founders = nodes;
        }
        for _ in 0..nodes {
            self.add_node();
        }
        if self.kind == GroupKind::Network {
            self.checker.borrow_mut().founders(View::of_founders(self.named_founders()));
        }
        self.all().into_iter().for_each(|node| self.begin(node));
    }

    fn named_founders(&self) -> Vec<(NodeId, u16)> {
        (0..self.founders).map(|index| (self.member(NodeIndex(index)).me, 1)).collect()
    }

    fn add_node(&mut self) -> NodeIndex {
        let checker = Rc::clone(&self.checker);
        let demands = self.kind == GroupKind::Shared;
        let node =
            self.cluster.add_node(move |link| vec![LifeMember::new(link, &checker, demands)]);
        self.checker.borrow_mut().journal.name(self.member(node).me, node.0);
        self.give_clock(node);
        node
    }

    fn begin(&mut self, node: NodeIndex) {
        let entrance = match self.kind {
            GroupKind::Local | GroupKind::Shared => JoinMode::Local,
            GroupKind::Network => JoinMode::Network(self.named_founders()),
        };
        let halted = self.asks_host.then(|| self.halted.clone());
        self.cluster.machine_mut(node, 0).begin(entrance, halted);
    }

    /// Adds another node.
    pub fn add(&mut self) -> NodeIndex {
        let node = self.add_node();
        self.begin(node);
        self.tell(node, "is added");
        node
    }

    /// Returns the report so far.
    pub fn report(&self) -> LifeReport {
        let mut checker = self.checker.borrow_mut();
        let mut account = self.report.clone();
        account.events = self.cluster.events();
        account.messages = checker.messages;
        account.deliveries = checker.deliveries;
        account.view_changes = checker.view_changes;
        account.epochs = checker.epochs;
        account.evictions =
            checker.out().keys().filter(|node| !checker.is_leaving(**node)).count() as u64;
        account.coverage.layouts_met = checker.layouts_met;
        account.violations.clone_from(&checker.violations);
        account.hash = self.cluster.trace_hash() ^ checker.digest();
        account.journal = checker.journal.take();
        account
    }

    /// Returns the findings that a member makes no progress: the finding node, the condition, and
    /// the answer.
    pub fn stuck(&self) -> Vec<(NodeId, Wait, WaitAnswer)> {
        self.checker.borrow().stuck.clone()
    }

    /// Whether a rule was broken.
    pub fn is_guilty(&self) -> bool {
        !self.checker.borrow().violations.is_empty()
    }

    /// Keeps a journal from now on.
    pub fn keep_journal(&mut self) {
        self.checker.borrow_mut().journal.kept = true;
    }

    /// Writes a line about a node into the journal.
    pub(crate) fn tell(&mut self, node: NodeIndex, what: &str) {
        let me = self.member(node).me;
        let mut checker = self.checker.borrow_mut();
        checker.journal.now = self.cluster.now();
        checker.journal.record_for(me, format_args!("{what}"));
    }

    /// Returns the running nodes that are members of a view, by their own statement.
    pub fn living(&self) -> Vec<NodeIndex> {
        let lives = |node: &NodeIndex| {
            let group = self.member(*node).group();
            let is_member = group.status() == MemberStatus::Member;
            is_member && group.agreement().view().number > 0
        };
        self.running().into_iter().filter(lives).collect()
    }

    /// Returns a member's rank, in its own view.
    pub fn rank_of(&self, node: NodeIndex) -> usize {
        self.member(node).group().agreement().rank().index()
    }

    /// Lets all live members write now and then, for `rounds` rounds.
    pub fn write_for(&mut self, rounds: usize) {
        for _ in 0..rounds {
            if self.kind == GroupKind::Shared {
                self.use_topics();
            } else {
                self.write_here_and_there();
            }
            let pause = self.random.between(1_000, 60_000);
            self.run(pause);
        }
    }

    /// Makes every member write some of its topics, once.
    fn write_here_and_there(&mut self) {
        for node in self.living() {
            for topic in self.member(node).topics() {
                if !self.random.one_in(4) {
                    self.inject(node, move |member| member.write(topic));
                }
            }
        }
    }

    /// Makes every member write some of its topics several times, and its late readers take and
    /// release some records.
    fn use_topics(&mut self) {
        for node in self.living() {
            for topic in self.member(node).topics() {
                if !self.random.one_in(4) {
                    let count = self.random.between(1, 6);
                    self.inject(node, move |member| (0..count).for_each(|_| member.write(topic)));
                }
            }
        }
        for node in self.running() {
            let random = Random::new(self.random.next_word());
            self.inject(node, move |member| member.read_late(random));
        }
    }

    /// Makes a member join or leave a topic.
    pub fn random_change(&mut self) {
        let living = self.living();
        let Some(node) = self.one_of(&living) else { return };
        if self.kind == GroupKind::Shared {
            return self.demanding_change(node);
        }
        let topic = self.random.between(5, 8);
        match self.random.below(5) {
            0 => self.inject(node, move |member| member.exit(topic)),
            1 => self.inject(node, move |member| member.enter(topic, true, false)),
            2 => self.inject(node, move |member| member.enter(topic, false, true)),
            _ => self.inject(node, move |member| member.enter(topic, true, true)),
        }
    }

    /// Makes some readers begin to write, and some members that read and write stop writing.
    pub fn random_toggle(&mut self) {
        let living = self.living();
        for _ in 0..self.random.between(1, 3) {
            let Some(node) = self.one_of(&living) else { return };
            let topic = self.random.between(5, 8);
            self.inject(node, move |member| member.toggle_writer(topic));
        }
    }

    /// Makes an application of a demanding life join or leave a topic, or change its part. Most of
    /// them read, so that most messages have readers.
    fn demanding_change(&mut self, node: NodeIndex) {
        let topic = DEMANDING[self.random.below(DEMANDING.len() as u64) as usize];
        match self.random.below(12) {
            0 => self.inject(node, move |member| member.exit(topic)),
            1 => self.inject(node, move |member| member.enter(topic, false, true)),
            2..5 => self.inject(node, move |member| member.enter(topic, true, false)),
            5..8 => self.inject(node, move |member| member.begin_to_write(topic)),
            8 => self.inject(node, move |member| member.renew_late_reader(topic)),
            _ => self.inject(node, move |member| member.enter(topic, true, true)),
        }
    }

    /// Returns what has been written so far: writer, topic, count.
    pub(crate) fn writers(&self) -> Vec<WrittenStream> {
        let mut written = Vec::new();
        for node in self.living().into_iter().filter(|node| !self.injector.is_stopped(*node)) {
            let member = self.member(node);
            for topic in member.topics().into_iter().filter(|topic| member.writes(*topic)) {
                let (stream, count) = member.written(topic);
                written.push(WrittenStream { writer: (member.me, stream), topic, count });
            }
        }
        written
    }
}
