//! What wakes a thread that rests until a turn of its participant's engine did something.
//!
//! Owns: whether it was rung. Never does: count how often; the thread looks for itself what there is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use derecho_node::Hearer;

/// See the [module](self).
pub(super) struct Bell {
    thread: Thread,
    rung: AtomicBool,
}

impl Bell {
    /// One that wakes this thread, and was rung or not.
    pub(super) fn new(rung: bool) -> Bell {
        Bell { thread: std::thread::current(), rung: AtomicBool::new(rung) }
    }

    /// Whether it was rung since it was muffled.
    pub(super) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }

    /// What rings from now on is news.
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
