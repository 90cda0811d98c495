//! A view: the numbered, agreed membership of a group.

use alloc::vec::Vec;

use super::RankSet;
use crate::fault::{Fault, planted};
use crate::ids::{NodeId, Rank};
use crate::link::Generation;

/// One member of a view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member {
    /// Who.
    pub node: NodeId,
    /// Its number in the group, below [`RankSet::MOST`]: its own from its first view to its last.
    pub slot: u8,
    /// What it counts in a networked group. Nothing in the view that admits it (I-44).
    pub votes: u16,
    /// What it counts from the next view on.
    pub weight: u16,
}

/// Who is a member, in the order of ranks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct View {
    /// Which founding of a local group it is of: views of another one are not its successors. None of a
    /// networked group.
    pub group: Generation,
    /// Views are installed one after the other; there is never a second one of the same number.
    pub number: u64,
    /// The members; a member's rank is its place.
    pub members: Vec<Member>,
}

impl View {
    /// The view in which a group begins that one node founds.
    pub fn first(founder: NodeId, weight: u16) -> View {
        View {
            group: Generation::NONE,
            number: 1,
            members: [Member { node: founder, slot: 0, votes: weight, weight }].into(),
        }
    }

    /// The same view, of this founding of a local group.
    #[must_use]
    pub fn of_group(self, group: Generation) -> View {
        View { group, ..self }
    }

    /// What comes before the first view of a group that several nodes found together: those of them
    /// that find each other, if they are a primary partition, decide on the first view.
    pub fn of_founders(founders: impl IntoIterator<Item = (NodeId, u16)>) -> View {
        let members = founders.into_iter().zip(0..).map(|((node, weight), slot)| Member {
            node,
            slot,
            votes: weight,
            weight,
        });
        View { group: Generation::NONE, number: 0, members: members.collect() }
    }

    /// All ranks.
    pub fn ranks(&self) -> RankSet {
        RankSet::first(self.members.len())
    }

    /// A node's rank, if it is a member.
    pub fn rank_of(&self, node: NodeId) -> Option<Rank> {
        self.members.iter().position(|member| member.node == node).map(|rank| Rank(rank as u16))
    }

    /// The member of this rank.
    pub fn member(&self, rank: Rank) -> &Member {
        &self.members[rank.index()]
    }

    /// Whether these are a primary partition: more than half of the votes, or exactly half with the
    /// lowest-ranked voter. Two such sets always share a voter (I-43).
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

    /// The lowest slot that no member has.
    pub fn free_slot(&self, taken: impl Fn(u8) -> bool) -> Option<u8> {
        (0..RankSet::MOST as u8)
            .find(|&slot| self.members.iter().all(|member| member.slot != slot) && !taken(slot))
    }
}
