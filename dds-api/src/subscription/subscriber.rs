//! The subscriber: readers that share PRESENTATION, PARTITION and GROUP_DATA.
//!
//! Owns: those policies, and the default policies of the readers. Never does: read.

use std::sync::{Arc, Weak};

use idl_xtypes::TopicData;
use qos_profiles::{DataReaderQos, PresentationQosPolicy, SubscriberQos};

use super::data_on_readers::DataOnReaders;
use super::{DataReader, DataReaderBuilder, GroupAccess, States, builtin};
use crate::domain::enabling::EndpointContainer;
use crate::domain::{
    DomainParticipant, EntityGroup, EntityGroupBuilder, ParticipantInner, ProfiledEntity,
};
use crate::infrastructure::listener::ListenerSlot;
use crate::infrastructure::{
    AnyDataReader, DdsResult, InstanceHandle, StatusMask, SubscriberListener,
};
use crate::topic::TopicDescription;

/// Group of readers that share policies. Clones are handles on the same subscriber, and a reader
/// keeps its subscriber alive. See [`Publisher`](crate::publication::Publisher) for an example.
///
/// A reader does not need a subscriber of its own:
/// [`DomainParticipant::reader`](crate::domain::DomainParticipant::reader) makes one that belongs
/// to no partition.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant, topic: &Topic<Track>) -> DdsResult<()> {
/// let both = participant.subscriber().partition(["l*", "right"]).create()?;
/// let reader = both.reader(topic).create()?;
/// assert_eq!(both.readers(), [reader.instance_handle()]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Subscriber(Arc<SubscriberGroup>);

/// State that the handles of a subscriber share.
pub(crate) type SubscriberGroup = EntityGroup<SubscriberQos, DataReaderQos, dyn SubscriberListener>;

impl Subscriber {
    /// The subscriber's name in the domain.
    #[doc(alias = "get_instance_handle")]
    pub fn instance_handle(&self) -> InstanceHandle {
        self.0.handle()
    }

    /// The participant of the subscriber.
    #[doc(alias = "get_participant")]
    pub fn participant(&self) -> DomainParticipant {
        DomainParticipant::of(Arc::clone(&self.0.participant))
    }

    /// The subscriber's policies.
    #[doc(alias = "get_qos")]
    pub fn qos(&self) -> SubscriberQos {
        self.0.qos()
    }

    /// Sets the subscriber's policies.
    ///
    /// # Errors
    /// [`DdsError::ImmutablePolicy`](crate::infrastructure::DdsError::ImmutablePolicy)
    /// if PRESENTATION changes, or if PARTITION changes and a reader's topic
    /// is [sharded](crate::topic::TopicBuilder::sharded_by_partition).
    pub fn set_qos(&self, qos: &SubscriberQos) -> DdsResult<()> {
        self.0.set_qos(qos)
    }

    /// Starts a reader of a topic, or of a filtered topic or multi-topic.
    #[doc(alias = "create_datareader")]
    pub fn reader<D: TopicDescription>(&self, topic: &D) -> DataReaderBuilder<D::Data> {
        let participant = Arc::clone(&self.0.participant);
        let builder = DataReaderBuilder::of(participant, topic);
        builder.within(self.clone())
    }

    /// Default policies of readers for which nothing else is set. If `None`, a reader has the
    /// policies that its topic sets, and the standard's otherwise.
    #[doc(alias = "get_default_datareader_qos")]
    pub fn default_reader_qos(&self) -> Option<DataReaderQos> {
        self.0.default()
    }

    /// Sets the default policies of readers that are made from now on.
    #[doc(alias = "set_default_datareader_qos")]
    pub fn set_default_reader_qos(&self, qos: Option<DataReaderQos>) -> DdsResult<()> {
        self.0.set_default(qos)
    }

    /// The subscriber's readers.
    pub fn readers(&self) -> Vec<InstanceHandle> {
        self.0.entities()
    }

    /// Deletes the subscriber: no more readers can be made of it. Dropping its last handle and its
    /// last reader does the same.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) while
    /// the subscriber has readers.
    #[doc(alias = "delete_subscriber")]
    pub fn delete(self) -> DdsResult<()> {
        self.0.delete("readers")
    }

    /// Finds a reader of the topic with this name and type among the subscriber's readers; the
    /// standard's `lookup_datareader`. The
    /// [builtin](crate::domain::DomainParticipant::builtin_subscriber) subscriber has readers of
    /// `DCPSParticipant`, `DCPSTopic`, `DCPSPublication` and `DCPSSubscription`.
    #[doc(alias = "lookup_datareader")]
    pub fn lookup_reader<T: TopicData>(&self, topic: &str) -> Option<DataReader<T>> {
        match self.0.is_builtin {
            true => builtin::lookup(self, topic),
            false => self.0.lookup(topic),
        }
    }

    /// Sets the listener that is called for changes of these statuses, for readers that have no
    /// listener of their own for them.
    pub fn set_listener(
        &self,
        listener: impl SubscriberListener + 'static,
        mask: impl Into<StatusMask>,
    ) -> DdsResult<()> {
        self.0.set_listener(Box::new(listener), mask.into())
    }

    /// Removes the subscriber's listener.
    pub fn clear_listener(&self) {
        self.0.listener.clear();
    }

    /// The statuses for which the listener is called; none if there is no listener. The subscriber
    /// owns the listener and does not return it. State that the application needs from the listener
    /// must be shared with it.
    pub fn listener_mask(&self) -> StatusMask {
        self.0.listener.mask()
    }

    /// Begins access to the readers' samples. If PRESENTATION has the access scope of a group, and
    /// coherent or ordered access, the readers are read together, and only between this call and
    /// [`end_access`](Self::end_access). All readers then hold what has come so far, up to the same
    /// position in their common order, and each coherent set either whole or not at all. Nothing
    /// comes in until access ends. With another PRESENTATION the call is only counted. Calls may be
    /// nested; each needs its own `end_access`.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # use dds_api::subscription::States;
    /// # use dds_api::qos::{PresentationQosPolicy, PresentationQosPolicyAccessScopeKind};
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Wind { north: f64, east: f64 }
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Heading { degrees: f64 }
    /// # fn example(participant: &DomainParticipant, wind: &Topic<Wind>, heading: &Topic<Heading>) -> DdsResult<()> {
    /// let together = PresentationQosPolicy {
    ///     access_scope: PresentationQosPolicyAccessScopeKind::Group,
    ///     coherent_access: true,
    ///     ordered_access: true,
    /// };
    /// let subscriber = participant.subscriber().presentation(together).create()?;
    /// let (winds, headings) = (subscriber.reader(wind).create()?, subscriber.reader(heading).create()?);
    ///
    /// subscriber.begin_access()?;
    /// for next in subscriber.data_readers(States::not_read())? {
    ///     match next.instance_handle() == winds.instance_handle() {
    ///         true => println!("{:?}", winds.take_next_sample()?),
    ///         false => println!("{:?}", headings.take_next_sample()?),
    ///     }
    /// }
    /// subscriber.end_access()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn begin_access(&self) -> DdsResult<()> {
        self.0.check()?;
        self.0.own.begin();
        Ok(())
    }

    /// Ends the access that the last [`begin_access`](Self::begin_access) began.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if no
    /// access was begun.
    pub fn end_access(&self) -> DdsResult<()> {
        self.0.check()?;
        self.0.own.end()
    }

    /// Readers that have samples in these states; the standard's `get_datareaders`. If PRESENTATION
    /// has ordered access with the scope of a group, a reader is listed once for each sample. The
    /// list is in the order in which the samples must be taken: one sample of each listed reader in
    /// turn. Otherwise each reader is listed once.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if the
    /// readers must be read together, and [`begin_access`](Self::begin_access) was not called.
    #[doc(alias = "get_datareaders")]
    pub fn data_readers(&self, states: States) -> DdsResult<Vec<Box<dyn AnyDataReader>>> {
        self.0.check()?;
        self.0.own.readers(states, self.qos().presentation.ordered_access)
    }

    /// Calls the listeners of the readers that have unread samples, immediately and on this thread;
    /// the standard's `notify_datareaders`, meant for a subscriber's listener for DATA_ON_READERS.
    #[doc(alias = "notify_datareaders")]
    pub fn notify_data_readers(&self) -> DdsResult<()> {
        self.0.check()?;
        self.0.own.notify();
        Ok(())
    }

    /// Enables the subscriber, and its readers if ENTITY_FACTORY says so. Does nothing if it is
    /// already enabled.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if the
    /// participant is not enabled; the error of a reader that cannot be enabled.
    pub fn enable(&self) -> DdsResult<()> {
        self.0.enable()
    }

    /// Whether the subscriber is enabled.
    pub fn is_enabled(&self) -> bool {
        self.0.lifecycle().is_enabled()
    }

    /// Deletes all readers of the subscriber, even if handles on them remain. Calls on those
    /// handles, including calls that are waiting, then return
    /// [`DdsError::AlreadyDeleted`](crate::infrastructure::DdsError::AlreadyDeleted).
    pub fn delete_contained_entities(&self) -> DdsResult<()> {
        self.0.delete_contents()
    }

    /// Makes the subscriber of a participant's builtin topics.
    pub(super) fn builtin(participant: &Arc<ParticipantInner>, qos: SubscriberQos) -> Subscriber {
        Subscriber(EntityGroup::builtin(Arc::clone(participant), qos))
    }

    pub(super) fn downgrade(&self) -> Weak<SubscriberGroup> {
        Arc::downgrade(&self.0)
    }

    pub(super) fn inner(&self) -> &Arc<ParticipantInner> {
        &self.0.participant
    }

    pub(crate) fn of(group: Arc<SubscriberGroup>) -> Subscriber {
        Subscriber(group)
    }

    /// The subscriber as the enclosing entity of its readers.
    pub(super) fn encloses(&self) -> Arc<dyn EndpointContainer> {
        Arc::clone(&self.0) as _
    }

    pub(super) fn entity(&self) -> &SubscriberGroup {
        &self.0
    }

    pub(super) fn listener(&self) -> &ListenerSlot<dyn SubscriberListener> {
        &self.0.listener
    }

    /// Common access to the subscriber's readers.
    #[inline]
    pub(super) fn group_access(&self) -> &GroupAccess {
        &self.0.own
    }

    pub(super) fn data_on_readers(&self) -> &DataOnReaders {
        &self.0.own.data_on_readers
    }

    pub(super) fn group(&self) -> u64 {
        self.0.id
    }

    pub(super) fn is_of(&self, participant: &Arc<ParticipantInner>) -> bool {
        Arc::ptr_eq(&self.0.participant, participant)
    }
}

/// Builder of a subscriber.
///
/// ```
/// # use dds_api::prelude::*;
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// let subscriber = participant.subscriber().partition(["left"]).group_data(*b"display").create()?;
/// # Ok(())
/// # }
/// ```
pub struct SubscriberBuilder(EntityGroupBuilder<SubscriberQos>);

impl SubscriberBuilder {
    pub(crate) fn new(participant: Arc<ParticipantInner>) -> Self {
        SubscriberBuilder(EntityGroupBuilder::new(participant))
    }

    /// Takes the policies from a profile. Earlier settings are discarded; later settings override
    /// the profile.
    pub fn profile(self, name: &str) -> Self {
        SubscriberBuilder(self.0.profile(name))
    }

    /// Sets all policies.
    pub fn qos(self, qos: &SubscriberQos) -> Self {
        SubscriberBuilder(self.0.all(qos))
    }

    /// PARTITION: names or patterns. The readers receive what is written in a partition that
    /// matches one of them.
    pub fn partition<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.0.qos.partition.name = names.into_iter().map(Into::into).collect();
        self
    }

    /// PRESENTATION: the order and coherence that the readers request.
    pub fn presentation(mut self, policy: PresentationQosPolicy) -> Self {
        self.0.qos.presentation = policy;
        self
    }

    /// GROUP_DATA: bytes that are announced with the subscriber.
    pub fn group_data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.qos.group_data.value = bytes.into();
        self
    }

    /// Makes the subscriber.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`](crate::infrastructure::DdsError::BadParameter) if names of
    /// partitions cannot be sent, or there is no profile of the given name.
    pub fn create(self) -> DdsResult<Subscriber> {
        self.0.create(ProfiledEntity::Subscriber).map(Subscriber)
    }
}
