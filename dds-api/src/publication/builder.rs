//! The builder of a writer: its policies and its memory.
//!
//! Owns: the requested settings of a writer. Never does: write samples.

use std::sync::{Arc, OnceLock};

use idl_xtypes::TopicData;
use qos_profiles::{
    DataRepresentationId, DataWriterQos, DestinationOrderQosPolicyKind, Duration, EntityKind,
    EntityQos, OwnershipQosPolicyKind, PolicyId, PublisherQos, ReliabilityQosPolicyKind,
    ResourceLimitsQosPolicy,
};

use super::enabling::WriterDraft;
use super::instances::RegisteredInstances;
use super::publisher::Publisher;
use super::writer::{DataWriter, WriterCore};
use crate::domain::enabling::EnablingState;
use crate::domain::{ParticipantInner, ProfileBinding, default_writer_qos};
use crate::infrastructure::listener::ListenerSlot;
use crate::infrastructure::{DataWriterListener, DdsError, DdsResult, StatusMask, Timeout};
use crate::mapping::membership_state::MembershipState;
use crate::mapping::policies;
use crate::mapping::record::is_plain;
use crate::mapping::shares::{EndpointRefusal, WriterShared};
use crate::subscription::not_with_builtin;
use crate::topic::{PolicyOwner, Topic};

/// Default memory of a writer in bytes.
const DEFAULT_MEMORY: usize = 1 << 20;
/// Default number of samples in flight of a writer. Corresponds to an order ring of 8192 entries,
/// of which an atomic topic reserves an eighth for null messages.
const DEFAULT_IN_FLIGHT: usize = 7168;

/// Builder of a writer. By default the writer takes its policies from the QoS profile with which
/// its topic was created, otherwise from its topic.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant, topic: &Topic<Track>) -> DdsResult<()> {
/// let writer = participant.writer(topic).memory(8 << 20).max_blocking_time(Timeout::secs(1)).create()?;
/// # Ok(())
/// # }
/// ```
pub struct DataWriterBuilder<T: TopicData> {
    participant: Arc<ParticipantInner>,
    topic: Topic<T>,
    publisher: Option<Publisher>,
    qos: DataWriterQos,
    /// The profile from which the policies are taken, if any.
    profile_binding: Option<ProfileBinding>,
    wrong: Option<DdsError>,
    memory: usize,
    in_flight: usize,
    largest: usize,
    listener: ListenerSlot<dyn DataWriterListener<T>>,
}

impl<T: TopicData> DataWriterBuilder<T> {
    pub(crate) fn new(participant: Arc<ParticipantInner>, topic: Topic<T>) -> Self {
        let (qos, profile) = (default_writer_qos(&topic.qos()), topic.policies().profile.clone());
        let builder = DataWriterBuilder {
            participant,
            topic,
            publisher: None,
            qos,
            profile_binding: None,
            wrong: None,
            memory: DEFAULT_MEMORY,
            in_flight: DEFAULT_IN_FLIGHT,
            largest: if is_plain::<T>() { size_of::<T>() } else { 0 },
            listener: ListenerSlot::default(),
        };
        match profile {
            Some(profile) => builder.follow(&profile, true),
            None => builder,
        }
    }

    /// Makes the writer part of this publisher.
    pub(super) fn within(mut self, publisher: Publisher) -> Self {
        if let Some(qos) = publisher.default_writer_qos() {
            self = self.qos(&qos);
        }
        self.publisher = Some(publisher);
        self
    }

    /// Sets the listener of the writer before the writer is enabled, so that the listener misses no
    /// change of these statuses. [`set_listener`](DataWriter::set_listener) replaces it later.
    pub fn listener(
        self,
        listener: impl DataWriterListener<T> + 'static,
        mask: impl Into<StatusMask>,
    ) -> Self {
        self.listener.set(Box::new(listener), mask.into());
        self
    }

    /// Sets all policies. The offered DURABILITY is limited to the durability of the topic.
    pub fn qos(mut self, qos: &DataWriterQos) -> Self {
        (self.profile_binding, self.wrong) = (None, None);
        self.qos.clone_from(qos);
        self
    }

    /// Takes the policies from a QoS profile. Of several policy sets in the profile, the one whose
    /// filter matches the topic's name applies. Discards settings made before this call; settings
    /// made later override the profile. A profile without a policy set for writers yields the
    /// policies of the topic. See
    /// [`ParticipantConfig::qos_files`](crate::domain::ParticipantConfig::qos_files).
    pub fn profile(self, name: &str) -> Self {
        self.follow(name, false)
    }

    fn follow(mut self, profile: &str, by_topic: bool) -> Self {
        let (profiles, kind) = (&self.participant.profiles, EntityKind::DataWriter);
        match profiles.of_endpoint(kind, profile, self.topic.policies(), by_topic) {
            Ok(given) => {
                if let EntityQos::DataWriter(qos) = &given.qos {
                    self.qos.clone_from(qos);
                }
                if let Some(settings) = &given.settings {
                    self.memory = settings.number("squall.writer.memory").unwrap_or(self.memory);
                    self.in_flight =
                        settings.number("squall.writer.in_flight").unwrap_or(self.in_flight);
                    self.largest =
                        settings.number("squall.writer.max_sample_size").unwrap_or(self.largest);
                }
                self.profile_binding = Some(ProfileBinding::new(profile, by_topic, given));
                self.wrong = None;
            }
            Err(wrong) => self.wrong = Some(wrong),
        }
        self
    }

    /// OWNERSHIP exclusive, with this strength: of several writers of an instance the strongest one
    /// owns the instance. Readers must request [exclusive
    /// ownership](crate::subscription::DataReaderBuilder::exclusive_ownership).
    pub fn ownership_strength(mut self, strength: i32) -> Self {
        self.qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
        self.qos.ownership_strength.value = strength;
        self
    }

    /// TRANSPORT_PRIORITY: samples of a higher priority are sent and received first, and
    /// listeners of their readers are called first. The default is 0, or the value set on
    /// [the topic](crate::topic::TopicBuilder::transport_priority).
    pub fn transport_priority(mut self, priority: i32) -> Self {
        self.qos.transport_priority.value = priority;
        self
    }

    /// WRITER_DATA_LIFECYCLE: whether unregistering an instance also disposes it. The default
    /// is `true`.
    pub fn autodispose_unregistered_instances(mut self, autodispose: bool) -> Self {
        self.qos.writer_data_lifecycle.autodispose_unregistered_instances = autodispose;
        self
    }

    /// DESTINATION_ORDER by source timestamp, for readers that [request
    /// it](crate::subscription::DataReaderBuilder::by_source_timestamp).
    pub fn by_source_timestamp(mut self) -> Self {
        self.qos.destination_order.kind = DestinationOrderQosPolicyKind::BySourceTimestamp;
        self
    }

    /// DATA_REPRESENTATION: the representation in which the writer encodes samples. Readers that do
    /// not accept that representation receive nothing. The default is XCDR2 if the type, or a type
    /// that it contains, is appendable or mutable, otherwise XCDR1. Plain samples are not encoded
    /// and fit any representation.
    pub fn representation(mut self, representation: DataRepresentationId) -> Self {
        self.qos.representation.value = vec![representation];
        self
    }

    /// USER_DATA: bytes that are announced with the writer.
    pub fn user_data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.qos.user_data.value = bytes.into();
        self
    }

    /// RELIABILITY best effort: matches only
    /// [best-effort](crate::subscription::DataReaderBuilder::best_effort) readers. On an unordered
    /// topic the writer waits for no reader.
    pub fn best_effort(mut self) -> Self {
        self.qos.reliability.kind = ReliabilityQosPolicyKind::BestEffort;
        self
    }

    /// RELIABILITY reliable: the writer waits for readers that request reliability. This is the
    /// default unless the topic is best effort.
    pub fn reliable(mut self) -> Self {
        self.qos.reliability.kind = ReliabilityQosPolicyKind::Reliable;
        self
    }

    /// Sets the size in bytes of the memory for samples that readers have not yet taken (1 MiB
    /// by default).
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the maximum number of samples that readers have not yet received (7168 by default).
    pub fn in_flight(mut self, samples: usize) -> Self {
        self.in_flight = samples;
        self
    }

    /// RESOURCE_LIMITS: the maximum number of samples, in total and per instance, that readers have
    /// not received yet, and the maximum number of instances. A write above a sample limit waits
    /// for up to max_blocking_time. A write of an instance above the instance limit is
    /// [refused](DdsError::OutOfResources) until another instance is unregistered. Samples in a
    /// coherent set count only towards the instance limit.
    pub fn resource_limits(mut self, limits: ResourceLimitsQosPolicy) -> Self {
        self.qos.resource_limits = limits;
        self
    }

    /// Sets the maximum size of a sample in bytes, and enlarges the memory if necessary. The
    /// default is a sixteenth of the memory, and at least one sample of a plain type.
    pub fn max_sample_size(mut self, bytes: usize) -> Self {
        self.largest = bytes;
        self
    }

    /// RELIABILITY.max_blocking_time: maximum time for which a write waits for readers to
    /// make room.
    pub fn max_blocking_time(mut self, time: impl Into<Timeout>) -> Self {
        self.qos.reliability.max_blocking_time = match time.into().duration() {
            Some(time) => time.into(),
            None => Duration::INFINITE,
        };
        self
    }

    /// Creates the writer and announces it, unless its publisher or participant
    /// [defers enabling](crate::domain::DomainParticipant::enable).
    ///
    /// # Errors
    /// [`DdsError::InconsistentPolicy`] if the policies contradict each other or the topic;
    /// [`DdsError::BadParameter`] if the named profile does not exist.
    pub fn create(self) -> DdsResult<DataWriter<T>> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let DataWriterBuilder { participant, topic, publisher, mut qos, .. } = self;
        let DataWriterBuilder { memory, in_flight, largest, profile_binding: following, .. } = self;
        let listener = self.listener;
        if !topic.entity().is_announced() {
            return Err(not_with_builtin("this topic"));
        }
        if !topic.is_of(&participant)
            || publisher.as_ref().is_some_and(|it| !it.is_of(&participant))
        {
            return Err(DdsError::PreconditionNotMet(format!(
                "topic `{}` belongs to another participant: create the topic from the participant \
                 that writes it",
                topic.name()
            )));
        }
        participant.lifecycle.check_there("the participant")?;
        topic.check_there()?;
        publisher.iter().try_for_each(|publisher| publisher.entity().check_there())?;
        let group = publisher.as_ref().map_or_else(policies::publisher, Publisher::qos);
        topic.policies().settle_representation(PolicyOwner::Writer, &mut qos.representation)?;
        check(&topic, &qos, &group)?;
        let mark = topic.identity().mark();
        let shared = Arc::new(WriterShared::new(Arc::clone(&participant.liveliness)));
        let of = publisher
            .as_ref()
            .map_or_else(|| Arc::clone(&participant) as _, Publisher::as_container);
        let draft = WriterDraft { qos, profile_binding: following, memory, in_flight, largest };
        let provisional = participant.provisional();
        let enabling = EnablingState::new("a writer", of, provisional, topic.entity(), draft);
        let writer = DataWriter::new(WriterCore {
            participant,
            topic,
            shared,
            enabling,
            mark,
            registered: RegisteredInstances::default(),
            publisher,
            status_condition: OnceLock::new(),
            listener,
        });
        if writer.listener.mask() != StatusMask::NONE {
            writer.participant.start_listeners()?;
        }
        if writer.enabling.is_at_once() {
            writer.enable()?;
        }
        Ok(writer)
    }
}

/// Checks a writer's policies against each other, against its publisher's policies and against
/// its topic.
pub(super) fn check<T: TopicData>(
    topic: &Topic<T>,
    qos: &DataWriterQos,
    publisher: &PublisherQos,
) -> DdsResult<()> {
    policies::check_data(PolicyId::UserData, &qos.user_data.value)?;
    let wrong = qos.inconsistencies().first().map(ToString::to_string);
    let durability = policies::check_durability(topic.level(), qos.durability.kind);
    let wrong = wrong.or(durability.err()).or(topic.wrong_partition(&publisher.partition));
    match wrong {
        Some(wrong) => {
            Err(DdsError::InconsistentPolicy(format!("a writer of `{}`: {wrong}", topic.name())))
        }
        None => Ok(()),
    }
}

/// Error for an endpoint whose creation was refused.
pub(crate) fn refused(
    refusal: &EndpointRefusal,
    membership: &MembershipState,
    what: &str,
    topic: &str,
) -> DdsError {
    match refusal {
        EndpointRefusal::Link(error) => {
            DdsError::OutOfResources(format!("no memory for a {what} of `{topic}`: {error}"))
        }
        EndpointRefusal::Mismatch(why) => DdsError::PreconditionNotMet(why.clone()),
        EndpointRefusal::TooLarge(why) => {
            DdsError::BadParameter(format!("a {what} of `{topic}`: {why}"))
        }
        EndpointRefusal::Isolated => membership.error(),
    }
}
