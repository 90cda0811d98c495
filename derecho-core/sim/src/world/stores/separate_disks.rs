//! Groups whose members keep their logs on disks of their own, and restarts in which some of these
//! are missing.

use std::cell::RefCell;
use std::rc::Rc;

use crate::{Config, NodeIndex};
use derecho_core::storage::store::StoreRetention;

use super::World;
use super::checker::StoreChecker;
use crate::world::log_folders::LogFolders;

/// Returns the retention of the run of this seed.
pub fn retention(seed: u64) -> StoreRetention {
    let retention = match seed % 3 {
        0 => StoreRetention::default(),
        1 => StoreRetention { depth: Some(2), ..StoreRetention::default() },
        _ => StoreRetention { most: Some(40), ..StoreRetention::default() },
    };
    // With every fourth group of three seeds, keys that are over are removed, sooner or
    // later (I-240).
    StoreRetention { cleanup: (seed / 3 % 4 == 3).then_some(seed % 9), ..retention }
}

/// Members whose logs are on disks of their own, which no other host reaches.
pub struct SeparateDisks {
    seed: u64,
    /// Observer of all members.
    pub checker: Rc<RefCell<StoreChecker>>,
    /// All folders.
    pub folders: LogFolders,
    /// The group.
    pub world: World,
}

impl SeparateDisks {
    /// Creates a group of `nodes` nodes on one host.
    pub fn new(seed: u64, nodes: usize) -> SeparateDisks {
        SeparateDisks::over(seed, |config, checker, folders| {
            World::over(config, nodes, true, checker, Some(folders))
        })
    }

    fn over(
        seed: u64,
        world: impl FnOnce(Config, Rc<RefCell<StoreChecker>>, LogFolders) -> World,
    ) -> SeparateDisks {
        let mut checker = StoreChecker::default();
        (checker.retention, checker.logged) = (retention(seed), true);
        let (checker, folders) = (Rc::new(RefCell::new(checker)), LogFolders::separate());
        let world = world(Config::adversarial(seed), Rc::clone(&checker), folders.clone());
        SeparateDisks { seed, checker, folders, world }
    }

    /// Creates five members of a networked group, two of which keep the log of the subgroup. The
    /// second one crashes, and the first one continues. Also returns the number of durable messages
    /// at the crash.
    pub fn with_crashed_holder(seed: u64) -> (SeparateDisks, usize) {
        let mut separate = SeparateDisks::over(seed, |config, checker, folders| {
            World::with_bystanders(config, 5, 3, checker, Some(folders))
        });
        let world = &mut separate.world;
        world.settle();
        world.flow(6);
        world.settle();
        world.run(1_000_000);
        world.crash(NodeIndex(1));
        let before = separate.durable();
        let world = &mut separate.world;
        world.run(30_000_000);
        world.flow(10);
        world.settle();
        (separate, before)
    }

    /// Number of messages that were reported as durable everywhere.
    pub fn durable(&self) -> usize {
        self.checker.borrow().durable
    }

    /// Crashes all, and brings back one without this folder; it waits, by this rule.
    pub fn restart_without(&mut self, hidden: usize, life: u64, rule: &str) {
        self.restart(hidden, life, true, rule);
    }

    /// Crashes all members of a networked group, and brings back all but the one with this folder;
    /// they wait (I-106).
    pub fn restart_in_a_network(&mut self, hidden: usize) {
        self.restart(hidden, 1, false, "I-106");
    }

    fn restart(&mut self, hidden: usize, life: u64, local: bool, rule: &str) {
        let SeparateDisks { seed, checker, folders, world } = self;
        let nodes = if local { 1 } else { folders.count().0 - 1 };
        world.crash_all();
        checker.borrow_mut().restart_somewhere();
        folders.hide(hidden, true);
        let config = Config::adversarial(*seed + life * 1_000_000);
        *world = World::over(config, nodes, local, Rc::clone(checker), Some(folders.clone()));
        world.run(300_000_000);
        assert!(
            !world.has_begun(),
            "{rule}: seed {seed}: the store begins without the members that have it"
        );
    }

    /// Brings this folder back, and checks the result.
    pub fn bring_back(&mut self, hidden: usize) {
        let SeparateDisks { checker, folders, world, .. } = self;
        folders.hide(hidden, false);
        assert!(world.bring_back());
        world.settle();
        world.flow(3);
        world.check();
        checker.borrow().compare(&folders.logs(super::member::LOG));
    }
}
