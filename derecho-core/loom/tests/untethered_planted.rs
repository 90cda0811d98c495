//! The models of readers that nobody waits for can fail: each of these errors is caught.
#![cfg(loom)]

mod overtaking;

use std::panic::catch_unwind;

use derecho_core::membership::{Fault, plant};
use overtaking::{one_writer, two_writers};

/// In one test, for what is planted is there for all.
#[test]
fn each_error_is_caught() {
    for fault in [Fault::NoSecondLook, Fault::OpeningUntold, Fault::OpeningUnfenced] {
        plant(Some(fault));
        let caught = [one_writer, two_writers].map(|model| catch_unwind(model).is_err());
        plant(None);
        assert!(caught.contains(&true), "{fault:?} goes unseen");
    }
}
