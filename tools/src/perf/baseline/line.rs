//! The bare ping-pong: two processes exchange one counter on one cache line. Optionally each count
//! comes with a message in a ring that is filled in and checked whole.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::shared::Mapping;
use super::wait::{Futex, WaitMethod};
use crate::perf::clock;
use crate::perf::control::HarnessControl;
use crate::perf::payload::{ReadExtent, check, fill};
use crate::perf::pingpong::OneWayTimes;
use crate::perf::subscriber_stats::nanos_histogram;

/// Line of the counter: odd after ping has written, even after pong has.
const WORD: usize = 0;
const TO_PONG: Futex = Futex { word: 2, sleepers: 3 };
const TO_PING: Futex = Futex { word: 4, sleepers: 5 };

/// Position of the messages of one direction: a ring, so that each message is written to a slot not
/// used recently.
struct DirectionRing<'a> {
    mapping: &'a Mapping,
    start: usize,
    size: usize,
    slots: u64,
}

impl<'a> DirectionRing<'a> {
    /// Makes one of the two halves of the memory, for messages of this size; `None` for a
    /// bare counter.
    fn new(mapping: &'a Mapping, half: usize, size: usize) -> Option<DirectionRing<'a>> {
        if size == 0 {
            return None;
        }
        let room = mapping.ring_bytes() / 2;
        let slots = (room / size.next_multiple_of(8)) as u64;
        Some(DirectionRing { mapping, start: half * room, size, slots })
    }

    fn place(&self, round: u64) -> usize {
        self.start + (round % self.slots) as usize * self.size.next_multiple_of(8)
    }

    fn put(&self, round: u64) {
        // SAFETY: the other side reads a message only between the count that follows the message
        // and its own count, and the next message in this slot comes after that.
        let slot = unsafe { self.mapping.bytes_mut(self.place(round), self.size) };
        fill(slot, round, 0);
    }

    fn look(&self, round: u64) -> bool {
        // SAFETY: the count with which the message was published has been seen.
        let slot = unsafe { self.mapping.bytes(self.place(round), self.size) };
        check(slot, ReadExtent::Whole).is_some_and(|(index, _)| index == round)
    }
}

/// Runs ping: round trips, the first tenth of which does not count. If a size is given, each
/// carries a message.
pub(crate) fn ping(
    mapping: &Mapping,
    wait: WaitMethod,
    rounds: u64,
    size: usize,
    control: &HarnessControl,
) -> OneWayTimes {
    let word = mapping.counter(WORD);
    let (to_pong, to_ping) =
        (DirectionRing::new(mapping, 0, size), DirectionRing::new(mapping, 1, size));
    let mut times = nanos_histogram();
    let warm_up = rounds / 10;
    for round in 0..warm_up + rounds {
        let start = clock::now();
        to_pong.iter().for_each(|lane| lane.put(round));
        word.store(2 * round + 1, Release);
        wait.wake(mapping, TO_PONG);
        wait.until(mapping, TO_PING, control, || word.load(Acquire) == 2 * round + 2);
        let good = to_ping.iter().all(|lane| lane.look(round));
        let end = clock::now();
        if control.ended() || !good {
            break;
        }
        if round >= warm_up {
            times.saturating_record((end - start) / 2);
        }
    }
    OneWayTimes::of(&times)
}

/// Runs pong.
pub(crate) fn pong(
    mapping: &Mapping,
    wait: WaitMethod,
    rounds: u64,
    size: usize,
    control: &HarnessControl,
) {
    let word = mapping.counter(WORD);
    let (to_pong, to_ping) =
        (DirectionRing::new(mapping, 0, size), DirectionRing::new(mapping, 1, size));
    for round in 0..rounds / 10 + rounds {
        wait.until(mapping, TO_PONG, control, || word.load(Acquire) == 2 * round + 1);
        if control.ended() || !to_pong.iter().all(|lane| lane.look(round)) {
            return;
        }
        to_ping.iter().for_each(|lane| lane.put(round));
        word.store(2 * round + 2, Release);
        wait.wake(mapping, TO_PING);
    }
}
