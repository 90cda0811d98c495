//! The one world of the simulator: a cluster of members, the checker that observes them, and the
//! ways to drive them and to cause faults.
//!
//! Owns: building a cluster, letting time pass, joins, leaves, crashes, partitions, the end of all
//! members, and the end of a run. Never does: know the content of a member; that is a part's.
//!
//! ```text
//!   World ── WorldMember (what the world needs of any machine)
//!     ├── streams.rs                 nodes with streams, without an order between them
//!     ├── subgroups/                 nodes with a part in each subgroup: order, agreement, nulls;
//!     │                              one or many of them, or one through many epochs
//!     └── group.rs: GroupMember      whole groups of the product
//!           ├── stores/      a stored subgroup: order, histories, durability
//!           └── objects/     replicated objects: positions, queries, logged versions
//!   ordered.rs       rules for ordered deliveries
//!   log_folders.rs   simulated disks with the logs of all members
//!   partitions.rs    links that are cut
//! ```

mod group;
pub mod log_folders;
pub mod objects;
pub mod ordered;
mod partitions;
pub mod stores;
pub mod streams;
pub mod subgroups;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::ids::Time;
use derecho_core::machine::{Effects, Machine};

use crate::{Cluster, Config, NodeIndex, Random};
pub use group::{GroupMember, GroupNode, GroupSetting, HaltedNodes, OwnFolder, TIMEOUT};
pub use log_folders::LogFolders;
pub use partitions::Partitions;

/// Member of a world.
pub trait WorldMember: Machine + Sized {
    /// Observer of all members.
    type Checker;
    /// Data of the world in addition to its members.
    type Setting;
}

/// Pace of a slow reader, which holds some of the records that it takes.
#[derive(Clone, Copy, Debug)]
pub struct ReadPace {
    /// Maximum number of records that it takes in one act.
    pub count: u64,
    /// One of how many taken records is held; zero: none.
    pub hold_one_in: u64,
    /// One of how many held records is released in one act; zero: none.
    pub release_one_in: u64,
}

impl ReadPace {
    /// Pace of a reader that takes and releases everything.
    pub const ALL: ReadPace = ReadPace { count: u64::MAX, hold_one_in: 0, release_one_in: 1 };

    /// Returns the pace of a reader that holds some records for a long time.
    fn random(random: &mut Random) -> ReadPace {
        let (hold_one_in, release_one_in) = (random.between(2, 20), random.between(2, 12));
        ReadPace { count: 6, hold_one_in, release_one_in }
    }
}

/// A simulated cluster, the checker that observes its members, and the randomness of the run.
pub struct World<M: WorldMember> {
    /// The nodes.
    pub cluster: Cluster<M>,
    /// Observer of all members.
    pub checker: Rc<RefCell<M::Checker>>,
    /// Source of all randomness of applications and faults.
    pub random: Random,
    /// Seed of the run.
    pub seed: u64,
    /// Data of the world in addition to its members.
    pub setting: M::Setting,
}

impl<M: WorldMember> World<M> {
    /// Creates a world without nodes. `salt`: separates its randomness from that of the network.
    pub fn empty(
        config: Config,
        salt: u64,
        checker: Rc<RefCell<M::Checker>>,
        setting: M::Setting,
    ) -> World<M> {
        let seed = config.seed;
        let random = Random::new(seed ^ salt);
        World { cluster: Cluster::new(config), checker, random, seed, setting }
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.cluster.now()
    }

    /// Returns a node's machine.
    pub fn member(&self, node: impl Into<NodeIndex>) -> &M {
        self.cluster.machine(node.into(), 0)
    }

    /// Returns a node's machine, also to change it.
    pub fn member_mut(&mut self, node: impl Into<NodeIndex>) -> &mut M {
        self.cluster.machine_mut(node.into(), 0)
    }

    /// Whether a node has neither crashed nor left.
    pub fn is_running(&self, node: impl Into<NodeIndex>) -> bool {
        self.cluster.is_running(node.into())
    }

    /// Returns all nodes that ever existed.
    pub fn all(&self) -> Vec<NodeIndex> {
        (0..self.cluster.nodes()).map(NodeIndex).collect()
    }

    /// Returns the running nodes.
    pub fn running(&self) -> Vec<NodeIndex> {
        self.all().into_iter().filter(|node| self.cluster.is_running(*node)).collect()
    }

    /// Lets exactly this time pass.
    pub fn run(&mut self, time: u64) {
        let until = self.cluster.now().after(time);
        self.cluster.run_until(until);
    }

    /// Lets a random time pass, up to this maximum.
    pub fn pass(&mut self, most: u64) {
        let time = self.random.between(0, most);
        self.run(time);
    }

    /// Performs an application's action at this moment, when time passes next.
    pub fn inject(&mut self, node: impl Into<NodeIndex>, what: impl FnOnce(&mut M) + 'static) {
        let now: Time = self.cluster.now();
        self.cluster.inject(node.into(), 0, now, move |member, _, _| what(member));
    }

    /// Performs an action now. Nothing happens at a node that does not run.
    pub fn act(
        &mut self,
        node: impl Into<NodeIndex>,
        action: impl FnOnce(&mut M, &mut Effects) + 'static,
    ) {
        let now = self.cluster.now();
        self.cluster.inject(node.into(), 0, now, |member, _, effects| action(member, effects));
        self.cluster.run_until(now.after(1));
    }

    /// Performs an action now at a node that runs, and returns the result.
    pub fn call<R: 'static>(
        &mut self,
        node: impl Into<NodeIndex>,
        action: impl FnOnce(&mut M, &mut Effects) -> R + 'static,
    ) -> R {
        let result = Rc::new(RefCell::new(None));
        let place = Rc::clone(&result);
        self.act(node, move |member, effects| {
            *place.borrow_mut() = Some(action(member, effects));
        });
        let result = result.borrow_mut().take();
        result.expect("a node that runs acts at once")
    }

    /// Returns one of these nodes, if there is one.
    pub fn one_of(&mut self, nodes: &[NodeIndex]) -> Option<NodeIndex> {
        nodes.get(self.random.below(nodes.len() as u64) as usize).copied()
    }

    /// Puts these into a random order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.random.below(last as u64 + 1) as usize);
        }
    }
}
