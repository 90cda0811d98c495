//! Groups of processes that replicate objects, as the Derecho library does: views, shards, ordered
//! updates, queries answered by every member, state transfer to joining members, checkpoints.
//!
//! # A replicated counter
//!
//! ```
//! use std::time::Duration;
//! use derecho::{OneShard, GroupBuilder, NodeId, Replicated, Wire};
//!
//! #[derive(Default)]
//! struct Counter(u64);
//!
//! impl Replicated for Counter {
//!     type Update = u64;      // what is added
//!     type Question = ();     // what one member can be asked
//!     type Reply = u64;       // the sum after it
//!
//!     fn apply(&mut self, _from: NodeId, add: u64) -> u64 {
//!         self.0 += add;
//!         self.0
//!     }
//!     fn answer(&self, _from: NodeId, _question: ()) -> u64 { self.0 }
//!     fn snapshot(&self) -> Vec<u8> { self.0.to_bytes() }
//!     fn restored(bytes: &[u8]) -> Option<Counter> { u64::from_bytes(bytes).map(Counter) }
//! }
//!
//! # fn main() -> derecho::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("derecho-doc-{}", std::process::id()));
//! let second = Duration::from_secs(5);
//! let group = GroupBuilder::new("counting")
//!     .folder(&folder)
//!     .replicated::<Counter>("counter", OneShard { least: 1 })
//!     .join(second)?;                                  // founds the group, or joins it
//! let counter = group.shard::<Counter>("counter", 0)?;
//! counter.wait_ready(second)?;                          // a seat, and the object
//!
//! counter.send(&5, second)?;                            // in the same order at all members
//! let replies = counter.query(&2, second)?.wait(second)?; // so is this, and all answer
//! assert_eq!(replies[&group.me()], Ok(7));
//! assert_eq!(counter.read(|object| object.0)?, 7);
//! group.leave(second)?;
//! # let _ = std::fs::remove_dir_all(&folder);
//! # Ok(())
//! # }
//! ```
//!
//! # An object that outlives all members
//!
//! All members of a type declared with [`logged`](GroupBuilder::logged) keep it in logs. After all
//! members have gone, the object continues from the logs.
//!
//! ```
//! # use std::time::Duration;
//! # use derecho::{OneShard, GroupBuilder, NodeId, Replicated, Wire};
//! # #[derive(Default)]
//! # struct Counter(u64);
//! # impl Replicated for Counter {
//! #     type Update = u64;
//! #     type Question = ();
//! #     type Reply = u64;
//! #     fn apply(&mut self, _from: NodeId, add: u64) -> u64 { self.0 += add; self.0 }
//! #     fn answer(&self, _from: NodeId, _question: ()) -> u64 { self.0 }
//! #     fn snapshot(&self) -> Vec<u8> { self.0.to_bytes() }
//! #     fn restored(bytes: &[u8]) -> Option<Counter> { u64::from_bytes(bytes).map(Counter) }
//! # }
//! # fn main() -> derecho::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("derecho-doc-logged-{}", std::process::id()));
//! # let logs = folder.with_extension("logs");
//! # std::fs::create_dir_all(&logs).unwrap();
//! let second = Duration::from_secs(5);
//! for round in 1..=2 {
//!     let group = GroupBuilder::new("counting")
//!         .folder(&folder)
//!         .logs(&logs)                                   // of all processes of this host
//!         .logged::<Counter>("counter", OneShard { least: 1 })
//!         .join(second)?;
//!     let counter = group.shard::<Counter>("counter", 0)?;
//!     counter.wait_ready(second)?;                       // or says for which logs it waits
//!
//!     counter.send(&5, second)?;
//!     let version = counter.sync(second)?;               // durable in the logs of all members
//!     assert_eq!((version, counter.read(|object| object.0)?), (round, 5 * round));
//!     assert_eq!(counter.get(1, second)?.0, 5);          // as it was once
//!     group.leave(second)?;
//! }
//! # let _ = std::fs::remove_dir_all(&folder);
//! # let _ = std::fs::remove_dir_all(&logs);
//! # Ok(())
//! # }
//! ```
//!
//! # Rules
//!
//! * **Layouts.** All members declare the same subgroup types in the same order, each with a layout
//!   (an [`Arrangement`]) that assigns members to shards. The layout is evaluated again whenever a
//!   member joins, leaves, fails, or changes its attributes. [`OneShard`], [`FixedShards`] and
//!   [`BalancedShards`] are predefined; [`CustomShards`] is a function. If the layout finds too few
//!   members, the type does not exist, and calls return [`GroupError::Inadequate`].
//! * **Order.** All members of a shard apply its updates and queries in one order. A joining member
//!   receives the object from a member that has it, and continues from exactly that point. If the
//!   sending member fails, another one sends the object. Until a member of a new shard has the
//!   object, the previous owner of the object stays.
//! * **Upcalls** come from one thread of the library, one after the other. During an upcall nothing
//!   more is delivered: the senders' memory fills up, and they wait. An upcall must not make calls
//!   that wait.
//! * **Exclusion.** A member that is silent for too long is excluded. Every call then returns
//!   [`GroupError::Isolated`]. With [`rejoin`](GroupBuilder::rejoin) the process rejoins as a new
//!   member, and receives its objects again.
//!
//! Rules and invariants: `docs/internals/protocol/README.md`; a tour: `docs/guide/groups.md`.

mod builder;
mod error;
mod group;
mod group_membership;
mod logged;
mod replicated;
mod replies;
mod shard;

pub use builder::GroupBuilder;
pub use derecho_core::bytes::{ByteReader, Wire};
pub use derecho_core::ids::NodeId;
pub use derecho_core::membership::ExitReason;
pub use derecho_core::replicated::ObjectPosition;
pub use derecho_core::replicated::arrangements::{
    BalancedShards, CustomShards, FixedShards, OneShard,
};
pub use derecho_core::replicated::object_host::ObjectOrigin;
pub use derecho_core::replicated::plan::{Arrangement, MemberInfo, ShardMember, ShardPlan};
pub use error::{GroupError, Result};
pub use group::{Checkpoint, Group, ObjectEvent, View, ViewChange};
pub use logged::{LogCondition, LogStatus};
pub use replicated::Replicated;
pub use replies::{QueryFailure, Replies};
pub use shard::Shard;
