//! Sets of members of one view.

use core::fmt;

use crate::ids::Rank;

/// Set of members of a view, with one bit for each rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RankSet(u64);

impl RankSet {
    /// Maximum number of members of a view.
    pub const MOST: usize = 64;

    /// Empty set.
    pub const EMPTY: RankSet = RankSet(0);

    /// The first `count` ranks.
    pub fn first(count: usize) -> RankSet {
        RankSet(if count >= Self::MOST { u64::MAX } else { (1 << count) - 1 })
    }

    /// Returns the set with these bits.
    pub fn from_bits(bits: u64) -> RankSet {
        RankSet(bits)
    }

    /// Bits of the set, one for each rank.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns the ranks below `rank`.
    pub fn below(rank: Rank) -> RankSet {
        RankSet::first(rank.index())
    }

    /// Returns the set of one rank.
    pub fn one(rank: Rank) -> RankSet {
        RankSet(1 << rank.0)
    }

    /// Whether the set contains this rank.
    pub fn has(self, rank: Rank) -> bool {
        self.0 >> rank.0 & 1 == 1
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set contains all of `other`.
    pub fn covers(self, other: RankSet) -> bool {
        other.0 & !self.0 == 0
    }

    /// Union of both sets.
    #[must_use]
    pub fn or(self, other: RankSet) -> RankSet {
        RankSet(self.0 | other.0)
    }

    /// Intersection of both sets.
    #[must_use]
    pub fn and(self, other: RankSet) -> RankSet {
        RankSet(self.0 & other.0)
    }

    /// Ranks that are not in `other`.
    #[must_use]
    pub fn without(self, other: RankSet) -> RankSet {
        RankSet(self.0 & !other.0)
    }

    /// Number of ranks in the set.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Lowest rank in the set.
    pub fn lowest(self) -> Option<Rank> {
        (self.0 != 0).then(|| Rank(self.0.trailing_zeros() as u16))
    }

    /// Ranks of the set, lowest first.
    pub fn iter(self) -> impl Iterator<Item = Rank> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let next = RankSet(left).lowest()?;
            left &= left - 1;
            Some(next)
        })
    }
}

impl FromIterator<Rank> for RankSet {
    fn from_iter<T: IntoIterator<Item = Rank>>(ranks: T) -> RankSet {
        ranks.into_iter().fold(RankSet::EMPTY, |set, rank| set.or(RankSet::one(rank)))
    }
}

impl fmt::Debug for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|rank| rank.0)).finish()
    }
}
