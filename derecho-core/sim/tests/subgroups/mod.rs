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
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod checker;
pub(crate) mod member;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::ids::Time;
use derecho_core::link::Link;
use derecho_core::machine::Effects;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};
use derecho_sim::{Cluster, Config, NodeIndex, Random, StopReason};

pub(crate) use checker::{DeliveryChecker, Rule};
pub(crate) use member::{LONGEST, TestMember};

/// Virtual time within which every test ends.
pub(crate) const END: Time = Time(400_000_000);

/// Pace of a member's writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Number of messages.
    pub(crate) goal: u64,
    /// Maximum number of claims in one act.
    pub(crate) burst: u64,
    /// Longest pause between two acts, in nanoseconds.
    pub(crate) pause_ns: u64,
    /// True if the writer keeps claims open, abandons some, and forgets one.
    pub(crate) careless: bool,
}

impl Pace {
    pub(crate) const SILENT: Pace = Pace { goal: 0, burst: 1, pause_ns: 1_000, careless: false };

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
pub(crate) struct SubgroupRole {
    pub(crate) reads: bool,
    pub(crate) sends: Option<Pace>,
}

impl SubgroupRole {
    pub(crate) fn both(pace: Pace) -> SubgroupRole {
        SubgroupRole { reads: true, sends: Some(pace) }
    }
}

/// Setup of a subgroup.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) terms: SubgroupConfig,
    pub(crate) geometry: Geometry,
    pub(crate) members: Vec<SubgroupRole>,
}

impl Scenario {
    /// Returns an atomic subgroup of these members, with far less memory than data.
    pub(crate) fn atomic(members: Vec<SubgroupRole>) -> Scenario {
        let terms =
            SubgroupConfig { level: DeliveryGuarantee::Atomic, ablation: Ablation::default() };
        let geometry = Geometry::fitting(4096, 16, LONGEST as usize).unwrap();
        Scenario { terms, geometry, members }
    }

    /// Returns a random subgroup of this level: 2 to 7 members, of which any may send and any may
    /// read, with up to `most` messages each.
    pub(crate) fn random(seed: u64, level: DeliveryGuarantee, most: u64) -> Scenario {
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

    pub(crate) fn senders(&self) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(|&member| self.members[member].sends.is_some())
    }
}

pub(crate) fn adversarial(seed: u64) -> Config {
    Config { deadline: END, ..Config::adversarial(seed) }
}

/// A running subgroup.
pub(crate) struct World {
    pub(crate) cluster: Cluster<TestMember>,
    pub(crate) checker: Rc<RefCell<DeliveryChecker>>,
    pub(crate) scenario: Scenario,
    pub(crate) random: Random,
    pub(crate) seed: u64,
}

impl World {
    /// Creates the members, each of which founds the subgroup at a time of its own.
    pub(crate) fn new(config: Config, scenario: Scenario) -> World {
        let seed = config.seed;
        let checker = DeliveryChecker::new(scenario.terms.level, scenario.geometry);
        let checker = Rc::new(RefCell::new(checker));
        let mut world = World {
            cluster: Cluster::new(config),
            checker,
            random: Random::new(seed ^ 0x5eed),
            scenario,
            seed,
        };
        {
            let mut checker = world.checker.borrow_mut();
            checker.senders = world.scenario.senders().collect();
            checker.reads = world.scenario.members.iter().map(|member| member.reads).collect();
            checker.readers = checker.reads.iter().filter(|reads| **reads).count() * 2;
            checker.committed = vec![0; checker.senders.len()];
            checker.received = vec![0; checker.reads.len()];
        }
        for me in 0..world.scenario.members.len() {
            let World { cluster, checker, scenario, .. } = &mut world;
            let node = cluster.add_node(|link| {
                checker.borrow_mut().ids.push(link.node());
                vec![TestMember::new(link, me, scenario, checker)]
            });
            let terms = world.scenario.terms;
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
    pub(crate) fn started(config: Config, scenario: Scenario) -> World {
        let mut world = World::new(config, scenario);
        (0..world.members()).for_each(|member| world.start(member));
        world
    }

    pub(crate) fn members(&self) -> usize {
        self.scenario.members.len()
    }

    pub(crate) fn member(&self, member: usize) -> &TestMember {
        self.cluster.machine(NodeIndex(member), 0)
    }

    pub(crate) fn member_mut(&mut self, member: usize) -> &mut TestMember {
        self.cluster.machine_mut(NodeIndex(member), 0)
    }

    /// Starts a member's application.
    fn start(&mut self, member: usize) {
        let role = self.scenario.members[member];
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

    /// Acts on a member now.
    pub(crate) fn act(
        &mut self,
        member: usize,
        action: impl FnOnce(&mut TestMember, &mut Effects) + 'static,
    ) {
        let now = self.cluster.now();
        self.cluster
            .inject(NodeIndex(member), 0, now, |member, _, effects| action(member, effects));
        self.cluster.run_until(now.after(1));
    }

    /// Runs until everything is delivered everywhere, or there is a violation.
    pub(crate) fn complete(&mut self) {
        let checker = Rc::clone(&self.checker);
        let stop = self.cluster.run_until_met(|_| {
            let checker = checker.borrow();
            checker.is_complete() || !checker.violations.is_empty()
        });
        if stop != StopReason::Reached {
            let text = format!("{stop:?}: {}", self.states());
            self.checker.borrow_mut().record_violation(Rule::Liveness, text);
        }
    }

    /// Ends all applications, and runs until nothing happens any more.
    pub(crate) fn calm(&mut self) {
        self.checker.borrow_mut().over = true;
        for _ in 0..2 {
            for member in 0..self.members() {
                self.act(member, |member, _| member.take_all());
            }
            let stop = self.cluster.run_until_met(|_| false);
            if stop != StopReason::Quiet {
                self.checker.borrow_mut().record_violation(Rule::Quiescence, format!("{stop:?}"));
                return;
            }
        }
        // A further turn has nothing to say.
        let before = self.cluster.network().counters();
        for member in 0..self.members() {
            self.act(member, |_, _| {});
        }
        self.cluster.run_until_met(|_| false);
        if self.cluster.network().counters() != before {
            let text = "a post is made without a reason".into();
            self.checker.borrow_mut().record_violation(Rule::Quiescence, text);
        }
    }

    /// Checks that all memory is free again and every sender can continue, when nothing is
    /// referred to.
    pub(crate) fn again(&mut self) {
        for sender in self.scenario.senders().collect::<Vec<_>>() {
            let member = self.member(sender);
            let acknowledged = member.node.is_subgroup_acknowledged(member.id.unwrap());
            if !acknowledged {
                let text = format!("messages of {sender} are not acknowledged");
                self.checker.borrow_mut().record_violation(Rule::Liveness, text);
            }
            self.act(sender, move |member, _| {
                if !member.commit(LONGEST as usize) {
                    let text = format!("{sender} has no room although no record is referred to");
                    member.checker.borrow_mut().record_violation(Rule::Liveness, text);
                }
            });
        }
    }

    /// Runs everything without failures; returns the violations.
    pub(crate) fn run(&mut self) -> Vec<(Rule, String)> {
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
        std::mem::take(&mut checker.violations)
    }

    pub(crate) fn assert_no_complaints(&self) {
        let checker = self.checker.borrow();
        assert!(checker.violations.is_empty(), "seed {}: {:#?}", self.seed, checker.violations);
    }

    /// Describes the state of every member, for messages.
    pub(crate) fn states(&self) -> String {
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
