//! A reader without back-pressure against the sender's reuse of what it copies (I-220): the reader
//! gets what was written, and knows how much it missed.
#![cfg(loom)]

mod overtaking;

use overtaking::{one_writer, two_writers};

#[test]
fn what_is_overwritten_while_it_is_copied_is_not_taken() {
    one_writer();
}

/// One thread reopens the chunk, another one writes there.
#[test]
fn what_another_thread_overwrites_is_not_taken_either() {
    two_writers();
}
