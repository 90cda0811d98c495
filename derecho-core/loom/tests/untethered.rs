//! A reader without back-pressure against the sender's reuse of what it copies (I-220): the reader
//! gets what was written, and knows how much it missed.
#![cfg(loom)]

mod overtaking;

use overtaking::{one_writer, two_writers};

#[test]
fn record_overwritten_while_copied_is_not_taken() {
    one_writer();
}

/// One thread reopens the chunk, another one writes there.
#[test]
fn record_overwritten_by_another_thread_is_not_taken() {
    two_writers();
}
