//! A reader that is being made: its policies.
//!
//! Owns: what a reader is asked to be. Never does: read anything.

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use derecho_core::link::Link;
use idl_xtypes::TopicData;
use qos_profiles::{
    DataReaderQos, DataRepresentationId, DestinationOrderQosPolicyKind, DurabilityQosPolicyKind,
    EntityKind, EntityQos, HistoryQosPolicy, HistoryQosPolicyKind, OwnershipQosPolicyKind,
    PresentationQosPolicy, PresentationQosPolicyAccessScopeKind, ReaderDataLifecycleQosPolicy,
    ReliabilityQosPolicyKind, ResourceLimitsQosPolicy, SubscriberQos,
    TypeConsistencyEnforcementQosPolicy,
};

use super::cache::Settings;
use super::enabling::{Draft, check};
use super::intake::ReaderCore;
use super::lending::USUAL_PERCENT;
use super::not_with_builtin;
use super::queues::Queues;
use super::reader::DataReader;
use super::sets::Opened;
use super::subscriber::Subscriber;
use crate::domain::enabling::Enabling;
use crate::domain::{Following, Inner, usual_reader};
use crate::infrastructure::listener::Slot;
use crate::infrastructure::this_thread::ThreadLock;
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::builtin::Hears;
use crate::mapping::shares::ReaderShared;
use crate::topic::{Joined, SharedFilter, Topic, TopicDescription, TopicOrigin, Whose};

/// A reader that is being made.
///
/// Without policies it requests what its topic gives, and gives all samples in the order in which they came: HISTORY keep-all, and
/// PRESENTATION with ordered access to a topic. [`qos`](Self::qos) gives it a whole set of policies, whose defaults are the
/// standard's: with them a reader keeps the last sample of each instance alone.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant, topic: &Topic<Track>) -> DdsResult<()> {
/// let picture = participant.reader(topic).keep_last(1).exclusive_ownership().create()?;
/// # Ok(())
/// # }
/// ```
pub struct DataReaderBuilder<T: TopicData> {
    participant: Arc<Inner>,
    topic: Topic<T>,
    subscriber: Option<Subscriber>,
    qos: DataReaderQos,
    /// The profile that its policies are by, if they are.
    following: Option<Following>,
    wrong: Option<DdsError>,
    /// What it requests of order and coherence.
    group: SubscriberQos,
    /// What its cache does.
    presentation: PresentationQosPolicy,
    /// Some policy asks for the cache.
    follows: bool,
    filter: Option<Arc<SharedFilter>>,
    /// Of a builtin topic: what it hears by.
    ear: Option<Arc<dyn Hears>>,
    /// Of a multi-topic: what it is joined of.
    joined: Option<Arc<Joined>>,
    /// What `max_held_percent` says; none if nothing was said.
    max_held_percent: Option<u8>,
}

impl<T: TopicData> DataReaderBuilder<T> {
    /// Of a topic, a part of one, or several.
    pub(crate) fn of(
        participant: Arc<Inner>,
        description: &impl TopicDescription<Data = T>,
    ) -> Self {
        let mut builder = DataReaderBuilder::new(participant, description.topic());
        (builder.filter, builder.joined) = (description.filter(), description.joined());
        // What does not pass is no reason to wake whoever waits: that takes a cache.
        builder.follows |= builder.filter.is_some();
        builder
    }

    /// Of a topic.
    pub(super) fn new(participant: Arc<Inner>, topic: &Topic<T>) -> Self {
        let topic = topic.clone();
        let (qos, profile) = (usual_reader(&topic.qos()), topic.policies().profile.clone());
        let presentation = PresentationQosPolicy {
            access_scope: PresentationQosPolicyAccessScopeKind::Topic,
            ordered_access: true,
            ..PresentationQosPolicy::default()
        };
        let (subscriber, group) = (None, SubscriberQos::default());
        // What a topic's policies ask for takes a cache.
        let follows = Settings::new(&qos, &presentation) != Settings::default();
        let builder = DataReaderBuilder {
            participant,
            topic,
            subscriber,
            qos,
            following: None,
            wrong: None,
            group,
            presentation,
            follows,
            filter: None,
            ear: None,
            joined: None,
            max_held_percent: None,
        };
        match profile {
            Some(profile) => builder.follow(&profile, true),
            None => builder,
        }
    }

    /// It follows instances, and keeps this of each.
    pub(super) fn following(self, history: &HistoryQosPolicy) -> Self {
        let mut builder = self.with(|qos| qos.history.clone_from(history));
        builder.follows = true;
        builder
    }

    /// It belongs to this subscriber.
    pub(super) fn within(mut self, subscriber: Subscriber) -> Self {
        self.group = subscriber.qos();
        if self.group.presentation != PresentationQosPolicy::default() {
            self.presentation = self.group.presentation.clone();
        }
        // A set comes into the cache as one.
        self.follows |= self.group.presentation.coherent_access;
        if let Some(qos) = subscriber.default_reader_qos() {
            self = self.qos(&qos);
        }
        self.subscriber = Some(subscriber);
        self
    }

    /// Wants nothing that was written before it came, although the topic
    /// [keeps](crate::topic::TopicBuilder::transient_local) it: DURABILITY volatile.
    pub fn volatile(mut self) -> Self {
        self.qos.durability.kind = DurabilityQosPolicyKind::Volatile;
        self
    }

    /// RELIABILITY best effort. On a topic without an order no writer waits for such a reader: what it is too slow for is lost,
    /// and counted by [`sample_lost_status`](DataReader::sample_lost_status). What it gets it gets in its writer's order, and whole.
    /// In an order it gets all samples, as a reliable reader does.
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

    /// RELIABILITY reliable: it gets all samples, and its writers wait for it; those that are best effort offer too little for
    /// that. So are readers of which nothing is said, unless their topic is best effort.
    pub fn reliable(mut self) -> Self {
        self.qos.reliability.kind = ReliabilityQosPolicyKind::Reliable;
        self
    }

    /// All its policies. It is matched with writers that offer what these request, and its cache is as they say.
    pub fn qos(mut self, qos: &DataReaderQos) -> Self {
        (self.following, self.wrong) = (None, None);
        self.qos = qos.clone();
        self.presentation = self.group.presentation.clone();
        self.follows = true;
        self
    }

    /// Its policies by a profile: of several sets that whose filter fits its topic's name. What is said of it before is
    /// forgotten, what is said later comes before the profile. A profile that says nothing of readers gives it the policies of
    /// its topic. PRESENTATION is its [`Subscriber`]'s; without one it gives samples in their order. See
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
                if let Some(said) = &given.said {
                    self.max_held_percent =
                        said.number("squall.reader.max_held_percent").or(self.max_held_percent);
                }
                // What the profile says of readers is for the cache, now or when it is read again.
                self.follows |= given.said.is_some();
                self.following = Some(Following::new(profile, by_topic, given));
                self.wrong = None;
            }
            Err(wrong) => self.wrong = Some(wrong),
        }
        self
    }

    /// DATA_REPRESENTATION: it takes samples in any of these. Unless it is said, in that alone which [a writer has that says
    /// nothing](crate::publication::DataWriterBuilder::representation).
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

    /// USER_DATA: bytes that go with the reader.
    pub fn user_data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.qos.user_data.value = bytes.into();
        self
    }

    /// DURABILITY, as it is requested.
    pub fn durability(mut self, kind: DurabilityQosPolicyKind) -> Self {
        self.qos.durability.kind = kind;
        self
    }

    fn with(mut self, change: impl FnOnce(&mut DataReaderQos)) -> Self {
        change(&mut self.qos);
        self.follows = true;
        self
    }

    /// Follows instances from its first sample on, so that each has its whole [`SampleInfo`](super::SampleInfo).
    pub fn follow_instances(self) -> Self {
        self.with(|_| {})
    }

    /// HISTORY: keeps so many samples of each instance, the last ones. They are copied out of their writers' memory, and a
    /// thread of the participant sees to that if nobody looks: they hold no writer up.
    pub fn keep_last(self, depth: u32) -> Self {
        self.with(|qos| {
            qos.history.kind = HistoryQosPolicyKind::KeepLast;
            qos.history.depth = depth;
        })
    }

    /// HISTORY: keeps all samples until they are taken.
    pub fn keep_all(self) -> Self {
        self.with(|qos| qos.history.kind = HistoryQosPolicyKind::KeepAll)
    }

    /// RESOURCE_LIMITS: keeps no more. A sample for which there is no room waits, and holds up its writer, until something
    /// is taken: [`DataReader::sample_rejected_status`].
    pub fn resource_limits(self, limits: ResourceLimitsQosPolicy) -> Self {
        self.with(|qos| qos.resource_limits = limits)
    }

    /// So much of each writer's memory may be held by samples that this reader has given out and that are not dropped, in percent
    /// (25 by default; two of the parts that it consists of in any case, if there are more). What is given out beyond that is a
    /// copy, so an application that holds what it takes holds no writer up;
    /// [`copied_samples`](DataReader::copied_samples) counts them. With 0 all are copies, with 100 none is. In a domain that a
    /// UNIX group shares the default is 0 ([`copied`](Self::copied)).
    ///
    /// Each participant that reads may hold as much: where several do, a smaller part leaves more to the writer.
    pub fn max_held_percent(mut self, percent: u8) -> Self {
        self.max_held_percent = Some(percent);
        self
    }

    /// Gives out copies alone, for writers whose processes the application does not trust: each sample is copied once, when it is
    /// taken out of its writer's memory, and only the copy is looked at. The same as [`max_held_percent(0)`](Self::max_held_percent),
    /// and the default where other users can join the domain
    /// ([`ParticipantConfig::group`](crate::domain::ParticipantConfig::group)).
    ///
    /// A reader that lends reads plain samples where their writers built them. A correct writer leaves them alone as long as they
    /// are held. A writer's process that is faulty or hostile can change them all the same.
    pub fn copied(self) -> Self {
        self.max_held_percent(0)
    }

    /// DESTINATION_ORDER by source: samples of an instance stand in the order of the times at which they were written. What
    /// comes later than something newer that was read already, or than the end of the instance, is dropped. Its writers have to
    /// [offer that](crate::publication::DataWriterBuilder::by_source_timestamp).
    pub fn by_source_timestamp(self) -> Self {
        self.with(|qos| {
            qos.destination_order.kind = DestinationOrderQosPolicyKind::BySourceTimestamp;
        })
    }

    /// OWNERSHIP exclusive: of each instance it gets what the strongest writer says that has one, and has not let it go. Its
    /// writers have to [offer that](crate::publication::DataWriterBuilder::ownership_strength).
    pub fn exclusive_ownership(self) -> Self {
        self.with(|qos| qos.ownership.kind = OwnershipQosPolicyKind::Exclusive)
    }

    /// TIME_BASED_FILTER: gives no two samples of an instance within this time; the last one comes at the end of it.
    pub fn minimum_separation(self, time: Duration) -> Self {
        self.with(|qos| qos.time_based_filter.minimum_separation = time.into())
    }

    /// READER_DATA_LIFECYCLE: how long samples stay whose instance is over.
    pub fn data_lifecycle(self, policy: ReaderDataLifecycleQosPolicy) -> Self {
        self.with(|qos| qos.reader_data_lifecycle = policy)
    }

    /// PRESENTATION: whether samples of several instances come in their order, or instance by instance. A reader that has a
    /// [`Subscriber`] shares what that requests of writers; its cache does as it is told here.
    pub fn presentation(mut self, policy: PresentationQosPolicy) -> Self {
        if self.subscriber.is_none() {
            self.group.presentation.clone_from(&policy);
        }
        self.presentation = policy;
        self.with(|_| {})
    }

    /// TYPE_CONSISTENCY_ENFORCEMENT: which other versions of its type it takes samples of.
    pub fn type_consistency(mut self, policy: TypeConsistencyEnforcementQosPolicy) -> Self {
        self.qos.type_consistency = policy;
        self
    }

    /// Makes the reader and announces it, unless its subscriber or participant [says](crate::domain::DomainParticipant::enable)
    /// that it is to be enabled later.
    ///
    /// # Errors
    /// [`DdsError::InconsistentPolicy`] if policies contradict each other, or their topic; [`DdsError::BadParameter`] if there is
    /// no profile of the name that was said.
    pub fn create(self) -> DdsResult<DataReader<T>> {
        let is_builtin = |subscriber: &Subscriber| subscriber.entity().is_builtin;
        let of_discovery = self.topic.entity().origin == TopicOrigin::Discovery;
        if of_discovery || self.subscriber.as_ref().is_some_and(is_builtin) {
            return Err(not_with_builtin("the topic or subscriber"));
        }
        let reader = self.make()?;
        if reader.enabling.is_at_once() {
            reader.enable()?;
        }
        Ok(reader)
    }

    /// Makes a reader of a builtin topic, which hears by this once it is enabled.
    pub(super) fn listening(mut self, ear: Arc<dyn Hears>) -> DdsResult<DataReader<T>> {
        self.ear = Some(ear);
        self.make()
    }

    fn make(self) -> DdsResult<DataReader<T>> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let DataReaderBuilder { participant, topic, mut qos, presentation, .. } = self;
        let DataReaderBuilder { subscriber, group, follows, filter, following, .. } = self;
        let DataReaderBuilder { ear, joined, max_held_percent, .. } = self;
        let is_elsewhere = |subscriber: &Subscriber| !subscriber.is_of(&participant);
        if !topic.is_of(&participant) || subscriber.as_ref().is_some_and(is_elsewhere) {
            return Err(DdsError::PreconditionNotMet(format!(
                "topic `{}` belongs to another participant: create it from the one that reads it",
                topic.name()
            )));
        }
        participant.lifecycle.check_there("the participant")?;
        topic.check_there()?;
        subscriber.iter().try_for_each(|subscriber| subscriber.entity().check_there())?;
        topic.policies().settle_representation(Whose::Reader, &mut qos.representation)?;
        check(&topic, &qos, &group)?;
        let settings = Settings::new(&qos, &presentation);
        let of =
            subscriber.as_ref().map_or_else(|| Arc::clone(&participant) as _, Subscriber::encloses);
        let draft = Draft { qos, following, group, presentation, follows, ear, joined };
        let belongs = (of, participant.provisional());
        let enabling = Enabling::new("a reader", belongs, topic.entity(), draft);
        let shared = Arc::new(ReaderShared::new(participant.roster.reordered()));
        let (barrier, has_other_users) =
            participant.engine.act(|_, link, _| (link.barrier(), link.admits_other_users()));
        let usual_percent = if has_other_users { 0 } else { USUAL_PERCENT };
        let max_held_percent = max_held_percent.unwrap_or(usual_percent);
        Ok(DataReader::of(ReaderCore {
            participant,
            topic,
            shared,
            queues: ThreadLock::new(Queues::default(), barrier),
            departures: Arc::default(),
            joining: OnceLock::new(),
            opened: Opened::default(),
            unreadable: AtomicU64::new(0),
            max_held_percent,
            copied: AtomicU64::new(0),
            enabling,
            settings: Mutex::new(settings),
            shelf: OnceLock::new(),
            filter,
            subscriber,
            status_condition: OnceLock::new(),
            collected: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            listener: Slot::default(),
            told: AtomicU64::new(0),
        }))
    }
}
