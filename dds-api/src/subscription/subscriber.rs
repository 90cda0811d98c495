//! The subscriber: readers that share PRESENTATION, PARTITION and GROUP_DATA.
//!
//! Owns: those policies, and the readers' default ones. Never does: read.

use std::sync::{Arc, Weak};

use idl_xtypes::TopicData;
use qos_profiles::{DataReaderQos, PresentationQosPolicy, SubscriberQos};

use super::data_on_readers::DataOnReaders;
use super::{DataReader, DataReaderBuilder, GroupAccess, States, builtin};
use crate::domain::enabling::Encloses;
use crate::domain::{DomainParticipant, Draft, EntityGroup, Inner, Shared};
use crate::infrastructure::listener::Slot;
use crate::infrastructure::{
    AnyDataReader, DdsResult, InstanceHandle, StatusMask, SubscriberListener,
};
use crate::topic::TopicDescription;

/// Readers that share policies. Clones are the same subscriber; a reader keeps its subscriber. See
/// [`Publisher`](crate::publication::Publisher) for an example.
///
/// A reader needs none of its own: [`DomainParticipant::reader`](crate::domain::DomainParticipant::reader) makes one that
/// belongs to no partition.
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

/// What its handles share.
pub(crate) type SubscriberGroup = EntityGroup<SubscriberQos, DataReaderQos, dyn SubscriberListener>;

impl Subscriber {
    /// Its name in the domain.
    pub fn instance_handle(&self) -> InstanceHandle {
        self.0.handle()
    }

    /// The participant that it belongs to.
    pub fn participant(&self) -> DomainParticipant {
        DomainParticipant::of(Arc::clone(&self.0.participant))
    }

    /// Its policies.
    pub fn qos(&self) -> SubscriberQos {
        self.0.qos()
    }

    /// Gives it other policies.
    ///
    /// # Errors
    /// [`DdsError::ImmutablePolicy`](crate::infrastructure::DdsError::ImmutablePolicy) if PRESENTATION is another one, or PARTITION and a reader's topic is
    /// [sharded](crate::topic::TopicBuilder::sharded_by_partition).
    pub fn set_qos(&self, qos: &SubscriberQos) -> DdsResult<()> {
        self.0.set_qos(qos)
    }

    /// A reader of a topic, or of a part of it.
    pub fn reader<D: TopicDescription>(&self, topic: &D) -> DataReaderBuilder<D::Data> {
        let participant = Arc::clone(&self.0.participant);
        let builder = DataReaderBuilder::of(participant, topic);
        builder.within(self.clone())
    }

    /// The policies of its readers of which nothing else is said; none: those of their topics, and all samples are kept until
    /// they are taken.
    pub fn default_reader_qos(&self) -> Option<DataReaderQos> {
        self.0.default()
    }

    /// Sets the policies of readers that are made from now on and of which nothing else is said.
    pub fn set_default_reader_qos(&self, qos: Option<DataReaderQos>) -> DdsResult<()> {
        self.0.set_default(qos)
    }

    /// Its readers.
    pub fn readers(&self) -> Vec<InstanceHandle> {
        self.0.entities()
    }

    /// Deletes it: no reader is made of it any more. Dropping the last handle on it and its last reader does the same.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) as long as it has readers.
    pub fn delete(self) -> DdsResult<()> {
        self.0.delete("readers")
    }

    /// A reader of it of the topic of this name and type, if there is one; the standard's `lookup_datareader`. The
    /// [builtin](crate::domain::DomainParticipant::builtin_subscriber) one has readers of `DCPSParticipant`, `DCPSTopic`,
    /// `DCPSPublication` and `DCPSSubscription`.
    #[doc(alias = "lookup_datareader")]
    pub fn lookup_reader<T: TopicData>(&self, topic: &str) -> Option<DataReader<T>> {
        match self.0.is_builtin {
            true => builtin::lookup(self, topic),
            false => self.0.lookup(topic),
        }
    }

    /// Has this called for changes of these statuses of its readers that have no listener of their own for them.
    pub fn set_listener(
        &self,
        listener: impl SubscriberListener + 'static,
        mask: impl Into<StatusMask>,
    ) -> DdsResult<()> {
        self.0.set_listener(Box::new(listener), mask.into())
    }

    /// Has no listener for all its readers called any more.
    pub fn clear_listener(&self) {
        self.0.listener.clear();
    }

    /// The statuses for which its listener is called; none if it has none. The listener itself is the entity's own: what is to be
    /// asked of it, it shares.
    pub fn listener_mask(&self) -> StatusMask {
        self.0.listener.mask()
    }

    /// Begins to access its readers' samples. If its PRESENTATION has the access scope of a group, and asks for coherence or order,
    /// its readers are read together, and only between this and [`end_access`](Self::end_access): what has come so far is in all of
    /// them, up to the same place in their common order, each coherent set whole or not at all, and nothing comes in
    /// between. Otherwise it does no more than be counted. It may be begun several times, and is to be ended as often.
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

    /// Ends what [`begin_access`](Self::begin_access) began last.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if nothing is begun.
    pub fn end_access(&self) -> DdsResult<()> {
        self.0.check()?;
        self.0.own.end()
    }

    /// Its readers that have samples in these states; the standard's `get_datareaders`. If its PRESENTATION has ordered access
    /// with the scope of a group, a reader is there once for each sample, and the list is in the order in which the samples are
    /// to be taken: one of the reader that is next, each time. Otherwise each is there once.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if its readers are read together,
    /// and [`begin_access`](Self::begin_access) was not called.
    #[doc(alias = "get_datareaders")]
    pub fn data_readers(&self, states: States) -> DdsResult<Vec<Box<dyn AnyDataReader>>> {
        self.0.check()?;
        self.0.own.readers(states, self.qos().presentation.ordered_access)
    }

    /// Calls the listeners of those of its readers that have samples which were not read, here and now; the standard's
    /// `notify_datareaders`, for a listener of the subscriber that is told of data on its readers.
    #[doc(alias = "notify_datareaders")]
    pub fn notify_data_readers(&self) -> DdsResult<()> {
        self.0.check()?;
        self.0.own.notify();
        Ok(())
    }

    /// Enables it, and its readers if its ENTITY_FACTORY says so. Once it is enabled, nothing happens.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if its participant is not enabled; the
    /// error of a reader that cannot be.
    pub fn enable(&self) -> DdsResult<()> {
        self.0.enable()
    }

    /// Whether it is enabled.
    pub fn is_enabled(&self) -> bool {
        self.0.lifecycle().is_enabled()
    }

    /// Deletes its readers, whoever has handles on them: their calls say
    /// [`DdsError::AlreadyDeleted`](crate::infrastructure::DdsError::AlreadyDeleted) from then on, those that wait included.
    pub fn delete_contained_entities(&self) -> DdsResult<()> {
        self.0.delete_contents()
    }

    /// The one of a participant's builtin topics.
    pub(super) fn builtin(participant: &Arc<Inner>, qos: SubscriberQos) -> Subscriber {
        Subscriber(EntityGroup::builtin(Arc::clone(participant), qos))
    }

    pub(super) fn downgrade(&self) -> Weak<SubscriberGroup> {
        Arc::downgrade(&self.0)
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0.participant
    }

    pub(crate) fn of(group: Arc<SubscriberGroup>) -> Subscriber {
        Subscriber(group)
    }

    /// As what its entities belong to.
    pub(super) fn encloses(&self) -> Arc<dyn Encloses> {
        Arc::clone(&self.0) as _
    }

    pub(super) fn entity(&self) -> &SubscriberGroup {
        &self.0
    }

    pub(super) fn listener(&self) -> &Slot<dyn SubscriberListener> {
        &self.0.listener
    }

    /// How its readers are read together.
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

    pub(super) fn is_of(&self, participant: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.0.participant, participant)
    }
}

/// A subscriber that is being made.
///
/// ```
/// # use dds_api::prelude::*;
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// let subscriber = participant.subscriber().partition(["left"]).group_data(*b"display").create()?;
/// # Ok(())
/// # }
/// ```
pub struct SubscriberBuilder(Draft<SubscriberQos>);

impl SubscriberBuilder {
    pub(crate) fn new(participant: Arc<Inner>) -> Self {
        SubscriberBuilder(Draft::new(participant))
    }

    /// Its policies by a profile. What is said of it before is forgotten, what is said later comes before the profile.
    pub fn profile(self, name: &str) -> Self {
        SubscriberBuilder(self.0.profile(name))
    }

    /// All its policies.
    pub fn qos(self, qos: &SubscriberQos) -> Self {
        SubscriberBuilder(self.0.all(qos))
    }

    /// PARTITION: its readers get what is written in one of these, each a name or a pattern.
    pub fn partition<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.0.qos.partition.name = names.into_iter().map(Into::into).collect();
        self
    }

    /// PRESENTATION: what is requested of order and coherence.
    pub fn presentation(mut self, policy: PresentationQosPolicy) -> Self {
        self.0.qos.presentation = policy;
        self
    }

    /// GROUP_DATA: bytes that go with it.
    pub fn group_data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.qos.group_data.value = bytes.into();
        self
    }

    /// Makes the subscriber.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`](crate::infrastructure::DdsError::BadParameter) if names of partitions cannot be sent, or there is no profile of the name that was said.
    pub fn create(self) -> DdsResult<Subscriber> {
        self.0.create(Shared::Subscriber).map(Subscriber)
    }
}
