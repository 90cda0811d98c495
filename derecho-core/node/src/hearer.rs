//! Who is told when a turn did something, without waiting for it.
//!
//! Owns: the list of them. Never does: keep one alive, or cost a turn anything as long as there is none.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Is told of news. It is called by whoever drives, while that one has the driver's role: it is quick, and leaves
/// the engine alone.
pub trait Hearer: Send + Sync {
    /// A turn did something, or the engine has stopped.
    fn hear(&self);
}

/// The hearers of an engine.
#[derive(Default)]
pub(crate) struct Hearers {
    count: AtomicU32,
    list: Mutex<Vec<Weak<dyn Hearer>>>,
}

impl Hearers {
    pub(crate) fn add(&self, hearer: &Arc<dyn Hearer>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(Arc::downgrade(hearer));
        self.count.store(list.len() as u32, Ordering::SeqCst);
    }

    /// Tells all that are still there.
    #[inline]
    pub(crate) fn tell(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.tell_all();
        }
    }

    #[cold]
    fn tell_all(&self) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|hearer| match hearer.upgrade() {
            Some(hearer) => {
                hearer.hear();
                true
            }
            None => false,
        });
        self.count.store(list.len() as u32, Ordering::SeqCst);
    }
}
