//! Partitions of a networked group whose members keep logs.
//!
//! Owns: the links that are cut and their durations, the treatment of members that are out because
//! of that, and the lives of such groups. Never does: judge what is durable; the checker does.

use std::cell::RefCell;
use std::rc::Rc;

use crate::Config;
use derecho_core::link::Evidence;
use derecho_core::membership::MemberStatus;

use super::World;
use super::checker::StoreChecker;
use super::member::LOG;
use super::separate_disks::retention;
use crate::world::GroupMember;
use crate::world::log_folders::LogFolders;

/// Maximum number of nodes that a world adds, including the first ones.
const MOST_NODES: usize = 14;

impl World {
    /// Begins, continues, or ends a partition at random. Members write meanwhile where they can.
    pub fn random_partition(&mut self) {
        match (self.is_partitioned(), self.random.below(3)) {
            (false, 0..2) => self.cut_at_random(),
            (true, 0) => self.heal(),
            _ => {}
        }
        let rounds = self.random.between(1, 8) as usize;
        self.flow(rounds);
        if self.random.one_in(2) {
            let most = [200_000, 2_000_000, 6_000_000][self.random.below(3) as usize];
            let time = self.random.between(1, most);
            self.run(time);
        }
        self.end_evicted();
    }

    /// Ends the processes of members that are out, as participants do, and lets some of them come
    /// back as new nodes.
    pub fn end_evicted(&mut self) {
        let before = std::mem::take(&mut self.setting.partitions.members);
        for (node, folders) in before {
            let is_out = self.member(node).group().status() != MemberStatus::Member;
            if !self.cluster.is_running(node) || !is_out || self.member(node).leaves {
                continue;
            }
            self.setting.partitions.evicted += 1;
            if let Some((folders, at)) = folders.filter(|_| !self.has_another_log(node)) {
                folders.leave_behind(at);
            }
            self.cluster.crash(node);
            if self.random.one_in(2) && self.cluster.nodes() < MOST_NODES {
                self.add_one(true);
            }
        }
        self.notice_loss();
        let members = self.living().into_iter().map(|node| (node, self.member(node).folder()));
        self.setting.partitions.members = members.collect();
    }
}

/// Counts of the events in lives of networked groups.
#[derive(Default, Debug)]
pub struct NetworkedCounts {
    /// Number of lives.
    pub lives: usize,
    /// Messages that were durable everywhere when their life ended.
    pub durable: usize,
    /// Number of partitions.
    pub partitions: usize,
    /// Partitions that ended before any member was excluded.
    pub survived: usize,
    /// Live members that were excluded.
    pub evicted: usize,
    /// Lives that ended during a partition.
    pub cut_short: usize,
    /// Lives that ended with no member left: no side was a primary partition.
    pub lost: usize,
    /// Restarts that began before all logs were back.
    pub early: usize,
}

impl NetworkedCounts {
    /// Runs several lives of one networked group that is partitioned at random. Every member's log
    /// is on a disk of its own.
    pub fn live(&mut self, seed: u64) {
        println!("seed {seed}");
        let (checker, folders) =
            (Rc::new(RefCell::new(StoreChecker::default())), LogFolders::separate());
        (checker.borrow_mut().retention, checker.borrow_mut().logged) = (retention(seed), true);
        let (nodes, logs) = (3 + seed as usize % 3, Some(folders.clone()));
        let mut world = World::over(config(seed, 0), nodes, false, Rc::clone(&checker), logs);
        // Founders wait for each other without an end.
        world.settle();
        for life in 1..4 {
            world.flow(5);
            for _ in 0..12 {
                world.random_partition();
                match seed % 2 {
                    0 => world.random_fault(),
                    _ => world.random_delay(),
                }
                world.end_evicted();
            }
            self.count(&world);
            if checker.borrow().lost && !world.living().is_empty() {
                break;
            }
            world = self.restart(world, seed, life);
        }
        world.heal();
        world.run(20_000_000);
        world.end_evicted();
        if world.living().is_empty() {
            world = self.restart(world, seed, 4);
        }
        while world.bring_back() {}
        world.settle();
        world.flow(3);
        world.check();
        checker.borrow().compare(&folders.logs(LOG));
    }

    fn count(&mut self, world: &World) {
        self.lives += 1;
        self.cut_short += usize::from(world.is_partitioned());
        self.lost += usize::from(world.living().is_empty());
        self.durable += world.checker.borrow().durable;
        self.partitions += world.setting.partitions.count;
        self.survived += world.setting.partitions.survived;
        self.evicted += world.setting.partitions.evicted;
    }

    /// Crashes all. Some come back, and then the others one by one until the group begins.
    fn restart(&mut self, mut world: World, seed: u64, life: u64) -> World {
        let folders = world.setting.folders.clone().expect("its members keep logs");
        world.crash_all();
        let checker = Rc::clone(&world.checker);
        checker.borrow_mut().restart_somewhere();
        let back = 1 + world.random.below(folders.count().0 as u64) as usize;
        let logs = Some(folders.clone());
        let mut world = World::over(config(seed, life), back, false, checker, logs);
        world.run(3_000_000);
        while !world.has_begun() {
            let is_back = world.bring_back();
            world.run(if is_back { 3_000_000 } else { 300_000_000 });
            assert!(is_back || world.has_begun(), "all logs are back, and the store has not begun");
        }
        self.early += usize::from(folders.count().1 > 0);
        world
    }
}

fn config(seed: u64, life: u64) -> Config {
    let mut config = Config::adversarial(seed + 1_000_000 * life);
    if (seed + life).is_multiple_of(2) {
        // No node is certain that another one is dead, and crashes are reported late.
        config.evidence.crash = Some((Evidence::Uncertain, (50_000, 1_500_000)));
    }
    config
}
