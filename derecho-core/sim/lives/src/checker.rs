//! Rules over everything that members of a group write, install and deliver, including crashed and
//! excluded ones.
//!
//! Owns: the rules, with their names, and the data that they need. Never does: look into a node;
//! applications report what they did and saw.
//!
//! * order: any two members deliver an epoch of an atomic topic in the same order, and a reader
//!   that takes late takes in the member's order.
//! * content: a record that a late reader takes or holds stays as it was written.
//! * sequence: of each writer every message comes once, and none is left out, across epochs.
//! * origin: every delivered message was written, byte for byte.
//! * agreement: a member that continues from an epoch has delivered everything that any member has
//!   delivered of it.
//! * state: members that have the group's state begin a view with the same state.
//! * views: each number has one view, and each epoch one layout; members install views in order.
//! * partition: a networked view is decided by a primary partition of the previous one.
//! * isolation: a node that is out delivers nothing, and its later writes are delivered nowhere.
//! * progress: no live member is found to make no progress, unless links copy late.

use std::collections::{BTreeMap, BTreeSet};

use derecho_core::group::Wait;
use derecho_core::group::registry::Layout;
use derecho_core::ids::{NodeId, RegionId, Time};
use derecho_core::link::Generation;
use derecho_core::membership::{ExitReason, View, WaitAnswer};
use derecho_core::multicast::subgroup::DeliveryGuarantee;

use derecho_sim::world::ordered::Orders;

use crate::journal::Journal;
use crate::topics::{Topics, level_of};

/// A writer, and the stream of one of its memberships of a topic.
pub(crate) type Writer = (NodeId, u64);

/// A message as delivered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Delivered {
    pub(crate) writer: Writer,
    pub(crate) number: u64,
}

/// A topic, and one membership of it, named by its lines.
pub(crate) type TopicMembership = (u64, RegionId);

/// A reader of a topic.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopicReader {
    pub(crate) node: NodeId,
    pub(crate) topic: u64,
}

/// A stream in a topic, and the number of messages written there.
#[derive(Clone, Copy)]
pub(crate) struct WrittenStream {
    pub(crate) writer: Writer,
    pub(crate) topic: u64,
    pub(crate) count: u64,
}

/// An epoch of a topic: group, topic, and name of the epoch.
pub(crate) type Epoch = (Generation, u64, u64);

/// Deliveries of one member in a topic.
#[derive(Default)]
struct DeliveryLog {
    /// Number of deliveries in each epoch.
    counts: BTreeMap<Epoch, usize>,
    /// Epochs that the member has begun, and whether it reads in them.
    begun: Vec<(Epoch, bool)>,
    /// Number of the last message, by writer.
    last: BTreeMap<Writer, u64>,
    left: bool,
}

/// The checker, see the [module](self).
#[derive(Default)]
pub struct SafetyChecker {
    logs: BTreeMap<(NodeId, TopicMembership), DeliveryLog>,
    /// Order of each epoch, as far as any member has delivered it.
    orders: Orders<Epoch, Delivered>,
    layouts: BTreeMap<Epoch, (Layout, u64)>,
    views: BTreeMap<(Generation, u64), View>,
    /// Time at which the newest view was first installed.
    pub(crate) newest_at: Time,
    /// State with which the members that have it begin a view.
    states: BTreeMap<(Generation, u64), Topics>,
    installed: BTreeMap<NodeId, (Generation, u64)>,
    /// Number of messages of each writer; those written after the writer was out are void.
    written: BTreeMap<Writer, u64>,
    void: BTreeMap<Writer, u64>,
    leaving: BTreeSet<NodeId>,
    out: BTreeMap<NodeId, ExitReason>,
    pub(crate) messages: u64,
    pub(crate) deliveries: u64,
    pub(crate) epochs: u64,
    pub(crate) view_changes: u64,
    pub(crate) layouts_met: u64,
    pub(crate) journal: Journal,
    pub(crate) violations: Vec<String>,
    /// Findings that a member makes no progress: the finding node, the condition, and the answer.
    pub(crate) stuck: Vec<(NodeId, Wait, WaitAnswer)>,
    /// True if links may copy late by any time: a member that does not receive the words may then
    /// be excluded (I-336).
    pub(crate) has_late_links: bool,
    digest: u64,
}

impl SafetyChecker {
    /// Records a violation of a rule.
    pub(crate) fn record_violation(&mut self, rule: &str, what: &str) {
        let at = self.journal.now.0 as f64 / 1000.0;
        self.journal.record(format_args!("VIOLATION of {rule}: {what}"));
        self.violations.push(format!("{rule}: {what} (at {at} µs)"));
    }

    /// Sets the founders of a networked group.
    pub(crate) fn founders(&mut self, view: View) {
        self.views.insert((Generation::NONE, 0), view);
    }

    /// Returns the newest installed view of the group that was founded last.
    pub(crate) fn newest(&self) -> Option<&View> {
        self.views.last_key_value().map(|(_, view)| view).filter(|view| view.number > 0)
    }

    /// Returns the view that a node has installed last, or in which it is a founder.
    pub(crate) fn last_view_of(&self, node: NodeId) -> Option<&View> {
        self.installed.get(&node).map_or(self.founding(), |key| self.views.get(key))
    }

    pub(crate) fn founding(&self) -> Option<&View> {
        self.views.get(&(Generation::NONE, 0))
    }

    pub(crate) fn is_leaving(&self, node: NodeId) -> bool {
        self.leaving.contains(&node)
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn installs(&mut self, node: NodeId, view: &View) {
        self.note([1, node.0 as u64, view.number, view.members.len() as u64]);
        let members = self.journal.names_of(view.members.iter().map(|member| member.node));
        self.journal.record_for(node, format_args!("installs view {}: {members}", view.number));
        let name = self.journal.name_of(node);
        if let Some(fate) = self.out.get(&node) {
            let what = format!("{name} is out ({fate:?}) and installs view {}", view.number);
            self.record_violation("isolation", &what);
        }
        let key = (view.group, view.number);
        match self.views.get(&key) {
            Some(known) if known != view => {
                let what = format!("{name} installs {view:?}, others {known:?}");
                self.record_violation("views", &what);
            }
            Some(_) => {}
            None => {
                self.view_changes += 1;
                self.newest_at = self.journal.now;
                if let Some(why) = self.lacks_partition(view) {
                    self.record_violation("partition", &why);
                }
                self.views.insert(key, view.clone());
            }
        }
        let last = self.installed.insert(node, key);
        if last.is_some_and(|(group, number)| (group, number + 1) != key) {
            let what = format!("{name} installs view {key:?} after {last:?}");
            self.record_violation("views", &what);
        }
    }

    /// Checks the state with which a view begins at a node.
    pub(crate) fn begins_with(&mut self, node: NodeId, view: &View, state: &Topics) {
        let known = self.states.entry((view.group, view.number)).or_insert_with(|| state.clone());
        if known != state {
            let name = self.journal.name_of(node);
            let what =
                format!("{name} begins view {} with {state:?}, others {known:?}", view.number);
            self.record_violation("state", &what);
        }
    }

    /// Checks that the continuing members and those that asked to leave could decide a networked
    /// view: more than half of the votes, or half of them with the lowest-ranked voter.
    fn lacks_partition(&self, view: &View) -> Option<String> {
        let before = self.views.get(&(view.group, view.number.checked_sub(1)?))?;
        if view.group != Generation::NONE {
            return None;
        }
        let takes_part = |node| view.rank_of(node).is_some() || self.leaving.contains(&node);
        (!is_primary(before, takes_part)).then(|| {
            let names = |view: &View| self.journal.names_of(view.members.iter().map(|m| m.node));
            format!("view {} of {} follows {}", view.number, names(view), names(before))
        })
    }

    pub(crate) fn begins(
        &mut self,
        node: NodeId,
        membership: TopicMembership,
        epoch: Epoch,
        view: u64,
        layout: &Layout,
    ) {
        let (_, topic, number) = epoch;
        self.note([2, node.0 as u64, topic, number]);
        let name = self.journal.name_of(node);
        if self.journal.kept {
            let of = |wanted: fn(&derecho_core::group::registry::LayoutMember) -> bool| {
                let seats = layout.members.iter().filter(|seat| wanted(seat));
                self.journal.names_of(seats.map(|seat| seat.node))
            };
            let (readers, writers) = (of(|seat| seat.reads), of(|seat| seat.sends.is_some()));
            self.journal.record_for(
                node,
                format_args!(
                    "begins epoch {number} of topic {topic}: {readers} read, {writers} write"
                ),
            );
        }
        if self.out.contains_key(&node) {
            self.record_violation(
                "isolation",
                &format!("{name} is out and begins an epoch of topic {topic}"),
            );
        }
        match self.layouts.get(&epoch) {
            Some(known) if *known != (layout.clone(), view) => {
                let what =
                    format!("{name} begins {epoch:?} in view {view} as {layout:?}: {known:?}");
                self.record_violation("views", &what);
            }
            Some(_) => {}
            None => drop(self.layouts.insert(epoch, (layout.clone(), view))),
        }
        let reads = layout.member(node).is_some_and(|seat| seat.reads);
        self.logs.entry((node, membership)).or_default().begun.push((epoch, reads));
        self.epochs += 1;
    }

    pub(crate) fn left(&mut self, node: NodeId, membership: TopicMembership) {
        self.journal.record_for(node, format_args!("has left topic {}", membership.0));
        self.logs.entry((node, membership)).or_default().left = true;
    }

    pub(crate) fn wants_to_leave(&mut self, node: NodeId) {
        self.journal.record_for(node, format_args!("wants to leave"));
        self.leaving.insert(node);
    }

    /// Records that a node reports that it is no longer a member.
    pub(crate) fn is_out(&mut self, node: NodeId, fate: ExitReason) {
        self.note([3, node.0 as u64, fate as u64, 0]);
        self.journal.record_for(node, format_args!("is out: {fate:?}"));
        if self.out.insert(node, fate).is_some() {
            let name = self.journal.name_of(node);
            self.record_violation("isolation", &format!("{name} is out a second time: {fate:?}"));
        }
        let own = self.written.iter().filter(|((writer, _), _)| *writer == node);
        self.void.extend(own.map(|(writer, count)| (*writer, *count)));
    }

    /// Nodes that have reported that they are out.
    pub(crate) fn out(&self) -> &BTreeMap<NodeId, ExitReason> {
        &self.out
    }

    pub(crate) fn writes(&mut self, writer: Writer, number: u64) {
        self.messages += 1;
        let count = self.written.entry(writer).or_default();
        assert_eq!(*count, number, "applications number their messages");
        *count += 1;
        if self.out.contains_key(&writer.0) {
            // No member knew the stream while its writer was in.
            self.void.entry(writer).or_insert(number);
        }
    }

    pub(crate) fn delivers(
        &mut self,
        node: NodeId,
        membership: TopicMembership,
        epoch: Epoch,
        what: Delivered,
    ) {
        self.deliveries += 1;
        let Delivered { writer, number } = what;
        self.note([4, node.0 as u64, writer.1 ^ writer.0.0 as u64, number]);
        self.journal.delivers(node, membership.0);
        let log = self.logs.entry((node, membership)).or_default();
        let last = log.last.insert(writer, number);
        let count = log.counts.entry(epoch).or_default();
        let at = *count;
        *count += 1;
        let is_ordered = level_of(membership.0) == DeliveryGuarantee::Atomic;
        let other = is_ordered.then(|| self.orders.deliver(epoch, at, what)).flatten();
        let (name, from) = (self.journal.name_of(node), self.journal.name_of(writer.0));
        if last.is_some_and(|last| last + 1 != number) {
            let what =
                format!("{name} gets message {number} of {from} after {last:?} in {epoch:?}");
            self.record_violation("sequence", &what);
        }
        if other.is_some() {
            let what = format!("{name} delivers {what:?} at {at} of {epoch:?}, others {other:?}");
            self.record_violation("order", &what);
        }
        if self.written.get(&writer).is_none_or(|written| number >= *written) {
            self.record_violation(
                "origin",
                &format!("{name} gets message {number} of {from}: that message was never written"),
            );
        }
        if self.out.contains_key(&node) {
            self.record_violation("isolation", &format!("{name} is out and delivers {what:?}"));
        }
        if self.void.get(&writer).is_some_and(|void| number >= *void) {
            let what =
                format!("{name} gets {number} of {from}, which was out when it wrote that message");
            self.record_violation("isolation", &what);
        }
    }

    /// Checks agreement: a member that continues from an epoch has delivered everything that
    /// any member has delivered in it. At the end of a life this applies to the readers that
    /// are `there`.
    pub(crate) fn judge(&mut self, there: &BTreeSet<NodeId>) {
        let mut violations = Vec::new();
        for ((node, (topic, _)), log) in &self.logs {
            for (index, (epoch, reads)) in log.begun.iter().enumerate() {
                let goes_on = index + 1 < log.begun.len() || log.left || there.contains(node);
                let Some(all) = self.orders.length(epoch).filter(|_| goes_on && *reads) else {
                    continue;
                };
                let own = log.counts.get(epoch).copied().unwrap_or_default();
                if own != all {
                    let name = self.journal.name_of(*node);
                    violations
                        .push(format!("{name} has {own} of {all} of {epoch:?} of topic {topic}"));
                }
            }
        }
        violations.iter().for_each(|what| self.record_violation("agreement", what));
    }

    /// Checks liveness and self-delivery: these readers have everything that these writers wrote.
    /// Returns the missing messages, and the number of messages checked.
    pub(crate) fn missing(
        &self,
        readers: &[TopicReader],
        written: &[WrittenStream],
    ) -> (Vec<String>, u64) {
        let (mut missing, mut looked_for) = (Vec::new(), 0);
        for &TopicReader { node, topic } in readers {
            let name = self.journal.name_of(node);
            let is_own =
                |(of, (read, _)): &(NodeId, TopicMembership)| *of == node && *read == topic;
            let Some((_, log)) = self.logs.iter().rfind(|(key, _)| is_own(key)) else {
                missing.push(format!("{name} has begun no epoch of topic {topic}, which it reads"));
                continue;
            };
            for &WrittenStream { writer, count, .. } in
                written.iter().filter(|it| it.topic == topic)
            {
                let last = log.last.get(&writer).map_or(0, |last| last + 1);
                looked_for += count;
                if last != count {
                    let from = self.journal.name_of(writer.0);
                    missing
                        .push(format!("{name} has {last} of {count} of {from} in topic {topic}"));
                }
            }
        }
        (missing, looked_for)
    }

    fn note(&mut self, words: [u64; 4]) {
        for word in words {
            let mixed = (self.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.digest = mixed ^ mixed >> 29;
        }
    }
}

/// Whether the participants are a primary partition of a view: more than half of the votes, or half
/// of them with the lowest-ranked voter.
pub(crate) fn is_primary(view: &View, takes_part: impl Fn(NodeId) -> bool) -> bool {
    let voters: Vec<(NodeId, u32)> = view
        .members
        .iter()
        .filter(|member| member.votes > 0)
        .map(|member| (member.node, u32::from(member.votes)))
        .collect();
    let all: u32 = voters.iter().map(|(_, votes)| votes).sum();
    let here: u32 =
        voters.iter().filter(|(node, _)| takes_part(*node)).map(|(_, votes)| votes).sum();
    2 * here > all || (2 * here == all && voters.first().is_some_and(|(node, _)| takes_part(*node)))
}
