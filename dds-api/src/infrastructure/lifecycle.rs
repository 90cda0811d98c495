//! Lifecycle of an entity: whether it is enabled, and whether it still exists.
//!
//! ```text
//!   disabled ──enable──> enabled
//!       '────────────────────'──delete──> deleted
//! ```
//! Owns: this state. Never does: act on a change of it; the entities do.

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
    /// Number of the process in which the entity was created.
    process: u32,
}

impl Default for Lifecycle {
    fn default() -> Lifecycle {
        Lifecycle { state: AtomicU8::new(DISABLED), process: process::number() }
    }
}

impl Lifecycle {
    /// Whether the entity is enabled and not deleted.
    #[inline(always)]
    pub(crate) fn is_enabled(&self) -> bool {
        // Acquire: everything that was created when the entity was enabled is visible.
        self.state.load(Ordering::Acquire) == ENABLED && !self.is_inherited()
    }

    /// Whether this process was forked from the one that owns the entity, and so must not use it.
    #[inline(always)]
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != process::number()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.state.load(Ordering::Acquire) == DELETED
    }

    /// Enables the entity, unless it is deleted.
    pub(crate) fn enable(&self) {
        let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.state.compare_exchange(DISABLED, ENABLED, yes, no);
    }

    /// Deletes the entity. Returns whether it was enabled; none if it was deleted before, or
    /// belongs to another process.
    pub(crate) fn delete(&self) -> Option<bool> {
        if self.is_inherited() {
            return None;
        }
        match self.state.swap(DELETED, Ordering::AcqRel) {
            DELETED => None,
            before => Some(before == ENABLED),
        }
    }

    /// Returns an error unless the entity is enabled.
    #[inline]
    pub(crate) fn check(&self, what: impl Display) -> DdsResult<()> {
        if self.is_enabled() { Ok(()) } else { self.refuse(what) }
    }

    #[cold]
    fn refuse(&self, what: impl Display) -> DdsResult<()> {
        self.check_there(&what)?;
        Err(DdsError::NotEnabled(format!("{what} is not enabled yet: call enable()")))
    }

    /// Returns an error if the entity is deleted or belongs to another process.
    pub(crate) fn check_there(&self, what: impl Display) -> DdsResult<()> {
        if self.is_inherited() {
            return Err(DdsError::PreconditionNotMet(format!(
                "{what} belongs to the parent of this forked process: create a participant after \
                 the fork"
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
    fn deleted_entity_is_never_enabled_again() {
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
