//! Listeners that are called when a turn did something, without waiting for it.
//!
//! Owns: the list of listeners. Never does: keep a listener alive, or cost a turn anything while
//! there is none.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Listener for news of an engine. The driving thread calls it while it has the driver's role, so
/// the call must be quick and must not use the engine.
pub trait TurnListener: Send + Sync {
    /// Called when a turn did something, or the engine has stopped.
    fn on_turn(&self);
}

/// Listeners of an engine.
#[derive(Default)]
pub(crate) struct TurnListeners {
    count: AtomicU32,
    list: Mutex<Vec<Weak<dyn TurnListener>>>,
}

impl TurnListeners {
    pub(crate) fn add(&self, listener: &Arc<dyn TurnListener>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(Arc::downgrade(listener));
        self.count.store(list.len() as u32, Ordering::SeqCst);
    }

    /// Calls all listeners that still exist.
    #[inline]
    pub(crate) fn tell(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.tell_all();
        }
    }

    #[cold]
    fn tell_all(&self) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|listener| match listener.upgrade() {
            Some(listener) => {
                listener.on_turn();
                true
            }
            None => false,
        });
        self.count.store(list.len() as u32, Ordering::SeqCst);
    }
}
