//! What all entities share: return codes, time-outs, handles, conditions and wait sets.

mod condition;
mod error;
mod storage;
mod timeout;
mod until;
mod wait_set;

pub(crate) use condition::Driver;
pub use condition::{Condition, GuardCondition};
pub use error::{DdsError, DdsResult};
pub use storage::{LogCondition, StorageStatus};
pub use timeout::Timeout;
pub(crate) use until::{Ear, Until};
pub use wait_set::WaitSet;

use derecho_core::ids::NodeId;

/// Names an entity across the domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InstanceHandle {
    pub(crate) node: NodeId,
    pub(crate) entity: u64,
}

impl InstanceHandle {
    /// The first in their order.
    pub(crate) const LOWEST: Self = InstanceHandle { node: NodeId(0), entity: 0 };
    /// The last in their order.
    pub(crate) const HIGHEST: Self = InstanceHandle { node: NodeId(u128::MAX), entity: u64::MAX };

    /// A handle with these parts, for tests and measurements of what takes handles.
    #[doc(hidden)]
    pub fn from_parts(node: u128, entity: u64) -> Self {
        InstanceHandle { node: NodeId(node), entity }
    }
}

impl std::fmt::Display for InstanceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.node, self.entity)
    }
}
