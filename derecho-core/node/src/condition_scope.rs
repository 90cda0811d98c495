//! Record of the engine that runs no turn while this thread evaluates a wait's condition.
//!
//! Owns: the thread-local record. Never does: decide which calls the condition may make.

use std::cell::Cell;
use std::ptr;

thread_local! {
    static ENGINE: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// Restores the previous record, even if the condition panics.
struct ConditionGuard(*const ());

impl Drop for ConditionGuard {
    fn drop(&mut self) {
        ENGINE.set(self.0);
    }
}

/// Evaluates `ask` while this engine runs no turn.
pub(crate) fn within<T>(engine: *const (), ask: impl FnOnce() -> T) -> T {
    let _before = ConditionGuard(ENGINE.replace(engine));
    ask()
}

/// Whether this thread evaluates a condition of a wait of this engine.
pub(crate) fn is_in(engine: *const ()) -> bool {
    ptr::eq(ENGINE.get(), engine)
}
