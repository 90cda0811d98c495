//! A bell for a thread that rests until a turn of its participant's engine did something.
//!
//! Owns: whether the bell was rung. Never does: count the rings; the thread checks itself what
//! there is to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use derecho_node::TurnListener;

/// See the [module](self).
pub(super) struct ThreadWaker {
    thread: Thread,
    woken: AtomicBool,
}

impl ThreadWaker {
    /// Creates a bell that wakes the current thread, and that counts as rung or not.
    pub(super) fn new(rung: bool) -> ThreadWaker {
        ThreadWaker { thread: std::thread::current(), woken: AtomicBool::new(rung) }
    }

    /// Whether the bell was rung since it was last muffled.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// Resets the bell, so that only later rings count.
    pub(super) fn reset(&self) {
        self.woken.store(false, Ordering::SeqCst);
    }
}

impl TurnListener for ThreadWaker {
    fn on_turn(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }
}
