//! Whole groups of the product: their members join, leave and crash, write, and are judged.
//!
//! Owns: the course of a group's life. Never does: judge; the checker of the members' part does.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use derecho_core::group::membership_service::{HostInterface, JoinMode};
use derecho_core::group::silence_detector::MemberTimeouts;
use derecho_core::group::{
    CONTROL_LINES, CONTROL_STREAM, Group, GroupConfig, ReplicatedState, SubgroupRegions,
    control_geometry,
};
use derecho_core::ids::NodeId;
use derecho_core::link::{Barrier, Link};
use derecho_core::machine::Effects;
use derecho_core::membership::MemberStatus;
use derecho_core::memory::LINE_WORDS;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::subgroup::SUBGROUP_LINES;
use derecho_core::node::{ACKS, ACKS_WORDS, CHANGES, CHANGES_WORDS, Node};

use super::{LogFolders, Partitions, World, WorldMember};
use crate::{Config, NodeIndex, SimLink};

/// Silence after which members are suspected: much longer than any delay that is not a fault.
pub const TIMEOUT: u64 = 2_000_000;

const TIMEOUTS: MemberTimeouts = MemberTimeouts { member_timeout: Some(TIMEOUT), gather: 100_000 };

/// Maximum number of nodes that random joins lead to.
const MOST_NODES: usize = 9;

/// Nodes that the host shows as standing still.
pub type HaltedNodes = Arc<Mutex<BTreeSet<NodeId>>>;

/// A log folder of a member, among all folders.
pub type OwnFolder = (LogFolders, usize);

/// Barrier of a process that has one thread, which has always passed it.
pub(crate) struct SingleThreadBarrier;

impl Barrier for SingleThreadBarrier {
    fn issue(&self) {}
}

/// Node of a member of a group, with its end of the network and its folder of logs.
pub struct GroupNode {
    /// Id of the node.
    pub me: NodeId,
    /// The node's end of the network.
    pub link: SimLink,
    /// Folder of its logs, if it keeps any.
    pub folder: Option<OwnFolder>,
    prepared: Option<(Node, SubgroupRegions)>,
}

impl GroupNode {
    /// Opens the regions of a node. `counts_changes`: whether the node counts changes in its
    /// streams, as in the product.
    pub fn new(link: &mut SimLink, folder: Option<OwnFolder>, counts_changes: bool) -> GroupNode {
        let mut open =
            |region, words| link.open(region, words).expect("a node that runs opens regions");
        let acks = open(ACKS, ACKS_WORDS);
        let changes = counts_changes.then(|| open(CHANGES, CHANGES_WORDS));
        let lines = open(CONTROL_LINES, SUBGROUP_LINES * LINE_WORDS);
        let geometry = control_geometry();
        let stream = open(CONTROL_STREAM, geometry.words());
        let mut node = Node::new(link.node(), acks, Arc::new(|| {}));
        if let Some(changes) = changes {
            node = node.with_changes(changes, Some(Arc::new(SingleThreadBarrier)));
        }
        let memory = node.count_changes(SenderMemory::with_nulls(stream, geometry));
        let control = SubgroupRegions {
            lines: (CONTROL_LINES, lines),
            memory: Some((CONTROL_STREAM, memory)),
        };
        GroupNode { me: link.node(), link: link.clone(), folder, prepared: Some((node, control)) }
    }

    /// Creates the member's group, once. `halted`: nodes that the host shows as standing still, if
    /// it shows any; otherwise a node that stands still is detected by its silence.
    pub fn group<S: ReplicatedState>(
        &mut self,
        join_mode: JoinMode,
        state: S,
        halted: Option<HaltedNodes>,
    ) -> Group<S> {
        let (node, control) = self.prepared.take().expect("a member begins once");
        let is_local = matches!(join_mode, JoinMode::Local);
        let config =
            GroupConfig { join_mode, weight: 1, timeouts: TIMEOUTS, ablation: Ablation::default() };
        let host = self.link.arbiter().filter(|_| is_local).map(|arbiter| {
            let lists = |halted: &HaltedNodes, node| {
                halted.lock().unwrap_or_else(PoisonError::into_inner).contains(&node)
            };
            let is_halted = move |node| halted.as_ref().is_some_and(|halted| lists(halted, node));
            HostInterface { arbiter, is_halted: Arc::new(is_halted) }
        });
        Group::new(node, config, state, control, host)
    }
}

/// Data of a group's world.
#[derive(Default)]
pub struct GroupSetting {
    /// Number of founders of a networked group; zero for a group on one host.
    pub founders: usize,
    /// Folders of the logs, if any are kept.
    pub folders: Option<LogFolders>,
    /// Links that are cut.
    pub partitions: Partitions,
}

/// Member of a group.
pub trait GroupMember: WorldMember<Setting = GroupSetting> {
    /// Replicated state of the group.
    type State: ReplicatedState;
    /// Number of random steps among which each random fault is drawn, and the end of those that are
    /// joins.
    const FAULTS: (u64, u64);
    /// Number of live members of a group on one host, or less, of which none crashes at random.
    const LEAST: usize;
    /// Whether a group without members is at rest.
    const EMPTY_RESTS: bool;

    /// Creates the member of a new node.
    fn create(
        link: &mut SimLink,
        checker: &Rc<RefCell<Self::Checker>>,
        folder: Option<OwnFolder>,
        seed: u64,
    ) -> Self;

    /// Enters the group.
    fn begin(&mut self, join_mode: JoinMode, setting: &GroupSetting, effects: &mut Effects);

    /// Returns what every member has.
    fn base(&self) -> &GroupNode;

    /// Returns what every member has, also to change it.
    fn base_mut(&mut self) -> &mut GroupNode;

    /// Returns its group.
    fn group(&self) -> &Group<Self::State>;

    /// Asks to leave the group.
    fn leave(&mut self);

    /// Drops everything that refers to its logs.
    fn drop_logs(&mut self);

    /// Tells the checker that a member has crashed.
    fn died(checker: &mut Self::Checker, node: NodeId);

    /// Tells the checker that all members have crashed.
    fn all_died(_: &mut Self::Checker) {}

    /// Prepares the departure of a member.
    fn before_departure(_: &mut World<Self>, _: NodeIndex) {}

    /// Records what a departure has led to. `leaves`: whether the member leaves in order.
    fn after_departure(_: &mut World<Self>, _: NodeIndex, _leaves: bool) {}

    /// Whether the next node keeps logs, if any are kept.
    fn stores_next(_: &mut World<Self>) -> bool {
        true
    }

    /// Adds a node, as a random join.
    fn join(world: &mut World<Self>) {
        world.add();
    }

    /// Makes one member use what it has, once.
    fn use_once(world: &mut World<Self>, node: NodeIndex);

    /// Whether a live member of a group whose members are `nodes` has nothing under way.
    fn is_settled(&self, nodes: &[NodeId]) -> bool;

    /// Describes the members, for messages.
    fn describe(world: &World<Self>) -> String;

    /// Prepares the judgement of the end.
    fn before_judgement(_: &mut World<Self>) {}

    /// Judges the end of a run, at rest.
    fn judge_end(world: &mut World<Self>);

    /// Ends the keeping of its logs: its process has ended, or it is out. If the power was lost,
    /// some unsynced data is lost.
    fn end(&mut self, power: bool) {
        if let Some((folders, at)) = self.base_mut().folder.take() {
            self.drop_logs();
            folders.give_back(at, power);
        }
    }
}

impl<M: GroupMember> World<M> {
    /// Creates a world of a group without nodes.
    pub fn of_group(
        config: Config,
        salt: u64,
        checker: Rc<RefCell<M::Checker>>,
        folders: Option<LogFolders>,
    ) -> World<M> {
        let setting = GroupSetting { folders, ..GroupSetting::default() };
        World::empty(config, salt, checker, setting)
    }

    /// Adds a node that has not begun. `stores`: whether it keeps logs, if any are kept.
    pub fn add_node(&mut self, stores: bool) -> NodeIndex {
        let World { cluster, checker, random, seed, setting } = self;
        let folder = setting.folders.clone().filter(|_| stores);
        let folder = folder.map(|folders| (folders.clone(), folders.take(random)));
        cluster.add_node(|link| vec![M::create(link, checker, folder, *seed)])
    }

    /// Makes a node enter the group.
    pub fn begin(&mut self, node: NodeIndex) {
        let founders: Vec<_> =
            (0..self.setting.founders).map(|index| (self.member(index).base().me, 1)).collect();
        let join_mode =
            if founders.is_empty() { JoinMode::Local } else { JoinMode::Network(founders) };
        let mut effects = Effects::new();
        self.cluster.machine_mut(node, 0).begin(join_mode, &self.setting, &mut effects);
        assert!(effects.is_empty(), "the group has no members yet");
    }

    /// Adds another node, which may keep logs if any are kept.
    pub fn add(&mut self) -> NodeIndex {
        let stores = M::stores_next(self);
        self.add_one(stores)
    }

    /// Adds another node. `stores`: whether it keeps logs, if any are kept.
    pub fn add_one(&mut self, stores: bool) -> NodeIndex {
        let node = self.add_node(stores);
        self.begin(node);
        node
    }

    /// Makes a node ask to leave the group.
    pub fn leave(&mut self, node: NodeIndex) {
        self.inject(node, |member| member.leave());
    }

    /// Stops a node for good.
    pub fn crash(&mut self, node: NodeIndex) {
        let me = self.member(node).base().me;
        M::died(&mut self.checker.borrow_mut(), me);
        self.cluster.crash(node);
        let power = self.random.one_in(2);
        self.member_mut(node).end(power);
        M::after_departure(self, node, false);
    }

    /// Crashes all members.
    pub fn crash_all(&mut self) {
        for node in self.living() {
            self.crash(node);
        }
        for node in self.all() {
            self.member_mut(node).end(true);
        }
        M::all_died(&mut self.checker.borrow_mut());
    }

    /// Returns the running nodes that are members, by their own statement.
    pub fn living(&self) -> Vec<NodeIndex> {
        let lives = |node: &NodeIndex| self.member(*node).group().status() == MemberStatus::Member;
        self.running().into_iter().filter(lives).collect()
    }

    /// Makes all live members use what they have now and then, for `rounds` rounds.
    pub fn flow(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for node in self.living() {
                M::use_once(self, node);
            }
            let pause = self.random.between(1_000, 60_000);
            self.run(pause);
        }
    }

    /// Makes a member join, crash, or leave.
    pub fn random_fault(&mut self) {
        let living = self.living();
        let least = if self.setting.founders > 0 { 2 } else { M::LEAST };
        let some = living.get(self.random.below(living.len().max(1) as u64) as usize).copied();
        let (all, joins) = M::FAULTS;
        match (self.random.below(all), some) {
            (0..3, Some(node)) if living.len() > least => {
                M::before_departure(self, node);
                self.crash(node);
            }
            (3..5, Some(node)) if living.len() > 2 => {
                M::before_departure(self, node);
                self.leave(node);
                M::after_departure(self, node, true);
            }
            (fault, _) if (5..joins).contains(&fault) && self.cluster.nodes() < MOST_NODES => {
                M::join(self)
            }
            _ => {}
        }
    }

    /// Whether all live nodes are members of one view, and have nothing under way.
    fn is_at_rest(&self) -> bool {
        let living = self.living();
        let nodes: Vec<NodeId> = living.iter().map(|node| self.member(*node).base().me).collect();
        (M::EMPTY_RESTS || !living.is_empty())
            && living.iter().all(|node| {
                let member = self.member(*node);
                let view = member.group().view();
                let is_whole = view.members.len() == nodes.len()
                    && nodes.iter().all(|node| view.rank_of(*node).is_some());
                is_whole && member.group().is_settled() && member.is_settled(&nodes)
            })
    }

    /// Lets the group come to rest.
    pub fn settle(&mut self) {
        // A log that must be completed from one that cannot have everything is asked a thousand
        // times before it is replaced.
        for round in 0..3_300 {
            self.run(if round < 3_000 { 100_000 } else { 100_000_000 });
            if self.is_at_rest() {
                return;
            }
        }
        panic!("the group does not come to rest: {}", M::describe(self));
    }

    /// Checks the end of a run, after all members have come to rest.
    pub fn check(&mut self) {
        M::before_judgement(self);
        self.settle();
        self.flow(3);
        self.settle();
        self.run(5_000_000);
        self.settle();
        M::judge_end(self);
    }
}
