//! Objects that the members of shards replicate, on top of a [group](crate::group).
//!
//! Owns: who is wanted where, who has an object, how it comes to those who have not, and the answers to
//! queries. Never does: know what an object is.
//!
//! Read in this order: [`plan`] (who is wanted in which shard), [`agenda`] (what the group replicates of all
//! that), [`house`] (the machine: a group, and what becomes of it in the order in which objects have to hear
//! it), [`desk`] (the other side of the machine: objects, in the order of what the machine has put down),
//! `keeper` (one object), `ledger` (answers), `courier` (direct messages, so many at a time). Objects that are logged:
//! `trail` (an object as a log follows it), `keeper/logging` (its keeper's part in that); all else is storage's.
//!
//! ```text
//!   house  (a Machine; turned by whoever drives)     desk  (outside of all turns)
//!     group ── views, epochs, messages, directs ──items──>  keepers ──> objects
//!       ^                                                      |
//!       '─────────────── errands: submit, direct ─────────────'
//! ```
//! In production the desk belongs to a thread of its own, so that no code of an application runs while the
//! machine is turned; in the simulator it is asked whenever its node has had a turn.

pub mod agenda;
pub mod arrangements;
mod courier;
pub mod desk;
pub mod errand;
pub mod house;
mod keeper;
pub mod ledger;
pub mod plan;
pub mod shard;
mod trail;

use alloc::vec::Vec;

use crate::ids::NodeId;

/// Something that the readers of a shard replicate: it becomes the same everywhere because the same messages
/// are applied to it in the same order.
pub trait Object {
    /// Applies a message; what it returns is the answer, if the message was a query.
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u8>;

    /// Answers a query that was put to this member alone. It changes nothing.
    fn answer(&self, from: NodeId, query: &[u8]) -> Vec<u8>;

    /// A member, of the shard or not, says something to this one alone.
    fn hear(&mut self, from: NodeId, message: &[u8]);

    /// The state, as bytes.
    fn snapshot(&self) -> Vec<u8>;

    /// Takes over a state. `false` if the bytes make no sense; nothing is changed then.
    fn restore(&mut self, bytes: &[u8]) -> bool;

    /// Begins anew.
    fn reset(&mut self);
}

/// Where an object is in the order of what its shard delivers: positions are compared epoch first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position {
    /// Which beginning of the object; later ones have greater numbers.
    pub beginning: u128,
    /// The name of the epoch.
    pub epoch: u64,
    /// How many of its messages were applied.
    pub applied: u64,
}

/// Which state of a logged object: as it was after so many updates, of all that were ever applied to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Edition {
    /// How many updates led to it.
    pub version: u64,
    /// The latest time at which one of these was sent, in nanoseconds since 1970.
    pub time: u64,
}

crate::bytes::in_order! { Edition { version, time } }

impl crate::bytes::Wire for Position {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.beginning, (self.epoch, self.applied)).encode(out);
    }

    fn decode(from: &mut crate::bytes::Reader<'_>) -> Option<Self> {
        let (beginning, (epoch, applied)) = crate::bytes::Wire::decode(from)?;
        Some(Position { beginning, epoch, applied })
    }
}
