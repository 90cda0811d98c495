//! Samples that were taken out of the queues and are not in the cache yet: for lack of room, or
//! because their turn in an order has not come.
//!
//! Owns: their order, and which of them go in together. Never does: let a later sample overtake.

use std::collections::VecDeque;

use derecho_core::group::report::StreamId;
use idl_xtypes::TopicData;

use super::{Incoming, ReaderCache};
use crate::infrastructure::InstanceHandle;
use crate::subscription::cache::{ArrivalSummary, InstanceChange, Rejection, RoomShortage};
use crate::subscription::intake::ReaderCore;
use crate::subscription::sample::SampleBody;
use crate::subscription::sets::PositionedSamples;

/// Which of the waiting samples go into the cache together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::subscription) enum WaitingUnit {
    /// Each goes in alone.
    Sample,
    /// All are of a coherent set.
    Set,
    /// All are of one record, and go in when the leader of the reader says so.
    Turn,
}

/// See the [module](self).
pub(super) struct WaitingSamples<T: TopicData> {
    /// Each with its position in a coherent set.
    samples: VecDeque<(u32, Incoming<T>)>,
    unit: WaitingUnit,
    /// Whether the lack of room for the first unit was counted.
    is_counted: bool,
}

impl<T: TopicData> WaitingSamples<T> {
    pub(super) const fn new() -> Self {
        let samples = VecDeque::new();
        WaitingSamples { samples, unit: WaitingUnit::Sample, is_counted: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Appends a sample that goes in alone, behind a sample that is being put into the cache.
    pub(super) fn push(&mut self, incoming: Incoming<T>) {
        if self.samples.is_empty() {
            self.unit = WaitingUnit::Sample;
        }
        self.samples.push_back((0, incoming));
    }

    /// Notes that a sample has found room: the lack of room for a later one is not counted yet.
    #[inline(always)]
    pub(super) fn note_put(&mut self) {
        self.is_counted = false;
    }

    /// Discards the samples, and returns how many: those that go in together count as one.
    pub(super) fn discard(&mut self) -> usize {
        let before = self.samples.len();
        self.samples.retain(|(_, (it, _))| it.change != InstanceChange::Alive);
        let discarded = before - self.samples.len();
        if self.unit == WaitingUnit::Sample { discarded } else { discarded.min(1) }
    }

    /// Discards the samples of these writers.
    pub(super) fn ignore(&mut self, writers: &[InstanceHandle]) {
        self.samples.retain(|(_, (arrival, _))| !writers.contains(&arrival.writer));
    }
}

impl<T: TopicData> ReaderCore<T> {
    /// Lets the samples of a record wait until they are put into the cache together, except those
    /// that the filter rejects.
    pub(in crate::subscription) fn let_wait(
        &self,
        reader_cache: &mut ReaderCache<T>,
        samples: PositionedSamples<T>,
        stream: StreamId,
        unit: WaitingUnit,
    ) {
        let lifespan = self.enabling.started().map_or(0, |started| started.lifespan);
        let mut waiting = VecDeque::new();
        for (position, sample) in samples {
            let Some(sample) = self.admitted(sample, reader_cache) else { continue };
            waiting.push_back((position, reader_cache.arrival(sample, stream, lifespan)));
            // The end of an instance may come with an unregistration.
            let more = reader_cache.waiting.samples.drain(..);
            waiting.extend(more.map(|(_, incoming)| (position, incoming)));
        }
        reader_cache.waiting = WaitingSamples { samples: waiting, unit, is_counted: false };
    }
}

impl<T: TopicData> ReaderCache<T> {
    /// Puts what waits into the cache; `false` if something finds no room. Samples that wait for
    /// their turn stay.
    pub(super) fn put_waiting(&mut self, now: u64) -> bool {
        match self.waiting.unit {
            WaitingUnit::Sample => {
                while let Some((_, incoming)) = self.waiting.samples.pop_front() {
                    if !self.put(now, incoming) {
                        return false;
                    }
                }
                true
            }
            WaitingUnit::Set => {
                let has_room = self.has_room_for_waiting(now);
                if has_room {
                    self.store_waiting(now, None);
                }
                has_room
            }
            WaitingUnit::Turn => true,
        }
    }

    /// Whether there is room for all waiting samples, which go in together. Samples that can never
    /// find room are rejected for good when they are stored (I-192).
    pub(in crate::subscription) fn has_room_for_waiting(&mut self, now: u64) -> bool {
        let Err(RoomShortage::Now(reason)) = self.room_for_waiting(now) else { return true };
        let (count, last) = (self.waiting.samples.len(), self.last_waiting());
        self.note_rejected(self.waiting.is_counted, count, reason, last);
        self.waiting.is_counted = true;
        false
    }

    /// Puts all waiting samples into the cache, or none. If a position is given, it is that of the
    /// first sample of their set.
    pub(in crate::subscription) fn store_waiting(&mut self, now: u64, position: Option<u64>) {
        let (room, last) = (self.room_for_waiting(now), self.last_waiting());
        let waiting = std::mem::replace(&mut self.waiting, WaitingSamples::new());
        let WaitingSamples { samples, is_counted, .. } = waiting;
        if let Err(RoomShortage::Always(reason) | RoomShortage::Now(reason)) = room {
            return self.note_rejected(is_counted, samples.len(), reason, last);
        }
        for (within, incoming) in samples {
            if let Some(position) = position {
                self.cache.set_position(position + u64::from(within));
            }
            let has_room = self.put(now, incoming);
            debug_assert!(has_room, "cache has room for the whole set");
        }
    }

    fn room_for_waiting(&mut self, now: u64) -> Result<(), RoomShortage> {
        let arrivals = self.waiting.samples.iter();
        self.cache.room_for(now, arrivals.map(|(_, (arrival, _))| ArrivalSummary::from(arrival)))
    }

    fn last_waiting(&self) -> Option<u128> {
        self.waiting.samples.back().map(|(_, (arrival, _))| arrival.key)
    }

    /// Lets a sample wait that found no room.
    #[cold]
    pub(super) fn reject(&mut self, rejection: Rejection<SampleBody<T>>, stream: StreamId) {
        let Rejection { reason, arrival } = rejection;
        self.note_rejected(self.waiting.is_counted, 1, reason, Some(arrival.key));
        self.waiting.samples.push_front((0, (arrival, stream)));
        (self.waiting.unit, self.waiting.is_counted) = (WaitingUnit::Sample, true);
    }
}
