//! Whether an entity is enabled, and whether it is there at all.
//!
//! ```text
//!   disabled ──enable──> enabled
//!       '────────────────────'──delete──> deleted
//! ```
//! Owns: that. Never does: what follows from it; the entities do.

use std::fmt::Display;
use std::sync::atomic::{AtomicU8, Ordering};

use derecho_node::process;

use super::{DdsError, DdsResult};

const DISABLED: u8 = 0;
const ENABLED: u8 = 1;
const DELETED: u8 = 2;

/// See the [module](self). Begins as disabled.
pub(crate) struct Lifecycle {
    state: AtomicU8,
    /// The process that it was made in.
    process: u32,
}

impl Default for Lifecycle {
    fn default() -> Lifecycle {
        Lifecycle { state: AtomicU8::new(DISABLED), process: process::number() }
    }
}

impl Lifecycle {
    /// Whether it is enabled, and not deleted.
    #[inline(always)]
    pub(crate) fn is_enabled(&self) -> bool {
        // Acquire: what was made when it was enabled is there.
        self.state.load(Ordering::Acquire) == ENABLED && !self.is_inherited()
    }

    /// Whether this process was forked from the one that it belongs to, and has no part in it.
    #[inline(always)]
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != process::number()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.state.load(Ordering::Acquire) == DELETED
    }

    /// It is enabled from now on, unless it is deleted.
    pub(crate) fn enable(&self) {
        let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.state.compare_exchange(DISABLED, ENABLED, yes, no);
    }

    /// It is deleted from now on. Whether it was enabled; none if it was deleted before, or is another process's.
    pub(crate) fn delete(&self) -> Option<bool> {
        if self.is_inherited() {
            return None;
        }
        match self.state.swap(DELETED, Ordering::AcqRel) {
            DELETED => None,
            before => Some(before == ENABLED),
        }
    }

    /// An error unless it is enabled.
    #[inline]
    pub(crate) fn check(&self, what: impl Display) -> DdsResult<()> {
        if self.is_enabled() { Ok(()) } else { self.refuse(what) }
    }

    #[cold]
    fn refuse(&self, what: impl Display) -> DdsResult<()> {
        self.check_there(&what)?;
        Err(DdsError::NotEnabled(format!("{what} is not enabled yet: call enable()")))
    }

    /// An error if it is deleted.
    pub(crate) fn check_there(&self, what: impl Display) -> DdsResult<()> {
        if self.is_inherited() {
            return Err(DdsError::PreconditionNotMet(format!(
                "{what} belongs to the process that this one was forked from: make a participant after the fork"
            )));
        }
        match self.is_deleted() {
            true => Err(DdsError::AlreadyDeleted(format!("{what} is deleted: make another one"))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deleted_is_never_enabled_again() {
        let lifecycle = Lifecycle::default();
        assert!(matches!(lifecycle.check("it"), Err(DdsError::NotEnabled(_))));
        lifecycle.enable();
        assert_eq!(lifecycle.check("it"), Ok(()));
        assert_eq!((lifecycle.delete(), lifecycle.delete()), (Some(true), None));
        lifecycle.enable();
        assert!(matches!(lifecycle.check("it"), Err(DdsError::AlreadyDeleted(_))));
        assert_eq!(Lifecycle::default().delete(), Some(false));
    }
}
