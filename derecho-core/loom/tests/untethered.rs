//! A reader that nobody waits for against the sender's reuse of what it copies (I-220): what it gets is what was written, and it
//! knows how much it did not get.
#![cfg(loom)]

mod overtaking;

use overtaking::{one_writer, two_writers};

#[test]
fn what_is_overwritten_while_it_is_copied_is_not_taken() {
    one_writer();
}

/// One thread opens the chunk anew, another one writes there.
#[test]
fn what_another_thread_overwrites_is_not_taken_either() {
    two_writers();
}
