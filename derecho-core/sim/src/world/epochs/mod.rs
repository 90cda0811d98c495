//! A subgroup that goes through many epochs in a simulated cluster, with random applications on top
//! and an oracle that plays the membership.
//!
//! ```text
//!   member.rs   a node, a writer and two readers
//!   oracle.rs   decides: which nodes join, leave, fail, read, send; trims and starts
//!   leaver.rs   a leaver that stands still through two changes of layout
//!   rest.rs     times without writes, and messages sent after them
//!   checker.rs  sees all members at once; one check for each rule
//! ```
//! Memory is copied, over links as adverse as their contract allows, or shared: then all nodes see
//! one region, and a note wakes nodes with news.
#![allow(clippy::unwrap_used, reason = "a run that cannot go on fails")]

pub mod checker;
mod leaver;
pub mod member;
pub mod oracle;
pub mod rest;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::ids::Time;
use derecho_core::link::Link;
use derecho_core::machine::Effects;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};

use super::ordered::OrderedMember;
pub use super::ordered::Rule;
use crate::{Cluster, Config, NodeIndex, Random};
pub use checker::EpochChecker;
pub use member::TestMember;
pub use oracle::MembershipFault;

/// Maximum length of a record.
pub const LONGEST: u64 = 200;
/// Virtual time within which every test ends.
pub const END: Time = Time(2_000_000_000);
/// Longest time that any expected event takes.
const PATIENCE: u64 = 60_000_000;

/// Parameters common to all nodes.
#[derive(Clone, Copy, Debug)]
pub struct TestParameters {
    /// Level of the subgroup.
    pub terms: SubgroupConfig,
    /// Memory of each stream.
    pub geometry: Geometry,
    /// Number of nodes.
    pub nodes: usize,
    /// Whether nodes share memory.
    pub shared: bool,
    /// Number of hosts where memory is shared: nodes on the same host share it.
    pub hosts: usize,
    /// Whether nodes are in so many subgroups that idle ones rest.
    pub many: bool,
    /// Whether a member that reads may leave: it reads to the end, and holds records afterwards.
    /// Otherwise only a member that does not read and holds nothing leaves.
    pub late_leavers: bool,
    /// Number of changes of the subgroup in a run.
    pub changes: usize,
}

impl TestParameters {
    /// Returns the random parameters of a seed.
    pub fn random(seed: u64, level: DeliveryGuarantee, shared: bool) -> TestParameters {
        let mut random = Random::new(seed ^ 0x0e_70c4);
        let messages = [2, 4, 8, 16, 32][random.below(5) as usize];
        let bytes = [1024, 2048, 4096][random.below(3) as usize];
        let geometry = Geometry::fitting(bytes, messages, LONGEST as usize).unwrap();
        let terms = SubgroupConfig { level, ablation: Ablation::default() };
        let nodes = random.between(3, 7) as usize;
        TestParameters {
            terms,
            geometry,
            nodes,
            shared,
            hosts: 1,
            many: false,
            late_leavers: false,
            changes: 6,
        }
    }
}

/// Parameters that all nodes have in common, and the oracle that decides about the subgroup.
pub struct EpochSetting {
    /// Parameters common to all nodes.
    pub parameters: TestParameters,
    /// The membership.
    pub oracle: oracle::Oracle,
}

/// A running subgroup, and the oracle that decides about it.
pub type World = super::World<TestMember>;

impl World {
    /// Creates the nodes, and waits until all have met.
    pub fn new(seed: u64, parameters: TestParameters) -> World {
        let config = Config { deadline: END, ..Config::adversarial(seed) };
        let checker = Rc::new(RefCell::new(EpochChecker::new(parameters.terms.level)));
        let mut random = Random::new(seed ^ 0x0005_eede);
        let oracle = oracle::Oracle::new(&mut random, parameters.nodes);
        let setting = EpochSetting { parameters, oracle };
        let mut world = World::empty(config, 0, checker, setting);
        world.random = random;
        for me in 0..parameters.nodes {
            let checker = &world.checker;
            world.cluster.add_node(|link| {
                checker.borrow_mut().ids.push(link.node());
                vec![TestMember::new(link, me, parameters, checker)]
            });
        }
        (0..parameters.nodes).for_each(|node| world.start(node));
        let nodes = parameters.nodes;
        world.wait("all nodes to meet", move |cluster| {
            let all = |node| cluster.machine(NodeIndex(node), 0).peers.len() == nodes - 1;
            (0..nodes).all(all)
        });
        world
    }

    /// Starts its application, which writes and takes while there is something to write to and
    /// take from.
    fn start(&mut self, node: usize) {
        let now = self.cluster.now();
        let mut random = Random::new(self.random.next_word());
        let pause = [1_000, 4_000, 20_000, 100_000][random.below(4) as usize];
        let burst = random.between(1, 6);
        self.cluster.inject_again(NodeIndex(node), 0, now, move |member, now, effects| {
            if member.checker.borrow().written {
                member.end_writing(effects);
                return None;
            }
            member.write(&mut random, burst, effects);
            Some(now.after(random.between(1, pause) + member.lull()))
        });
        let mut random = Random::new(self.random.next_word());
        let slow = random.between(1, 8) * 1_000;
        let (keep, drop) = (random.between(2, 20), random.between(2, 12));
        self.cluster.inject_again(NodeIndex(node), 0, now, move |member, now, _| {
            if member.checker.borrow().over {
                member.take_all();
                return None;
            }
            let count = random.between(0, 6);
            member.take(&mut random, count, keep, drop);
            Some(now.after(random.between(1, slow) + member.lull()))
        });
    }

    /// Runs until a condition holds, which happens soon if there is no error.
    pub fn wait(&mut self, what: &str, condition: impl Fn(&Cluster<TestMember>) -> bool) -> bool {
        let end = self.cluster.now().after(PATIENCE);
        let checker = Rc::clone(&self.checker);
        let stop = self.cluster.run_until_met(|cluster| {
            condition(cluster) || cluster.now() > end || !checker.borrow().violations.is_empty()
        });
        if !condition(&self.cluster) {
            let text = format!("waiting for {what}: {stop:?}: {}", self.states());
            self.record_violation(Rule::Liveness, text);
            return false;
        }
        true
    }

    /// Runs changes of all kinds, and then an end in peace. Returns the violations.
    pub fn run_changes(&mut self) -> Vec<(Rule, String)> {
        self.found();
        for _ in 0..self.setting.parameters.changes {
            self.pass(60_000);
            if self.is_fine() {
                self.change();
            }
        }
        self.finish_run()
    }

    /// Ends a run; returns the violations.
    pub fn finish_run(&mut self) -> Vec<(Rule, String)> {
        if self.is_fine() {
            self.end();
        }
        self.checker.borrow_mut().close();
        self.checker.borrow_mut().violations.take()
    }

    /// Checks that everything is delivered everywhere, all memory is free again, and there
    /// is quiet.
    fn end(&mut self) {
        self.checker.borrow_mut().written = true;
        for node in 0..self.setting.parameters.nodes {
            if self.is_running(node) && self.member(node).evicted {
                self.cluster.crash(NodeIndex(node));
            }
        }
        let plan = self.setting.oracle.epoch.clone();
        let nodes: Vec<usize> = plan.roles.iter().map(|role| role.node).collect();
        self.pass(100_000);
        let checker = Rc::clone(&self.checker);
        let readers: Vec<usize> = nodes.iter().copied().filter(|&node| plan.reads(node)).collect();
        let (all, writers) = (readers.clone(), plan.writers().collect::<Vec<_>>());
        let own = plan.clone();
        let met = self.wait("all deliveries", move |cluster| {
            let checker = checker.borrow();
            all.iter().all(|&reader| {
                let next = &cluster.machine(NodeIndex(reader), 0).readers.last().unwrap().next;
                writers.iter().all(|writer| {
                    let start = plan.starts.get(writer).map_or(0, |start| start.message);
                    let next = next.get(writer).copied().unwrap_or(start);
                    next == checker.writers[*writer].committed
                })
            })
        });
        for node in readers.into_iter().filter(|_| !met) {
            let Some(writer) = own.role_of(node).and_then(|place| place.writer) else { continue };
            let next = self.member(node).readers.last().and_then(|r| r.next.get(&writer).copied());
            let mut checker = self.checker.borrow_mut();
            let committed = checker.writers[writer].committed;
            if next.is_some_and(|next| next != committed) {
                let text = format!("node {node} has {next:?} of its own {committed} messages");
                checker.violations.record(Rule::SelfDelivery, text);
            }
        }
        if !met {
            return;
        }
        self.checker.borrow_mut().over = true;
        self.check_quiet(nodes.iter().copied());
        for &node in &nodes {
            let member = self.member(node);
            if self.is_fine() && !member.node.is_subgroup_acknowledged(member.id.unwrap()) {
                let text = format!("messages of {node} are not acknowledged");
                self.record_violation(Rule::Liveness, text);
            }
        }
        for &node in &nodes {
            let sends =
                self.setting.oracle.epoch.role_of(node).is_some_and(|place| place.writer.is_some());
            let commit = |member: &mut TestMember, effects: &mut Effects| {
                member.commit(LONGEST as usize, effects)
            };
            if sends && self.is_fine() && !self.call(node, commit) {
                let text = format!("{node} has no room although no record is referred to");
                self.record_violation(Rule::Liveness, text);
            }
        }
        if self.is_fine() {
            self.check_quiet(nodes.iter().copied());
        }
    }

    /// Describes the state of every node, for messages.
    pub fn states(&self) -> String {
        let checker = self.checker.borrow();
        let mut text = format!("{:?}", checker.writers);
        for node in (0..self.setting.parameters.nodes).filter(|&node| self.is_running(node)) {
            let member = self.member(node);
            let id = member.id;
            let phase = id.and_then(|id| member.node.phase(id));
            let delivered = id.map(|id| member.node.delivered(id));
            let reach = id.and_then(|id| member.node.progress(id));
            let next = member.readers.last().map(|readers| readers.next.clone());
            text += &format!(
                "\n  {node} evicted {}: {:?} {phase:?} {delivered:?} next {next:?}\n    {reach:?}",
                member.evicted, member.epoch
            );
        }
        text + &format!("\n{:#?}", self.setting.oracle.epoch)
    }
}
