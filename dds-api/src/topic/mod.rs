//! The topic module of the standard: a name for samples of one type.

mod announced;
mod builder;
mod filtered;
mod policies;

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use derecho_core::ids::Time;
use idl_xtypes::{DynamicType, TopicData};
use qos_profiles::{PartitionQosPolicy, TopicQos};

use crate::domain::{Attended, Inner};
use crate::infrastructure::board::Board;
use crate::infrastructure::listener::{Slot, teller};
use crate::infrastructure::{
    DdsResult, InconsistentTopicStatus, StatusCondition, StatusKind, StatusMask, StorageStatus,
    TopicListener,
};
use crate::mapping::endpoint::{Endpoint, EndpointKind, shard, topic_key};
use crate::mapping::level::{Keeping, TopicLevel};
use crate::mapping::policies::Policies;
use crate::mapping::type_identity::TypeIdentity;

pub use announced::AnnouncedTopic;
pub(crate) use announced::gathered;
pub use builder::TopicBuilder;
pub use filtered::{ContentFilteredTopic, TopicDescription};
pub(crate) use filtered::{SharedFilter, wrong};
pub(crate) use policies::TopicPolicies;

/// A name under which samples of type `T` are written and read.
pub struct Topic<T: TopicData> {
    participant: Arc<Inner>,
    support: T::TypeSupport,
    keeping: Keeping,
    sharded: bool,
    /// Shared by its clones.
    policies: Arc<TopicPolicies>,
    notice: Arc<TopicNotice>,
    status_condition: Arc<OnceLock<StatusCondition>>,
}

/// Where a topic's status is put up, and who is told.
pub(crate) struct TopicNotice {
    name: Arc<str>,
    participant: Weak<Inner>,
    /// Shared by all topics of this name that its participant has.
    board: Arc<Board>,
    listener: Slot<dyn TopicListener>,
}

impl Attended for TopicNotice {
    fn group(&self) -> u64 {
        0
    }

    fn topic_name(&self) -> &str {
        &self.name
    }

    fn handle(self: Arc<Self>) -> Box<dyn Any> {
        Box::new(())
    }

    fn tell(self: Arc<Self>) -> bool {
        let kind = StatusKind::InconsistentTopic;
        let Some(participant) = self.participant.upgrade() else { return false };
        let masks = [self.listener.mask(), StatusMask::NONE, participant.listener.mask()];
        let Some(level) = teller(kind, masks).filter(|_| self.board.changes().contains(kind))
        else {
            return false;
        };
        let status = self.board.take(kind, |all| &mut all.inconsistent_topic);
        match level {
            0 => self.listener.call(kind, |it| it.on_inconsistent_topic(&self.name, &status)),
            _ => {
                let slot = &participant.listener;
                slot.call(kind, |it| it.on_inconsistent_topic(&self.name, &status));
            }
        }
        true
    }

    fn next_look(&self) -> Option<Time> {
        None
    }
}

impl<T: TopicData> Clone for Topic<T> {
    fn clone(&self) -> Self {
        Topic {
            participant: Arc::clone(&self.participant),
            support: self.support.clone(),
            keeping: self.keeping,
            sharded: self.sharded,
            policies: Arc::clone(&self.policies),
            notice: Arc::clone(&self.notice),
            status_condition: Arc::clone(&self.status_condition),
        }
    }
}

impl<T: TopicData> Topic<T> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.policies.name
    }

    /// The name of its type.
    pub fn type_name(&self) -> &str {
        T::type_name(&self.support)
    }

    /// Its type.
    pub fn dynamic_type(&self) -> DynamicType {
        T::dynamic_type(&self.support)
    }

    /// What is known of its type at run time.
    pub(crate) fn support(&self) -> &T::TypeSupport {
        &self.support
    }

    /// Whether its samples come in one order at all readers.
    pub fn is_atomic(&self) -> bool {
        self.level().is_ordered()
    }

    /// Whether its samples are kept for those who come later.
    pub fn is_kept(&self) -> bool {
        self.level().is_kept()
    }

    /// Whether its samples are kept in logs.
    pub fn is_logged(&self) -> bool {
        self.level().is_logged()
    }

    /// Whether each of its partitions is a stream by itself.
    pub fn is_sharded(&self) -> bool {
        self.sharded
    }

    /// Its policies, which its writers and readers have if nothing else is said of them.
    pub fn qos(&self) -> TopicQos {
        self.policies.qos()
    }

    /// Gives it other policies, for writers and readers that are made from now on.
    ///
    /// # Errors
    /// [`DdsError::ImmutablePolicy`](crate::infrastructure::DdsError::ImmutablePolicy) if a policy differs that may not change, or
    /// LIFESPAN of a topic whose samples are kept, by which all keep them;
    /// [`DdsError::InconsistentPolicy`](crate::infrastructure::DdsError::InconsistentPolicy) if they contradict each other.
    pub fn set_qos(&self, qos: &TopicQos) -> DdsResult<()> {
        self.policies.set_qos(qos)
    }

    /// INCONSISTENT_TOPIC: endpoints of others that mean something else by this name.
    pub fn inconsistent_topic_status(&self) -> InconsistentTopicStatus {
        self.notice.board.take(StatusKind::InconsistentTopic, |all| &mut all.inconsistent_topic)
    }

    /// The statuses that have changed since they were read.
    pub fn status_changes(&self) -> StatusMask {
        self.notice.board.changes()
    }

    /// Has this called when others mean something else by its name, on the thread that calls all listeners of the participant.
    pub fn set_listener(&self, listener: impl TopicListener + 'static) -> DdsResult<()> {
        self.notice.listener.set(Box::new(listener), StatusKind::InconsistentTopic.into());
        self.participant.attend()
    }

    /// Has no listener of its own called any more.
    pub fn clear_listener(&self) {
        self.notice.listener.clear();
    }

    /// Holds as long as a status that is enabled in it has changed and was not read since.
    pub fn status_condition(&self) -> StatusCondition {
        let made = || {
            let (board, participant) =
                (Arc::clone(&self.notice.board), Arc::clone(&self.participant));
            StatusCondition::new(move || board.changes(), participant)
        };
        self.status_condition.get_or_init(made).clone()
    }

    /// How its samples are kept, as far as this participant knows. None if they are not, or if this participant takes no
    /// part in it. Of a [sharded](TopicBuilder::sharded_by_partition) topic: those of no partition.
    pub fn storage_status(&self) -> Option<StorageStatus> {
        self.storage_status_of("")
    }

    /// The same of a partition of a [sharded](TopicBuilder::sharded_by_partition) topic.
    pub fn storage_status_of(&self, partition: &str) -> Option<StorageStatus> {
        let key = topic_key(self.name(), &self.identity(), partition);
        self.participant.engine.act(|machine, _, _| machine.storage(key))
    }

    /// What it waits for before it begins, for messages.
    pub(crate) fn waiting(&self) -> String {
        self.storage_status().map_or(String::new(), |status| status.waiting())
    }

    pub(crate) fn keeping(&self) -> Keeping {
        self.keeping
    }

    /// An endpoint of it with these policies.
    pub(crate) fn endpoint(&self, kind: EndpointKind, policies: Policies) -> Endpoint {
        Endpoint {
            kind,
            topic: self.name().to_owned(),
            data_type: self.identity(),
            level: self.level(),
            sharded: self.sharded,
            keeping: self.keeping,
            stream: 0,
            lines: 0,
            group: 0,
            alive: true,
            policies: Arc::new(policies),
        }
    }

    /// Why its endpoints cannot be in these partitions, if they cannot.
    pub(crate) fn wrong_partition(&self, partition: &PartitionQosPolicy) -> Option<String> {
        let is_wrong = self.sharded && shard(partition).is_none();
        is_wrong.then(|| {
            format!(
                "PARTITION {:?}: the topic is sharded by it, so each writer and reader is in one, and that is a name: make \
                 one for each",
                partition.name
            )
        })
    }

    pub(crate) fn level(&self) -> TopicLevel {
        self.policies.level
    }

    pub(crate) fn policies(&self) -> &Arc<TopicPolicies> {
        &self.policies
    }

    pub(crate) fn identity(&self) -> TypeIdentity {
        TypeIdentity::of::<T>(&self.support)
    }

    /// Whether it belongs to this participant.
    pub(crate) fn is_of(&self, participant: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.participant, participant)
    }
}
