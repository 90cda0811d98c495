//! The bare ping-pong: two processes, one counter on one cache line, to and fro; beside it, if asked
//! for, a message in a ring for each count, filled in and looked at whole.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::shared::Mapping;
use super::wait::{Futex, Wait};
use crate::perf::clock;
use crate::perf::control::Control;
use crate::perf::payload::{Read, check, fill};
use crate::perf::pingpong::OneWay;
use crate::perf::track::nanos_histogram;

/// The word: odd when ping has spoken last, even when pong has.
const WORD: usize = 0;
const TO_PONG: Futex = Futex { word: 2, sleepers: 3 };
const TO_PING: Futex = Futex { word: 4, sleepers: 5 };

/// Where the messages of one direction lie: a ring, so that each is written where none was lately.
struct Lane<'a> {
    mapping: &'a Mapping,
    start: usize,
    size: usize,
    slots: u64,
}

impl<'a> Lane<'a> {
    /// One of the two halves of the memory, for messages of this size; none for a bare counter.
    fn new(mapping: &'a Mapping, half: usize, size: usize) -> Option<Lane<'a>> {
        if size == 0 {
            return None;
        }
        let room = mapping.ring_bytes() / 2;
        let slots = (room / size.next_multiple_of(8)) as u64;
        Some(Lane { mapping, start: half * room, size, slots })
    }

    fn place(&self, round: u64) -> usize {
        self.start + (round % self.slots) as usize * self.size.next_multiple_of(8)
    }

    fn put(&self, round: u64) {
        // SAFETY: the other side looks at a message only between the count that follows it and
        // its own, and the next message of this slot comes after that.
        let slot = unsafe { self.mapping.bytes_mut(self.place(round), self.size) };
        fill(slot, round, 0);
    }

    fn look(&self, round: u64) -> bool {
        // SAFETY: the count was seen that the message was published with.
        let slot = unsafe { self.mapping.bytes(self.place(round), self.size) };
        check(slot, Read::Whole).is_some_and(|(index, _)| index == round)
    }
}

/// Ping: round trips, of which the first tenth does not count. With a size, of messages.
pub(crate) fn ping(
    mapping: &Mapping,
    wait: Wait,
    rounds: u64,
    size: usize,
    control: &Control,
) -> OneWay {
    let word = mapping.counter(WORD);
    let (to_pong, to_ping) = (Lane::new(mapping, 0, size), Lane::new(mapping, 1, size));
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
    OneWay::of(&times)
}

/// Pong.
pub(crate) fn pong(mapping: &Mapping, wait: Wait, rounds: u64, size: usize, control: &Control) {
    let word = mapping.counter(WORD);
    let (to_pong, to_ping) = (Lane::new(mapping, 0, size), Lane::new(mapping, 1, size));
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
