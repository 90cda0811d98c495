//! Waker of a thread that rests until a turn of its participant's engine did something.
//!
//! Owns: whether the thread was woken. Never does: count the wake-ups; the thread checks itself
//! what there is to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use derecho_node::TurnListener;

/// See the [module](self).
pub(super) struct ThreadWaker {
    thread: Thread,
    woken: AtomicBool,
}

impl ThreadWaker {
    /// Creates a waker of the current thread. The thread counts as woken at first, or not.
    pub(super) fn new(woken: bool) -> ThreadWaker {
        ThreadWaker { thread: std::thread::current(), woken: AtomicBool::new(woken) }
    }

    /// Whether the thread was woken since the last reset.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// Resets the waker, so that only later wake-ups count.
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
