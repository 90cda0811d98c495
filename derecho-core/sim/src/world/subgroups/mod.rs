//! Whole subgroups in a simulated cluster, with random applications on top, and the rules for
//! their deliveries.
//!
//! ```text
//!   member.rs   a node, a writer that claims and commits at random times, two readers: one takes
//!               what is delivered at once, the other at random and holds some of it for long
//!   checker.rs  sees all members at once; one check for each rule
//! ```
//! The content of every record follows from its sender, its number and its length, so every byte is
//! checked, when the record is taken and when it is released. The checkers read what a member has
//! *received* from its memory and do not ask the member.
#![allow(clippy::unwrap_used, reason = "a run that cannot go on fails")]

pub mod checker;
pub mod member;

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
use crate::{Config, NodeIndex, Random, StopReason};
pub use checker::DeliveryChecker;
pub use member::{LONGEST, TestMember};

/// Virtual time within which every test ends.
pub const END: Time = Time(400_000_000);

/// Pace of a member's writer.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of messages.
    pub goal: u64,
    /// Maximum number of claims in one act.
    pub burst: u64,
    /// Longest pause between two acts, in nanoseconds.
    pub pause_ns: u64,
    /// True if the writer keeps claims open, abandons some, and forgets one.
    pub careless: bool,
}

impl Pace {
    /// Pace of a writer that writes nothing.
    pub const SILENT: Pace = Pace { goal: 0, burst: 1, pause_ns: 1_000, careless: false };

    fn random(random: &mut Random, most: u64) -> Pace {
        let goal = if random.one_in(5) { 0 } else { random.between(1, most) };
        let pause_ns = [1_000, 1_000, 4_000, 100_000, 1_000_000][random.below(5) as usize];
        // A slow writer has fewer messages, so that a run ends.
        let goal = if pause_ns > 50_000 { goal.min(8) } else { goal };
        Pace { goal, burst: random.between(1, 8), pause_ns, careless: !random.one_in(3) }
    }
}

/// SubgroupRole of a member in its subgroup.
#[derive(Clone, Copy, Debug)]
pub struct SubgroupRole {
    /// Whether it reads.
    pub reads: bool,
    /// Pace of its writer, if it sends.
    pub sends: Option<Pace>,
}

impl SubgroupRole {
    /// Role of a member that reads and sends.
    pub fn both(pace: Pace) -> SubgroupRole {
        SubgroupRole { reads: true, sends: Some(pace) }
    }
}

/// Setup of a subgroup.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Level and switches of the subgroup.
    pub terms: SubgroupConfig,
    /// Memory of each stream.
    pub geometry: Geometry,
    /// Roles of all members.
    pub members: Vec<SubgroupRole>,
}

impl Scenario {
    /// Returns an atomic subgroup of these members, with far less memory than data.
    pub fn atomic(members: Vec<SubgroupRole>) -> Scenario {
        let terms =
            SubgroupConfig { level: DeliveryGuarantee::Atomic, ablation: Ablation::default() };
        let geometry = Geometry::fitting(4096, 16, LONGEST as usize).unwrap();
        Scenario { terms, geometry, members }
    }

    /// Returns a random subgroup of this level: 2 to 7 members, of which any may send and any may
    /// read, with up to `most` messages each.
    pub fn random(seed: u64, level: DeliveryGuarantee, most: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0x5ce_4a210);
        let count = random.between(2, 7) as usize;
        let mut members: Vec<SubgroupRole> = (0..count)
            .map(|_| SubgroupRole {
                reads: !random.one_in(3),
                sends: (!random.one_in(3)).then(|| Pace::random(&mut random, most)),
            })
            .collect();
        members[random.below(count as u64) as usize].reads = true;
        if members.iter().all(|member| member.sends.is_none()) {
            members[0].sends = Some(Pace::random(&mut random, most));
        }
        let messages = [2, 4, 8, 16, 32][random.below(5) as usize];
        let bytes = [1024, 2048, 4096][random.below(3) as usize];
        let geometry = Geometry::fitting(bytes, messages, LONGEST as usize).unwrap();
        let terms = SubgroupConfig { level, ablation: Ablation::default() };
        Scenario { terms, geometry, members }
    }

    /// Iterates over the members that send.
    pub fn senders(&self) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(|&member| self.members[member].sends.is_some())
    }
}

/// Returns the setup with a network as adverse as the contract of the link allows.
pub fn adversarial(seed: u64) -> Config {
    Config { deadline: END, ..Config::adversarial(seed) }
}

/// A running subgroup.
pub type World = super::World<TestMember>;

impl World {
    /// Creates the members, each of which founds the subgroup at a time of its own.
    pub fn new(config: Config, scenario: Scenario) -> World {
        let checker = DeliveryChecker::new(scenario.terms.level, scenario.geometry);
        let checker = Rc::new(RefCell::new(checker));
        let mut world = World::empty(config, 0x5eed, checker, scenario);
        {
            let mut checker = world.checker.borrow_mut();
            checker.senders = world.setting.senders().collect();
            checker.reads = world.setting.members.iter().map(|member| member.reads).collect();
            checker.readers = checker.reads.iter().filter(|reads| **reads).count() * 2;
            checker.committed = vec![0; checker.senders.len()];
            checker.received = vec![0; checker.reads.len()];
        }
        for me in 0..world.setting.members.len() {
            let World { cluster, checker, setting: scenario, .. } = &mut world;
            let node = cluster.add_node(|link| {
                checker.borrow_mut().ids.push(link.node());
                vec![TestMember::new(link, me, scenario, checker)]
            });
            let terms = world.setting.terms;
            let start = Time(world.random.between(1, 20_000));
            let mut founded = false;
            let act = move |member: &mut TestMember, now: Time, effects: &mut Effects| {
                if !founded && member.checker.borrow().ids.len() > 1 {
                    founded = member.found(terms, effects);
                }
                (!founded).then(|| now.after(1_000))
            };
            world.cluster.inject_again(node, 0, start, act);
        }
        world
    }

    /// As [`World::new`], with applications that start at once.
    pub fn started(config: Config, scenario: Scenario) -> World {
        let mut world = World::new(config, scenario);
        (0..world.members()).for_each(|member| world.start(member));
        world
    }

    /// Number of members.
    pub fn members(&self) -> usize {
        self.setting.members.len()
    }

    /// Starts a member's application.
    fn start(&mut self, member: usize) {
        let role = self.setting.members[member];
        let now = self.cluster.now();
        if let Some(pace) = role.sends.filter(|pace| pace.goal > 0) {
            self.checker.borrow_mut().writing += 1;
            let mut random = Random::new(self.random.next_word());
            self.cluster.inject_again(NodeIndex(member), 0, now, move |member, now, _| {
                if member.stalled || member.write(&mut random, pace) {
                    member.checker.borrow_mut().writing -= 1;
                    return None;
                }
                Some(now.after(random.between(1, pace.pause_ns)))
            });
        }
        if role.reads {
            let mut random = Random::new(self.random.next_word());
            let slow = random.between(1, 8) * 1_000;
            let (keep, drop) = (random.between(2, 20), random.between(2, 12));
            self.cluster.inject_again(NodeIndex(member), 0, now, move |member, now, _| {
                if member.checker.borrow().over {
                    member.take_all();
                    return None;
                }
                let count = random.between(0, 6);
                member.take(&mut random, count, keep, drop);
                Some(now.after(random.between(1, slow)))
            });
        }
    }

    /// Runs until everything is delivered everywhere, or there is a violation.
    pub fn complete(&mut self) {
        let checker = Rc::clone(&self.checker);
        let stop = self.cluster.run_until_met(|_| {
            let checker = checker.borrow();
            checker.is_complete() || !checker.violations.is_empty()
        });
        if stop != StopReason::Reached {
            let text = format!("{stop:?}: {}", self.states());
            self.record_violation(Rule::Liveness, text);
        }
    }

    /// Ends all applications, and runs until nothing happens any more.
    pub fn calm(&mut self) {
        self.checker.borrow_mut().over = true;
        self.check_quiet(0..self.members());
    }

    /// Checks that all memory is free again and every sender can continue, when nothing is
    /// referred to.
    pub fn again(&mut self) {
        for sender in self.setting.senders().collect::<Vec<_>>() {
            let member = self.member(sender);
            let acknowledged = member.node.is_subgroup_acknowledged(member.id.unwrap());
            if !acknowledged {
                let text = format!("messages of {sender} are not acknowledged");
                self.record_violation(Rule::Liveness, text);
            }
            self.act(sender, move |member, _| {
                if !member.commit(LONGEST as usize) {
                    let text = format!("{sender} has no room although no record is referred to");
                    member.checker.borrow_mut().violations.record(Rule::Liveness, text);
                }
            });
        }
    }

    /// Runs everything without failures; returns the violations.
    pub fn run_to_end(&mut self) -> Vec<(Rule, String)> {
        self.complete();
        for step in [World::calm, World::again, World::calm] {
            if self.checker.borrow().violations.is_empty() {
                step(self);
            }
        }
        let logs: Vec<_> =
            (0..self.members()).flat_map(|m| self.member(m).logs()).cloned().collect();
        let mut checker = self.checker.borrow_mut();
        if checker.violations.is_empty() {
            logs.iter().for_each(|log| checker.close(log));
        }
        checker.violations.take()
    }

    /// Fails if a rule was broken.
    pub fn assert_no_complaints(&self) {
        let checker = self.checker.borrow();
        assert!(
            checker.violations.is_empty(),
            "seed {}: {:#?}",
            self.seed,
            checker.violations.all()
        );
    }

    /// Describes the state of every member, for messages.
    pub fn states(&self) -> String {
        let checker = self.checker.borrow();
        let mut text = format!("committed {:?}, {} writing", checker.committed, checker.writing);
        for index in 0..self.members() {
            let member = self.member(index);
            let delivered = member.id.map(|id| member.node.delivered(id));
            let logs: Vec<usize> = member.logs().map(|log| log.count).collect();
            let slots: Vec<u64> = member.arrived.iter().map(|arrived| arrived.slots).collect();
            text +=
                &format!("\n  {index} {:?}: slots {slots:?}, {delivered:?} {logs:?}", member.role);
        }
        text
    }
}
