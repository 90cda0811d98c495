//! The topic module of the standard: a name for samples of one type.

mod announced;
mod builder;
mod bytes;
mod entity;
mod filtered;
mod keeping;
mod multi;
mod policies;
mod representation;

use std::sync::Arc;

use idl_xtypes::{DynamicType, TopicData};
use qos_profiles::{PartitionQosPolicy, TopicQos};

use self::keeping::{KeepingOptions, Promise};
use self::representation::Forms;
use crate::domain::enabling::Encloses;
use crate::domain::{DomainParticipant, Entity, Inner, usual_topic};
use crate::infrastructure::{
    DdsError, DdsResult, InconsistentTopicStatus, InstanceHandle, StatusCondition, StatusKind,
    StatusMask, StorageStatus, TopicListener,
};
use crate::mapping::directory::TopicFacts;
use crate::mapping::endpoint::{Endpoint, EndpointKind};
use crate::mapping::level::{Keeping, TopicLevel};
use crate::mapping::order::{TopicOrder, shard};
use crate::mapping::policies::Policies;
use crate::mapping::type_identity::TypeIdentity;
use crate::subscription::not_with_builtin;

pub use announced::AnnouncedTopic;
pub use builder::TopicBuilder;
pub(crate) use bytes::BYTES_AT;
pub use bytes::Bytes;
pub(crate) use entity::{TopicEntity, TopicOrigin};
pub use filtered::{ContentFilteredTopic, TopicDescription};
pub(crate) use filtered::{Parts, SharedFilter, wrong};
pub use multi::MultiTopic;
pub(crate) use multi::{Joined, join};
pub(crate) use policies::TopicPolicies;
pub(crate) use representation::{Whose, encoding};

/// A name under which samples of type `T` are written and read.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// let topic = participant.topic::<Track>("Tracks").atomic().create()?;
/// assert_eq!((topic.name(), topic.is_atomic()), ("Tracks", true));
/// # Ok(())
/// # }
/// ```
pub struct Topic<T: TopicData> {
    participant: Arc<Inner>,
    /// Shared by its clones.
    entity: Arc<TopicEntity>,
    support: T::TypeSupport,
}

impl<T: TopicData> Clone for Topic<T> {
    fn clone(&self) -> Self {
        let (participant, entity) = (Arc::clone(&self.participant), Arc::clone(&self.entity));
        Topic { participant, entity, support: self.support.clone() }
    }
}

impl<T: TopicData> Topic<T> {
    /// The participant that it belongs to.
    pub fn participant(&self) -> DomainParticipant {
        DomainParticipant::of(Arc::clone(&self.participant))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.policies().name
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
        self.policies().order.is_by_partition()
    }

    /// The order that its samples have in common with those of other topics, if they have.
    pub fn common_order(&self) -> Option<&str> {
        self.policies().order.common()
    }

    /// Its policies, which its writers and readers have if nothing else is said of them.
    pub fn qos(&self) -> TopicQos {
        self.policies().qos()
    }

    /// Gives it other policies, for writers and readers that are made from now on. Of a topic that is not enabled any may
    /// change, and so does its level if RELIABILITY or DURABILITY does, as [`TopicBuilder::qos`] says.
    ///
    /// # Errors
    /// [`DdsError::ImmutablePolicy`] if a policy differs that may not change, or
    /// LIFESPAN of a topic whose samples are kept, by which all keep them;
    /// [`DdsError::InconsistentPolicy`] if they contradict each other.
    pub fn set_qos(&self, qos: &TopicQos) -> DdsResult<()> {
        self.entity.set_qos(qos)
    }

    /// Its name in the domain.
    pub fn instance_handle(&self) -> InstanceHandle {
        self.participant.standing.handle(self.entity.id)
    }

    /// Enables it. Once it is enabled, nothing happens.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if its participant is not enabled;
    /// [`DdsError::BadParameter`] if TOPIC_DATA has more bytes than can be
    /// announced: some 12,000.
    pub fn enable(&self) -> DdsResult<()> {
        Arc::clone(&self.entity).enable()
    }

    /// Whether it is enabled.
    pub fn is_enabled(&self) -> bool {
        self.entity.is_enabled()
    }

    /// Deletes it: no writers and readers are made of it any more. Dropping the last handle on it does the same.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] as long as it has writers or readers.
    pub fn delete(self) -> DdsResult<()> {
        self.check_there()?;
        if !self.entity.is_announced() {
            return Err(not_with_builtin("this topic"));
        }
        match self.participant.endpoints_of_topic(self.entity.id) {
            0 => {
                Arc::clone(&self.entity).delete();
                Ok(())
            }
            count => Err(DdsError::PreconditionNotMet(format!(
                "topic `{}` has {count} writers and readers: drop them first",
                self.name()
            ))),
        }
    }

    /// INCONSISTENT_TOPIC: endpoints of others that mean something else by this name.
    pub fn inconsistent_topic_status(&self) -> InconsistentTopicStatus {
        self.entity.board.take(StatusKind::InconsistentTopic, |all| &mut all.inconsistent_topic)
    }

    /// The statuses that have changed since they were read.
    pub fn status_changes(&self) -> StatusMask {
        self.entity.board.changes()
    }

    /// Has this called when others mean something else by its name, on the thread that calls all listeners of the participant.
    pub fn set_listener(&self, listener: impl TopicListener + 'static) -> DdsResult<()> {
        self.entity.listener.set(Box::new(listener), StatusKind::InconsistentTopic.into());
        self.participant.attend()
    }

    /// Has no listener of its own called any more.
    pub fn clear_listener(&self) {
        self.entity.listener.clear();
    }

    /// The statuses for which its listener is called; none if it has none. The listener itself is the entity's own: what is to be
    /// asked of it, it shares.
    pub fn listener_mask(&self) -> StatusMask {
        self.entity.listener.mask()
    }

    /// Holds as long as a status that is enabled in it has changed and was not read since.
    pub fn status_condition(&self) -> StatusCondition {
        let made = || {
            let (board, participant) =
                (Arc::clone(&self.entity.board), Arc::clone(&self.participant));
            let (topic, standing) =
                (Arc::downgrade(&self.entity), Arc::clone(&participant.standing));
            let entity = move || Some(standing.handle(topic.upgrade()?.id));
            StatusCondition::new(entity, move || board.changes(), participant)
        };
        self.entity.status_condition.get_or_init(made).clone()
    }

    /// How its samples are kept, as far as this participant knows. None if they are not, or if this participant takes no
    /// part in it. Of a [sharded](TopicBuilder::sharded_by_partition) topic: those of no partition.
    pub fn storage_status(&self) -> Option<StorageStatus> {
        self.storage_status_of("")
    }

    /// The same of a partition of a [sharded](TopicBuilder::sharded_by_partition) topic.
    pub fn storage_status_of(&self, partition: &str) -> Option<StorageStatus> {
        let key = self.policies().order.key(self.name(), &self.identity(), partition);
        self.participant.engine.act(|machine, _, _| machine.storage(key))
    }

    /// What it waits for before it begins, and what is wrong with its logs, for messages.
    pub(crate) fn waiting(&self) -> String {
        let Some(status) = self.storage_status() else { return String::new() };
        let trouble = if self.is_logged() { status.trouble() } else { String::new() };
        status.waiting() + &trouble
    }

    pub(crate) fn keeping(&self) -> Keeping {
        self.policies().keeping()
    }

    /// An endpoint of it with these policies.
    pub(crate) fn endpoint(&self, kind: EndpointKind, policies: Policies) -> Endpoint {
        Endpoint {
            kind,
            topic: self.name().to_owned(),
            data_type: self.identity(),
            level: self.level(),
            order: self.policies().order.clone(),
            keeping: self.keeping(),
            stream: 0,
            lines: 0,
            group: 0,
            alive: true,
            policies: Arc::new(policies),
        }
    }

    /// Why its endpoints cannot be in these partitions, if they cannot.
    pub(crate) fn wrong_partition(&self, partition: &PartitionQosPolicy) -> Option<String> {
        let is_wrong = self.policies().order.is_by_partition() && shard(partition).is_none();
        is_wrong.then(|| {
            format!(
                "PARTITION {:?}: the topic is sharded by it, so each writer and reader is in one, and that is a name: make \
                 one for each",
                partition.name
            )
        })
    }

    /// A new topic with these policies, enabled if its participant enables what it makes.
    fn make(
        participant: &Arc<Inner>,
        support: T::TypeSupport,
        policies: Arc<TopicPolicies>,
    ) -> DdsResult<Topic<T>> {
        let entity = TopicEntity::new::<T>(participant, &support, policies, TopicOrigin::Writers);
        let topic = Topic::of(Arc::clone(participant), support, entity);
        if participant.enables() {
            topic.enable()?;
        }
        Ok(topic)
    }

    /// A topic that nobody else hears of.
    pub(crate) fn local(
        (participant, name): (&Arc<Inner>, &str),
        support: T::TypeSupport,
        origin: TopicOrigin,
    ) -> DdsResult<Topic<T>> {
        let keeping = KeepingOptions::default();
        let promise = keeping.promise(name, TopicLevel::Unordered, usual_topic())?;
        let policies = TopicPolicies::new(
            (name.into(), None),
            (TopicOrder::Own, Forms::of::<T>(&support)),
            (promise, keeping),
        );
        let entity = TopicEntity::new::<T>(participant, &support, policies, origin);
        let topic = Topic::of(Arc::clone(participant), support, entity);
        topic.enable()?;
        Ok(topic)
    }

    /// A topic as another participant has it.
    pub(crate) fn of_others(
        participant: &Arc<Inner>,
        support: T::TypeSupport,
        data: TopicFacts,
    ) -> DdsResult<Topic<T>> {
        let TopicFacts { name, level, order, keeping, qos, .. } = data;
        let promise = Promise { qos, level, keeping };
        let promise = (promise, KeepingOptions::default());
        let forms = Forms::of::<T>(&support);
        let policies = TopicPolicies::new((name.into(), None), (order, forms), promise);
        let topic = Topic::make(participant, support, policies)?;
        // What is found may be used.
        topic.enable()?;
        Ok(topic)
    }

    fn of(participant: Arc<Inner>, support: T::TypeSupport, entity: Arc<TopicEntity>) -> Topic<T> {
        Topic { participant, entity, support }
    }

    /// An error if it is deleted.
    pub(crate) fn check_there(&self) -> DdsResult<()> {
        self.entity.check_there()
    }

    pub(crate) fn entity(&self) -> &Arc<TopicEntity> {
        &self.entity
    }

    /// What its participant calls it.
    pub(crate) fn id(&self) -> u64 {
        self.entity.id
    }

    pub(crate) fn level(&self) -> TopicLevel {
        self.policies().level()
    }

    pub(crate) fn policies(&self) -> &Arc<TopicPolicies> {
        &self.entity.policies
    }

    pub(crate) fn identity(&self) -> TypeIdentity {
        TypeIdentity::of::<T>(&self.support)
    }

    /// Whether it belongs to this participant.
    pub(crate) fn is_of(&self, participant: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.participant, participant)
    }
}
