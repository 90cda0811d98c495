//! Which engine holds still for what this thread asks.
//!
//! Owns: the note of that. Never does: decide what may be asked.

use std::cell::Cell;
use std::ptr;

thread_local! {
    static ENGINE: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// Puts back what was there, also if what is asked panics.
struct Note(*const ());

impl Drop for Note {
    fn drop(&mut self) {
        ENGINE.set(self.0);
    }
}

/// Asks something for which this engine holds still.
pub(crate) fn within<T>(engine: *const (), ask: impl FnOnce() -> T) -> T {
    let _before = Note(ENGINE.replace(engine));
    ask()
}

/// Whether this engine holds still for what this thread asks.
pub(crate) fn is_in(engine: *const ()) -> bool {
    ptr::eq(ENGINE.get(), engine)
}
