//! Samples that come while a call takes all that there is: they pass, and are in none of the cache's chains.
//!
//! ```text
//!   pass ──> passing ──give──> the call              nothing else was there, and nothing came that cannot pass
//!               └──────keep──> places and chains     it did: what has passed before stands there first
//! ```
//! Owns: what passes, and the order in which it is given. Never does: let anything pass that is not given as if it had been
//! put in before (I-146).

use super::arrival::{Admitted, Arrival, Outcome, Refused, Rejection};
use super::samples::{Ends, Entry, NIL, Order};
use super::settings::NEVER;
use super::{Cache, Info, InstanceState, SampleState, ViewState};
use crate::infrastructure::InstanceHandle;

/// A sample that passes. Never one that will be out of date.
pub(super) struct Passing<S> {
    data: Option<S>,
    writer: InstanceHandle,
    /// When it was written.
    time: u64,
    instance: u32,
    /// The next one of the same instance. The ends of this chain are those of the instance's samples, for it has no others.
    after: u32,
    disposed_generation: u32,
    no_writers_generation: u32,
}

impl<S> Cache<S> {
    /// What [may](Cache::lets_pass) passes from now on, until it is given or something comes that cannot. Nothing does where
    /// samples have another order than that in which they came, or wait, or make room for others.
    pub fn let_pass(&mut self) {
        let settings = &self.settings;
        let as_they_come = settings.depth.is_none() && !settings.by_source;
        let at_once = settings.minimum_separation == 0 && self.held == 0;
        self.lets_pass = as_they_come && at_once && self.is_empty();
    }

    /// Whether a sample may pass that will not be out of date.
    #[inline(always)]
    pub fn lets_pass(&self) -> bool {
        self.lets_pass
    }

    /// How many samples pass.
    pub fn passing(&self) -> usize {
        self.passing.len()
    }

    /// Takes in a sample that is written, as [`Cache::put`] does, to be given with the next call. Time has gone on to `now`
    /// already.
    ///
    /// # Errors
    /// If there is no room for it.
    #[inline(always)]
    pub fn pass(
        &mut self,
        now: u64,
        arrival: Arrival<()>,
        data: S,
        key_value: impl FnOnce(&S) -> Box<[u8]>,
    ) -> Result<Outcome, Rejection<S>> {
        debug_assert!(self.lets_pass && arrival.expires == NEVER, "it was asked whether it may");
        let (said, order) = ((arrival.writer, arrival.strength), arrival.order());
        let at = match self.instances.find_again(arrival.key) {
            Some(at) if self.goes_on(at, said, order, now) => at,
            _ => match self.admit(now, &arrival, || key_value(&data)) {
                Ok(Admitted { at, .. }) => at,
                Err(Refused::Already(outcome)) => return Ok(outcome),
                Err(Refused::NoRoom(reason)) => {
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
        self.passing.push(Passing {
            data: Some(data),
            writer: arrival.writer,
            time: arrival.source_timestamp,
            instance: at,
            after: NIL,
            disposed_generation: instance.disposed_generation,
            no_writers_generation: instance.no_writers_generation,
        });
        Ok(Outcome::Stored)
    }

    /// Takes note of a sample of an instance that lives, and of which nobody else says anything than who has said the same
    /// before: that is the rule, and less than to [admit](Cache::admit) it. `false` if it is not so, or if there may be no room.
    #[inline(always)]
    fn goes_on(&mut self, at: u32, said: (InstanceHandle, i32), order: Order, now: u64) -> bool {
        let settings = &self.settings;
        let instance = self.instances.get_mut(at);
        let goes_on = instance.state == InstanceState::Alive
            && instance.writers.is_only(said)
            && instance.len < settings.max_samples_per_instance
            && self.held < settings.max_samples;
        if goes_on {
            if instance.latest < order {
                instance.latest = order;
            }
            instance.passed = Some(now);
            self.held += 1;
        }
        goes_on
    }

    /// Gives what passes, as [`Cache::take`] would if it had been put in.
    #[inline(always)]
    pub fn give_passing(&mut self, mut give: impl FnMut(S, &Info)) {
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
        // Nothing else was there.
        self.held = 0;
        self.leave_passing(|instance| instance.view = ViewState::NotNew);
    }

    /// The instances of what passes have no samples any more.
    #[inline(always)]
    fn leave_passing(&mut self, with: impl Fn(&mut super::instances::Instance<S>)) {
        for at in &self.passing_of {
            let instance = self.instances.get_mut(*at);
            (instance.samples, instance.len) = (Ends::EMPTY, 0);
            with(instance);
        }
        self.passing_of.clear();
    }

    /// What is told of one behind which so many others pass of its instance. That is alive, as its last sample says.
    #[inline(always)]
    fn info_of_passing(&self, sample: &Passing<S>, behind: usize) -> Info {
        let instance = self.instances.get(sample.instance);
        let generation = sample.disposed_generation.saturating_add(sample.no_writers_generation);
        // Nobody has come to life behind the last that passes.
        let rank = instance.generation().saturating_sub(generation);
        Info {
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

    /// Nothing passes any more, and what has is put in.
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
            // It was counted when it came.
            self.store(Entry {
                data: sample.data,
                instance: sample.instance,
                writer: sample.writer,
                place: self.place,
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
