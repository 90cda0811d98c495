//! Path of queued records into a reader's cache, or through it.
//!
//! Owns: the order of filling, and the tasks that belong to it: new policies, writers that are
//! gone, samples that found no room. Never does: wait.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use idl_xtypes::TopicData;

use super::{ReaderCache, WaitingUnit, wall};
use crate::domain::{FillCache, FillResult};
use crate::infrastructure::InstanceHandle;
use crate::infrastructure::status::StatusKind;
use crate::mapping::policies::EndpointPolicies;
use crate::mapping::record::{NEVER, RecordEffect, expiry_of, is_plain, lies_in_place};
use crate::subscription::cache::CacheSettings;
use crate::subscription::intake::{ReaderCore, RecordContents};
use crate::subscription::queues::QueuedRecord;
use crate::subscription::sample::SampleBody;

/// Maximum number of samples taken out of the queues under one lock, so that a thread that asks
/// whether samples wait gets its answer soon.
const LONGEST_RUN: usize = 64;

/// Maximum number of records that come out of the queues at once into a cache that keeps all.
const LARGEST_FILL: usize = 8192;

impl<T: TopicData> ReaderCore<T> {
    /// The cache, filled with all that the queues hold. The first call creates it.
    pub(in crate::subscription) fn cache(&self) -> MutexGuard<'_, ReaderCache<T>> {
        self.cache_for(None)
    }

    /// Does what [`ReaderCore::cache`] does, for a call that takes any samples up to this number if
    /// one is given. Records may then pass through the cache (I-146). If the cache has enough
    /// samples and keeps all, nothing more comes in: what stays in the queues delays the writers.
    pub(in crate::subscription) fn cache_for(
        &self,
        takes: Option<usize>,
    ) -> MutexGuard<'_, ReaderCache<T>> {
        if let Some(leader) = self.leader() {
            leader.fill();
            return self.cache_as_is();
        }
        let mut reader_cache = self.cache_as_is();
        self.take_up_settings(&mut reader_cache);
        if takes.is_some_and(|most| reader_cache.has_enough(most)) {
            return reader_cache;
        }
        self.fill(&mut reader_cache, takes.is_some());
        self.update_statuses(&mut reader_cache);
        reader_cache
    }

    /// The cache as it is. Nothing comes into it.
    pub(in crate::subscription) fn cache_as_is(&self) -> MutexGuard<'_, ReaderCache<T>> {
        let begun = || {
            // If the reader has given samples, the cache knows their instance and its writers.
            let mut queues = self.queues.lock();
            let (settings, support) = (self.settings(), self.topic.support());
            let mut reader_cache = ReaderCache::new(settings, support, queues.life);
            if !self.topic.level().is_ordered() {
                reader_cache.judge_owners(&self.participant.membership);
            }
            let authors = queues.take_authors();
            if self.has_given.load(Ordering::Relaxed) {
                reader_cache.continue_from(authors);
            }
            Mutex::new(reader_cache)
        };
        let reader_cache = self.cache.get_or_init(begun).lock();
        let mut reader_cache = reader_cache.unwrap_or_else(PoisonError::into_inner);
        if self.may_rejoin() && self.participant.membership.is_over(reader_cache.life) {
            self.leave_life(&mut reader_cache);
        }
        reader_cache
    }

    /// Discards samples that came in a life of the participant that is over, and were not taken, if
    /// the reader keeps all samples and they do not come again (I-347).
    #[cold]
    fn leave_life(&self, reader_cache: &mut ReaderCache<T>) {
        let comes_again = self.enabling.started().is_some_and(|started| started.remembers);
        if !comes_again && reader_cache.cache.settings().depth.is_none() {
            if self.joined_readers.get().is_none() {
                self.unqueued.clear();
            }
            self.queues.lock().discarded += reader_cache.discard_samples() as u64;
        }
    }

    pub(in crate::subscription) fn take_up_settings(&self, reader_cache: &mut ReaderCache<T>) {
        let changed = self.shared.take_new_policies();
        if let Some(settings) = changed.and_then(|policies| self.changed_to(&policies)) {
            *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
            reader_cache.set_settings(settings);
        }
    }

    /// Updates the statuses after the cache was filled.
    pub(in crate::subscription) fn update_statuses(&self, reader_cache: &mut ReaderCache<T>) {
        self.count_missed_deadlines(reader_cache);
        if std::mem::take(&mut reader_cache.has_rejected) {
            self.shared.board.raise(StatusKind::SampleRejected);
        }
    }

    /// The settings for the cache after a change to these policies.
    pub(in crate::subscription) fn changed_to(
        &self,
        policies: &EndpointPolicies,
    ) -> Option<CacheSettings> {
        let EndpointPolicies::Requested { reader, .. } = policies else { return None };
        Some(self.settings().changed_to(reader))
    }

    /// Counts missed deadlines, after all that has come is known.
    fn count_missed_deadlines(&self, reader_cache: &mut ReaderCache<T>) {
        let Some(deadlines) = &mut reader_cache.deadlines else { return };
        let missed = deadlines.advance(wall());
        if missed.count > 0 {
            self.shared.board.note(StatusKind::RequestedDeadlineMissed, |all| {
                let status = &mut all.requested_deadline_missed;
                status.count(missed.count);
                status.last_instance_handle = Some(InstanceHandle::of_instance(missed.last));
            });
        }
    }

    fn fill(&self, reader_cache: &mut ReaderCache<T>, takes_all: bool) {
        let now = wall();
        if !self.begin_filling(reader_cache, now) {
            return;
        }
        if takes_all && !reader_cache.judges_owners() {
            reader_cache.cache.let_pass();
        }
        // A cache that keeps the last samples makes room for all. Another one would take in without
        // an end what writers write meanwhile.
        let keeps_last = reader_cache.cache.settings().depth.is_some();
        reader_cache.fill_left = if keeps_last { usize::MAX } else { LARGEST_FILL };
        loop {
            self.note_sending(reader_cache);
            if !self.empty_queues(reader_cache, now) || self.note_losses(reader_cache, now) {
                return;
            }
        }
    }

    /// Handles new samples of joined topics, writers that are now ignored, and samples that wait
    /// for room. Runs before the queues are emptied, so a writer that is ignored from now on is
    /// lost before anything else comes in (I-188). `false` if something finds no room.
    pub(in crate::subscription) fn begin_filling(
        &self,
        reader_cache: &mut ReaderCache<T>,
        now: u64,
    ) -> bool {
        reader_cache.cache.advance(now);
        if let Some(joined_readers) = self.joined_readers.get() {
            self.join_changes(joined_readers);
        }
        if let Some(ignored) = self.shared.take_ignored_writers() {
            reader_cache.ignore_writers(now, &ignored);
        }
        reader_cache.put_waiting(now)
    }

    /// Notes which streams may still send, before the queues are emptied. If a stream has already
    /// ended at that time, the queues hold all that it sent.
    pub(in crate::subscription) fn note_sending(&self, reader_cache: &mut ReaderCache<T>) {
        reader_cache.emptied_at = self.changes();
        if !reader_cache.has_seen(reader_cache.emptied_at) {
            reader_cache.sending = self.sending();
        }
    }

    /// Marks writers as lost whose streams have ended, after all queued records have come into the
    /// cache. `false` if the queues have changed since they were emptied.
    pub(in crate::subscription) fn note_losses(
        &self,
        reader_cache: &mut ReaderCache<T>,
        now: u64,
    ) -> bool {
        let changes = reader_cache.emptied_at;
        if changes != self.changes() {
            return false;
        }
        let is_seen = reader_cache.has_seen(changes);
        if std::mem::take(&mut reader_cache.has_new_writer) || !is_seen {
            reader_cache.seen = Some(changes);
            if !self.reads_history() {
                let sending = std::mem::take(&mut reader_cache.sending);
                reader_cache.lose(now, |_, stream| !sending.contains(&stream));
                reader_cache.sending = sending;
            }
        }
        true
    }

    /// Passes queued records through the cache while they can be read in place; `false` if there is
    /// no room. A record that cannot pass is the next that is taken out of the queues. Whether the
    /// participant is a member is checked once for all records, when the call gives them. If it is
    /// not, and will never be again, the call gives nothing.
    fn pass_queued(&self, reader_cache: &mut ReaderCache<T>, now: u64, lifespan: u64) -> bool {
        let is_usual = is_plain::<T>() && self.filter.is_none() && !self.may_rejoin();
        if !is_usual
            || !reader_cache.cache.lets_pass()
            || self.unqueued.has_next()
            || !self.all_are_queued()
        {
            return true;
        }
        let membership = &self.participant.membership;
        loop {
            // Code of the type itself runs here only to hash a key.
            let mut queues = self.queues();
            for _ in 0..LONGEST_RUN {
                if !reader_cache.may_take_another() {
                    return false;
                }
                let taken = queues.take_oldest(&self.shared);
                let Some(taken) = taken else { return true };
                let QueuedRecord { record, stream, life } = taken;
                let bytes = record.bytes();
                let may_pass = membership.is_in(life)
                    && !self.departures.are_any()
                    && !self.is_refused(bytes)
                    && lies_in_place::<T>(bytes)
                    && expiry_of(bytes, lifespan) == NEVER;
                if !may_pass {
                    queues.put_back(QueuedRecord { record, stream, life });
                    return true;
                }
                if !reader_cache.pass(now, SampleBody::in_place(record, stream.node), stream) {
                    return false;
                }
            }
        }
    }

    /// Puts the contents of the queues into the cache; `false` if there is no room for all of them,
    /// or more remain for the next time.
    fn empty_queues(&self, reader_cache: &mut ReaderCache<T>, now: u64) -> bool {
        let lifespan = self.enabling.started().map_or(0, |started| started.lifespan);
        loop {
            if !self.pass_queued(reader_cache, now, lifespan) || !reader_cache.may_take_another() {
                return false;
            }
            let popped = self.pop();
            self.take_departures(reader_cache);
            let Some((contents, stream)) = popped else { return true };
            match contents {
                RecordContents::Sample(sample) => {
                    let Some(sample) = self.admitted(sample, reader_cache) else { continue };
                    let has_room = match reader_cache.lets_pass(&sample, lifespan) {
                        true => reader_cache.pass(now, sample, stream),
                        false => {
                            let arrival = reader_cache.arrival(sample, stream, lifespan);
                            reader_cache.put(now, arrival)
                        }
                    };
                    if !has_room {
                        return false;
                    }
                }
                RecordContents::Set(samples) => {
                    self.let_wait(reader_cache, samples, stream, self.unit_of_sets());
                }
                RecordContents::Unreadable | RecordContents::Evicted => {}
            }
            if reader_cache.is_stalled() && !reader_cache.put_waiting(now) {
                return false;
            }
        }
    }

    /// Which samples of a coherent set go into the cache together: all of them only if the reader
    /// requests coherent access.
    #[cold]
    fn unit_of_sets(&self) -> WaitingUnit {
        let presentation = self.subscriber.as_ref().map(|subscriber| subscriber.qos().presentation);
        match presentation.is_some_and(|presentation| presentation.coherent_access) {
            true => WaitingUnit::Set,
            false => WaitingUnit::Sample,
        }
    }

    /// A sample that the filter accepts, in a form in which it may stay in the cache.
    #[inline(always)]
    pub(super) fn admitted(
        &self,
        sample: SampleBody<T>,
        reader_cache: &ReaderCache<T>,
    ) -> Option<SampleBody<T>> {
        if !self.passes(&sample) {
            return None;
        }
        self.own(sample, reader_cache.cache.settings())
    }

    /// Whether a sample passes the filter. Notices about an instance always do.
    #[inline(always)]
    fn passes(&self, sample: &SampleBody<T>) -> bool {
        let filter = self.filter.as_ref().filter(|_| sample.effect() == RecordEffect::Alive);
        filter.is_none_or(|filter| filter.accepts::<T>(sample))
    }

    /// A sample that may stay in the cache without a limit in time. It is copied out of its
    /// writer's memory if the cache keeps only the last samples, or if the memory might be
    /// overwritten while the sample stays.
    #[inline(always)]
    fn own(&self, sample: SampleBody<T>, settings: &CacheSettings) -> Option<SampleBody<T>> {
        if settings.depth.is_none() && !self.may_rejoin() {
            return Some(sample);
        }
        self.copied_for_good(sample)
    }

    fn copied_for_good(&self, sample: SampleBody<T>) -> Option<SampleBody<T>> {
        let own = sample.into_own();
        // A sample whose memory was overwritten during the copy is discarded.
        own.filter(|_| !self.is_evicted())
    }
}

/// Filling of the cache while the application does not read.
impl<T: TopicData> FillCache for ReaderCore<T> {
    fn fill_cache(&self) -> FillResult {
        if let Some(leader) = self.leader() {
            return self.fill_in_step(leader);
        }
        // If another thread holds the lock, that thread fills the cache.
        let Some(Ok(mut reader_cache)) = self.cache.get().map(Mutex::try_lock) else {
            return FillResult::Nothing;
        };
        if reader_cache.is_stalled() || !self.has_queued() {
            return FillResult::Nothing;
        }
        let holds_up = self.holds_up();
        self.fill(&mut reader_cache, false);
        // Increased under the lock: a thread that has seen the cache as it was before waits for
        // another number.
        self.fill_count.fetch_add(1, Ordering::SeqCst);
        drop(reader_cache);
        self.wake_waiting();
        if holds_up { FillResult::Much } else { FillResult::Little }
    }
}

impl<T: TopicData> ReaderCore<T> {
    /// Wakes threads that wait for something in the cache, so that they look again.
    pub(in crate::subscription) fn wake_waiting(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.participant.engine.nudge();
        }
    }
}
