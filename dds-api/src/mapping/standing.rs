//! How a participant stands to its domain, as its entities see it.
//!
//! Owns: why it is no member any more. Never does: decide that.

use std::sync::atomic::{AtomicU8, Ordering};

use derecho_core::membership::Fate;

use crate::infrastructure::DdsError;

const IN: u8 = 0;
const LEFT: u8 = 1;
const EXCLUDED: u8 = 2;
const MINORITY: u8 = 3;
const OVERTAKEN: u8 = 4;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Standing(AtomicU8);

impl Standing {
    /// It is a member no more.
    pub(crate) fn fall_out(&self, fate: Fate) {
        let word = match fate {
            Fate::Left => LEFT,
            Fate::Excluded => EXCLUDED,
            Fate::Minority => MINORITY,
            Fate::Overtaken => OVERTAKEN,
        };
        self.0.store(word, Ordering::Release);
    }

    /// Whether it is a member no more.
    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        self.0.load(Ordering::Relaxed) != IN
    }

    /// The error of every call on an entity of a participant that is out.
    #[cold]
    pub(crate) fn error(&self) -> DdsError {
        let why = match self.0.load(Ordering::Acquire) {
            LEFT => return DdsError::AlreadyDeleted("the participant has left".to_owned()),
            EXCLUDED => {
                "the other participants go on without it: it was silent for longer than the \
                 member_timeout, stopped perhaps, or broke the protocol"
            }
            MINORITY => "it has lost so many of the others that it may decide nothing any more",
            _ => "the others have decided something that nobody who is left can tell it",
        };
        DdsError::Isolated(format!(
            "this participant is isolated from its domain: {why}. It neither writes nor takes \
             anything any more: drop it and join anew"
        ))
    }
}
