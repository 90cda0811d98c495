//! How much of a writer's memory samples may pin that the application holds.
//!
//! ```text
//!   chunks of a writer's memory   [ held ][ held ][ ... ][ being taken ][ queued ][ queued ]
//!                                   behind: left, and still in use         ahead: the queue's
//! ```
//! A reader takes a writer's records about in their order, so what is still in use of a chunk that it has left is held by the
//! application. Once that comes to the limit, what is taken is copied out.
//!
//! Owns: which chunks were left. Never does: count samples; a chunk that one sample holds is pinned as if all did.

use derecho_core::multicast::inbox::{Chunks, Lot, Record};

/// Percent of a writer's memory, if nothing else is said.
pub(super) const USUAL_PERCENT: u8 = 25;
/// All of it: nothing is ever copied.
const ALL: u8 = 100;
/// So many chunks may be held in any case, of a memory that has more: large samples take a chunk each, and who looks at one while
/// it takes the next hoards nothing.
const FEWEST: usize = 2;
/// Memories that are remembered: those of the writers that are there, and of some that are gone.
const MEMORIES: usize = 256;
/// Memories of which a call keeps in mind how full they are.
const MEMORIES_AT_ONCE: usize = 4;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Lending {
    percent: u8,
    trails: Vec<Trail>,
    /// The one that was looked at last.
    at: usize,
}

/// The way through one writer's memory.
struct Trail {
    now: Lot,
    /// Nothing may be lent but what is in a chunk that is pinned anyway.
    is_full: bool,
    limit: usize,
    /// Chunks that were left, and how often they had come into use by then.
    left: Vec<(usize, u32)>,
}

impl Lending {
    pub(super) fn new(percent: u8) -> Lending {
        Lending { percent, ..Lending::default() }
    }

    /// Whether a record that is taken may not be lent. To be asked of each that is given out, in their order.
    #[inline(always)]
    pub(super) fn is_full(&mut self, record: &Record) -> bool {
        let lot = record.lies_in();
        match self.trails.get(self.at) {
            Some(trail) if trail.now == lot && !trail.is_full => false,
            // Not the record: whatever is looked at by its address lies in memory from the beginning.
            _ => self.look(record.chunks(), lot),
        }
    }

    #[cold]
    fn look(&mut self, chunks: Chunks<'_>, lot: Lot) -> bool {
        let is_it = |trail: &Trail| trail.now.memory == lot.memory;
        if !self.trails.get(self.at).is_some_and(is_it) {
            self.at = match self.trails.iter().position(is_it) {
                Some(at) => at,
                None => {
                    if self.trails.len() >= MEMORIES {
                        self.trails.clear();
                    }
                    let limit = limit(self.percent, chunks.count());
                    self.trails.push(Trail { now: lot, is_full: false, limit, left: Vec::new() });
                    self.trails.len() - 1
                }
            };
        }
        self.trails.get_mut(self.at).is_some_and(|trail| trail.go_on(chunks, lot))
    }
}

impl Trail {
    fn go_on(&mut self, chunks: Chunks<'_>, lot: Lot) -> bool {
        let left = std::mem::replace(&mut self.now, lot).chunk;
        if left != lot.chunk
            && let Some(times) = chunks.times_in_use(left)
        {
            self.left.retain(|(chunk, _)| *chunk != left);
            self.left.push((left, times));
        }
        // What has come into use again since is the queue's.
        self.left.retain(|(chunk, times)| {
            *chunk != lot.chunk && chunks.times_in_use(*chunk) == Some(*times)
        });
        self.is_full = self.left.len() >= self.limit;
        self.is_full
    }
}

/// How many chunks may be held, the one that is being taken from among them.
fn limit(percent: u8, chunks: usize) -> usize {
    match percent {
        0 => 0,
        ALL.. => usize::MAX,
        percent => (chunks * usize::from(percent) / 100).max(FEWEST).min(chunks.saturating_sub(1)),
    }
}

/// What one call knows of memories whose records come out of a cache.
#[derive(Default)]
pub(super) struct Crowds {
    known: [Option<(usize, bool)>; MEMORIES_AT_ONCE],
    next: usize,
}

impl Crowds {
    /// Whether a record that lay in a cache may not be lent. The chunks of its memory are counted once: to lend what is there
    /// already brings none into use.
    #[inline]
    pub(super) fn has(&mut self, percent: u8, record: &Record) -> bool {
        let memory = record.lies_in().memory;
        let known = self.known.iter().flatten().find(|(known, _)| *known == memory);
        match known {
            Some((_, is_crowded)) => *is_crowded,
            None => self.look(memory, percent, record),
        }
    }

    #[cold]
    fn look(&mut self, memory: usize, percent: u8, record: &Record) -> bool {
        let is_crowded = is_crowded(percent, record);
        self.known[self.next % MEMORIES_AT_ONCE] = Some((memory, is_crowded));
        self.next += 1;
        is_crowded
    }

    /// A record was copied and let go of: its chunk may be in use no more.
    pub(super) fn forget(&mut self) {
        *self = Crowds::default();
    }
}

/// Whether a record that lay in a cache may not be lent: what there is of the same memory beside it counts as held.
fn is_crowded(percent: u8, record: &Record) -> bool {
    let chunks = record.chunks();
    let all = 0..chunks.count();
    let in_use = all.filter(|chunk| chunks.times_in_use(*chunk).is_some()).count();
    in_use > limit(percent, chunks.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_something_to_the_writer() {
        for chunks in 2..=64 {
            for percent in 1..ALL {
                let limit = limit(percent, chunks);
                assert!((1..chunks).contains(&limit), "{percent} % of {chunks}");
            }
            assert_eq!(limit(0, chunks), 0);
        }
        assert_eq!([limit(25, 16), limit(25, 4), limit(25, 2), limit(50, 16)], [4, 2, 1, 8]);
    }
}
