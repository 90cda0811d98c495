//! What members tell each other in a view change. Reliable and in order from one to another.

use super::{Decision, RankSet, Report};
use crate::ids::{NodeId, Rank};

/// One message. A member's messages in one view are its *row*: each adds to what the others know of it,
/// and takes nothing back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message<R: Report> {
    /// Somebody wants to be a member: itself, or whoever heard of it.
    Join {
        /// Who.
        node: NodeId,
        /// What it is to count in a networked group.
        weight: u16,
    },
    /// The sender has wedged.
    Wedged {
        /// The view that it is in.
        view: u64,
        /// Whom it suspects.
        suspects: RankSet,
        /// It wants to leave.
        leaves: bool,
        /// How far it has come.
        report: R,
    },
    /// The sender suspects more members.
    Suspects {
        /// The view that it is in.
        view: u64,
        /// All of them.
        suspects: RankSet,
    },
    /// The sender proposes a decision, if the ballot is its own rank, or has accepted it.
    Accepted {
        /// The view that it is in.
        view: u64,
        /// The rank of the member that proposed it.
        ballot: Rank,
        /// All of it: its proposer may be gone when somebody needs it.
        decision: Decision<R>,
    },
    /// This is final. Also for those who are admitted by it, and for those who are not members any more.
    Decided(Decision<R>),
}
