//! Proof that the models of readers without back-pressure can fail: each of these errors
//! is detected.
#![cfg(loom)]

mod overtaking;

use std::panic::catch_unwind;

use derecho_core::membership::{Fault, plant};
use overtaking::{one_writer, two_writers};

/// One test, because a planted fault affects all models.
#[test]
fn models_detect_each_planted_error() {
    for fault in [Fault::NoSecondLook, Fault::OpeningUntold, Fault::OpeningUnfenced] {
        plant(Some(fault));
        let caught = [one_writer, two_writers].map(|model| catch_unwind(model).is_err());
        plant(None);
        assert!(caught.contains(&true), "{fault:?} goes unseen");
    }
}
