//! The cache filler thread: moves samples into the caches of readers from which no thread reads, so
//! that readers that keep the last samples do not hold up writers (I-144).
//!
//! ```text
//!   resting ──a turn did something──> checking, first after 1 ms ──nothing for a while──> resting
//!                                      | pause between two checks: a quarter of the last one
//!                                      | if a writer was held up, else twice the last one
//! ```
//! The thread starts when the first reader needs it. At rest the thread costs nothing; only then do
//! turns notify it. While samples arrive, it checks a hundred times a second, and more often only
//! while no other thread takes the samples.
//!
//! Owns: when it checks, and which readers. Never does: keep a participant alive that its
//! application has dropped, or drive the engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use derecho_node::TurnListener;

use super::assembly::DomainEngine;
use super::thread_waker::ThreadWaker;

/// First pause. An application that takes samples itself does so sooner.
const FIRST: Duration = Duration::from_millis(1);
/// Shortest pause.
const SHORTEST: Duration = Duration::from_micros(20);
/// Longest pause while samples arrive.
const LONGEST: Duration = Duration::from_millis(10);
/// Number of checks in a row that find nothing before the thread rests.
const CHECKS_BEFORE_REST: u32 = 10;

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum FillResult {
    /// Nothing.
    Nothing,
    /// Some samples.
    Little,
    /// Samples, so many that a writer was held up or nearly so.
    Much,
}

/// A reader that takes samples into its cache without a call of the application.
pub(crate) trait FillCache: Send + Sync {
    /// Takes queued samples into the cache, unless another thread is doing so.
    fn fill_cache(&self) -> FillResult;
}

/// Entry of a reader in the cache filler's list.
pub(crate) struct FillerEntry(Mutex<Option<Arc<dyn FillCache>>>);

impl FillerEntry {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<dyn FillCache>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill_cache(&self) -> FillResult {
        // Under the lock, so that nothing of the reader is used once the reader has left.
        self.lock().as_ref().map_or(FillResult::Nothing, |reader| reader.fill_cache())
    }

    /// Removes the reader from the checks; waits for a check in progress.
    pub(crate) fn leave(&self) {
        // The caller drops the reader and all that it refers to, not under the lock.
        let reader = self.lock().take();
        drop(reader);
    }
}

#[derive(Default)]
struct FillerState {
    entries: Mutex<Vec<Arc<FillerEntry>>>,
    over: AtomicBool,
}

impl FillerState {
    /// Checks all readers and returns the largest result.
    fn look(&self) -> FillResult {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.lock().is_some());
        let all = entries.clone();
        drop(entries);
        all.iter().map(|entry| entry.fill_cache()).max().unwrap_or(FillResult::Nothing)
    }

    /// Checks until the cache filler ends.
    fn run(&self, engine: &DomainEngine) {
        while !self.over.load(Ordering::Acquire) {
            self.rest(engine);
            let (mut pause, mut nothing) = (FIRST, 0);
            while nothing < CHECKS_BEFORE_REST && !self.over.load(Ordering::Acquire) {
                std::thread::park_timeout(pause);
                let found = self.look();
                pause = match found {
                    FillResult::Much => (pause / 4).max(SHORTEST),
                    FillResult::Little | FillResult::Nothing => (pause * 2).min(LONGEST),
                };
                nothing = if found == FillResult::Nothing { nothing + 1 } else { 0 };
            }
        }
    }

    /// Sleeps until a turn did something.
    fn rest(&self, engine: &DomainEngine) {
        let waker = Arc::new(ThreadWaker::new(false));
        // The listener lives as long as this call; afterwards turns have nobody to notify.
        let listener: Arc<dyn TurnListener> = Arc::clone(&waker) as _;
        engine.add_listener(&listener);
        // Takes in what arrived before the listener was registered.
        if self.look() > FillResult::Nothing {
            return;
        }
        while !waker.is_woken() && !self.over.load(Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct CacheFiller {
    shared: Arc<FillerState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl CacheFiller {
    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to check this reader.
    pub(crate) fn add(
        &self,
        engine: &DomainEngine,
        reader: Arc<dyn FillCache>,
    ) -> Arc<FillerEntry> {
        let entry = Arc::new(FillerEntry(Mutex::new(Some(reader))));
        let mut entries = self.shared.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Arc::clone(&entry));
        drop(entries);
        let mut thread = self.thread();
        if thread.is_none() {
            let (shared, engine) = (Arc::clone(&self.shared), engine.clone());
            let fill = move || shared.run(&engine);
            let made = std::thread::Builder::new().name("squall-cache".into()).spawn(fill);
            *thread = made
                .map_err(|error| {
                    tracing::error!(%error, "the thread that fills idle caches cannot start");
                })
                .ok();
        }
        entry
    }

    /// Ends the thread and waits for its end.
    pub(super) fn end(&self) {
        self.shared.over.store(true, Ordering::Release);
        let Some(thread) = self.thread().take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread that fills idle caches panicked");
        }
    }
}
