//! Builder of a data reader.
//!
//! Owns: the policies requested for the reader. Never does: read anything.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use derecho_core::link::Link;
use idl_xtypes::TopicData;
use qos_profiles::{
    DataReaderQos, DataRepresentationId, DestinationOrderQosPolicyKind, DurabilityQosPolicyKind,
    EntityKind, EntityQos, HistoryQosPolicyKind, OwnershipQosPolicyKind, PresentationQosPolicy,
    PresentationQosPolicyAccessScopeKind, ReaderDataLifecycleQosPolicy, ReliabilityQosPolicyKind,
    ResourceLimitsQosPolicy, SubscriberQos, TypeConsistencyEnforcementQosPolicy,
};

use super::cache::CacheSettings;
use super::data_available::DataAvailable;
use super::enabling::{ReaderDraft, check};
use super::intake::ReaderCore;
use super::lending::DEFAULT_PERCENT;
use super::not_with_builtin;
use super::queues::Queues;
use super::reader::DataReader;
use super::subscriber::Subscriber;
use super::unqueued::UnqueuedSamples;
use crate::domain::enabling::EnablingState;
use crate::domain::{ParticipantInner, ProfileBinding, default_reader_qos};
use crate::infrastructure::listener::ListenerSlot;
use crate::infrastructure::this_thread::ThreadLock;
use crate::infrastructure::{DataReaderListener, DdsError, DdsResult, StatusMask};
use crate::mapping::builtin::DiscoverySink;
use crate::mapping::shares::ReaderShared;
use crate::topic::{JoinedTopics, PolicyOwner, SharedFilter, Topic, TopicDescription, TopicOrigin};

/// Builder of a data reader.
///
/// By default the reader has the standard's policies, except those that its topic sets. The
/// standard's reader is best effort and keeps the last sample of each instance. The reader of an
/// [atomic](crate::topic::TopicBuilder::atomic) topic gets all samples in the topic's order,
/// because the topic says so. [`reliable_all`](Self::reliable_all) requests that of any topic.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant, topic: &Topic<Track>) -> DdsResult<()> {
/// let picture = participant.reader(topic).exclusive_ownership().create()?;
/// let all = participant.reader(topic).reliable_all().create()?;
/// # Ok(())
/// # }
/// ```
pub struct DataReaderBuilder<T: TopicData> {
    participant: Arc<ParticipantInner>,
    topic: Topic<T>,
    subscriber: Option<Subscriber>,
    qos: DataReaderQos,
    /// The profile that the policies come from, if any.
    profile_binding: Option<ProfileBinding>,
    wrong: Option<DdsError>,
    /// PRESENTATION and PARTITION as the reader requests them of writers.
    group: SubscriberQos,
    /// PRESENTATION as the cache applies it.
    presentation: PresentationQosPolicy,
    filter: Option<Arc<SharedFilter>>,
    /// The listener that receives what discovery reports, if the topic is a builtin topic.
    sink: Option<Arc<dyn DiscoverySink>>,
    /// The topics that are joined, if the topic is a multi-topic.
    joined: Option<Arc<JoinedTopics>>,
    /// The value of `max_held_percent`, if one was given.
    max_held_percent: Option<u8>,
    listener: ListenerSlot<dyn DataReaderListener<T>>,
}

impl<T: TopicData> DataReaderBuilder<T> {
    /// Makes a builder for a topic, a filtered topic, or several joined topics.
    pub(crate) fn of(
        participant: Arc<ParticipantInner>,
        description: &impl TopicDescription<Data = T>,
    ) -> Self {
        let mut builder = DataReaderBuilder::new(participant, description.topic());
        (builder.filter, builder.joined) = (description.filter(), description.joined());
        builder
    }

    /// Makes a builder for a topic.
    pub(super) fn new(participant: Arc<ParticipantInner>, topic: &Topic<T>) -> Self {
        let topic = topic.clone();
        let (qos, profile) = (default_reader_qos(&topic.qos()), topic.policies().profile.clone());
        let presentation = match topic.level().is_ordered() {
            true => in_order(),
            false => PresentationQosPolicy::default(),
        };
        let (subscriber, group) = (None, SubscriberQos::default());
        let builder = DataReaderBuilder {
            participant,
            topic,
            subscriber,
            qos,
            profile_binding: None,
            wrong: None,
            group,
            presentation,
            filter: None,
            sink: None,
            joined: None,
            max_held_percent: None,
            listener: ListenerSlot::default(),
        };
        match profile {
            Some(profile) => builder.follow(&profile, true),
            None => builder,
        }
    }

    /// Makes a reader that provides another reader with samples, and requests what that one does.
    pub(super) fn providing(mut self, qos: &DataReaderQos) -> Self {
        self.presentation = in_order();
        self.with(|own| {
            own.history.clone_from(&qos.history);
            own.reliability.clone_from(&qos.reliability);
        })
    }

    /// Makes the reader belong to this subscriber.
    pub(super) fn within(mut self, subscriber: Subscriber) -> Self {
        self.group = subscriber.qos();
        if self.group.presentation != PresentationQosPolicy::default() {
            self.presentation = self.group.presentation.clone();
        }
        if let Some(qos) = subscriber.default_reader_qos() {
            self = self.qos(&qos);
        }
        self.subscriber = Some(subscriber);
        self
    }

    /// DURABILITY volatile: the reader receives no samples that were written before it came, even
    /// if the topic [keeps](crate::topic::TopicBuilder::transient_local) them.
    pub fn volatile(mut self) -> Self {
        self.qos.durability.kind = DurabilityQosPolicyKind::Volatile;
        self
    }

    /// RELIABILITY best effort. On an unordered topic no writer waits for such a reader. Samples
    /// for which the reader is too slow are lost, and
    /// [`sample_lost_status`](DataReader::sample_lost_status) counts them. The samples it does
    /// receive are complete and in their writer's order. On an ordered topic it receives all
    /// samples, as a reliable reader does.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Attitude { pitch: f64 }
    /// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
    /// let topic = participant.topic::<Attitude>("Attitude").create()?;
    /// let display = participant.reader(&topic).best_effort().keep_last(1).create()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn best_effort(mut self) -> Self {
        self.qos.reliability.kind = ReliabilityQosPolicyKind::BestEffort;
        self
    }

    /// RELIABILITY reliable, HISTORY keep-all, and the samples in their order across instances: the
    /// application gets every sample that is written while the reader is matched. A reader that
    /// takes slowly delays its writers once their memory is full.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Command { code: u32 }
    /// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
    /// let topic = participant.topic::<Command>("Commands").create()?;
    /// let commands = participant.reader(&topic).reliable_all().create()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reliable_all(mut self) -> Self {
        if self.group.presentation == PresentationQosPolicy::default() {
            self.presentation = in_order();
        }
        self.reliable().keep_all()
    }

    /// RELIABILITY reliable: the reader receives all samples, and its writers wait for it.
    /// Best-effort writers do not offer this. The default is best effort, unless the topic is
    /// reliable. HISTORY determines how many of the samples the reader keeps until they are taken.
    pub fn reliable(mut self) -> Self {
        self.qos.reliability.kind = ReliabilityQosPolicyKind::Reliable;
        self
    }

    /// Sets the listener of the reader before the reader is enabled, so that the listener misses no
    /// change of these statuses. [`set_listener`](DataReader::set_listener) replaces it later.
    ///
    /// ```
    /// # use dds_api::infrastructure::{DataReaderListener, StatusKind};
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # struct Bell;
    /// # impl DataReaderListener<Track> for Bell {}
    /// # fn example(participant: &DomainParticipant, topic: &Topic<Track>) -> DdsResult<()> {
    /// let reader = participant.reader(topic).listener(Bell, StatusKind::SubscriptionMatched).create()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn listener(
        self,
        listener: impl DataReaderListener<T> + 'static,
        mask: impl Into<StatusMask>,
    ) -> Self {
        self.listener.set(Box::new(listener), mask.into());
        self
    }

    /// Sets all policies. The reader is matched with writers that offer what these policies
    /// request, and the cache follows them.
    pub fn qos(mut self, qos: &DataReaderQos) -> Self {
        (self.profile_binding, self.wrong) = (None, None);
        self.qos = qos.clone();
        self.presentation = self.group.presentation.clone();
        self
    }

    /// Takes the policies from a profile. If the profile has several sets of policies, the set
    /// whose filter matches the topic's name applies. Earlier settings are discarded; later
    /// settings override the profile. If the profile has no reader policies, the reader has the
    /// policies of its topic. PRESENTATION is that of the [`Subscriber`]; without a subscriber the
    /// reader gives samples in their order. See
    /// [`ParticipantConfig::qos_files`](crate::domain::ParticipantConfig::qos_files).
    pub fn profile(self, name: &str) -> Self {
        self.follow(name, false)
    }

    fn follow(mut self, profile: &str, by_topic: bool) -> Self {
        let (profiles, kind) = (&self.participant.profiles, EntityKind::DataReader);
        match profiles.of_endpoint(kind, profile, self.topic.policies(), by_topic) {
            Ok(given) => {
                if let EntityQos::DataReader(qos) = &given.qos {
                    self.qos.clone_from(qos);
                }
                if let Some(settings) = &given.settings {
                    self.max_held_percent =
                        settings.number("squall.reader.max_held_percent").or(self.max_held_percent);
                }
                self.profile_binding = Some(ProfileBinding::new(profile, by_topic, given));
                self.wrong = None;
            }
            Err(error) => self.wrong = Some(error),
        }
        self
    }

    /// DATA_REPRESENTATION: the reader accepts samples in any of these
    /// representations. By default it accepts only the [default representation
    /// of writers](crate::publication::DataWriterBuilder::representation).
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// use dds_api::qos::DataRepresentationId::{Xcdr, Xcdr2};
    ///
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { callsign: String }
    /// # fn example(participant: &DomainParticipant, topic: &Topic<Track>) -> DdsResult<()> {
    /// let reader = participant.reader(topic).representations([Xcdr2, Xcdr]).create()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn representations(
        mut self,
        representations: impl IntoIterator<Item = DataRepresentationId>,
    ) -> Self {
        self.qos.representation.value = representations.into_iter().collect();
        self
    }

    /// USER_DATA: bytes that are announced with the reader.
    pub fn user_data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.qos.user_data.value = bytes.into();
        self
    }

    /// DURABILITY that the reader requests.
    pub fn durability(mut self, kind: DurabilityQosPolicyKind) -> Self {
        self.qos.durability.kind = kind;
        self
    }

    fn with(mut self, change: impl FnOnce(&mut DataReaderQos)) -> Self {
        change(&mut self.qos);
        self
    }

    /// HISTORY keep-last: keeps the last `depth` samples of each instance. The samples are copied
    /// out of their writers' memory. A thread of the participant does so even if the application
    /// does not read, so the samples hold up no writer.
    pub fn keep_last(self, depth: u32) -> Self {
        self.with(|qos| {
            qos.history.kind = HistoryQosPolicyKind::KeepLast;
            qos.history.depth = depth;
        })
    }

    /// HISTORY keep-all: keeps all samples until they are taken.
    pub fn keep_all(self) -> Self {
        self.with(|qos| qos.history.kind = HistoryQosPolicyKind::KeepAll)
    }

    /// RESOURCE_LIMITS: the maximum that the cache holds. A sample for which
    /// there is no room waits, and holds up its writer, until something is taken:
    /// see [`DataReader::sample_rejected_status`].
    pub fn resource_limits(self, limits: ResourceLimitsQosPolicy) -> Self {
        self.with(|qos| qos.resource_limits = limits)
    }

    /// Maximum share of each writer's memory, in percent, that samples given out by this reader and
    /// not yet dropped may hold. The default is 25. At least two of the chunks of that memory may
    /// be held, if it has more. Samples given out beyond the limit are copies, so an application
    /// that holds samples holds up no writer; [`copied_samples`](DataReader::copied_samples) counts
    /// the copies. With 0 all samples are copies, with 100 none is. In a domain that a UNIX group
    /// shares, the default is 0 ([`copied`](Self::copied)).
    ///
    /// Each reading participant may hold this share. If several participants read, a smaller share
    /// leaves more memory to the writer.
    pub fn max_held_percent(mut self, percent: u8) -> Self {
        self.max_held_percent = Some(percent);
        self
    }

    /// Gives out copies only, for writers whose processes the application does not trust. Each
    /// sample is copied once, when it is taken out of its writer's memory, and only the copy is
    /// examined. This is the same as [`max_held_percent(0)`](Self::max_held_percent), and the
    /// default where other users can join the domain
    /// ([`ParticipantConfig::group`](crate::domain::ParticipantConfig::group)).
    ///
    /// A reader that lends samples reads plain ones where their writers built them. A correct
    /// writer leaves them alone while they are held. A faulty or hostile writer process can still
    /// change them.
    pub fn copied(self) -> Self {
        self.max_held_percent(0)
    }

    /// DESTINATION_ORDER by source: samples of an instance are ordered by the
    /// time at which they were written. A sample is dropped if it arrives after
    /// a newer one was read, or after the end of the instance. Writers must
    /// [offer this](crate::publication::DataWriterBuilder::by_source_timestamp).
    pub fn by_source_timestamp(self) -> Self {
        self.with(|qos| {
            qos.destination_order.kind = DestinationOrderQosPolicyKind::BySourceTimestamp;
        })
    }

    /// OWNERSHIP exclusive: for each instance the reader receives only what the strongest of its
    /// writers writes. A writer that has unregistered the instance no longer counts. Writers must
    /// [offer this](crate::publication::DataWriterBuilder::ownership_strength).
    pub fn exclusive_ownership(self) -> Self {
        self.with(|qos| qos.ownership.kind = OwnershipQosPolicyKind::Exclusive)
    }

    /// TIME_BASED_FILTER: minimum interval between two samples of an instance. The last sample of
    /// an interval is given at its end.
    pub fn minimum_separation(self, time: Duration) -> Self {
        self.with(|qos| qos.time_based_filter.minimum_separation = time.into())
    }

    /// READER_DATA_LIFECYCLE: how long samples of an instance remain after its end.
    pub fn data_lifecycle(self, policy: ReaderDataLifecycleQosPolicy) -> Self {
        self.with(|qos| qos.reader_data_lifecycle = policy)
    }

    /// PRESENTATION: whether samples of several instances come in their common order, or instance
    /// by instance. A reader of a [`Subscriber`] requests of writers what the subscriber requests;
    /// its cache follows this policy.
    pub fn presentation(mut self, policy: PresentationQosPolicy) -> Self {
        if self.subscriber.is_none() {
            self.group.presentation.clone_from(&policy);
        }
        self.presentation = policy;
        self
    }

    /// TYPE_CONSISTENCY_ENFORCEMENT: the other versions of the type whose samples the
    /// reader accepts.
    pub fn type_consistency(mut self, policy: TypeConsistencyEnforcementQosPolicy) -> Self {
        self.qos.type_consistency = policy;
        self
    }

    /// Makes the reader and announces it, unless its subscriber or participant
    /// [requires](crate::domain::DomainParticipant::enable) that it be enabled later.
    ///
    /// # Errors
    /// [`DdsError::InconsistentPolicy`] if policies contradict each other or the topic;
    /// [`DdsError::BadParameter`] if there is no profile of the given name.
    pub fn create(self) -> DdsResult<DataReader<T>> {
        let is_builtin = |subscriber: &Subscriber| subscriber.entity().is_builtin;
        let of_discovery = self.topic.entity().origin == TopicOrigin::Discovery;
        if of_discovery || self.subscriber.as_ref().is_some_and(is_builtin) {
            return Err(not_with_builtin("the topic or subscriber"));
        }
        let reader = self.make()?;
        if reader.listener.mask() != StatusMask::NONE {
            reader.participant.start_listeners()?;
        }
        if reader.enabling.is_at_once() {
            reader.enable()?;
        }
        Ok(reader)
    }

    /// Makes a reader of a builtin topic, which receives what discovery reports by this listener
    /// once it is enabled.
    pub(super) fn listening(mut self, sink: Arc<dyn DiscoverySink>) -> DdsResult<DataReader<T>> {
        self.sink = Some(sink);
        self.make()
    }

    fn make(self) -> DdsResult<DataReader<T>> {
        if let Some(error) = self.wrong {
            return Err(error);
        }
        let DataReaderBuilder { participant, topic, mut qos, presentation, .. } = self;
        let DataReaderBuilder { subscriber, group, filter, profile_binding: following, .. } = self;
        let DataReaderBuilder { sink, joined, max_held_percent, listener, .. } = self;
        let is_elsewhere = |subscriber: &Subscriber| !subscriber.is_of(&participant);
        if !topic.is_of(&participant) || subscriber.as_ref().is_some_and(is_elsewhere) {
            return Err(DdsError::PreconditionNotMet(format!(
                "topic `{}` belongs to another participant: create the topic from the participant \
                 that reads it",
                topic.name()
            )));
        }
        participant.lifecycle.check_there("the participant")?;
        topic.check_there()?;
        subscriber.iter().try_for_each(|subscriber| subscriber.entity().check_there())?;
        topic.policies().settle_representation(PolicyOwner::Reader, &mut qos.representation)?;
        check(&topic, &qos, &group)?;
        let settings = CacheSettings::new(&qos, &presentation);
        let of =
            subscriber.as_ref().map_or_else(|| Arc::clone(&participant) as _, Subscriber::encloses);
        let draft =
            ReaderDraft { qos, profile_binding: following, group, presentation, sink, joined };
        let provisional = participant.provisional();
        let enabling = EnablingState::new("a reader", of, provisional, topic.entity(), draft);
        let shared = Arc::new(ReaderShared::new(participant.dispatcher.reordered()));
        let (barrier, has_other_users) =
            participant.engine.act(|_, link, _| (link.barrier(), link.admits_other_users()));
        let default_percent = if has_other_users { 0 } else { DEFAULT_PERCENT };
        let max_held_percent = max_held_percent.unwrap_or(default_percent);
        Ok(DataReader::of(ReaderCore {
            participant,
            topic,
            shared,
            queues: ThreadLock::new(Queues::default(), barrier),
            departures: Arc::default(),
            joined_readers: OnceLock::new(),
            unqueued: UnqueuedSamples::default(),
            unreadable: AtomicU64::new(0),
            max_held_percent,
            copied: AtomicU64::new(0),
            enabling,
            settings: Mutex::new(settings),
            cache: OnceLock::new(),
            filter,
            subscriber,
            status_condition: OnceLock::new(),
            fill_count: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            listener,
            has_given: AtomicBool::new(false),
            data_available: DataAvailable::default(),
            notified_arrivals: AtomicU64::new(0),
        }))
    }
}

/// PRESENTATION of a reader that gives the samples of its topic in their order.
fn in_order() -> PresentationQosPolicy {
    PresentationQosPolicy {
        access_scope: PresentationQosPolicyAccessScopeKind::Topic,
        ordered_access: true,
        ..PresentationQosPolicy::default()
    }
}
