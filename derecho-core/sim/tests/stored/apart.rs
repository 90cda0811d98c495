//! Groups whose members keep their logs on disks of their own, and restarts in which some of these
//! are missing.

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::storage::store::Retention;
use derecho_sim::{Config, NodeIndex};

use super::World;
use super::court::Court;
use super::root::Root;

/// Returns the retention of the run of this seed.
pub(crate) fn retention(seed: u64) -> Retention {
    let retention = match seed % 3 {
        0 => Retention::default(),
        1 => Retention { depth: Some(2), ..Retention::default() },
        _ => Retention { most: Some(40), ..Retention::default() },
    };
    // With every fourth group of three seeds, keys that are over are removed, sooner or
    // later (I-240).
    Retention { cleanup: (seed / 3 % 4 == 3).then_some(seed % 9), ..retention }
}

/// Members whose logs are on disks of their own, which no other host reaches.
pub(crate) struct Apart {
    seed: u64,
    pub(crate) court: Rc<RefCell<Court>>,
    pub(crate) root: Root,
    pub(crate) world: World,
}

impl Apart {
    pub(crate) fn new(seed: u64, nodes: usize) -> Apart {
        Apart::over(seed, |config, over| World::over(config, nodes, true, over))
    }

    fn over(
        seed: u64,
        world: impl FnOnce(Config, (Rc<RefCell<Court>>, Option<Root>)) -> World,
    ) -> Apart {
        let mut court = Court::default();
        (court.retention, court.logged) = (retention(seed), true);
        let (court, root) = (Rc::new(RefCell::new(court)), Root::apart());
        let over = (Rc::clone(&court), Some(root.clone()));
        let world = world(Config::adversarial(seed), over);
        Apart { seed, court, root, world }
    }

    /// Creates five members of a networked group, two of which keep the log of the subgroup. The
    /// second one crashes, and the first one continues. Also returns the number of durable messages
    /// at the crash.
    pub(crate) fn with_a_keeper_that_crashed(seed: u64) -> (Apart, usize) {
        let world = |config, over| World::with_bystanders(config, 5, 3, over);
        let mut apart = Apart::over(seed, world);
        let world = &mut apart.world;
        world.settle();
        world.flow(6);
        world.settle();
        world.run(1_000_000);
        world.crash(NodeIndex(1));
        let before = apart.durable();
        let world = &mut apart.world;
        world.run(30_000_000);
        world.flow(10);
        world.settle();
        (apart, before)
    }

    pub(crate) fn durable(&self) -> usize {
        self.court.borrow().durable
    }

    /// Crashes all, and brings back one without this folder; it waits, by this rule.
    pub(crate) fn restart_without(&mut self, hidden: usize, life: u64, rule: &str) {
        self.restart(hidden, (life, 1, true), rule);
    }

    /// Crashes all members of a networked group, and brings back all but the one with this folder;
    /// they wait (I-106).
    pub(crate) fn restart_in_a_network(&mut self, hidden: usize) {
        let others = self.root.count().0 - 1;
        self.restart(hidden, (1, others, false), "I-106");
    }

    fn restart(&mut self, hidden: usize, (life, nodes, local): (u64, usize, bool), rule: &str) {
        let Apart { seed, court, root, world } = self;
        world.crash_all();
        court.borrow_mut().restart_somewhere();
        root.hide(hidden, true);
        let config = Config::adversarial(*seed + life * 1_000_000);
        *world = World::over(config, nodes, local, (Rc::clone(court), Some(root.clone())));
        world.run(300_000_000);
        assert!(!world.has_begun(), "{rule}: seed {seed}: it begins without those who have it");
    }

    /// Brings this folder back, and checks the result.
    pub(crate) fn bring_back(&mut self, hidden: usize) {
        let Apart { court, root, world, .. } = self;
        root.hide(hidden, false);
        assert!(world.bring_back());
        world.settle();
        world.flow(3);
        world.check();
        court.borrow().compare(&root.logs(super::member::LOG));
    }
}
