//! Messages between members in a view change. Delivery between two nodes is reliable and in order.

use super::{Decision, RankSet, Report};
use crate::ids::{NodeId, Rank};

/// One message. A member's messages in one view are its *row*: each adds to what other members know
/// of the sender and withdraws nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ViewChangeMessage<R: Report> {
    /// A node wants to be a member. Sent by the node itself or by a member that has
    /// heard the request.
    Join {
        /// The node that wants to join.
        node: NodeId,
        /// Votes of the node in a networked group.
        weight: u16,
    },
    /// The sender has wedged.
    Wedged {
        /// View of the sender.
        view: u64,
        /// Members that the sender suspects.
        suspects: RankSet,
        /// The sender wants to leave.
        leaves: bool,
        /// Progress of the sender.
        report: R,
    },
    /// The sender suspects more members.
    Suspects {
        /// View of the sender.
        view: u64,
        /// All members that the sender suspects.
        suspects: RankSet,
    },
    /// The sender proposes a decision, if the ballot is its own rank, or has accepted it.
    Accepted {
        /// View of the sender.
        view: u64,
        /// The rank of the member that proposed it.
        ballot: Rank,
        /// Complete decision: its proposer may be gone when another member needs it.
        decision: Decision<R>,
    },
    /// The decision is final. Also sent to nodes that the decision admits, and to members
    /// that it excludes.
    Decided(Decision<R>),
}
