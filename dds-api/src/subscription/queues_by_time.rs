//! Order between the queues of a topic without order: a reader that looks late takes in the records
//! of its writers in the order in which they were committed (I-217).
//!
//! ```text
//!   queue of A   1  3  4              taken: 1 2 3 4 5, end of A, 7
//!   queue of B   2  5  7   A ended at 6
//! ```
//! Owns: the ends of streams that wait for their place. Never does: take a record, or change the
//! order within a queue.

use derecho_core::group::report::StreamId;
use derecho_node::clock;

use crate::mapping::record::commit_time_of;
use crate::mapping::shares::ReaderSource;

/// Maximum number of ends of streams that wait for their place. An end beyond that is noticed when
/// all queues are empty.
const MOST_ENDS: usize = 64;

/// See the [module](self). Times are in nanoseconds of the wall clock.
#[derive(Default)]
pub(super) struct QueuesByTime {
    /// Whether the queues are ordered at all.
    pub(super) is_used: bool,
    are_several: bool,
    /// Records of the queue that was taken from last precede all records of the other queues, and
    /// all ends, up to this time.
    limit: u64,
    /// Ends of streams whose queues are no longer there.
    ends: Vec<(u64, StreamId)>,
}

impl QueuesByTime {
    /// Whether there is anything to order.
    #[inline(always)]
    pub(super) fn are_several(&self) -> bool {
        self.are_several
    }

    /// Notes that the stream of an empty queue has ended.
    pub(super) fn note_end(&mut self, source: &ReaderSource) {
        if self.is_used && self.ends.len() < MOST_ENDS {
            let streams = source.writers.iter();
            self.ends.extend(streams.map(|stream| (source.ended_at, *stream)));
        }
    }

    /// Forgets the ends that were noted.
    pub(super) fn forget_ends(&mut self) {
        self.ends.clear();
    }

    /// Notes that the queues have changed to these.
    pub(super) fn renew(&mut self, sources: &[ReaderSource]) {
        self.limit = 0;
        self.are_several = self.is_used && sources.len() + self.ends.len() > 1;
    }

    /// Whether the next record of the queue that was taken from last is the oldest of all.
    pub(super) fn stays_at(&self, source: &ReaderSource) -> bool {
        time_of_next(source).is_some_and(|time| time <= self.limit)
    }

    /// Index of the queue with the oldest next record; `None` if all queues are empty. Calls
    /// `ended` for each stream that ended before that record was committed.
    pub(super) fn oldest(
        &mut self,
        sources: &[ReaderSource],
        mut ended: impl FnMut(StreamId),
    ) -> Option<usize> {
        let now = clock::wall(clock::now());
        // A record that comes into an empty queue from now on was not committed before, and a
        // writer with a wrong clock is not put off for ever.
        let mut oldest: Option<(u64, usize)> = None;
        self.limit = now;
        for (index, source) in sources.iter().enumerate() {
            let Some(time) = time_of_next(source).map(|time| time.min(now)) else { continue };
            match oldest {
                Some((first, _)) if first <= time => self.limit = self.limit.min(time),
                former => {
                    self.limit = self.limit.min(former.map_or(now, |(first, _)| first));
                    oldest = Some((time, index));
                }
            }
        }
        let until = oldest.map_or(u64::MAX, |(time, _)| time);
        self.ends.sort_unstable_by_key(|(time, _)| *time);
        let due = self.ends.partition_point(|(time, _)| *time < until);
        self.ends.drain(..due).for_each(|(_, stream)| ended(stream));
        self.limit = self.ends.first().map_or(self.limit, |(time, _)| self.limit.min(*time));
        self.are_several = sources.len() + self.ends.len() > 1;
        oldest.map(|(_, index)| index)
    }
}

/// Time at which the next record in a queue was committed.
fn time_of_next(source: &ReaderSource) -> Option<u64> {
    let mut time = None;
    source.consumer().next_is(|record| {
        time = Some(commit_time_of(record));
        false
    });
    // Records of the next section have the first turn, because their time is not known.
    time.or_else(|| (!source.consumer().is_empty()).then_some(0))
}
