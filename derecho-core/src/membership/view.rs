//! A view: the numbered, agreed membership of a group.

use alloc::vec::Vec;

use super::RankSet;
use crate::fault::{Fault, planted};
use crate::ids::{NodeId, Rank};
use crate::link::Generation;

/// One member of a view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ViewMember {
    /// Identity of the member.
    pub node: NodeId,
    /// Number of the member in the group, below [`RankSet::MOST`]. The number stays the same from
    /// the member's first view to its last.
    pub slot: u8,
    /// Votes of the member in a networked group. Zero in the view that admits the member (I-44).
    pub votes: u16,
    /// Votes of the member from the next view on.
    pub weight: u16,
}

/// Numbered membership, in the order of ranks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct View {
    /// Generation of the local group: a view of another generation is no successor.
    /// [`Generation::NONE`] in a networked group.
    pub group: Generation,
    /// Number of the view. Views are installed in order, and no two views have the same number.
    pub number: u64,
    /// Members; the index of a member is its rank.
    pub members: Vec<ViewMember>,
}

impl View {
    /// Returns the first view of a group that one node founds.
    pub fn first(founder: NodeId, weight: u16) -> View {
        View {
            group: Generation::NONE,
            number: 1,
            members: [ViewMember { node: founder, slot: 0, votes: weight, weight }].into(),
        }
    }

    /// Returns this view for the given generation of a local group.
    #[must_use]
    pub fn of_group(self, group: Generation) -> View {
        View { group, ..self }
    }

    /// Returns view 0 of a group that several nodes found together. Founders that find each other
    /// and are a primary partition decide on the first view.
    pub fn of_founders(founders: impl IntoIterator<Item = (NodeId, u16)>) -> View {
        let members = founders.into_iter().zip(0..).map(|((node, weight), slot)| ViewMember {
            node,
            slot,
            votes: weight,
            weight,
        });
        View { group: Generation::NONE, number: 0, members: members.collect() }
    }

    /// Set of all ranks.
    pub fn ranks(&self) -> RankSet {
        RankSet::first(self.members.len())
    }

    /// Rank of a node, if it is a member.
    pub fn rank_of(&self, node: NodeId) -> Option<Rank> {
        self.members.iter().position(|member| member.node == node).map(|rank| Rank(rank as u16))
    }

    /// Member with this rank.
    pub fn member(&self, rank: Rank) -> &ViewMember {
        &self.members[rank.index()]
    }

    /// Whether these members are a primary partition: more than half of the votes, or exactly half
    /// including the lowest-ranked voter. Two primary partitions always share a voter (I-43).
    pub fn is_primary(&self, some: RankSet) -> bool {
        let votes = |rank: Rank| u64::from(self.member(rank).votes);
        let all: u64 = self.ranks().iter().map(votes).sum();
        let theirs: u64 = some.and(self.ranks()).iter().map(votes).sum();
        let lowest = self.ranks().iter().find(|&rank| votes(rank) > 0);
        if planted(Fault::MajorityOffByOne) {
            return 2 * theirs + 1 >= all;
        }
        all > 0 && (2 * theirs > all || (2 * theirs == all && lowest.is_some_and(|l| some.has(l))))
    }

    /// Lowest slot that no member has and that is not `taken`.
    pub fn free_slot(&self, taken: impl Fn(u8) -> bool) -> Option<u8> {
        (0..RankSet::MOST as u8)
            .find(|&slot| self.members.iter().all(|member| member.slot != slot) && !taken(slot))
    }
}
