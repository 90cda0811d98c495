//! The condition that an entity's statuses have changed.
//!
//! Owns: which statuses count. Never does: read a status.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use derecho_core::ids::Time;

use super::InstanceHandle;
use super::condition::{Condition, ConditionSource, WaitDriver};
use super::status::StatusMask;

/// STATUS_CONDITION: holds while an enabled status of its entity has changed since it was last
/// read. Clones are the same condition. All statuses are enabled at first.
///
/// ```
/// use dds_api::infrastructure::{StatusKind, WaitSet};
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
/// let matched = writer.status_condition();
/// matched.set_enabled_statuses(StatusKind::PublicationMatched);
/// let wait_set = WaitSet::new();
/// wait_set.attach(&matched)?;
/// wait_set.wait(Timeout::secs(10))?;
/// println!("{} readers", writer.publication_matched_status().current_count);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StatusCondition {
    condition: Condition,
    enabled: Arc<EnabledStatuses>,
}

struct EnabledStatuses(AtomicU32);

impl EnabledStatuses {
    fn mask(&self) -> StatusMask {
        StatusMask(self.0.load(Ordering::Acquire))
    }
}

struct StatusConditionSource<E, F, N> {
    /// Owner of the statuses.
    entity: E,
    changes: F,
    /// Time at which a status may change without an event.
    next_check: N,
    enabled: Arc<EnabledStatuses>,
    driver: Arc<dyn WaitDriver>,
}

impl<E, F, N> ConditionSource for StatusConditionSource<E, F, N>
where
    E: Fn() -> Option<InstanceHandle> + Send + Sync,
    F: Fn() -> StatusMask + Send + Sync,
    N: Fn() -> Option<Time> + Send + Sync,
{
    fn is_triggered(&self) -> bool {
        !((self.changes)() & self.enabled.mask()).is_empty()
    }

    fn driver(&self) -> Option<Arc<dyn WaitDriver>> {
        Some(Arc::clone(&self.driver))
    }

    fn next_check(&self) -> Option<Time> {
        (self.next_check)()
    }

    fn entity(&self) -> Option<InstanceHandle> {
        (self.entity)()
    }
}

impl StatusCondition {
    pub(crate) fn new(
        entity: impl Fn() -> Option<InstanceHandle> + Send + Sync + 'static,
        changes: impl Fn() -> StatusMask + Send + Sync + 'static,
        driver: Arc<dyn WaitDriver>,
    ) -> StatusCondition {
        Self::with_next_check(entity, changes, || None, driver)
    }

    /// Creates a condition whose statuses may also change when time passes.
    pub(crate) fn with_next_check(
        entity: impl Fn() -> Option<InstanceHandle> + Send + Sync + 'static,
        changes: impl Fn() -> StatusMask + Send + Sync + 'static,
        next_look: impl Fn() -> Option<Time> + Send + Sync + 'static,
        driver: Arc<dyn WaitDriver>,
    ) -> StatusCondition {
        let enabled = Arc::new(EnabledStatuses(AtomicU32::new(StatusMask::ALL.0)));
        let of = Arc::clone(&enabled);
        let condition =
            StatusConditionSource { entity, changes, next_check: next_look, enabled: of, driver };
        let condition = Condition::new(condition);
        StatusCondition { condition, enabled }
    }

    /// Statuses that count.
    #[doc(alias = "get_enabled_statuses")]
    pub fn enabled_statuses(&self) -> StatusMask {
        self.enabled.mask()
    }

    /// Sets the statuses that count. A wait set that waits for the condition checks it again.
    pub fn set_enabled_statuses(&self, mask: impl Into<StatusMask>) {
        self.enabled.0.store(mask.into().0, Ordering::Release);
        if let Some(driver) = self.condition.0.driver() {
            driver.nudge();
        }
    }

    /// Entity that owns the statuses; none if it is gone.
    #[doc(alias = "get_entity")]
    pub fn entity(&self) -> Option<InstanceHandle> {
        self.condition.entity()
    }

    /// Whether the condition holds.
    pub fn trigger_value(&self) -> bool {
        self.condition.trigger_value()
    }
}

impl AsRef<Condition> for StatusCondition {
    fn as_ref(&self) -> &Condition {
        &self.condition
    }
}

impl fmt::Debug for StatusCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusCondition({}, {})", self.enabled_statuses(), self.trigger_value())
    }
}
