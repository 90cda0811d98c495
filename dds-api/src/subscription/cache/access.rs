//! Access of reading calls to a cache.
//!
//! Owns: the choice of samples, their order, and the information about each. Never does: change the
//! contents, except that given samples are marked as read or removed.

use super::instances::Key;
use super::samples::{CacheEntry, Chain, NIL, SourceOrder};
use super::{CachedSampleInfo, SampleCache, SampleState, ViewState};
use crate::subscription::states::{SampleStateMask, States};

/// The instances whose samples are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InstanceScope {
    /// All instances.
    #[default]
    All,
    /// One instance.
    Instance(Key),
    /// The first instance after this key, or the first of all, that has a wanted sample.
    NextAfter(Option<Key>),
}

/// The samples that are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selection {
    /// States of the samples.
    pub states: States,
    /// Instances of the samples.
    pub scope: InstanceScope,
    /// Whether samples without data are left out.
    pub data_alone: bool,
    /// Maximum number of samples.
    pub max: usize,
}

impl Default for Selection {
    fn default() -> Self {
        let (states, scope) = (States::any(), InstanceScope::All);
        Selection { states, scope, data_alone: false, max: usize::MAX }
    }
}

/// Samples that can be read and remain: two references to the sample then exist.
pub trait ShareSample {
    /// Makes another reference to the same sample.
    fn share(&self) -> Self;
}

impl<S: Copy> ShareSample for S {
    fn share(&self) -> Self {
        *self
    }
}

/// A sample in the result of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReturnedSample<S> {
    /// The sample; without valid data, the data that hold the key.
    pub data: Option<S>,
    /// Information about the sample.
    pub info: CachedSampleInfo,
}

/// Further condition on a sample; it gets `None` for a sample without data.
type SamplePredicate<'a, S> = &'a mut dyn FnMut(Option<&S>) -> bool;

/// A sample that a call has chosen, and the information about it that holds only for this call.
pub(super) struct ChosenSample {
    sample: u32,
    ranks: [u32; 3],
    view: ViewState,
}

impl<S> SampleCache<S> {
    /// Gives samples and keeps them, marked as read.
    pub fn read(
        &mut self,
        now: u64,
        selection: &Selection,
        condition: impl FnMut(Option<&S>) -> bool,
        out: &mut Vec<ReturnedSample<S>>,
    ) where
        S: ShareSample,
    {
        self.choose(now, selection, condition);
        self.read_chosen(|data, info| out.push(ReturnedSample { data, info: *info }));
    }

    /// Gives samples and removes them.
    pub fn take(
        &mut self,
        now: u64,
        selection: &Selection,
        condition: impl FnMut(Option<&S>) -> bool,
        out: &mut Vec<ReturnedSample<S>>,
    ) {
        self.choose(now, selection, condition);
        self.take_chosen(|data, info| out.push(ReturnedSample { data, info: *info }));
    }

    /// Chooses the samples that a call gives, and returns their number. Their information is as of
    /// this time.
    pub fn choose(
        &mut self,
        now: u64,
        selection: &Selection,
        mut condition: impl FnMut(Option<&S>) -> bool,
    ) -> usize {
        self.advance(now);
        self.look(selection, &mut condition);
        self.rank();
        self.chosen.len()
    }

    /// Gives the chosen samples and keeps them.
    pub fn read_chosen(&mut self, mut give: impl FnMut(Option<S>, &CachedSampleInfo))
    where
        S: ShareSample,
    {
        let chosen = std::mem::take(&mut self.chosen);
        for chosen in &chosen {
            let was_read = std::mem::replace(&mut self.samples.get_mut(chosen.sample).read, true);
            let entry = self.samples.get(chosen.sample);
            let (order, valid, at) = (entry.order(), entry.valid, entry.instance);
            let info = self.info(entry, was_read, chosen);
            give(entry.data.as_ref().map(S::share), &info);
            if !was_read {
                self.samples.unlink(Chain::Unread, &mut self.unread, chosen.sample);
            }
            self.accessed(at, order, valid);
        }
        self.chosen = chosen;
    }

    /// Gives the chosen samples and removes them.
    pub fn take_chosen(&mut self, mut give: impl FnMut(Option<S>, &CachedSampleInfo)) {
        let chosen = std::mem::take(&mut self.chosen);
        for chosen in &chosen {
            let mut entry = self.forget(chosen.sample);
            let info = self.info(&entry, entry.read, chosen);
            give(entry.data.take(), &info);
            self.accessed(entry.instance, entry.order(), entry.valid);
            self.instances.tidy(entry.instance);
        }
        self.chosen = chosen;
    }

    /// Positions and write times of the samples that a call would give, in the order in which it
    /// would give them.
    pub fn positions(&mut self, now: u64, selection: &Selection) -> Vec<(u64, u64)> {
        self.advance(now);
        self.look(selection, &mut |_| true);
        let entries = self.chosen.iter().map(|chosen| self.samples.get(chosen.sample));
        entries.map(|entry| (entry.position, entry.time)).collect()
    }

    /// Whether there is a sample that [`SampleCache::read`] would give.
    pub fn has(
        &mut self,
        now: u64,
        selection: &Selection,
        mut condition: impl FnMut(Option<&S>) -> bool,
    ) -> bool {
        self.advance(now);
        self.look(&Selection { max: selection.max.min(1), ..*selection }, &mut condition);
        !self.chosen.is_empty()
    }

    #[inline]
    fn accessed(&mut self, at: u32, order: SourceOrder, valid: bool) {
        let instance = self.instances.get_mut(at);
        instance.view = ViewState::NotNew;
        if valid {
            instance.accessed = instance.accessed.max(order);
        }
    }

    /// Information about a sample.
    #[inline]
    fn info(
        &self,
        entry: &CacheEntry<S>,
        was_read: bool,
        chosen: &ChosenSample,
    ) -> CachedSampleInfo {
        let instance = self.instances.get(entry.instance);
        let [sample_rank, generation_rank, absolute_generation_rank] = chosen.ranks;
        CachedSampleInfo {
            sample_state: if was_read { SampleState::Read } else { SampleState::NotRead },
            view_state: chosen.view,
            instance_state: instance.state,
            instance: instance.key,
            sample_rank,
            generation_rank,
            absolute_generation_rank,
            ..entry.info()
        }
    }

    /// Finds the wanted samples.
    fn look(&mut self, selection: &Selection, condition: SamplePredicate<'_, S>) {
        let condition = &mut |sample: Option<&S>| {
            (sample.is_some() || !selection.data_alone) && condition(sample)
        };
        self.keep_passing();
        self.chosen.clear();
        self.looks += 1;
        match selection.scope {
            InstanceScope::All if self.settings.across_instances => {
                let (chain, mut at) = self.start(selection);
                while at != NIL && self.chosen.len() < selection.max {
                    let instance = self.samples.get(at).instance;
                    if self.wants_instance(instance, selection) {
                        self.consider(at, selection, condition);
                    }
                    at = self.samples.after(chain, at);
                }
            }
            InstanceScope::All => {
                let (chain, mut at) = self.start(selection);
                while at != NIL && self.chosen.len() < selection.max {
                    let instance = self.samples.get(at).instance;
                    if self.instances.get(instance).look != self.looks {
                        self.instances.get_mut(instance).look = self.looks;
                        self.choose_of(instance, selection, condition);
                    }
                    at = self.samples.after(chain, at);
                }
            }
            InstanceScope::Instance(key) => {
                if let Some(instance) = self.instances.find(key) {
                    self.choose_of(instance, selection, condition);
                }
            }
            InstanceScope::NextAfter(mut key) => {
                while self.chosen.is_empty()
                    && let Some((next, instance)) = self.instances.next(key)
                {
                    self.choose_of(instance, selection, condition);
                    key = Some(next);
                }
            }
        }
    }

    /// The chain to follow, and its first slot. If only unread samples are wanted, the chain skips
    /// all others.
    fn start(&self, selection: &Selection) -> (Chain, u32) {
        match selection.states.sample == SampleStateMask::NOT_READ {
            true => (Chain::Unread, self.unread.first),
            false => (Chain::All, self.all.first),
        }
    }

    fn wants_instance(&self, at: u32, selection: &Selection) -> bool {
        let instance = self.instances.get(at);
        selection.states.view.has(instance.view) && selection.states.instance.has(instance.state)
    }

    /// Chooses samples of one instance.
    fn choose_of(&mut self, at: u32, selection: &Selection, condition: SamplePredicate<'_, S>) {
        if !self.wants_instance(at, selection) {
            return;
        }
        let mut sample = self.instances.get(at).samples.first;
        while sample != NIL && self.chosen.len() < selection.max {
            self.consider(sample, selection, condition);
            sample = self.samples.after(Chain::Instance, sample);
        }
    }

    #[inline]
    fn consider(&mut self, at: u32, selection: &Selection, condition: SamplePredicate<'_, S>) {
        let entry = self.samples.get(at);
        let state = if entry.read { SampleState::Read } else { SampleState::NotRead };
        let data = entry.data.as_ref().filter(|_| entry.valid);
        if selection.states.sample.has(state) && condition(data) {
            self.chosen.push(ChosenSample { sample: at, ranks: [0; 3], view: ViewState::New });
        }
    }

    /// Computes the ranks of the chosen samples, from the last to the first.
    fn rank(&mut self) {
        // Counts as another look, because the marks of instances are set again.
        self.looks += 1;
        for chosen in self.chosen.iter_mut().rev() {
            let entry = self.samples.get(chosen.sample);
            let instance = self.instances.get_mut(entry.instance);
            if instance.look != self.looks {
                instance.look = self.looks;
                instance.following = 0;
                instance.last_generation = entry.generation();
            }
            chosen.view = instance.view;
            chosen.ranks = [
                instance.following,
                instance.last_generation.saturating_sub(entry.generation()),
                instance.generation().saturating_sub(entry.generation()),
            ];
            instance.following += 1;
        }
    }
}
