//! A reader cache according to the text of the standard (DDS 1.4, 2.2.2.5 and 2.2.3), with plain
//! lists, regardless of speed.
//!
//! Owns: the correct answers of a cache. Never does: share code with the cache that it judges.

use std::collections::BTreeMap;

use dds_api::prelude::InstanceHandle;
use dds_api::subscription::cache::{
    Arrival, ArrivalOutcome, CacheSettings, CachedSampleInfo, InstanceChange, InstanceScope,
    LimitReached, NEVER, ReturnedSample, Selection,
};
use dds_api::subscription::{InstanceState, SampleState, SampleStateMask, ViewState};

/// A sample, or the notice that its instance has ended.
#[derive(Clone, Debug)]
struct ModelSample {
    data: Option<u64>,
    valid: bool,
    key: u128,
    writer: InstanceHandle,
    time: u64,
    expires: u64,
    generations: (u32, u32),
    read: bool,
    /// Position in the order of arrival of all samples.
    place: u64,
}

impl ModelSample {
    fn by_source(&self) -> (u64, bool, InstanceHandle) {
        (self.time, !self.valid, self.writer)
    }
}

#[derive(Debug)]
struct ModelInstance {
    state: InstanceState,
    view: ViewState,
    generations: (u32, u32),
    writers: BTreeMap<InstanceHandle, i32>,
    waiting: Option<ModelSample>,
    free_at: u64,
    purge_at: u64,
    latest: (u64, InstanceHandle),
    accessed: (u64, InstanceHandle),
    overtaken: (u64, InstanceHandle),
}

/// Model of a cache. See the [module](self).
pub(crate) struct Model {
    settings: CacheSettings,
    samples: Vec<ModelSample>,
    instances: BTreeMap<u128, ModelInstance>,
    places: u64,
}

fn nobody() -> (u64, InstanceHandle) {
    (0, InstanceHandle::from_parts(0, 0))
}

impl Model {
    pub(crate) fn new(settings: CacheSettings) -> Model {
        Model { settings, samples: Vec::new(), instances: BTreeMap::new(), places: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    pub(crate) fn instances(&self) -> usize {
        self.instances.len()
    }

    fn count(&self, key: u128) -> usize {
        self.samples.iter().filter(|sample| sample.valid && sample.key == key).count()
    }

    /// Returns the number of samples of an instance that RESOURCE_LIMITS count.
    fn counted(&self, key: u128, more: usize) -> usize {
        let waiting = self.instances.get(&key).is_some_and(|it| it.waiting.is_some());
        let count = self.count(key) + usize::from(waiting) + more;
        count.min(self.settings.depth.unwrap_or(usize::MAX))
    }

    fn counted_in_all(&self) -> usize {
        self.instances.keys().map(|&key| self.counted(key, 0)).sum()
    }

    fn tidy(&mut self) {
        let samples = &self.samples;
        self.instances.retain(|key, instance| {
            !instance.writers.is_empty()
                || instance.waiting.is_some()
                || samples.iter().any(|sample| sample.key == *key)
        });
    }

    /// Returns the next event due: its time, kind, and instance.
    fn next_due(&self) -> Option<(u64, u8, u128)> {
        let expiries = self.samples.iter().map(|sample| (sample.expires, 0, sample.key));
        let releases = self.instances.iter().filter(|(_, it)| it.waiting.is_some());
        let releases = releases.map(|(key, it)| (it.free_at, 1, *key));
        let purges = self.instances.iter().map(|(key, it)| (it.purge_at, 2, *key));
        expiries.chain(releases).chain(purges).filter(|due| due.0 != NEVER).min()
    }

    pub(crate) fn next_time(&self) -> Option<u64> {
        self.next_due().map(|due| due.0)
    }

    pub(crate) fn advance(&mut self, now: u64) {
        while let Some((time, what, key)) = self.next_due().filter(|due| due.0 <= now) {
            match what {
                0 => self.samples.retain(|sample| sample.expires > time),
                1 => self.release(time, key),
                _ => {
                    self.samples.retain(|sample| sample.key != key);
                    let instance = self.instances.get_mut(&key).unwrap();
                    instance.waiting = None;
                    instance.purge_at = NEVER;
                }
            }
            self.tidy();
        }
    }

    /// Removes all samples with data. Returns their number.
    pub(crate) fn discard_samples(&mut self) -> usize {
        let waiting = self.instances.values_mut().filter_map(|it| it.waiting.take()).count();
        let before = self.samples.len();
        self.samples.retain(|sample| !sample.valid);
        let discarded = waiting + before - self.samples.len();
        self.tidy();
        discarded
    }

    fn release(&mut self, time: u64, key: u128) {
        let separation = self.settings.minimum_separation;
        let instance = self.instances.get_mut(&key).unwrap();
        let sample = instance.waiting.take().unwrap();
        let late = self.settings.by_source && (sample.time, sample.writer) < instance.accessed;
        if sample.expires <= time || late {
            return;
        }
        instance.free_at = time.saturating_add(separation);
        self.store(sample);
    }

    /// Stores a sample; HISTORY removes the first sample of its instance, which may be this one.
    fn store(&mut self, mut sample: ModelSample) {
        let key = sample.key;
        sample.place = self.places;
        self.places += 1;
        self.samples.push(sample);
        let order = self.order_of(key);
        let valid = |at: &&usize| self.samples[**at].valid;
        if order.iter().filter(valid).count() > self.settings.depth.unwrap_or(usize::MAX) {
            let first = *order.iter().find(valid).unwrap();
            self.samples.remove(first);
            if first == self.samples.len() {
                return;
            }
        }
        // The notice of the end stays the last sample of its instance.
        let places = &mut self.places;
        for notice in self.samples.iter_mut().filter(|it| it.key == key && !it.valid) {
            notice.place = *places;
            *places += 1;
        }
    }

    /// Returns the samples of an instance in order.
    fn order_of(&self, key: u128) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.samples.len()).collect();
        order.retain(|&at| self.samples[at].key == key);
        order.sort_by_key(|&at| self.samples[at].place);
        if self.settings.by_source {
            order.sort_by_key(|&at| self.samples[at].by_source());
        }
        order.sort_by_key(|&at| !self.samples[at].valid);
        order
    }

    /// Returns the samples of all instances in their common order.
    fn order_of_all(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.samples.len()).collect();
        order.sort_by_key(|&at| self.samples[at].place);
        if self.settings.by_source && self.settings.across_instances {
            order.sort_by_key(|&at| {
                let (time, notice, writer) = self.samples[at].by_source();
                // Notices with the same time stay in the order of arrival.
                (time, notice, (!notice).then_some(writer))
            });
        }
        order
    }

    fn owner(instance: &ModelInstance, writer: InstanceHandle, strength: i32) -> bool {
        let mut writers = instance.writers.clone();
        writers.insert(writer, strength);
        let strongest = *writers.values().max().unwrap();
        // Among equally strong writers the first one.
        *writers.iter().find(|(_, strength)| **strength == strongest).unwrap().0 == writer
    }

    pub(crate) fn put(
        &mut self,
        now: u64,
        arrival: Arrival<u64>,
    ) -> Result<ArrivalOutcome, LimitReached> {
        self.advance(now);
        let outcome = match arrival.change {
            InstanceChange::Alive => self.write(now, &arrival),
            InstanceChange::Dispose => self.dispose(now, &arrival),
            InstanceChange::Unregister => Ok(match self.instances.contains_key(&arrival.key) {
                true => self.let_go(now, &arrival, Some(arrival.data)),
                false => ArrivalOutcome::Unnoticed,
            }),
        };
        self.tidy();
        outcome
    }

    fn write(&mut self, now: u64, arrival: &Arrival<u64>) -> Result<ArrivalOutcome, LimitReached> {
        let Arrival { key, writer, strength, source_timestamp: time, expires, data, .. } = *arrival;
        if expires <= now {
            return Ok(ArrivalOutcome::Expired);
        }
        let mut waits = false;
        let settings = self.settings;
        if let Some(instance) = self.instances.get(&key) {
            waits = instance.free_at > now;
            if settings.by_source {
                let first = self.order_of(key).into_iter().find(|&at| self.samples[at].valid);
                let full = self.count(key) >= settings.depth.unwrap_or(usize::MAX);
                let before = |it: &ModelSample| (time, writer) < (it.time, it.writer);
                let late = (time, writer) < instance.accessed
                    || (time, writer) < instance.overtaken
                    || waits && instance.waiting.as_ref().is_some_and(before)
                    || !waits && full && first.is_some_and(|at| before(&self.samples[at]));
                if late {
                    return Ok(ArrivalOutcome::Late);
                }
            }
            if settings.exclusive && !Self::owner(instance, writer, strength) {
                self.instances.get_mut(&key).unwrap().writers.insert(writer, strength);
                return Ok(ArrivalOutcome::NotOwner);
            }
        } else if self.instances.len() >= settings.max_instances {
            return Err(LimitReached::Instances);
        }
        let replaces = self.instances.get(&key).is_some_and(|it| waits && it.waiting.is_some());
        let more = usize::from(!replaces);
        let (before, after) = (self.counted(key, 0), self.counted(key, more));
        if after > before && after > settings.max_samples_per_instance {
            return Err(LimitReached::SamplesPerInstance);
        }
        if self.counted_in_all() + after - before > settings.max_samples {
            return Err(LimitReached::Samples);
        }
        let instance = self.instance(key);
        instance.writers.insert(writer, strength);
        instance.latest = instance.latest.max((time, writer));
        match instance.state {
            InstanceState::Alive => {}
            InstanceState::NotAliveDisposed => instance.generations.0 += 1,
            InstanceState::NotAliveNoWriters => instance.generations.1 += 1,
        }
        if instance.state != InstanceState::Alive {
            instance.state = InstanceState::Alive;
            instance.view = ViewState::New;
            instance.purge_at = NEVER;
        }
        let (generations, read, place) = (instance.generations, false, 0);
        let (data, valid) = (Some(data), true);
        let sample =
            ModelSample { data, valid, key, writer, time, expires, generations, read, place };
        let outcome = if waits {
            instance.waiting = Some(sample);
            ArrivalOutcome::Waits
        } else {
            instance.free_at = now.saturating_add(settings.minimum_separation);
            self.store(sample);
            ArrivalOutcome::Stored
        };
        self.samples.retain(|sample| sample.key != key || sample.valid);
        Ok(outcome)
    }

    fn instance(&mut self, key: u128) -> &mut ModelInstance {
        self.instances.entry(key).or_insert_with(|| ModelInstance {
            state: InstanceState::Alive,
            view: ViewState::New,
            generations: (0, 0),
            writers: BTreeMap::new(),
            waiting: None,
            free_at: 0,
            purge_at: NEVER,
            latest: nobody(),
            accessed: nobody(),
            overtaken: nobody(),
        })
    }

    fn dispose(
        &mut self,
        now: u64,
        arrival: &Arrival<u64>,
    ) -> Result<ArrivalOutcome, LimitReached> {
        let Arrival { key, writer, strength, source_timestamp: time, data, .. } = *arrival;
        if let Some(instance) = self.instances.get_mut(&key) {
            if self.settings.by_source && (time, writer) < instance.latest {
                return Ok(ArrivalOutcome::Late);
            }
            let owner = Self::owner(instance, writer, strength);
            instance.writers.insert(writer, strength);
            if self.settings.exclusive && !owner {
                return Ok(ArrivalOutcome::NotOwner);
            }
        } else if self.instances.len() >= self.settings.max_instances {
            return Err(LimitReached::Instances);
        }
        let delay = self.settings.disposed_delay;
        let instance = self.instance(key);
        instance.writers.insert(writer, strength);
        instance.latest = instance.latest.max((time, writer));
        instance.overtaken = instance.latest;
        if instance.state == InstanceState::NotAliveDisposed {
            return Ok(ArrivalOutcome::Unnoticed);
        }
        instance.state = InstanceState::NotAliveDisposed;
        instance.purge_at = now.saturating_add(delay);
        self.notice(key, (time, writer), Some(data));
        Ok(ArrivalOutcome::Stored)
    }

    fn let_go(&mut self, now: u64, arrival: &Arrival<u64>, data: Option<u64>) -> ArrivalOutcome {
        let Arrival { key, writer, source_timestamp: time, .. } = *arrival;
        let delay = self.settings.no_writer_delay;
        let instance = self.instances.get_mut(&key).unwrap();
        let was_there = instance.writers.remove(&writer).is_some();
        let ends = was_there && instance.writers.is_empty();
        if !ends || instance.state != InstanceState::Alive {
            return ArrivalOutcome::Unnoticed;
        }
        instance.state = InstanceState::NotAliveNoWriters;
        instance.purge_at = now.saturating_add(delay);
        instance.overtaken = instance.latest;
        let time = time.max(instance.latest.0);
        self.notice(key, (time, writer), data);
        ArrivalOutcome::Stored
    }

    fn notice(&mut self, key: u128, (time, writer): (u64, InstanceHandle), data: Option<u64>) {
        self.samples.retain(|sample| sample.key != key || sample.valid);
        let (generations, expires, place) = (self.instances[&key].generations, NEVER, self.places);
        let (valid, read) = (false, false);
        self.places += 1;
        let notice =
            ModelSample { data, valid, key, writer, time, expires, generations, read, place };
        self.samples.push(notice);
    }

    pub(crate) fn lose(&mut self, now: u64, writer: InstanceHandle) {
        self.advance(now);
        let keys: Vec<u128> = self.instances.keys().copied().collect();
        for key in keys {
            let (change, strength, expires) = (InstanceChange::Unregister, 0, NEVER);
            let gone =
                Arrival { change, key, writer, strength, source_timestamp: now, expires, data: 0 };
            self.let_go(now, &gone, None);
        }
        self.tidy();
    }

    /// Returns the positions of the selected samples, in order.
    fn choose(&self, wanted: &Selection, condition: impl Fn(Option<u64>) -> bool) -> Vec<usize> {
        let is_wanted = |at: &usize| {
            let sample = &self.samples[*at];
            let instance = &self.instances[&sample.key];
            let state = if sample.read { SampleState::Read } else { SampleState::NotRead };
            wanted.states.sample.has(state)
                && wanted.states.view.has(instance.view)
                && wanted.states.instance.has(instance.state)
                && condition(sample.data.filter(|_| sample.valid))
        };
        let of = |key: u128| self.order_of(key).into_iter().filter(|at| is_wanted(at));
        let mut chosen: Vec<usize> = match wanted.scope {
            InstanceScope::All if self.settings.across_instances => {
                self.order_of_all().into_iter().filter(is_wanted).collect()
            }
            InstanceScope::All => {
                // Instances are ordered by their first samples, or their first unread ones.
                let only_unread = wanted.states.sample == SampleStateMask::NOT_READ;
                let mut keys: Vec<u128> = Vec::new();
                for at in self.order_of_all() {
                    let sample = &self.samples[at];
                    if !(keys.contains(&sample.key) || only_unread && sample.read) {
                        keys.push(sample.key);
                    }
                }
                keys.into_iter().flat_map(of).collect()
            }
            InstanceScope::Instance(key) => of(key).collect(),
            InstanceScope::NextAfter(after) => {
                let behind = self.instances.keys().filter(|key| after.is_none_or(|it| **key > it));
                behind
                    .map(|&key| of(key).collect::<Vec<_>>())
                    .find(|it| !it.is_empty())
                    .unwrap_or_default()
            }
        };
        chosen.truncate(wanted.max);
        chosen
    }

    /// Returns the result of a call, and updates the model.
    pub(crate) fn access(
        &mut self,
        now: u64,
        takes: bool,
        wanted: &Selection,
        condition: impl Fn(Option<u64>) -> bool,
    ) -> Vec<ReturnedSample<u64>> {
        self.advance(now);
        let chosen = self.choose(wanted, condition);
        let generation = |at: usize| {
            let (disposed, no_writers) = self.samples[at].generations;
            disposed + no_writers
        };
        let given: Vec<ReturnedSample<u64>> = (0..chosen.len())
            .map(|index| {
                let sample = &self.samples[chosen[index]];
                let instance = &self.instances[&sample.key];
                let following: Vec<usize> = chosen[index + 1..]
                    .iter()
                    .copied()
                    .filter(|&at| self.samples[at].key == sample.key)
                    .collect();
                let own = generation(chosen[index]);
                let last = following.last().map_or(own, |&at| generation(at));
                let now = instance.generations.0 + instance.generations.1;
                let info = CachedSampleInfo {
                    sample_state: if sample.read {
                        SampleState::Read
                    } else {
                        SampleState::NotRead
                    },
                    view_state: instance.view,
                    instance_state: instance.state,
                    disposed_generation_count: sample.generations.0,
                    no_writers_generation_count: sample.generations.1,
                    sample_rank: following.len() as u32,
                    generation_rank: last - own,
                    absolute_generation_rank: now - own,
                    source_timestamp: sample.time,
                    instance: sample.key,
                    publication_handle: sample.writer,
                    valid_data: sample.valid,
                };
                ReturnedSample { data: sample.data, info }
            })
            .collect();
        for &at in &chosen {
            let sample = &mut self.samples[at];
            sample.read = true;
            let instance = self.instances.get_mut(&sample.key).unwrap();
            instance.view = ViewState::NotNew;
            if sample.valid {
                instance.accessed = instance.accessed.max((sample.time, sample.writer));
            }
        }
        if takes {
            let mut gone = chosen;
            gone.sort_unstable();
            gone.into_iter().rev().for_each(|at| {
                self.samples.remove(at);
            });
            self.tidy();
        }
        given
    }
}
