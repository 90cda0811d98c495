//! Coherent sets on their way to the application: a record that holds a set is split into
//! its samples.
//!
//! ```text
//!   queues ──> a set is opened ──> its samples come next, one by one     reader without a cache
//!                              └─> all of it into the cache, or none     reader with a cache
//! ```
//! Owns: the samples of a set that have not all been given yet. Never does: show a part of a set in
//! a cache.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use derecho_core::group::report::StreamId;
use idl_xtypes::TopicData;

use super::authors::author;
use super::cache::{ArrivalSummary, RoomShortage};
use super::in_step::PositionedSamples;
use super::intake::ReaderCore;
use super::reader_cache::{Incoming, ReaderCache};
use super::sample::SampleBody;
use crate::mapping::record::{WriterNotice, is_notice, origin, time_of};
use crate::mapping::set;

/// Samples of sets that were opened.
pub(super) struct OpenedSets<T> {
    has_next: AtomicBool,
    /// Number of samples that did not come out of the queues.
    received: AtomicU64,
    samples: Mutex<VecDeque<(SampleBody<T>, StreamId)>>,
}

impl<T> Default for OpenedSets<T> {
    fn default() -> Self {
        let (has_next, received) = (AtomicBool::new(false), AtomicU64::new(0));
        OpenedSets { has_next, received, samples: Mutex::default() }
    }
}

impl<T> OpenedSets<T> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(SampleBody<T>, StreamId)>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a sample.
    #[inline(always)]
    pub(super) fn has_next(&self) -> bool {
        self.has_next.load(Ordering::Acquire)
    }

    /// The next sample.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<(SampleBody<T>, StreamId)> {
        if self.has_next() { self.take() } else { None }
    }

    #[cold]
    fn take(&self) -> Option<(SampleBody<T>, StreamId)> {
        let mut samples = self.lock();
        let next = samples.pop_front();
        self.has_next.store(!samples.is_empty(), Ordering::Release);
        next
    }

    /// Appends these samples.
    pub(super) fn put(&self, opened: impl Iterator<Item = (SampleBody<T>, StreamId)>) {
        let mut samples = self.lock();
        samples.extend(opened);
        self.has_next.store(!samples.is_empty(), Ordering::Release);
    }

    /// Appends samples that are part of no set and were in no queue.
    pub(super) fn receive(&self, samples: impl Iterator<Item = (SampleBody<T>, StreamId)>) {
        self.put(samples.inspect(|_| {
            self.received.fetch_add(1, Ordering::Release);
        }));
    }

    /// Number of samples that were [received](OpenedSets::receive) so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
        self.has_next.store(false, Ordering::Release);
    }
}

impl<T: TopicData> ReaderCore<T> {
    /// Opens a coherent set. Its samples are given next, if the set is valid and `is_sound`
    /// confirms that its memory was not overwritten while it was read.
    #[cold]
    pub(super) fn open(
        &self,
        record: &[u8],
        number: u64,
        stream: StreamId,
        is_sound: impl Fn() -> bool,
    ) {
        let samples = self.read_set(record, number, stream);
        match is_sound() {
            true => self.keep_set(samples, stream),
            false => self.discard(),
        }
    }

    /// The samples of a coherent set, or `None` if a sample has no known form.
    pub(super) fn read_set(
        &self,
        record: &[u8],
        number: u64,
        stream: StreamId,
    ) -> Option<Vec<SampleBody<T>>> {
        let positions = self.read_positions(record, number, stream)?;
        Some(positions.into_iter().map(|(_, sample)| sample).collect())
    }

    /// The samples of a coherent set, each with its position among all samples of the set, some of
    /// which may be for other readers. A notice about a writer is noted, and has no samples.
    pub(super) fn read_positions(
        &self,
        record: &[u8],
        number: u64,
        stream: StreamId,
    ) -> Option<PositionedSamples<T>> {
        if is_notice(record) {
            let notice = WriterNotice::of(record)?;
            // Only this thread brings earlier samples to the application, or into the cache.
            let writer = author(stream, origin(record).writer);
            self.departures.note_notice(writer, notice, time_of(record));
            return Some(Vec::new());
        }
        let with = self.reading();
        let known = set::of_several(record).and_then(|_| {
            self.shared.known_writers.lock().unwrap_or_else(PoisonError::into_inner).clone()
        });
        let is_others = |record: &[u8]| {
            known.as_ref().is_some_and(|known| !known.has(stream.node, record))
                || self.is_refused(record)
        };
        let mut samples = Vec::new();
        for (position, record) in (0..).zip(set::records(record)?) {
            let record = record.ok()?;
            if !is_others(record) {
                samples.push((position, SampleBody::of_bytes(record, number, stream.node, &with)?));
            }
        }
        Some(samples)
    }

    pub(super) fn keep_set(&self, samples: Option<Vec<SampleBody<T>>>, stream: StreamId) {
        match samples {
            Some(samples) => {
                self.opened_sets.put(samples.into_iter().map(|sample| (sample, stream)));
            }
            None => self.note_unreadable(),
        }
    }

    /// The rest of a set that begins with this sample, without the samples that the filter rejects.
    pub(super) fn whole_set(
        &self,
        first: SampleBody<T>,
        stream: StreamId,
        reader_cache: &mut ReaderCache<T>,
        lifespan: u64,
    ) -> Vec<Incoming<T>> {
        let mut set = Vec::new();
        let mut next = Some((first, stream));
        while let Some((sample, stream)) = next {
            if self.passes(&sample) {
                set.push(reader_cache.arrival(sample, stream, lifespan));
                set.extend(reader_cache.next.take());
            }
            next = self.opened_sets.next();
        }
        set
    }
}

impl<T: TopicData> ReaderCache<T> {
    /// Puts all of a set into the cache, or none of it; `false` if the set must wait for room. A
    /// set that can never find room is rejected for good (I-192).
    pub(super) fn put_set(&mut self, now: u64, set: Vec<Incoming<T>>, is_again: bool) -> bool {
        let arrivals = set.iter().map(|(arrival, _)| ArrivalSummary::from(arrival));
        let (reason, waits) = match self.cache.room_for(now, arrivals) {
            Ok(()) => {
                let mut all = set.into_iter();
                let has_stalled = all.any(|incoming| !self.put(now, incoming, false));
                debug_assert!(!has_stalled, "cache has room for the whole set");
                self.stalled_set.extend(all);
                return !has_stalled;
            }
            Err(RoomShortage::Now(reason)) => (reason, true),
            Err(RoomShortage::Always(reason)) => (reason, false),
        };
        let last = set.last().map(|(arrival, _)| arrival.key);
        self.note_rejected(is_again, set.len(), reason, last);
        if waits {
            self.stalled_set = set;
        }
        !waits
    }
}
