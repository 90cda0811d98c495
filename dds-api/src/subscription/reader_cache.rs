//! The reader cache in use: records from the reader's queues go into it, together with information
//! about the writers.
//!
//! ```text
//!   queues ──> cache ──> read, take      filled when a call looks; if only the last samples are
//!                                        kept, also without a call; a sample without room waits,
//!                                        and so does everything behind it
//! ```
//! Owns: the cache, and which writers are lost. Never does: wait.

mod filling;
mod owner_times;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use derecho_core::group::report::StreamId;
use derecho_core::ids::Time;
use derecho_node::clock;
use idl_xtypes::TopicData;

use self::owner_times::{OwnerTimes, WrittenRecord};
use self::waiting::WaitingSamples;
pub(super) use self::waiting::WaitingUnit;
use super::authors::author;
use super::cache::{
    Arrival, ArrivalOutcome, CacheSettings, CachedSampleInfo, InstanceChange, Key, LimitReached,
    NEVER, SampleCache, Selection, ShareSample,
};
use super::departures::Departure;
use super::sample::{Sample, SampleBody};
use crate::infrastructure::InstanceHandle;
use crate::infrastructure::deadlines::Deadlines;
use crate::mapping::membership_state::{Life, MembershipState};
use crate::mapping::record::{RecordEffect, WriterNotice, key_payload, keyless_payload};

/// Reason for which samples were rejected: the limit of RESOURCE_LIMITS that was reached.
///
/// ```
/// use dds_api::subscription::SampleRejectedStatusKind;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// if reader.sample_rejected_status().last_reason == SampleRejectedStatusKind::RejectedBySamplesLimit {
///     println!("there are max_samples already");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SampleRejectedStatusKind {
    /// No sample was rejected.
    #[default]
    NotRejected,
    /// max_instances.
    RejectedByInstancesLimit,
    /// max_samples.
    RejectedBySamplesLimit,
    /// max_samples_per_instance.
    RejectedBySamplesPerInstanceLimit,
}

impl From<LimitReached> for SampleRejectedStatusKind {
    fn from(reason: LimitReached) -> Self {
        match reason {
            LimitReached::Instances => Self::RejectedByInstancesLimit,
            LimitReached::Samples => Self::RejectedBySamplesLimit,
            LimitReached::SamplesPerInstance => Self::RejectedBySamplesPerInstanceLimit,
        }
    }
}

/// SAMPLE_REJECTED: samples for which there was no room. They are not lost: each waits, and holds
/// up its writer, until something is taken.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// let status = reader.sample_rejected_status();
/// println!("{} samples found no room at first, the last of {:?}", status.total_count, status.last_reason);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SampleRejectedStatus {
    /// Total number of rejected samples.
    pub total_count: u64,
    /// Number of samples rejected since the status was last read.
    pub total_count_change: u64,
    /// Reason for which the last sample was rejected.
    pub last_reason: SampleRejectedStatusKind,
    /// Instance of the last rejected sample.
    pub last_instance_handle: Option<InstanceHandle>,
}

/// A sample on its way into the cache, and the stream that brought it.
pub(super) type Incoming<T> = (Arrival<SampleBody<T>>, StreamId);

/// See the [module](self).
pub(super) struct ReaderCache<T: TopicData> {
    support: T::TypeSupport,
    pub(super) cache: SampleCache<SampleBody<T>>,
    /// The life of the participant in which the samples came.
    life: Life,
    /// The stream by which the samples of each writer came.
    writers: BTreeMap<InstanceHandle, StreamId>,
    /// The last entry of `writers` that was used: consecutive samples usually have the same writer.
    last_writer: Option<(InstanceHandle, StreamId)>,
    /// The streams that may bring samples, as of the last known change of the queues.
    sending: Vec<StreamId>,
    /// Samples that were taken out of the queues and are not in the cache yet.
    waiting: WaitingSamples<T>,
    pub(super) rejected: SampleRejectedStatus,
    /// Whether `rejected` has changed since the status board last noted a change.
    pub(super) has_rejected: bool,
    /// Change number of the queues for which lost writers are known.
    seen: Option<u64>,
    /// Change number of the queues for which the queues are being emptied.
    emptied_at: u64,
    /// Whether a record came from a writer that was not known.
    has_new_writer: bool,
    /// Deadlines of instances, if DEADLINE is set.
    deadlines: Option<Deadlines>,
    /// Times of the owners' last records, if the reader itself judges whether they are late.
    owner_times: Option<OwnerTimes>,
    /// Number of samples that have come into the cache.
    arrivals: u64,
    /// Number of records that may still come out of the queues this time.
    fill_left: usize,
}

impl<T: TopicData> ReaderCache<T> {
    pub(super) fn new(
        settings: CacheSettings,
        support: &T::TypeSupport,
        life: Life,
    ) -> ReaderCache<T> {
        ReaderCache {
            life,
            support: support.clone(),
            cache: SampleCache::new(settings),
            writers: BTreeMap::new(),
            last_writer: None,
            sending: Vec::new(),
            waiting: WaitingSamples::new(),
            rejected: SampleRejectedStatus::default(),
            has_rejected: false,
            seen: None,
            emptied_at: 0,
            has_new_writer: false,
            deadlines: deadlines(&settings),
            owner_times: None,
            arrivals: 0,
            fill_left: 0,
        }
    }

    /// Continues after samples without a key that these writers wrote, each by its stream, and that
    /// were given out.
    pub(super) fn continue_from(&mut self, writers: BTreeMap<InstanceHandle, StreamId>) {
        let key_value = keyless_payload(T::extensibility(&self.support));
        self.cache.continue_instance(0, key_value, writers.keys().copied());
        self.writers = writers;
        // Some of the writers may have ended.
        self.has_new_writer = true;
    }

    /// Makes the cache itself judge which owners are silent for too long: the topic has no order.
    pub(super) fn judge_owners(&mut self, membership: &Arc<MembershipState>) {
        let is_exclusive = self.cache.settings().exclusive;
        self.owner_times = is_exclusive.then(|| OwnerTimes::new(membership));
    }

    /// Whether the cache itself judges which owners are silent for too long.
    fn judges_owners(&self) -> bool {
        let settings = self.cache.settings();
        self.owner_times.is_some() && settings.deadline.min(settings.lease) != NEVER
    }

    /// Removes everything.
    pub(super) fn clear(&mut self, settings: CacheSettings) {
        *self = ReaderCache::new(settings, &self.support, self.life);
    }

    /// Number of samples that have come into the cache so far, or have become visible there.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals + self.cache.released()
    }

    /// Whether a record may come out of the queues this time. Counts it.
    #[inline(always)]
    fn may_take_another(&mut self) -> bool {
        let may = self.fill_left > 0;
        self.fill_left -= usize::from(may);
        may
    }

    /// Whether the cache keeps all samples as they come, and has this many.
    fn has_enough(&self, count: usize) -> bool {
        let settings = self.cache.settings();
        settings.depth.is_none() && !settings.by_source && self.cache.len() >= count.max(1)
    }

    /// Whether something waits for room.
    pub(super) fn is_stalled(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Time at which something may become visible although nothing arrives.
    pub(super) fn next_look(&self) -> Option<Time> {
        let expected = self.deadlines.as_ref().and_then(Deadlines::next);
        let due = self.cache.next_time().into_iter().chain(expected).min()?;
        Some(clock::now().after(due.saturating_sub(wall())))
    }

    /// Removes samples that have expired.
    pub(super) fn let_time_pass(&mut self) {
        if self.cache.next_time().is_some() {
            self.cache.advance(wall());
        }
    }

    /// Whether all changes of the queues so far are known.
    pub(super) fn has_seen(&self, changes: u64) -> bool {
        self.seen == Some(changes)
    }

    /// SAMPLE_REJECTED. Reading it resets its change count.
    pub(super) fn take_rejected(&mut self) -> SampleRejectedStatus {
        let status = self.rejected;
        self.rejected.total_count_change = 0;
        status
    }

    /// A value with the key of a known instance.
    pub(super) fn key_value(&self, handle: InstanceHandle) -> Option<T> {
        T::read_key(&self.support, self.cache.key_value(handle.instance_key()?)?).ok()
    }

    /// Whether an instance with this handle is known.
    pub(super) fn knows(&self, handle: InstanceHandle) -> bool {
        handle.instance_key().is_some_and(|key| self.cache.knows(key))
    }

    /// A sample in the form in which it comes into the cache. If an unregistration came in one
    /// record with a dispose, it waits to be put in next.
    pub(super) fn arrival(
        &mut self,
        sample: SampleBody<T>,
        stream: StreamId,
        lifespan: u64,
    ) -> Incoming<T> {
        // The header lies in the writer's memory, so it is read only once.
        let header = sample.header();
        let effect = sample.effect();
        let change = match effect {
            RecordEffect::Alive => InstanceChange::Alive,
            RecordEffect::Disposed | RecordEffect::DisposedAndUnregistered => {
                InstanceChange::Dispose
            }
            RecordEffect::Unregistered => InstanceChange::Unregister,
        };
        let writer = author(stream, header.writer);
        let source_timestamp = header.timestamp;
        let expires = sample.expiry(lifespan);
        let (key, strength) = (sample.key(), sample.strength());
        if effect == RecordEffect::DisposedAndUnregistered {
            let (change, data) = (InstanceChange::Unregister, sample.share());
            let second = Arrival { change, key, writer, strength, source_timestamp, expires, data };
            self.waiting.push((second, stream));
        }
        let data = sample;
        (Arrival { change, key, writer, strength, source_timestamp, expires, data }, stream)
    }

    /// Puts an arrival into the cache; `false` if there is no room for it.
    pub(super) fn put(&mut self, now: u64, (arrival, stream): Incoming<T>) -> bool {
        let (writer, key, change) = (arrival.writer, arrival.key, arrival.change);
        let key_value =
            |sample: &SampleBody<T>| key_payload(&**sample).unwrap_or_default().into_boxed_slice();
        let record = self.judge_owner(now, &arrival);
        match self.cache.put(now, arrival, key_value) {
            Ok(outcome) => {
                self.note_owner(now, record, outcome);
                self.note_arrival(now, key, change, outcome);
                self.note_writer(writer, stream);
                self.waiting.note_put();
                true
            }
            Err(rejection) => {
                self.reject(rejection, stream);
                false
            }
        }
    }

    /// Notes that a sample has come into the cache.
    #[inline(always)]
    fn note_arrival(
        &mut self,
        now: u64,
        key: Key,
        change: InstanceChange,
        outcome: ArrivalOutcome,
    ) {
        self.arrivals += 1;
        if outcome != ArrivalOutcome::NotOwner
            && let Some(deadlines) = &mut self.deadlines
        {
            match change {
                InstanceChange::Alive => {
                    deadlines.touch(key, now);
                }
                InstanceChange::Dispose | InstanceChange::Unregister => deadlines.forget(key),
            }
        }
    }

    /// Notes the writer of a record, and the stream that brought the record.
    #[inline(always)]
    fn note_writer(&mut self, writer: InstanceHandle, stream: StreamId) {
        let written = Some((writer, stream));
        if self.last_writer != written {
            self.has_new_writer |= self.writers.insert(writer, stream) != Some(stream);
            self.last_writer = written;
        }
    }

    /// Takes an instance from its owner if this sample of another writer shows that the owner has
    /// been silent for too long (I-348). Returns the sample's record if owners are judged here.
    fn judge_owner(&mut self, now: u64, arrival: &Arrival<SampleBody<T>>) -> Option<WrittenRecord> {
        if !self.judges_owners() {
            return None;
        }
        let (key, writer, committed) = (arrival.key, arrival.writer, arrival.data.committed());
        let record = WrittenRecord { key, writer, committed };
        let owner_times = self.owner_times.as_mut()?;
        let owner = owner_times.silent_owner(&record, self.cache.settings(), now);
        if let Some(owner) = owner {
            self.cache.give_up(key, owner);
        }
        Some(record)
    }

    fn note_owner(&mut self, now: u64, record: Option<WrittenRecord>, outcome: ArrivalOutcome) {
        if let (Some(record), Some(owner_times)) = (record, &mut self.owner_times) {
            owner_times.note(&record, outcome, now, &self.cache);
        }
    }

    /// Whether a sample may pass through the cache.
    #[inline(always)]
    fn lets_pass(&self, sample: &SampleBody<T>, lifespan: u64) -> bool {
        self.cache.lets_pass()
            && sample.effect() == RecordEffect::Alive
            && sample.expiry(lifespan) == NEVER
    }

    /// Passes a sample through the cache that [may](ReaderCache::lets_pass) pass; `false` if there
    /// is no room for it. Inlined into the code that takes the sample out of the queues, so that
    /// the sample is moved once.
    #[inline(always)]
    fn pass(&mut self, now: u64, sample: SampleBody<T>, stream: StreamId) -> bool {
        let header = sample.header();
        let (key, strength) = (sample.key(), sample.strength());
        let writer = author(stream, header.writer);
        let (change, source_timestamp, expires) = (InstanceChange::Alive, header.timestamp, NEVER);
        let data = ();
        let arrival = Arrival { change, key, writer, strength, source_timestamp, expires, data };
        let key_value =
            |sample: &SampleBody<T>| key_payload(&**sample).unwrap_or_default().into_boxed_slice();
        match self.cache.pass(now, arrival, sample, key_value) {
            Ok(outcome) => {
                self.note_arrival(now, key, change, outcome);
                self.note_writer(writer, stream);
                true
            }
            Err(rejection) => {
                self.reject(rejection, stream);
                false
            }
        }
    }

    /// Samples that have passed through the cache, for a call that takes everything up to `max`
    /// samples. If none has passed, or more than `max`, the result is `None`, and what has passed
    /// is put into the cache.
    pub(super) fn give_passing(&mut self, max: usize) -> Option<Vec<Sample<T>>> {
        let count = self.cache.passing();
        if count == 0 || count > max {
            self.cache.keep_passing();
            return None;
        }
        let mut found = Vec::with_capacity(count);
        self.cache.give_passing(|data, info| found.push(data.with_info(info)));
        Some(found)
    }

    /// Counts `count` samples for which there was no room; `last` is the instance of the last one.
    pub(super) fn note_rejected(
        &mut self,
        is_again: bool,
        count: usize,
        reason: LimitReached,
        last: Option<Key>,
    ) {
        if !is_again {
            self.rejected.total_count += count as u64;
            self.rejected.total_count_change += count as u64;
            self.has_rejected = true;
        }
        self.rejected.last_reason = reason.into();
        self.rejected.last_instance_handle = last.map(InstanceHandle::of_instance);
    }

    /// Applies new settings to the cache from now on.
    pub(super) fn set_settings(&mut self, settings: CacheSettings) {
        match &mut self.deadlines {
            Some(known) if settings.deadline != NEVER => {
                if settings.deadline != self.cache.settings().deadline {
                    known.set_period(settings.deadline, wall());
                }
            }
            place => *place = deadlines(&settings),
        }
        self.cache.set_settings(settings);
    }

    /// Marks the writers as lost for which `is_over` holds, given the writer and its stream: they
    /// send nothing more.
    pub(super) fn lose(&mut self, now: u64, is_over: impl Fn(InstanceHandle, StreamId) -> bool) {
        let (cache, support, mut ended) = (&mut self.cache, &self.support, 0);
        self.last_writer = None;
        self.writers.retain(|&writer, stream| {
            let is_there = !is_over(writer, *stream);
            if !is_there {
                let read = |key: &[u8]| T::read_key(support, key).ok();
                let loss = |key: &[u8]| Some(SampleBody::of_loss(read(key)?, now, writer));
                ended += cache.lose(now, writer, loss);
            }
            is_there
        });
        // A notice that an instance is over is news for listeners, as a sample is.
        self.arrivals += ended as u64;
    }

    /// Notes what has ended in the streams of the reader.
    #[cold]
    pub(super) fn depart(&mut self, now: u64, departure: Departure) {
        match departure {
            Departure::Streams(ended) => self.lose(now, |_, stream| ended.contains(&stream)),
            Departure::OthersThan(remaining) => {
                self.lose(now, |_, stream| !remaining.contains(&stream));
            }
            Departure::Notice(writer, notice, time) => match notice {
                WriterNotice::Overdue(key) => self.cache.give_up(key, writer),
                WriterNotice::Ended => self.lose(now, |other, _| other == writer),
                WriterNotice::Disposed => {
                    self.dispose_all(now, time, writer);
                    self.lose(now, |other, _| other == writer);
                }
            },
            Departure::Life(life) => {
                self.life = life;
                self.lose(now, |_, _| true);
            }
        }
    }

    /// Discards all samples that were not taken. What is known of instances remains. Returns the
    /// number of samples.
    #[cold]
    fn discard_samples(&mut self) -> usize {
        self.waiting.discard() + self.cache.discard_samples()
    }

    /// Disposes the instances of a writer that has ended at this time.
    fn dispose_all(&mut self, now: u64, time: u64, writer: InstanceHandle) {
        let (support, deadlines) = (&self.support, &mut self.deadlines);
        let loss = |key: Key, value: &[u8]| {
            deadlines.iter_mut().for_each(|deadlines| deadlines.forget(key));
            Some(SampleBody::of_loss(T::read_key(support, value).ok()?, time, writer))
        };
        self.arrivals += self.cache.dispose_all(now, time, writer, loss) as u64;
    }

    /// Removes writers that are ignored from now on: they own no instance, and their samples no
    /// longer wait for room.
    #[cold]
    fn ignore_writers(&mut self, now: u64, ignored: &[InstanceHandle]) {
        self.waiting.ignore(ignored);
        self.lose(now, |writer, _| ignored.contains(&writer));
    }

    /// Takes or reads the samples that are wanted.
    pub(super) fn access(
        &mut self,
        now: u64,
        takes: bool,
        wanted: &Selection,
        query: &dyn Fn(&T) -> bool,
    ) -> Vec<Sample<T>> {
        let mut found: Vec<Sample<T>> = Vec::new();
        let condition = |sample: Option<&SampleBody<T>>| sample.is_none_or(|sample| query(sample));
        // Samples go straight into the result list, so that each is moved once.
        let count = self.cache.choose(now, wanted, condition);
        found.reserve_exact(count);
        let give = |data: Option<SampleBody<T>>, info: &CachedSampleInfo| {
            found.extend(data.map(|data| data.with_info(info)));
        };
        match takes {
            true => self.cache.take_chosen(give),
            false => self.cache.read_chosen(give),
        }
        found
    }
}

/// Deadlines of instances, if DEADLINE is set.
fn deadlines(settings: &CacheSettings) -> Option<Deadlines> {
    (settings.deadline != NEVER).then(|| Deadlines::new(settings.deadline))
}

/// The wall clock, in nanoseconds since 1970.
pub(super) fn wall() -> u64 {
    clock::wall(clock::now())
}
