//! Versions up to which the logs of a subgroup are durable everywhere (I-105), and the logs that
//! they name (I-113).
//!
//! Owns: what the members that keep logs have reported, including whose logs wait for space, and
//! what this member has announced. Never does: take a report of durability back.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::fault::{Fault, planted};
use crate::ids::{NodeId, RegionId};
use crate::log::LogId;

/// Durability of a subgroup's logs; see the [module](self).
#[derive(Default)]
pub(crate) struct DurabilityTracker {
    /// The other members of the epoch, with the regions of their lines.
    members: BTreeMap<NodeId, RegionId>,
    /// Last version that each member reports as durable in its log.
    reported_by: BTreeMap<NodeId, u64>,
    /// Last durable version of the own log that was announced to each member.
    announced_to: BTreeMap<NodeId, u64>,
    /// Last version that is durable everywhere.
    everywhere: u64,
    /// Logs that the logs of others durably name; the logs that this member's log durably names,
    /// and the members to which this was announced.
    named_by: BTreeMap<NodeId, Vec<LogId>>,
    names: Vec<LogId>,
    names_announced: Vec<NodeId>,
    /// Members whose logs wait for space.
    full: BTreeSet<NodeId>,
    /// Members that know that this member's log waits for space.
    fullness_announced: BTreeSet<NodeId>,
}

impl DurabilityTracker {
    /// Sets the other members, with the regions of their lines. A member with a changed region has
    /// left and joined again: it knows none of the earlier announcements, and may have reported
    /// something already.
    pub(crate) fn begun(&mut self, members: impl Iterator<Item = (NodeId, RegionId)>) {
        let before = core::mem::replace(&mut self.members, members.collect());
        let members = &self.members;
        let is_member = |node: &NodeId| members.contains_key(node);
        self.reported_by.retain(|node, _| is_member(node));
        self.named_by.retain(|node, _| is_member(node));
        let has_same_lines = |node: &NodeId| {
            members.get(node).is_some_and(|lines| before.get(node).is_none_or(|it| it == lines))
        };
        self.full.retain(has_same_lines);
        self.announced_to.retain(|node, _| has_same_lines(node));
        self.names_announced.retain(has_same_lines);
        self.fullness_announced.retain(has_same_lines);
    }

    /// Notes that the log of a member durably names these logs.
    pub(super) fn note_names(&mut self, of: NodeId, logs: Vec<LogId>) {
        self.named_by.insert(of, logs);
    }

    /// Whether the logs of all these members name this one (I-113).
    pub(super) fn is_named(&self, log: LogId, by: impl Iterator<Item = NodeId>) -> bool {
        let mut all = by.map(|node| self.named_by.get(&node));
        all.all(|names| names.is_some_and(|names| names.contains(&log)))
    }

    /// Notes that the log of this member durably names these logs. Returns the members to
    /// which this must still be announced.
    pub(super) fn names_unannounced(&mut self, own_names: &[LogId]) -> Vec<NodeId> {
        if self.names != own_names {
            (self.names, self.names_announced) = (own_names.to_vec(), Vec::new());
        }
        if own_names.is_empty() {
            return Vec::new();
        }
        let unannounced = self.members.keys().filter(|node| !self.names_announced.contains(node));
        unannounced.copied().collect()
    }

    /// Notes the announcement to this member.
    pub(super) fn note_names_announced(&mut self, to: NodeId) {
        self.names_announced.push(to);
    }

    /// Notes whether the log of a member waits for space.
    pub(super) fn note_full(&mut self, of: NodeId, is_full: bool) {
        match is_full {
            true => self.full.insert(of),
            false => self.full.remove(&of),
        };
    }

    /// Other members whose logs wait for space.
    pub(super) fn full(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.full.iter().copied()
    }

    /// Returns the members that do not know yet whether this member's log waits for space.
    pub(super) fn fullness_unannounced(&self, is_full: bool) -> Vec<NodeId> {
        let knows = |node: &&NodeId| self.fullness_announced.contains(*node) == is_full;
        self.members.keys().filter(|node| !knows(node)).copied().collect()
    }

    /// Notes the announcement to this member.
    pub(super) fn note_fullness_announced(&mut self, to: NodeId, is_full: bool) {
        match is_full {
            true => self.fullness_announced.insert(to),
            false => self.fullness_announced.remove(&to),
        };
    }

    /// Notes the last version that a member reports as durable in its log.
    pub(crate) fn note_reported(&mut self, by: NodeId, version: u64) {
        let known = self.reported_by.entry(by).or_default();
        *known = version.max(*known);
    }

    /// Returns the members to which this version must still be announced.
    pub(crate) fn unannounced(&self, version: u64) -> Vec<NodeId> {
        let knows =
            |node: &&NodeId| self.announced_to.get(*node).is_none_or(|known| *known < version);
        self.members.keys().filter(knows).copied().filter(|_| version > 0).collect()
    }

    /// Notes the announcement to this member.
    pub(crate) fn note_announced(&mut self, to: NodeId, version: u64) {
        self.announced_to.insert(to, version);
    }

    /// Computes what is durable everywhere, if `storers` are the members with a log that hold the
    /// store, and `own_durable` is the last durable version in the log of this member `me`. Returns
    /// whether it has advanced.
    pub(crate) fn settle(
        &mut self,
        me: NodeId,
        own_durable: u64,
        storers: impl Iterator<Item = NodeId>,
    ) -> bool {
        let of = |node: NodeId| match node == me {
            true => own_durable,
            false => self.reported_by.get(&node).copied().unwrap_or(0),
        };
        let versions = storers.map(of);
        let least = match planted(Fault::DurableAnywhere) {
            true => versions.max(),
            false => versions.min(),
        };
        let least = least.unwrap_or(0);
        let moved = least > self.everywhere;
        self.everywhere = self.everywhere.max(least);
        moved
    }

    /// Last version that is durable everywhere.
    pub(crate) fn everywhere(&self) -> u64 {
        self.everywhere
    }
}
