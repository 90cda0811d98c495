//! Plan of the members wanted in each shard.
//!
//! Owns: the form of a plan, and its validation. Never does: choose a plan; an [`Arrangement`]
//! does, the same one at every member.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ids::NodeId;
use crate::log::StreamKey;
use crate::multicast::subgroup::DeliveryGuarantee;

/// A member, as an arrangement sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberInfo {
    /// Node of the member.
    pub node: NodeId,
    /// Attributes of the member.
    pub attributes: Vec<u8>,
}

/// A member's place in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardMember {
    /// Node of the member.
    pub node: NodeId,
    /// Whether it sends.
    pub sends: bool,
    /// Whether it delivers messages, and has the object.
    pub reads: bool,
}

impl ShardMember {
    /// Creates the place of a member that sends and reads.
    pub fn full(node: NodeId) -> ShardMember {
        ShardMember { node, sends: true, reads: true }
    }
}

/// Places of a shard, in the order in which members deliver each other's messages.
pub type ShardPlan = Vec<ShardMember>;

/// Rule that assigns members to the shards of a type.
///
/// Every member applies its own instance, so the result must follow from the arguments alone: no
/// clock, no randomness, no iteration in hash order. A rule should move as few members as possible,
/// because a member that joins a shard needs a state transfer of the object.
pub trait Arrangement: Send + Sync {
    /// Returns the shards. `members` are in order of arrival. `before` is the last valid result,
    /// initially empty. `Err` says what is missing; there is no shard then.
    fn arrange(
        &self,
        members: &[MemberInfo],
        before: &[ShardPlan],
    ) -> Result<Vec<ShardPlan>, String>;

    /// Describes the arrangement, in words that members compare.
    fn describe(&self) -> String;
}

/// A type of subgroups, as all members declare it.
#[derive(Clone)]
pub struct Declaration {
    /// Name of the type.
    pub name: String,
    /// Delivery guarantee of its subgroups.
    pub level: DeliveryGuarantee,
    /// Whether its readers keep logs.
    pub logged: bool,
    /// Assignment of members.
    pub arrangement: Arc<dyn Arrangement>,
}

/// Maximum number of shards of a type.
pub const MOST_SHARDS: usize = 1 << 16;

/// Returns the key of a shard of a type.
pub fn key_of(index: usize, shard: usize) -> u64 {
    ((index as u64 + 1) << 32) | shard as u64
}

/// Returns the type and the shard of a key.
pub fn shard_of(key: u64) -> (usize, usize) {
    (((key >> 32) as usize).wrapping_sub(1), (key & 0xffff_ffff) as usize)
}

/// Returns a hash of a text (FNV-1a).
pub fn number_of(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Stream key of shard 0 of a type in logs, whatever else is declared; the shard's number is added
/// to it.
fn stream_of(declaration: &Declaration) -> u128 {
    // Stream 0 is the log of views.
    u128::from(number_of(&declaration.name)) << 32 | 1 << 127
}

/// Returns the stream key of a shard in logs.
pub fn log_of(types: &[Declaration], key: u64) -> Option<StreamKey> {
    let (index, shard) = shard_of(key);
    let declaration = types.get(index).filter(|it| it.logged)?;
    Some(StreamKey(stream_of(declaration) | shard as u128))
}

/// Returns the shard with this stream key.
pub fn key_of_log(types: &[Declaration], log: StreamKey) -> Option<u64> {
    let shard = (log.0 & 0xffff_ffff) as usize;
    let index = types.iter().position(|it| it.logged && stream_of(it) | shard as u128 == log.0)?;
    (shard < MOST_SHARDS).then(|| key_of(index, shard))
}

/// Returns a text of everything that all members must have declared in the same way.
pub fn fingerprint(types: &[Declaration]) -> String {
    let line = |it: &Declaration| {
        let logged = if it.logged { " logged" } else { "" };
        format!("{}:{:?}{logged}:{}", it.name, it.level, it.arrangement.describe())
    };
    types.iter().map(line).collect::<Vec<String>>().join("\n")
}

/// Applies an arrangement, and validates its result.
pub(super) fn make(
    arrangement: &dyn Arrangement,
    members: &[MemberInfo],
    before: &[ShardPlan],
) -> Result<Vec<ShardPlan>, String> {
    let shards = arrangement.arrange(members, before)?;
    if shards.len() > MOST_SHARDS {
        return Err(format!(
            "the layout has {} shards; the maximum is {MOST_SHARDS}",
            shards.len()
        ));
    }
    let known: BTreeSet<NodeId> = members.iter().map(|member| member.node).collect();
    for (number, shard) in shards.iter().enumerate() {
        let nodes: BTreeSet<NodeId> = shard.iter().map(|place| place.node).collect();
        if nodes.len() < shard.len() || !nodes.is_subset(&known) {
            return Err(format!(
                "shard {number} of the layout names a node twice, or a node that is no member"
            ));
        }
        if shard.iter().all(|place| !place.reads) {
            return Err(format!("shard {number} of the layout has no reader"));
        }
    }
    Ok(shards)
}
