//! Rules that must hold when no fault is active any more.
//!
//! Owns: liveness, and the decision whether a group may be lost. Never does: ask the protocol
//! whether it may.
//!
//! A node that a fault has affected need not continue: a node that stood still, was slow, was cut
//! off from others or has lost a connection for good. But the newest view may have members that
//! were not affected since shortly before it began. If those are a primary partition of it
//! (networked), or more than the other live members (local), the group continues, and every member
//! then gets everything.

use std::collections::BTreeSet;

use derecho_core::ids::NodeId;
use derecho_core::membership::{MemberStatus, View};
use derecho_sim::NodeIndex;

use crate::checker::{TopicReader, is_primary};
use derecho_sim::world::TIMEOUT;

use crate::member::LifeMember;
use crate::world::{GroupKind, World};

/// Time within which a group comes to rest after the last fault; nothing that a member waits for
/// takes longer than a few hundred milliseconds.
const REST: u64 = 3_000_000_000;
const LOOK: u64 = 500_000;

/// Time within which a message written at rest is delivered.
const DELIVERY: u64 = 5_000_000;

/// Time within which it is delivered while nodes stand still: members that wait for these nodes
/// first continue without them.
const WITHOUT_STOPPED: u64 = 100_000_000;

/// Time within which posts made on a slow link have arrived, and everything behind them.
const IN_FLIGHT: u64 = 200_000_000;

/// Maximum time between the start of a silence and a view in which the silence may be noticed.
const AFTERMATH: u64 = 3 * TIMEOUT;

impl World {
    /// Ends all faults, and lets the group come to rest. Returns whether it has.
    pub fn settle(&mut self) -> bool {
        self.end_all_faults();
        let end = self.now().after(REST);
        while !self.is_guilty() && !self.is_at_rest() {
            if self.now() >= end {
                self.charge_unrest();
                return false;
            }
            self.run(LOOK);
        }
        !self.is_guilty()
    }

    /// Whether all live nodes are members of one view, all topics have come to rest, and every node
    /// that wants to be a member is one, if there is a group.
    ///
    /// Nodes that stand still until the others have been judged may be members or not, and no node
    /// waits for them.
    fn is_at_rest(&self) -> bool {
        let living = self.awake();
        let mut nodes: Vec<NodeId> = living.iter().map(|node| self.member(*node).me).collect();
        nodes.sort_unstable();
        let stopped = |node: &NodeId| {
            self.all()
                .into_iter()
                .any(|i| self.injector.is_stopped(i) && self.member(i).me == *node)
        };
        let settled = living.iter().all(|node| {
            let group = self.member(*node).group();
            let members = group.view().members.iter().map(|member| member.node);
            let mut members: Vec<NodeId> = members.filter(|node| !stopped(node)).collect();
            members.sort_unstable();
            group.is_settled() && members == nodes
        });
        let is_out =
            |node: &NodeIndex| matches!(self.member(*node).group().status(), MemberStatus::Out(_));
        // A node that has lost its connection to a member cannot be in a view with it.
        let is_cut_off = |node: &NodeIndex| {
            living.iter().any(|other| self.cluster.network().is_broken(*node, *other))
        };
        let waiting = self
            .running()
            .into_iter()
            .filter(|node| !living.contains(node) && !is_out(node) && !is_cut_off(node))
            .filter(|node| !self.injector.is_stopped(*node));
        match living.is_empty() {
            // Nodes that wait for a lost networked group wait in vain.
            true => self.kind == GroupKind::Network && !self.has_to_go_on() || waiting.count() == 0,
            false => settled && waiting.count() == 0,
        }
    }

    /// Returns the members that do not stand still.
    fn awake(&self) -> Vec<NodeIndex> {
        let mut living = self.living();
        living.retain(|node| !self.injector.is_stopped(*node));
        living
    }

    fn charge_unrest(&mut self) {
        let what = format!("the group does not come to rest:{}", self.describe());
        self.checker.borrow_mut().record_violation("liveness", &what);
    }

    /// Describes the state of each live member.
    fn describe_states(&self) -> String {
        let states = self.living().into_iter().map(|node| {
            let group = self.member(node).group();
            format!("\n  n{}: {:?}", node.0, group.state())
        });
        states.collect::<String>() + &self.describe()
    }

    /// Describes the status of all nodes that are not out.
    fn describe(&self) -> String {
        let mut text = String::new();
        let journal = &self.checker.borrow().journal;
        for node in self.running() {
            let member = self.member(node);
            let (group, me) = (member.group(), journal.name_of(member.me));
            let agreement = group.agreement();
            if let MemberStatus::Out(fate) = agreement.status() {
                text += &format!("\n  {me}: out, {fate:?}");
                continue;
            }
            let (standing, stage) = (group.status(), agreement.stage());
            let view = agreement.view();
            let names = journal.names_of(view.members.iter().map(|member| member.node));
            let suspects = agreement.suspects().iter().map(|rank| view.member(rank).node);
            let suspects = journal.names_of(suspects);
            let others = self.running().into_iter().filter(|other| *other != node);
            let lost = others.filter(|other| self.cluster.network().is_broken(node, *other));
            let lost = journal.names_of(lost.map(|other| self.member(other).me));
            text +=
                &format!("\n  {me}: {standing:?}, {stage:?} in view {} of {names}", view.number);
            text += &format!(", suspects {suspects}, has lost {lost}; {}", group.describe());
        }
        text
    }

    /// Whether no fault affected a member of this view in a way that could be noticed in it.
    fn is_unaffected(&self, node: NodeId, view: &View, affected: Option<NodeIndex>) -> bool {
        let index = |node| self.all().into_iter().find(|index| self.member(*index).me == node);
        let Some(own) = index(node).filter(|own| self.cluster.is_running(*own)) else {
            return false;
        };
        let since = self.checker.borrow().newest_at.0.saturating_sub(AFTERMATH);
        let network = self.cluster.network();
        let others = view.members.iter().filter_map(|member| index(member.node));
        // A crashed peer has lost its connections to all, and affects no member.
        let mut others = others.filter(|other| *other != own && self.cluster.is_running(*other));
        // In a group on a network, a member whose messages are late may be taken for a failed one.
        let held_up = match self.kind {
            GroupKind::Network => network.held_up_until(own).0,
            GroupKind::Local | GroupKind::Shared => 0,
        };
        !self.checker.borrow().is_leaving(node)
            && affected != Some(own)
            && self.injector.affected_until(own).max(held_up) < since.max(1)
            && !others.any(|other| network.is_broken(own, other))
    }

    /// Whether there is a group that must not be lost. In the newest view, and in the views of
    /// unaffected members that do not know it, enough members must be unaffected to decide on the
    /// next one.
    fn has_to_go_on(&self) -> bool {
        self.must_continue_with(None)
    }

    /// Whether the group must continue when a fault affects this node as well.
    pub(crate) fn has_to_go_on_without(&self, node: NodeIndex) -> bool {
        self.must_continue_with(Some(node))
    }

    fn must_continue_with(&self, affected: Option<NodeIndex>) -> bool {
        let checker = self.checker.borrow();
        let newest = checker.newest().or(checker.founding()).cloned();
        drop(checker);
        // Before a local group is founded, any node can found it.
        let Some(newest) = newest else { return !self.running().is_empty() };
        let unaffected = |view: &View| -> BTreeSet<NodeId> {
            let nodes = view.members.iter().map(|member| member.node);
            nodes.filter(|node| self.is_unaffected(*node, view, affected)).collect()
        };
        let checker = self.checker.borrow();
        let last = unaffected(&newest).into_iter().filter_map(|node| checker.last_view_of(node));
        let views: Vec<View> = last.chain([&newest]).cloned().collect();
        drop(checker);
        views.iter().all(|view| {
            let unaffected = unaffected(view);
            match self.kind {
                GroupKind::Network => is_primary(view, |node| unaffected.contains(&node)),
                GroupKind::Local | GroupKind::Shared => {
                    // I-45: the host shows which nodes stand still.
                    let is_halted =
                        |index: &NodeIndex| self.asks_host && self.injector.is_stopped(*index);
                    let mut running = self.running();
                    running.retain(|index| !is_halted(index));
                    let lives = |node| running.iter().any(|index| self.member(*index).me == node);
                    let living = view.members.iter().filter(|member| lives(member.node));
                    // A node that was in no view yet learns of this one from members alone.
                    let checker = self.checker.borrow();
                    let knows = |node: &NodeId| checker.last_view_of(*node).is_some();
                    2 * unaffected.len() > living.count() && unaffected.iter().any(knows)
                }
            }
        })
    }

    /// Judges the end of a life: first the guarantees that hold while nodes stand still; then all
    /// faults end, and all guarantees are checked.
    pub fn check(&mut self) {
        self.end_all_faults();
        if self.injector.any_stopped() {
            if self.has_to_go_on() && self.settle() && !self.awake().is_empty() {
                // No member waits for records that a reader holds: a wait without end meets a late
                // answer.
                self.read_all();
                let before = self.awake();
                self.run(IN_FLIGHT);
                let awake = self.awake();
                let is_lost = before.iter().any(|node| !awake.contains(node));
                if is_lost && !self.checker.borrow().has_late_links {
                    let what = "a member is lost while others stand still";
                    self.checker.borrow_mut().record_violation("liveness", what);
                }
                self.check_liveness();
                self.report.judged_without += 1;
            }
            if self.is_guilty() {
                return;
            }
            self.wake_stopped();
        }
        if !self.settle() {
            return;
        }
        self.run(IN_FLIGHT);
        self.check_isolation();
        if self.living().is_empty() {
            return self.check_loss();
        }
        self.report.judged += 1;
        if let Some(living) = self.check_liveness() {
            let there = living.iter().map(|node| self.member(*node).me).collect();
            self.checker.borrow_mut().judge(&there);
        }
    }

    /// Checks that members that do not stand still have one state, and that their writes reach all
    /// of their readers. Returns these members, unless a rule was broken.
    fn check_liveness(&mut self) -> Option<Vec<NodeIndex>> {
        // A node may begin to read later because its request waited for nodes that stand still; it
        // then lacks earlier messages.
        let mut read_before = self.readers_among(&self.awake());
        if self.injector.any_stopped() {
            let has_begun = |reader: &TopicReader| {
                let mut nodes = self.awake().into_iter().map(|node| self.member(node));
                nodes.any(|member| member.me == reader.node && member.reads_now(reader.topic))
            };
            read_before.retain(has_begun);
        }
        if !self.write_once_more() {
            return None;
        }
        let (living, written) = (self.awake(), self.writers());
        let patience = if self.injector.any_stopped() { WITHOUT_STOPPED } else { DELIVERY };
        let end = self.now().after(patience);
        let mut missing;
        loop {
            self.read_all();
            self.run(LOOK);
            let mut readers = self.readers_among(&living);
            readers.retain(|reader| read_before.contains(reader));
            let (lacks, looked_for) = self.checker.borrow().missing(&readers, &written);
            missing = lacks;
            if missing.is_empty() || self.now() >= end {
                self.report.looked_for += looked_for;
                break;
            }
        }
        missing
            .iter()
            .for_each(|what| self.checker.borrow_mut().record_violation("liveness", what));
        let groups: Vec<_> = living.iter().map(|node| self.member(*node).group()).collect();
        if groups.windows(2).any(|pair| pair[0].state() != pair[1].state()) {
            let what = format!("members have different states:{}", self.describe_states());
            self.checker.borrow_mut().record_violation("agreement", &what);
            return None;
        }
        if self.awake() != living {
            self.checker
                .borrow_mut()
                .record_violation("liveness", "a member is lost while nothing happens");
        }
        if self.is_guilty() {
            let text = self.describe();
            let mut checker = self.checker.borrow_mut();
            checker.journal.record(format_args!("states of all nodes:{text}"));
            return None;
        }
        Some(living)
    }

    /// Returns the readers of all topics among these nodes.
    fn readers_among(&self, nodes: &[NodeIndex]) -> Vec<TopicReader> {
        let Some(first) = nodes.first() else { return Vec::new() };
        let is_among = |node| nodes.iter().any(|index| self.member(*index).me == node);
        let parts = self.member(*first).group().state().0.iter();
        let reads = parts.filter(|((_, node), part)| part.reads && is_among(*node));
        reads.map(|((topic, node), _)| TopicReader { node: *node, topic: *topic }).collect()
    }

    /// Lets late readers take the rest and release everything, so that no writer waits for them.
    fn read_all(&mut self) {
        for node in self.awake() {
            self.inject(node, LifeMember::read_all);
        }
        self.run(LOOK);
    }

    /// Makes every writer write until its last message is one for which all readers were present.
    fn write_once_more(&mut self) -> bool {
        let before = self.writers();
        for _ in 0..500 {
            let now = self.writers();
            if now.len() != before.len() {
                self.checker
                    .borrow_mut()
                    .record_violation("liveness", "a writer is lost while nothing happens");
                return false;
            }
            if now.iter().zip(&before).all(|(now, before)| now.count > before.count) {
                return true;
            }
            self.write_for(1);
        }
        self.checker.borrow_mut().record_violation("liveness", "a writer never gets room");
        false
    }

    /// Checks that nodes that are out report that for good, and refuse everything.
    fn check_isolation(&mut self) {
        let out = self.checker.borrow().out().clone();
        for node in self.running() {
            let member = self.cluster.machine_mut(node, 0);
            let Some(fate) = out.get(&member.me).copied() else { continue };
            let standing = member.group().status();
            if standing != MemberStatus::Out(fate) || !member.refuses() {
                let what = format!("node {} is out ({fate:?}) and acts: {standing:?}", node.0);
                self.checker.borrow_mut().record_violation("isolation", &what);
            }
        }
    }

    /// Judges a life at whose end no member is left.
    fn check_loss(&mut self) {
        self.report.lost += 1;
        if self.has_to_go_on() {
            let checker = self.checker.borrow();
            let newest = checker.newest().or(checker.founding());
            let newest = newest.map(|view| (view.number, view.members.clone()));
            drop(checker);
            let what =
                format!("no member continues, although enough nodes were unaffected: {newest:?}");
            self.checker.borrow_mut().record_violation("liveness", &what);
        }
        self.checker.borrow_mut().judge(&BTreeSet::new());
    }
}
