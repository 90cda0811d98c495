//! One thread: a machine, its CPU clock, and its rest.
//!
//! Owns: when the thread turns next. Never does: run the turn.

use std::collections::VecDeque;

use derecho_core::link::LinkEvent;
use derecho_core::machine::{Effects, Machine};

/// How a thread has spent its time. Idle turns that were not run are not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadUse {
    /// Turns that were run.
    pub turns: u64,
    /// CPU time of those turns.
    pub busy_ns: u64,
    /// The part of it that went into posting and completions.
    pub posting_ns: u64,
}

/// What a turn's end leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// The next turn follows.
    Busy,
    /// Nothing was done: the same would be done until something arrives.
    Idle,
}

/// Idle turns that are not run: one began at `since`, and one every `period` after.
#[derive(Clone, Copy)]
struct Sleep {
    since: u64,
    period: u64,
    /// When the thread turns although nothing arrives.
    alarm: Option<u64>,
}

impl Sleep {
    /// When the first of the turns after the one at `since` begins, from `at` on.
    fn first_turn(&self, at: u64) -> u64 {
        let periods = at.saturating_sub(self.since).div_ceil(self.period).max(1);
        self.since.saturating_add(periods.saturating_mul(self.period))
    }
}

pub(super) struct Thread<M> {
    pub(super) machine: M,
    pub(super) inbox: VecDeque<LinkEvent>,
    pub(super) effects: Effects,
    pub(super) usage: ThreadUse,
    /// The number of the turn that counts; others were put off.
    number: u64,
    sleep: Option<Sleep>,
}

impl<M: Machine> Thread<M> {
    pub(super) fn new(machine: M) -> Thread<M> {
        Thread {
            machine,
            inbox: VecDeque::new(),
            effects: Effects::new(),
            usage: ThreadUse::default(),
            number: 0,
            sleep: None,
        }
    }

    /// Whether the turn of this number is still to be run; it then begins.
    pub(super) fn is_due(&mut self, number: u64) -> bool {
        if self.number != number {
            return false;
        }
        self.sleep = None;
        true
    }

    /// The turn that began at `began` is over; gives the next one's moment and number, if there
    /// is to be one.
    pub(super) fn end_turn(
        &mut self,
        began: u64,
        took: u64,
        rest: Rest,
        wanted: Option<u64>,
    ) -> Option<(u64, u64)> {
        self.number += 1;
        if rest == Rest::Busy {
            return Some((began + took, self.number));
        }
        let mut sleep = Sleep { since: began, period: took, alarm: None };
        sleep.alarm = wanted.map(|at| sleep.first_turn(at));
        self.sleep = Some(sleep);
        sleep.alarm.map(|at| (at, self.number))
    }

    /// Something has arrived at `now`; gives the moment and number of the turn that sees it, if it
    /// was not to be run anyway.
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

    /// The thread stood still for `pause`: its idle turns come that much later.
    pub(super) fn shift(&mut self, pause: u64) {
        if let Some(sleep) = &mut self.sleep {
            sleep.since += pause;
            // Whatever turn was planned is planned anew.
            sleep.alarm = None;
            self.number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_thread_wakes_where_its_polling_would_have_been() {
        let sleep = Sleep { since: 1000, period: 70, alarm: None };
        assert_eq!(sleep.first_turn(0), 1070);
        assert_eq!(sleep.first_turn(1000), 1070);
        assert_eq!(sleep.first_turn(1070), 1070);
        assert_eq!(sleep.first_turn(1071), 1140);
        assert_eq!(sleep.first_turn(u64::MAX), u64::MAX);
    }
}
