//! What a cache has to do when time goes on.
//!
//! Owns: times, and what is due at them. Never does: look at a clock, or know whether what was due still is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is due. Of what is due at the same time this is the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// LIFESPAN of a sample is over.
    Expire,
    /// TIME_BASED_FILTER lets the sample of an instance pass that waits.
    Release,
    /// READER_DATA_LIFECYCLE lets an instance's samples go.
    Purge,
}

/// Something that is due, at a place of this epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Due {
    pub(super) time: u64,
    pub(super) kind: Kind,
    pub(super) at: u32,
    pub(super) epoch: u32,
}

/// So much may be out of date before the agenda is swept, beside as much as is not.
const SLACK: usize = 64;

#[derive(Default)]
pub(super) struct Agenda {
    dues: BinaryHeap<Reverse<Due>>,
}

impl Agenda {
    pub(super) fn next_time(&self) -> Option<u64> {
        self.dues.peek().map(|Reverse(due)| due.time)
    }

    pub(super) fn add(&mut self, due: Due) {
        self.dues.push(Reverse(due));
    }

    /// The next that is due by now.
    #[inline]
    pub(super) fn due(&mut self, now: u64) -> Option<Due> {
        if self.next_time()? > now {
            return None;
        }
        self.dues.pop().map(|Reverse(due)| due)
    }

    /// Whether it has grown beyond what so many places can need.
    pub(super) fn is_overgrown(&self, places: usize) -> bool {
        self.dues.len() > SLACK + 2 * places
    }

    pub(super) fn sweep(&mut self, mut is_still: impl FnMut(&Due) -> bool) {
        self.dues.retain(|Reverse(due)| is_still(due));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seldom enough that a sweep, which goes over all, costs each entry a few steps, and often enough that an agenda stays in
    /// proportion to its cache.
    #[test]
    fn it_is_overgrown_beyond_twice_the_places_and_some() {
        for places in [0, 1, 10, 1000] {
            let mut agenda = Agenda::default();
            let add = |agenda: &mut Agenda, time| {
                agenda.add(Due { time, kind: Kind::Expire, at: 0, epoch: 0 });
            };
            (0..64 + 2 * places).for_each(|time| add(&mut agenda, time));
            assert!(!agenda.is_overgrown(places as usize));
            for time in 0..2 {
                add(&mut agenda, time);
                assert!(agenda.is_overgrown(places as usize));
            }
        }
    }
}
