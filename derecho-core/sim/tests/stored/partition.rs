//! Partitions of a networked group whose members keep logs.
//!
//! Owns: the links that are cut and their durations, the treatment of members that are out because
//! of that, and the lives of such groups. Never does: judge what is durable; the checker does.

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::link::Evidence;
use derecho_core::membership::MemberStatus;
use derecho_sim::{Config, NodeIndex};

use super::World;
use super::checker::StoreChecker;
use super::log_folders::LogFolders;
use super::member::LOG;
use super::separate_disks::retention;

type Pair = (NodeIndex, NodeIndex);

/// Partitions of one world, with their results.
#[derive(Default)]
pub(crate) struct Partitions {
    /// Directed links that are cut at the moment.
    cut: Vec<Pair>,
    /// Members that ran at the last call of [`World::end_evicted`], with their folders, if they
    /// have any.
    members: Vec<(NodeIndex, Option<(LogFolders, usize)>)>,
    /// Number of partitions so far.
    pub(crate) count: usize,
    /// Number of live members that were excluded so far.
    pub(crate) evicted: usize,
    /// Number of partitions that ended before any member was out.
    pub(crate) survived: usize,
    evicted_before: usize,
}

/// Maximum number of nodes that a world adds, including the first ones.
const MOST_NODES: usize = 14;

impl World {
    /// Whether a partition is under way.
    pub(crate) fn is_partitioned(&self) -> bool {
        !self.partitions.cut.is_empty()
    }

    /// Cuts links between two sides of the group: all of them, or some, in both directions or in
    /// one. Posted messages are held back until the partition ends.
    pub(crate) fn cut_at_random(&mut self) {
        let mut nodes = self.living();
        if self.is_partitioned() || nodes.len() < 2 {
            return;
        }
        for last in (1..nodes.len()).rev() {
            nodes.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        let side = self.random.between(1, nodes.len() as u64 / 2) as usize;
        let (some, others) = nodes.split_at(side);
        let (partial, one_way) = (self.random.one_in(3), self.random.one_in(4));
        let mut pairs: Vec<Pair> = Vec::new();
        for (from, to) in some.iter().flat_map(|from| others.iter().map(|to| (*from, *to))) {
            if partial && self.random.one_in(2) {
                continue;
            }
            let outward = self.random.one_in(2);
            pairs.extend((!one_way || outward).then_some((from, to)));
            pairs.extend((!one_way || !outward).then_some((to, from)));
        }
        pairs.iter().for_each(|(from, to)| self.cluster.network().cut(*from, *to));
        self.partitions.count += usize::from(!pairs.is_empty());
        self.partitions.evicted_before = self.partitions.evicted;
        self.partitions.cut = pairs;
    }

    /// Ends the partition, if there is one.
    pub(crate) fn heal(&mut self) {
        let pairs = std::mem::take(&mut self.partitions.cut);
        let before = self.partitions.evicted_before;
        self.partitions.survived +=
            usize::from(!pairs.is_empty() && self.partitions.evicted == before);
        pairs.iter().for_each(|(from, to)| self.cluster.network().heal(*from, *to));
    }

    /// Begins, continues, or ends a partition at random. Members write meanwhile where they can.
    pub(crate) fn random_partition(&mut self) {
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
    pub(crate) fn end_evicted(&mut self) {
        let before = std::mem::take(&mut self.partitions.members);
        for (node, folders) in before {
            let is_out = self.member(node).group().status() != MemberStatus::Member;
            if !self.cluster.is_running(node) || !is_out || self.member(node).leaves {
                continue;
            }
            self.partitions.evicted += 1;
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
        self.partitions.members = members.collect();
    }
}

/// Counts of the events in lives of networked groups.
#[derive(Default, Debug)]
pub(crate) struct NetworkedCounts {
    pub(crate) lives: usize,
    /// Messages that were durable everywhere when their life ended.
    pub(crate) durable: usize,
    pub(crate) partitions: usize,
    /// Partitions that ended before any member was excluded.
    pub(crate) survived: usize,
    /// Live members that were excluded.
    pub(crate) evicted: usize,
    /// Lives that ended during a partition.
    pub(crate) cut_short: usize,
    /// Lives that ended with no member left: no side was a primary partition.
    pub(crate) lost: usize,
    /// Restarts that began before all logs were back.
    pub(crate) early: usize,
}

impl NetworkedCounts {
    /// Runs several lives of one networked group that is partitioned at random. Every member's log
    /// is on a disk of its own.
    pub(crate) fn live(&mut self, seed: u64) {
        println!("seed {seed}");
        let (checker, folders) =
            (Rc::new(RefCell::new(StoreChecker::default())), LogFolders::separate());
        (checker.borrow_mut().retention, checker.borrow_mut().logged) = (retention(seed), true);
        let over = (Rc::clone(&checker), Some(folders.clone()));
        let mut world = World::over(config(seed, 0), 3 + seed as usize % 3, false, over);
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
            world = self.restart(world, &folders, (seed, life));
        }
        world.heal();
        world.run(20_000_000);
        world.end_evicted();
        if world.living().is_empty() {
            world = self.restart(world, &folders, (seed, 4));
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
        self.partitions += world.partitions.count;
        self.survived += world.partitions.survived;
        self.evicted += world.partitions.evicted;
    }

    /// Crashes all. Some come back, and then the others one by one until the group begins.
    fn restart(
        &mut self,
        mut world: World,
        folders: &LogFolders,
        (seed, life): (u64, u64),
    ) -> World {
        world.crash_all();
        let checker = Rc::clone(&world.checker);
        checker.borrow_mut().restart_somewhere();
        let back = 1 + world.random.below(folders.count().0 as u64) as usize;
        let over = (checker, Some(folders.clone()));
        let mut world = World::over(config(seed, life), back, false, over);
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
