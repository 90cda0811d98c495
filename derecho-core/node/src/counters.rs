//! Counters of an engine's work: always updated, read by tools and tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// Live counters of one engine.
#[derive(Debug, Default)]
pub struct EngineCounters {
    pub(crate) turns: Count,
    pub(crate) busy_turns: Count,
    pub(crate) parks: Count,
    pub(crate) handed_over: Count,
    pub(crate) taken_over: Count,
    /// Written by the driver thread alone.
    pub(crate) ticks: Count,
}

/// Counter written under the engine's lock and read by any thread.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Increments the counter. Only the thread that holds the engine's lock writes, so a plain load
    /// and store suffice, and the hot path needs no locked instruction.
    pub(crate) fn up(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl EngineCounters {
    /// Number of turns.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// Number of turns that found something to do.
    pub fn busy_turns(&self) -> u64 {
        self.busy_turns.get()
    }

    /// Number of times that the driving thread went to sleep.
    pub fn parks(&self) -> u64 {
        self.parks.get()
    }

    /// Number of times that the driver thread left the driving to application threads.
    pub fn handed_over(&self) -> u64 {
        self.handed_over.get()
    }

    /// Number of times that the driver thread checked whether application threads still drive.
    pub fn ticks(&self) -> u64 {
        self.ticks.get()
    }

    /// Number of times that the driver thread took the driving back.
    pub fn taken_over(&self) -> u64 {
        self.taken_over.get()
    }
}
