//! Number of messages delivered to a member when each epoch began, by its own count (I-158).
//!
//! Owns: that count. Never does: convert it to a version; the store does.

use alloc::vec::Vec;

use super::super::store_message::EpochPosition;

/// Counts at the beginnings of epochs; see the [module](self).
#[derive(Default)]
pub(super) struct EpochCounts {
    /// Number of messages delivered here since this member began.
    counted: u64,
    begun: Vec<(EpochPosition, u64)>,
}

impl EpochCounts {
    /// Counts one delivered message.
    pub(super) fn count(&mut self) {
        self.counted += 1;
    }

    /// Notes that an epoch has begun. Earlier epochs are forgotten if no late joiner is left that
    /// may have begun in one of them.
    pub(super) fn begins(&mut self, place: EpochPosition, is_awaited: bool) {
        if !is_awaited {
            self.begun.clear();
        }
        self.begun.push((place, self.counted));
    }

    /// Beginning of the earliest known epoch.
    pub(super) fn first(&self) -> Option<&EpochPosition> {
        self.begun.first().map(|(place, _)| place)
    }

    /// Beginning of the present epoch.
    pub(super) fn last(&self) -> Option<&EpochPosition> {
        self.begun.last().map(|(place, _)| place)
    }

    /// Returns the number of messages delivered here since this place; `None` if the place is
    /// unknown here, or in the future.
    pub(super) fn since(&self, (epoch, numbers): &EpochPosition) -> Option<u64> {
        self.first().filter(|(first, _)| first <= epoch)?;
        // In an epoch that ended before it began here, nothing was delivered to any member.
        let ((_, ours), counted) = self.begun.iter().find(|((begun, _), _)| begun >= epoch)?;
        let mut since = i128::from(self.counted - counted);
        for (stream, number) in numbers {
            let known = ours.iter().find(|(known, _)| known == stream);
            since -= known.map_or(0, |(_, known)| i128::from(*number) - i128::from(*known));
        }
        u64::try_from(since).ok()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::group::report::StreamId;
    use crate::ids::{NodeId, RegionId};

    fn place(epoch: u64, numbers: &[(u128, u64)]) -> EpochPosition {
        let numbers = numbers.iter().map(|(node, number)| {
            let stream = StreamId { node: NodeId(*node), region: RegionId(7) };
            (stream, *number)
        });
        (epoch, numbers.collect())
    }

    #[test]
    fn deliveries_since_a_position_are_counted_from_its_epoch() {
        let mut ours = EpochCounts::default();
        assert_eq!(ours.since(&place(3, &[])), None);
        ours.begins(place(3, &[(1, 10), (2, 0)]), true);
        (0..5).for_each(|_| ours.count());
        ours.begins(place(4, &[(1, 14)]), true);
        (0..2).for_each(|_| ours.count());
        assert_eq!(ours.since(&place(3, &[(1, 10), (2, 0)])), Some(7));
        assert_eq!(ours.since(&place(3, &[(1, 12), (2, 1)])), Some(4));
        assert_eq!(ours.since(&place(3, &[(1, 9), (2, 0)])), Some(8));
        assert_eq!(ours.since(&place(4, &[(1, 14)])), Some(2));
        assert_eq!(ours.since(&place(4, &[(1, 17)])), None, "that is still to come");
        assert_eq!(ours.since(&place(4, &[(1, u64::MAX)])), None);
        assert_eq!(ours.since(&place(5, &[])), None);
        assert_eq!(ours.since(&place(2, &[])), None);
        assert_eq!(ours.last(), Some(&place(4, &[(1, 14)])));
        ours.begins(place(6, &[(1, 16)]), true);
        assert_eq!(ours.since(&place(5, &[(1, 16), (3, 4)])), Some(0), "it was over at once");
        ours.begins(place(7, &[]), false);
        assert_eq!(ours.since(&place(4, &[(1, 14)])), None, "nobody asks for it");
        assert_eq!(ours.since(&place(7, &[])), Some(0));
    }
}
