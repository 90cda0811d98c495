//! The status board of an entity: the machine and calls record statuses, the application
//! reads them.
//!
//! Owns: the statuses of one entity, and which of them have changed since they were last read.
//! Never does: notify anybody; the engine notifies waiting threads, as after all events.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::status::{
    IncompatibleQosStatus, InconsistentTopicStatus, LivelinessChangedStatus, LivelinessLostStatus,
    OfferedDeadlineMissedStatus, PublicationMatchedStatus, RequestedDeadlineMissedStatus,
    SampleLostStatus, Status, StatusKind, StatusMask, SubscriptionMatchedStatus,
};

/// See the [module](self).
#[derive(Default)]
pub(crate) struct StatusBoard {
    changed: AtomicU32,
    statuses: Mutex<Statuses>,
}

/// Statuses of all kinds of entities; each entity uses those of its kind.
#[derive(Default)]
pub(crate) struct Statuses {
    pub(crate) inconsistent_topic: InconsistentTopicStatus,
    pub(crate) offered_deadline_missed: OfferedDeadlineMissedStatus,
    pub(crate) requested_deadline_missed: RequestedDeadlineMissedStatus,
    pub(crate) sample_lost: SampleLostStatus,
    pub(crate) incompatible_qos: IncompatibleQosStatus,
    pub(crate) liveliness_lost: LivelinessLostStatus,
    pub(crate) liveliness_changed: LivelinessChangedStatus,
    pub(crate) publication_matched: PublicationMatchedStatus,
    pub(crate) subscription_matched: SubscriptionMatchedStatus,
}

impl StatusBoard {
    fn lock(&self) -> MutexGuard<'_, Statuses> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the statuses and marks `kind` as changed.
    pub(crate) fn note(&self, kind: StatusKind, change: impl FnOnce(&mut Statuses)) {
        let mut statuses = self.lock();
        change(&mut statuses);
        // Under the lock, so that a reader of the status sees both changes or neither.
        self.changed.fetch_or(kind as u32, Ordering::Release);
    }

    /// Returns a status and marks it as read.
    pub(crate) fn take<S: Status>(
        &self,
        kind: StatusKind,
        status: impl FnOnce(&mut Statuses) -> &mut S,
    ) -> S {
        let mut statuses = self.lock();
        self.changed.fetch_and(!(kind as u32), Ordering::AcqRel);
        let status = status(&mut statuses);
        let read = status.clone();
        status.settle();
        read
    }

    /// Number of matched readers of a writer. Does not mark the status as read.
    pub(crate) fn matched_readers(&self) -> usize {
        self.lock().publication_matched.current_count as usize
    }

    /// Number of matched writers of a reader. Does not mark the status as read.
    pub(crate) fn matched_writers(&self) -> usize {
        self.lock().subscription_matched.current_count as usize
    }

    /// Marks a status as changed that has no counts on the status board.
    pub(crate) fn raise(&self, kind: StatusKind) {
        self.changed.fetch_or(kind as u32, Ordering::Release);
    }

    /// Marks such a status as read.
    pub(crate) fn clear(&self, kind: StatusKind) {
        self.changed.fetch_and(!(kind as u32), Ordering::AcqRel);
    }

    /// Statuses that have changed since they were last read.
    pub(crate) fn changes(&self) -> StatusMask {
        StatusMask(self.changed.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_status_resets_its_change_flag_and_change_counts() {
        let (board, kind) = (StatusBoard::default(), StatusKind::PublicationMatched);
        assert!(board.changes().is_empty());
        for _ in 0..2 {
            board.note(kind, |all| {
                all.publication_matched.count(1);
                all.publication_matched.current_count += 1;
                all.publication_matched.current_count_change += 1;
            });
        }
        assert_eq!(board.changes(), kind.into());
        let read = board.take(kind, |all| &mut all.publication_matched);
        assert_eq!((read.total_count, read.total_count_change), (2, 2));
        assert_eq!((read.current_count, read.current_count_change), (2, 2));
        assert!(board.changes().is_empty());
        let again = board.take(kind, |all| &mut all.publication_matched);
        assert_eq!((again.total_count, again.total_count_change), (2, 0));
        assert_eq!((again.current_count, again.current_count_change), (2, 0));
    }
}
