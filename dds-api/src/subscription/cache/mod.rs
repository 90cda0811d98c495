//! The reader cache of DCPS: instances and their samples, until the application has taken them.
//!
//! ```text
//!   put, lose      arrivals from writers: samples, disposals, unregistrations; lost writers
//!   advance        passing of time: LIFESPAN, TIME_BASED_FILTER, READER_DATA_LIFECYCLE
//!   read, take     samples for the application, each with its complete SampleInfo
//!   pass           samples that arrive while the application takes everything; in no chain
//! ```
//! The cache is generic over its samples (`S`), usually references into their writers' memory. It
//! moves samples and does not look into them. The same calls with the same times always give the
//! same results.
//!
//! Owns: the set of samples, their order, and all states, counts and ranks. Never does: look at a
//! clock, start a thread, or copy a sample.

mod access;
mod arrival;
mod ending;
mod instances;
mod passing;
mod room;
mod samples;
mod separation;
mod settings;
mod timers;

use access::ChosenSample;
use instances::{InstanceTable, InstanceWriters};
use passing::PassingSample;
use samples::{ChainEnds, SampleTable};
use timers::CacheTimers;

pub use access::{InstanceScope, ReturnedSample, Selection, ShareSample};
pub use arrival::{Arrival, ArrivalOutcome, InstanceChange, LimitReached, Rejection};
pub use instances::{Key, KeyHasher};
pub use room::{ArrivalSummary, RoomShortage};
pub use settings::{CacheSettings, NEVER};

use super::states::{InstanceState, SampleState, ViewState};
use crate::infrastructure::InstanceHandle;

/// Information about a sample besides its data, as the standard defines it for one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CachedSampleInfo {
    /// Whether the sample was read before.
    pub sample_state: SampleState,
    /// Whether a sample of the instance was read before, since the instance was last born.
    pub view_state: ViewState,
    /// Whether the instance is alive at the time of the call.
    pub instance_state: InstanceState,
    /// Number of rebirths of the instance after a disposal, when the sample came.
    pub disposed_generation_count: u32,
    /// Number of rebirths of the instance after it had lost its writers, when the sample came.
    pub no_writers_generation_count: u32,
    /// Number of samples of the same instance that follow in the result of the call.
    pub sample_rank: u32,
    /// Number of generations between the sample and the last sample of its instance in the result
    /// of the call.
    pub generation_rank: u32,
    /// Number of generations between the sample and the last sample of its instance that came.
    pub absolute_generation_rank: u32,
    /// Time at which the sample was written, in nanoseconds.
    pub source_timestamp: u64,
    /// The instance of the sample.
    pub instance: Key,
    /// The writer of the sample.
    pub publication_handle: InstanceHandle,
    /// Whether the sample has data. If not, it is a notice that its instance is over.
    pub valid_data: bool,
}

impl Default for CachedSampleInfo {
    fn default() -> Self {
        CachedSampleInfo {
            sample_state: SampleState::NotRead,
            view_state: ViewState::New,
            instance_state: InstanceState::Alive,
            disposed_generation_count: 0,
            no_writers_generation_count: 0,
            sample_rank: 0,
            generation_rank: 0,
            absolute_generation_rank: 0,
            source_timestamp: 0,
            instance: 0,
            publication_handle: InstanceHandle::NIL,
            valid_data: true,
        }
    }
}

/// See the [module](self). Its invariants are I-140 to I-143.
pub struct SampleCache<S> {
    settings: CacheSettings,
    samples: SampleTable<S>,
    instances: InstanceTable<S>,
    timers: CacheTimers,
    all: ChainEnds,
    unread: ChainEnds,
    /// Number of samples that count for RESOURCE_LIMITS. Notices do not count. A sample that waits
    /// for TIME_BASED_FILTER counts unless it will take the place of another.
    held: usize,
    /// Position of arriving samples among all samples of a group of readers, as it was last set.
    position: u64,
    /// Number of samples that TIME_BASED_FILTER has let pass after they had waited.
    released: u64,
    /// Number of calls that went over samples.
    looks: u64,
    /// Samples that the current call has found, with their ranks. The memory is reused
    /// between calls.
    chosen: Vec<ChosenSample>,
    /// Whether arriving samples may pass.
    lets_pass: bool,
    /// Samples that have passed and are not given yet.
    passing: Vec<PassingSample<S>>,
    /// The instances of the samples in `passing`, in the order of their first samples.
    passing_of: Vec<u32>,
}

impl<S> SampleCache<S> {
    /// Makes an empty cache.
    pub fn new(settings: CacheSettings) -> Self {
        SampleCache {
            settings,
            samples: SampleTable::default(),
            instances: InstanceTable::default(),
            timers: CacheTimers::default(),
            all: ChainEnds::EMPTY,
            unread: ChainEnds::EMPTY,
            held: 0,
            position: 0,
            released: 0,
            looks: 0,
            chosen: Vec::new(),
            lets_pass: false,
            passing: Vec::new(),
            passing_of: Vec::new(),
        }
    }

    /// Begins with an instance of which samples of these writers were read before.
    pub fn continue_instance(
        &mut self,
        key: Key,
        key_value: Box<[u8]>,
        mut writers: impl Iterator<Item = InstanceHandle>,
    ) {
        let Some(first) = writers.next() else { return };
        let at = self.instances.add(key, key_value, InstanceWriters::one(first, 0));
        let instance = self.instances.get_mut(at);
        writers.for_each(|writer| instance.writers.register(writer, 0));
        instance.view = ViewState::NotNew;
    }

    /// The settings of the cache.
    pub fn settings(&self) -> &CacheSettings {
        &self.settings
    }

    /// Sets the position of arriving samples among all samples of a group of readers, from now on.
    pub fn set_position(&mut self, position: u64) {
        self.keep_passing();
        self.position = position;
    }

    /// Number of samples, including notices that an instance is over.
    pub fn len(&self) -> usize {
        self.samples.len() + self.passing.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of known instances.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// Whether this instance is known.
    pub fn knows(&self, key: Key) -> bool {
        self.instances.find(key).is_some()
    }

    /// The value of the key, as it was given when the instance became known.
    pub fn key_value(&self, key: Key) -> Option<&[u8]> {
        self.instances.find(key).map(|at| &*self.instances.get(at).key_value)
    }

    /// Number of samples that TIME_BASED_FILTER has let pass after they had waited.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Time at which [`SampleCache::advance`] next has something to do.
    pub fn next_time(&self) -> Option<u64> {
        self.timers.next_time()
    }
}
