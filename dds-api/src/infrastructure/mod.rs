//! What all entities share: return codes, time-outs, handles.

mod error;
mod storage;
mod timeout;

pub use error::{DdsError, DdsResult};
pub use storage::{LogCondition, LogRetention, StorageStatus};
pub use timeout::Timeout;

use derecho_core::ids::NodeId;

/// Names an entity across the domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InstanceHandle {
    pub(crate) node: NodeId,
    pub(crate) entity: u64,
}

impl std::fmt::Display for InstanceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.node, self.entity)
    }
}
