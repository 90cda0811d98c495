//! The thread that brings samples into the caches of readers at which nobody looks, so that those that keep the last ones
//! hold no writer up (I-144).
//!
//! ```text
//!   resting ──a turn did something──> looking, first after 1 ms ──nothing for a while──> resting
//!                                      | the pause between two looks: a quarter if a writer was held up, else twice it
//! ```
//! There is none until a reader wants it. At rest it costs nothing: then alone turns tell it. While samples come it looks a
//! hundred times a second, and more often only as long as nobody else takes them.
//!
//! Owns: when it looks, and at which readers. Never does: hold a participant that its application has dropped, or drive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use derecho_node::Hearer;

use super::assembly::DomainEngine;
use super::bell::Bell;

/// The first pause: an application that looks by itself does so sooner.
const FIRST: Duration = Duration::from_millis(1);
/// The shortest pause.
const SHORTEST: Duration = Duration::from_micros(20);
/// The longest pause while something comes.
const LONGEST: Duration = Duration::from_millis(10);
/// So many looks in a row that find nothing are the last ones.
const LOOKS_BEFORE_REST: u32 = 10;

/// What a look has found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// Something.
    Little,
    /// So much that a writer was held up, or nearly.
    Much,
}

/// A reader that keeps what comes without being asked.
pub(crate) trait Collect: Send + Sync {
    /// Takes in what is queued, unless somebody else does.
    fn collect(&self) -> Found;
}

/// A reader's place in the list.
pub(crate) struct Charge(Mutex<Option<Arc<dyn Collect>>>);

impl Charge {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<dyn Collect>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collect(&self) -> Found {
        // Under the lock, so that nothing of the reader is used once it has left.
        self.lock().as_ref().map_or(Found::Nothing, |reader| reader.collect())
    }

    /// The reader is looked at no more; waits for a look that is going on.
    pub(crate) fn leave(&self) {
        // What it refers to goes with whoever calls this, not under the lock.
        let reader = self.lock().take();
        drop(reader);
    }
}

#[derive(Default)]
struct Shared {
    charges: Mutex<Vec<Arc<Charge>>>,
    over: AtomicBool,
}

impl Shared {
    /// Looks at all readers; says the most that was found.
    fn look(&self) -> Found {
        let mut charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        charges.retain(|charge| charge.lock().is_some());
        let all = charges.clone();
        drop(charges);
        all.iter().map(|charge| charge.collect()).max().unwrap_or(Found::Nothing)
    }

    /// Looks until the end.
    fn run(&self, engine: &DomainEngine) {
        while !self.over.load(Ordering::Acquire) {
            self.rest(engine);
            let (mut pause, mut nothing) = (FIRST, 0);
            while nothing < LOOKS_BEFORE_REST && !self.over.load(Ordering::Acquire) {
                std::thread::park_timeout(pause);
                let found = self.look();
                pause = match found {
                    Found::Much => (pause / 4).max(SHORTEST),
                    Found::Little | Found::Nothing => (pause * 2).min(LONGEST),
                };
                nothing = if found == Found::Nothing { nothing + 1 } else { 0 };
            }
        }
    }

    /// Sleeps until a turn did something.
    fn rest(&self, engine: &DomainEngine) {
        let bell = Arc::new(Bell::new(false));
        // As long as this lasts; afterwards turns have nobody to tell.
        let hearer: Arc<dyn Hearer> = Arc::clone(&bell) as _;
        engine.tell(&hearer);
        // What came before it was told.
        if self.look() > Found::Nothing {
            return;
        }
        while !bell.is_rung() && !self.over.load(Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Collector {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Collector {
    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at this reader from now on.
    pub(crate) fn add(&self, engine: &DomainEngine, reader: Arc<dyn Collect>) -> Arc<Charge> {
        let charge = Arc::new(Charge(Mutex::new(Some(reader))));
        let mut charges = self.shared.charges.lock().unwrap_or_else(PoisonError::into_inner);
        charges.push(Arc::clone(&charge));
        drop(charges);
        let mut thread = self.thread();
        if thread.is_none() {
            let (shared, engine) = (Arc::clone(&self.shared), engine.clone());
            let collect = move || shared.run(&engine);
            let made = std::thread::Builder::new().name("squall-collector".into()).spawn(collect);
            *thread = made
                .map_err(|error| {
                    tracing::error!(%error, "no thread that fills caches at which nobody looks");
                })
                .ok();
        }
        charge
    }

    /// Has the thread end, and waits for that.
    pub(super) fn end(&self) {
        self.shared.over.store(true, Ordering::Release);
        let Some(thread) = self.thread().take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread that fills caches panicked");
        }
    }
}
