//! A bell for a thread that rests until a turn of its participant's engine did something.
//!
//! Owns: whether the bell was rung. Never does: count the rings; the thread checks itself what
//! there is to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use derecho_node::Hearer;

/// See the [module](self).
pub(super) struct Bell {
    thread: Thread,
    rung: AtomicBool,
}

impl Bell {
    /// Creates a bell that wakes the current thread, and that counts as rung or not.
    pub(super) fn new(rung: bool) -> Bell {
        Bell { thread: std::thread::current(), rung: AtomicBool::new(rung) }
    }

    /// Whether the bell was rung since it was last muffled.
    pub(super) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }

    /// Resets the bell, so that only later rings count.
    pub(super) fn muffle(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }
}

impl Hearer for Bell {
    fn hear(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }
}
