//! Sets of members of one view.

use core::fmt;

use crate::ids::Rank;

/// Members of a view, by rank: a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RankSet(u64);

impl RankSet {
    /// The most members of a view.
    pub const MOST: usize = 64;

    /// Nobody.
    pub const EMPTY: RankSet = RankSet(0);

    /// The first `count` ranks.
    pub fn first(count: usize) -> RankSet {
        RankSet(if count >= Self::MOST { u64::MAX } else { (1 << count) - 1 })
    }

    /// The set of these bits.
    pub fn from_bits(bits: u64) -> RankSet {
        RankSet(bits)
    }

    /// A bit for each rank.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Those below a rank.
    pub fn below(rank: Rank) -> RankSet {
        RankSet::first(rank.index())
    }

    /// One member.
    pub fn one(rank: Rank) -> RankSet {
        RankSet(1 << rank.0)
    }

    /// Whether it has this member.
    pub fn has(self, rank: Rank) -> bool {
        self.0 >> rank.0 & 1 == 1
    }

    /// Whether nobody is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it has all of `other`.
    pub fn covers(self, other: RankSet) -> bool {
        other.0 & !self.0 == 0
    }

    /// Both together.
    #[must_use]
    pub fn or(self, other: RankSet) -> RankSet {
        RankSet(self.0 | other.0)
    }

    /// Those in both.
    #[must_use]
    pub fn and(self, other: RankSet) -> RankSet {
        RankSet(self.0 & other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(self, other: RankSet) -> RankSet {
        RankSet(self.0 & !other.0)
    }

    /// How many.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The lowest rank in it.
    pub fn lowest(self) -> Option<Rank> {
        (self.0 != 0).then(|| Rank(self.0.trailing_zeros() as u16))
    }

    /// Its members, lowest first.
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
