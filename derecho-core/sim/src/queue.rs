//! The event queue in virtual time.
//!
//! Owns: the total order of events, so that two runs never differ: by time, then by rank, then by
//! the order of insertion. Never does: look into an event.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

struct QueueEntry<E> {
    at: u64,
    rank: u64,
    sequence: u64,
    event: E,
}

impl<E> QueueEntry<E> {
    fn key(&self) -> (u64, u64, u64) {
        (self.at, self.rank, self.sequence)
    }
}

impl<E> PartialEq for QueueEntry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for QueueEntry<E> {}

impl<E> PartialOrd for QueueEntry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for QueueEntry<E> {
    // Reversed: the heap returns its greatest entry first, and the earliest is wanted first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Events in the order in which they happen.
pub(crate) struct Queue<E> {
    heap: BinaryHeap<QueueEntry<E>>,
    sequence: u64,
}

impl<E> Queue<E> {
    /// Creates an empty queue.
    pub(crate) fn new() -> Queue<E> {
        Queue { heap: BinaryHeap::new(), sequence: 0 }
    }

    /// Schedules `event` at `at`, after all events of that moment that have a lower rank, or the
    /// same rank and an earlier insertion.
    pub(crate) fn push(&mut self, at: u64, rank: u64, event: E) {
        self.sequence += 1;
        self.heap.push(QueueEntry { at, rank, sequence: self.sequence, event });
    }

    /// Returns the time of the next event.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Returns the next event and its moment.
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_orders_equal_times_by_rank_and_then_by_insertion() {
        let mut queue = Queue::new();
        for (at, rank, name) in [(5, 1, 'e'), (5, 0, 'c'), (1, 0, 'a'), (5, 0, 'd'), (1, 0, 'b')] {
            queue.push(at, rank, name);
        }
        assert_eq!(queue.next_at(), Some(1));
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, name)| name).collect();
        assert_eq!(order, "abcde");
    }
}
