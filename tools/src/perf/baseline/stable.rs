//! The bare ring with agreement: the limit for every atomic delivery.
//!
//! The writer and the memory are those of the plain ring. A reader publishes its receive position,
//! and reads a message only when all readers have received it, so that no reader acts on a message
//! that another might never receive. This is the whole cost of agreement without failures.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::ring::{BareRing, END, HEAD, NEWS, RingResult, TAILS};
use super::wait::WaitMethod;
use crate::perf::clock;
use crate::perf::control::HarnessControl;
use crate::perf::payload::{ReadExtent, check};

/// Number of messages after which the writer and the readers publish their positions. In
/// alternating runs this is faster than after each message for most sizes (docs/PERFORMANCE.md);
/// the writer's share makes the difference.
pub(crate) const EVERY: u64 = 64;
/// First of the lines in which readers publish their receive positions.
const RECEIVED: usize = 64;

impl BareRing {
    /// Limits the number of messages between two positions to a quarter of the ring, so that writer
    /// and readers work in parallel.
    pub(super) fn at_most(&self, every: u64) -> u64 {
        every.min(self.slots / 4).max(1)
    }

    /// Returns the position that every reader has received.
    fn received_by_all(&self, readers: usize) -> u64 {
        let received = |reader| self.mapping.counter(RECEIVED + reader).load(Acquire);
        (0..readers).map(received).min().unwrap_or(u64::MAX)
    }

    /// Reads messages that all readers have received, until the writer has published the total.
    /// Publishes its position, and reads those of the others, at the latest after `every` messages.
    pub(super) fn read_stable(
        &self,
        reader: usize,
        readers: usize,
        every: u64,
        read: ReadExtent,
        control: &HarnessControl,
    ) -> RingResult {
        let cpu = clock::cpu();
        let (head, end) = (self.mapping.counter(HEAD), self.mapping.counter(END));
        let (tail, mine) =
            (self.mapping.counter(TAILS + reader), self.mapping.counter(RECEIVED + reader));
        let (mut received, mut stable, mut next) = (0, 0, 0);
        let (mut wrong, mut t_start_ns) = (0, 0);
        while !control.ended() && end.load(Acquire) != next + 1 {
            WaitMethod::Poll.until(&self.mapping, NEWS, control, || {
                let seen = head.load(Acquire);
                if seen != received {
                    received = seen;
                    mine.store(received, Release);
                }
                stable = self.received_by_all(readers);
                stable != next || end.load(Relaxed) == next + 1
            });
            if t_start_ns == 0 {
                t_start_ns = clock::now();
            }
            let until = stable.min(next.saturating_add(every));
            while next < until {
                // SAFETY: all readers including this one have seen that the message is published,
                // and the writer writes the slot again only after `tail` has passed it.
                let slot = unsafe { self.mapping.bytes(self.offset(next), self.size) };
                let good = check(slot, read).is_some_and(|(index, _)| index == next);
                wrong += u64::from(!good);
                next += 1;
            }
            tail.store(next, Release);
        }
        let (t_end_ns, cpu_s) = (clock::now(), clock::secs(clock::cpu() - cpu));
        RingResult { messages: next, wrong, t_start_ns, t_end_ns, cpu_s }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::thread;

    use super::super::ring::ring_bytes;
    use super::super::shared::{InheritedMemory, Mapping};
    use super::*;

    const SIZE: usize = 4096;

    #[test]
    fn reader_reads_only_messages_that_all_readers_received() {
        let memory = InheritedMemory::new(ring_bytes(SIZE)).unwrap();
        let number = memory.number();
        // Each thread maps the memory, as separate processes would.
        let ring =
            move || BareRing::new(Mapping::of(number).unwrap(), SIZE, WaitMethod::Poll).unwrap();
        let watch = ring();
        let count = |line: usize| watch.mapping.counter(line).load(Acquire);
        let reader = move |reader| {
            ring().read_stable(reader, 2, EVERY, ReadExtent::Whole, &HarnessControl::new(false))
        };
        thread::scope(|scope| {
            let first = scope.spawn(move || reader(0));
            let writer = scope.spawn(move || ring().write(2, 1, 0.02, &HarnessControl::new(false)));
            // Waits until the writer has filled the ring, and the only active reader has received
            // all of it.
            while count(RECEIVED) < watch.slots {
                thread::yield_now();
            }
            assert_eq!((count(HEAD), count(TAILS)), (watch.slots, 0), "received and not looked at");
            let second = scope.spawn(move || reader(1));
            let written = writer.join().unwrap();
            for reader in [first, second] {
                let ring_result = reader.join().unwrap();
                assert_eq!((ring_result.messages, ring_result.wrong), (written.messages, 0));
            }
            assert!(written.messages >= watch.slots);
        });
    }
}
