//! The participant as an entity and as a container of entities: policies, enabling, looking up,
//! finding, deleting.
//!
//! Owns: the calls. Never does: keep a list of its own; the listener dispatcher has it.

use std::any::TypeId;
use std::time::{Duration, SystemTime};

use derecho_node::{WaitOutcome, clock};
use idl_cdr::DdsType;
use qos_profiles::{DomainParticipantQos, PublisherQos, SubscriberQos, TopicQos};

use super::DomainParticipant;
use super::enabling::EndpointContainer;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle, Timeout};
use crate::mapping::machine::FoundTopic;
use crate::mapping::type_identity::TypeIdentity;
use crate::topic::{Topic, TopicDescription};

/// Policies of the participant, and default policies of its entities.
///
/// ```no_run
/// use dds_api::prelude::*;
/// use dds_api::qos::PublisherQos;
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let mut qos = participant.qos();
/// qos.user_data.value = b"flight computer 2".to_vec();
/// participant.set_qos(&qos)?;
/// let mut left = PublisherQos::default();
/// left.partition.name = vec!["left".to_owned()];
/// participant.set_default_publisher_qos(Some(left))?;
/// let publisher = participant.publisher().create()?; // of partition `left`
/// # Ok(())
/// # }
/// ```
impl DomainParticipant {
    /// Policies of the participant.
    #[doc(alias = "get_qos")]
    pub fn qos(&self) -> DomainParticipantQos {
        self.inner().policies.qos()
    }

    /// Gives the participant other policies. Both USER_DATA and ENTITY_FACTORY may change at any
    /// time. ENTITY_FACTORY applies to entities that are created from then on.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if USER_DATA has more bytes than can be announced: some 12,000.
    pub fn set_qos(&self, qos: &DomainParticipantQos) -> DdsResult<()> {
        self.check_there()?;
        self.inner().set_qos(qos)
    }

    /// Policies of its publishers for which nothing is specified, if any were set.
    #[doc(alias = "get_default_publisher_qos")]
    pub fn default_publisher_qos(&self) -> Option<PublisherQos> {
        self.inner().policies.publisher.get()
    }

    /// Sets the policies of publishers that are created from now on and for which nothing is
    /// specified. `None` means those of the participant's profile, or of the standard.
    ///
    /// # Errors
    /// [`DdsError::InconsistentPolicy`] if the policies contradict each other.
    pub fn set_default_publisher_qos(&self, qos: Option<PublisherQos>) -> DdsResult<()> {
        self.inner().policies.publisher.set(qos)
    }

    /// Policies of its subscribers for which nothing is specified, if any were set.
    #[doc(alias = "get_default_subscriber_qos")]
    pub fn default_subscriber_qos(&self) -> Option<SubscriberQos> {
        self.inner().policies.subscriber.get()
    }

    /// Sets the policies of subscribers that are created from now on and for which nothing is
    /// specified. `None` means those of the participant's profile, or of the standard.
    ///
    /// # Errors
    /// [`DdsError::InconsistentPolicy`] if the policies contradict each other.
    pub fn set_default_subscriber_qos(&self, qos: Option<SubscriberQos>) -> DdsResult<()> {
        self.inner().policies.subscriber.set(qos)
    }

    /// Policies of its topics for which nothing is specified, if any were set.
    #[doc(alias = "get_default_topic_qos")]
    pub fn default_topic_qos(&self) -> Option<TopicQos> {
        self.inner().policies.topic.get()
    }

    /// Sets the policies of topics that are created from now on and for which nothing is specified,
    /// as [`TopicBuilder::qos`](crate::topic::TopicBuilder::qos) does for one topic. `None` means
    /// those of the participant's profile, or reliable and unordered.
    ///
    /// # Errors
    /// [`DdsError::InconsistentPolicy`] if the policies contradict each other.
    pub fn set_default_topic_qos(&self, qos: Option<TopicQos>) -> DdsResult<()> {
        self.inner().policies.topic.set(qos)
    }

    /// The wall clock, from which samples take their timestamps.
    #[doc(alias = "get_current_time")]
    pub fn current_time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(clock::wall(clock::now()))
    }
}

/// Enabling. An entity is created disabled if the ENTITY_FACTORY of its container says
/// `autoenable_created_entities = false`, or if the container is itself disabled. Nobody learns of
/// a disabled entity, and its calls return [`DdsError::NotEnabled`], except those that give or take
/// policies, listeners, conditions and statuses, create or look up entities, or delete them. Its
/// policies may change, also those that may not change later.
///
/// ```no_run
/// use dds_api::prelude::*;
/// use dds_api::qos::ReliabilityQosPolicyKind;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Thrust { newtons: f64 }
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let topic = participant.topic::<Thrust>("Thrust").create()?;
/// let mut qos = participant.qos();
/// qos.entity_factory.autoenable_created_entities = false;
/// participant.set_qos(&qos)?;
///
/// let writer = participant.writer(&topic).create()?;
/// let mut qos = writer.qos();
/// qos.reliability.kind = ReliabilityQosPolicyKind::BestEffort; // not once it is enabled
/// writer.set_qos(&qos)?;
/// assert!(matches!(writer.write(&Thrust::default()), Err(DdsError::NotEnabled(_))));
/// writer.enable()?;
/// # Ok(())
/// # }
/// ```
impl DomainParticipant {
    /// Enables the participant, and its contents if its ENTITY_FACTORY says so. A participant that
    /// is not enabled is a member of its domain's group, and announces nothing there. Does nothing
    /// if the participant is already enabled.
    ///
    /// # Errors
    /// The error of an entity that cannot be enabled.
    pub fn enable(&self) -> DdsResult<()> {
        self.check_there()?;
        if self.is_enabled() {
            return Ok(());
        }
        self.inner().introduce()?;
        match self.inner().enables() {
            true => self.inner().enable_contents(),
            false => Ok(()),
        }
    }

    /// Whether the participant is enabled.
    pub fn is_enabled(&self) -> bool {
        self.inner().lifecycle.is_enabled()
    }

    /// Returns an error unless the participant is enabled.
    pub(crate) fn check(&self) -> DdsResult<()> {
        self.inner().lifecycle.check("the participant")
    }

    /// Returns an error if the participant is deleted.
    pub(super) fn check_there(&self) -> DdsResult<()> {
        self.inner().lifecycle.check_there("the participant")
    }
}

/// Entities that the participant contains.
impl DomainParticipant {
    /// Whether the participant contains an entity of this name, directly or in one of its
    /// publishers and subscribers.
    pub fn contains_entity(&self, handle: InstanceHandle) -> bool {
        self.inner().contains(handle)
    }

    /// Deletes all writers, readers, publishers, subscribers and topics of the participant, even if
    /// handles on them exist. Calls on these return [`DdsError::AlreadyDeleted`] from then on,
    /// waiting calls included. Samples that readers have given out stay whole. A sample that
    /// another thread is writing at that time may arrive or not.
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// # fn stop(participant: &DomainParticipant) -> DdsResult<()> {
    /// participant.delete_contained_entities()
    /// # }
    /// ```
    pub fn delete_contained_entities(&self) -> DdsResult<()> {
        self.check_there()?;
        self.inner().delete_contents();
        Ok(())
    }

    /// Returns a topic of this name that this participant has, or a
    /// [part](DomainParticipant::content_filtered_topic) of a topic: the standard's
    /// `lookup_topicdescription`. `None` if there is none, or if it has another type.
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// use dds_api::topic::ContentFilteredTopic;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { altitude: f64 }
    /// # fn look(participant: &DomainParticipant) -> DdsResult<()> {
    /// let tracks: Option<Topic<Track>> = participant.lookup_topic("Tracks");
    /// let low: Option<ContentFilteredTopic<Track>> = participant.lookup_topic("Low");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "lookup_topicdescription")]
    pub fn lookup_topic<D: TopicDescription>(&self, name: &str) -> Option<D> {
        D::look_up(self.inner(), name)
    }

    /// Returns a topic of this name: one that this participant has, or else one that another
    /// participant of the domain has, with its policies. If there is none, waits until a
    /// participant creates one.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if there is a topic of another type, and none whose samples
    /// can be read as this type; [`DdsError::Timeout`] if no topic is found in time.
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { altitude: f64 }
    /// # fn find(participant: &DomainParticipant) -> DdsResult<()> {
    /// let tracks = participant.find_topic::<Track>("Tracks", Timeout::secs(5))?;
    /// let reader = participant.reader(&tracks).create()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_topic<T: DdsType>(
        &self,
        name: &str,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<Topic<T>> {
        let (inner, identity) = (self.inner(), TypeIdentity::of::<T>(&()));
        self.find(name, timeout.into(), || {
            if let Some(topic) = self.lookup_topic::<Topic<T>>(name).filter(Topic::is_enabled) {
                return Ok(Some(topic));
            }
            if let Some(other) = inner.other_type_of(name, TypeId::of::<T>()) {
                return Err(DdsError::PreconditionNotMet(format!(
                    "topic `{name}` has type `{other}` here, not the requested `{}`: find the \
                     topic by its own type",
                    identity.name
                )));
            }
            match inner.engine.act(|machine, _, _| machine.find_topic(name, &identity)) {
                FoundTopic::Fits(data) => Topic::of_others(inner, (), *data).map(Some),
                FoundTopic::Misfits(why) => Err(DdsError::PreconditionNotMet(why)),
                FoundTopic::None => Ok(None),
            }
        })
    }

    /// Returns what `search` finds of a topic of this name, as soon as it finds anything.
    pub(crate) fn find<T>(
        &self,
        name: &str,
        timeout: Timeout,
        search: impl Fn() -> DdsResult<Option<T>>,
    ) -> DdsResult<T> {
        let (deadline, inner) = (timeout.deadline(), self.inner());
        let (engine, membership) = (&inner.engine, &inner.membership);
        loop {
            self.check()?;
            // Read before the search, so that no turn in between is missed.
            let turns = engine.counters().busy_turns();
            if let Some(found) = search()? {
                return Ok(found);
            }
            if membership.is_out_for_good() {
                return Err(membership.error());
            }
            let ready = || {
                engine.counters().busy_turns() != turns
                    || membership.is_out_for_good()
                    || inner.lifecycle.is_deleted()
            };
            match engine.wait(deadline, ready) {
                WaitOutcome::Ready => {}
                WaitOutcome::Stopped => self.check()?,
                WaitOutcome::TimedOut if membership.is_out() => return Err(membership.error()),
                WaitOutcome::TimedOut => {
                    return Err(DdsError::Timeout(format!(
                        "no participant has a topic `{name}` after {timeout}: {}",
                        inner.why_nobody()
                    )));
                }
            }
        }
    }
}
