//! Faults: their kinds, times, victims, and ends.
//!
//! Owns: all faults of a life. Never does: cause a fault that the plan does not permit.
//!
//! ```text
//!   strike           at random moments: a fault, with its end on the list of ends
//!   TriggeredFault   waits for a moment, such as a node at a chosen step of a view change, and
//!                    strikes there
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use derecho_core::ids::Time;
use derecho_core::membership::MemberStatus;
use derecho_sim::{Clock, Cluster, NodeIndex, Random};

use crate::faults::{Fault, Faults};
use crate::member::LifeMember;
use crate::report::ViewChangeStep;
use crate::world::{GroupKind, World};

type Pair = (NodeIndex, NodeIndex);

/// One life of this number, by its seed, may have more nodes that stand still than run.
pub const STOPS_MOST: u64 = 8;

/// End of a fault.
#[derive(Clone, Debug)]
enum FaultEnd {
    /// Node that continues, with the number of views that had begun when it was stopped, if a view
    /// change was under way.
    Resume(NodeIndex, Option<u64>),
    Heal(Vec<Pair>),
    Pace(NodeIndex),
    Unhamper(Vec<Pair>),
    /// A crashed node comes back as a new one.
    Comeback,
}

/// Moment for which a triggered fault waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FaultMoment {
    /// A node at this step; with `leader`, only the leader.
    Step { step: ViewChangeStep, leader: bool },
    /// A leader whose proposal the next leader has accepted.
    Succession,
    /// A node between two layouts of a topic.
    Walk,
}

/// Fault that waits for its moment.
#[derive(Clone, Copy, Debug)]
struct TriggeredFault {
    moment: FaultMoment,
    fault: Fault,
    until: Time,
}

/// The fault injector, see the [module](self).
pub(crate) struct FaultInjector {
    faults: Option<Faults>,
    ends: Vec<(Time, FaultEnd)>,
    triggered: Option<TriggeredFault>,
    /// True if faults are aimed at view changes: a stopped node continues soon, perhaps before
    /// the others have decided.
    pub(crate) aimed: bool,
    /// Time until which faults affected each node.
    affected: BTreeMap<NodeIndex, u64>,
    /// Nodes that stand still until the others have been judged.
    stopped: BTreeSet<NodeIndex>,
    /// Separate random stream for later additions, so that lives without these keep their course.
    more: Random,
    /// True if faults that could lose a networked group do not happen.
    mild: bool,
    /// True if more nodes may stand still than run. The members of a local group continue if the
    /// host shows them which nodes stand still (I-45).
    stops_most: bool,
}

impl FaultInjector {
    /// Creates an injector without faults.
    pub(crate) fn new(seed: u64) -> FaultInjector {
        FaultInjector {
            faults: None,
            ends: Vec::new(),
            triggered: None,
            aimed: false,
            affected: BTreeMap::new(),
            stopped: BTreeSet::new(),
            more: Random::new(seed ^ 0x5709),
            mild: false,
            stops_most: seed % STOPS_MOST == 1,
        }
    }

    /// Whether a node stands still until the others have been judged.
    pub(crate) fn is_stopped(&self, node: NodeIndex) -> bool {
        self.stopped.contains(&node)
    }

    pub(crate) fn any_stopped(&self) -> bool {
        !self.stopped.is_empty()
    }

    /// Returns the time until which faults affected a node; zero if none did.
    pub(crate) fn affected_until(&self, node: NodeIndex) -> u64 {
        self.affected.get(&node).copied().unwrap_or_default()
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.is_some_and(|faults| faults.has(fault))
    }

    fn newcomers(&self) -> usize {
        if self.aimed { NEWCOMERS_OF_AIMED } else { NEWCOMERS }
    }

    pub(crate) fn lies_in_wait(&self) -> bool {
        self.triggered.is_some()
    }
}

/// Maximum number of nodes added to a life after its start; the second value is for a life aimed at
/// view changes.
const NEWCOMERS: usize = 9;
const NEWCOMERS_OF_AIMED: usize = 30;

fn step_of(cluster: &Cluster<LifeMember>, node: NodeIndex) -> Option<ViewChangeStep> {
    cluster.machine(node, 0).step(cluster.unposted(node) > 0)
}

impl TriggeredFault {
    fn victim(&self, cluster: &Cluster<LifeMember>) -> Option<NodeIndex> {
        let nodes = || (0..cluster.nodes()).map(NodeIndex);
        let runs = |node: &NodeIndex| cluster.is_running(*node) && !cluster.is_paused(*node);
        let is_at = |node: &NodeIndex, step| runs(node) && step_of(cluster, *node) == Some(step);
        let leads = |node: &NodeIndex| cluster.machine(*node, 0).leads();
        match self.moment {
            FaultMoment::Step { step, leader } => {
                nodes().find(|node| is_at(node, step) && (!leader || leads(node)))
            }
            FaultMoment::Succession => {
                let rank = |node: &NodeIndex| cluster.machine(*node, 0).group().agreement().rank();
                let proposes = nodes().find(|node| is_at(node, ViewChangeStep::Proposed))?;
                let others = nodes().filter(|node| runs(node) && rank(node) > rank(&proposes));
                let next = others.min_by_key(rank)?;
                is_at(&next, ViewChangeStep::Accepted).then_some(proposes)
            }
            FaultMoment::Walk => {
                nodes().find(|node| runs(node) && cluster.machine(*node, 0).is_between())
            }
        }
    }
}

impl World {
    /// Permits these faults.
    pub(crate) fn prepare(&mut self, faults: Faults, wild: bool) {
        self.injector.faults = Some(faults);
        let is_late = faults.has(Fault::SlowLink) || faults.has(Fault::Delay);
        self.checker.borrow_mut().has_late_links = is_late && self.kind != GroupKind::Shared;
        self.injector.mild = !wild && self.kind == GroupKind::Network;
        self.asks_host = self.random.one_in(2);
    }

    pub(crate) fn give_clock(&mut self, node: NodeIndex) {
        if self.injector.has(Fault::Skew) {
            let ahead = self.random.below(1 << 36);
            // Usually as accurate as quartz; sometimes as inaccurate as a virtual machine's clock.
            let most = if self.random.one_in(4) { 300_000 } else { 200 };
            let fast_ppm = self.random.between(0, 2 * most) as i32 - most as i32;
            self.cluster.set_clock(node, Clock { ahead, fast_ppm });
        }
    }

    /// Runs a part of a life: a change of layout, joins, leaves, faults, and messages throughout.
    pub(crate) fn round(&mut self, nodes: usize) {
        self.random_change();
        self.random_come_and_go(nodes);
        if self.random.one_in(6) {
            self.random_strike();
        }
        if self.injector.triggered.is_none() && self.random.one_in(8) {
            self.random_triggered_fault(nodes);
        }
        self.write_for(2);
        let mut checker = self.checker.borrow_mut();
        checker.journal.now = self.cluster.now();
        checker.journal.sum_up();
    }

    pub(crate) fn random_come_and_go(&mut self, nodes: usize) {
        let living = self.living();
        let few = living.len() < nodes;
        match self.random.below(60) {
            0..2 if living.len() > 2 => {
                let some = self.one_of(&living);
                some.into_iter().for_each(|node| self.inject(node, LifeMember::leave));
            }
            2..6 => self.come(nodes),
            6..16 if few => self.come(nodes),
            _ => {}
        }
    }

    pub(crate) fn come(&mut self, nodes: usize) {
        if self.cluster.nodes() < nodes + self.injector.newcomers() {
            self.add();
        }
    }

    pub(crate) fn random_fault(&mut self, wanted: impl Fn(Fault) -> bool) -> Option<Fault> {
        let (kind, pauses) = (self.kind, self.injector.has(Fault::Pause));
        let possible = |fault: &Fault| match fault {
            // Shared memory has no connection that could be cut.
            Fault::Partition | Fault::OneWay => kind == GroupKind::Network,
            Fault::Skew => false,
            // Some pauses become stops.
            Fault::Stop => !pauses,
            _ => true,
        };
        let faults = self.injector.faults?.iter().filter(possible).filter(|fault| wanted(*fault));
        let faults: Vec<Fault> = faults.collect();
        faults.get(self.random.below(faults.len() as u64) as usize).copied()
    }

    fn random_strike(&mut self) {
        let living = self.living();
        let fault = self.random_fault(|_| true);
        if let (Some(node), Some(fault)) = (self.one_of(&living), fault) {
            self.strike(fault, node);
        }
    }

    /// Waits for a view change, and causes one.
    fn random_triggered_fault(&mut self, nodes: usize) {
        let fits = |fault| {
            matches!(fault, Fault::Crash | Fault::Restart | Fault::Pause | Fault::Partition)
        };
        let Some(fault) = self.random_fault(fits) else { return };
        self.lay(fault);
        let living = self.living();
        match (self.random.below(3), self.one_of(&living)) {
            (0, Some(node)) if living.len() > 3 => self.inject(node, LifeMember::leave),
            (1, Some(node)) if living.len() > 3 && self.injector.has(Fault::Crash) => {
                self.crash(node)
            }
            _ => self.come(nodes),
        }
    }

    fn lay(&mut self, fault: Fault) {
        let step = ViewChangeStep::ALL[self.random.below(6) as usize];
        let leader = step == ViewChangeStep::Proposed || self.random.one_in(2);
        self.lay_at(FaultMoment::Step { step, leader }, fault);
    }

    pub(crate) fn lay_at(&mut self, moment: FaultMoment, fault: Fault) {
        let until = self.now().after(3_000_000);
        self.injector.triggered = Some(TriggeredFault { moment, fault, until });
    }

    /// Lets `time` pass, in which faults end and triggered faults strike.
    pub fn run(&mut self, time: u64) {
        let until = self.now().after(time);
        loop {
            let now = self.now();
            self.injector.triggered =
                self.injector.triggered.filter(|triggered| triggered.until > now);
            let end = self.injector.ends.iter().map(|(at, _)| *at).min();
            let stop = end.filter(|end| *end <= until).unwrap_or(until);
            match self.injector.triggered {
                Some(triggered) => {
                    let met = |cluster: &Cluster<LifeMember>| triggered.victim(cluster).is_some();
                    if self.cluster.run_until_or(stop, met)
                        && let Some(node) = triggered.victim(&self.cluster)
                    {
                        self.injector.triggered = None;
                        self.strike(triggered.fault, node);
                        // The next leader is not safe either.
                        if let FaultMoment::Succession = triggered.moment {
                            let next =
                                FaultMoment::Step { step: ViewChangeStep::Accepted, leader: true };
                            self.lay_at(next, triggered.fault);
                        } else if self.random.one_in(3) {
                            self.lay(triggered.fault);
                        }
                        continue;
                    }
                }
                None => {
                    self.cluster.run_until(stop);
                }
            }
            self.end_faults();
            if self.now() >= until || self.now() < stop {
                return;
            }
        }
    }

    fn end_faults(&mut self) {
        let now = self.now();
        let (due, later) =
            std::mem::take(&mut self.injector.ends).into_iter().partition(|(at, _)| *at <= now);
        self.injector.ends = later;
        let due: Vec<(Time, FaultEnd)> = due;
        due.into_iter().for_each(|(_, end)| self.end(end));
    }

    /// Ends all faults.
    pub(crate) fn end_all_faults(&mut self) {
        self.injector.triggered = None;
        let ends = std::mem::take(&mut self.injector.ends);
        if !ends.is_empty() {
            self.record("all faults end");
        }
        ends.into_iter().for_each(|(_, end)| self.end(end));
    }

    fn record(&mut self, what: &str) {
        let mut checker = self.checker.borrow_mut();
        checker.journal.now = self.cluster.now();
        checker.journal.record(format_args!("{what}"));
    }

    fn end(&mut self, end: FaultEnd) {
        let now = self.now().0;
        match end {
            FaultEnd::Resume(node, views) => {
                if self.cluster.is_running(node) {
                    self.tell(node, "continues");
                    let begun = self.checker.borrow().view_changes;
                    let step = step_of(&self.cluster, node);
                    let coverage = &mut self.report.coverage;
                    coverage.overslept += u64::from(views.is_some_and(|views| views < begun));
                    step.into_iter().for_each(|step| coverage.resumes[step as usize] += 1);
                }
                self.show_halted(node, false);
                self.cluster.resume(node);
                self.injector.affected.insert(node, now);
            }
            FaultEnd::Heal(pairs) => {
                self.record(&format!("no longer cut: {}", names(&pairs)));
                for (from, to) in pairs {
                    self.cluster.network().heal(from, to);
                    self.mark_affected(from, now);
                    self.mark_affected(to, now);
                }
            }
            FaultEnd::Pace(node) => {
                self.cluster.set_pace(node, 1);
                self.mark_affected(node, now);
            }
            FaultEnd::Unhamper(pairs) => {
                for (from, to) in pairs {
                    self.cluster.network().unhamper(from, to);
                    self.mark_affected(from, now);
                    self.mark_affected(to, now);
                }
            }
            FaultEnd::Comeback => {
                self.add();
            }
        }
    }

    fn mark_affected(&mut self, node: NodeIndex, until: u64) {
        self.injector.affected.insert(node, until);
    }

    fn later(&mut self, low: u64, high: u64, end: FaultEnd) {
        let at = self.now().after(self.random.between(low, high));
        self.injector.ends.push((at, end));
    }

    /// Makes a node stand still. The host shows it.
    pub fn halt(&mut self, node: NodeIndex) {
        self.show_halted(node, true);
        self.cluster.pause(node);
    }

    fn show_halted(&self, node: NodeIndex, halted: bool) {
        let me = self.member(node).me;
        let mut list = self.halted.lock().unwrap_or_else(PoisonError::into_inner);
        if halted {
            list.insert(me);
        } else {
            list.remove(&me);
        }
    }

    fn may_lose_one(&mut self) -> bool {
        let living = self.living().len();
        living > 2 || (living == 2 && self.kind.is_local() && self.random.one_in(4))
    }

    fn strike(&mut self, fault: Fault, node: NodeIndex) {
        if self.injector.mild && !self.would_survive(fault, node) {
            return;
        }
        match fault {
            Fault::Crash if self.may_lose_one() => self.crash(node),
            Fault::Restart if self.may_lose_one() => {
                self.crash(node);
                self.report.restarts += 1;
                self.later(1_000, 2_000_000, FaultEnd::Comeback);
            }
            Fault::Pause if !self.cluster.is_paused(node) => self.pause(node),
            Fault::Partition => self.cut(node, false),
            Fault::OneWay => self.cut(node, true),
            Fault::SlowNode => {
                let pace = self.random.between(3, 100);
                self.tell(node, &format!("becomes {pace} times slower"));
                self.mark_affected(node, u64::MAX);
                self.cluster.set_pace(node, pace);
                self.later(50_000, 3_000_000, FaultEnd::Pace(node));
            }
            Fault::SlowLink | Fault::Delay => self.hamper(node, fault == Fault::Delay),
            Fault::Stop if !self.cluster.is_paused(node) && self.may_stop() => self.stop(node),
            Fault::Crash | Fault::Restart | Fault::Pause | Fault::Skew | Fault::Stop => {}
        }
    }

    /// Whether the group must continue even if a fault affects this node as well. A cut affects
    /// nodes on both sides: then chance decides.
    fn would_survive(&mut self, fault: Fault, node: NodeIndex) -> bool {
        match fault {
            Fault::Partition | Fault::OneWay | Fault::SlowLink | Fault::Delay => {
                self.injector.more.one_in(12)
            }
            _ => self.has_to_go_on_without(node),
        }
    }

    /// Whether a node may be stopped: more nodes must continue than are stopped for good.
    fn may_stop(&self) -> bool {
        let awake =
            self.living().into_iter().filter(|node| !self.injector.is_stopped(*node)).count();
        let all_may = self.injector.stops_most && self.asks_host && self.kind.is_local();
        awake > 2 + if all_may { 0 } else { self.injector.stopped.len() }
    }

    /// Makes a node stand still until the others have been judged.
    fn stop(&mut self, node: NodeIndex) {
        let step = step_of(&self.cluster, node);
        let at = step.map_or(String::new(), |step| format!(" ({})", step.name()));
        self.tell(node, &format!("is stopped until the others are judged{at}"));
        self.report.stops += 1;
        self.mark_affected(node, u64::MAX);
        self.halt(node);
        self.injector.stopped.insert(node);
    }

    /// Continues the nodes that stood still while the others were judged.
    pub(crate) fn wake_stopped(&mut self) {
        for node in std::mem::take(&mut self.injector.stopped) {
            self.end(FaultEnd::Resume(node, None));
        }
    }

    /// Stops a node for good.
    pub fn crash(&mut self, node: NodeIndex) {
        if !self.cluster.is_running(node) {
            return;
        }
        let step = step_of(&self.cluster, node);
        let leads =
            self.member(node).group().status() == MemberStatus::Member && self.member(node).leads();
        let at = step.map_or(String::new(), |step| format!(" ({})", step.name()));
        let role = if leads { ", the leader" } else { "" };
        self.tell(node, &format!("CRASHES{at}{role}"));
        self.report.crashes += 1;
        if let Some(step) = step {
            self.report.coverage.crashes[step as usize] += 1;
            self.report.coverage.leader_crashes[step as usize] += u64::from(leads);
        }
        self.report.coverage.transfers_cut += u64::from(self.cuts_transfer(node));
        self.cluster.crash(node);
    }

    /// Whether this node is about to receive a state transfer, or to send one.
    fn cuts_transfer(&self, node: NodeIndex) -> bool {
        let own = self.member(node).group();
        if own.status() != MemberStatus::Member || own.view().number == 0 {
            return false;
        }
        let first = own.view().members.iter().map(|member| member.node).find(|member| {
            let is_it = |index: &NodeIndex| self.member(*index).me == *member;
            let index = self.all().into_iter().find(is_it);
            index.is_some_and(|index| self.member(index).group().is_informed())
        });
        let waits = self.living().into_iter().any(|other| {
            let group = self.member(other).group();
            group.view() == own.view() && !group.is_informed()
        });
        waits && (!own.is_informed() || first == Some(self.member(node).me))
    }

    fn pause(&mut self, node: NodeIndex) {
        if self.injector.has(Fault::Stop) && self.injector.more.one_in(5) && self.may_stop() {
            return self.stop(node);
        }
        let step = step_of(&self.cluster, node);
        let at = step.map_or(String::new(), |step| format!(" ({})", step.name()));
        self.tell(node, &format!("is paused{at}"));
        self.report.pauses += 1;
        step.into_iter().for_each(|step| self.report.coverage.pauses[step as usize] += 1);
        self.mark_affected(node, u64::MAX);
        self.halt(node);
        let views = step.map(|_| self.checker.borrow().view_changes);
        let (low, high) = match self.injector.aimed && self.random.one_in(2) {
            true => (1_000, 200_000),
            false => (10_000, 8_000_000),
        };
        self.later(low, high, FaultEnd::Resume(node, views));
    }

    /// Cuts between this node's side and the others: all of them, or some, or in one direction.
    fn cut(&mut self, node: NodeIndex, one_way: bool) {
        let running = self.running();
        let partial = self.random.one_in(2);
        let mut side = vec![node];
        for other in running.iter().filter(|other| **other != node) {
            if self.random.one_in(3) {
                side.push(*other);
            }
        }
        let mut pairs: Vec<Pair> = Vec::new();
        for &from in &side {
            for &to in running.iter().filter(|to| !side.contains(to)) {
                if partial && self.random.one_in(2) {
                    continue;
                }
                pairs.push((from, to));
                if !one_way {
                    pairs.push((to, from));
                }
            }
        }
        if one_way && self.random.one_in(2) {
            pairs.iter_mut().for_each(|pair| *pair = (pair.1, pair.0));
        }
        if pairs.is_empty() {
            return;
        }
        self.report.partitions += 1;
        self.record(&format!("cut from now on: {}", names(&pairs)));
        for &(from, to) in &pairs {
            self.cluster.network().cut(from, to);
            self.mark_affected(from, u64::MAX);
            self.mark_affected(to, u64::MAX);
        }
        self.later(20_000, 6_000_000, FaultEnd::Heal(pairs));
    }

    /// Slows down this node's posts: equally to all peers, or randomly for each.
    fn hamper(&mut self, node: NodeIndex, at_random: bool) {
        let running = self.running();
        let mut pairs: Vec<Pair> = Vec::new();
        let factor = if at_random { 1 } else { self.random.between(2, 60) };
        for other in running.into_iter().filter(|other| *other != node) {
            if at_random || self.random.one_in(2) {
                pairs.push((node, other));
                self.mark_affected(other, u64::MAX);
                let later = if at_random { self.random.below(300_000) } else { 0 };
                self.cluster.network().hamper(node, other, factor, later);
            }
        }
        self.mark_affected(node, u64::MAX);
        self.record(&format!("slow from now on: {}", names(&pairs)));
        self.later(50_000, 3_000_000, FaultEnd::Unhamper(pairs));
    }
}

fn names(pairs: &[Pair]) -> String {
    let names: Vec<String> =
        pairs.iter().map(|(from, to)| format!("n{} to n{}", from.0, to.0)).collect();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}
