//! Order of an ordered subgroup: round-robin over its senders. Pure arithmetic.
//!
//! ```text
//!   senders      0   1   2        position of slot k of sender i:  k * senders + i
//!   slot 0       0   1   2
//!   slot 1       3   4   5        a slot is a message or a null
//! ```

/// Number of positions of the order without a gap, given the number of slots received from each
/// sender. The first missing position is the first missing slot of some sender.
#[inline]
pub fn received_without_gap(slots: impl ExactSizeIterator<Item = u64>) -> u64 {
    let senders = slots.len() as u64;
    let positions = slots
        .enumerate()
        .map(|(rank, slots)| slots.saturating_mul(senders).saturating_add(rank as u64));
    positions.min().unwrap_or(0)
}

/// Number of slots that a sender owes: as many as precede the last message received from each other
/// sender. `messages` gives, for every other sender by its rank, one past the slot of its last
/// message. Nulls do not count, so no null is ever sent because of nulls or of silence.
#[inline]
pub fn owed(rank: usize, messages: impl Iterator<Item = (usize, u64)>) -> u64 {
    // Slot k of a sender of lower rank comes before slot k of this one.
    messages.map(|(other, slots)| slots.saturating_sub(u64::from(other < rank))).max().unwrap_or(0)
}

/// Position in the order, which names the slot whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotPosition {
    /// Number of positions before this one.
    pub count: u64,
    /// Rank of the sender of this position.
    pub rank: usize,
}

impl SlotPosition {
    /// Next position among this number of senders.
    #[inline]
    pub fn next(self, senders: usize) -> SlotPosition {
        let rank = if self.rank + 1 == senders { 0 } else { self.rank + 1 };
        SlotPosition { count: self.count + 1, rank }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Computes the result by the rule of the papers, by looking at every slot.
    fn by_looking(slots: &[u64]) -> u64 {
        let mut position = SlotPosition::default();
        loop {
            let slot = position.count / slots.len() as u64;
            if slot >= slots[position.rank] {
                return position.count;
            }
            position = position.next(slots.len());
        }
    }

    #[test]
    fn the_first_gap_is_the_first_missing_slot() {
        for case in 0..256_u64 {
            let slots = [case & 3, case >> 2 & 3, case >> 4 & 3, case >> 6];
            for senders in 1..=4 {
                let slots = &slots[..senders];
                let count = received_without_gap(slots.iter().copied());
                assert_eq!(count, by_looking(slots), "{slots:?}");
            }
        }
    }

    /// The owed number is exactly enough: with it the last message of the other sender can be
    /// delivered, with one less it cannot.
    #[test]
    fn owed_slots_are_exactly_enough_for_delivery() {
        for (mine, other) in [(0_usize, 1_usize), (1, 0)] {
            for messages in 1..5 {
                let owed = owed(mine, [(other, messages)].into_iter());
                let mut slots = [0; 2];
                slots[other] = messages;
                let last = (messages - 1) * 2 + other as u64;
                slots[mine] = owed;
                assert!(received_without_gap(slots.into_iter()) > last);
                if owed > 0 {
                    slots[mine] = owed - 1;
                    assert!(received_without_gap(slots.into_iter()) <= last);
                }
            }
            assert_eq!(owed(mine, [(other, 0)].into_iter()), 0, "nothing because of silence");
        }
    }
}
