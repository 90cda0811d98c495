//! State that a group replicates for its shards: members, the plan, offers, and holders.
//!
//! Owns: that state, and how directory changes and views change it
//! (docs/internals/protocol/README.md, "Replicated objects"). Never does: open a region, or touch
//! an object.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use super::messages::DirectoryChange;
use super::plan::{self, Declaration, MemberInfo, ShardPlan, key_of, shard_of};
pub use super::shard::{ShardOffer, ShardState};
use crate::bytes::Wire;
use crate::group::ReplicatedState;
use crate::group::log_register::LogRegister;
use crate::group::registry::Layout;
use crate::ids::NodeId;
use crate::log::LogId;
use crate::membership::View;
use crate::multicast::subgroup::DeliveryGuarantee;

/// Replicated state of all shards; see the [module](self).
#[derive(Clone)]
pub struct ShardDirectory {
    types: Arc<[Declaration]>,
    /// View with which the directory began. If no member with a directory is left, all members
    /// begin with an empty one.
    era: u128,
    /// Fingerprint of what all members have declared.
    declared: u64,
    members: Vec<MemberInfo>,
    /// Last valid plan of each type, and the reason why there is none now.
    plans: Vec<(Vec<ShardPlan>, Option<String>)>,
    shards: BTreeMap<u64, ShardState>,
    /// Number of applied changes of each member.
    heard: BTreeMap<NodeId, u64>,
    /// Whether a member is gone since the plan was made.
    stale: bool,
    /// Members that keep logs, as known to all.
    log_register: Option<LogRegister>,
}

impl PartialEq for ShardDirectory {
    fn eq(&self, other: &ShardDirectory) -> bool {
        self.snapshot() == other.snapshot()
    }
}

impl ShardDirectory {
    /// Creates a directory without members.
    pub fn new(types: Arc<[Declaration]>) -> ShardDirectory {
        let none = || (Vec::new(), Some("no member has joined yet".to_string()));
        ShardDirectory {
            era: 0,
            declared: declared(&types),
            plans: types.iter().map(|_| none()).collect(),
            types,
            members: Vec::new(),
            shards: BTreeMap::new(),
            heard: BTreeMap::new(),
            stale: false,
            log_register: None,
        }
    }

    /// Types of subgroups.
    pub fn types(&self) -> &[Declaration] {
        &self.types
    }

    /// Members that have announced themselves, in order of arrival.
    pub fn members(&self) -> &[MemberInfo] {
        &self.members
    }

    /// Shards of a type; `Err` says what is missing.
    pub fn plan(&self, index: usize) -> Result<&[ShardPlan], &str> {
        match &self.plans[index] {
            (_, Some(missing)) => Err(missing),
            (shards, None) => Ok(shards),
        }
    }

    /// Returns a shard.
    pub fn shard(&self, key: u64) -> Option<&ShardState> {
        self.shards.get(&key)
    }

    /// Returns all shards that ever existed.
    pub fn shards(&self) -> impl Iterator<Item = (u64, &ShardState)> {
        self.shards.iter().map(|(key, shard)| (*key, shard))
    }

    /// Number of applied changes of a member.
    pub fn heard(&self, node: NodeId) -> u64 {
        self.heard.get(&node).copied().unwrap_or(0)
    }

    /// First directory change of this member.
    pub fn hello(&self, attributes: Vec<u8>) -> DirectoryChange {
        DirectoryChange::Hello { declared: declared(&self.types), attributes }
    }

    fn level(&self, key: u64) -> Option<DeliveryGuarantee> {
        self.types.get(shard_of(key).0).map(|it| it.level)
    }

    fn make_plans(&mut self) {
        self.stale = false;
        for (index, declaration) in self.types.iter().enumerate() {
            let (before, missing) = &mut self.plans[index];
            match plan::make(&*declaration.arrangement, &self.members, before) {
                Ok(shards) => (*before, *missing) = (shards, None),
                Err(text) => *missing = Some(text),
            }
            let (ordered, logged) =
                (declaration.level == DeliveryGuarantee::Atomic, declaration.logged);
            let planned = if missing.is_none() { before.as_slice() } else { &[] };
            for (number, shard) in planned.iter().enumerate() {
                let key = key_of(index, number);
                let fresh = || {
                    let mut fresh = ShardState::new(ordered, logged, self.era);
                    let stream = plan::log_of(&self.types, key);
                    let awaited = self.log_register.as_ref().zip(stream);
                    let awaited =
                        awaited.map(|(log_register, stream)| log_register.awaited_of(stream));
                    awaited.into_iter().for_each(|awaited| fresh.await_logs(awaited));
                    fresh
                };
                self.shards.entry(key).or_insert_with(fresh).want(shard);
            }
            let gone = self.shards.range_mut(key_of(index, planned.len())..key_of(index + 1, 0));
            gone.for_each(|(_, shard)| shard.want(&[]));
        }
    }
}

/// Returns the fingerprint of declarations as a number.
fn declared(types: &[Declaration]) -> u64 {
    plan::number_of(&plan::fingerprint(types))
}

impl ReplicatedState for ShardDirectory {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u64> {
        *self.heard.entry(from).or_default() += 1;
        let Some(directory_change) = DirectoryChange::from_bytes(message) else {
            return Vec::new();
        };
        match directory_change {
            DirectoryChange::Hello { declared, attributes } => {
                if declared != self.declared {
                    return Vec::new();
                }
                match self.members.iter_mut().find(|member| member.node == from) {
                    Some(member) => member.attributes = attributes,
                    None => self.members.push(MemberInfo { node: from, attributes }),
                }
                self.make_plans();
                self.shards.keys().copied().collect()
            }
            DirectoryChange::Offer { key, offer } => {
                self.change(key, |shard| shard.offer(from, offer))
            }
            DirectoryChange::Holds { key, beginning } => {
                self.change(key, |shard| shard.holds(from, beginning))
            }
            DirectoryChange::Lacks { key, vacancy } => {
                self.change(key, |shard| shard.lacks(from, vacancy))
            }
            DirectoryChange::Claims { key, vacancy, claim } => {
                self.change(key, |shard| shard.claim(from, vacancy, *claim))
            }
            DirectoryChange::Disclaims { key, holds } => {
                self.change(key, |shard| shard.disclaim(from, holds))
            }
        }
    }

    fn forget(&mut self, node: NodeId) {
        self.members.retain(|member| member.node != node);
        self.heard.remove(&node);
        self.shards.values_mut().for_each(|shard| shard.forget(node));
        self.stale = true;
    }

    fn begin_view(&mut self, view: &View) {
        if self.era == 0 {
            // A local group may have been founded again, and then numbers its views from the start.
            self.era = u128::from(view.group.0) << 64 | u128::from(view.number);
        }
        if self.stale {
            self.make_plans();
        }
    }

    fn required_logs(&self) -> BTreeSet<LogId> {
        self.shards.values().flat_map(ShardState::leans_on).collect()
    }

    fn note_logs(&mut self, log_register: &LogRegister) -> Vec<u64> {
        let mut changed = Vec::new();
        for (key, shard) in &mut self.shards {
            if let Some(stream) = plan::log_of(&self.types, *key) {
                shard.await_logs(log_register.awaited_of(stream));
                changed.push(*key);
            }
        }
        self.log_register = Some(log_register.clone());
        changed
    }

    fn keys(&self) -> Vec<u64> {
        let begun = self.shards.iter().filter(|(_, shard)| shard.is_at_work());
        begun.map(|(key, _)| *key).collect()
    }

    fn layout(&self, key: u64, _: &View) -> Layout {
        let level = self.level(key).unwrap_or(DeliveryGuarantee::Atomic);
        let members = self.shards.get(&key).map(ShardState::layout_members).unwrap_or_default();
        Layout { level, members }
    }

    fn snapshot(&self) -> Vec<u8> {
        let members: Vec<(NodeId, Vec<u8>)> =
            self.members.iter().map(|it| (it.node, it.attributes.clone())).collect();
        let plans: Vec<(Vec<ShardPlan>, Option<String>)> = self.plans.clone();
        (((self.era, self.declared), members), ((plans, self.shards.clone()), self.heard.clone()))
            .to_bytes()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        type EncodedDirectory = (
            ((u128, u64), Vec<(NodeId, Vec<u8>)>),
            (
                (Vec<(Vec<ShardPlan>, Option<String>)>, BTreeMap<u64, ShardState>),
                BTreeMap<NodeId, u64>,
            ),
        );
        let Some((((era, declared), members), rest)) = EncodedDirectory::from_bytes(bytes) else {
            return false;
        };
        let ((plans, shards), heard) = rest;
        self.era = era;
        // A member with other declarations follows, but is never a member of a shard.
        (self.declared, self.shards) = (declared, shards);
        let member_info = |(node, attributes)| MemberInfo { node, attributes };
        self.members = members.into_iter().map(member_info).collect();
        (self.plans, self.heard) = (plans, heard);
        true
    }
}

impl ShardDirectory {
    fn change(&mut self, key: u64, change: impl FnOnce(&mut ShardState)) -> Vec<u64> {
        let shard = self.shards.get_mut(&key);
        shard.map(change).map(|()| [key].into()).unwrap_or_default()
    }
}
