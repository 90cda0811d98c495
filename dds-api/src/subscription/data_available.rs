//! DATA_AVAILABLE of a reader, and the reader's share in DATA_ON_READERS of its subscriber
//! (DDS 1.4, 2.2.4.2.2).
//!
//! ```text
//!                      something arrives ──> set, while anything is unread
//!   DATA_AVAILABLE     reset by a call that reads or takes, and by on_data_available
//!   DATA_ON_READERS    reset by the same for any reader of the subscriber, and by on_data_on_readers
//! ```
//! Owns: what had arrived at the last reset. Never does: count arrivals; the cache and the queues
//! do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use idl_xtypes::TopicData;

use super::cache::Selection;
use super::intake::ReaderCore;
use super::reader_cache::wall;
use super::states::States;

/// All that has arrived at a reader up to a time. Changes with each arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ArrivalMark {
    /// Number of arrivals in the cache.
    InCache(u64),
    /// Number of records that have come into the queues.
    InQueues(u64),
}

/// A status that is reset when data are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DataStatus {
    Available,
    OnReaders,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct DataAvailable {
    /// Whether anybody has asked for a status. Before that, calls that take directly from the
    /// queues note no arrivals, because that costs them time.
    is_asked: AtomicBool,
    /// Extent of what had arrived at the last reset of each status.
    seen: Mutex<SeenArrivals>,
}

#[derive(Default)]
struct SeenArrivals {
    available: Option<ArrivalMark>,
    on_readers: Option<ArrivalMark>,
}

impl DataAvailable {
    fn lock(&self) -> MutexGuard<'_, SeenArrivals> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something has arrived since the last reset of a status.
    fn is_news(&self, status: DataStatus, mark: ArrivalMark) -> bool {
        let seen = self.lock();
        let seen = match status {
            DataStatus::Available => seen.available,
            DataStatus::OnReaders => seen.on_readers,
        };
        seen != Some(mark)
    }
}

impl<T: TopicData> ReaderCore<T> {
    /// Whether a status of this reader is set.
    pub(super) fn has_news(&self, status: DataStatus) -> bool {
        let data = &self.data_available;
        data.is_asked.store(true, Ordering::Relaxed);
        if let Some(has_data) = self.has_data() {
            return has_data && data.is_news(status, self.mark_of_queues());
        }
        let mut reader_cache = self.cache();
        let unread = Selection { states: States::not_read(), ..Selection::default() };
        data.is_news(status, ArrivalMark::InCache(reader_cache.arrivals()))
            && reader_cache.cache.has(wall(), &unread, |_| true)
    }

    /// All that has arrived in the queues, for a call that takes from them directly; `None` if
    /// nobody has asked for a status.
    #[inline(always)]
    pub(super) fn mark_if_asked(&self) -> Option<ArrivalMark> {
        match self.data_available.is_asked.load(Ordering::Relaxed) {
            true => Some(self.mark_of_queues()),
            false => None,
        }
    }

    #[cold]
    fn mark_of_queues(&self) -> ArrivalMark {
        let received = self.queues().received(&self.shared);
        ArrivalMark::InQueues(received.wrapping_add(self.unqueued.received()))
    }

    /// Resets both statuses: a call has read or taken what had arrived by this mark, or a listener
    /// is called for it.
    pub(super) fn note_read(&self, mark: ArrivalMark) {
        *self.data_available.lock() =
            SeenArrivals { available: Some(mark), on_readers: Some(mark) };
        if let Some(subscriber) = &self.subscriber {
            subscriber.data_on_readers().reset();
        }
    }

    /// As `note_read`, if there is a mark.
    #[inline(always)]
    pub(super) fn note_read_if(&self, mark: Option<ArrivalMark>) {
        if let Some(mark) = mark {
            self.note_read(mark);
        }
    }

    /// Resets DATA_ON_READERS, as far as it depends on this reader.
    pub(super) fn reset_on_readers(&self) {
        let mark = match self.cache.get() {
            Some(_) => ArrivalMark::InCache(self.cache().arrivals()),
            None => self.mark_of_queues(),
        };
        self.data_available.lock().on_readers = Some(mark);
    }
}
