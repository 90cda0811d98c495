//! The bare broadcast ring: one writer, some readers, nothing else. Shows the limit of the
//! machine itself.
//!
//! The writer fills the next slot in place and increments `head`. Each reader checks every message
//! in place and increments its own `tail`. The writer waits for the slowest `tail` when the ring is
//! full. The ring has no headers, types, matching or failure handling.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{Ordering, fence};

use serde::{Deserialize, Serialize};

use super::shared::Mapping;
use super::wait::{Futex, WaitMethod};
use crate::outcome::Failure;
use crate::perf::clock;
use crate::perf::control::HarnessControl;
use crate::perf::payload::{ReadExtent, check, fill};

pub(super) const HEAD: usize = 0;
pub(super) const END: usize = 1;
pub(super) const NEWS: Futex = Futex { word: 2, sleepers: 3 };
pub(super) const ROOM: Futex = Futex { word: 4, sleepers: 5 };
pub(super) const TAILS: usize = 8;

/// Number of messages between two reads of the clock by the writer.
const LOOK_EVERY: u64 = 64;

/// The ring in one process.
pub(crate) struct BareRing {
    pub(super) mapping: Mapping,
    pub(super) size: usize,
    stride: usize,
    pub(super) slots: u64,
    wait: WaitMethod,
}

/// Result of a process of the baseline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RingResult {
    /// Messages written or read.
    pub(crate) messages: u64,
    /// Number of read messages that were wrong.
    pub(crate) wrong: u64,
    pub(crate) t_start_ns: u64,
    pub(crate) t_end_ns: u64,
    pub(crate) cpu_s: f64,
}

/// Returns the bytes of the ring for messages of this size: a power of two.
pub(crate) fn ring_bytes(size: usize) -> usize {
    const USUAL: usize = 1 << 20;
    (4 * size.next_multiple_of(8)).next_power_of_two().max(USUAL)
}

impl BareRing {
    /// Makes the ring in this memory.
    pub(crate) fn new(
        mapping: Mapping,
        size: usize,
        wait: WaitMethod,
    ) -> Result<BareRing, Failure> {
        let stride = size.next_multiple_of(8);
        let room = mapping.ring_bytes() / stride;
        if room == 0 {
            return Err(Failure::new(format!("the ring has no room for {size} bytes")));
        }
        let slots = 1 << room.ilog2();
        Ok(BareRing { mapping, size, stride, slots, wait })
    }

    pub(super) fn offset(&self, message: u64) -> usize {
        (message & (self.slots - 1)) as usize * self.stride
    }

    fn slowest(&self, readers: usize) -> u64 {
        let tail = |reader| self.mapping.counter(TAILS + reader).load(Acquire);
        (0..readers).map(tail).min().unwrap_or(u64::MAX)
    }

    /// Writes for a number of seconds; publishes its position after `every` messages, and when the
    /// ring is full.
    pub(super) fn write(
        &self,
        readers: usize,
        every: u64,
        seconds: f64,
        control: &HarnessControl,
    ) -> RingResult {
        let (cpu, t_start_ns) = (clock::cpu(), clock::now());
        let deadline = t_start_ns + (seconds * 1e9) as u64;
        let head = self.mapping.counter(HEAD);
        let (mut next, mut free_until, mut say_at, mut stamp) = (0, self.slots, every, 0);
        loop {
            if next % LOOK_EVERY == 0 {
                stamp = clock::now();
                if stamp >= deadline || control.ended() {
                    break;
                }
            }
            if next >= free_until {
                head.store(next, Ordering::Release);
                self.wait.until(&self.mapping, ROOM, control, || {
                    free_until = self.slowest(readers).saturating_add(self.slots);
                    next < free_until
                });
                if control.ended() {
                    break;
                }
            }
            // SAFETY: every reader has finished with the slot's last message, and reads the new one
            // only after `head` advances.
            let slot = unsafe { self.mapping.bytes_mut(self.offset(next), self.size) };
            fill(slot, next, stamp);
            next += 1;
            if next >= say_at {
                say_at = next + every;
                head.store(next, Ordering::Release);
                self.wait.wake(&self.mapping, NEWS);
            }
        }
        head.store(next, Ordering::Release);
        self.mapping.counter(END).store(next + 1, Ordering::Release);
        fence(SeqCst);
        self.wait.wake(&self.mapping, NEWS);
        let (t_end_ns, cpu_s) = (clock::now(), clock::secs(clock::cpu() - cpu));
        RingResult { messages: next, wrong: 0, t_start_ns, t_end_ns, cpu_s }
    }

    /// Reads until the writer has published the total number of messages.
    pub(super) fn read(
        &self,
        reader: usize,
        read: ReadExtent,
        control: &HarnessControl,
    ) -> RingResult {
        let cpu = clock::cpu();
        let (head, end) = (self.mapping.counter(HEAD), self.mapping.counter(END));
        let tail = self.mapping.counter(TAILS + reader);
        let (mut next, mut wrong, mut t_start_ns) = (0, 0, 0);
        while !control.ended() && end.load(Acquire) != next + 1 {
            let mut until = next;
            self.wait.until(&self.mapping, NEWS, control, || {
                until = head.load(Acquire);
                until != next || end.load(Relaxed) == next + 1
            });
            if t_start_ns == 0 {
                t_start_ns = clock::now();
            }
            while next < until {
                // SAFETY: the writer has published the message, and writes the slot again only
                // after `tail` has passed it.
                let slot = unsafe { self.mapping.bytes(self.offset(next), self.size) };
                let good = check(slot, read).is_some_and(|(index, _)| index == next);
                wrong += u64::from(!good);
                next += 1;
                tail.store(next, Ordering::Release);
            }
            self.wait.wake(&self.mapping, ROOM);
        }
        let (t_end_ns, cpu_s) = (clock::now(), clock::secs(clock::cpu() - cpu));
        RingResult { messages: next, wrong, t_start_ns, t_end_ns, cpu_s }
    }
}
