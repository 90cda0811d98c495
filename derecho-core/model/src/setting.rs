//! Content of a world, and bounds of its faults.
//!
//! Owns: the bounds. Never does: anything.

use derecho_core::membership::{Arbitration, View};

use crate::node::{MOST, NodeSet, id};

/// Content of a world, and bounds of its faults.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Means by which decisions become final.
    pub arbitration: Arbitration,
    /// Number of members of the first view.
    pub members: usize,
    /// Number of nodes that want to join.
    pub joiners: usize,
    /// True if the members are founders that have no view yet.
    pub founders: bool,
    /// Maximum number of crashes.
    pub crashes: u8,
    /// Nodes that can crash.
    pub mortal: NodeSet,
    /// Votes of the members.
    pub votes: [u16; MOST],
    /// Maximum number of suspicions of live nodes without a reason.
    pub doubts: u8,
    /// Nodes that suspect without a reason.
    pub doubters: NodeSet,
    /// Nodes that are suspected without a reason.
    pub doubted: NodeSet,
    /// Maximum number of channels that lose everything from a point on, in one direction.
    pub cuts: u8,
    /// Maximum number of times that a node stops, and continues later.
    pub stops: u8,
    /// Maximum number of members that want to leave.
    pub leaves: u8,
    /// Members that may leave.
    pub leavers: NodeSet,
    /// True if streams take time to stop, and move meanwhile.
    pub streams: bool,
    /// Planted: streams continue after they have stopped.
    pub unstoppable: bool,
    /// True if suspicion is returned at any moment, not only when nothing else happens.
    pub early_return: bool,
}

impl Setting {
    /// Creates a setting of `members` members without faults.
    pub fn new(arbitration: Arbitration, members: usize) -> Setting {
        Setting {
            arbitration,
            members,
            joiners: 0,
            founders: false,
            crashes: 0,
            mortal: NodeSet::MAX,
            votes: [1; MOST],
            doubts: 0,
            doubters: NodeSet::MAX,
            doubted: NodeSet::MAX,
            cuts: 0,
            stops: 0,
            leaves: 0,
            leavers: NodeSet::MAX,
            streams: false,
            unstoppable: false,
            early_return: false,
        }
    }

    /// Number of all nodes.
    pub fn nodes(&self) -> usize {
        self.members + self.joiners
    }

    pub(crate) fn first_view(&self) -> View {
        let founders = (0..self.members).map(|node| (id(node), self.votes[node]));
        let number = u64::from(!self.founders);
        View { number, ..View::of_founders(founders) }
    }
}
