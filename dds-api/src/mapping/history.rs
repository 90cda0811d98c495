//! A reader that reads along what is kept, before it gets a queue of its own.
//!
//! Owns: how far it has come, and what it may see. Never does: hold its lock while the application looks at a
//! sample.
//!
//! ```text
//!   machine    shows so much of the store as was delivered; when the reader has read all of it, or lets too
//!              much wait, the reader gets a queue: what comes from then on comes by that
//!   reader     goes along what is shown; then on to its queue
//! ```
//! So a reader that comes late holds nobody up while it reads what was kept before, and gets every sample that
//! comes meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use derecho_core::ids::NodeId;
use derecho_core::storage::cursor::{Cursor, Kept};
use derecho_core::storage::store::{Meaning, Store};

use super::machine::ReaderShared;
use super::record;

/// What a store has to know of records.
pub(crate) const MEANING: Meaning = Meaning { key: record::key_of, time: record::time_of };

/// So many samples may be delivered while a reader reads along; then it gets its queue, and holds its writers up as
/// any reader does that does not take.
const MOST_BEHIND: u64 = 1 << 20;

/// What a reader that reads along shares with the machine.
pub(crate) struct History {
    state: Mutex<State>,
    /// One past the last version that may be seen.
    shown: AtomicU64,
    /// Nothing is shown after that.
    ended: AtomicBool,
    /// The reader has seen all that was shown.
    caught_up: AtomicBool,
}

struct State {
    cursor: Cursor,
    /// It was found, and waits to be taken.
    next: Option<Kept>,
    /// Who sent what, by the store's numbers for streams.
    writers: Vec<NodeId>,
}

/// What came of a look at what is kept.
pub(crate) enum Look {
    /// The next sample, and who wrote it.
    Kept(Kept, NodeId),
    /// There is none now.
    NoneYet,
    /// All has been read: what comes now comes by a queue.
    Over,
}

impl State {
    fn find(&mut self, shown: u64) -> bool {
        if self.next.is_none() && self.cursor.version() < shown {
            self.next = self.cursor.next();
        }
        self.next.as_ref().is_some_and(|next| next.version() < shown)
    }
}

impl History {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next sample that is kept.
    pub(crate) fn take(&self) -> Look {
        let mut state = self.lock();
        // First: what is shown after it has ended is all.
        let ended = self.ended.load(Ordering::Acquire);
        if state.find(self.shown.load(Ordering::Acquire))
            && let Some(kept) = state.next.take()
        {
            let writer = state.writers.get(kept.stream() as usize);
            return Look::Kept(kept, writer.copied().unwrap_or(NodeId(0)));
        }
        if ended {
            return Look::Over;
        }
        self.caught_up.store(true, Ordering::Release);
        Look::NoneYet
    }

    /// Whether there is one.
    pub(crate) fn has_next(&self) -> bool {
        self.lock().find(self.shown.load(Ordering::Acquire))
    }

    /// Whether all has been read.
    pub(crate) fn is_over(&self) -> bool {
        // First: what is shown after it has ended is all.
        let ended = self.ended.load(Ordering::Acquire);
        ended && !self.lock().find(self.shown.load(Ordering::Acquire))
    }

    /// How many there are at most.
    pub(crate) fn len(&self) -> usize {
        let state = self.lock();
        let waits = u64::from(state.next.is_some());
        let shown = self.shown.load(Ordering::Acquire);
        (waits + shown.saturating_sub(state.cursor.version())) as usize
    }
}

/// The machine's side of it.
pub(super) struct Catching {
    history: Arc<History>,
    /// The version at which the reader began.
    from: u64,
}

impl Catching {
    /// A reader begins to read along.
    pub(super) fn begin(
        cursor: Cursor,
        (store, until): (&Store, u64),
        shared: &ReaderShared,
    ) -> Catching {
        let from = until.min(store.version());
        let writers = store.streams().iter().map(|stream| stream.node).collect();
        // Who has nothing to catch up with gets its queue at once.
        let caught_up = AtomicBool::new(cursor.version() >= from || store.is_empty());
        let history = Arc::new(History {
            state: Mutex::new(State { cursor, next: None, writers }),
            shown: AtomicU64::new(from),
            ended: AtomicBool::new(false),
            caught_up,
        });
        *shared.history.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&history));
        shared.reads_history.store(true, Ordering::Release);
        shared.knows_history.store(true, Ordering::Release);
        Catching { history, from }
    }

    /// Shows what was delivered meanwhile, up to this version. Returns whether there was anything.
    pub(super) fn show(&mut self, store: &Store, until: u64) -> usize {
        let (history, until) = (&*self.history, until.min(store.version()));
        if history.shown.load(Ordering::Relaxed) >= until {
            return 0;
        }
        let mut state = history.lock();
        let known = state.writers.len();
        state.writers.extend(store.streams()[known..].iter().map(|stream| stream.node));
        drop(state);
        history.shown.store(until, Ordering::Release);
        1
    }

    /// Whether the reader is to get its queue.
    pub(super) fn is_over(&self) -> bool {
        let shown = self.history.shown.load(Ordering::Relaxed);
        self.history.caught_up.load(Ordering::Acquire) || shown - self.from > MOST_BEHIND
    }

    /// Nothing is shown beyond what is in the store now.
    pub(super) fn end(&mut self, store: &Store) {
        self.show(store, u64::MAX);
        self.history.ended.store(true, Ordering::Release);
    }
}
