//! Views: the members of the group, and how the members agree on the next view.
//!
//! Owns: the rules of a view change. Never does: detect a failure, move a message, read a clock, or
//! interpret the contents of a report or a cut.
//!
//! ```text
//!   cause      a member is suspected, a member wants to leave, or a node wants to join
//!   wedge      a member that knows of a cause stops its streams, says so and reports its progress
//!   propose    the lowest-ranked member that no other member suspects combines the reports
//!              into a decision
//!   accept     the other members accept the decision, from the proposer's own row
//!   settle     the decision is final: a primary partition has accepted it (networked group), or
//!              the host's decision word holds its ballot (local group)
//!   install    streams are trimmed to the cut and continue in the next view
//! ```
//! The rules and their invariants (I-40 to I-48) are in `docs/internals/protocol/README.md`. The
//! crate `derecho-core/model` runs this code through every order of events for small groups.

mod arbitration;
mod change;
mod condition;
mod message;
mod set;
mod view;
mod wire;

pub use arbitration::{Arbitration, ArbitrationVerdict};
pub use change::{
    Decision, ExitReason, MemberStatus, Membership, ViewChangeAction, ViewChangeStage,
};
pub use condition::{WaitAnswer, WaitCondition};
pub use message::ViewChangeMessage;
pub use set::RankSet;
pub use view::{View, ViewMember};

use core::fmt::Debug;
use core::hash::Hash;

#[cfg(any(model, loom))]
pub use crate::fault::{Fault, plant};
use crate::ids::NodeId;

/// Progress of a member when it wedges, in everything that the member delivers.
pub trait Report: Clone + Eq + Hash + Debug {
    /// Part of a decision that says how far the members that go on together deliver.
    type Cut: Clone + Eq + Hash + Debug;

    /// Computes the cut from the reports of the members that go on, in the order of their ranks.
    /// Members that know the same reports compute the same cut.
    fn cut<'a>(reports: impl Iterator<Item = (NodeId, &'a Self)>) -> Self::Cut
    where
        Self: 'a;
}
