//! The membership, as an omniscient oracle: it decides at random, and announces the decisions to
//! each node at a time of its own.
//!
//! It decides from the data of a membership protocol: the reports of the wedged nodes. One node
//! always reads and never fails, so that there is a member to agree with.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::{Config, NodeIndex, Random};
use derecho_core::ids::Time;
use derecho_core::multicast::stream::StreamStart;
use derecho_core::multicast::subgroup::epoch::EpochPhase;

use super::checker::{DecidedEpoch, EpochRole};
use super::epochs::Report;
use super::{Pace, Rule, Scenario, World, whole};

/// Index of the subgroup about which the oracle decides.
pub(super) const DECIDED: usize = 0;
/// Virtual time within which every run with an oracle ends.
const END: Time = Time(2_000_000_000);

/// Fault of the membership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MembershipFault {
    /// One member gets a trim that is one entry too far.
    TrimTooFar,
    /// All members get the trim of the member that has received most.
    TrimOfTheFastest,
    /// For new members, the epoch is announced to begin one message earlier in each stream.
    StartTooEarly,
    /// One member continues with a member that is out.
    CountsWhoIsOut,
    /// A new member begins before the previous epoch is complete.
    BeginsBeforeAllHaveAll,
}

/// The membership: decides about epochs.
#[derive(Default)]
pub struct Oracle {
    /// Node that always reads and never fails.
    pub anchor: usize,
    /// Last decided epoch.
    pub epoch: DecidedEpoch,
    numbers: u64,
    /// Fault of the membership.
    pub planted: Option<MembershipFault>,
    /// True if no node crashes.
    pub peace: bool,
    /// Decisions and announcements, for the analysis of a seed.
    pub log: Vec<String>,
    /// Number of view changes.
    pub views: usize,
    /// Number of changes of layout.
    pub layouts: usize,
    /// Number of view changes that found some members in the old epoch and some in the next one.
    pub mixed: usize,
    /// Number of view changes that cut something off.
    pub cut_off: usize,
    /// Number of crashes.
    pub crashes: usize,
}

impl World {
    /// Creates a world in which an oracle decides about a subgroup, and waits until all nodes have
    /// met. Applications write and take while there is something to write to and take from.
    pub fn decided(seed: u64, scenario: Scenario) -> World {
        let mut world = World::new(Config { deadline: END, ..Config::adversarial(seed) }, scenario);
        let nodes = world.setting.scenario.nodes;
        world.random = Random::new(seed ^ 0x0005_eede);
        world.setting.oracle.anchor = world.random.below(nodes as u64) as usize;
        for node in 0..nodes {
            let mut random = Random::new(world.random.next_word());
            let pace = Pace::endless(&mut random);
            world.start_writer(node, DECIDED, pace, random);
            world.start_reader(node);
        }
        world.wait("all nodes to meet", move |cluster| {
            let all = |node| cluster.machine(NodeIndex(node), 0).peers.len() == nodes - 1;
            (0..nodes).all(all)
        });
        world
    }

    /// Runs changes of all kinds, and then an end in peace. Returns the violations.
    pub fn run_changes(&mut self) -> Vec<(Rule, String)> {
        self.found();
        for _ in 0..self.setting.scenario.changes {
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
            self.checker.borrow_mut().written = true;
            let evicted: Vec<usize> = self.checker.borrow().evicted.iter().copied().collect();
            for node in evicted {
                if self.is_running(node) {
                    self.cluster.crash(NodeIndex(node));
                }
            }
            self.pass(100_000);
            let is_whole = whole(&self.cluster, &self.checker.borrow()).next().is_some();
            assert!(is_whole, "a member that has failed is not excluded");
        }
        self.run_to_end()
    }

    /// Returns all decided epochs, by their numbers.
    fn plans(&self) -> BTreeMap<u64, DecidedEpoch> {
        let checker = self.checker.borrow();
        checker.epochs.values().map(|plan| (plan.number, plan.clone())).collect()
    }

    /// Whether no other node counts a node as a member any more, and the node does not know that.
    pub(super) fn is_evicted(&self, node: usize) -> bool {
        self.checker.borrow().evicted.contains(&node)
    }

    fn evict(&mut self, node: usize) {
        self.checker.borrow_mut().evicted.insert(node);
    }
    /// Returns the present members, in random order.
    fn present(&mut self) -> Vec<usize> {
        let is_in = |node: &usize| {
            self.is_running(*node) && self.is_member(*node) && !self.is_evicted(*node)
        };
        let mut nodes: Vec<usize> = (0..self.setting.scenario.nodes).filter(is_in).collect();
        self.shuffle(&mut nodes);
        nodes
    }

    /// Whether a node is a member, or on its way.
    fn is_member(&self, node: usize) -> bool {
        self.member(node).part().id.is_some()
    }

    fn place_for(&mut self, node: usize, slot: usize) -> EpochRole {
        let reads = node == self.setting.oracle.anchor || !self.random.one_in(3);
        let sends = !self.random.one_in(3);
        self.member_mut(node).new_role(slot, reads, sends)
    }

    /// Returns the next epoch, without the nodes that are out. Members change their roles, leave
    /// or join.
    fn next_plan(&mut self, out: &BTreeSet<usize>) -> DecidedEpoch {
        let anchor = self.setting.oracle.anchor;
        let mut roles = Vec::new();
        for mut role in self.setting.oracle.epoch.roles.clone() {
            let node = role.node;
            if out.contains(&node) || !self.is_running(node) || self.is_evicted(node) {
                continue;
            }
            // The node has left already: the epoch that it was in was complete.
            if !self.is_member(node) {
                continue;
            }
            let late = self.setting.scenario.late_leavers && node != anchor;
            let done = !role.reads && !self.member(node).holds();
            let free = (late || done) && self.member(node).part().epoch.is_some();
            let settled = self.member(node).part().epoch == Some(self.setting.oracle.epoch.number);
            if free && settled && self.random.one_in(2) {
                continue;
            }
            if node != anchor && self.random.one_in(4) {
                role.reads = !role.reads;
            }
            if self.random.one_in(4) {
                // A stream that is out does not come back.
                role.writer = match role.writer {
                    Some(_) => None,
                    None => Some(self.member_mut(node).open_stream(DECIDED)),
                };
            }
            roles.push(role);
        }
        for node in 0..self.setting.scenario.nodes {
            let member = self.member(node);
            let is_new = !self.is_member(node) && self.is_running(node) && !out.contains(&node);
            // A copy of a record that a former member holds is overwritten once it is a
            // member again.
            let is_new = is_new && (self.setting.scenario.hosts.is_some() || !member.holds());
            let known = roles.iter().any(|role| role.node == node);
            if is_new && !known && !self.is_evicted(node) && self.random.one_in(3) {
                let taken = |slot: usize| roles.iter().any(|role: &EpochRole| role.slot == slot);
                let slot = (0..64).find(|&slot| !taken(slot)).unwrap();
                let role = self.place_for(node, slot);
                roles.push(role);
            }
        }
        self.shuffle(&mut roles);
        self.setting.oracle.numbers += 1;
        DecidedEpoch { number: self.setting.oracle.numbers, roles, ..DecidedEpoch::default() }
    }

    /// Records a decided epoch.
    pub fn decide(&mut self, plan: DecidedEpoch) -> Rc<DecidedEpoch> {
        self.log(&format!("{plan:?}"));
        self.checker.borrow_mut().epochs.insert(plan.id(), plan.clone());
        self.setting.oracle.epoch = plan.clone();
        Rc::new(plan)
    }

    /// Logs an event, for the analysis of a seed.
    fn log(&mut self, text: &str) {
        let now = self.cluster.now().0;
        self.setting.oracle.log.push(format!("{now} {text}"));
    }

    /// Begins the subgroup, with some of the nodes.
    pub fn found(&mut self) {
        let mut nodes: Vec<usize> = (0..self.setting.scenario.nodes).collect();
        self.shuffle(&mut nodes);
        let count = self.random.between(2, self.setting.scenario.nodes as u64) as usize;
        let mut founders: Vec<usize> = nodes[..count].to_vec();
        if !founders.contains(&self.setting.oracle.anchor) {
            founders[0] = self.setting.oracle.anchor;
        }
        let roles = founders.into_iter().enumerate();
        let roles = roles.map(|(slot, node)| self.place_for(node, slot)).collect::<Vec<_>>();
        let plan = self.decide(DecidedEpoch::first(DECIDED, roles));
        for node in plan.roles.iter().map(|role| role.node) {
            self.join(node, &plan);
        }
        if self.random.one_in(2) {
            self.wait_for(&plan);
        }
    }

    /// Makes a node join in this epoch.
    pub fn join(&mut self, node: usize, plan: &Rc<DecidedEpoch>) {
        self.log(&format!("{node} joins in {}", plan.number));
        let plan = Rc::clone(plan);
        self.act(node, move |member, effects| member.join(&plan, effects));
    }

    /// Waits until all running members of an epoch have begun it.
    pub fn wait_for(&mut self, plan: &Rc<DecidedEpoch>) -> bool {
        let plan = Rc::clone(plan);
        self.wait("an epoch", move |cluster| {
            plan.roles.iter().all(|role| {
                let epoch = cluster.machine(NodeIndex(role.node), 0).part().epoch;
                !cluster.is_running(NodeIndex(role.node)) || epoch == Some(plan.number)
            })
        })
    }

    /// Makes a random change.
    pub fn change(&mut self) {
        if self.random.one_in(2) {
            self.change_layout();
        } else {
            self.change_view();
        }
    }

    /// Crashes a member, except the one that always stays.
    fn crash_one(&mut self) {
        let anchor = self.setting.oracle.anchor;
        if self.setting.oracle.peace {
            return;
        }
        let nodes: Vec<usize> = self.present().into_iter().filter(|&node| node != anchor).collect();
        if let Some(&node) = nodes.first() {
            self.setting.oracle.crashes += 1;
            self.log(&format!("{node} crashes"));
            self.cluster.crash(NodeIndex(node));
        }
    }

    /// Changes the layout, which a view change may interrupt.
    pub fn change_layout(&mut self) {
        // All members know the epoch that ends.
        let plan = Rc::new(self.setting.oracle.epoch.clone());
        let all = plan.roles.iter().all(|role| self.is_running(role.node));
        if !all {
            return self.change_view();
        }
        if !self.wait_for(&plan) {
            return;
        }
        self.setting.oracle.layouts += 1;
        self.log("a change of layout");
        let old = self.present();
        let next = self.next_plan(&BTreeSet::new());
        let stops = self.random.one_in(2).then(|| self.random.below(old.len() as u64 * 2 + 3));
        let next = self.decide(next);
        let mut steps = 0;
        for node in old {
            if stops == Some(steps) {
                return self.interrupt();
            }
            steps += 1;
            // The node may only now have left by the previous change.
            if !self.is_member(node) {
                continue;
            }
            let told = Rc::clone(&next);
            self.log(&format!("the change is announced to {node}"));
            self.act(node, move |member, effects| member.change_layout(&told, effects));
            self.pass(10_000);
        }
        let newcomers: Vec<usize> = next.roles.iter().map(|role| role.node).collect();
        let newcomers = newcomers.into_iter().filter(|&node| !self.is_member(node));
        let newcomers: Vec<usize> = newcomers.collect();
        if stops == Some(steps) {
            return self.interrupt();
        }
        let early = self.setting.oracle.planted == Some(MembershipFault::BeginsBeforeAllHaveAll);
        if !newcomers.is_empty() && !self.wait_for_starts(&plan, &next, early) {
            return;
        }
        let next = self.with_cuts(&plan, &next);
        for node in newcomers {
            self.pass(10_000);
            steps += 1;
            if stops == Some(steps) {
                return self.interrupt();
            }
            self.join(node, &next);
        }
        if stops.is_some() {
            return self.interrupt();
        }
        self.wait_for(&next);
        self.with_cuts(&plan, &next);
    }

    /// Waits until a member knows that the epoch is complete, and so where the next one begins.
    pub fn wait_for_starts(
        &mut self,
        plan: &Rc<DecidedEpoch>,
        next: &DecidedEpoch,
        early: bool,
    ) -> bool {
        let (number, checker) = (plan.number, Rc::clone(&self.checker));
        let goes_on = |writer: &usize| next.writers().any(|other| other == *writer);
        let writers: Vec<usize> = plan.writers().filter(goes_on).collect();
        let nodes = self.setting.scenario.nodes;
        self.wait("the starts of the next epoch", move |cluster| {
            let checker = checker.borrow();
            let is_cut = |writer: &usize| checker.cuts.contains_key(&(number, *writer));
            let cut = writers.iter().all(is_cut);
            let mut members = (0..nodes).map(|node| cluster.machine(NodeIndex(node), 0));
            let complete = members.any(|member| {
                let (epoch, phase) = (member.part().epoch, member.phase());
                let beyond = epoch.is_some_and(|epoch| epoch > number);
                let at = epoch == Some(number) && phase == Some(EpochPhase::Complete);
                beyond && !checker.evicted.contains(&member.me) || at
            });
            cut && (complete || early)
        })
    }

    /// Returns the plan of a change of layout, with the beginnings as far as they are known.
    pub fn with_cuts(&mut self, before: &DecidedEpoch, plan: &DecidedEpoch) -> Rc<DecidedEpoch> {
        let mut plan = plan.clone();
        for writer in plan.roles.iter().filter_map(|role| role.writer) {
            let new = StreamStart { entry: 0, message: 0 };
            let goes_on = before.writers().any(|known| known == writer);
            let cut = self.checker.borrow().cuts.get(&(before.number, writer)).copied();
            if let Some(start) = if goes_on { cut } else { Some(new) } {
                plan.starts.insert(writer, start);
            }
        }
        self.decide(plan)
    }

    /// Makes a view change in the middle of something else, mostly because a member fails.
    fn interrupt(&mut self) {
        if !self.random.one_in(4) {
            self.crash_one();
        }
        self.pass(10_000);
        self.change_view();
    }

    /// Runs a subgroup in which all members read except one that only sends. That member is
    /// excluded while alive, and continues as if nothing had happened. Returns the violations.
    pub fn run_with_one_put_out(&mut self) -> Vec<(Rule, String)> {
        self.setting.oracle.peace = true;
        let anchor = self.setting.oracle.anchor;
        let out = (anchor + 1) % self.setting.scenario.nodes;
        let mut roles = Vec::new();
        for node in 0..self.setting.scenario.nodes {
            roles.push(self.member_mut(node).new_role(node, node != out, true));
        }
        let plan = self.decide(DecidedEpoch::first(DECIDED, roles));
        for node in 0..self.setting.scenario.nodes {
            self.join(node, &plan);
        }
        self.wait_for(&plan);
        self.pass(100_000);
        self.evict(out);
        let all = BTreeSet::from([out]);
        if let Some(reports) = self.wedge_all() {
            let (mut plan, trims) = self.decide_view(&reports, &all);
            // The roles of the others do not change.
            plan.roles = self.setting.oracle.epoch.roles.clone();
            plan.roles.retain(|role| role.node != out);
            self.tell_all(plan, trims);
        }
        let plan = Rc::new(self.setting.oracle.epoch.clone());
        self.wait_for(&plan);
        self.pass(1_000_000);
        self.finish_run()
    }

    /// Makes some members fail, leave or be excluded; the others continue.
    pub fn change_view(&mut self) {
        let mut out = BTreeSet::new();
        if self.random.one_in(2) {
            self.crash_one();
        }
        for node in self.present() {
            if node != self.setting.oracle.anchor && self.random.one_in(6) {
                self.log(&format!("{node} is excluded"));
                // The node is alive, and nothing is announced to it.
                self.evict(node);
                out.insert(node);
            }
        }
        let mut tries = 0;
        loop {
            self.setting.oracle.views += 1;
            let decided = self.wedge_all().map(|reports| self.decide_view(&reports, &out));
            let Some((plan, trims)) = decided else { return };
            self.tell_all(plan, trims);
            let plan = Rc::new(self.setting.oracle.epoch.clone());
            let gone = plan.roles.iter().any(|role| !self.is_running(role.node));
            if !self.is_fine() || !gone {
                self.wait_for(&plan);
                return;
            }
            // Another member has failed since: try again.
            tries += 1;
            assert!(tries < 10, "too few nodes are left");
            self.pass(20_000);
        }
    }

    /// Wedges all members, each at a time of its own; returns their reports.
    fn wedge_all(&mut self) -> Option<BTreeMap<usize, Report>> {
        let mut reports = BTreeMap::new();
        for node in self.present() {
            self.pass(10_000);
            if self.random.one_in(24) {
                self.crash_one();
            }
            // The node may only now have left by the previous change.
            if self.is_running(node) && self.is_member(node) {
                let report = self.call(node, |member, _| member.wedge());
                self.log(&format!("{node} reports {report:?}"));
                reports.insert(node, report);
            }
        }
        reports.retain(|&node, _| self.is_running(node));
        self.is_fine().then_some(reports)
    }

    /// Decides the trim of each epoch that a member is in, and the next epoch.
    fn decide_view(
        &mut self,
        reports: &BTreeMap<usize, Report>,
        out: &BTreeSet<usize>,
    ) -> (DecidedEpoch, BTreeMap<u64, BTreeMap<usize, u64>>) {
        let plans = self.plans();
        let last = reports.values().map(|(epoch, _)| *epoch).max().unwrap();
        let mut trims = BTreeMap::new();
        let epochs: BTreeSet<u64> = reports.values().map(|(epoch, _)| *epoch).collect();
        self.setting.oracle.mixed += usize::from(epochs.len() > 1);
        for epoch in epochs {
            let plan = &plans[&epoch];
            let inside = reports.values().find(|(of, _)| *of == epoch).unwrap();
            let mut trim: BTreeMap<usize, u64> = BTreeMap::new();
            for writer in plan.writers() {
                let received = reports.iter().filter_map(|(&node, (of, reach))| {
                    let known = reach.get(&writer).map(|reach| reach.1);
                    // A member that has not begun the epoch has received nothing of it.
                    let start = inside.1.get(&writer).map(|reach| reach.0);
                    let reads = plan.reads(node);
                    let counts = if *of == epoch { known } else { start.filter(|_| *of < epoch) };
                    counts.filter(|_| reads)
                });
                let received: Vec<u64> = received.collect();
                let far = self.setting.oracle.planted == Some(MembershipFault::TrimOfTheFastest);
                let entry =
                    if far { received.iter().max() } else { received.iter().min() }.copied();
                // A writer that no member knows any more: nothing of it was received.
                if let Some(entry) = entry {
                    trim.insert(writer, entry);
                    self.setting.oracle.cut_off += usize::from(received.iter().any(|&r| r > entry));
                }
            }
            trims.insert(epoch, trim);
        }
        // The epoch that continues.
        self.setting.oracle.epoch = plans[&last].clone();
        (self.next_plan(out), trims)
    }

    /// Announces the decision to all members; a member may fail meanwhile.
    fn tell_all(&mut self, mut plan: DecidedEpoch, trims: BTreeMap<u64, BTreeMap<usize, u64>>) {
        let anchor = self.setting.oracle.anchor;
        let last = *trims.keys().max().unwrap();
        let mut nodes = self.present();
        // The anchor knows the numbers of the messages at which the next epoch begins.
        nodes.retain(|&node| node != anchor);
        nodes.insert(0, anchor);
        let membership_fault = self.setting.oracle.planted;
        let victim = nodes[self.random.below(nodes.len() as u64) as usize];
        for node in nodes {
            if !self.is_running(node) || !self.is_member(node) {
                continue;
            }
            let epoch = self.member(node).progress();
            let mut trim = trims.get(&epoch).cloned().unwrap_or_default();
            if membership_fault == Some(MembershipFault::TrimTooFar) && node == victim {
                // As far as the member can.
                let reach = self.call(node, |member, _| member.wedge()).1;
                for (writer, entry) in &mut trim {
                    *entry = reach.get(writer).map_or(*entry, |reach| reach.1.min(*entry + 1));
                }
            }
            self.log(&format!("{node} finishes {epoch} at {trim:?}"));
            // Epochs that the node should have begun, or that others have begun, and that it has
            // not begun.
            let begun = self.member(node).part().epoch;
            let passed =
                [epoch, last].into_iter().filter(|&e| begun.is_some_and(|begun| begun < e));
            let plans = self.plans();
            let over: Vec<bool> = passed.map(|epoch| plans[&epoch].reads(node)).collect();
            let starts = self.call(node, move |member, _| {
                member.finish(&trim, &over);
                member.starts()
            });
            if !self.is_fine() {
                return;
            }
            if node == anchor {
                plan = self.with_starts(plan, &trims[&last], &starts);
            }
            let mut announced = self.setting.oracle.epoch.clone();
            if membership_fault == Some(MembershipFault::CountsWhoIsOut) && node == victim {
                let out = plans[&last].roles.iter().find(|role| {
                    announced.role_of(role.node).is_none() && self.is_evicted(role.node)
                });
                let taken = |slot| announced.roles.iter().any(|role| role.slot == slot);
                if let Some(out) = out.filter(|out| !taken(out.slot)).copied() {
                    announced.roles.push(EpochRole { writer: None, ..out });
                }
            }
            let out: Vec<usize> = self.checker.borrow().evicted.iter().copied().collect();
            self.act(node, move |member, effects| {
                member.put_out(&out);
                member.next_epoch(&announced, effects);
            });
            self.pass(10_000);
            if self.random.one_in(16) {
                self.crash_one();
            }
        }
        let plan = Rc::new(self.setting.oracle.epoch.clone());
        let new: Vec<usize> = plan.roles.iter().map(|role| role.node).collect();
        for node in new {
            if self.is_running(node) && !self.is_member(node) {
                let mut announced = (*plan).clone();
                if membership_fault == Some(MembershipFault::StartTooEarly) {
                    for start in announced.starts.values_mut().filter(|start| start.message > 0) {
                        (start.entry, start.message) = (start.entry - 1, start.message - 1);
                    }
                }
                self.join(node, &Rc::new(announced));
                self.pass(10_000);
            }
        }
    }

    fn with_starts(
        &mut self,
        mut plan: DecidedEpoch,
        trim: &BTreeMap<usize, u64>,
        known: &BTreeMap<usize, StreamStart>,
    ) -> DecidedEpoch {
        for writer in plan.roles.iter().filter_map(|role| role.writer) {
            let new = StreamStart { entry: 0, message: 0 };
            let start = match (trim.get(&writer), known.get(&writer)) {
                (Some(&entry), Some(known)) if known.entry == entry => *known,
                (Some(&entry), _) if entry > 0 => {
                    let earlier = self.checker.borrow();
                    let mut starts = earlier.epochs.values().filter_map(|p| p.starts.get(&writer));
                    // A node that was about to begin is at the announced position.
                    starts.find(|start| start.entry == entry).copied().unwrap_or(new)
                }
                _ => new,
            };
            plan.starts.insert(writer, start);
        }
        (*self.decide(plan)).clone()
    }
}
