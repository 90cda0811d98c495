//! Up to which version the logs of a subgroup are durable everywhere (I-105), and whom they name (I-113).
//!
//! Owns: what the storers have told, whose logs wait for room among it, and whom this member has told what. Never does: take
//! back what it has said to be durable.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::fault::{Fault, planted};
use crate::ids::{NodeId, RegionId};
use crate::log::LogId;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Frontier {
    /// The members of the epoch but this one, with the regions of their lines.
    members: BTreeMap<NodeId, RegionId>,
    told_by: BTreeMap<NodeId, u64>,
    told_to: BTreeMap<NodeId, u64>,
    everywhere: u64,
    /// Whom the logs of others name, for good, and what of that of this member was told to whom.
    named_by: BTreeMap<NodeId, Vec<LogId>>,
    names: Vec<LogId>,
    names_told: Vec<NodeId>,
    /// The members whose logs wait for room.
    full: BTreeSet<NodeId>,
    /// The members that know that the log of this one waits for room.
    fullness_told: BTreeSet<NodeId>,
}

impl Frontier {
    /// These are the other members from now on, with the regions of their lines. A member whose region is another one has left
    /// meanwhile and come again: it knows nothing of what it was told before, and may have told something already.
    pub(crate) fn begun(&mut self, members: impl Iterator<Item = (NodeId, RegionId)>) {
        let before = core::mem::replace(&mut self.members, members.collect());
        let members = &self.members;
        let is_member = |node: &NodeId| members.contains_key(node);
        self.told_by.retain(|node, _| is_member(node));
        self.named_by.retain(|node, _| is_member(node));
        let stays = |node: &NodeId| {
            members.get(node).is_some_and(|lines| before.get(node).is_none_or(|it| it == lines))
        };
        self.full.retain(stays);
        self.told_to.retain(|node, _| stays(node));
        self.names_told.retain(stays);
        self.fullness_told.retain(stays);
    }

    /// The log of a member names these, for good.
    pub(super) fn names(&mut self, of: NodeId, logs: Vec<LogId>) {
        self.named_by.insert(of, logs);
    }

    /// Whether the logs of all these name this one (I-113).
    pub(super) fn is_named(&self, log: LogId, by: impl Iterator<Item = NodeId>) -> bool {
        let mut all = by.map(|node| self.named_by.get(&node));
        all.all(|names| names.is_some_and(|names| names.contains(&log)))
    }

    /// The log of this member names these, for good. Returns who is still to be told.
    pub(super) fn names_untold(&mut self, own: &[LogId]) -> Vec<NodeId> {
        if self.names != own {
            (self.names, self.names_told) = (own.to_vec(), Vec::new());
        }
        if own.is_empty() {
            return Vec::new();
        }
        let untold = self.members.keys().filter(|node| !self.names_told.contains(node));
        untold.copied().collect()
    }

    /// This one was told.
    pub(super) fn names_told(&mut self, to: NodeId) {
        self.names_told.push(to);
    }

    /// The log of a member waits for room, or does no more.
    pub(super) fn is_full(&mut self, of: NodeId, is_full: bool) {
        match is_full {
            true => self.full.insert(of),
            false => self.full.remove(&of),
        };
    }

    /// The other members whose logs wait for room.
    pub(super) fn full(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.full.iter().copied()
    }

    /// The members that are still to be told whether the log of this one waits for room.
    pub(super) fn fullness_untold(&self, is_full: bool) -> Vec<NodeId> {
        let knows = |node: &&NodeId| self.fullness_told.contains(*node) == is_full;
        self.members.keys().filter(|node| !knows(node)).copied().collect()
    }

    /// This member was told.
    pub(super) fn fullness_told(&mut self, to: NodeId, is_full: bool) {
        match is_full {
            true => self.fullness_told.insert(to),
            false => self.fullness_told.remove(&to),
        };
    }

    /// A member tells up to which version its log is durable.
    pub(crate) fn told(&mut self, by: NodeId, version: u64) {
        let known = self.told_by.entry(by).or_default();
        *known = version.max(*known);
    }

    /// Those who are still to be told this.
    pub(crate) fn untold(&self, version: u64) -> Vec<NodeId> {
        let knows = |node: &&NodeId| self.told_to.get(*node).is_none_or(|known| *known < version);
        self.members.keys().filter(knows).copied().filter(|_| version > 0).collect()
    }

    /// This one was told.
    pub(crate) fn tells(&mut self, to: NodeId, version: u64) {
        self.told_to.insert(to, version);
    }

    /// What is durable everywhere, if these are the storers that hold the store. Returns whether it has moved.
    pub(crate) fn settle(
        &mut self,
        me: (NodeId, u64),
        storers: impl Iterator<Item = NodeId>,
    ) -> bool {
        let of = |node: NodeId| match node == me.0 {
            true => me.1,
            false => self.told_by.get(&node).copied().unwrap_or(0),
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

    /// The last version that is durable everywhere.
    pub(crate) fn everywhere(&self) -> u64 {
        self.everywhere
    }
}
