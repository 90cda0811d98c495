//! Who is wanted in which shard.
//!
//! Owns: what goes into such a plan, and the check of what comes out. Never does: choose a plan; an
//! [`Arrangement`] does, the same one at every member.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ids::NodeId;
use crate::multicast::subgroup::Level;

/// A member, as an arrangement sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attendee {
    /// Who.
    pub node: NodeId,
    /// What it says of itself.
    pub attributes: Vec<u8>,
}

/// A member's place in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Who.
    pub node: NodeId,
    /// Whether it sends.
    pub sends: bool,
    /// Whether it delivers, and has the object.
    pub reads: bool,
}

impl Place {
    /// A place of a member that sends and reads.
    pub fn full(node: NodeId) -> Place {
        Place { node, sends: true, reads: true }
    }
}

/// The places of a shard, in the order in which its members deliver what they send.
pub type Shard = Vec<Place>;

/// Says who is wanted in the shards of a type.
///
/// Every member asks its own one, so the answer must follow from the arguments alone: no clock, no
/// randomness, no iteration in hash order. And it should move as few members as it can, for whoever
/// comes into a shard has to be told the object.
pub trait Arrangement: Send + Sync {
    /// The shards. `members`: in the order in which they came. `before`: the last answer that was
    /// one; empty at first. `Err`: what is missing; there is no shard then.
    fn arrange(&self, members: &[Attendee], before: &[Shard]) -> Result<Vec<Shard>, String>;

    /// What it is, in words that two members compare.
    fn describe(&self) -> String;
}

/// A type of subgroups, as all members declare it.
#[derive(Clone)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// What its subgroups promise.
    pub level: Level,
    /// Who is in them.
    pub arrangement: Arc<dyn Arrangement>,
}

/// So many shards a type has at most.
pub const MOST_SHARDS: usize = 1 << 16;

/// The key of a shard of a type.
pub fn key_of(index: usize, shard: usize) -> u64 {
    ((index as u64 + 1) << 32) | shard as u64
}

/// The type and the shard behind a key.
pub fn shard_of(key: u64) -> (usize, usize) {
    (((key >> 32) as usize).wrapping_sub(1), (key & 0xffff_ffff) as usize)
}

/// What all members must have declared in the same way.
pub fn fingerprint(types: &[Declaration]) -> String {
    let line =
        |it: &Declaration| format!("{}:{:?}:{}", it.name, it.level, it.arrangement.describe());
    types.iter().map(line).collect::<Vec<String>>().join("\n")
}

/// Asks an arrangement, and checks its answer.
pub(super) fn make(
    arrangement: &dyn Arrangement,
    members: &[Attendee],
    before: &[Shard],
) -> Result<Vec<Shard>, String> {
    let shards = arrangement.arrange(members, before)?;
    if shards.len() > MOST_SHARDS {
        return Err(format!(
            "the layout names {} shards; {MOST_SHARDS} are the most",
            shards.len()
        ));
    }
    let known: BTreeSet<NodeId> = members.iter().map(|member| member.node).collect();
    for (number, shard) in shards.iter().enumerate() {
        let nodes: BTreeSet<NodeId> = shard.iter().map(|place| place.node).collect();
        if nodes.len() < shard.len() || !nodes.is_subset(&known) {
            return Err(format!(
                "the layout names somebody twice, or no member, in shard {number}"
            ));
        }
        if shard.iter().all(|place| !place.reads) {
            return Err(format!("in the layout nobody reads in shard {number}"));
        }
    }
    Ok(shards)
}
