//! A reader that its subscriber leads along an order, in step with other readers.
//!
//! Owns: which samples of a record come into the cache, and when. Never does: advance by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use derecho_core::group::report::StreamId;
use idl_xtypes::TopicData;

use super::cache::{ArrivalSummary, RoomShortage, Selection};
use super::data_available::{ArrivalMark, DataStatus};
use super::group_access::{GroupAccess, GroupReader, NotifiedReader};
use super::intake::{ReaderCore, is_out_of_date};
use super::queues::{QueueHead, QueuedRecord, TakenFor};
use super::reader::{ActiveReader, DataReader};
use super::reader_cache::{Incoming, ReaderCache, wall};
use super::sample::SampleBody;
use super::subscriber::Subscriber;
use crate::domain::FillResult;
use crate::infrastructure::{AnyDataReader, StatusKind};
use crate::mapping::kept_replay::ReplayStep;
use crate::mapping::set;

/// Samples that a reader has taken out of its queues, and has not put into its cache yet; each with
/// its position in a coherent set.
pub(super) type StagedSamples<T> = Vec<(u32, Incoming<T>)>;

/// The samples of a record, each with its position in a coherent set.
pub(super) type PositionedSamples<T> = Vec<(u32, SampleBody<T>)>;

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

    /// Takes the record at the reader's position, and returns its samples for this reader, each
    /// with its position in a coherent set.
    fn take_record(&self) -> Option<(PositionedSamples<T>, StreamId)> {
        let started = self.enabling.started()?;
        let membership = &self.participant.membership;
        let mut queues = self.queues();
        let (samples, stream) = match queues.take_kept(&self.shared, membership, TakenFor::Cache) {
            ReplayStep::Kept(kept, stream) => {
                drop(queues);
                let samples = if self.is_refused(kept.bytes()) {
                    Some(Vec::new())
                } else if set::is_apart(kept.bytes()) {
                    self.read_positions(kept.bytes(), kept.number(), stream)
                } else {
                    SampleBody::of_kept(kept, stream.node, &self.reading()).map(|it| vec![(0, it)])
                };
                (samples, stream)
            }
            ReplayStep::NoneYet => return None,
            ReplayStep::Over => {
                let QueuedRecord { record, stream, life } = queues.take(&self.shared)?;
                let number = record.number();
                let samples = if self.is_refused(record.bytes()) {
                    Some(Vec::new())
                } else if set::is_apart(record.bytes()) {
                    self.read_positions(record.bytes(), number, stream)
                } else {
                    let sample = match started.remembers {
                        // A record that is given out does not come again, so the sample must
                        // remain whole.
                        true => SampleBody::copied(&record, stream.node, &self.reading()),
                        false => SampleBody::new(record, stream.node, &self.reading()),
                    };
                    sample.map(|it| vec![(0, it)])
                };
                // This process may have been stopped, and the memory that it has read may have
                // been overwritten.
                if membership.is_evicted_from(life) {
                    queues.discarded += u64::from(!started.remembers);
                    return None;
                }
                queues.note(stream, number);
                (samples, stream)
            }
        };
        let Some(mut samples) = samples else {
            self.note_unreadable();
            return Some((Vec::new(), stream));
        };
        samples.retain(|(_, sample)| !is_out_of_date(sample, started.lifespan));
        Some((samples, stream))
    }

    /// Takes the record at the reader's position, and returns its samples in the form in which they
    /// come into the cache.
    fn staged(&self, reader_cache: &mut ReaderCache<T>) -> StagedSamples<T> {
        let Some((samples, stream)) = self.take_record() else { return Vec::new() };
        let lifespan = self.enabling.started().map_or(0, |started| started.lifespan);
        let mut staged = StagedSamples::new();
        for (position, sample) in samples {
            if !self.passes(&sample) {
                continue;
            }
            let Some(sample) = self.own(sample, reader_cache.cache.settings()) else { continue };
            staged.push((position, reader_cache.arrival(sample, stream, lifespan)));
            staged.extend(reader_cache.next.take().map(|second| (position, second)));
        }
        staged
    }
}

impl<T: TopicData> GroupReader for ReaderCore<T> {
    fn begin_turns(&self) -> bool {
        let core = self;
        let mut reader_cache = core.cache_as_is();
        core.take_up_settings(&mut reader_cache);
        let has_room =
            core.begin_filling(&mut reader_cache, wall()) && reader_cache.check_room_for_staged();
        core.note_sending(&mut reader_cache);
        has_room
    }

    fn head(&self) -> QueueHead {
        self.queues().head(&self.shared, &self.participant.membership)
    }

    fn stage(&self) -> bool {
        let core = self;
        let mut reader_cache = core.cache_as_is();
        reader_cache.staged = core.staged(&mut reader_cache);
        core.take_departures(&mut reader_cache);
        reader_cache.check_room_for_staged()
    }

    fn store(&self, position: u64) {
        let mut reader_cache = self.cache_as_is();
        reader_cache.store_staged(wall(), position);
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

impl<T: TopicData> ReaderCache<T> {
    /// Whether there is room for all staged samples. Samples that can never find room are rejected
    /// for good when their turn comes (I-192).
    fn check_room_for_staged(&mut self) -> bool {
        let arrivals = self.staged.iter().map(|(_, (arrival, _))| ArrivalSummary::from(arrival));
        let Err(RoomShortage::Now(reason)) = self.cache.room_for(wall(), arrivals) else {
            return true;
        };
        let last = self.staged.last().map(|(_, (arrival, _))| arrival.key);
        let is_again = std::mem::replace(&mut self.has_counted_staged, true);
        self.note_rejected(is_again, self.staged.len(), reason, last);
        false
    }

    /// Puts the staged samples into the cache.
    fn store_staged(&mut self, now: u64, position: u64) {
        self.has_counted_staged = false;
        let staged = std::mem::take(&mut self.staged);
        let (positions, set): (Vec<u32>, Vec<Incoming<T>>) = staged.into_iter().unzip();
        let arrivals = set.iter().map(|(arrival, _)| ArrivalSummary::from(arrival));
        if let Err(RoomShortage::Always(reason) | RoomShortage::Now(reason)) =
            self.cache.room_for(now, arrivals)
        {
            let last = set.last().map(|(arrival, _)| arrival.key);
            return self.note_rejected(false, set.len(), reason, last);
        }
        for (incoming, within) in set.into_iter().zip(positions) {
            self.cache.set_position(position + u64::from(within));
            let has_room = self.put(now, incoming, false);
            debug_assert!(has_room, "cache has room for the whole set");
        }
    }
}
