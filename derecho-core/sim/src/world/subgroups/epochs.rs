//! A member's way from epoch to epoch, as an oracle announces it.

use std::collections::BTreeMap;

use derecho_core::ids::Peer;
use derecho_core::machine::Effects;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::stream::StreamStart;
use derecho_core::multicast::subgroup::SUBGROUP_LINES;
use derecho_core::multicast::subgroup::epoch::EpochPhase;
use derecho_core::node::{
    EpochDescription, EpochMember, MemberRole, StreamEnd, StreamOrigin, StreamProgress, SubgroupId,
    SubgroupMemory,
};

use super::checker::{DecidedEpoch, EpochRole};
use super::member::SubgroupMember;
use super::oracle::DECIDED;
use crate::world::ordered::Rule;

/// Report of a wedged member: the epoch, and for each writer the beginning and the number of
/// received entries.
pub(super) type Report = (u64, BTreeMap<usize, (u64, u64)>);

impl SubgroupMember {
    /// Its subgroup, of which it is a member or on its way.
    fn id(&self) -> SubgroupId {
        self.parts[DECIDED].id.expect("the oracle speaks to members")
    }

    /// Its phase in its epoch, if it is a member.
    pub fn phase(&self) -> Option<EpochPhase> {
        self.parts[DECIDED].id.and_then(|id| self.node.phase(id))
    }

    /// Number of the epoch that it is in or about to begin.
    pub(super) fn progress(&self) -> u64 {
        self.node.progress(self.id()).expect("the node is a member").0
    }

    /// Creates the role of this node as a new member.
    pub(super) fn new_role(&mut self, slot: usize, reads: bool, sends: bool) -> EpochRole {
        let lines = self.open_lines(DECIDED, SUBGROUP_LINES);
        let writer = sends.then(|| self.open_stream(DECIDED));
        EpochRole { node: self.me, slot, reads, writer, lines }
    }

    /// Converts a plan into the form in which it is announced to this node. `starts`: whether to
    /// include its beginnings.
    fn epoch_of(&self, plan: &DecidedEpoch, starts: bool) -> EpochDescription {
        let region = |writer: usize| self.checker.borrow().writers[writer].region;
        let seats = plan.roles.iter().map(|role| {
            // A node that is gone has no handle any more, and nothing can be begun with it.
            let origin = self.origin(role.node).unwrap_or(StreamOrigin::Peer(Peer(u32::MAX)));
            let (reads, sends) = (role.reads, role.writer.map(region));
            let member = MemberRole { origin, reads, sends, lines: role.lines };
            let start = role.writer.filter(|_| starts);
            let start = start.and_then(|writer| plan.starts.get(&writer).copied());
            EpochMember { slot: role.slot, role: member, start }
        });
        let seats = seats.collect();
        EpochDescription { number: plan.number, name: 1_000 + plan.number, members: seats }
    }

    /// Returns the memory that it brings into an epoch, if it begins to send there.
    fn memory_for(&self, plan: &DecidedEpoch) -> Option<SenderMemory> {
        let sends = plan.role_of(self.me).is_some_and(|place| place.writer.is_some());
        self.parts[DECIDED].sending.filter(|_| sends).map(|sending| sending.memory.clone())
    }

    fn refuses(&self, what: &str, plan: &DecidedEpoch) {
        let text = format!("node {} refuses {what} {plan:?}", self.me);
        self.checker.borrow_mut().violations.record(Rule::Refusal, text);
    }

    /// Joins the subgroup in this epoch.
    pub(super) fn join(&mut self, plan: &DecidedEpoch, effects: &mut Effects) {
        let epoch = self.epoch_of(plan, true);
        let (_, lines) = self.parts[DECIDED].lines.clone().unwrap();
        let share = SubgroupMemory { lines, memory: self.memory_for(plan) };
        let id = self.node.join(self.scenario.terms, epoch, share, effects);
        self.parts[DECIDED].id = id;
        if id.is_none() {
            self.refuses("to join", plan);
        }
        self.ring_all(effects);
    }

    /// Learns of the next epoch.
    pub(super) fn change_layout(&mut self, plan: &DecidedEpoch, effects: &mut Effects) {
        let epoch = self.epoch_of(plan, false);
        let memory = self.memory_for(plan);
        if !self.node.change_layout(self.id(), epoch, memory, effects) {
            self.refuses("to change to", plan);
        }
        self.note_cut();
        self.ring_all(effects);
    }

    /// Stops until the end of the epoch is decided, and reports.
    pub(super) fn wedge(&mut self) -> Report {
        let id = self.id();
        self.node.wedge_subgroup(id);
        let (epoch, reach) = self.node.progress(id).unwrap();
        let reach =
            reach.into_iter().filter_map(|StreamProgress { origin, stream, start, received }| {
                let node = self.node_of(origin)?;
                Some((self.checker.borrow().writer(node, stream), (start, received)))
            });
        (epoch, reach.collect())
    }

    /// Returns the beginnings of the next epoch, as far as this node knows them.
    pub(super) fn starts(&self) -> BTreeMap<usize, StreamStart> {
        let starts = self.node.starts(self.id()).into_iter();
        starts
            .filter_map(|(origin, stream, start)| {
                let node = self.node_of(origin)?;
                Some((self.checker.borrow().writer(node, stream), start?))
            })
            .collect()
    }

    /// Ends the epoch at this trim. `over`: epochs to skip that have ended without the node, and
    /// whether it should have read in each.
    pub(super) fn finish(&mut self, trim: &BTreeMap<usize, u64>, over: &[bool]) {
        let id = self.id();
        let named = trim.iter().filter_map(|(&writer, &entry)| {
            let writer = self.checker.borrow().writers[writer];
            Some(StreamEnd { origin: self.origin(writer.node)?, stream: writer.region, entry })
        });
        let named: Vec<_> = named.collect();
        let before = self.node.phase(id);
        let epoch = self.parts[DECIDED].epoch_id();
        if !self.node.finish(id, &named) {
            let text = format!("node {} cannot finish {epoch:?} at {trim:?}", self.me);
            self.checker.borrow_mut().violations.record(Rule::Refusal, text);
            return;
        }
        self.observe();
        if let Some(epoch) = epoch.filter(|_| before == Some(EpochPhase::Wedged)) {
            self.checker.borrow_mut().finishes(self.me, epoch);
        }
        for &reads in over {
            self.node.pass_over(id, reads);
            self.parts[DECIDED].reading &= reads;
        }
    }

    /// Excludes nodes that are no longer members of the group.
    pub(super) fn put_out(&mut self, nodes: &[usize]) {
        for &node in nodes {
            if let Some(StreamOrigin::Peer(peer)) = self.origin(node) {
                self.node.put_out(peer);
            }
        }
    }

    /// Continues in this epoch after a view change.
    pub(super) fn next_epoch(&mut self, plan: &DecidedEpoch, effects: &mut Effects) {
        let epoch = self.epoch_of(plan, true);
        let memory = self.memory_for(plan);
        if !self.node.next_epoch(self.id(), epoch, memory, effects) {
            self.refuses("to go on to", plan);
        }
        self.ring_all(effects);
    }

    /// Whether its application refers to a record, or the node still assumes so.
    pub(super) fn holds(&self) -> bool {
        let part = &self.parts[DECIDED];
        part.holds() || part.id.is_some_and(|id| self.node.holds(id))
    }

    /// Records the end of its stream by a change of layout, as soon as the node knows it.
    pub(super) fn note_cut(&mut self) {
        let part = &self.parts[DECIDED];
        if let (Some(id), Some(epoch), Some(sending)) = (part.id, part.epoch, part.sending)
            && let Some(cut) = self.node.cut(id)
        {
            self.checker.borrow_mut().cuts.insert((epoch, sending.writer), cut);
        }
    }
}
