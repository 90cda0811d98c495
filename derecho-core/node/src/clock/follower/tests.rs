//! Tests of the follower over a counter and a clock that the test advances, and over the real ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::super::PERIOD;
use super::super::source::Processor;
use super::*;

/// Counter of 2.5 ticks per nanosecond; the clock differs from it by parts per million.
struct SkewedClock {
    trusted: bool,
    ticks: Cell<f64>,
    nanos: Cell<f64>,
    millionths: Cell<f64>,
    looks: Cell<u64>,
}

impl SkewedClock {
    fn new() -> SkewedClock {
        SkewedClock {
            trusted: true,
            ticks: Cell::new(123_456_789.0),
            nanos: Cell::new(7e12),
            millionths: Cell::new(0.0),
            looks: Cell::new(0),
        }
    }

    /// Lets `nanos` nanoseconds of the clock pass.
    fn pass(&self, nanos: f64) {
        self.nanos.set(self.nanos.get() + nanos);
        let ticks = nanos * 2.5 / (1.0 + self.millionths.get() / 1e6);
        self.ticks.set(self.ticks.get() + ticks);
    }

    /// Returns the largest error of `follower` while `nanos` pass in steps of `step`. Checks that
    /// time never goes back.
    fn worst(&self, follower: &ClockFollower, nanos: f64, step: f64) -> u64 {
        let (mut last, mut worst) = (0, 0);
        for _ in 0..(nanos / step) as u64 {
            self.pass(step);
            let read = follower.now(self);
            assert!(last <= read, "{last} was read before {read}");
            last = read;
            worst = worst.max(read.abs_diff(self.nanos.get() as u64));
        }
        worst
    }
}

impl TickSource for SkewedClock {
    fn is_trusted(&self) -> bool {
        self.trusted
    }

    fn ticks(&self) -> u64 {
        assert!(self.trusted, "nobody reads a counter that is not trusted");
        self.ticks.get() as u64
    }

    fn nanos(&self) -> u64 {
        self.looks.set(self.looks.get() + 1);
        self.nanos.get() as u64
    }
}

#[test]
fn follower_tracks_clock_with_few_clock_reads() {
    let (turned, follower) = (SkewedClock::new(), ClockFollower::new(PERIOD));
    assert!(turned.worst(&follower, 20e6, 100.0) <= 5, "while it learns, and right after");
    turned.looks.set(0);
    assert!(turned.worst(&follower, 1e9, 1000.0) <= 5);
    assert!(turned.looks.get() < 1000, "{} looks in a a second", turned.looks.get());
}

#[test]
fn follower_tracks_clock_whose_speed_changes() {
    let (turned, follower) = (SkewedClock::new(), ClockFollower::new(PERIOD));
    turned.worst(&follower, 100e6, 1000.0);
    for millionths in [500.0, -500.0, 0.0, 100_000.0, 0.0] {
        let turn: f64 = millionths - turned.millionths.get();
        turned.millionths.set(millionths);
        // The segment is wrong for one period, and half as wrong for the next, which was drawn from
        // a sample of both speeds.
        let off = turned.worst(&follower, 30e6, 1000.0);
        assert!(
            (off as f64) < turn.abs() * 15.0 * PERIOD as f64 / 1e7 + 100.0,
            "{off} ns off after {turn} millionths"
        );
        assert!(turned.worst(&follower, 100e6, 1000.0) < 50, "settled");
    }
    assert!(!follower.distrusted.load(Relaxed));
}

#[test]
fn follower_is_accurate_immediately_after_idle_time() {
    let (turned, follower) = (SkewedClock::new(), ClockFollower::new(PERIOD));
    turned.millionths.set(40.0);
    turned.worst(&follower, 100e6, 1000.0);
    for rest in [1e3, 3.9e6, 4.1e6, 1e9, 86_400e9, 1e16] {
        let off = turned.worst(&follower, 2.0 * rest, rest);
        assert!(off < 100, "{off} ns off after {rest} ns");
    }
    assert!(!follower.distrusted.load(Relaxed));
}

#[test]
fn follower_does_not_go_back_after_reading_between_two_lines() {
    let (turned, follower) = (SkewedClock::new(), ClockFollower::new(PERIOD));
    turned.worst(&follower, 100e6, 1000.0);
    // A thread draws the next segment, has read the clock, and is interrupted.
    let (ticks, nanos) = (turned.ticks.get() + PERIOD as f64 * 2.5, turned.nanos.get());
    let drawing = follower.calibration.lock().unwrap();
    turned.pass(PERIOD as f64 + 5000.0);
    let between = follower.now(&turned);
    assert_eq!(between, turned.nanos.get() as u64, "nobody waits");
    drop(drawing);
    turned.ticks.set(ticks);
    turned.nanos.set(nanos + PERIOD as f64);
    assert!(turned.worst(&follower, 1e3, 1e3) < 5000);
    assert!(follower.now(&turned) >= between);
}

#[test]
fn follower_abandons_counter_that_restarts_or_changes_speed() {
    let again = |turned: &SkewedClock| turned.ticks.set(17.0);
    let slower = |turned: &SkewedClock| turned.millionths.set(500_000.0);
    let faster = |turned: &SkewedClock| turned.millionths.set(-500_000.0);
    type CounterFault = fn(&SkewedClock);
    for (name, change) in [("again", again as CounterFault), ("slower", slower), ("faster", faster)]
    {
        let (turned, follower) = (SkewedClock::new(), ClockFollower::new(PERIOD));
        turned.worst(&follower, 100e6, 1000.0);
        let last = follower.now(&turned);
        change(&turned);
        turned.worst(&follower, 100e6, 1000.0);
        assert!(follower.now(&turned) >= last);
        assert!(follower.distrusted.load(Relaxed), "{name}");
        assert_eq!(turned.worst(&follower, 100e6, 1e6), 0, "{name}: now it is the clock itself");
    }
}

#[test]
fn follower_reads_clock_itself_without_trusted_counter() {
    let (turned, follower) =
        (SkewedClock { trusted: false, ..SkewedClock::new() }, ClockFollower::new(PERIOD));
    assert_eq!(turned.worst(&follower, 50e6, 1000.0), 0);
    assert!(follower.distrusted.load(Relaxed));
    assert_eq!(turned.looks.get(), 50_000, "each reading is one look, and one only");
}

#[test]
fn time_never_goes_back_while_lines_are_replaced_constantly() {
    // Segments a thousand times shorter than in production: each thread crosses many ends of
    // segments.
    let follower = ClockFollower::new(PERIOD / 1000);
    let heard = AtomicU64::new(0);
    let run = || {
        let (start, mut last) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(300) {
            let read = follower.now(&Processor);
            assert!(last <= read, "{last} was read before {read}");
            let before = heard.load(Acquire);
            super::super::source::finish_loads();
            last = follower.now(&Processor);
            assert!(read.max(before) <= last, "{read}, {before} heard of, then {last}");
            heard.fetch_max(last, AcqRel);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(run))));
    if Processor.is_trusted() && !follower.distrusted.load(Relaxed) {
        assert!(follower.version.load(Relaxed) > 20, "lines were replaced");
    }
}
