//! A tick counter that follows a clock: converts readings of the counter into time of the clock.
//!
//! ```text
//!   nanoseconds
//!     |                      ____---   a segment, drawn when the previous one has ended: from the
//!     |              ___/----          clock's time to its expected time at the segment's end
//!     |        __---'
//!     |   _--''        |     |
//!     +---------------------------- ticks
//!         start      start   start + length
//! ```
//!
//! No reading is less than an earlier one, for these reasons. A segment only rises and is used only
//! for the ticks between its start and its end; the next segment starts no lower than the previous
//! one ended. A thread that reads between two segments asks the clock, answers no less than the old
//! segment's end, and stores the answer in `floor`, which bounds every later answer from below. It
//! therefore does not matter when exactly the counter was read, or whether the thread that draws
//! the next segment is interrupted; and no thread waits for it.

use std::sync::Mutex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};

use super::source::TickSource;

/// Fraction bits of slopes, which are nanoseconds per tick.
const FRACTION: u32 = 32;
/// Slopes of counters between 62 MHz and 16 GHz; any other slope is not from a processor's counter.
const SLOPES: std::ops::RangeInclusive<u64> = 1 << (FRACTION - 4)..=1 << (FRACTION + 4);
/// Limit of speed changes: a counter whose speed changes by more than one part in `STEADY` is no
/// longer trusted. The kernel corrects a clock by a tenth at most.
const STEADY: u64 = 8;
/// Limit of a segment's error: a segment whose end is further from the clock than one part in
/// `AHEAD` of its length was useless.
const AHEAD: u64 = 4;

/// Maximum number of attempts to read counter and clock together without an interruption.
const TRIES: u32 = 4;
/// Ticks between two readings that count as uninterrupted.
const UNDISTURBED: u64 = 512;
/// Ticks between two readings that say too little about the clock.
const USELESS: u64 = 8192;

/// Sequence of segments, and the lock of the thread that draws the next one.
#[repr(align(64))]
pub(super) struct ClockFollower {
    /// Odd while the segment is being replaced.
    version: AtomicU64,
    start: AtomicU64,
    /// Ticks from start to end; zero if there is no segment.
    length: AtomicU64,
    base: AtomicU64,
    slope: AtomicU64,
    /// Lower bound of all answers.
    floor: AtomicU64,
    /// Nanoseconds for which a segment is drawn.
    period: u64,
    /// True if the counter is not usable as a clock: the system's clock answers for good.
    distrusted: AtomicBool,
    /// Only taken with `try_lock`: a thread that does not get the lock continues without a new
    /// segment.
    calibration: Mutex<Calibration>,
}

/// Data from which the next segment is drawn.
struct Calibration {
    asked: bool,
    last: Option<ClockSample>,
    /// Measured slope, without corrections.
    seen: Option<u64>,
}

/// Counter and clock at one moment.
#[derive(Clone, Copy)]
struct ClockSample {
    ticks: u64,
    nanos: u64,
}

#[derive(Clone, Copy)]
struct ClockSegment {
    start: u64,
    length: u64,
    base: u64,
    slope: u64,
}

const NO_SEGMENT: ClockSegment = ClockSegment { start: 0, length: 0, base: 0, slope: 0 };

impl ClockSegment {
    #[inline]
    fn after(&self, ticks: u64) -> u64 {
        // The nanoseconds of a period and the fraction take 56 bits.
        self.base + ((ticks * self.slope) >> FRACTION)
    }

    fn end(&self) -> u64 {
        self.after(self.length)
    }

    /// Returns the time at a tick of the segment, or the segment's start time for a tick just
    /// before it: the counter may have been read before the segment was.
    fn at(&self, ticks: u64) -> Option<u64> {
        let passed = ticks.wrapping_sub(self.start);
        let missing = self.start.wrapping_sub(ticks);
        if self.length == 0 {
            None
        } else if passed <= self.length {
            Some(self.after(passed))
        } else {
            (missing <= self.length).then_some(self.base)
        }
    }
}

impl ClockSample {
    fn take(source: &impl TickSource) -> Option<ClockSample> {
        let look = || {
            let (before, nanos, after) = (source.ticks(), source.nanos(), source.ticks());
            let took = after.wrapping_sub(before);
            (took, ClockSample { ticks: before.wrapping_add(took / 2), nanos })
        };
        let mut best = look();
        for _ in 1..TRIES {
            if best.0 <= UNDISTURBED {
                break;
            }
            let next = look();
            if next.0 < best.0 {
                best = next;
            }
        }
        (best.0 <= USELESS).then_some(best.1)
    }
}

impl ClockFollower {
    /// Creates a follower without knowledge of the clock. Segments are drawn for `period`
    /// nanoseconds.
    pub(super) const fn new(period: u64) -> ClockFollower {
        ClockFollower {
            version: AtomicU64::new(0),
            start: AtomicU64::new(0),
            length: AtomicU64::new(0),
            base: AtomicU64::new(0),
            slope: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            period,
            distrusted: AtomicBool::new(false),
            calibration: Mutex::new(Calibration { asked: false, last: None, seen: None }),
        }
    }

    /// Returns the clock's time, by the counter if possible.
    #[inline]
    pub(super) fn now(&self, source: &impl TickSource) -> u64 {
        // Pairs with the end of `draw`: the words are of this version, or of a later one.
        let version = self.version.load(Acquire);
        let line = self.words();
        if line.length != 0 {
            let passed = source.ticks().wrapping_sub(line.start);
            let floor = self.floor.load(Relaxed);
            // Pairs with the fence in `draw`: if a word is of a later version, the version shows
            // that, too.
            fence(Acquire);
            let whole = version.is_multiple_of(2) && self.version.load(Relaxed) == version;
            if whole && passed <= line.length {
                return line.after(passed).max(floor);
            }
        }
        self.look(source)
    }

    #[inline]
    fn words(&self) -> ClockSegment {
        ClockSegment {
            start: self.start.load(Relaxed),
            length: self.length.load(Relaxed),
            base: self.base.load(Relaxed),
            slope: self.slope.load(Relaxed),
        }
    }

    /// Returns the segment, unless it is being replaced.
    fn line(&self) -> Option<ClockSegment> {
        let version = self.version.load(Acquire);
        let line = self.words();
        fence(Acquire);
        let whole = version.is_multiple_of(2) && self.version.load(Relaxed) == version;
        whole.then_some(line)
    }

    /// Returns the time where no segment covers it.
    #[cold]
    #[inline(never)]
    fn look(&self, source: &impl TickSource) -> u64 {
        if !self.distrusted.load(Relaxed)
            && let Ok(mut drawing) = self.calibration.try_lock()
        {
            self.follow(&mut drawing, source);
        }
        let line = self.line();
        let reached = line.filter(|line| line.length != 0);
        if let Some(nanos) = reached.and_then(|line| line.at(source.ticks())) {
            return nanos.max(self.floor.load(Relaxed));
        }
        // While a segment is being replaced, `floor` already covers its end.
        let nanos = source.nanos().max(reached.map_or(0, |line| line.end()));
        self.floor.fetch_max(nanos, AcqRel).max(nanos)
    }

    /// Draws the next segment, if it is time and enough is known.
    fn follow(&self, drawing: &mut Calibration, source: &impl TickSource) {
        if !drawing.asked {
            drawing.asked = true;
            if !source.is_trusted() {
                return self.distrusted.store(true, Relaxed);
            }
        }
        // No other thread draws.
        let old = self.words();
        let Some(last) = drawing.last else { return drawing.last = ClockSample::take(source) };
        let is_drawn = old.at(source.ticks()).is_some();
        if is_drawn || source.nanos().saturating_sub(last.nanos) < self.period / 2 {
            return;
        }
        let Some(here) = ClockSample::take(source) else { return };
        match self.next(old, last, here, drawing.seen) {
            Some((line, seen)) => {
                self.draw(line, line.base);
                (drawing.last, drawing.seen) = (Some(here), Some(seen));
            }
            None => {
                self.draw(NO_SEGMENT, old.end());
                self.distrusted.store(true, Relaxed);
                tracing::warn!(
                    "the processor's counter and the system's clock disagree: from now on the \
                     time comes from the system's clock alone, which costs a little more"
                );
            }
        }
    }

    /// Returns the segment from `here` on, and the slope since the `last` sample. `None` if the
    /// counter does not keep its speed.
    fn next(
        &self,
        old: ClockSegment,
        last: ClockSample,
        here: ClockSample,
        seen: Option<u64>,
    ) -> Option<(ClockSegment, u64)> {
        let passed = u128::from(here.nanos.saturating_sub(last.nanos));
        let ticks = u128::from(here.ticks.wrapping_sub(last.ticks));
        let slope = u64::try_from((passed << FRACTION).checked_div(ticks)?).ok()?;
        let is_steady = seen.is_none_or(|seen| slope.abs_diff(seen) <= seen / STEADY);
        // If a segment has ended ahead of the clock, the next segment lets the clock catch up.
        let base = here.nanos.max(old.end());
        let ahead = base - here.nanos;
        if !SLOPES.contains(&slope) || !is_steady || ahead > self.period / AHEAD {
            return None;
        }
        let length = (self.period << FRACTION) / slope;
        let line = ClockSegment {
            start: here.ticks,
            length,
            base,
            slope: slope - (ahead << FRACTION) / length,
        };
        Some((line, slope))
    }

    /// Replaces the segment, all of whose times are at most `reached`.
    fn draw(&self, line: ClockSegment, reached: u64) {
        self.floor.fetch_max(reached, AcqRel);
        let version = self.version.load(Relaxed);
        self.version.store(version + 1, Release);
        // A thread that sees a word of the new segment sees the odd version as well.
        fence(Release);
        self.start.store(line.start, Relaxed);
        self.length.store(line.length, Relaxed);
        self.base.store(line.base, Relaxed);
        self.slope.store(line.slope, Relaxed);
        self.version.store(version + 2, Release);
    }
}

#[cfg(test)]
mod tests;
