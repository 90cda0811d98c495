//! DEADLINE of the instances of a writer or reader: when each instance is due, and which deadlines
//! were missed.
//!
//! Owns: the times. Never does: read a clock, or write anything. A touch costs one table lookup; an
//! instance whose queue entry comes up costs two operations on the queue.

use std::collections::{BTreeMap, BTreeSet};

/// See the [module](self). Times are in nanoseconds of the caller's clock.
#[derive(Default, Debug)]
pub(crate) struct Deadlines {
    period: u64,
    /// Due time of each instance: as it was when the instance was last queued, and as it is now.
    instances: BTreeMap<u128, InstanceDeadline>,
    /// Instances by queued due time. An instance that was touched since it was queued stands too
    /// early here. Its entry moves to the right position when it comes up, so a touch needs no
    /// access to the queue.
    queue: BTreeSet<(u64, u128)>,
}

#[derive(Debug)]
struct InstanceDeadline {
    queued: u64,
    at: u64,
}

/// Deadlines that were missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MissedDeadlines {
    pub(crate) count: u64,
    /// Instance of the last missed deadline.
    pub(crate) last: u128,
}

impl Deadlines {
    pub(crate) fn new(period: u64) -> Deadlines {
        Deadlines { period, ..Deadlines::default() }
    }

    /// Sets another period. Each instance is then due one period from now.
    pub(crate) fn set_period(&mut self, period: u64, now: u64) {
        let keys = std::mem::take(&mut self.instances).into_keys();
        *self = Deadlines::new(period);
        for key in keys {
            self.touch(key, now);
        }
    }

    /// Notes that an instance was written or received. Returns whether the queue was empty before,
    /// in which case no check is scheduled yet.
    pub(crate) fn touch(&mut self, key: u128, now: u64) -> bool {
        let at = now.saturating_add(self.period);
        match self.instances.get_mut(&key) {
            Some(due) => {
                due.at = at;
                false
            }
            None => {
                self.instances.insert(key, InstanceDeadline { queued: at, at });
                self.queue.insert((at, key));
                self.queue.len() == 1
            }
        }
    }

    /// Removes an instance: no further sample of it is expected.
    pub(crate) fn forget(&mut self, key: u128) {
        if let Some(due) = self.instances.remove(&key) {
            self.queue.remove(&(due.queued, key));
        }
    }

    /// Time at which the next check is due.
    pub(crate) fn next(&self) -> Option<u64> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Returns the deadlines missed up to now. Each period without a sample counts once.
    pub(crate) fn advance(&mut self, now: u64) -> MissedDeadlines {
        self.advance_each(now, |_| {})
    }

    /// Does what [`Deadlines::advance`] does, and calls `each` for each instance with a missed
    /// deadline.
    pub(crate) fn advance_each(&mut self, now: u64, mut each: impl FnMut(u128)) -> MissedDeadlines {
        let mut missed = MissedDeadlines::default();
        while let Some((queued, key)) = self.queue.first().copied().filter(|(at, _)| *at <= now) {
            self.queue.remove(&(queued, key));
            let Some(due) = self.instances.get_mut(&key) else { continue };
            if due.at <= now {
                let periods = (now - due.at) / self.period.max(1) + 1;
                missed = MissedDeadlines { count: missed.count + periods, last: key };
                each(key);
                due.at = due.at.saturating_add(periods.saturating_mul(self.period.max(1)));
            }
            due.queued = due.at;
            self.queue.insert((due.at, key));
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_without_a_sample_is_missed_once() {
        let mut deadlines = Deadlines::new(10);
        assert_eq!(deadlines.next(), None);
        assert!(deadlines.touch(1, 0), "the first one");
        assert!(!deadlines.touch(2, 5));
        assert_eq!(deadlines.next(), Some(10));
        assert_eq!(deadlines.advance(9), MissedDeadlines::default());
        deadlines.touch(1, 9);
        assert_eq!(deadlines.advance(14), MissedDeadlines::default(), "1 was touched");
        assert_eq!(deadlines.next(), Some(15));
        assert_eq!(deadlines.advance(15), MissedDeadlines { count: 1, last: 2 });
        assert_eq!(deadlines.advance(15), MissedDeadlines::default());
        assert_eq!(deadlines.advance(49), MissedDeadlines { count: 4 + 3, last: 2 });
        deadlines.forget(1);
        deadlines.forget(2);
        assert_eq!((deadlines.next(), deadlines.advance(1000)), (None, MissedDeadlines::default()));
    }

    #[test]
    fn new_period_counts_from_time_of_change() {
        let mut deadlines = Deadlines::new(10);
        deadlines.touch(1, 0);
        deadlines.touch(2, 5);
        deadlines.set_period(100, 8);
        assert_eq!(deadlines.next(), Some(108));
        assert_eq!(deadlines.advance(107), MissedDeadlines::default());
        assert_eq!(deadlines.advance(108).count, 2);
        // A period of zero counts as the shortest one, so that the checks come to an end.
        deadlines.set_period(0, 200);
        assert_eq!((deadlines.next(), deadlines.advance(202).count), (Some(200), 2 * 3));
        assert_eq!(deadlines.next(), Some(203));
    }

    /// Compares the queue with a model that checks every instance.
    #[test]
    fn deadline_queue_agrees_with_check_of_every_instance() {
        let (mut seed, mut now) = (7_u64, 0);
        let mut random_below = |below: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (seed >> 33) % below
        };
        let (mut deadlines, mut model) = (Deadlines::new(10), BTreeMap::<u128, u64>::new());
        for _ in 0..20_000 {
            now += random_below(4);
            let key = u128::from(random_below(6));
            match random_below(8) {
                0 => {
                    deadlines.forget(key);
                    model.remove(&key);
                }
                1..=3 => {
                    let mut count = 0;
                    for due in model.values_mut() {
                        while *due <= now {
                            (*due, count) = (*due + 10, count + 1);
                        }
                    }
                    assert_eq!(deadlines.advance(now).count, count);
                }
                _ => {
                    // Deadlines missed before the touch are counted before it.
                    let mut count = 0;
                    for due in model.values_mut() {
                        while *due <= now {
                            (*due, count) = (*due + 10, count + 1);
                        }
                    }
                    assert_eq!(deadlines.advance(now).count, count);
                    deadlines.touch(key, now);
                    model.insert(key, now + 10);
                }
            }
            assert!(deadlines.next().is_none_or(|at| at <= *model.values().min().unwrap()));
        }
    }
}
