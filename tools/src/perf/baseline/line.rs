//! The bare ping-pong: two processes, one word on one cache line, to and fro.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::shared::Mapping;
use super::wait::{Futex, Wait};
use crate::perf::clock;
use crate::perf::control::Control;
use crate::perf::pingpong::OneWay;
use crate::perf::track::nanos_histogram;

/// The word: odd when ping has spoken last, even when pong has.
const WORD: usize = 0;
const TO_PONG: Futex = Futex { word: 2, sleepers: 3 };
const TO_PING: Futex = Futex { word: 4, sleepers: 5 };

/// Ping: round trips, of which the first tenth does not count.
pub(crate) fn ping(mapping: &Mapping, wait: Wait, rounds: u64, control: &Control) -> OneWay {
    let word = mapping.counter(WORD);
    let mut times = nanos_histogram();
    let warm_up = rounds / 10;
    for round in 0..warm_up + rounds {
        let start = clock::now();
        word.store(2 * round + 1, Release);
        wait.wake(mapping, TO_PONG);
        wait.until(mapping, TO_PING, control, || word.load(Acquire) == 2 * round + 2);
        let end = clock::now();
        if control.ended() {
            break;
        }
        if round >= warm_up {
            times.saturating_record((end - start) / 2);
        }
    }
    OneWay::of(&times)
}

/// Pong.
pub(crate) fn pong(mapping: &Mapping, wait: Wait, rounds: u64, control: &Control) {
    let word = mapping.counter(WORD);
    for round in 0..rounds / 10 + rounds {
        wait.until(mapping, TO_PONG, control, || word.load(Acquire) == 2 * round + 1);
        if control.ended() {
            return;
        }
        word.store(2 * round + 2, Release);
        wait.wake(mapping, TO_PING);
    }
}
