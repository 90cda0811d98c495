//! The reader cache of DCPS: instances and their samples, until an application has taken them.
//!
//! ```text
//!   put, dispose, unregister, lose    what comes from writers
//!   advance                           time goes on: LIFESPAN, TIME_BASED_FILTER, READER_DATA_LIFECYCLE
//!   read, take                        what the application gets, each sample with its whole SampleInfo
//!   pass                              what comes while an application takes all there is, and is in no chain
//! ```
//! A sample is whatever it is given as (`S`): a reference into its writer's memory, as a rule. The cache moves that and
//! does not look into it. The same calls with the same times always give the same answers.
//!
//! Owns: which samples are there, their order, and all states, counts and ranks. Never does: look at a clock, start a
//! thread, or copy a sample.

mod access;
mod agenda;
mod arrival;
mod instances;
mod passing;
mod room;
mod samples;
mod separation;
mod settings;

use access::Chosen;
use agenda::Agenda;
use instances::Instances;
use passing::Passing;
use samples::{Ends, Samples};

pub use access::{Scope, Selection, Shared, Taken};
pub use arrival::{Arrival, Change, Outcome, Reason, Rejection};
pub use instances::Key;
pub use room::{Coming, Shortage};
pub use settings::{NEVER, Settings};

use super::states::{InstanceState, SampleState, ViewState};
use crate::infrastructure::InstanceHandle;

/// What is known of a sample besides its data, as the standard computes it for one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// Whether it was read before.
    pub sample_state: SampleState,
    /// Whether anything of its instance was, since that was born.
    pub view_state: ViewState,
    /// Whether its instance lives, now.
    pub instance_state: InstanceState,
    /// How often its instance had been born again after it was disposed, when the sample came.
    pub disposed_generation_count: u32,
    /// How often its instance had been born again after it had lost its writers, when the sample came.
    pub no_writers_generation_count: u32,
    /// How many samples of the same instance follow in what the call gave.
    pub sample_rank: u32,
    /// How many generations lie between it and the last sample of its instance in what the call gave.
    pub generation_rank: u32,
    /// How many generations lie between it and the last sample of its instance that came.
    pub absolute_generation_rank: u32,
    /// When it was written, in nanoseconds.
    pub source_timestamp: u64,
    /// Its instance.
    pub instance: Key,
    /// Its writer.
    pub publication_handle: InstanceHandle,
    /// Whether it has data; otherwise it says that its instance is over.
    pub valid_data: bool,
}

impl Default for Info {
    fn default() -> Self {
        Info {
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
            publication_handle: InstanceHandle::LOWEST,
            valid_data: true,
        }
    }
}

/// See the [module](self). What always holds of it is I-140 to I-143.
pub struct Cache<S> {
    settings: Settings,
    samples: Samples<S>,
    instances: Instances<S>,
    agenda: Agenda,
    all: Ends,
    unread: Ends,
    /// Samples that RESOURCE_LIMITS count: notices are none, and one that waits for TIME_BASED_FILTER is one unless it
    /// will take the place of another.
    held: usize,
    /// The place of what comes among all that comes to a group of readers, as it was said last.
    place: u64,
    /// Calls that went over samples.
    looks: u64,
    /// What the call that is going on has found, and the ranks of it; kept for its memory.
    chosen: Vec<Chosen>,
    /// What comes passes, if it may.
    lets_pass: bool,
    /// What has passed, and is not given yet.
    passing: Vec<Passing<S>>,
    /// The instances of that, in the order in which they came first.
    passing_of: Vec<u32>,
}

impl<S> Cache<S> {
    /// An empty one.
    pub fn new(settings: Settings) -> Self {
        Cache {
            settings,
            samples: Samples::default(),
            instances: Instances::default(),
            agenda: Agenda::default(),
            all: Ends::EMPTY,
            unread: Ends::EMPTY,
            held: 0,
            place: 0,
            looks: 0,
            chosen: Vec::new(),
            lets_pass: false,
            passing: Vec::new(),
            passing_of: Vec::new(),
        }
    }

    /// What it does.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What comes from now on has this place among all that comes to a group of readers.
    pub fn set_place(&mut self, place: u64) {
        self.keep_passing();
        self.place = place;
    }

    /// How many samples it has, those among them that say no more than that an instance is over.
    pub fn len(&self) -> usize {
        self.samples.len() + self.passing.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many instances it knows.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// Whether it knows this instance.
    pub fn knows(&self, key: Key) -> bool {
        self.instances.find(key).is_some()
    }

    /// What was given as the key itself when the instance became known.
    pub fn key_value(&self, key: Key) -> Option<&[u8]> {
        self.instances.find(key).map(|at| &*self.instances.get(at).key_value)
    }

    /// When [`Cache::advance`] has something to do next.
    pub fn next_time(&self) -> Option<u64> {
        self.agenda.next_time()
    }
}
