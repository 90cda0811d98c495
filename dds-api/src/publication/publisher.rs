//! The publisher: writers that share PRESENTATION, PARTITION and GROUP_DATA.
//!
//! Owns: those policies, the writers' default ones, and coherent sets. Never does: write.

mod coherent;

use std::sync::Arc;

use idl_xtypes::TopicData;
use qos_profiles::{DataWriterQos, PresentationQosPolicy, PublisherQos};

use super::acknowledgment::are_acknowledged;
use super::changes::Changes;
use super::{DataWriter, DataWriterBuilder};
use crate::domain::enabling::Encloses;
use crate::domain::{DomainParticipant, Draft, EntityGroup, Inner, Shared};
use crate::infrastructure::listener::Slot;
use crate::infrastructure::{
    DdsError, DdsResult, InstanceHandle, PublisherListener, StatusMask, Timeout,
};
use crate::topic::Topic;

/// Writers that share policies. Clones are the same publisher; a writer keeps its publisher.
///
/// A writer needs none of its own: [`DomainParticipant::writer`](crate::domain::DomainParticipant::writer) makes one that
/// belongs to no partition and offers its samples in their order.
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
    /// Its name in the domain.
    pub fn instance_handle(&self) -> InstanceHandle {
        self.0.handle()
    }

    /// The participant that it belongs to.
    pub fn participant(&self) -> DomainParticipant {
        DomainParticipant::of(Arc::clone(&self.0.participant))
    }

    /// Its policies.
    pub fn qos(&self) -> PublisherQos {
        self.0.qos()
    }

    /// Gives it other policies. PARTITION changes with the next sample that is written; on an ordered topic that is the same
    /// sample at all readers.
    ///
    /// # Errors
    /// [`DdsError::ImmutablePolicy`] if PRESENTATION is another one, or PARTITION and a writer's topic is
    /// [sharded](crate::topic::TopicBuilder::sharded_by_partition).
    pub fn set_qos(&self, qos: &PublisherQos) -> DdsResult<()> {
        self.0.set_qos(qos)
    }

    /// A writer of a topic.
    pub fn writer<T: TopicData>(&self, topic: &Topic<T>) -> DataWriterBuilder<T> {
        let builder = DataWriterBuilder::new(Arc::clone(&self.0.participant), topic.clone());
        builder.within(self.clone())
    }

    /// The policies of its writers of which nothing else is said; none: those of their topics.
    pub fn default_writer_qos(&self) -> Option<DataWriterQos> {
        self.0.default()
    }

    /// Sets the policies of writers that are made from now on and of which nothing else is said; none: those of their
    /// topics.
    pub fn set_default_writer_qos(&self, qos: Option<DataWriterQos>) -> DdsResult<()> {
        self.0.set_default(qos)
    }

    /// Its writers.
    pub fn writers(&self) -> Vec<InstanceHandle> {
        self.0.entities()
    }

    /// Waits until all that its writers have written so far is acknowledged, as
    /// [`DataWriter::wait_for_acknowledgments`](super::DataWriter::wait_for_acknowledgments) does for one.
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

    /// Deletes it: no writer is made of it any more. Dropping the last handle on it and its last writer does the same.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] as long as it has writers.
    pub fn delete(self) -> DdsResult<()> {
        self.0.delete("writers")
    }

    /// A writer of it of the topic of this name and type, if there is one.
    pub fn lookup_writer<T: TopicData>(&self, topic: &str) -> Option<DataWriter<T>> {
        self.0.lookup(topic)
    }

    /// Has this called for changes of these statuses of its writers that have no listener of their own for them.
    pub fn set_listener(
        &self,
        listener: impl PublisherListener + 'static,
        mask: impl Into<StatusMask>,
    ) -> DdsResult<()> {
        self.0.set_listener(Box::new(listener), mask.into())
    }

    /// Has no listener for all its writers called any more.
    pub fn clear_listener(&self) {
        self.0.listener.clear();
    }

    /// The statuses for which its listener is called; none if it has none. The listener itself is the entity's own: what is to be
    /// asked of it, it shares.
    pub fn listener_mask(&self) -> StatusMask {
        self.0.listener.mask()
    }

    /// What it holds back.
    #[inline(always)]
    pub(super) fn changes(&self) -> &Changes {
        &self.0.own
    }

    /// Enables it, and its writers if its ENTITY_FACTORY says so. Once it is enabled, nothing happens.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if its participant is not enabled; the
    /// error of a writer that cannot be.
    pub fn enable(&self) -> DdsResult<()> {
        self.0.enable()
    }

    /// Whether it is enabled.
    pub fn is_enabled(&self) -> bool {
        self.0.lifecycle().is_enabled()
    }

    /// Deletes its writers, whoever has handles on them: their calls say
    /// [`DdsError::AlreadyDeleted`](crate::infrastructure::DdsError::AlreadyDeleted) from then on, those that wait included.
    pub fn delete_contained_entities(&self) -> DdsResult<()> {
        self.0.delete_contents()
    }

    pub(crate) fn of(group: Arc<PublisherGroup>) -> Publisher {
        Publisher(group)
    }

    /// As what its entities belong to.
    pub(super) fn encloses(&self) -> Arc<dyn Encloses> {
        Arc::clone(&self.0) as _
    }

    pub(super) fn entity(&self) -> &PublisherGroup {
        &self.0
    }

    pub(super) fn listener(&self) -> &Slot<dyn PublisherListener> {
        &self.0.listener
    }

    pub(super) fn group(&self) -> u64 {
        self.0.id
    }

    pub(super) fn is_of(&self, participant: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.0.participant, participant)
    }
}

/// A publisher that is being made.
///
/// ```
/// # use dds_api::prelude::*;
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// let publisher = participant.publisher().partition(["left"]).group_data(*b"engine").create()?;
/// # Ok(())
/// # }
/// ```
pub struct PublisherBuilder(Draft<PublisherQos>);

impl PublisherBuilder {
    pub(crate) fn new(participant: Arc<Inner>) -> Self {
        PublisherBuilder(Draft::new(participant))
    }

    /// Its policies by a profile. What is said of it before is forgotten, what is said later comes before the profile.
    pub fn profile(self, name: &str) -> Self {
        PublisherBuilder(self.0.profile(name))
    }

    /// All its policies.
    pub fn qos(self, qos: &PublisherQos) -> Self {
        PublisherBuilder(self.0.all(qos))
    }

    /// PARTITION: readers get what is written that have one of these names, or a pattern that one of them is of.
    pub fn partition<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.0.qos.partition.name = names.into_iter().map(Into::into).collect();
        self
    }

    /// PRESENTATION: what is offered of order and coherence.
    pub fn presentation(mut self, policy: PresentationQosPolicy) -> Self {
        self.0.qos.presentation = policy;
        self
    }

    /// GROUP_DATA: bytes that go with it.
    pub fn group_data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.qos.group_data.value = bytes.into();
        self
    }

    /// Makes the publisher.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if names of partitions cannot be sent, or there is no profile of the name that was said.
    pub fn create(self) -> DdsResult<Publisher> {
        let publisher = Publisher(self.0.create(Shared::Publisher)?);
        publisher.changes().agree(&publisher.qos().presentation);
        Ok(publisher)
    }
}
