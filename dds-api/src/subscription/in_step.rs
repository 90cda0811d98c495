//! A reader that its subscriber leads along an order, in step with other readers.
//!
//! Owns: which samples of a record come into the cache, and when. Never does: advance by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use idl_xtypes::TopicData;

use super::cache::Selection;
use super::data_available::{ArrivalMark, DataStatus};
use super::group_access::{GroupAccess, GroupReader, NotifiedReader};
use super::intake::{IntakeStep, ReaderCore, RecordContents, TakenFor};
use super::queues::QueueHead;
use super::reader::{ActiveReader, DataReader};
use super::reader_cache::{ReaderCache, WaitingUnit, wall};
use super::subscriber::Subscriber;
use crate::domain::FillResult;
use crate::infrastructure::{AnyDataReader, StatusKind};

impl<T: TopicData> ReaderCore<T> {
    /// The access group that leads the reader, if the reader does not advance by itself.
    #[inline]
    pub(super) fn leader(&self) -> Option<&GroupAccess> {
        let access = self.subscriber.as_ref().map(Subscriber::group_access);
        access.filter(|access| access.is_group())
    }

    /// Has the cache filled while the application does not read.
    pub(super) fn fill_in_step(&self, leader: &GroupAccess) -> FillResult {
        if !self.has_queued() {
            return FillResult::Nothing;
        }
        let holds_up = self.holds_up();
        leader.fill();
        self.fill_count.fetch_add(1, Ordering::SeqCst);
        self.wake_waiting();
        if holds_up { FillResult::Much } else { FillResult::Little }
    }

    /// Loses the writers and streams that have ended, disposes the instances of deleted writers,
    /// and takes instances from owners that have missed a deadline. All samples taken in earlier
    /// preceded that (I-145, I-214, I-215, I-216).
    #[inline(always)]
    pub(super) fn take_departures(&self, reader_cache: &mut ReaderCache<T>) {
        if self.departures.are_any() {
            self.departures.take().into_iter().for_each(|it| reader_cache.depart(wall(), it));
        }
    }

    /// Takes the record at the reader's position. Its samples wait until the leader stores them.
    fn take_in_step(&self, reader_cache: &mut ReaderCache<T>) {
        let IntakeStep::Taken(record) = self.take_record(TakenFor::Cache) else { return };
        let stream = record.stream();
        let samples = match self.unpack(record) {
            RecordContents::Sample(sample) => vec![(0, sample)],
            RecordContents::Set(samples) => samples,
            RecordContents::Unreadable | RecordContents::Evicted => return,
        };
        self.let_wait(reader_cache, samples, stream, WaitingUnit::Turn);
    }
}

impl<T: TopicData> GroupReader for ReaderCore<T> {
    fn begin_turns(&self) -> bool {
        let core = self;
        let mut reader_cache = core.cache_as_is();
        core.take_up_settings(&mut reader_cache);
        let now = wall();
        let has_room =
            core.begin_filling(&mut reader_cache, now) && reader_cache.has_room_for_waiting(now);
        core.note_sending(&mut reader_cache);
        has_room
    }

    fn head(&self) -> QueueHead {
        self.queues().head(&self.shared, &self.participant.membership)
    }

    fn stage(&self) -> bool {
        let core = self;
        let mut reader_cache = core.cache_as_is();
        core.take_in_step(&mut reader_cache);
        core.take_departures(&mut reader_cache);
        reader_cache.has_room_for_waiting(wall())
    }

    fn store(&self, position: u64) {
        self.cache_as_is().store_waiting(wall(), Some(position));
    }

    fn end_turns(&self, has_all: bool) {
        let core = self;
        let mut reader_cache = core.cache_as_is();
        core.take_departures(&mut reader_cache);
        if has_all {
            core.note_losses(&mut reader_cache, wall());
        }
        core.update_statuses(&mut reader_cache);
    }

    fn positions(&self, wanted: &Selection) -> Vec<(u64, u64)> {
        let core = self;
        let mut reader_cache = match core.leader() {
            Some(_) => core.cache_as_is(),
            None => core.cache(),
        };
        reader_cache.cache.positions(wall(), wanted)
    }

    fn is_by_source(&self) -> bool {
        self.settings().by_source
    }
}

impl<T: TopicData> NotifiedReader for ActiveReader<T> {
    fn handle(self: Arc<Self>) -> Option<Box<dyn AnyDataReader>> {
        self.core.enabling.is_enabled().then(|| Box::new(DataReader::alive(self)) as _)
    }

    fn notify(self: Arc<Self>) {
        let kind = StatusKind::DataAvailable;
        if self.core.listener.mask().contains(kind) && self.core.has_news(DataStatus::Available) {
            let reader = DataReader::alive(self);
            reader.listener.call_unless_busy(kind, |it| {
                // Only here: a status that is reset without a call would be lost.
                reader.note_read(ArrivalMark::InCache(reader.cache().arrivals()));
                it.on_data_available(&reader);
            });
        }
    }
}
