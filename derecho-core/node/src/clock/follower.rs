//! A counter that follows a clock: readings of the one, turned into time of the other.
//!
//! ```text
//!   nanoseconds
//!     |                      ____---   a line, drawn when the one before has ended: from where
//!     |              ___/----          the clock is to where it will be at the line's end
//!     |        __---'
//!     |   _--''        |     |
//!     +---------------------------- ticks
//!         start      start   start + length
//! ```
//!
//! Why no reading is less than one before it: a line only rises and is used for the ticks between
//! its start and its end alone; the next one starts no lower than it has ended. Whoever comes
//! between two lines asks the clock, answers no less than the old line's end, and leaves the answer
//! in `floor`, which everyone's answer keeps to. So it does not matter when exactly the counter was
//! read, or whether whoever draws the next line is interrupted in it; and nobody waits for it.

use std::sync::Mutex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};

use super::source::Source;

/// Slopes are nanoseconds a tick, in units of two to the minus this.
const FRACTION: u32 = 32;
/// Slopes of counters between 62 MHz and 16 GHz; any other is no counter of a processor.
const SLOPES: std::ops::RangeInclusive<u64> = 1 << (FRACTION - 4)..=1 << (FRACTION + 4);
/// A counter whose speed changes by more than one part in so many is not trusted any more. The
/// kernel lets a clock be corrected by a tenth.
const STEADY: u64 = 8;
/// A line whose end is further from the clock than one part in so many of its length was no use.
const AHEAD: u64 = 4;

/// How often counter and clock are looked at together, at most, until nothing comes in between.
const TRIES: u32 = 4;
/// Ticks between two looks that nothing came in between.
const UNDISTURBED: u64 = 512;
/// Ticks between two looks that say too little about the clock.
const USELESS: u64 = 8192;

/// The lines, one after the other, and who may draw the next.
#[repr(align(64))]
pub(super) struct Follower {
    /// Odd while the line is being replaced.
    version: AtomicU64,
    start: AtomicU64,
    /// Ticks from start to end; zero: there is no line.
    length: AtomicU64,
    base: AtomicU64,
    slope: AtomicU64,
    /// No answer is less.
    floor: AtomicU64,
    /// For how many nanoseconds a line is drawn.
    period: u64,
    /// The counter is no clock: the other one answers for good.
    distrusted: AtomicBool,
    /// Only ever tried: whoever does not get it does without a new line.
    drawing: Mutex<Drawing>,
}

/// What the next line is drawn from.
struct Drawing {
    asked: bool,
    last: Option<Sighting>,
    /// The slope that was seen, without corrections.
    seen: Option<u64>,
}

/// Counter and clock at one moment.
#[derive(Clone, Copy)]
struct Sighting {
    ticks: u64,
    nanos: u64,
}

#[derive(Clone, Copy)]
struct Line {
    start: u64,
    length: u64,
    base: u64,
    slope: u64,
}

const NO_LINE: Line = Line { start: 0, length: 0, base: 0, slope: 0 };

impl Line {
    #[inline]
    fn after(&self, ticks: u64) -> u64 {
        // A period's nanoseconds and the fraction take 56 bits.
        self.base + ((ticks * self.slope) >> FRACTION)
    }

    fn end(&self) -> u64 {
        self.after(self.length)
    }

    /// The time at a tick of the line, or at its start just before it: the counter may have been
    /// read before the line was.
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

impl Sighting {
    fn take(source: &impl Source) -> Option<Sighting> {
        let look = || {
            let (before, nanos, after) = (source.ticks(), source.nanos(), source.ticks());
            let took = after.wrapping_sub(before);
            (took, Sighting { ticks: before.wrapping_add(took / 2), nanos })
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

impl Follower {
    /// Knows nothing yet. A line is drawn for so many nanoseconds.
    pub(super) const fn new(period: u64) -> Follower {
        Follower {
            version: AtomicU64::new(0),
            start: AtomicU64::new(0),
            length: AtomicU64::new(0),
            base: AtomicU64::new(0),
            slope: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            period,
            distrusted: AtomicBool::new(false),
            drawing: Mutex::new(Drawing { asked: false, last: None, seen: None }),
        }
    }

    /// The clock's time, by the counter if possible.
    #[inline]
    pub(super) fn now(&self, source: &impl Source) -> u64 {
        // Pairs with the end of `draw`: the words are of this version, or of a later one.
        let version = self.version.load(Acquire);
        let line = self.words();
        if line.length != 0 {
            let passed = source.ticks().wrapping_sub(line.start);
            let floor = self.floor.load(Relaxed);
            // Pairs with the fence in `draw`: a word of a later version shows in the version, too.
            fence(Acquire);
            let whole = version.is_multiple_of(2) && self.version.load(Relaxed) == version;
            if whole && passed <= line.length {
                return line.after(passed).max(floor);
            }
        }
        self.look(source)
    }

    #[inline]
    fn words(&self) -> Line {
        Line {
            start: self.start.load(Relaxed),
            length: self.length.load(Relaxed),
            base: self.base.load(Relaxed),
            slope: self.slope.load(Relaxed),
        }
    }

    /// The line, unless it is just being replaced.
    fn line(&self) -> Option<Line> {
        let version = self.version.load(Acquire);
        let line = self.words();
        fence(Acquire);
        let whole = version.is_multiple_of(2) && self.version.load(Relaxed) == version;
        whole.then_some(line)
    }

    /// The time where no line says it.
    #[cold]
    #[inline(never)]
    fn look(&self, source: &impl Source) -> u64 {
        if !self.distrusted.load(Relaxed)
            && let Ok(mut drawing) = self.drawing.try_lock()
        {
            self.follow(&mut drawing, source);
        }
        let line = self.line();
        let reached = line.filter(|line| line.length != 0);
        if let Some(nanos) = reached.and_then(|line| line.at(source.ticks())) {
            return nanos.max(self.floor.load(Relaxed));
        }
        // While a line is being replaced, `floor` is where it has ended already.
        let nanos = source.nanos().max(reached.map_or(0, |line| line.end()));
        self.floor.fetch_max(nanos, AcqRel).max(nanos)
    }

    /// Draws the next line, if it is time and enough is known.
    fn follow(&self, drawing: &mut Drawing, source: &impl Source) {
        if !drawing.asked {
            drawing.asked = true;
            if !source.is_trusted() {
                return self.distrusted.store(true, Relaxed);
            }
        }
        // Nobody else draws.
        let old = self.words();
        let Some(last) = drawing.last else { return drawing.last = Sighting::take(source) };
        let is_drawn = old.at(source.ticks()).is_some();
        if is_drawn || source.nanos().saturating_sub(last.nanos) < self.period / 2 {
            return;
        }
        let Some(here) = Sighting::take(source) else { return };
        match self.next(old, last, here, drawing.seen) {
            Some((line, seen)) => {
                self.draw(line, line.base);
                (drawing.last, drawing.seen) = (Some(here), Some(seen));
            }
            None => {
                self.draw(NO_LINE, old.end());
                self.distrusted.store(true, Relaxed);
                tracing::warn!(
                    "the processor's counter and the system's clock disagree: from now on the \
                     time comes from the system's clock alone, which costs a little more"
                );
            }
        }
    }

    /// The line from `here` on, and the slope since the `last` sighting. None if the counter does
    /// not keep its speed.
    fn next(
        &self,
        old: Line,
        last: Sighting,
        here: Sighting,
        seen: Option<u64>,
    ) -> Option<(Line, u64)> {
        let passed = u128::from(here.nanos.saturating_sub(last.nanos));
        let ticks = u128::from(here.ticks.wrapping_sub(last.ticks));
        let slope = u64::try_from((passed << FRACTION).checked_div(ticks)?).ok()?;
        let is_steady = seen.is_none_or(|seen| slope.abs_diff(seen) <= seen / STEADY);
        // A line that has ended ahead of the clock lets the clock catch up during the next one.
        let base = here.nanos.max(old.end());
        let ahead = base - here.nanos;
        if !SLOPES.contains(&slope) || !is_steady || ahead > self.period / AHEAD {
            return None;
        }
        let length = (self.period << FRACTION) / slope;
        let line =
            Line { start: here.ticks, length, base, slope: slope - (ahead << FRACTION) / length };
        Some((line, slope))
    }

    /// Replaces the line, all of whose times are at most `reached`.
    fn draw(&self, line: Line, reached: u64) {
        self.floor.fetch_max(reached, AcqRel);
        let version = self.version.load(Relaxed);
        self.version.store(version + 1, Release);
        // Whoever sees a word of the new line sees the odd version as well.
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
