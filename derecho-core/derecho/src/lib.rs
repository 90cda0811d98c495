//! Groups of processes that replicate objects, as the Derecho library does: views, shards, ordered updates,
//! queries with one answer a member, state transfer to whoever comes, checkpoints.
//!
//! # A counter, replicated
//!
//! ```
//! use std::time::Duration;
//! use derecho::{Everyone, GroupBuilder, NodeId, Replicated, Wire};
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
//!     .replicated::<Counter>("counter", Everyone { least: 1 })
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
//! # An object that outlives all of them
//!
//! A type that is declared with [`logged`](GroupBuilder::logged) is kept in logs by all of its members: when all have been gone, it
//! goes on from there.
//!
//! ```
//! # use std::time::Duration;
//! # use derecho::{Everyone, GroupBuilder, NodeId, Replicated, Wire};
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
//!         .logged::<Counter>("counter", Everyone { least: 1 })
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
//! # What to know
//!
//! * **Layouts.** All members declare the same subgroup types in the same order, each with a layout (an
//!   [`Arrangement`]): who is in which shard. It is asked again whenever a member comes, goes, or changes what it
//!   says of itself. [`Everyone`], [`Fixed`] and [`Sharded`] are ready; [`Custom`] is a function. A type for which the
//!   layout finds too few members does not exist, and calls say so ([`GroupError::Inadequate`]).
//! * **Order.** Updates and queries of a shard are applied in one order by all of its members. Whoever comes is told the
//!   object by one who has it, and goes on from exactly there. If that one dies, another one tells. While nobody
//!   of a new shard has the object yet, who had it before stays.
//! * **Upcalls** come from one thread of the library, one after the other. While it is in one, nothing more is
//!   delivered: memory of the senders fills up, and they wait. Calls that wait must not be made there.
//! * **Falling out.** Whoever is silent too long is excluded. Every call says so then ([`GroupError::Isolated`]); with
//!   [`rejoin`](GroupBuilder::rejoin) the process comes in again as a new member, and gets its objects anew.
//!
//! Rules and invariants: `docs/PROTOCOL.md`; a tour: `docs/GROUPS.md`.

mod builder;
mod error;
mod group;
mod life;
mod logged;
mod replicated;
mod replies;
mod shard;

pub use builder::GroupBuilder;
pub use derecho_core::bytes::{Reader, Wire};
pub use derecho_core::ids::NodeId;
pub use derecho_core::membership::Fate;
pub use derecho_core::replicated::Position;
pub use derecho_core::replicated::arrangements::{Custom, Everyone, Fixed, Sharded};
pub use derecho_core::replicated::desk::Start;
pub use derecho_core::replicated::plan::{Arrangement, Attendee, Place, Shard as ShardPlan};
pub use error::{GroupError, Result};
pub use group::{Checkpoint, Group, ObjectEvent, View, ViewChange};
pub use logged::{LogCondition, LogStatus};
pub use replicated::Replicated;
pub use replies::{Failure, Replies};
pub use shard::Shard;
