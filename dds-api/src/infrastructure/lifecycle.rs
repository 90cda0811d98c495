//! Whether an entity is enabled, and whether it is there at all.
//!
//! ```text
//!   disabled ──enable──> enabled
//!       '────────────────────'──delete──> deleted
//! ```
//! Owns: that. Never does: what follows from it; the entities do.

use std::fmt::Display;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{DdsError, DdsResult};

const DISABLED: u8 = 0;
const ENABLED: u8 = 1;
const DELETED: u8 = 2;

/// See the [module](self). Begins as disabled.
#[derive(Default)]
pub(crate) struct Lifecycle(AtomicU8);

impl Lifecycle {
    /// Whether it is enabled, and not deleted.
    #[inline(always)]
    pub(crate) fn is_enabled(&self) -> bool {
        // Acquire: what was made when it was enabled is there.
        self.0.load(Ordering::Acquire) == ENABLED
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.0.load(Ordering::Acquire) == DELETED
    }

    /// It is enabled from now on, unless it is deleted.
    pub(crate) fn enable(&self) {
        let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.0.compare_exchange(DISABLED, ENABLED, yes, no);
    }

    /// It is deleted from now on. Whether it was enabled; none if it was deleted before.
    pub(crate) fn delete(&self) -> Option<bool> {
        match self.0.swap(DELETED, Ordering::AcqRel) {
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
