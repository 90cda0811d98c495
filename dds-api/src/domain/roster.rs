//! The entities of a participant that have listeners near them, and the thread that calls those.
//!
//! ```text
//!   resting ──a turn did something, or something is due──> each entity tells what has changed ──> resting
//! ```
//! There is no thread until the first listener is set. It drives nothing: a listener may take as long as it likes, and holds up
//! other listeners of its participant alone.
//!
//! Owns: when entities are asked. Never does: keep an entity that its application has dropped.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use derecho_core::ids::Time;
use derecho_node::{Hearer, clock};

use super::assembly::DomainEngine;
use super::bell::Bell;
use super::entity::Entity;

/// After a look that found nothing there is none for so long: while samples come that nobody wants to be told of, every turn is
/// news.
const PAUSE: Duration = Duration::from_micros(100);

/// An entity that may have something to tell its listeners.
pub(crate) trait Attended: Entity {
    /// Calls listeners for what has changed. Whether there was anything.
    fn tell(self: Arc<Self>) -> bool;
    /// When something changes without any news.
    fn next_look(&self) -> Option<Time>;
    /// Its listeners are called before those of entities with smaller ones.
    fn priority(&self) -> i32 {
        0
    }
}

#[derive(Default)]
struct Shared {
    entities: Mutex<Vec<Weak<dyn Attended>>>,
    /// How often an entity came, or had another priority than before. Whoever changes one counts.
    reordered: Arc<AtomicU64>,
    /// What wakes the thread, once there is one.
    bell: OnceLock<Arc<Bell>>,
    over: AtomicBool,
}

impl Shared {
    fn entities(&self) -> MutexGuard<'_, Vec<Weak<dyn Attended>>> {
        self.entities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn run(&self, engine: &DomainEngine) {
        let bell = Arc::new(Bell::new(true));
        let bell = self.bell.get_or_init(|| bell);
        let hearer: Arc<dyn Hearer> = Arc::clone(bell) as _;
        engine.tell(&hearer);
        let (mut all, mut seen) = (Vec::new(), None);
        while !self.is_over() {
            bell.muffle();
            let mut next: Option<Time> = None;
            let mut has_told = false;
            // Acquire: what was counted can be seen.
            let reordered = Some(self.reordered.load(Ordering::Acquire));
            if reordered != seen {
                seen = reordered;
                all.clone_from(&self.entities());
                all.sort_by_cached_key(|it| Reverse(it.upgrade().map_or(0, |it| it.priority())));
            }
            for entity in &all {
                let Some(entity) = entity.upgrade() else { continue };
                has_told |= Arc::clone(&entity).tell();
                next = next.into_iter().chain(entity.next_look()).min();
            }
            if !has_told {
                self.rest(bell, next);
            }
        }
    }

    fn rest(&self, bell: &Bell, next: Option<Time>) {
        std::thread::park_timeout(PAUSE);
        while !bell.is_rung() && !self.is_over() {
            match next.map(|next| next.since(clock::now())) {
                None => std::thread::park(),
                Some(0) => return,
                Some(left) => std::thread::park_timeout(Duration::from_nanos(left)),
            }
        }
    }
}

/// How long a participant that goes waits for a listener that is being called.
const LISTENER_LIMIT: Duration = Duration::from_secs(5);
/// How often it is looked whether that has come back.
const LOOK: Duration = Duration::from_micros(200);

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Roster {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Roster {
    /// There is this entity.
    pub(crate) fn enter(&self, entity: Weak<dyn Attended>) {
        let mut entities = self.shared.entities();
        entities.retain(|entity| entity.strong_count() > 0);
        entities.push(entity);
        self.shared.reordered.fetch_add(1, Ordering::Release);
    }

    /// To be counted up when the [priority](Attended::priority) of an entity has changed.
    pub(crate) fn reordered(&self) -> &Arc<AtomicU64> {
        &self.shared.reordered
    }

    /// The entities that there are.
    pub(crate) fn entities(&self) -> Vec<Arc<dyn Attended>> {
        let entities = self.shared.entities().clone();
        entities.iter().filter_map(Weak::upgrade).collect()
    }

    /// Listeners are called from now on, and those that were set just now are told what has changed before.
    pub(crate) fn attend(&self, engine: &DomainEngine) -> std::io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (shared, engine) = (Arc::clone(&self.shared), engine.clone());
            let tell = move || shared.run(&engine);
            let made = std::thread::Builder::new().name("squall-listener".into()).spawn(tell)?;
            *thread = Some(made);
        }
        drop(thread);
        self.shared.bell.get().into_iter().for_each(|bell| bell.hear());
        Ok(())
    }

    /// No listener is called any more; waits for one that is being called, unless it is the caller or does not come back: that is
    /// left behind.
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
                tracing::error!("a listener does not come back: its participant goes without it");
                return;
            }
            std::thread::sleep(LOOK);
        }
        if thread.join().is_err() {
            tracing::error!("the thread that calls listeners panicked");
        }
    }
}
