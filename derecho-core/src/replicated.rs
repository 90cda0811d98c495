//! Objects that the members of shards replicate, on top of a [group](crate::group).
//!
//! Owns: which members are wanted in which shard, the objects, and the answers to queries. State
//! transfer is the part of [`transfer`](crate::transfer). Never does: interpret an object.
//!
//! Reading order: [`plan`] (the members wanted in each shard), [`shard_directory`] (the state of
//! all this that the group replicates), [`shard_machine`] (the machine: a group, and its events in
//! the order in which objects must receive them), [`object_host`] (the other side of the machine:
//! objects that consume these events), `object_replica` (one object), `query_table` (answers),
//! `direct_messages` (direct messages with back-pressure). For logged objects: `object_log_input`
//! (an object as a log follows it), `object_replica/logging` (the replica's part in that); the rest
//! is in `storage`.
//!
//! ```text
//!   shard machine  (turned by its driver)            object host  (outside of all turns)
//!     group ── views, epochs, messages, directs ─events─>  replicas ──> objects
//!       ^                                                      |
//!       '────────── machine requests: submit, direct ─────────'
//! ```
//! In production the object host belongs to a thread of its own, so that no application code runs
//! while the machine is turned. In the simulator the object host runs whenever its node has had a
//! turn.

pub mod arrangements;
mod direct_messages;
pub mod messages;
pub mod object_host;
mod object_log_input;
mod object_replica;
pub mod plan;
pub mod query_table;
pub mod shard;
pub mod shard_directory;
pub mod shard_machine;

use alloc::vec::Vec;

use crate::group::report::StreamId;
use crate::ids::NodeId;
use crate::storage::log_tasks::sequence_of;

/// Object that the readers of a shard replicate: it is the same everywhere because the same
/// messages are applied to it in the same order.
pub trait Object {
    /// Applies a message. The result is the answer, if the message was a query.
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u8>;

    /// Answers a query that was sent to this member alone. Does not change the object.
    fn answer(&self, from: NodeId, query: &[u8]) -> Vec<u8>;

    /// Receives a message sent to this member alone, by a member of the shard or not.
    fn hear(&mut self, from: NodeId, message: &[u8]);

    /// Encodes the state.
    fn snapshot(&self) -> Vec<u8>;

    /// Takes over a state. Returns `false` and changes nothing if the bytes are invalid.
    fn restore(&mut self, bytes: &[u8]) -> bool;

    /// Resets the object to its initial state.
    fn reset(&mut self);
}

/// Position of an object in the order of its shard's messages. Positions of one beginning compare
/// by epoch first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ObjectPosition {
    /// Number of the object's beginning: later beginnings have greater numbers.
    pub beginning: u128,
    /// Name of the epoch.
    pub epoch: u64,
    /// Number of messages of the epoch that were applied.
    pub applied: u64,
}

/// State of a logged object: the state after a number of updates, counted over all its beginnings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ObjectVersion {
    /// Number of updates that led to the state.
    pub version: u64,
    /// Latest time at which one of these updates was sent, in nanoseconds since 1970.
    pub time: u64,
    /// Last of these updates; `None` if it is unknown, or if there was none.
    pub last_update: Option<UpdateId>,
}

/// Identity of an update of a logged object, as a log names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UpdateId {
    /// Sender of the update.
    pub writer: NodeId,
    /// Stream of the sender, and number of the update in that stream, as one word.
    pub sequence: u64,
}

impl UpdateId {
    /// Identity of the update with this number in a stream.
    fn new(from: StreamId, number: u64) -> UpdateId {
        UpdateId { writer: from.node, sequence: sequence_of(from, number) }
    }
}

crate::bytes::in_order! {
    ObjectVersion { version, time, last_update }
    UpdateId { writer, sequence }
}

impl crate::bytes::Wire for ObjectPosition {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.beginning, (self.epoch, self.applied)).encode(out);
    }

    fn decode(from: &mut crate::bytes::ByteReader<'_>) -> Option<Self> {
        let (beginning, (epoch, applied)) = crate::bytes::Wire::decode(from)?;
        Some(ObjectPosition { beginning, epoch, applied })
    }
}
