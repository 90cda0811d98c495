//! Groups with a stored subgroup, in a simulated cluster.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod checker;
pub(crate) mod log_folders;
pub(crate) mod member;
pub(crate) mod partition;
pub(crate) mod separate_disks;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::group::membership_service::JoinMode;
use derecho_core::ids::NodeId;
use derecho_core::machine::Effects;
use derecho_core::membership::MemberStatus;
use derecho_core::storage::store::StoreRetention;
use derecho_core::storage::store_set::StoreGroupState;
use derecho_sim::{Cluster, Config, NodeIndex, Random};

use checker::StoreChecker;
use log_folders::LogFolders;
use member::{KEY, TestMember};
use partition::Partitions;

pub(crate) struct World {
    pub(crate) cluster: Cluster<TestMember>,
    pub(crate) checker: Rc<RefCell<StoreChecker>>,
    pub(crate) random: Random,
    founders: usize,
    retention: StoreRetention,
    /// Folders of the logs, if any are kept.
    folders: Option<LogFolders>,
    pub(crate) partitions: Partitions,
}

impl World {
    /// Creates a group of `nodes` nodes on one host, or of as many founders in a network.
    pub(crate) fn new(
        config: Config,
        nodes: usize,
        local: bool,
        retention: StoreRetention,
    ) -> World {
        let mut checker = StoreChecker::default();
        checker.retention = retention;
        World::over(config, nodes, local, (Rc::new(RefCell::new(checker)), None))
    }

    /// Creates a group over these logs, with the knowledge of this checker.
    pub(crate) fn over(
        config: Config,
        nodes: usize,
        local: bool,
        (checker, folders): (Rc<RefCell<StoreChecker>>, Option<LogFolders>),
    ) -> World {
        let (seed, retention) = (config.seed, checker.borrow().retention);
        let mut world = World {
            cluster: Cluster::new(config),
            checker,
            folders,
            random: Random::new(seed ^ 0x57_04ed),
            founders: if local { 0 } else { nodes },
            retention,
            partitions: Partitions::default(),
        };
        // Some members keep no logs, but the first does.
        let separate = !local && world.folders.is_some();
        let mut nodes: Vec<bool> =
            (0..nodes).map(|_| separate || !world.random.one_in(4)).collect();
        nodes.iter_mut().take(1).for_each(|stores| *stores = true);
        let nodes: Vec<NodeIndex> = nodes.into_iter().map(|it| world.add_node(it)).collect();
        nodes.into_iter().for_each(|node| world.begin(node));
        world
    }

    /// Creates founders of a networked group, all of which keep logs; the last ones take no part in
    /// the subgroup.
    pub(crate) fn with_bystanders(
        config: Config,
        nodes: usize,
        bystanders: usize,
        over: (Rc<RefCell<StoreChecker>>, Option<LogFolders>),
    ) -> World {
        let mut world = World::over(config, 0, false, over);
        world.founders = nodes;
        let all: Vec<NodeIndex> = (0..nodes).map(|_| world.add_node(true)).collect();
        for (at, node) in all.into_iter().enumerate() {
            world.cluster.machine_mut(node, 0).takes_part = at + bystanders < nodes;
            world.begin(node);
        }
        world
    }

    fn add_node(&mut self, stores: bool) -> NodeIndex {
        let (checker, retention) = (Rc::clone(&self.checker), self.retention);
        let folders = self.folders.clone().filter(|_| stores);
        let folders = folders.map(|root| (root.clone(), root.take(&mut self.random)));
        self.cluster.add_node(move |link| vec![TestMember::new(link, &checker, retention, folders)])
    }

    fn begin(&mut self, node: NodeIndex) {
        let founders = (0..self.founders).map(|index| (self.member(NodeIndex(index)).me, 1));
        let entrance = match self.founders {
            0 => JoinMode::Local,
            _ => JoinMode::Network(founders.collect()),
        };
        let (mut effects, logged) = (Effects::new(), self.folders.is_some());
        self.cluster.machine_mut(node, 0).begin(entrance, logged, &mut effects);
        assert!(effects.is_empty(), "the group has no members yet");
    }

    pub(crate) fn add(&mut self) -> NodeIndex {
        let stores = !self.random.one_in(4);
        self.add_one(stores)
    }

    pub(crate) fn add_one(&mut self, stores: bool) -> NodeIndex {
        let node = self.add_node(stores);
        self.begin(node);
        node
    }

    /// Adds a node that keeps logs, and takes no part in the subgroup.
    pub(crate) fn add_bystander(&mut self) -> NodeIndex {
        let node = self.add_node(true);
        self.cluster.machine_mut(node, 0).takes_part = false;
        self.begin(node);
        node
    }

    pub(crate) fn crash(&mut self, node: NodeIndex) {
        let me = self.member(node).me;
        self.checker.borrow_mut().died(me);
        self.cluster.crash(node);
        let power = self.random.one_in(2);
        self.cluster.machine_mut(node, 0).end(power);
        self.notice_loss();
    }

    /// Crashes all members.
    pub(crate) fn crash_all(&mut self) {
        for node in self.living() {
            self.crash(node);
        }
        for node in (0..self.cluster.nodes()).map(NodeIndex) {
            self.cluster.machine_mut(node, 0).end(true);
        }
    }

    /// Records a loss if no live member has the store any more.
    pub(crate) fn notice_loss(&mut self) {
        let has = |node: &NodeIndex| self.member(*node).whole && !self.member(*node).leaves;
        if !self.living().iter().any(has) {
            self.checker.borrow_mut().lost = true;
        }
    }

    pub(crate) fn member(&self, node: NodeIndex) -> &TestMember {
        self.cluster.machine(node, 0)
    }

    pub(crate) fn act(&mut self, node: NodeIndex, what: impl FnOnce(&mut TestMember) + 'static) {
        let now = self.cluster.now();
        self.cluster.inject(node, 0, now, move |member, _, _| what(member));
    }

    pub(crate) fn living(&self) -> Vec<NodeIndex> {
        let lives = |node: &NodeIndex| {
            self.cluster.is_running(*node)
                && self.member(*node).group().status() == MemberStatus::Member
        };
        (0..self.cluster.nodes()).map(NodeIndex).filter(lives).collect()
    }

    pub(crate) fn run(&mut self, time: u64) {
        let until = self.cluster.now().after(time);
        self.cluster.run_until(until);
    }

    /// Makes all live members write, and adds readers now and then.
    pub(crate) fn flow(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for node in self.living() {
                for _ in 0..self.random.below(12) {
                    self.act(node, |member| member.write());
                }
                if self.random.one_in(40) {
                    self.act(node, |member| member.read_along());
                }
            }
            let pause = self.random.between(1_000, 60_000);
            self.run(pause);
        }
    }

    /// Prepares the departure of a member. If no other member has a complete log, its log knows of
    /// no later holder of one (I-113).
    fn leave_behind(&self, node: NodeIndex) {
        if !self.has_another_log(node) {
            self.member(node).is_left_behind();
        }
    }

    /// Makes a member join, crash, or leave.
    pub(crate) fn random_fault(&mut self) {
        let living = self.living();
        let least = if self.founders > 0 { 2 } else { 1 };
        let some = living.get(self.random.below(living.len().max(1) as u64) as usize).copied();
        match (self.random.below(30), some) {
            (0..3, Some(node)) if living.len() > least => {
                self.leave_behind(node);
                self.crash(node);
            }
            (3..5, Some(node)) if living.len() > 2 => {
                self.leave_behind(node);
                self.act(node, |member| member.leave());
                // A leaver takes with it what it alone has.
                self.cluster.machine_mut(node, 0).leaves = true;
                self.notice_loss();
            }
            (5..10, _) if self.cluster.nodes() < 9 => {
                let fresh = self
                    .folders
                    .as_ref()
                    .is_some_and(|folders| folders.is_separate() && folders.is_used());
                match fresh && self.random.one_in(3) {
                    true => self.add_bystander(),
                    false => self.add(),
                };
            }
            _ => {}
        }
    }

    /// Makes a member stand still or slow, or its disk stall or fill up, for less time than would
    /// exclude it, while the others write; or makes its log fail, and then crashes the member.
    pub(crate) fn random_delay(&mut self) {
        let living = self.living();
        let Some(&node) = living.get(self.random.below(living.len().max(1) as u64) as usize) else {
            return;
        };
        let rounds = self.random.between(1, 6) as usize;
        let disk = self.member(node).folder();
        match (self.random.below(9), disk) {
            (0..2, _) => {
                self.cluster.pause(node);
                self.flow(rounds);
                self.cluster.resume(node);
            }
            (2..4, _) => {
                self.cluster.set_pace(node, self.random.between(2, 20));
                self.flow(rounds);
                self.cluster.set_pace(node, 1);
            }
            (4..6, Some((folders, at))) => {
                folders.stall(at, true);
                self.flow(rounds);
                folders.stall(at, false);
            }
            (6..8, Some((folders, at))) => {
                folders.fill(at, true);
                self.flow(rounds);
                folders.fill(at, false);
            }
            (8, Some((folders, at))) if self.has_another_log(node) => {
                // Its log accepts nothing more, until its process is restarted.
                folders.fail_syncs(at);
                self.flow(rounds);
                self.crash(node);
            }
            _ => {}
        }
    }

    /// Whether another member has a complete log.
    fn has_another_log(&self, node: NodeIndex) -> bool {
        let mut others = self.living().into_iter().filter(|other| *other != node);
        others.any(|other| self.member(other).stores() && self.is_named(other))
    }

    /// Lets the first member keep a log and write; another one has everything and keeps no log, and
    /// one that keeps logs takes no part. Returns the first member.
    pub(crate) fn lean_on_the_first(&mut self) -> NodeIndex {
        self.settle();
        let first = self.living()[0];
        self.add_one(false);
        self.add_bystander();
        self.run(30_000_000);
        self.flow(10);
        self.settle();
        first
    }

    /// Lets members join and leave for a while. Returns whether any member is left.
    pub(crate) fn live(&mut self) -> bool {
        self.flow(10);
        for _ in 0..50 {
            self.flow(2);
            self.random_fault();
        }
        self.run(20_000_000);
        !self.living().is_empty()
    }

    /// Whether any member has the store.
    pub(crate) fn has_begun(&self) -> bool {
        let holders = |node: &NodeIndex| self.member(*node).group().state().holders(KEY).cloned();
        self.living().iter().filter_map(holders).any(|holders| !holders.names().is_empty())
    }

    /// Whether the first live member knows that a node takes part.
    pub(crate) fn has_seat(&self, node: NodeIndex) -> bool {
        let first = self.living()[0];
        self.member(first).group().state().has_seat(self.member(node).me)
    }

    /// Whether a node is known to have the store.
    pub(crate) fn is_named(&self, node: NodeIndex) -> bool {
        let member = self.member(node);
        let holders = member.group().state().holders(KEY).unwrap();
        holders.names().contains(&member.me)
    }

    /// Brings back one more of the earlier disks. Returns `false` if all are back.
    pub(crate) fn bring_back(&mut self) -> bool {
        let is_left = self.folders.as_ref().is_some_and(|folders| folders.count().1 > 0);
        if is_left {
            self.add_one(true);
        }
        is_left
    }

    fn is_settled(&self) -> bool {
        let living = self.living();
        let nodes: Vec<NodeId> = living.iter().map(|node| self.member(*node).me).collect();
        !living.is_empty()
            && living.iter().all(|node| {
                let member = self.member(*node);
                let group = member.group();
                let all = group.view().members.len() == nodes.len()
                    && nodes.iter().all(|node| group.view().rank_of(*node).is_some());
                let named = group.state().holders(KEY).unwrap().names().contains(&member.me);
                all && group.is_settled() && (!member.takes_part || member.whole && named)
            })
    }

    pub(crate) fn settle(&mut self) {
        // A log that must be completed from one that cannot have everything is asked a thousand
        // times before it is replaced.
        for round in 0..3_300 {
            self.run(if round < 3_000 { 100_000 } else { 100_000_000 });
            if self.is_settled() {
                return;
            }
        }
        for node in self.living() {
            let member = self.member(node);
            eprintln!("{:?}: {:?}, {:?}", member.me, member.stores, member.group().state());
            eprintln!("  {}", member.group().describe());
        }
        for node in (0..self.cluster.nodes()).map(NodeIndex) {
            let member = self.member(node);
            let (me, standing) = (member.me, member.group().status());
            let (runs, stores) = (self.cluster.is_running(node), member.stores());
            eprintln!("{me:?} runs {runs}, {standing:?}, keeps a log {stores}");
        }
        panic!("the group does not come to rest");
    }

    /// Checks that all readers finally have their records, and that all members keep the same.
    pub(crate) fn check(&mut self) {
        if self.folders.is_some()
            && !self.living().iter().any(|node| {
                let member = self.member(*node);
                member.stores() && !member.leaves
            })
        {
            // The group does not continue without a member that keeps a log.
            self.add_one(true);
        }
        self.settle();
        self.flow(3);
        self.settle();
        self.run(5_000_000);
        self.settle();
        for node in self.living() {
            if !self.member(node).takes_part {
                continue;
            }
            self.cluster.machine_mut(node, 0).read_all();
            let me = self.member(node).me;
            assert!(
                self.checker.borrow().acquits(me),
                "{me:?} has read content that was not written"
            );
        }
        self.checker.borrow_mut().end();
    }
}
