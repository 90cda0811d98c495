//! Whole groups in a simulated cluster, with applications that write and read topics.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod court;
pub(crate) mod member;
pub(crate) mod topics;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::group::council::Entrance;
use derecho_core::ids::{NodeId, Time};
use derecho_core::membership::Standing;
use derecho_sim::{Cluster, Config, NodeIndex, Random};

use court::{Court, Writer};
use member::Member;

pub(crate) struct World {
    pub(crate) cluster: Cluster<Member>,
    pub(crate) court: Rc<RefCell<Court>>,
    pub(crate) random: Random,
    /// So many found a networked group; none a local one.
    founders: usize,
}

impl World {
    /// A group of so many nodes on one host.
    pub(crate) fn local(config: Config, nodes: usize) -> World {
        World::with(config, 0, nodes)
    }

    /// A networked group of so many founders.
    pub(crate) fn new(config: Config, founders: usize) -> World {
        World::with(config, founders, founders)
    }

    fn with(config: Config, founders: usize, nodes: usize) -> World {
        let seed = config.seed;
        let mut world = World {
            cluster: Cluster::new(config),
            court: Rc::default(),
            random: Random::new(seed ^ 0x9009),
            founders,
        };
        for _ in 0..nodes {
            world.add_node();
        }
        world.all().into_iter().for_each(|node| world.begin(node));
        world
    }

    fn add_node(&mut self) -> NodeIndex {
        let court = Rc::clone(&self.court);
        self.cluster.add_node(move |link| vec![Member::new(link, &court)])
    }

    fn begin(&mut self, node: NodeIndex) {
        let founders = (0..self.founders).map(|index| (self.member(NodeIndex(index)).me, 1));
        let entrance = match self.founders {
            0 => Entrance::Local,
            _ => Entrance::Network(founders.collect()),
        };
        self.cluster.machine_mut(node, 0).begin(entrance);
    }

    /// Another node.
    pub(crate) fn add(&mut self) -> NodeIndex {
        let node = self.add_node();
        self.begin(node);
        node
    }

    pub(crate) fn now(&self) -> Time {
        self.cluster.now()
    }

    pub(crate) fn member(&self, node: NodeIndex) -> &Member {
        self.cluster.machine(node, 0)
    }

    /// An application does something, now.
    pub(crate) fn act(&mut self, node: NodeIndex, what: impl FnOnce(&mut Member) + 'static) {
        let now = self.now();
        self.cluster.inject(node, 0, now, move |member, _, _| what(member));
    }

    pub(crate) fn all(&self) -> Vec<NodeIndex> {
        (0..self.cluster.nodes()).map(NodeIndex).collect()
    }

    /// Nodes that run and are members, by their own word.
    pub(crate) fn living(&self) -> Vec<NodeIndex> {
        let lives = |node: &NodeIndex| {
            self.cluster.is_running(*node)
                && self.member(*node).group().standing() == Standing::Member
        };
        self.all().into_iter().filter(lives).collect()
    }

    /// Lets `time` pass.
    pub(crate) fn run(&mut self, time: u64) {
        let until = self.now().after(time);
        self.cluster.run_until(until);
    }

    /// All that live write now and then.
    pub(crate) fn write_for(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for node in self.living() {
                for topic in self.member(node).topics() {
                    if !self.random.one_in(4) {
                        self.act(node, move |member| member.write(topic));
                    }
                }
            }
            let pause = self.random.between(1_000, 60_000);
            self.run(pause);
        }
    }

    /// Somebody begins or ends to take part in a topic.
    pub(crate) fn random_change(&mut self) {
        let living = self.living();
        if living.is_empty() {
            return;
        }
        let node = living[self.random.below(living.len() as u64) as usize];
        let topic = self.random.between(5, 8);
        match self.random.below(5) {
            0 => self.act(node, move |member| member.exit(topic)),
            1 => self.act(node, move |member| member.enter(topic, true, false)),
            2 => self.act(node, move |member| member.enter(topic, false, true)),
            _ => self.act(node, move |member| member.enter(topic, true, true)),
        }
    }

    /// Somebody comes, crashes, or leaves.
    pub(crate) fn random_fault(&mut self) {
        let living = self.living();
        let some = living.get(self.random.below(living.len().max(1) as u64) as usize).copied();
        match (self.random.below(60), some) {
            (0..3, Some(node)) if living.len() > 2 => self.cluster.crash(node),
            (3..5, Some(node)) if living.len() > 2 => self.act(node, |member| member.leave()),
            (5..9, _) if self.cluster.nodes() < 9 => {
                self.add();
            }
            _ => {}
        }
    }

    /// Runs until all that live are members of one view, and all topics have come to rest.
    pub(crate) fn settle(&mut self) {
        for _ in 0..2_000 {
            self.run(100_000);
            if self.is_settled() {
                return;
            }
        }
        let living = self.living();
        let groups = living.iter().map(|node| self.member(*node).group());
        let views: Vec<String> = groups.map(|group| group.describe()).collect();
        panic!("nothing comes to rest: {living:?} {views:#?}");
    }

    /// What has been written by now: by whom, where, how much.
    fn writers(&self) -> Vec<(Writer, u64, u64)> {
        let mut written = Vec::new();
        for node in self.living() {
            let member = self.member(node);
            for topic in member.topics().into_iter().filter(|topic| member.writes(*topic)) {
                let (stream, count) = member.written(topic);
                written.push(((member.me, stream), topic, count));
            }
        }
        written
    }

    fn is_settled(&self) -> bool {
        let living = self.living();
        let nodes: Vec<NodeId> = living.iter().map(|node| self.member(*node).me).collect();
        living.iter().all(|node| {
            let group = self.member(*node).group();
            let members = group.view().members.iter().map(|member| member.node);
            let mut members: Vec<NodeId> = members.collect();
            members.sort_unstable();
            let mut nodes = nodes.clone();
            nodes.sort_unstable();
            group.is_settled() && members == nodes
        })
    }

    /// What every living member wrote as a writer that still is one.
    pub(crate) fn check(&mut self) {
        self.settle();
        self.run(5_000_000);
        // Of every writer the last message is one that all readers were there for.
        let before = self.writers();
        let mut rounds = 0;
        while self.writers().iter().zip(&before).any(|(now, before)| now.2 <= before.2) {
            self.write_for(1);
            rounds += 1;
            assert!(rounds < 10_000, "writers are stuck: {before:?}");
        }
        self.run(5_000_000);
        let living = self.living();
        let states: Vec<_> =
            living.iter().map(|n| self.member(*n).group().state().clone()).collect();
        assert!(states.windows(2).all(|pair| pair[0] == pair[1]), "all have the same state");
        let (mut readers, mut written) = (Vec::new(), Vec::new());
        if let Some(topics) = states.first() {
            for part in topics.0.iter().map(|((_, node), part)| (*node, part)) {
                if part.1.reads {
                    readers.push((part.0, part.1.topic));
                }
            }
        }
        written.extend(self.writers());
        let court = self.court.borrow();
        court.judge();
        court.complete(&readers, &written);
    }
}
