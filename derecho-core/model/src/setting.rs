//! What a world has, and how much may go wrong in it.
//!
//! Owns: the bounds. Never does: anything.

use derecho_core::membership::{Arbitration, View};

use crate::node::{MOST, Nodes, id};

/// What a world has, and how much may go wrong in it.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// How decisions become final.
    pub arbitration: Arbitration,
    /// Members of the first view.
    pub members: usize,
    /// Nodes that want to be members.
    pub joiners: usize,
    /// The members are founders that have no view yet.
    pub founders: bool,
    /// How many die.
    pub crashes: u8,
    /// Which can.
    pub mortal: Nodes,
    /// What members count.
    pub votes: [u16; MOST],
    /// How many times somebody suspects a living one, for no reason.
    pub doubts: u8,
    /// Who does so.
    pub doubters: Nodes,
    /// Of whom.
    pub doubted: Nodes,
    /// How many channels lose everything from a point on, one way.
    pub cuts: u8,
    /// How many times a node stops, and goes on later.
    pub stops: u8,
    /// How many want to leave.
    pub leaves: u8,
    /// Who may.
    pub leavers: Nodes,
    /// Streams take time to stop, and move meanwhile.
    pub streams: bool,
    /// Planted: streams go on when they have stopped.
    pub unstoppable: bool,
    /// Suspicion is returned at any moment, not only when nothing else happens.
    pub early_return: bool,
}

impl Setting {
    /// So many members, nothing goes wrong.
    pub fn new(arbitration: Arbitration, members: usize) -> Setting {
        Setting {
            arbitration,
            members,
            joiners: 0,
            founders: false,
            crashes: 0,
            mortal: Nodes::MAX,
            votes: [1; MOST],
            doubts: 0,
            doubters: Nodes::MAX,
            doubted: Nodes::MAX,
            cuts: 0,
            stops: 0,
            leaves: 0,
            leavers: Nodes::MAX,
            streams: false,
            unstoppable: false,
            early_return: false,
        }
    }

    /// All nodes.
    pub fn nodes(&self) -> usize {
        self.members + self.joiners
    }

    pub(crate) fn first_view(&self) -> View {
        let founders = (0..self.members).map(|node| (id(node), self.votes[node]));
        let number = u64::from(!self.founders);
        View { number, ..View::of_founders(founders) }
    }
}
