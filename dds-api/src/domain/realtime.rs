//! What a participant asks of the system for the sake of time: cores, scheduling classes, memory that is there, waiting awake.
//!
//! Owns: what the configuration and a profile's properties say of that, and which of both counts. Never does: ask the system; the
//! engine, the logs and the link do, each for what is its own.

use std::time::Duration;

use derecho_node::{Cores, Pace, SchedulingClass, ThreadSettings};
use qos_profiles::xml::ResolvedEntity;

use super::ParticipantConfig;
use crate::infrastructure::{DdsError, DdsResult};

/// So long somebody who polls looks before he would sleep: longer than any machine runs.
const FOR_GOOD: Duration = Duration::from_secs(1 << 32);

/// What is said; none: what a profile says, or nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct RealTime {
    engine: Thread,
    log: Thread,
    lock_memory: Option<bool>,
    huge_pages: Option<bool>,
    polls: Option<bool>,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    cores: Option<Vec<usize>>,
    class: Option<SchedulingClass>,
}

/// What counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) engine: ThreadSettings,
    pub(crate) log: ThreadSettings,
    pub(crate) lock_memory: bool,
    pub(crate) huge_pages: bool,
    polls: bool,
}

/// Real-time settings. What the system does not grant is an error when the participant is made, which says what is missing. A profile of
/// participants may say the same by properties; what is said here comes first.
///
/// | property | value |
/// | --- | --- |
/// | `squall.engine.cores`, `squall.log.cores` | `2` or `2,3` |
/// | `squall.engine.scheduling`, `squall.log.scheduling` | `other`, `fifo:20`, `rr:20` |
/// | `squall.memory.locked`, `squall.memory.huge_pages` | `true`, `false` |
/// | `squall.waiting` | `sleeping`, `polling` |
///
/// ```no_run
/// # use dds_api::prelude::*;
/// use dds_api::domain::SchedulingClass;
/// # fn main() -> DdsResult<()> {
/// let config = ParticipantConfig::new()
///     .engine_cores([2])
///     .engine_scheduling(SchedulingClass::Fifo(20))
///     .lock_memory(true);
/// let participant = DomainParticipant::with_config(0, config)?;
/// # Ok(())
/// # }
/// ```
impl ParticipantConfig {
    /// The thread that drives the participant runs on these cores alone. Without this, on those of the thread that makes it.
    pub fn engine_cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.real_time.engine.cores = Some(cores.into_iter().collect());
        self
    }

    /// How the thread that drives the participant is scheduled. Without this, as the thread that makes it.
    pub fn engine_scheduling(mut self, class: SchedulingClass) -> Self {
        self.real_time.engine.class = Some(class);
        self
    }

    /// The thread that writes logs runs on these cores alone.
    pub fn log_cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.real_time.log.cores = Some(cores.into_iter().collect());
        self
    }

    /// How the thread that writes logs is scheduled.
    pub fn log_scheduling(mut self, class: SchedulingClass) -> Self {
        self.real_time.log.class = Some(class);
        self
    }

    /// All shared memory of this participant is locked, and mapped in when it is taken; what others show is mapped in when they
    /// show it. So no access to samples waits for a page. It takes RLIMIT_MEMLOCK or CAP_IPC_LOCK: where that is too little the
    /// participant, or later a writer, is not made. An application that wants the rest of its memory locked calls `mlockall`.
    pub fn lock_memory(mut self, locks: bool) -> Self {
        self.real_time.lock_memory = Some(locks);
        self
    }

    /// The shared memory of this participant lies in huge pages as far as the kernel finds some, in usual ones otherwise. A kernel
    /// that gives none to shared memory at all is an error, which says how that is changed.
    pub fn huge_pages(mut self, wants: bool) -> Self {
        self.real_time.huge_pages = Some(wants);
        self
    }

    /// Whoever drives the participant, its own thread or one that waits in a call, never sleeps: it looks for news again and again,
    /// and has a core for itself. [`spin`](Self::spin) and [`linger`](Self::linger) have no effect then.
    pub fn polling(mut self, polls: bool) -> Self {
        self.real_time.polls = Some(polls);
        self
    }
}

impl RealTime {
    /// What counts: this, or what a profile says.
    pub(super) fn with(self, said: Option<&ResolvedEntity>) -> DdsResult<Wishes> {
        let property = |name: &str| said.and_then(|said| said.property(name));
        let truth = |own: Option<bool>, name: &str| own.unwrap_or(property(name) == Some("true"));
        let wishes = Wishes {
            engine: self
                .engine
                .with(["squall.engine.cores", "squall.engine.scheduling"], property)?,
            log: self.log.with(["squall.log.cores", "squall.log.scheduling"], property)?,
            lock_memory: truth(self.lock_memory, "squall.memory.locked"),
            huge_pages: truth(self.huge_pages, "squall.memory.huge_pages"),
            polls: self.polls.unwrap_or(property("squall.waiting") == Some("polling")),
        };
        for (whose, thread) in [("engine", wishes.engine), ("log", wishes.log)] {
            thread.try_out().map_err(|error| {
                DdsError::OutOfResources(format!("the settings of the {whose} thread: {error}"))
            })?;
        }
        Ok(wishes)
    }
}

impl Thread {
    fn with<'a>(
        self,
        [cores, scheduling]: [&str; 2],
        property: impl Fn(&str) -> Option<&'a str>,
    ) -> DdsResult<ThreadSettings> {
        let wrong = |name: &str, value: &str| {
            DdsError::BadParameter(format!("`{value}` is no value of the property `{name}`"))
        };
        let numbers = |text: &str| -> Option<Vec<usize>> {
            text.split(',').map(|it| it.trim().parse().ok()).collect()
        };
        let cores = match (self.cores, property(cores)) {
            (Some(own), _) => own,
            (None, Some(text)) => numbers(text).ok_or_else(|| wrong(cores, text))?,
            (None, None) => Vec::new(),
        };
        let class = match (self.class, property(scheduling)) {
            (Some(own), _) => Some(own),
            (None, Some(text)) => Some(class(text).ok_or_else(|| wrong(scheduling, text))?),
            (None, None) => None,
        };
        let cores = Cores::new(cores).map_err(|error| DdsError::BadParameter(error.to_string()))?;
        Ok(ThreadSettings { cores, class })
    }
}

/// A scheduling class as a property names it.
fn class(text: &str) -> Option<SchedulingClass> {
    match text.split_once(':') {
        None if text == "other" => Some(SchedulingClass::Other),
        Some(("fifo", priority)) => priority.parse().ok().map(SchedulingClass::Fifo),
        Some(("rr", priority)) => priority.parse().ok().map(SchedulingClass::RoundRobin),
        _ => None,
    }
}

impl Wishes {
    /// How whoever drives waits.
    pub(super) fn pace(&self, pace: Pace) -> Pace {
        if self.polls { Pace { spin: FOR_GOOD, ..pace } } else { pace }
    }
}
