//! Limit on the writer memory that samples held by the application may pin.
//!
//! ```text
//!   chunks of a writer's memory   [ held ][ held ][ ... ][ being taken ][ queued ][ queued ]
//!                                   behind: left, and still in use         ahead: the queue's
//! ```
//! A reader takes a writer's records approximately in their order. A chunk that the reader has left
//! and that is still in use is therefore held by the application. When the held chunks reach the
//! limit, further samples are copied out.
//!
//! Owns: the set of chunks that the reader has left. Never does: count samples; one held sample
//! pins its chunk as all would.

use derecho_core::multicast::inbox::{ChunkId, Chunks, Record};

/// Default limit in percent of a writer's memory.
pub(super) const DEFAULT_PERCENT: u8 = 25;
/// No limit: nothing is ever copied.
const ALL: u8 = 100;
/// Minimum number of chunks that may be held, if the memory has more. Large samples take a chunk
/// each, and an application that looks at one while it takes the next does not hoard memory.
const MIN_HELD_CHUNKS: usize = 2;
/// Number of memories remembered: those of present writers and of some that are gone.
const MAX_PATHS: usize = 256;
/// Number of memories whose state one call remembers.
const MAX_CHECKED: usize = 4;

/// See the [module](self).
#[derive(Default)]
pub(super) struct LendingLimit {
    percent: u8,
    paths: Vec<MemoryPath>,
    /// Index of the path that was used last.
    at: usize,
}

/// The reader's path through one writer's memory.
struct MemoryPath {
    now: ChunkId,
    /// Whether only records in chunks that are pinned anyway may be lent.
    is_full: bool,
    limit: usize,
    /// Chunks that the reader has left, each with the number of times that it had come into use
    /// by then.
    left: Vec<(usize, u32)>,
}

impl LendingLimit {
    pub(super) fn new(percent: u8) -> LendingLimit {
        LendingLimit { percent, ..LendingLimit::default() }
    }

    /// Whether a record must be copied rather than lent. Call this for each record given out,
    /// in order.
    #[inline(always)]
    pub(super) fn is_full(&mut self, record: &Record) -> bool {
        let chunk = record.chunk_id();
        match self.paths.get(self.at) {
            Some(trail) if trail.now == chunk && !trail.is_full => false,
            // Uses the chunk instead of the record: a record whose address is passed on would have
            // to lie in memory from the start.
            _ => self.look(record.chunks(), chunk),
        }
    }

    #[cold]
    fn look(&mut self, chunks: Chunks<'_>, chunk: ChunkId) -> bool {
        let is_it = |path: &MemoryPath| path.now.memory == chunk.memory;
        if !self.paths.get(self.at).is_some_and(is_it) {
            self.at = match self.paths.iter().position(is_it) {
                Some(at) => at,
                None => {
                    if self.paths.len() >= MAX_PATHS {
                        self.paths.clear();
                    }
                    let limit = limit(self.percent, chunks.count());
                    self.paths.push(MemoryPath {
                        now: chunk,
                        is_full: false,
                        limit,
                        left: Vec::new(),
                    });
                    self.paths.len() - 1
                }
            };
        }
        self.paths.get_mut(self.at).is_some_and(|path| path.advance(chunks, chunk))
    }
}

impl MemoryPath {
    fn advance(&mut self, chunks: Chunks<'_>, entered: ChunkId) -> bool {
        let left = std::mem::replace(&mut self.now, entered).chunk;
        if left != entered.chunk
            && let Some(times) = chunks.times_in_use(left)
        {
            self.left.retain(|(chunk, _)| *chunk != left);
            self.left.push((left, times));
        }
        // A chunk that has come into use again since belongs to the queue.
        self.left.retain(|(chunk, times)| {
            *chunk != entered.chunk && chunks.times_in_use(*chunk) == Some(*times)
        });
        self.is_full = self.left.len() >= self.limit;
        self.is_full
    }
}

/// Number of chunks that may be held, counting the chunk that is being taken from.
fn limit(percent: u8, chunks: usize) -> usize {
    match percent {
        0 => 0,
        ALL.. => usize::MAX,
        percent => {
            (chunks * usize::from(percent) / 100).max(MIN_HELD_CHUNKS).min(chunks.saturating_sub(1))
        }
    }
}

/// Check of the records that come out of a cache, for one call, which counts each memory once.
#[derive(Default)]
pub(super) struct LendingCheck {
    known: [Option<(usize, bool)>; MAX_CHECKED],
    next: usize,
}

impl LendingCheck {
    /// Whether a record from a cache must be copied rather than lent. The chunks of its memory are
    /// counted once, because lending a record that is already there brings no chunk into use.
    #[inline]
    pub(super) fn must_copy(&mut self, percent: u8, record: &Record) -> bool {
        let memory = record.chunk_id().memory;
        let known = self.known.iter().flatten().find(|(known, _)| *known == memory);
        match known {
            Some((_, is_over_limit)) => *is_over_limit,
            None => self.look(memory, percent, record),
        }
    }

    #[cold]
    fn look(&mut self, memory: usize, percent: u8, record: &Record) -> bool {
        let is_over_limit = is_over_limit(percent, record);
        self.known[self.next % MAX_CHECKED] = Some((memory, is_over_limit));
        self.next += 1;
        is_over_limit
    }

    /// Discards the counts after a record was copied and released: its chunk may no longer be
    /// in use.
    pub(super) fn forget(&mut self) {
        *self = LendingCheck::default();
    }
}

/// Whether a record from a cache must be copied rather than lent. All other chunks in use in the
/// same memory count as held.
fn is_over_limit(percent: u8, record: &Record) -> bool {
    let chunks = record.chunks();
    let all = 0..chunks.count();
    let in_use = all.filter(|chunk| chunks.times_in_use(*chunk).is_some()).count();
    in_use > limit(percent, chunks.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_chunk_limit_leaves_at_least_one_chunk_to_the_writer() {
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
