//! Monitoring of a writer's DEADLINE and LIVELINESS.
//!
//! ```text
//!   write, assert       notes the time; a write that revives a lost writer makes the machine check
//!   machine's turn      checks what is due: a deadline, or a lease that was not renewed
//! ```
//! Owns: the due times, whether the lease is lost, and which notices (I-215) are due. Never does:
//! announce or write anything; the machine does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::ids::Time;
use qos_profiles::{DataWriterQos, LivelinessQosPolicyKind, OwnershipQosPolicyKind};

use super::record::WriterNotice;
use crate::infrastructure::deadlines::{Deadlines, MissedDeadlines};

/// Time in nanoseconds after which a notice that found no room is tried again.
const NOTICE_RETRY: u64 = 5_000_000;

/// Liveliness assertions of a participant's application.
#[derive(Default)]
pub(crate) struct ParticipantLiveliness {
    asserted: AtomicU64,
    /// Whether a writer with MANUAL_BY_PARTICIPANT liveliness has lost its lease.
    lost: AtomicBool,
}

impl ParticipantLiveliness {
    /// Asserts that the application is alive. Returns whether a lost lease is renewed by that.
    pub(crate) fn assert(&self, now: Time) -> bool {
        self.asserted.fetch_max(now.0, Ordering::AcqRel);
        self.lost.swap(false, Ordering::AcqRel)
    }
}

/// See the [module](self).
pub(crate) struct TimelinessMonitor {
    /// Whether there is a deadline or a lease to monitor.
    is_kept: AtomicBool,
    state: Mutex<TimelinessState>,
    participant: Arc<ParticipantLiveliness>,
}

#[derive(Default)]
struct TimelinessState {
    deadlines: Option<Deadlines>,
    lease: Option<LivelinessLease>,
    /// Whether a missed deadline concerns the ownership of its instance.
    is_exclusive: bool,
    /// Instances with a missed deadline that were not written since, each with whether the notice
    /// is written.
    overdue: BTreeMap<u128, bool>,
}

struct LivelinessLease {
    nanos: u64,
    by_participant: bool,
    asserted: u64,
    is_lost: bool,
    /// Whether the notice of the loss is written.
    is_noticed: bool,
}

/// Result of a check.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct TimelinessCheck {
    pub(crate) missed: MissedDeadlines,
    /// Whether the writer is alive, if that has changed.
    pub(crate) is_alive: Option<bool>,
    /// Time of the next check.
    pub(crate) next: Option<Time>,
}

impl TimelinessMonitor {
    pub(crate) fn new(liveliness: Arc<ParticipantLiveliness>) -> TimelinessMonitor {
        TimelinessMonitor {
            is_kept: AtomicBool::new(false),
            state: Mutex::default(),
            participant: liveliness,
        }
    }

    fn lock(&self) -> MutexGuard<'_, TimelinessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the monitored policies.
    pub(crate) fn set_policies(&self, qos: &DataWriterQos, now: Time) {
        let mut state = self.lock();
        match (qos.deadline.period.nanos(), &mut state.deadlines) {
            (Some(period), Some(deadlines)) => deadlines.set_period(period, now.0),
            (period, deadlines) => *deadlines = period.map(Deadlines::new),
        }
        state.is_exclusive = qos.ownership.kind == OwnershipQosPolicyKind::Exclusive;
        let kind = qos.liveliness.kind;
        let nanos = qos.liveliness.lease_duration.nanos();
        // Automatic liveliness follows from the participant's membership.
        let nanos = nanos.filter(|_| kind != LivelinessQosPolicyKind::Automatic);
        let by_participant = kind == LivelinessQosPolicyKind::ManualByParticipant;
        // LIVELINESS may not change on an enabled writer.
        if state.lease.is_none() {
            state.lease = nanos.map(|nanos| LivelinessLease {
                nanos,
                by_participant,
                asserted: now.0,
                is_lost: false,
                is_noticed: false,
            });
        }
        let is_kept = state.deadlines.is_some() || state.lease.is_some();
        self.is_kept.store(is_kept, Ordering::Release);
    }

    /// Whether there is a deadline or a lease to monitor.
    #[inline(always)]
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// Notes that an instance was written or has ended. Returns whether the machine must check.
    #[cold]
    pub(crate) fn wrote(&self, key: Option<u128>, is_over: bool, now: Time) -> bool {
        let mut state = self.lock();
        let mut is_news = false;
        if let Some(key) = key.filter(|_| !state.overdue.is_empty()) {
            state.overdue.remove(&key);
        }
        if let (Some(deadlines), Some(key)) = (&mut state.deadlines, key) {
            match is_over {
                true => deadlines.forget(key),
                false => is_news = deadlines.touch(key, now.0),
            }
        }
        self.renew(&mut state, now) || is_news
    }

    /// Notes that the writer is alive. Returns whether the machine must check.
    pub(crate) fn assert(&self, now: Time) -> bool {
        self.renew(&mut self.lock(), now)
    }

    fn renew(&self, state: &mut TimelinessState, now: Time) -> bool {
        match &mut state.lease {
            Some(lease) if lease.by_participant => self.participant.assert(now),
            Some(lease) => {
                lease.asserted = now.0.max(lease.asserted);
                lease.is_lost
            }
            None => false,
        }
    }

    /// Checks what is due. `write` writes a notice into the writer's stream; `false` if there is no
    /// room for it. The lock is held meanwhile: a sample that renews the lease, or meets a
    /// deadline, notes its time before it is committed, so it either prevents the notice or stands
    /// behind it.
    pub(crate) fn check(
        &self,
        now: Time,
        mut write: impl FnMut(WriterNotice) -> bool,
    ) -> TimelinessCheck {
        if !self.is_kept() {
            return TimelinessCheck::default();
        }
        let state = &mut *self.lock();
        let mut due = TimelinessCheck::default();
        let mut has_room = true;
        if let Some(deadlines) = &mut state.deadlines {
            let (overdue, is_exclusive) = (&mut state.overdue, state.is_exclusive);
            due.missed = deadlines.advance_each(now.0, |key| {
                if is_exclusive {
                    overdue.entry(key).or_insert(false);
                }
            });
            due.next = deadlines.next().map(Time);
        }
        for (key, is_noticed) in state.overdue.iter_mut().filter(|(_, is_noticed)| !**is_noticed) {
            has_room = has_room && write(WriterNotice::Overdue(*key));
            *is_noticed = has_room;
        }
        if let Some(lease) = &mut state.lease {
            let liveliness = match lease.by_participant {
                true => self.participant.asserted.load(Ordering::Acquire),
                false => 0,
            };
            let until = lease.asserted.max(liveliness).saturating_add(lease.nanos);
            let is_lost = until <= now.0;
            if is_lost != lease.is_lost {
                (lease.is_lost, lease.is_noticed) = (is_lost, false);
                due.is_alive = Some(!is_lost);
            }
            if is_lost && !lease.is_noticed {
                has_room = has_room && write(WriterNotice::Ended);
                lease.is_noticed = has_room;
            }
            if is_lost && lease.by_participant {
                self.participant.lost.store(true, Ordering::Release);
            }
            due.next = due.next.into_iter().chain((!is_lost).then_some(Time(until))).min();
        }
        if !has_room {
            let retry = Time(now.0.saturating_add(NOTICE_RETRY));
            due.next = due.next.into_iter().chain([retry]).min();
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use qos_profiles::Duration;

    use super::*;

    fn qos(kind: LivelinessQosPolicyKind, millis: u32) -> DataWriterQos {
        let mut qos = DataWriterQos::default();
        qos.liveliness.kind = kind;
        qos.liveliness.lease_duration = Duration::from_millis(millis);
        qos
    }

    const MILLI: u64 = 1_000_000;

    #[test]
    fn lease_is_lost_once_and_regained_on_assertion() {
        let timeliness = TimelinessMonitor::new(Arc::default());
        timeliness.set_policies(&qos(LivelinessQosPolicyKind::ManualByTopic, 10), Time(0));
        let next = |millis: u64| Some(Time(millis * MILLI));
        assert_eq!(
            timeliness.check(Time(MILLI), |_| true),
            TimelinessCheck { next: next(10), ..TimelinessCheck::default() }
        );
        assert!(!timeliness.wrote(None, false, Time(5 * MILLI)));
        assert_eq!(
            timeliness.check(Time(10 * MILLI), |_| true),
            TimelinessCheck { next: next(15), ..TimelinessCheck::default() }
        );
        let lost = TimelinessCheck { is_alive: Some(false), ..TimelinessCheck::default() };
        assert_eq!(timeliness.check(Time(15 * MILLI), |_| true), lost);
        assert_eq!(timeliness.check(Time(40 * MILLI), |_| true), TimelinessCheck::default());
        assert!(timeliness.assert(Time(50 * MILLI)), "assertion renews a lost lease");
        let back =
            TimelinessCheck { is_alive: Some(true), next: next(60), ..TimelinessCheck::default() };
        assert_eq!(timeliness.check(Time(50 * MILLI), |_| true), back);
    }

    #[test]
    fn writers_of_one_participant_renew_the_leases_of_each_other() {
        let liveliness = Arc::<ParticipantLiveliness>::default();
        let [one, other] = [10, 30].map(|millis| {
            let timeliness = TimelinessMonitor::new(Arc::clone(&liveliness));
            timeliness
                .set_policies(&qos(LivelinessQosPolicyKind::ManualByParticipant, millis), Time(0));
            timeliness
        });
        assert!(!other.wrote(None, false, Time(5 * MILLI)));
        assert_eq!(one.check(Time(12 * MILLI), |_| true).is_alive, None);
        assert_eq!(one.check(Time(15 * MILLI), |_| true).is_alive, Some(false));
        assert!(
            other.wrote(None, false, Time(20 * MILLI)),
            "write renews the lost lease of the first writer"
        );
        assert_eq!(one.check(Time(20 * MILLI), |_| true).is_alive, Some(true));
        // Both leases are lost at the same time, and the first assertion of either writer
        // renews both.
        assert_eq!(one.check(Time(60 * MILLI), |_| true).is_alive, Some(false));
        assert_eq!(other.check(Time(60 * MILLI), |_| true).is_alive, Some(false));
        assert!(one.assert(Time(61 * MILLI)) && !other.assert(Time(61 * MILLI)));
        assert_eq!(other.check(Time(61 * MILLI), |_| true).is_alive, Some(true));
        assert!(!other.assert(Time(62 * MILLI)), "assertion of a live writer changes nothing");
        let never = TimelinessMonitor::new(liveliness);
        never.set_policies(&qos(LivelinessQosPolicyKind::Automatic, 10), Time(0));
        assert!(!never.is_kept());
    }

    #[test]
    fn deadlines_and_leases_are_monitored_together() {
        let timeliness = TimelinessMonitor::new(Arc::default());
        assert_eq!(
            timeliness.check(Time(MILLI), |_| true),
            TimelinessCheck::default(),
            "neither deadline nor lease is promised"
        );
        let mut promised = qos(LivelinessQosPolicyKind::ManualByTopic, 30);
        promised.deadline.period = Duration::from_millis(10);
        timeliness.set_policies(&promised, Time(0));
        assert!(timeliness.is_kept());
        assert!(timeliness.wrote(Some(1), false, Time(0)), "first sample begins a deadline");
        assert!(!timeliness.wrote(Some(2), false, Time(0)));
        let missed = |count, last| MissedDeadlines { count, last };
        assert_eq!(timeliness.check(Time(9 * MILLI), |_| true).next, Some(Time(10 * MILLI)));
        timeliness.wrote(Some(1), true, Time(9 * MILLI));
        let due = timeliness.check(Time(10 * MILLI), |_| true);
        assert_eq!((due.missed, due.next), (missed(1, 2), Some(Time(20 * MILLI))));
        // The lease is due next, counted from the last write.
        promised.deadline.period = Duration::from_millis(1000);
        timeliness.set_policies(&promised, Time(11 * MILLI));
        assert_eq!(timeliness.check(Time(11 * MILLI), |_| true).next, Some(Time(39 * MILLI)));
        // The deadline is removed; the lease stays as it was.
        promised.deadline.period = Duration::INFINITE;
        promised.liveliness.lease_duration = Duration::from_millis(500);
        timeliness.set_policies(&promised, Time(12 * MILLI));
        let lost = timeliness.check(Time(39 * MILLI), |_| true);
        assert_eq!(lost, TimelinessCheck { is_alive: Some(false), ..TimelinessCheck::default() });
        assert!(timeliness.is_kept());
    }

    #[test]
    fn deadline_alone_is_monitored_and_renews_no_lease() {
        let timeliness = TimelinessMonitor::new(Arc::default());
        let mut promised = DataWriterQos::default();
        promised.deadline.period = Duration::from_millis(10);
        timeliness.set_policies(&promised, Time(0));
        assert!(timeliness.is_kept() && !timeliness.assert(Time(1)));
        promised.deadline.period = Duration::INFINITE;
        timeliness.set_policies(&promised, Time(2));
        assert!(!timeliness.is_kept());
    }
}
