//! Real-time settings of a participant: cores, scheduling classes, locked memory, polling.
//!
//! Owns: the settings of the configuration and of a profile's properties, and which of them
//! applies. Never does: request them from the system; the engine, the logs and the link do, each
//! for its own part.

use std::time::Duration;

use derecho_node::{Cores, Pace, SchedulingClass, ThreadSettings};
use qos_profiles::xml::ResolvedEntity;

use super::ParticipantConfig;
use crate::infrastructure::{DdsError, DdsResult};

/// Time that a polling thread spins before it would sleep: longer than any machine runs.
const SPIN_FOREVER: Duration = Duration::from_secs(1 << 32);

/// Settings of the configuration; none: the profile's setting applies, if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct RealTimeConfig {
    engine: ThreadConfig,
    log: ThreadConfig,
    lock_memory: Option<bool>,
    huge_pages: Option<bool>,
    polls: Option<bool>,
}

#[derive(Clone, Debug, Default)]
struct ThreadConfig {
    cores: Option<Vec<usize>>,
    class: Option<SchedulingClass>,
}

/// Settings that apply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RealTimeSettings {
    pub(crate) engine: ThreadSettings,
    pub(crate) log: ThreadSettings,
    pub(crate) lock_memory: bool,
    pub(crate) huge_pages: bool,
    polls: bool,
}

/// Real-time settings. If the system does not grant a setting, the creation of the participant
/// fails with an error that says what is missing. A profile of participants may give the same
/// settings as properties; the settings here take precedence.
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
    /// Restricts the thread that drives the participant to these cores. Without this setting it
    /// runs on the cores of the thread that creates it.
    pub fn engine_cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.real_time.engine.cores = Some(cores.into_iter().collect());
        self
    }

    /// Sets how the thread that drives the participant is scheduled. Without this setting it is
    /// scheduled like the thread that creates it.
    pub fn engine_scheduling(mut self, class: SchedulingClass) -> Self {
        self.real_time.engine.class = Some(class);
        self
    }

    /// Restricts the thread that writes logs to these cores.
    pub fn log_cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.real_time.log.cores = Some(cores.into_iter().collect());
        self
    }

    /// Sets how the thread that writes logs is scheduled.
    pub fn log_scheduling(mut self, class: SchedulingClass) -> Self {
        self.real_time.log.class = Some(class);
        self
    }

    /// Locks all shared memory of this participant, and maps it in when it is allocated; memory of
    /// other participants is mapped in when they show it. No access to samples then waits for a
    /// page. This needs RLIMIT_MEMLOCK or CAP_IPC_LOCK: if that is too little, the creation of the
    /// participant, or later of a writer, fails. An application that wants the rest of its memory
    /// locked calls `mlockall`.
    pub fn lock_memory(mut self, locks: bool) -> Self {
        self.real_time.lock_memory = Some(locks);
        self
    }

    /// Puts the shared memory of this participant into huge pages as far as the kernel finds some,
    /// and into normal pages otherwise. A kernel that gives no huge pages to shared memory at all
    /// is an error, which says how to change that.
    pub fn huge_pages(mut self, wants: bool) -> Self {
        self.real_time.huge_pages = Some(wants);
        self
    }

    /// Makes the thread that drives the participant, its own or one that waits in a call, poll for
    /// events and never sleep. The thread needs a core for itself. [`spin`](Self::spin) and
    /// [`linger`](Self::linger) then have no effect.
    pub fn polling(mut self, polls: bool) -> Self {
        self.real_time.polls = Some(polls);
        self
    }
}

impl RealTimeConfig {
    /// Resolves the settings: those of the configuration, or else those of a profile.
    pub(super) fn with(self, said: Option<&ResolvedEntity>) -> DdsResult<RealTimeSettings> {
        let property = |name: &str| said.and_then(|said| said.property(name));
        let truth = |own: Option<bool>, name: &str| own.unwrap_or(property(name) == Some("true"));
        let resolved = RealTimeSettings {
            engine: self
                .engine
                .with(["squall.engine.cores", "squall.engine.scheduling"], property)?,
            log: self.log.with(["squall.log.cores", "squall.log.scheduling"], property)?,
            lock_memory: truth(self.lock_memory, "squall.memory.locked"),
            huge_pages: truth(self.huge_pages, "squall.memory.huge_pages"),
            polls: self.polls.unwrap_or(property("squall.waiting") == Some("polling")),
        };
        for (whose, thread) in [("engine", resolved.engine), ("log", resolved.log)] {
            thread.try_out().map_err(|error| {
                DdsError::OutOfResources(format!(
                    "the settings of the {whose} thread cannot be applied: {error}"
                ))
            })?;
        }
        Ok(resolved)
    }
}

impl ThreadConfig {
    fn with<'a>(
        self,
        [cores, scheduling]: [&str; 2],
        property: impl Fn(&str) -> Option<&'a str>,
    ) -> DdsResult<ThreadSettings> {
        let wrong = |name: &str, value: &str| {
            DdsError::BadParameter(format!(
                "`{value}` is not a valid value of the property `{name}`"
            ))
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

/// Parses a scheduling class as a property names it.
fn class(text: &str) -> Option<SchedulingClass> {
    match text.split_once(':') {
        None if text == "other" => Some(SchedulingClass::Other),
        Some(("fifo", priority)) => priority.parse().ok().map(SchedulingClass::Fifo),
        Some(("rr", priority)) => priority.parse().ok().map(SchedulingClass::RoundRobin),
        _ => None,
    }
}

impl RealTimeSettings {
    /// Pace at which the driving thread waits.
    pub(super) fn pace(&self, pace: Pace) -> Pace {
        if self.polls { Pace { spin: SPIN_FOREVER, ..pace } } else { pace }
    }
}
