//! Samples that arrive while a call takes everything. They pass, which means that they enter none
//! of the cache's chains.
//!
//! ```text
//!   pass ──> passing ──give──> the call             the cache was empty, and all arrivals can pass
//!               └──────keep──> slots and chains     otherwise: earlier passing samples come first
//! ```
//! Owns: the passing samples, and the order in which they are given. Never does: let a sample pass
//! that is not given as if it had been stored before (I-146).

use super::arrival::{AdmittedArrival, Arrival, ArrivalOutcome, ArrivalRefusal, Rejection};
use super::samples::{CacheEntry, ChainEnds, NIL};
use super::settings::NEVER;
use super::{CachedSampleInfo, InstanceState, SampleCache, SampleState, ViewState};
use crate::infrastructure::InstanceHandle;

/// A passing sample. It never has an expiry time.
pub(super) struct PassingSample<S> {
    data: Option<S>,
    writer: InstanceHandle,
    /// Time at which the sample was written.
    time: u64,
    instance: u32,
    /// The next passing sample of the same instance. The ends of this chain are stored as the ends
    /// of the instance's samples, because the instance has no others.
    after: u32,
    disposed_generation: u32,
    no_writers_generation: u32,
}

impl<S> SampleCache<S> {
    /// Lets samples that [may](SampleCache::lets_pass) pass do so from now on, until they are given
    /// or something comes that cannot pass. Nothing passes if samples are not in their order of
    /// arrival, or wait, or make room for others.
    pub fn let_pass(&mut self) {
        let settings = &self.settings;
        let as_they_come = settings.depth.is_none() && !settings.by_source;
        let at_once = settings.minimum_separation == 0 && self.held == 0;
        self.lets_pass = as_they_come && at_once && self.is_empty();
    }

    /// Whether a sample without an expiry time may pass.
    #[inline(always)]
    pub fn lets_pass(&self) -> bool {
        self.lets_pass
    }

    /// Number of passing samples.
    pub fn passing(&self) -> usize {
        self.passing.len()
    }

    /// Takes in a written sample as [`SampleCache::put`] does, to be given with the next call. The
    /// cache must already have advanced to `now`.
    ///
    /// # Errors
    /// If there is no room for the sample.
    #[inline(always)]
    pub fn pass(
        &mut self,
        now: u64,
        arrival: Arrival<()>,
        data: S,
        key_value: impl FnOnce(&S) -> Box<[u8]>,
    ) -> Result<ArrivalOutcome, Rejection<S>> {
        debug_assert!(
            self.lets_pass && arrival.expires == NEVER,
            "cache lets samples without expiry pass"
        );
        let at = match self.instances.find_again(arrival.key) {
            Some(at) if self.is_common_case(at, &arrival, now) => at,
            _ => match self.admit(now, &arrival, || key_value(&data)) {
                Ok(AdmittedArrival { at, .. }) => at,
                Err(ArrivalRefusal::Already(outcome)) => return Ok(outcome),
                Err(ArrivalRefusal::NoRoom(reason)) => {
                    return Err(Rejection { reason, arrival: arrival.with(data) });
                }
            },
        };
        let number = self.passing.len() as u32;
        let instance = self.instances.get_mut(at);
        match std::mem::replace(&mut instance.samples.last, number) {
            NIL => {
                instance.samples.first = number;
                self.passing_of.push(at);
            }
            before => self.passing[before as usize].after = number,
        }
        instance.len += 1;
        self.passing.push(PassingSample {
            data: Some(data),
            writer: arrival.writer,
            time: arrival.source_timestamp,
            instance: at,
            after: NIL,
            disposed_generation: instance.disposed_generation,
            no_writers_generation: instance.no_writers_generation,
        });
        Ok(ArrivalOutcome::Stored)
    }

    /// The common case of [admitting](SampleCache::admit) a sample, with less work: the instance is
    /// alive, and its only known writer is the sample's writer with the same strength. `false` if
    /// this is not the case, or if there may be no room.
    #[inline(always)]
    fn is_common_case(&mut self, at: u32, arrival: &Arrival<()>, now: u64) -> bool {
        let (settings, order) = (&self.settings, arrival.order());
        let instance = self.instances.get_mut(at);
        let continues = instance.state == InstanceState::Alive
            && instance.writers.is_only(arrival.writer, arrival.strength)
            && instance.len < settings.max_samples_per_instance
            && self.held < settings.max_samples;
        if continues {
            if instance.latest < order {
                instance.latest = order;
            }
            instance.passed = Some(now);
            self.held += 1;
        }
        continues
    }

    /// Gives the passing samples, as [`SampleCache::take`] would give them if they had been stored.
    #[inline(always)]
    pub fn give_passing(&mut self, mut give: impl FnMut(S, &CachedSampleInfo)) {
        self.lets_pass = false;
        let mut passing = std::mem::take(&mut self.passing);
        let of = std::mem::take(&mut self.passing_of);
        if self.settings.across_instances && of.len() > 1 {
            of.iter().for_each(|at| self.instances.get_mut(*at).following = 0);
            for sample in &mut passing {
                let instance = self.instances.get_mut(sample.instance);
                instance.following += 1;
                let behind = instance.len - instance.following as usize;
                let info = self.info_of_passing(sample, behind);
                sample.data.take().into_iter().for_each(|data| give(data, &info));
            }
        } else {
            for at in &of {
                let instance = self.instances.get(*at);
                let (mut next, mut behind) = (instance.samples.first, instance.len);
                while let Some(sample) = passing.get_mut(next as usize) {
                    behind -= 1;
                    next = sample.after;
                    let info = self.info_of_passing(sample, behind);
                    sample.data.take().into_iter().for_each(|data| give(data, &info));
                }
            }
        }
        passing.clear();
        (self.passing, self.passing_of) = (passing, of);
        // There were no other samples.
        self.held = 0;
        self.leave_passing(|instance| instance.view = ViewState::NotNew);
    }

    /// Marks the instances of the passing samples as having no samples.
    #[inline(always)]
    fn leave_passing(&mut self, with: impl Fn(&mut super::instances::Instance<S>)) {
        for at in &self.passing_of {
            let instance = self.instances.get_mut(*at);
            (instance.samples, instance.len) = (ChainEnds::EMPTY, 0);
            with(instance);
        }
        self.passing_of.clear();
    }

    /// Information about a passing sample that is followed by `behind` others of its instance. The
    /// instance is alive, as its last sample says.
    #[inline(always)]
    fn info_of_passing(&self, sample: &PassingSample<S>, behind: usize) -> CachedSampleInfo {
        let instance = self.instances.get(sample.instance);
        let generation = sample.disposed_generation.saturating_add(sample.no_writers_generation);
        // No rebirth follows the last passing sample.
        let rank = instance.generation().saturating_sub(generation);
        CachedSampleInfo {
            sample_state: SampleState::NotRead,
            view_state: instance.view,
            instance_state: instance.state,
            disposed_generation_count: sample.disposed_generation,
            no_writers_generation_count: sample.no_writers_generation,
            sample_rank: behind as u32,
            generation_rank: rank,
            absolute_generation_rank: rank,
            source_timestamp: sample.time,
            instance: instance.key,
            publication_handle: sample.writer,
            valid_data: true,
        }
    }

    /// Ends passing, and stores the samples that have passed.
    #[inline(always)]
    pub fn keep_passing(&mut self) {
        self.lets_pass = false;
        if !self.passing.is_empty() {
            self.put_passing_in();
        }
    }

    #[cold]
    fn put_passing_in(&mut self) {
        self.leave_passing(|_| {});
        let mut passing = std::mem::take(&mut self.passing);
        for sample in passing.drain(..) {
            // The sample was counted when it came.
            self.store(CacheEntry {
                data: sample.data,
                instance: sample.instance,
                writer: sample.writer,
                position: self.position,
                time: sample.time,
                expires: NEVER,
                disposed_generation: sample.disposed_generation,
                no_writers_generation: sample.no_writers_generation,
                valid: true,
                read: false,
            });
        }
        self.passing = passing;
    }
}
