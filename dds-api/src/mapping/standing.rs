//! How a participant stands to its domain, as its entities see it.
//!
//! Owns: why it is no member any more. Never does: decide that.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use derecho_core::link::Arbiter;
use derecho_core::membership::Fate;

use crate::infrastructure::DdsError;

const IN: u8 = 0;
const LEFT: u8 = 1;
const EXCLUDED: u8 = 2;
const MINORITY: u8 = 3;
const OVERTAKEN: u8 = 4;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Standing {
    word: AtomicU8,
    /// What its host knows of it, since it has come into its group.
    host: OnceLock<Arc<dyn Arbiter>>,
}

impl Standing {
    /// It is a member from now on.
    pub(crate) fn come_in(&self, host: Option<&Arc<dyn Arbiter>>) {
        if let Some(host) = host {
            self.host.get_or_init(|| Arc::clone(host));
        }
    }

    /// Whether the others go on without it, as its host knows although it has not turned since: it may have
    /// been stopped. What was read before this was asked, and answered by no, was there to be read.
    #[inline]
    pub(crate) fn is_evicted(&self) -> bool {
        self.is_out() || self.host.get().is_some_and(|host| !host.is_member() && self.evicted())
    }

    #[cold]
    fn evicted(&self) -> bool {
        let out = self.word.compare_exchange(IN, EXCLUDED, Ordering::AcqRel, Ordering::Acquire);
        if out.is_ok() {
            tracing::error!("this participant was stopped, and is isolated from its domain");
        }
        true
    }

    /// It is a member no more.
    pub(crate) fn fall_out(&self, fate: Fate) {
        let word = match fate {
            Fate::Left => LEFT,
            Fate::Excluded => EXCLUDED,
            Fate::Minority => MINORITY,
            Fate::Overtaken => OVERTAKEN,
        };
        self.word.store(word, Ordering::Release);
    }

    /// Whether it is a member no more.
    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        self.word.load(Ordering::Relaxed) != IN
    }

    /// The error of every call on an entity of a participant that is out.
    #[cold]
    pub(crate) fn error(&self) -> DdsError {
        let why = match self.word.load(Ordering::Acquire) {
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
