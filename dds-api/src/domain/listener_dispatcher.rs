//! The listener dispatcher: the entities of a participant whose listeners may be called, and the
//! thread that calls them.
//!
//! ```text
//!   resting ──a turn did something, or a check is due──> entities report changes ──> resting
//! ```
//! The thread starts when the first listener is set. It drives nothing: a listener may take any
//! time, and delays only other listeners of its participant.
//!
//! Owns: when entities are checked. Never does: keep an entity alive that its application
//! has dropped, or call a listener for an entity that is not enabled. Until then the entity has
//! neither its handle nor its policies, and most calls on it fail.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use derecho_core::ids::Time;
use derecho_node::{TurnListener, clock};

use super::assembly::DomainEngine;
use super::entity::Entity;
use super::thread_waker::ThreadWaker;

/// Pause after a check that found nothing. While samples arrive that no listener wants, every turn
/// wakes the thread.
const PAUSE: Duration = Duration::from_micros(100);

/// An entity that may have changes to report to its listeners.
pub(crate) trait ListenedEntity: Entity {
    /// Calls listeners for changes. Returns whether there were any.
    fn notify_listeners(self: Arc<Self>) -> bool;
    /// Time at which something changes without an event.
    fn next_check(&self) -> Option<Time>;
    /// Priority of the entity: its listeners are called before those of entities with
    /// smaller values.
    fn priority(&self) -> i32 {
        0
    }
}

#[derive(Default)]
struct DispatcherState {
    entities: Mutex<Vec<Weak<dyn ListenedEntity>>>,
    /// Number of times that an entity was added or its priority changed. The code that changes a
    /// priority increments this.
    reordered: Arc<AtomicU64>,
    /// Waker of the thread, once the thread exists.
    waker: OnceLock<Arc<ThreadWaker>>,
    over: AtomicBool,
}

impl DispatcherState {
    fn entities(&self) -> MutexGuard<'_, Vec<Weak<dyn ListenedEntity>>> {
        self.entities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn run(&self, engine: &DomainEngine) {
        let waker = Arc::new(ThreadWaker::new(true));
        let waker = self.waker.get_or_init(|| waker);
        let listener: Arc<dyn TurnListener> = Arc::clone(waker) as _;
        engine.add_listener(&listener);
        let (mut all, mut seen) = (Vec::new(), None);
        while !self.is_over() {
            waker.reset();
            let mut next: Option<Time> = None;
            let mut has_notified = false;
            // Acquire: the changes that were counted are visible.
            let reordered = Some(self.reordered.load(Ordering::Acquire));
            if reordered != seen {
                seen = reordered;
                all.clone_from(&self.entities());
                all.sort_by_cached_key(|it| Reverse(it.upgrade().map_or(0, |it| it.priority())));
            }
            for entity in &all {
                let is_usable = |entity: &Arc<dyn ListenedEntity>| entity.lifecycle().is_enabled();
                let Some(entity) = entity.upgrade().filter(is_usable) else { continue };
                has_notified |= Arc::clone(&entity).notify_listeners();
                next = next.into_iter().chain(entity.next_check()).min();
            }
            if !has_notified {
                self.rest(waker, next);
            }
        }
    }

    fn rest(&self, waker: &ThreadWaker, next: Option<Time>) {
        std::thread::park_timeout(PAUSE);
        while !waker.is_woken() && !self.is_over() {
            match next.map(|next| next.since(clock::now())) {
                None => std::thread::park(),
                Some(0) => return,
                Some(left) => std::thread::park_timeout(Duration::from_nanos(left)),
            }
        }
    }
}

/// Maximum time that an ending participant waits for a listener that is being called.
const LISTENER_LIMIT: Duration = Duration::from_secs(5);
/// Interval between checks whether that listener has returned.
const RETURN_CHECK_INTERVAL: Duration = Duration::from_micros(200);

/// See the [module](self).
#[derive(Default)]
pub(crate) struct ListenerDispatcher {
    shared: Arc<DispatcherState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ListenerDispatcher {
    /// Adds this entity.
    pub(crate) fn add(&self, entity: Weak<dyn ListenedEntity>) {
        let mut entities = self.shared.entities();
        entities.retain(|entity| entity.strong_count() > 0);
        entities.push(entity);
        self.shared.reordered.fetch_add(1, Ordering::Release);
    }

    /// Counter to increment when the [priority](ListenedEntity::priority) of an entity has changed.
    pub(crate) fn reordered(&self) -> &Arc<AtomicU64> {
        &self.shared.reordered
    }

    /// Entities that exist.
    pub(crate) fn entities(&self) -> Vec<Arc<dyn ListenedEntity>> {
        let entities = self.shared.entities().clone();
        entities.iter().filter_map(Weak::upgrade).collect()
    }

    /// Starts to call listeners. Listeners that were set just now are called for earlier changes
    /// too.
    pub(crate) fn start(&self, engine: &DomainEngine) -> std::io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (shared, engine) = (Arc::clone(&self.shared), engine.clone());
            let tell = move || shared.run(&engine);
            let made = std::thread::Builder::new().name("squall-listener".into()).spawn(tell)?;
            *thread = Some(made);
        }
        drop(thread);
        self.wake();
        Ok(())
    }

    /// Makes the thread check the entities, if it has started: an entity was enabled, or has a new
    /// listener.
    pub(crate) fn wake(&self) {
        self.shared.waker.get().into_iter().for_each(|waker| waker.on_turn());
    }

    /// Stops calling listeners. Waits for a listener that is being called, unless that is the
    /// caller or does not return in time; then it is left behind.
    pub(super) fn end(&self) {
        self.shared.over.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        // A listener may have held the last handle on its participant.
        if thread.thread().id() == std::thread::current().id() {
            return;
        }
        thread.thread().unpark();
        let deadline = Instant::now() + LISTENER_LIMIT;
        while !thread.is_finished() {
            if Instant::now() >= deadline {
                tracing::error!(
                    "a listener has not returned in time; its participant ends without waiting"
                );
                return;
            }
            std::thread::sleep(RETURN_CHECK_INTERVAL);
        }
        if thread.join().is_err() {
            tracing::error!("the thread that calls listeners panicked");
        }
    }
}
