//! One thread: a machine, its CPU clock, and its idle time.
//!
//! Owns: the time of the thread's next turn. Never does: run the turn.

use std::collections::VecDeque;

use derecho_core::link::LinkEvent;
use derecho_core::machine::{Effects, Machine};

/// Use of a thread's time. Skipped idle turns are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadUse {
    /// Number of turns run.
    pub turns: u64,
    /// CPU time of those turns.
    pub busy_ns: u64,
    /// Part of it spent on posting and completions.
    pub posting_ns: u64,
}

/// Consequence of a turn's end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnOutcome {
    /// The next turn follows.
    Busy,
    /// The turn did nothing, and neither would further turns until something arrives.
    Idle,
}

/// Idle turns that are not run: one began at `since`, and one every `period` after.
#[derive(Clone, Copy)]
struct IdleTurns {
    since: u64,
    period: u64,
    /// Time at which the thread turns even if nothing arrives.
    alarm: Option<u64>,
}

impl IdleTurns {
    /// Returns the start of the first turn at or after `at`, not counting the one at `since`.
    fn first_turn(&self, at: u64) -> u64 {
        let periods = at.saturating_sub(self.since).div_ceil(self.period).max(1);
        self.since.saturating_add(periods.saturating_mul(self.period))
    }
}

pub(super) struct SimThread<M> {
    pub(super) machine: M,
    pub(super) inbox: VecDeque<LinkEvent>,
    pub(super) effects: Effects,
    pub(super) usage: ThreadUse,
    /// Number of the valid turn; others were postponed.
    number: u64,
    sleep: Option<IdleTurns>,
}

impl<M: Machine> SimThread<M> {
    pub(super) fn new(machine: M) -> SimThread<M> {
        SimThread {
            machine,
            inbox: VecDeque::new(),
            effects: Effects::new(),
            usage: ThreadUse::default(),
            number: 0,
            sleep: None,
        }
    }

    /// Whether the turn of this number must still be run; the turn then begins.
    pub(super) fn is_due(&mut self, number: u64) -> bool {
        if self.number != number {
            return false;
        }
        self.sleep = None;
        true
    }

    /// Ends the turn that began at `began`; returns the moment and number of the next one, if there
    /// is one.
    pub(super) fn end_turn(
        &mut self,
        began: u64,
        took: u64,
        rest: TurnOutcome,
        wanted: Option<u64>,
    ) -> Option<(u64, u64)> {
        self.number += 1;
        if rest == TurnOutcome::Busy {
            return Some((began + took, self.number));
        }
        let mut sleep = IdleTurns { since: began, period: took, alarm: None };
        sleep.alarm = wanted.map(|at| sleep.first_turn(at));
        self.sleep = Some(sleep);
        sleep.alarm.map(|at| (at, self.number))
    }

    /// Handles an arrival at `now`; returns the moment and number of the turn that sees it, unless
    /// that turn runs anyway.
    pub(super) fn wake(&mut self, now: u64) -> Option<(u64, u64)> {
        let sleep = self.sleep.as_mut()?;
        let at = sleep.first_turn(now);
        if sleep.alarm.is_some_and(|alarm| alarm <= at) {
            return None;
        }
        sleep.alarm = Some(at);
        self.number += 1;
        Some((at, self.number))
    }

    /// Delays the thread's idle turns by `pause`, for which it stood still.
    pub(super) fn shift(&mut self, pause: u64) {
        if let Some(sleep) = &mut self.sleep {
            sleep.since += pause;
            // A planned turn is planned again.
            sleep.alarm = None;
            self.number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_thread_wakes_at_its_next_polling_time() {
        let sleep = IdleTurns { since: 1000, period: 70, alarm: None };
        assert_eq!(sleep.first_turn(0), 1070);
        assert_eq!(sleep.first_turn(1000), 1070);
        assert_eq!(sleep.first_turn(1070), 1070);
        assert_eq!(sleep.first_turn(1071), 1140);
        assert_eq!(sleep.first_turn(u64::MAX), u64::MAX);
    }
}
