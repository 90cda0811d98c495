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
use crate::log::StreamKey;
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
    /// Whether its readers keep logs.
    pub logged: bool,
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

/// A number for a text (FNV-1a).
pub fn number_of(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// What the shards of a type are called in logs, whatever else is declared: this, and the shard's number.
fn stream_of(declaration: &Declaration) -> u128 {
    // Stream 0 is the log of views.
    u128::from(number_of(&declaration.name)) << 32 | 1 << 127
}

/// What a shard is called in logs.
pub fn log_of(types: &[Declaration], key: u64) -> Option<StreamKey> {
    let (index, shard) = shard_of(key);
    let declaration = types.get(index).filter(|it| it.logged)?;
    Some(StreamKey(stream_of(declaration) | shard as u128))
}

/// The shard whose log is called so.
pub fn key_of_log(types: &[Declaration], log: StreamKey) -> Option<u64> {
    let shard = (log.0 & 0xffff_ffff) as usize;
    let index = types.iter().position(|it| it.logged && stream_of(it) | shard as u128 == log.0)?;
    (shard < MOST_SHARDS).then(|| key_of(index, shard))
}

/// What all members must have declared in the same way.
pub fn fingerprint(types: &[Declaration]) -> String {
    let line = |it: &Declaration| {
        let logged = if it.logged { " logged" } else { "" };
        format!("{}:{:?}{logged}:{}", it.name, it.level, it.arrangement.describe())
    };
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
