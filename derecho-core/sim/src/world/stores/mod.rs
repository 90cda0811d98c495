//! Groups with a stored subgroup.
//!
//! Owns: what the members' applications do with the subgroup, and the faults of their disks. Never
//! does: judge; the checker does.
#![allow(clippy::unwrap_used, reason = "a run that cannot go on fails")]

pub mod checker;
pub mod member;
pub mod partition_lives;
pub mod separate_disks;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::storage::store::StoreRetention;
use derecho_core::storage::store_set::StoreGroupState;

use super::{GroupMember, LogFolders};
use crate::{Config, NodeIndex};
use checker::StoreChecker;
use member::{KEY, TestMember};

/// A group with a stored subgroup.
pub type World = super::World<TestMember>;

const SALT: u64 = 0x57_04ed;

impl World {
    /// Creates a group of `nodes` nodes on one host, or of as many founders in a network.
    pub fn new(config: Config, nodes: usize, local: bool, retention: StoreRetention) -> World {
        let mut checker = StoreChecker::default();
        checker.retention = retention;
        World::over(config, nodes, local, Rc::new(RefCell::new(checker)), None)
    }

    /// Creates a group over these logs, with the knowledge of this checker.
    pub fn over(
        config: Config,
        nodes: usize,
        local: bool,
        checker: Rc<RefCell<StoreChecker>>,
        folders: Option<LogFolders>,
    ) -> World {
        let mut world = World::of_group(config, SALT, checker, folders);
        world.setting.founders = if local { 0 } else { nodes };
        // Some members keep no logs, but the first does.
        let separate = !local && world.setting.folders.is_some();
        let mut nodes: Vec<bool> =
            (0..nodes).map(|_| separate || !world.random.one_in(4)).collect();
        nodes.iter_mut().take(1).for_each(|stores| *stores = true);
        let nodes: Vec<NodeIndex> = nodes.into_iter().map(|it| world.add_node(it)).collect();
        nodes.into_iter().for_each(|node| world.begin(node));
        world
    }

    /// Creates founders of a networked group, all of which keep logs; the last ones take no part in
    /// the subgroup.
    pub fn with_bystanders(
        config: Config,
        nodes: usize,
        bystanders: usize,
        checker: Rc<RefCell<StoreChecker>>,
        folders: Option<LogFolders>,
    ) -> World {
        let mut world = World::over(config, 0, false, checker, folders);
        world.setting.founders = nodes;
        let all: Vec<NodeIndex> = (0..nodes).map(|_| world.add_node(true)).collect();
        for (at, node) in all.into_iter().enumerate() {
            world.member_mut(node).takes_part = at + bystanders < nodes;
            world.begin(node);
        }
        world
    }

    /// Adds a node that keeps logs, and takes no part in the subgroup.
    pub fn add_bystander(&mut self) -> NodeIndex {
        let node = self.add_node(true);
        self.cluster.machine_mut(node, 0).takes_part = false;
        self.begin(node);
        node
    }

    /// Records a loss if no live member has the store any more.
    pub fn notice_loss(&mut self) {
        let has = |node: &NodeIndex| self.member(*node).whole && !self.member(*node).leaves;
        if !self.living().iter().any(has) {
            self.checker.borrow_mut().lost = true;
        }
    }

    /// Prepares the departure of a member. If no other member has a complete log, its log knows of
    /// no later holder of one (I-113).
    fn leave_behind(&self, node: NodeIndex) {
        if !self.has_another_log(node) {
            self.member(node).is_left_behind();
        }
    }

    /// Makes a member stand still or slow, or its disk stall or fill up, for less time than would
    /// exclude it, while the others write; or makes its log fail, and then crashes the member.
    pub fn random_delay(&mut self) {
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
    pub fn lean_on_the_first(&mut self) -> NodeIndex {
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
    pub fn live(&mut self) -> bool {
        self.flow(10);
        for _ in 0..50 {
            self.flow(2);
            self.random_fault();
        }
        self.run(20_000_000);
        !self.living().is_empty()
    }

    /// Whether any member has the store.
    pub fn has_begun(&self) -> bool {
        let holders = |node: &NodeIndex| self.member(*node).group().state().holders(KEY).cloned();
        self.living().iter().filter_map(holders).any(|holders| !holders.names().is_empty())
    }

    /// Whether the first live member knows that a node takes part.
    pub fn has_seat(&self, node: NodeIndex) -> bool {
        let first = self.living()[0];
        self.member(first).group().state().has_seat(self.member(node).me)
    }

    /// Whether a node is known to have the store.
    pub fn is_named(&self, node: NodeIndex) -> bool {
        let member = self.member(node);
        let holders = member.group().state().holders(KEY).unwrap();
        holders.names().contains(&member.me)
    }

    /// Brings back one more of the earlier disks. Returns `false` if all are back.
    pub fn bring_back(&mut self) -> bool {
        let is_left = self.setting.folders.as_ref().is_some_and(|folders| folders.count().1 > 0);
        if is_left {
            self.add_one(true);
        }
        is_left
    }
}
