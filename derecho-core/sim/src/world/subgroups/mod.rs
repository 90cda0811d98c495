//! Subgroups of bare nodes in a simulated cluster, with random applications on top, and the rules
//! for their deliveries: subgroups that their members found by themselves, one or many, or a
//! subgroup that goes through many epochs, about which an oracle decides.
//!
//! ```text
//!   scenario.rs   nodes, roles, paces; the checks that not every suite needs
//!   member.rs     a node with a part in each subgroup
//!     part.rs     a writer that claims and commits at random times, and two readers: one takes
//!                 what is delivered at once, the other at random and holds some of it for long
//!     arrivals.rs entries that have arrived in the node's memory
//!     epochs.rs   the way from epoch to epoch
//!     posts.rs    posts of a turn, to be examined or to be posted differently
//!   checker.rs    sees all members at once; one check for each rule
//!   oracle.rs     decides: which nodes join, leave, fail, read, send; trims and starts
//!     leaver.rs   a leaver that stands still through two changes of layout
//!     rest.rs     times without writes, and messages sent after them
//! ```
//! The content of every record follows from its writer, its number and its length, so every byte is
//! checked, when the record is taken and when it is released. The checkers read what a member has
//! *received* from its memory and do not ask the member.
//!
//! Memory is copied, over links as adverse as their contract allows, or shared: then all nodes of a
//! host see one region, and a note wakes nodes with news.
#![allow(clippy::unwrap_used, reason = "a run that cannot go on fails")]

mod arrivals;
pub mod checker;
mod epochs;
mod leaver;
mod member;
mod oracle;
mod part;
mod posts;
mod rest;
mod scenario;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::ids::Time;
use derecho_core::link::Link;

use super::ReadPace;
use super::ordered::Message;
pub use super::ordered::{FaultMoment, Rule};
use crate::{Cluster, Config, NodeIndex, Random, StopReason};
pub use arrivals::ArrivedEntries;
use checker::{DecidedEpoch, DeliveryChecker, EpochRole, Writer};
pub use member::{PlantedFault, SubgroupMember};
pub use oracle::{MembershipFault, Oracle};
pub use part::SubgroupPart;
pub use posts::{post, take_posts};
pub use rest::RestCounts;
pub use scenario::{Alternation, END, LONGEST, Pace, Scenario, SubgroupRole, adversarial};

/// Setup of a world of subgroups, and the oracle that decides about epochs, if there is one.
pub struct SubgroupSetting {
    /// Setup of the world.
    pub scenario: Rc<Scenario>,
    /// The membership.
    pub oracle: Oracle,
}

/// A world of subgroups.
pub type World = super::World<SubgroupMember>;

/// Returns the readers that lack a message of the present epochs of subgroups whose members all
/// run, each with the first message that it lacks. `slow`: whether slow readers count.
fn lacking<'a>(
    cluster: &'a Cluster<SubgroupMember>,
    checker: &'a DeliveryChecker,
    slow: bool,
) -> impl Iterator<Item = (usize, Message)> + 'a {
    whole(cluster, checker).flat_map(move |plan| {
        plan.roles.iter().filter(|role| role.reads).filter_map(move |role| {
            let part = &cluster.machine(NodeIndex(role.node), 0).parts[plan.subgroup];
            Some((role.node, part.lacks(plan, checker, slow)?))
        })
    })
}

/// Returns the present epochs of the subgroups whose members all run.
fn whole<'a>(
    cluster: &'a Cluster<SubgroupMember>,
    checker: &'a DeliveryChecker,
) -> impl Iterator<Item = &'a DecidedEpoch> {
    let runs = |role: &EpochRole| cluster.is_running(NodeIndex(role.node));
    checker.present().filter(move |plan| plan.roles.iter().all(runs))
}

impl World {
    /// Creates the nodes, each of which founds its subgroups at a time of its own.
    pub fn new(config: Config, scenario: Scenario) -> World {
        let checker = Rc::new(RefCell::new(DeliveryChecker::new(scenario.terms.level)));
        let scenario = Rc::new(scenario);
        let setting = SubgroupSetting { scenario: Rc::clone(&scenario), oracle: Oracle::default() };
        let mut world = World::empty(config, 0x5eed, checker, setting);
        for me in 0..scenario.nodes {
            let World { cluster, checker, .. } = &mut world;
            let node = cluster.add_node(|link| {
                checker.borrow_mut().ids.push(link.node());
                vec![SubgroupMember::new(link, me, &scenario, checker)]
            });
            if scenario.subgroups.is_empty() {
                continue;
            }
            let start = Time(world.random.between(1, 20_000));
            world.cluster.inject_again(node, 0, start, move |member, now, effects| {
                (!member.found(effects)).then(|| now.after(1_000))
            });
        }
        for (subgroup, roles) in scenario.subgroups.iter().enumerate() {
            let roles = roles.iter().enumerate().filter_map(|(node, role)| Some((node, (*role)?)));
            let roles = roles.enumerate().map(|(slot, (node, role))| {
                let part = &world.member(node).parts[subgroup];
                let (lines, _) = *part.lines.as_ref().expect("a member has opened its lines");
                let writer = part.sending.map(|sending| sending.writer);
                EpochRole { node, slot, reads: role.reads, writer, lines }
            });
            let plan = DecidedEpoch::first(subgroup, roles.collect());
            world.checker.borrow_mut().epochs.insert(plan.id(), plan);
        }
        world
    }

    /// As [`World::new`], with applications that start at once.
    pub fn started(config: Config, scenario: Scenario) -> World {
        let mut world = World::new(config, scenario);
        let scenario = Rc::clone(&world.setting.scenario);
        for node in 0..scenario.nodes {
            if let Some(course) = scenario.alternation {
                world.start_alternating(node, course);
                continue;
            }
            let roles = scenario.subgroups.iter().map(|roles| roles[node]).enumerate();
            let roles = roles.filter_map(|(subgroup, role)| Some((subgroup, role?)));
            for (subgroup, role) in roles.clone() {
                if let Some(pace) = role.sends.filter(|pace| pace.goal > 0) {
                    let random = Random::new(world.random.next_word());
                    world.start_writer(node, subgroup, pace, random);
                }
            }
            if roles.clone().any(|(_, role)| role.reads) {
                world.start_reader(node);
            }
        }
        world
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.setting.scenario.nodes
    }

    /// Starts an application that writes to one of its node's subgroups after the other.
    fn start_alternating(&mut self, node: usize, course: Alternation) {
        let own = Random::new(self.random.next_word());
        self.member_mut(node).holding = Some(own);
        let mut random = Random::new(self.random.next_word());
        let (mut preferred, mut acts) = (node, course.acts);
        self.cluster.inject_again(
            NodeIndex(node),
            0,
            Time(100_000),
            move |member, now, effects| {
                member.alternate(&mut random, &mut preferred, effects);
                acts -= 1;
                let pause =
                    if random.one_in(4) { course.pause_ns } else { Pace::ALTERNATING.pause_ns };
                (acts > 0).then(|| now.after(random.between(1, pause)))
            },
        );
    }

    /// Starts the writer of a node in a subgroup.
    fn start_writer(&mut self, node: usize, subgroup: usize, pace: Pace, mut random: Random) {
        self.member_mut(node).parts[subgroup].writes = true;
        let now = self.cluster.now();
        self.cluster.inject_again(NodeIndex(node), 0, now, move |member, now, effects| {
            let is_over = member.write(subgroup, &mut random, pace, effects);
            (!is_over).then(|| now.after(random.between(1, pace.pause_ns) + member.lull()))
        });
    }

    /// Starts the slow readers of a node.
    fn start_reader(&mut self, node: usize) {
        let mut random = Random::new(self.random.next_word());
        let slow = random.between(1, 8) * 1_000;
        let pace = ReadPace::random(&mut random);
        let now = self.cluster.now();
        self.cluster.inject_again(NodeIndex(node), 0, now, move |member, now, _| {
            if member.checker.borrow().over {
                member.take_all();
                return None;
            }
            let count = random.between(0, pace.count);
            member.take(&mut random, ReadPace { count, ..pace });
            Some(now.after(random.between(1, slow) + member.lull()))
        });
    }

    /// Records a violation of a rule.
    pub fn record_violation(&mut self, rule: Rule, text: String) {
        self.checker.borrow_mut().violations.record(rule, text);
    }

    /// Whether no rule was broken.
    pub fn is_fine(&self) -> bool {
        self.checker.borrow().violations.is_empty()
    }

    /// Fails if a rule was broken.
    pub fn assert_no_complaints(&self) {
        let checker = self.checker.borrow();
        let all = checker.violations.all();
        assert!(all.is_empty(), "seed {}: {all:#?}", self.seed);
    }

    /// Runs until a condition holds, which happens soon if there is no error.
    pub fn wait(
        &mut self,
        what: &str,
        condition: impl Fn(&Cluster<SubgroupMember>) -> bool,
    ) -> bool {
        let end = self.cluster.now().after(self.setting.scenario.patience);
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

    /// Whether a writer of a running node still writes.
    pub fn is_writing(cluster: &Cluster<SubgroupMember>) -> bool {
        let nodes = (0..cluster.nodes()).map(NodeIndex).filter(|node| cluster.is_running(*node));
        let mut parts = nodes.flat_map(|node| &cluster.machine(node, 0).parts);
        parts.any(|part| part.writes)
    }

    /// Runs until everything is written, and delivered and taken everywhere, or there is a
    /// violation. Applications that alternate come to rest, and still hold some of it.
    pub fn complete(&mut self) {
        if self.setting.scenario.alternation.is_some() {
            let stop = self.cluster.run_until_met(|_| false);
            if stop != StopReason::Quiet {
                self.record_violation(Rule::Quiescence, format!("{stop:?}"));
            }
            return self.compare(false);
        }
        let checker = Rc::clone(&self.checker);
        self.wait("all deliveries", |cluster| {
            !World::is_writing(cluster)
                && lacking(cluster, &checker.borrow(), true).next().is_none()
        });
    }

    /// Ends all applications, and runs until nothing happens any more: a further turn has nothing
    /// to say.
    pub fn calm(&mut self) {
        self.checker.borrow_mut().over = true;
        for _ in 0..2 {
            for node in 0..self.nodes() {
                self.act(node, |member, _| member.take_all());
            }
            let stop = self.cluster.run_until_met(|_| false);
            if stop != StopReason::Quiet {
                self.record_violation(Rule::Quiescence, format!("{stop:?}"));
                return;
            }
        }
        let before = self.cluster.network().counters();
        for node in 0..self.nodes() {
            self.act(node, |_, _| {});
        }
        self.cluster.run_until_met(|_| false);
        if self.cluster.network().counters() != before {
            self.record_violation(Rule::Quiescence, "a post is made without a reason".into());
        }
    }

    /// Checks that all messages are acknowledged and, when nothing is referred to, that every
    /// sender of one subgroup has room and can continue.
    fn again(&mut self) {
        let plans: Vec<DecidedEpoch> =
            whole(&self.cluster, &self.checker.borrow()).cloned().collect();
        for (subgroup, role) in plans.iter().flat_map(DecidedEpoch::members) {
            let (member, node) = (self.member(role.node), role.node);
            let id = member.parts[subgroup].id;
            if !id.is_some_and(|id| member.node.is_subgroup_acknowledged(id)) {
                let text = format!("messages of {node} are not acknowledged");
                self.record_violation(Rule::Liveness, text);
            }
        }
        let longest = self.setting.scenario.longest as usize;
        let one = plans.first().into_iter().flat_map(DecidedEpoch::members);
        for (subgroup, role) in one.filter(|(_, role)| role.writer.is_some()) {
            let node = role.node;
            let commit = move |member: &mut SubgroupMember, effects: &mut _| {
                member.commit(subgroup, longest, effects)
            };
            if self.is_fine() && !self.call(node, commit) {
                let text = format!("{node} has no room although no record is referred to");
                self.record_violation(Rule::Liveness, text);
            }
        }
    }

    /// Checks at rest that no reader lacks a message, where no member has failed. `slow`: whether
    /// slow readers count.
    fn compare(&mut self, slow: bool) {
        let lacks: Vec<_> = lacking(&self.cluster, &self.checker.borrow(), slow).collect();
        let mut found = Vec::new();
        for (node, (writer, next)) in lacks {
            let Writer { node: sender, committed, .. } = self.checker.borrow().writers[writer];
            let rule = if sender == node { Rule::SelfDelivery } else { Rule::Liveness };
            found.push((rule, format!("node {node} has {next}/{committed} of writer {writer}")));
        }
        // A message that others lack too is not a matter of its sender.
        found.sort_by_key(|(rule, _)| *rule == Rule::SelfDelivery);
        found.into_iter().for_each(|(rule, text)| self.record_violation(rule, text));
    }

    /// Runs to the end: everything is delivered everywhere, all memory is free again, and there is
    /// quiet. Returns the violations.
    pub fn run_to_end(&mut self) -> Vec<(Rule, String)> {
        for step in [World::complete, World::calm, World::again, World::calm] {
            if self.is_fine() {
                step(self);
            }
        }
        if self.is_fine() {
            self.compare(true);
        }
        let mut checker = self.checker.borrow_mut();
        checker.close();
        checker.violations.take()
    }

    /// Describes the state of every node, for messages.
    pub fn states(&self) -> String {
        let checker = self.checker.borrow();
        let mut text = format!("{:?}", checker.writers);
        for node in self.running() {
            let (member, is_evicted) = (self.member(node), checker.evicted.contains(&node.0));
            text += &format!("\n  {} evicted {is_evicted}", node.0);
            for part in member.parts.iter().filter(|part| part.id.is_some()) {
                let id = part.id.unwrap();
                let (phase, reach) = (member.node.phase(id), member.node.progress(id));
                let delivered = member.node.delivered(id);
                let next = part.readers.last().map(|readers| (&readers.next, readers.count));
                text += &format!(
                    "\n    {}: {:?} {phase:?}, delivered {delivered}, next {next:?}\n    {reach:?}",
                    part.subgroup, part.epoch
                );
            }
        }
        checker.present().for_each(|plan| text += &format!("\n{plan:?}"));
        text
    }
}
