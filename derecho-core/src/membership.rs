//! Views: who is a member of the group, and how the members agree on the next one.
//!
//! Owns: the rules of a view change. Never does: find out that somebody failed, move a message, look
//! at a clock, or know what a report or a cut is about.
//!
//! ```text
//!   cause      a member is suspected, one wants to leave, somebody wants to join
//!   wedge      whoever knows of a cause stops its streams, says so and reports how far it has come
//!   propose    the lowest-ranked member that nobody else suspects joins the reports to a decision
//!   accept     the others take it over, from its own mouth
//!   settle     it is final: a primary partition has accepted it, or the kernel has picked it
//!   install    streams are trimmed to the cut and go on in the next view
//! ```
//! The rules and their invariants (I-40 to I-48) are in `docs/PROTOCOL.md`; `derecho-core/model` runs this
//! very code through every order of events for small groups.

mod arbitration;
mod change;
mod condition;
mod message;
mod set;
mod view;
mod wire;

pub use arbitration::{Arbitration, Verdict};
pub use change::{Action, Decision, Fate, Membership, Stage, Standing};
pub use condition::{Answer, Condition};
pub use message::Message;
pub use set::RankSet;
pub use view::{Member, View};

use core::fmt::Debug;
use core::hash::Hash;

#[cfg(any(model, loom))]
pub use crate::fault::{Fault, plant};
use crate::ids::NodeId;

/// What a member reports when it wedges: how far it has come in everything that it delivers.
pub trait Report: Clone + Eq + Hash + Debug {
    /// What a decision says about it: how far those come who go on together.
    type Cut: Clone + Eq + Hash + Debug;

    /// The cut that follows from the reports of those who go on, in the order of their ranks. The same
    /// for everyone who knows the same reports.
    fn cut<'a>(reports: impl Iterator<Item = (NodeId, &'a Self)>) -> Self::Cut
    where
        Self: 'a;
}
