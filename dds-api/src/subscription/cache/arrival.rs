//! Arrivals at a cache, and the effects of time on its contents.
//!
//! Owns: the life of instances, and the decision which samples are stored. Never does: give
//! any out.

use super::instances::{Instance, InstanceWriters, Key};
use super::samples::{CacheEntry, Chain, NIL, SourceOrder};
use super::settings::NEVER;
use super::timers::{CacheTimer, TimerKind};
use super::{InstanceState, SampleCache, ViewState};
use crate::infrastructure::InstanceHandle;

/// Change of an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstanceChange {
    /// The instance is written.
    Alive,
    /// The instance is disposed.
    Dispose,
    /// A writer unregisters the instance.
    Unregister,
}

/// A sample or other change from a writer.
#[derive(Clone, Debug)]
pub struct Arrival<S> {
    /// The change of the instance.
    pub change: InstanceChange,
    /// The instance.
    pub key: Key,
    /// The writer.
    pub writer: InstanceHandle,
    /// OWNERSHIP_STRENGTH of the writer.
    pub strength: i32,
    /// Time at which it was written.
    pub source_timestamp: u64,
    /// Expiry time; [`NEVER`] if there is none.
    pub expires: u64,
    /// The sample; for another change than a write, the data that hold the key.
    pub data: S,
}

/// Result of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrivalOutcome {
    /// The arrival can be read, or its instance has changed.
    Stored,
    /// The arrival waits until TIME_BASED_FILTER lets it pass.
    Waits,
    /// A stronger writer owns the instance.
    NotOwner,
    /// A later one had already arrived.
    Late,
    /// The arrival had expired.
    Expired,
    /// The arrival changed nothing that can be observed.
    Unnoticed,
}

/// The limit of RESOURCE_LIMITS that is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitReached {
    /// max_instances.
    Instances,
    /// max_samples.
    Samples,
    /// max_samples_per_instance.
    SamplesPerInstance,
}

/// An arrival for which there is no room. The cache is unchanged (I-142).
#[derive(Debug)]
pub struct Rejection<S> {
    /// The reason.
    pub reason: LimitReached,
    /// The rejected arrival.
    pub arrival: Arrival<S>,
}

/// A sample that is accepted.
pub(super) struct AdmittedArrival {
    /// Slot of the instance.
    pub(super) at: u32,
    /// Whether TIME_BASED_FILTER lets the sample pass later.
    pub(super) waits: bool,
}

/// Reason why a sample is not accepted.
pub(super) enum ArrivalRefusal {
    /// The arrival was handled, with this outcome.
    Already(ArrivalOutcome),
    /// There is no room.
    NoRoom(LimitReached),
}

impl Arrival<()> {
    /// Adds the sample to an arrival.
    pub(super) fn with<S>(self, data: S) -> Arrival<S> {
        let Arrival { change, key, writer, strength, source_timestamp, expires, data: () } = self;
        Arrival { change, key, writer, strength, source_timestamp, expires, data }
    }
}

impl<S> Arrival<S> {
    #[inline(always)]
    pub(super) fn order(&self) -> SourceOrder {
        SourceOrder::new(self.source_timestamp, self.writer)
    }

    /// The sample as it is stored, at this position of all samples, of the instance in slot `at`.
    fn entry(self, position: u64, at: u32, instance: &Instance<S>) -> CacheEntry<S> {
        CacheEntry {
            writer: self.writer,
            position,
            time: self.source_timestamp,
            expires: self.expires,
            data: Some(self.data),
            instance: at,
            disposed_generation: instance.disposed_generation,
            no_writers_generation: instance.no_writers_generation,
            valid: true,
            read: false,
        }
    }
}

impl<S> SampleCache<S> {
    /// Takes in an arrival. `key_value` is called for the key itself when an instance
    /// becomes known.
    ///
    /// # Errors
    /// If there is no room for the arrival.
    #[inline]
    pub fn put(
        &mut self,
        now: u64,
        arrival: Arrival<S>,
        key_value: impl FnOnce(&S) -> Box<[u8]>,
    ) -> Result<ArrivalOutcome, Rejection<S>> {
        self.keep_passing();
        self.advance(now);
        match arrival.change {
            InstanceChange::Alive => self.write(now, arrival, key_value),
            InstanceChange::Dispose => self.dispose(now, arrival, key_value),
            InstanceChange::Unregister => Ok(self.unregister(now, arrival)),
        }
    }

    fn write(
        &mut self,
        now: u64,
        arrival: Arrival<S>,
        key_value: impl FnOnce(&S) -> Box<[u8]>,
    ) -> Result<ArrivalOutcome, Rejection<S>> {
        let (at, waits) = match self.admit(now, &arrival, || key_value(&arrival.data)) {
            Ok(AdmittedArrival { at, waits }) => (at, waits),
            Err(ArrivalRefusal::Already(outcome)) => return Ok(outcome),
            Err(ArrivalRefusal::NoRoom(reason)) => return Err(Rejection { reason, arrival }),
        };
        let instance = self.instances.get_mut(at);
        let entry = arrival.entry(self.position, at, instance);
        if waits {
            instance.waiting = Some(entry);
            if !std::mem::replace(&mut instance.release_listed, true) {
                self.list_release(at);
            }
            return Ok(ArrivalOutcome::Waits);
        }
        self.store(entry);
        Ok(ArrivalOutcome::Stored)
    }

    /// Decides whether a written sample is accepted, and if so, updates its instance.
    #[inline(always)]
    pub(super) fn admit<D>(
        &mut self,
        now: u64,
        arrival: &Arrival<D>,
        key_value: impl FnOnce() -> Box<[u8]>,
    ) -> Result<AdmittedArrival, ArrivalRefusal> {
        if arrival.expires <= now {
            return Err(ArrivalRefusal::Already(ArrivalOutcome::Expired));
        }
        let known = self.instances.find_again(arrival.key);
        let waits = known.is_some_and(|at| now < self.free_at(at));
        if let Some(at) = known {
            if self.is_late(at, arrival.order(), waits) {
                return Err(ArrivalRefusal::Already(ArrivalOutcome::Late));
            }
            if !self.owns(at, arrival) {
                self.register(at, arrival);
                return Err(ArrivalRefusal::Already(ArrivalOutcome::NotOwner));
            }
        }
        self.held += self.room_increase(known, waits).map_err(ArrivalRefusal::NoRoom)?;
        let at = match known {
            Some(at) => {
                self.register(at, arrival);
                at
            }
            None => self.add_instance(arrival, key_value),
        };
        self.revive(at);
        let (instance, order) = (self.instances.get_mut(at), arrival.order());
        if instance.latest < order {
            instance.latest = order;
        }
        if !waits {
            instance.passed = Some(now);
        }
        Ok(AdmittedArrival { at, waits })
    }

    /// Whether something later had already arrived. A late arrival changes nothing. In particular,
    /// no sample comes in among those of an earlier generation (I-141).
    #[inline]
    fn is_late(&self, at: u32, order: SourceOrder, waits: bool) -> bool {
        if !self.settings.by_source {
            return false;
        }
        let instance = self.instances.get(at);
        if order < instance.accessed || order < instance.overtaken {
            return true;
        }
        if waits {
            return instance.waiting.as_ref().is_some_and(|waiting| order < waiting.order());
        }
        // The oldest kept sample is removed. If this sample would be the oldest, it is not stored.
        let oldest = instance.samples.first;
        self.is_full(instance.len) && order < self.samples.get(oldest).order()
    }

    fn is_full(&self, len: usize) -> bool {
        self.settings.depth.is_some_and(|depth| len >= depth)
    }

    /// Adds a writer to an instance, or updates its strength.
    #[inline]
    fn register<D>(&mut self, at: u32, arrival: &Arrival<D>) {
        self.instances.get_mut(at).writers.register(arrival.writer, arrival.strength);
    }

    /// OWNERSHIP: whether this writer's arrival counts for the instance.
    #[inline]
    fn owns<D>(&self, at: u32, arrival: &Arrival<D>) -> bool {
        let writers = &self.instances.get(at).writers;
        !self.settings.exclusive || writers.is_owner(arrival.writer, arrival.strength)
    }

    /// Increase of the number of samples, as RESOURCE_LIMITS count them, by one more sample.
    #[inline]
    fn room_increase(&self, known: Option<u32>, waits: bool) -> Result<usize, LimitReached> {
        let settings = &self.settings;
        let (before, after) = match known.map(|at| self.instances.get(at)) {
            Some(instance) => {
                // A waiting sample is always listed, and testing the flag alone is cheaper.
                let waiting = instance.release_listed && instance.waiting.is_some();
                let more = usize::from(!(waits && waiting));
                let before = instance.len + usize::from(waiting);
                (self.share(before), self.share(before + more))
            }
            None if self.instances.len() >= settings.max_instances => {
                return Err(LimitReached::Instances);
            }
            None => (0, 1),
        };
        let more = after - before;
        if after > settings.max_samples_per_instance {
            return Err(LimitReached::SamplesPerInstance);
        }
        if self.held + more > settings.max_samples {
            return Err(LimitReached::Samples);
        }
        Ok(more)
    }

    /// Number of samples of an instance that remain out of `count`.
    #[inline]
    pub(super) fn share(&self, count: usize) -> usize {
        self.settings.depth.map_or(count, |depth| count.min(depth))
    }

    #[inline(never)]
    fn add_instance<D>(
        &mut self,
        arrival: &Arrival<D>,
        key_value: impl FnOnce() -> Box<[u8]>,
    ) -> u32 {
        let writers = InstanceWriters::one(arrival.writer, arrival.strength);
        self.instances.add(arrival.key, key_value(), writers)
    }

    /// Makes an instance alive again that was over.
    #[inline(always)]
    fn revive(&mut self, at: u32) {
        if self.instances.get(at).state != InstanceState::Alive {
            self.revive_one_that_was_over(at);
        }
    }

    #[cold]
    fn revive_one_that_was_over(&mut self, at: u32) {
        let instance = self.instances.get_mut(at);
        match instance.state {
            InstanceState::Alive => return,
            InstanceState::NotAliveDisposed => instance.disposed_generation += 1,
            InstanceState::NotAliveNoWriters => instance.no_writers_generation += 1,
        }
        instance.state = InstanceState::Alive;
        instance.view = ViewState::New;
        instance.purge_at = NEVER;
        self.drop_notice(at);
    }

    fn dispose(
        &mut self,
        now: u64,
        arrival: Arrival<S>,
        key_value: impl FnOnce(&S) -> Box<[u8]>,
    ) -> Result<ArrivalOutcome, Rejection<S>> {
        let order = arrival.order();
        let at = match self.instances.find(arrival.key) {
            Some(at) => {
                if self.settings.by_source && order < self.instances.get(at).latest {
                    return Ok(ArrivalOutcome::Late);
                }
                let owns = self.owns(at, &arrival);
                self.register(at, &arrival);
                if !owns {
                    return Ok(ArrivalOutcome::NotOwner);
                }
                at
            }
            None if self.instances.len() >= self.settings.max_instances => {
                return Err(Rejection { reason: LimitReached::Instances, arrival });
            }
            None => self.add_instance(&arrival, || key_value(&arrival.data)),
        };
        let instance = self.instances.get_mut(at);
        instance.latest = instance.latest.max(order);
        instance.overtaken = instance.latest;
        if instance.state == InstanceState::NotAliveDisposed {
            return Ok(ArrivalOutcome::Unnoticed);
        }
        self.end(now, at, InstanceState::NotAliveDisposed, order, Some(arrival.data));
        Ok(ArrivalOutcome::Stored)
    }

    fn unregister(&mut self, now: u64, arrival: Arrival<S>) -> ArrivalOutcome {
        let written = arrival.order();
        match self.instances.find(arrival.key) {
            Some(at) => self.let_go(now, at, written, Some(arrival.data)),
            None => ArrivalOutcome::Unnoticed,
        }
    }

    /// Stores a sample in its chains. If the history is full, the oldest sample of the instance
    /// is removed.
    #[inline]
    pub(super) fn store(&mut self, entry: CacheEntry<S>) {
        let at = entry.instance;
        let instance = self.instances.get(at);
        if self.is_full(instance.len) {
            // The removed sample makes room for the new one, so the count stays the same.
            let (oldest, held) = (instance.samples.first, self.held);
            self.forget(oldest);
            self.held = held;
        }
        let expires = entry.expires;
        let sample = self.samples.add(entry);
        let instance = self.instances.get_mut(at);
        instance.len += 1;
        // The notice stays the last of the chain.
        let notice = instance.notice;
        if notice != NIL {
            self.unchain(notice);
        }
        self.chain(sample);
        if notice != NIL {
            self.chain(notice);
        }
        if expires != NEVER {
            let epoch = self.samples.epoch(sample);
            self.note(CacheTimer { time: expires, kind: TimerKind::Expire, at: sample, epoch });
        }
    }

    /// Links a sample into its chains.
    #[inline]
    pub(super) fn chain(&mut self, sample: u32) {
        let entry = self.samples.get(sample);
        let (order, valid, read) = (entry.order(), entry.valid, entry.read);
        let instance = self.instances.get_mut(entry.instance);
        let by_source = self.settings.by_source;
        let own = &mut instance.samples;
        let behind = match by_source && valid {
            true => self.samples.last_until(Chain::Instance, own, order),
            false => own.last,
        };
        self.samples.insert(Chain::Instance, own, behind, sample);
        if !valid {
            instance.notice = sample;
        }
        let sorted = by_source && self.settings.across_instances;
        let behind = match sorted {
            true => self.samples.last_until(Chain::All, &self.all, order),
            false => self.all.last,
        };
        self.samples.insert(Chain::All, &mut self.all, behind, sample);
        if !read {
            let behind = match sorted {
                true => self.samples.last_until(Chain::Unread, &self.unread, order),
                false => self.unread.last,
            };
            self.samples.insert(Chain::Unread, &mut self.unread, behind, sample);
        }
    }

    #[inline]
    fn unchain(&mut self, sample: u32) {
        let entry = self.samples.get(sample);
        let (valid, read) = (entry.valid, entry.read);
        let instance = self.instances.get_mut(entry.instance);
        self.samples.unlink(Chain::Instance, &mut instance.samples, sample);
        if !valid {
            instance.notice = NIL;
        }
        self.samples.unlink(Chain::All, &mut self.all, sample);
        if !read {
            self.samples.unlink(Chain::Unread, &mut self.unread, sample);
        }
    }

    /// Removes a sample. The instance remains, even if it is empty.
    #[inline]
    pub(super) fn forget(&mut self, sample: u32) -> CacheEntry<S> {
        self.unchain(sample);
        let entry = self.samples.remove(sample);
        if entry.valid {
            let at = entry.instance;
            let instance = self.instances.get(at);
            let before = instance.len + usize::from(instance.waiting.is_some());
            self.held -= self.share(before) - self.share(before - 1);
            self.instances.get_mut(at).len -= 1;
        }
        entry
    }

    pub(super) fn drop_notice(&mut self, at: u32) {
        let notice = self.instances.get(at).notice;
        if notice != NIL {
            self.forget(notice);
        }
    }

    pub(super) fn note(&mut self, timer: CacheTimer) {
        if self.timers.is_overgrown(self.samples.len() + 2 * self.instances.len()) {
            let SampleCache { timers: agenda, samples, instances, .. } = self;
            agenda.sweep(|timer| match timer.kind {
                TimerKind::Expire => samples.is_still(timer.at, timer.epoch),
                TimerKind::Release | TimerKind::Purge => instances.is_still(timer.at, timer.epoch),
            });
        }
        self.timers.add(timer);
    }

    /// Advances time. Every other call that has a time does so first.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        while let Some(timer) = self.timers.due(now) {
            self.keep_time(timer);
        }
    }

    #[cold]
    fn keep_time(&mut self, timer: CacheTimer) {
        let CacheTimer { kind, at, epoch, .. } = timer;
        match kind {
            TimerKind::Expire if self.samples.is_still(at, epoch) => {
                let instance = self.forget(at).instance;
                self.instances.tidy(instance);
            }
            TimerKind::Release if self.instances.is_still(at, epoch) => self.release(timer),
            TimerKind::Purge if self.instances.is_still(at, epoch) => self.purge(timer),
            _ => {}
        }
    }

    /// TIME_BASED_FILTER: stores the sample that has waited.
    fn release(&mut self, timer: CacheTimer) {
        let at = timer.at;
        let free_at = self.free_at(at);
        let instance = self.instances.get_mut(at);
        if timer.time < free_at && instance.waiting.is_some() {
            // The policy was different when this release was scheduled.
            return self.list_release(at);
        }
        instance.release_listed = false;
        let Some(entry) = instance.waiting.take() else { return };
        let expired = entry.expires <= timer.time;
        if expired || self.settings.by_source && entry.order() < instance.accessed {
            self.unhold(at);
            return self.instances.tidy(at);
        }
        instance.passed = Some(timer.time);
        let oldest = instance.samples.first;
        if self.settings.by_source
            && self.is_full(self.instances.get(at).len)
            && entry.order() < self.samples.get(oldest).order()
        {
            return;
        }
        // The sample was counted when it came.
        self.released += 1;
        self.store(entry);
    }

    /// Uncounts a waiting sample that is not stored.
    fn unhold(&mut self, at: u32) {
        let len = self.instances.get(at).len;
        self.held -= self.share(len + 1) - self.share(len);
    }

    /// READER_DATA_LIFECYCLE: removes the samples of an instance that is over.
    fn purge(&mut self, timer: CacheTimer) {
        let at = timer.at;
        let instance = self.instances.get_mut(at);
        if instance.purge_listed <= timer.time {
            instance.purge_listed = NEVER;
        }
        if instance.purge_at > timer.time {
            // The instance was alive again since, and may be over again.
            return self.list_purge(at);
        }
        instance.purge_at = NEVER;
        self.empty(at);
        self.drop_notice(at);
        self.instances.tidy(at);
    }

    /// Removes the samples of an instance, also one that waits for TIME_BASED_FILTER, but not a
    /// notice. Returns their number.
    fn empty(&mut self, at: u32) -> usize {
        let mut removed = 0;
        if self.instances.get_mut(at).waiting.take().is_some() {
            self.unhold(at);
            removed += 1;
        }
        let mut sample = self.instances.get(at).samples.first;
        while sample != NIL {
            let next = self.samples.after(Chain::Instance, sample);
            if self.samples.get(sample).valid {
                self.forget(sample);
                removed += 1;
            }
            sample = next;
        }
        removed
    }

    /// Removes all samples with data, and returns their number. What is known of the instances
    /// remains, and so do the notices that instances are over.
    pub fn discard_samples(&mut self) -> usize {
        self.keep_passing();
        let mut discarded = 0;
        for at in self.instances.all().collect::<Vec<_>>() {
            discarded += self.empty(at);
            self.instances.tidy(at);
        }
        discarded
    }
}
