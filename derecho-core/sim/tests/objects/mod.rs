//! Whole groups with replicated objects in a simulated cluster.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod checker;
#[path = "../stored/log_folders.rs"]
pub(crate) mod log_folders;
pub(crate) mod member;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::group::membership_service::JoinMode;
use derecho_core::ids::{NodeId, Time};
use derecho_core::membership::MemberStatus;
use derecho_core::replicated::plan::shard_of;
use derecho_sim::{Cluster, Config, NodeIndex, Random};

use checker::ObjectChecker;
use log_folders::LogFolders;
use member::{TestMember, stream_of};

pub(crate) struct World {
    pub(crate) cluster: Cluster<TestMember>,
    pub(crate) checker: Rc<RefCell<ObjectChecker>>,
    pub(crate) random: Random,
    founders: usize,
    seed: u64,
    /// Folders of the logs, if any are kept.
    folders: Option<LogFolders>,
}

impl World {
    /// Creates a group of `nodes` nodes on one host, or of as many founders in a network.
    pub(crate) fn new(config: Config, nodes: usize, local: bool) -> World {
        World::over(config, nodes, local, (Rc::default(), None))
    }

    /// Creates a group over these logs, with the knowledge of this checker.
    pub(crate) fn over(
        config: Config,
        nodes: usize,
        local: bool,
        (checker, folders): (Rc<RefCell<ObjectChecker>>, Option<LogFolders>),
    ) -> World {
        let seed = config.seed;
        let mut world = World {
            cluster: Cluster::new(config),
            checker,
            folders,
            random: Random::new(seed ^ 0x0b1ec7),
            founders: if local { 0 } else { nodes },
            seed,
        };
        let nodes: Vec<NodeIndex> = (0..nodes).map(|_| world.add_node()).collect();
        nodes.into_iter().for_each(|node| world.begin(node));
        world
    }

    fn add_node(&mut self) -> NodeIndex {
        let (checker, seed) = (Rc::clone(&self.checker), self.seed);
        let folders = self.folders.clone().map(|root| (root.clone(), root.take(&mut self.random)));
        self.cluster.add_node(move |link| vec![TestMember::new(link, &checker, seed, folders)])
    }

    fn begin(&mut self, node: NodeIndex) {
        let founders = (0..self.founders).map(|index| (self.member(NodeIndex(index)).me, 1));
        let entrance = match self.founders {
            0 => JoinMode::Local,
            _ => JoinMode::Network(founders.collect()),
        };
        self.cluster.machine_mut(node, 0).begin(entrance);
    }

    pub(crate) fn add(&mut self) -> NodeIndex {
        let node = self.add_node();
        self.begin(node);
        node
    }

    pub(crate) fn crash(&mut self, node: NodeIndex) {
        let me = self.member(node).me;
        self.checker.borrow_mut().died(me);
        self.cluster.crash(node);
        let power = self.random.one_in(2);
        self.cluster.machine_mut(node, 0).end(power);
    }

    /// Crashes all members.
    pub(crate) fn crash_all(&mut self) {
        for node in self.living() {
            self.crash(node);
        }
        for node in (0..self.cluster.nodes()).map(NodeIndex) {
            self.cluster.machine_mut(node, 0).end(true);
        }
        self.checker.borrow_mut().restart();
    }

    /// Checks that everything durable is present, and that logs agree.
    pub(crate) fn compare_logs(&self) {
        let Some(folders) = &self.folders else { return };
        let living = self.living();
        for key in self.member(living[0]).keys().into_iter().filter(|key| shard_of(*key).0 < 2) {
            let at = living.iter().filter_map(|node| self.member(*node).object_host().object(key));
            let newest = at.map(|(_, links)| links.chain.count).max().unwrap_or(0);
            let firm = self.checker.borrow().firm(key);
            // A type with too few members has no seats.
            let exists = self.member(living[0]).machine().directory().plan(shard_of(key).0).is_ok();
            let is_there = newest >= firm || !exists;
            assert!(is_there, "I-111: {key:#x} is at {newest}, and {firm} was durable");
            let mut known = std::collections::BTreeMap::new();
            for found in folders.logs(stream_of(key)) {
                for owned in found.records {
                    let record = owned.record();
                    let entry = (record.entry.epoch, record.entry.payload.to_vec());
                    let other = known.entry(record.version).or_insert(entry.clone());
                    assert_eq!(*other, entry, "of {} in {}", record.version, found.log);
                }
            }
        }
    }

    pub(crate) fn member(&self, node: NodeIndex) -> &TestMember {
        self.cluster.machine(node, 0)
    }

    pub(crate) fn act(&mut self, node: NodeIndex, what: impl FnOnce(&mut TestMember) + 'static) {
        let now: Time = self.cluster.now();
        self.cluster.inject(node, 0, now, move |member, _, _| what(member));
    }

    pub(crate) fn living(&self) -> Vec<NodeIndex> {
        let lives = |node: &NodeIndex| {
            self.cluster.is_running(*node)
                && self.member(*node).machine().group().status() == MemberStatus::Member
        };
        (0..self.cluster.nodes()).map(NodeIndex).filter(lives).collect()
    }

    pub(crate) fn run(&mut self, time: u64) {
        let until = self.cluster.now().after(time);
        self.cluster.run_until(until);
    }

    /// Makes all live members write, ask and send messages now and then.
    pub(crate) fn flow(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for node in self.living() {
                for key in self.member(node).keys() {
                    match self.random.below(12) {
                        0 => self.act(node, move |member| member.ask(key)),
                        1..6 => self.act(node, move |member| member.write(key)),
                        _ => {}
                    }
                }
                if self.random.one_in(3) {
                    self.act(node, |member| member.unsent += 1);
                }
            }
            let pause = self.random.between(1_000, 60_000);
            self.run(pause);
        }
    }

    /// Makes a member join, crash, or leave.
    pub(crate) fn random_fault(&mut self) {
        let living = self.living();
        let some = living.get(self.random.below(living.len().max(1) as u64) as usize).copied();
        match (self.random.below(40), some) {
            (0..3, Some(node)) if living.len() > 2 => self.crash(node),
            (3..5, Some(node)) if living.len() > 2 => self.act(node, |member| member.leave()),
            (5..9, _) if self.cluster.nodes() < 9 => {
                self.add();
            }
            _ => {}
        }
    }

    /// Whether all live nodes are members of one view and have the objects of all their shards.
    fn is_settled(&self) -> bool {
        let living = self.living();
        let nodes: Vec<NodeId> = living.iter().map(|node| self.member(*node).me).collect();
        living.iter().all(|node| {
            let member = self.member(*node);
            let group = member.machine().group();
            let directory = member.machine().directory();
            let all = group.view().members.len() == nodes.len()
                && nodes.iter().all(|node| group.view().rank_of(*node).is_some());
            let has = |key: u64| {
                let shard = directory.shard(key).unwrap();
                let reads = shard.member_of(member.me).is_some_and(|place| place.reads);
                let held = shard_of(key).0 == 2 || shard.holders().contains(&member.me);
                let enough = directory.plan(shard_of(key).0).is_ok();
                let wanted = reads && enough;
                let there = member.object_host().object(key).is_some();
                there == wanted && (!wanted || held)
            };
            all && group.is_settled()
                && directory.members().len() == nodes.len()
                && member.is_at_rest()
                && member.keys().into_iter().all(has)
        })
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..3_000 {
            self.run(100_000);
            if self.is_settled() {
                return;
            }
        }
        for node in self.living() {
            let member = self.member(node);
            eprintln!("{:?}: {}", member.me, member.machine().group().describe());
            for (key, shard) in member.machine().directory().shards() {
                let at = member.object_host().object(key).map(|it| it.0);
                let (holders, vacancy) = (shard.holders(), shard.vacancy());
                eprintln!("  {key:#x} at {at:?}: held by {holders:?}, vacancy {vacancy:?}");
                eprintln!("    replica: {:?}", member.object_host().describe(key));
                eprintln!("    logs: {:?}", shard.logs());
            }
        }
        for node in (0..self.cluster.nodes()).map(NodeIndex) {
            let member = self.member(node);
            let (runs, standing) =
                (self.cluster.is_running(node), member.machine().group().status());
            eprintln!(
                "{:?} runs {runs}, {standing:?}, keeps logs in {:?}",
                member.me,
                member.folder()
            );
        }
        for key in [1_u64 << 32, (1 << 32) + 1, 2 << 32] {
            for found in self.folders.iter().flat_map(|folders| folders.logs(stream_of(key))) {
                let log_folders::FoundLog { log, tail, checkpoint, records } = found;
                let versions: Vec<u64> = records.iter().map(|it| it.record().version.0).collect();
                let (first, last) = (versions.first(), versions.last());
                eprintln!(
                    "{key:#x} in {log}: {tail:?}, state {checkpoint:?}, {first:?} to {last:?}"
                );
            }
        }
        panic!("the group does not come to rest");
    }

    /// Checks the end: all members have the same objects, and every query has its outcome.
    pub(crate) fn check(&mut self) {
        self.settle();
        self.flow(3);
        self.settle();
        self.run(5_000_000);
        self.settle();
        let living = self.living();
        let agendas: Vec<_> =
            living.iter().map(|n| self.member(*n).machine().directory().clone()).collect();
        assert!(
            agendas.windows(2).all(|pair| pair[0] == pair[1]),
            "members have different shard directories"
        );
        let mut objects = std::collections::BTreeMap::new();
        for node in &living {
            let member = self.member(*node);
            for key in member.keys().into_iter().filter(|key| shard_of(*key).0 < 2) {
                let Some((at, links)) = member.object_host().object(key) else { continue };
                let known = *objects.entry(key).or_insert((at, links.chain));
                assert_eq!(known, (at, links.chain), "members have different states of {key:#x}");
            }
        }
        for node in living {
            let open = self.cluster.machine_mut(node, 0).check_queries();
            assert_eq!(open, 0, "a query is still open at {node:?}");
        }
    }
}
