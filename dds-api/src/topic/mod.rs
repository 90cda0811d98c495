//! The topic module of the standard: a name for samples of one type.

mod announced;
mod builder;
mod bytes;
mod entity;
mod filtered;
mod multi;
mod policies;
mod representation;
mod storage_options;

use std::sync::Arc;

use idl_xtypes::{DynamicType, TopicData};
use qos_profiles::{PartitionQosPolicy, TopicQos};

use self::representation::TypeRepresentations;
use self::storage_options::{ResolvedTopic, StorageOptions};
use crate::domain::enabling::EndpointContainer;
use crate::domain::{DomainParticipant, Entity, ParticipantInner};
use crate::infrastructure::{
    DdsError, DdsResult, InconsistentTopicStatus, InstanceHandle, StatusCondition, StatusKind,
    StatusMask, StorageStatus, TopicListener,
};
use crate::mapping::directory::TopicFacts;
use crate::mapping::endpoint::{Endpoint, EndpointKind};
use crate::mapping::level::{TopicLevel, TopicRetention};
use crate::mapping::order::{TopicOrder, shard};
use crate::mapping::policies::EndpointPolicies;
use crate::mapping::type_identity::TypeIdentity;
use crate::subscription::not_with_builtin;

pub use crate::mapping::topic_logs::description::{LogDescription, LoggedSample};
pub use announced::AnnouncedTopic;
pub use builder::TopicBuilder;
pub(crate) use bytes::BYTES_AT;
pub use bytes::Bytes;
pub(crate) use entity::{TopicEntity, TopicOrigin};
pub use filtered::{ContentFilteredTopic, TopicDescription};
pub(crate) use filtered::{DerivedTopics, SharedFilter, expression_error};
pub use multi::MultiTopic;
pub(crate) use multi::{JoinedTopics, join};
pub(crate) use policies::TopicPolicies;
pub(crate) use representation::{PolicyOwner, encoding};

/// A topic: a name under which samples of type `T` are written and read.
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
    participant: Arc<ParticipantInner>,
    /// Shared by the clones of the topic.
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
    /// The participant of the topic.
    #[doc(alias = "get_participant")]
    pub fn participant(&self) -> DomainParticipant {
        DomainParticipant::of(Arc::clone(&self.participant))
    }

    /// The topic's name.
    #[doc(alias = "get_name")]
    pub fn name(&self) -> &str {
        &self.policies().name
    }

    /// The name of the topic's type.
    #[doc(alias = "get_type_name")]
    pub fn type_name(&self) -> &str {
        T::type_name(&self.support)
    }

    /// The topic's type.
    pub fn dynamic_type(&self) -> DynamicType {
        T::dynamic_type(&self.support)
    }

    /// Information about the type at run time.
    pub(crate) fn support(&self) -> &T::TypeSupport {
        &self.support
    }

    /// Whether samples come in one order at all readers.
    pub fn is_atomic(&self) -> bool {
        self.level().is_ordered()
    }

    /// Whether samples are kept for late joiners.
    pub fn is_kept(&self) -> bool {
        self.level().is_kept()
    }

    /// Whether samples are kept in logs.
    pub fn is_logged(&self) -> bool {
        self.level().is_logged()
    }

    /// Whether each partition is a stream by itself.
    pub fn is_sharded(&self) -> bool {
        self.policies().order.is_by_partition()
    }

    /// Name of the order that the topic shares with other topics, if it shares one.
    pub fn common_order(&self) -> Option<&str> {
        self.policies().order.common()
    }

    /// The topic's policies, which are the defaults of its writers and readers.
    #[doc(alias = "get_qos")]
    pub fn qos(&self) -> TopicQos {
        self.policies().qos()
    }

    /// Sets the topic's policies, for writers and readers that are made from now on. Before the
    /// topic is enabled all policies may change. If RELIABILITY or DURABILITY then changes, the
    /// level changes too, as described at [`TopicBuilder::qos`].
    ///
    /// # Errors
    /// [`DdsError::ImmutablePolicy`] if a policy differs that may not change, or LIFESPAN of a
    /// topic whose samples are kept, because all participants keep them by it;
    /// [`DdsError::InconsistentPolicy`] if policies contradict each other.
    pub fn set_qos(&self, qos: &TopicQos) -> DdsResult<()> {
        self.entity.set_qos(qos)
    }

    /// The topic's name in the domain.
    #[doc(alias = "get_instance_handle")]
    pub fn instance_handle(&self) -> InstanceHandle {
        self.participant.membership.handle(self.entity.id)
    }

    /// Enables the topic. Does nothing if it is already enabled.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if the participant is not enabled;
    /// [`DdsError::BadParameter`] if TOPIC_DATA has more bytes than can be announced, about 12,000.
    pub fn enable(&self) -> DdsResult<()> {
        Arc::clone(&self.entity).enable()
    }

    /// Whether the topic is enabled.
    pub fn is_enabled(&self) -> bool {
        self.entity.is_enabled()
    }

    /// Deletes the topic: no more writers and readers can be made of it. Dropping the last handle
    /// does the same.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] while the topic has writers or readers.
    #[doc(alias = "delete_topic")]
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

    /// INCONSISTENT_TOPIC: endpoints of other participants that use this name for a
    /// different topic.
    #[doc(alias = "get_inconsistent_topic_status")]
    pub fn inconsistent_topic_status(&self) -> InconsistentTopicStatus {
        self.entity
            .status_board
            .take(StatusKind::InconsistentTopic, |all| &mut all.inconsistent_topic)
    }

    /// The statuses that have changed since they were read.
    #[doc(alias = "get_status_changes")]
    pub fn status_changes(&self) -> StatusMask {
        self.entity.status_board.changes()
    }

    /// Sets the listener that is called when other participants use this name for a different
    /// topic. It is called on the thread that calls all listeners of the participant.
    pub fn set_listener(&self, listener: impl TopicListener + 'static) -> DdsResult<()> {
        self.listen(Box::new(listener))
    }

    fn listen(&self, listener: Box<dyn TopicListener>) -> DdsResult<()> {
        self.entity.listener.set(listener, StatusKind::InconsistentTopic.into());
        self.participant.start_listeners()
    }

    /// Removes the topic's listener.
    pub fn clear_listener(&self) {
        self.entity.listener.clear();
    }

    /// The statuses for which the listener is called; none if there is no listener. The topic owns
    /// the listener and does not return it. State that the application needs from the listener must
    /// be shared with it.
    pub fn listener_mask(&self) -> StatusMask {
        self.entity.listener.mask()
    }

    /// Condition that holds while an enabled status has changed and was not read since.
    pub fn status_condition(&self) -> StatusCondition {
        let made = || {
            let (board, participant) =
                (Arc::clone(&self.entity.status_board), Arc::clone(&self.participant));
            let (topic, membership) =
                (Arc::downgrade(&self.entity), Arc::clone(&participant.membership));
            let entity = move || Some(membership.handle(topic.upgrade()?.id));
            StatusCondition::new(entity, move || board.changes(), participant)
        };
        self.entity.status_condition.get_or_init(made).clone()
    }

    /// State of the topic's kept samples, as far as this participant knows. `None` if no
    /// samples are kept, or this participant takes no part in keeping them. For a
    /// [sharded](TopicBuilder::sharded_by_partition) topic, the state of the samples in
    /// no partition.
    pub fn storage_status(&self) -> Option<StorageStatus> {
        self.storage_status_of("")
    }

    /// State of the kept samples of one partition of a
    /// [sharded](TopicBuilder::sharded_by_partition) topic.
    pub fn storage_status_of(&self, partition: &str) -> Option<StorageStatus> {
        let key = self.policies().order.key(self.name(), &self.identity(), partition);
        self.participant.engine.act(|machine, _, _| machine.storage(key))
    }

    /// Text for messages: what the topic waits for before it begins, and problems of its logs.
    pub(crate) fn waiting(&self) -> String {
        let Some(status) = self.storage_status() else { return String::new() };
        let problem = if self.is_logged() { status.log_problems() } else { String::new() };
        status.waiting() + &problem
    }

    pub(crate) fn retention(&self) -> TopicRetention {
        self.policies().retention()
    }

    /// Description of an endpoint of this topic with these policies.
    pub(crate) fn endpoint(&self, kind: EndpointKind, policies: EndpointPolicies) -> Endpoint {
        Endpoint {
            kind,
            topic: self.name().to_owned(),
            data_type: self.identity(),
            level: self.level(),
            order: self.policies().order.clone(),
            retention: self.retention(),
            stream: 0,
            lines: 0,
            group: 0,
            alive: true,
            policies: Arc::new(policies),
        }
    }

    /// The reason why endpoints cannot be in these partitions, if they cannot.
    pub(crate) fn wrong_partition(&self, partition: &PartitionQosPolicy) -> Option<String> {
        let is_wrong = self.policies().order.is_by_partition() && shard(partition).is_none();
        is_wrong.then(|| {
            format!(
                "PARTITION {:?}: the topic is sharded by partition, so each writer and reader has \
                 exactly one partition, and no pattern: create one for each partition",
                partition.name
            )
        })
    }

    /// Makes a topic with these policies. Enables it if the participant enables its entities.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if the participant has a topic of this name with a type of
    /// another name, whichever thread makes that topic.
    fn make(
        participant: &Arc<ParticipantInner>,
        support: T::TypeSupport,
        policies: Arc<TopicPolicies>,
    ) -> DdsResult<Topic<T>> {
        let naming = participant.begin_naming();
        participant.check_type_name(&policies.name, T::type_name(&support))?;
        let entity = TopicEntity::new::<T>(participant, &support, policies, TopicOrigin::Writers);
        // Later checks find the topic.
        drop(naming);
        let topic = Topic::of(Arc::clone(participant), support, entity);
        if participant.enables() {
            topic.enable()?;
        }
        Ok(topic)
    }

    /// Makes a topic that is not announced.
    pub(crate) fn local(
        participant: &Arc<ParticipantInner>,
        name: &str,
        support: T::TypeSupport,
        origin: TopicOrigin,
    ) -> DdsResult<Topic<T>> {
        let retention = StorageOptions::default();
        let resolved = retention.resolve(name, TopicLevel::Unordered, TopicQos::default())?;
        let policies = TopicPolicies::new(
            name.into(),
            None,
            TopicOrder::Own,
            TypeRepresentations::of::<T>(&support),
            resolved,
            retention,
        );
        let entity = TopicEntity::new::<T>(participant, &support, policies, origin);
        let topic = Topic::of(Arc::clone(participant), support, entity);
        topic.enable()?;
        Ok(topic)
    }

    /// Makes a topic with the properties that another participant has announced.
    pub(crate) fn of_others(
        participant: &Arc<ParticipantInner>,
        support: T::TypeSupport,
        data: TopicFacts,
    ) -> DdsResult<Topic<T>> {
        let TopicFacts { name, level, order, retention, qos, .. } = data;
        let resolved = ResolvedTopic { qos, level, retention };
        let forms = TypeRepresentations::of::<T>(&support);
        let options = StorageOptions::default();
        let policies = TopicPolicies::new(name.into(), None, order, forms, resolved, options);
        let topic = Topic::make(participant, support, policies)?;
        // A topic that was found can be used at once.
        topic.enable()?;
        Ok(topic)
    }

    fn of(
        participant: Arc<ParticipantInner>,
        support: T::TypeSupport,
        entity: Arc<TopicEntity>,
    ) -> Topic<T> {
        Topic { participant, entity, support }
    }

    /// Returns an error if the topic is deleted.
    pub(crate) fn check_there(&self) -> DdsResult<()> {
        self.entity.check_there()
    }

    pub(crate) fn entity(&self) -> &Arc<TopicEntity> {
        &self.entity
    }

    /// The topic's identifier within its participant.
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

    /// Whether the topic belongs to this participant.
    pub(crate) fn is_of(&self, participant: &Arc<ParticipantInner>) -> bool {
        Arc::ptr_eq(&self.participant, participant)
    }
}
