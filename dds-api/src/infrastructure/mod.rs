//! Types that all entities share: return codes, time-outs, handles, conditions and wait sets.

mod condition;
pub(crate) mod deadlines;
mod error;
mod handle;
pub(crate) mod lifecycle;
pub(crate) mod listener;
mod ready_future;
mod standstill;
pub(crate) mod status;
pub(crate) mod status_board;
mod status_condition;
mod storage;
pub(crate) mod this_thread;
mod timeout;
mod wait_set;

pub use condition::{Condition, GuardCondition};
pub(crate) use condition::{ConditionSource, WaitDriver};
pub use error::{DdsError, DdsResult};
pub use listener::{
    AnyDataReader, AnyDataWriter, DataReaderListener, DataWriterListener,
    DomainParticipantListener, PublisherListener, SubscriberListener, TopicListener,
};
pub(crate) use ready_future::{Readiness, ReadyFuture, WakerSlot};
pub use standstill::Standstill;
pub use status::{
    IncompatibleQosStatus, InconsistentTopicStatus, LivelinessChangedStatus, LivelinessLostStatus,
    OfferedDeadlineMissedStatus, PublicationMatchedStatus, QosPolicyCount,
    RequestedDeadlineMissedStatus, SampleLostStatus, StatusKind, StatusMask,
    SubscriptionMatchedStatus,
};
pub use status_condition::StatusCondition;
pub use storage::{LogCondition, LogRetention, StorageStatus};
pub use timeout::Timeout;
pub use wait_set::WaitSet;

use derecho_core::ids::NodeId;
use qos_profiles::PolicyId;

/// Returns an error if policies that may not change have changed.
pub(crate) fn immutable(what: &str, changed: &[PolicyId]) -> DdsResult<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = changed.iter().map(|policy| policy.name()).collect();
    Err(DdsError::ImmutablePolicy(format!(
        "{} may not change on an enabled {what}: create another one",
        names.join(", ")
    )))
}

/// Name of an entity across the domain, or of an instance of a topic.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(writer: &DataWriter<Track>, participant: &DomainParticipant) -> DdsResult<()> {
/// let track = Track { id: 7, height: 3000.0 };
/// let instance: InstanceHandle = writer.register_instance(&track)?;
/// assert_eq!(writer.get_key_value(instance)?.id, 7);
/// assert!(participant.contains_entity(writer.instance_handle()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InstanceHandle {
    pub(crate) node: NodeId,
    pub(crate) entity: u64,
}

/// Entity number of handles that name instances. No entity of a participant has this number.
const INSTANCE: u64 = u64::MAX;

impl InstanceHandle {
    /// Handle of no entity and of no instance: the standard's `HANDLE_NIL`. It is the lowest handle
    /// in the order of handles. Calls that write with a handle determine the instance by the sample
    /// alone if they are given this one.
    #[doc(alias = "HANDLE_NIL")]
    pub const NIL: Self = InstanceHandle { node: NodeId(0), entity: 0 };
    /// Highest handle in the order of handles.
    pub(crate) const HIGHEST: Self = InstanceHandle { node: NodeId(u128::MAX), entity: u64::MAX };

    /// The handle of the instance with this hash of its key. It is the same in all participants.
    pub(crate) fn of_instance(key: u128) -> Self {
        InstanceHandle { node: NodeId(key), entity: INSTANCE }
    }

    /// Hash of the key of the named instance; none if the handle names an entity.
    pub(crate) fn instance_key(self) -> Option<u128> {
        (self.entity == INSTANCE).then_some(self.node.0)
    }

    /// A handle with these parts, for tests and measurements of code that takes handles.
    #[doc(hidden)]
    pub fn from_parts(node: u128, entity: u64) -> Self {
        InstanceHandle { node: NodeId(node), entity }
    }
}

impl std::fmt::Display for InstanceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.instance_key() {
            Some(key) => write!(f, "instance {key:032x}"),
            None => write!(f, "{}.{}", self.node, self.entity),
        }
    }
}
