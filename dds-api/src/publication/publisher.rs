//! The publisher: writers that share PRESENTATION, PARTITION and GROUP_DATA.
//!
//! Owns: those policies, the default policies of writers, and coherent sets. Never does: write.

mod coherent;

use std::sync::Arc;

use idl_xtypes::TopicData;
use qos_profiles::{DataWriterQos, PresentationQosPolicy, PublisherQos};

use super::acknowledgment::are_acknowledged;
use super::changes::HeldChanges;
use super::{DataWriter, DataWriterBuilder};
use crate::domain::enabling::EndpointContainer;
use crate::domain::{
    DomainParticipant, EntityGroup, EntityGroupBuilder, ParticipantInner, ProfiledEntity,
};
use crate::infrastructure::listener::ListenerSlot;
use crate::infrastructure::{
    DdsError, DdsResult, InstanceHandle, PublisherListener, StatusMask, Timeout,
};
use crate::topic::Topic;

/// Writers that share policies. Clones are handles on the same publisher. A writer keeps its
/// publisher alive.
///
/// A writer needs no publisher of its own:
/// [`DomainParticipant::writer`](crate::domain::DomainParticipant::writer) makes a writer that
/// belongs to no partition and offers ordered access.
///
/// ```no_run
/// use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Thrust { newtons: f64 }
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let topic = participant.topic::<Thrust>("Thrust").atomic().create()?;
/// let left = participant.publisher().partition(["left"]).create()?;
/// let writer = left.writer(&topic).create()?;                       // for readers of `left`
/// let both = participant.subscriber().partition(["*"]).create()?;
/// let reader = both.reader(&topic).create()?;                       // of all partitions that have names
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Publisher(Arc<PublisherGroup>);

type PublisherGroup = EntityGroup<PublisherQos, DataWriterQos, dyn PublisherListener>;

impl Publisher {
    /// The publisher's handle in the domain.
    #[doc(alias = "get_instance_handle")]
    pub fn instance_handle(&self) -> InstanceHandle {
        self.0.handle()
    }

    /// The participant that the publisher belongs to.
    #[doc(alias = "get_participant")]
    pub fn participant(&self) -> DomainParticipant {
        DomainParticipant::of(Arc::clone(&self.0.participant))
    }

    /// The publisher's policies.
    #[doc(alias = "get_qos")]
    pub fn qos(&self) -> PublisherQos {
        self.0.qos()
    }

    /// Changes the policies. A new PARTITION applies from the next written sample on; on an ordered
    /// topic that is the same sample at all readers.
    ///
    /// # Errors
    /// [`DdsError::ImmutablePolicy`] if PRESENTATION differs, or if PARTITION differs and a
    /// writer's topic is [sharded](crate::topic::TopicBuilder::sharded_by_partition).
    pub fn set_qos(&self, qos: &PublisherQos) -> DdsResult<()> {
        self.0.set_qos(qos)
    }

    /// Starts building a writer of a topic, with the policies that the topic sets.
    #[doc(alias = "create_datawriter")]
    #[doc(alias = "copy_from_topic_qos")]
    pub fn writer<T: TopicData>(&self, topic: &Topic<T>) -> DataWriterBuilder<T> {
        let builder = DataWriterBuilder::new(Arc::clone(&self.0.participant), topic.clone());
        builder.within(self.clone())
    }

    /// Default policies of the publisher's writers. `None`: the policies of their topics.
    #[doc(alias = "get_default_datawriter_qos")]
    pub fn default_writer_qos(&self) -> Option<DataWriterQos> {
        self.0.default()
    }

    /// Sets the default policies of writers created from now on. `None`: the policies of
    /// their topics.
    #[doc(alias = "set_default_datawriter_qos")]
    pub fn set_default_writer_qos(&self, qos: Option<DataWriterQos>) -> DdsResult<()> {
        self.0.set_default(qos)
    }

    /// Handles of the publisher's writers.
    pub fn writers(&self) -> Vec<InstanceHandle> {
        self.0.entities()
    }

    /// Waits until all samples that the publisher's writers have written so far are acknowledged,
    /// as [`DataWriter::wait_for_acknowledgments`](super::DataWriter::wait_for_acknowledgments)
    /// does for one writer.
    pub fn wait_for_acknowledgments(&self, timeout: impl Into<Timeout>) -> DdsResult<()> {
        self.0.check()?;
        let timeout = timeout.into();
        let deadline = timeout.deadline();
        for writer in self.writers() {
            if !are_acknowledged(&self.0.participant, writer.entity, deadline, || false)? {
                return Err(DdsError::Timeout(format!(
                    "not all samples of writer {writer} of this publisher are acknowledged after {timeout}"
                )));
            }
        }
        Ok(())
    }

    /// Deletes the publisher. No more writers can be created from it. Dropping the publisher's last
    /// handle and its last writer has the same effect.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] as long as the publisher has writers.
    #[doc(alias = "delete_publisher")]
    pub fn delete(self) -> DdsResult<()> {
        self.0.delete("writers")
    }

    /// Finds a writer of the publisher by the topic's name and type.
    #[doc(alias = "lookup_datawriter")]
    pub fn lookup_writer<T: TopicData>(&self, topic: &str) -> Option<DataWriter<T>> {
        self.0.lookup(topic)
    }

    /// Sets a listener for these statuses. It is called for changes on the publisher's writers that
    /// have no listener of their own for the status.
    pub fn set_listener(
        &self,
        listener: impl PublisherListener + 'static,
        mask: impl Into<StatusMask>,
    ) -> DdsResult<()> {
        self.0.set_listener(Box::new(listener), mask.into())
    }

    /// Removes the publisher's listener.
    pub fn clear_listener(&self) {
        self.0.listener.clear();
    }

    /// The statuses for which the publisher's listener is called; empty without a listener. The
    /// publisher owns the listener: an application that needs data from the listener must share
    /// that data.
    pub fn listener_mask(&self) -> StatusMask {
        self.0.listener.mask()
    }

    /// Changes that the publisher holds back.
    #[inline(always)]
    pub(super) fn changes(&self) -> &HeldChanges {
        &self.0.own
    }

    /// Enables the publisher, and its writers if ENTITY_FACTORY says so. Does nothing if the
    /// publisher is enabled already.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if the
    /// participant is not enabled; the error of a writer that cannot be enabled.
    pub fn enable(&self) -> DdsResult<()> {
        self.0.enable()
    }

    /// Whether the publisher is enabled.
    pub fn is_enabled(&self) -> bool {
        self.0.lifecycle().is_enabled()
    }

    /// Deletes the publisher's writers, even if handles on them exist. All calls on those handles,
    /// including waiting ones, then return
    /// [`DdsError::AlreadyDeleted`](crate::infrastructure::DdsError::AlreadyDeleted).
    pub fn delete_contained_entities(&self) -> DdsResult<()> {
        self.0.delete_contents()
    }

    pub(crate) fn of(group: Arc<PublisherGroup>) -> Publisher {
        Publisher(group)
    }

    /// The publisher as the parent of its entities.
    pub(super) fn as_container(&self) -> Arc<dyn EndpointContainer> {
        Arc::clone(&self.0) as _
    }

    pub(super) fn entity(&self) -> &PublisherGroup {
        &self.0
    }

    pub(super) fn listener(&self) -> &ListenerSlot<dyn PublisherListener> {
        &self.0.listener
    }

    pub(super) fn group(&self) -> u64 {
        self.0.id
    }

    pub(super) fn is_of(&self, participant: &Arc<ParticipantInner>) -> bool {
        Arc::ptr_eq(&self.0.participant, participant)
    }
}

/// Builder of a publisher.
///
/// ```
/// # use dds_api::prelude::*;
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// let publisher = participant.publisher().partition(["left"]).group_data(*b"engine").create()?;
/// # Ok(())
/// # }
/// ```
pub struct PublisherBuilder(EntityGroupBuilder<PublisherQos>);

impl PublisherBuilder {
    pub(crate) fn new(participant: Arc<ParticipantInner>) -> Self {
        PublisherBuilder(EntityGroupBuilder::new(participant))
    }

    /// Takes the policies from a QoS profile. Discards settings made before this call; settings
    /// made later override the profile.
    pub fn profile(self, name: &str) -> Self {
        PublisherBuilder(self.0.profile(name))
    }

    /// Sets all policies of the publisher.
    pub fn qos(self, qos: &PublisherQos) -> Self {
        PublisherBuilder(self.0.all(qos))
    }

    /// PARTITION: matches readers whose partition names or patterns match one of these names.
    pub fn partition<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.0.qos.partition.name = names.into_iter().map(Into::into).collect();
        self
    }

    /// PRESENTATION: the order and coherence that the publisher offers.
    pub fn presentation(mut self, policy: PresentationQosPolicy) -> Self {
        self.0.qos.presentation = policy;
        self
    }

    /// GROUP_DATA: bytes that are announced with the publisher.
    pub fn group_data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.qos.group_data.value = bytes.into();
        self
    }

    /// Makes the publisher.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the partition names cannot be sent, or if the named profile
    /// does not exist.
    pub fn create(self) -> DdsResult<Publisher> {
        let publisher = Publisher(self.0.create(ProfiledEntity::Publisher)?);
        publisher.changes().agree(&publisher.qos().presentation);
        Ok(publisher)
    }
}
