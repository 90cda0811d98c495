//! Builder of a topic: its level, and its policies.
//!
//! Owns: how policies and levels determine each other. Never does: announce anything; endpoints do.

use std::sync::Arc;
use std::time::Duration;

use idl_xtypes::TopicData;
use qos_profiles::xml::DeliveryLevel;
use qos_profiles::{
    DeadlineQosPolicy, DestinationOrderQosPolicyKind, DurabilityQosPolicyKind,
    DurabilityServiceQosPolicy, EntityKind, EntityQos, HistoryQosPolicyKind,
    OwnershipQosPolicyKind, ReliabilityQosPolicyKind, TopicQos,
};

use super::representation::{PolicyOwner, TypeRepresentations};
use super::storage_options::StorageOptions;
use super::{Topic, TopicPolicies};
use crate::domain::{ParticipantInner, ProfileBinding, ProfiledEntity};
use crate::infrastructure::{DdsError, DdsResult, LogRetention, TopicListener};
use crate::mapping::level::TopicLevel;
use crate::mapping::order::TopicOrder;
use crate::subscription::is_builtin;

/// Maximum length of a topic name, as in other DDS products.
const LONGEST_NAME: usize = 255;

/// Builder of a topic.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// let alarms = participant.topic::<Track>("Tracks").transient_local().keep_last(20).create()?;
/// assert!(alarms.is_kept());
/// # Ok(())
/// # }
/// ```
pub struct TopicBuilder<T: TopicData> {
    participant: Arc<ParticipantInner>,
    support: T::TypeSupport,
    name: String,
    /// The profile that the policies come from, if any.
    profile_binding: Option<ProfileBinding>,
    wrong: Option<DdsError>,
    level: TopicLevel,
    order: TopicOrder,
    /// Default policies of the topic's writers and readers. DURABILITY follows from the level.
    qos: TopicQos,
    /// Whether the application has chosen HISTORY itself.
    has_history: bool,
    service: DurabilityServiceQosPolicy,
    lifespan: Option<Duration>,
    options: StorageOptions,
    listener: Option<Box<dyn TopicListener>>,
}

impl<T: TopicData> TopicBuilder<T> {
    pub(crate) fn new(
        participant: Arc<ParticipantInner>,
        name: &str,
        support: T::TypeSupport,
    ) -> Self {
        let (set, default_profile) =
            (participant.policies.topic.get(), participant.profiles.default_profile());
        let builder = TopicBuilder {
            participant,
            support,
            name: name.to_owned(),
            profile_binding: None,
            wrong: None,
            level: TopicLevel::Unordered,
            order: TopicOrder::Own,
            qos: TopicQos::default(),
            has_history: false,
            service: StorageOptions::default_service(),
            lifespan: None,
            options: StorageOptions::default(),
            listener: None,
        };
        match (set, default_profile) {
            (Some(qos), _) => builder.qos(&qos),
            (None, Some(profile)) => builder.profile(&profile),
            (None, None) => builder,
        }
    }

    /// Sets the listener of the topic, so that the listener misses no change of
    /// INCONSISTENT_TOPIC. [`set_listener`](Topic::set_listener) replaces it later.
    pub fn listener(mut self, listener: impl TopicListener + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Takes the policies from a profile, and the level from these policies and `squall.delivery`.
    /// If the profile has several sets of policies, the set whose filter matches the topic's name
    /// applies. Writers and readers of the topic follow the same profile by default. A profile
    /// without topic policies leaves the topic's policies unchanged.
    pub fn profile(mut self, name: &str) -> Self {
        let given = self.participant.profiles.of_shared(EntityKind::Topic, name, Some(&self.name));
        let mut error = None;
        match given {
            Ok(given) => {
                if let (EntityQos::Topic(qos), Some(settings)) = (&given.qos, &given.settings) {
                    self.set(qos, settings.level().map_or(self.level, TopicLevel::from));
                    let is_sharded =
                        settings.property("squall.topic.sharded_by_partition") == Some("true");
                    (self.order, error) = match settings.property("squall.topic.common_order") {
                        Some(_) if is_sharded => (TopicOrder::Own, Some(two_orders(name))),
                        Some(order) => (TopicOrder::Common(order.to_owned()), None),
                        None if is_sharded => (TopicOrder::ByPartition, None),
                        None => (TopicOrder::Own, None),
                    };
                }
                self.profile_binding = Some(ProfileBinding::new(name, false, given));
                self.wrong = error;
            }
            Err(error) => self.wrong = Some(error),
        }
        self
    }

    /// Sets all policies, and the level that they require. Without DURABILITY, best effort means
    /// unordered, and reliable means atomic. Samples are kept with DURABILITY transient-local or
    /// transient, and logged with persistent. HISTORY and RESOURCE_LIMITS determine which samples
    /// of a transient-local topic are kept; for the other kinds DURABILITY_SERVICE does. These
    /// policies are the defaults of the topic's writers and readers.
    ///
    /// ```no_run
    /// use dds_api::prelude::*;
    /// use dds_api::qos::{DurabilityQosPolicyKind, ReliabilityQosPolicyKind, TopicQos};
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Alarm { code: u32 }
    /// # fn main() -> DdsResult<()> {
    /// # let participant = DomainParticipant::new(0)?;
    /// let mut qos = TopicQos::default();
    /// qos.reliability.kind = ReliabilityQosPolicyKind::Reliable;
    /// qos.durability.kind = DurabilityQosPolicyKind::TransientLocal;
    /// let alarms = participant.topic::<Alarm>("Alarms").qos(&qos).create()?;
    /// assert!(alarms.is_kept());
    /// # Ok(())
    /// # }
    /// ```
    pub fn qos(mut self, qos: &TopicQos) -> Self {
        (self.profile_binding, self.wrong) = (None, None);
        self.set(qos, DeliveryLevel::of(qos.reliability.kind, qos.durability.kind).into());
        self
    }

    fn set(&mut self, qos: &TopicQos, level: TopicLevel) {
        self.level = level;
        self.service = match qos.durability.kind {
            DurabilityQosPolicyKind::TransientLocal => StorageOptions::service_of(qos),
            _ => qos.durability_service.clone(),
        };
        self.lifespan = qos.lifespan.duration.into();
        self.qos.clone_from(qos);
    }

    /// Makes each partition a stream by itself, with an order of its own. Writers and readers that
    /// share no partition then do not affect each other, and cause each other no cost. Each writer
    /// and reader is permanently in one partition, whose name has no patterns, or in none. All
    /// participants must use the same setting.
    pub fn sharded_by_partition(mut self) -> Self {
        self.order = TopicOrder::ByPartition;
        self
    }

    /// Gives the samples of all topics with a common order of this name one order. Each
    /// participant's writers of such topics share one stream. A participant that reads any of these
    /// topics receives the samples of all of them, and its readers skip those of other topics. All
    /// of these topics must be atomic, and must keep samples alike if they keep any; none may be
    /// [persistent](Self::persistent). All participants must use the same setting.
    ///
    /// PRESENTATION with the access scope of a group requires a common order. A coherent set
    /// over several topics then becomes visible at once, to a [subscriber that reads its
    /// topics together](crate::subscription::Subscriber::begin_access).
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Wind { north: f64, east: f64 }
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Heading { degrees: f64 }
    /// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
    /// let wind = participant.topic::<Wind>("Wind").atomic().common_order("navigation").create()?;
    /// let heading = participant.topic::<Heading>("Heading").atomic().common_order("navigation").create()?;
    /// assert_eq!(wind.common_order(), heading.common_order());
    /// # Ok(())
    /// # }
    /// ```
    pub fn common_order(mut self, name: &str) -> Self {
        self.order = TopicOrder::Common(name.to_owned());
        self
    }

    /// OWNERSHIP exclusive, for the topic's writers and readers.
    pub fn exclusive_ownership(mut self) -> Self {
        self.qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
        self
    }

    /// DESTINATION_ORDER by source, for the topic's writers and readers: samples of an instance are
    /// ordered by the time at which they were written.
    pub fn by_source_timestamp(mut self) -> Self {
        self.qos.destination_order.kind = DestinationOrderQosPolicyKind::BySourceTimestamp;
        self
    }

    /// DEADLINE, for the topic's writers and readers: maximum interval between two samples of
    /// an instance.
    pub fn deadline(mut self, period: Duration) -> Self {
        self.qos.deadline = DeadlineQosPolicy { period: period.into() };
        self
    }

    /// TRANSPORT_PRIORITY, for the topic's writers: samples with a greater priority are sent and
    /// received first.
    pub fn transport_priority(mut self, priority: i32) -> Self {
        self.qos.transport_priority.value = priority;
        self
    }

    /// TOPIC_DATA: bytes that are announced with the topic.
    pub fn topic_data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.qos.topic_data.value = bytes.into();
        self
    }

    /// Makes the topic atomic: all its readers get the same samples in the same order, all or
    /// nothing. This also holds for samples of several writers, and when participants crash.
    ///
    /// Participants join and leave the topic with their writers and readers. A reader gets all
    /// samples from a certain sample on, which is the same for all readers of its participant. A
    /// reader that is there before others write gets all samples:
    /// [`DataWriter::wait_for_readers`](crate::publication::DataWriter::wait_for_readers).
    ///
    /// RELIABILITY of the topic is reliable, and its HISTORY keep-all unless
    /// [`keep_last`](Self::keep_last) says otherwise, so a reader of the topic gets all samples
    /// unless its own policies say otherwise.
    pub fn atomic(self) -> Self {
        let atomic = self.at_level(TopicLevel::Atomic);
        match atomic.has_history {
            true => atomic,
            false => atomic.with_history(HistoryQosPolicyKind::KeepAll, 1),
        }
    }

    /// Sets HISTORY of the topic's readers.
    fn with_history(mut self, kind: HistoryQosPolicyKind, depth: u32) -> Self {
        (self.qos.history.kind, self.qos.history.depth) = (kind, depth);
        self
    }

    /// Sets a level that keeps samples. HISTORY says how many, also to the topic's readers.
    fn at_kept_level(self, level: TopicLevel) -> Self {
        let (kind, depth) = (self.service.history_kind, self.service.history_depth);
        self.at_level(level).with_history(kind, depth)
    }

    /// Sets an ordered level, with RELIABILITY reliable.
    fn at_level(mut self, level: TopicLevel) -> Self {
        self.level = level;
        self.qos.reliability.kind = ReliabilityQosPolicyKind::Reliable;
        self
    }

    /// Makes the topic atomic, and keeps its samples in the participants' memory for late joiners:
    /// DURABILITY transient-local. A new reader gets the kept samples, then everything that is
    /// written from then on, without gaps or duplicates. The kept samples come from any
    /// participant that has them; if it crashes during the transfer, another one takes over. Kept
    /// samples outlive their writer. They are gone with the last participant that writes or reads
    /// the topic.
    ///
    /// The last sample of each instance is kept, unless [`keep_last`](Self::keep_last),
    /// [`keep_all`](Self::keep_all) or [`durability_service`](Self::durability_service) says
    /// otherwise. All samples without a key are of one instance. All participants must use the
    /// same settings. The same HISTORY applies to the topic's readers, unless their own policies
    /// say otherwise.
    pub fn transient_local(self) -> Self {
        self.at_kept_level(TopicLevel::Kept)
    }

    /// Makes the topic atomic, and keeps its samples in memory and in logs: DURABILITY persistent.
    /// Participants that have a [log folder](crate::domain::ParticipantConfig::log_folder) append
    /// each sample to a log, in the topic's order. When all participants are gone and some start
    /// again, the topic continues where the logs end. A topic for which no participant keeps a log
    /// does not begin.
    ///
    /// Samples are first delivered, then made durable, unless
    /// [`durable_first`](Self::durable_first) is set;
    /// [`wait_for_acknowledgments`](crate::publication::DataWriter::wait_for_acknowledgments)
    /// waits until they are durable. Late joiners get the same samples as
    /// with [`transient_local`](Self::transient_local).
    pub fn persistent(self) -> Self {
        self.at_kept_level(TopicLevel::Logged)
    }

    /// For a [persistent](Self::persistent) topic: delivers samples only when they are durable in
    /// all logs. No reader then sees a sample that a crash could take back.
    pub fn durable_first(mut self) -> Self {
        self.options.durable_first = true;
        self
    }

    /// For a [persistent](Self::persistent) topic: detaches a log whose disk is full, and the topic
    /// continues without it. By default the topic waits for room.
    pub fn detach_full_logs(mut self) -> Self {
        self.options.detach = true;
        self
    }

    /// For a [persistent](Self::persistent) topic: the part of the past that the logs keep. The
    /// logs never drop samples that are kept for late joiners. If log retention is limited, the
    /// kept samples must therefore be limited too, and `keep_all` without a limit is refused.
    /// [`DataReader::past`](crate::subscription::DataReader::past) reports when samples are no
    /// longer there.
    pub fn log_retention(mut self, retention: LogRetention) -> Self {
        self.options.log_retention = retention;
        self
    }

    /// Keeps the last `depth` samples of each instance. HISTORY of the topic's readers is the same,
    /// unless their own policies say otherwise.
    pub fn keep_last(mut self, depth: u32) -> Self {
        self.service.history_kind = HistoryQosPolicyKind::KeepLast;
        (self.service.history_depth, self.has_history) = (depth, true);
        self.with_history(HistoryQosPolicyKind::KeepLast, depth)
    }

    /// Keeps all samples, without an end except for the limits of
    /// [`durability_service`](Self::durability_service) and [`lifespan`](Self::lifespan). HISTORY
    /// of the topic's readers is the same, unless their own policies say otherwise.
    pub fn keep_all(mut self) -> Self {
        (self.service.history_kind, self.has_history) = (HistoryQosPolicyKind::KeepAll, true);
        self.with_history(HistoryQosPolicyKind::KeepAll, 1)
    }

    /// DURABILITY_SERVICE: determines which samples are kept. Beyond `max_samples` the oldest are
    /// dropped. A sample of a new instance beyond `max_instances` is delivered, but not kept. The
    /// kept samples of a disposed instance are dropped when a sample comes that was written
    /// `service_cleanup_delay` after the dispose. The default delay of 0 drops them with the
    /// dispose, `Duration::INFINITE` never. Without this call they are never dropped either.
    pub fn durability_service(mut self, policy: DurabilityServiceQosPolicy) -> Self {
        self.service = policy;
        self
    }

    /// LIFESPAN: time after the source timestamp at which a sample expires, by the clock of the
    /// reader's host. No reader gets an expired sample. Each writer may have another LIFESPAN. If
    /// the topic keeps samples, LIFESPAN also limits how long they are kept.
    pub fn lifespan(mut self, time: Duration) -> Self {
        self.lifespan = Some(time);
        self
    }

    /// Makes the topic.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the topic cannot have this name, or there is no profile of the
    /// given name; [`DdsError::InconsistentPolicy`] if policies contradict each other;
    /// [`DdsError::PreconditionNotMet`] if the participant has a topic of this name with another
    /// type.
    pub fn create(self) -> DdsResult<Topic<T>> {
        if let Some(error) = self.wrong {
            return Err(error);
        }
        let TopicBuilder {
            participant,
            support,
            name,
            profile_binding: following,
            level,
            order,
            ..
        } = self;
        let TopicBuilder { mut qos, service, lifespan, mut options, listener, .. } = self;
        participant.lifecycle.check_there("the participant")?;
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return Err(DdsError::BadParameter(format!(
                "a topic's name has 1 to {LONGEST_NAME} bytes and no NUL; this one has {} bytes",
                name.len()
            )));
        }
        let data_type = T::dynamic_type(&support);
        options.has_instances = data_type.is_keyed();
        if data_type.is_nested() {
            return Err(DdsError::BadParameter(format!(
                "topic `{name}`: its type `{}` is nested, and a nested type cannot be the type of \
                 a topic: create a topic of a type that has the nested type as a member, or remove \
                 @nested",
                T::type_name(&support)
            )));
        }
        if is_builtin(&name) {
            return Err(DdsError::BadParameter(format!(
                "`{name}` is the name of a builtin topic: its reader comes from builtin_reader"
            )));
        }
        qos.durability_service =
            match level.is_kept() || service != StorageOptions::default_service() {
                true => service,
                false => DurabilityServiceQosPolicy::default(),
            };
        if let Some(lifespan) = lifespan {
            qos.lifespan.duration = lifespan.into();
        }
        order.check(&name, level)?;
        let forms = TypeRepresentations::of::<T>(&support);
        forms.settle(PolicyOwner::Topic, &name, &mut qos.representation)?;
        let resolved = options.resolve(&name, level, qos)?;
        let profile = following.as_ref().map(|following| Arc::clone(following.profile()));
        let policies = TopicPolicies::new(name.into(), profile, order, forms, resolved, options);
        let topic = Topic::make(&participant, support, policies)?;
        listener.map_or(Ok(()), |listener| topic.listen(listener))?;
        if let Some(following) = following {
            let entity = ProfiledEntity::Topic(Arc::downgrade(topic.entity()));
            participant.profiles.note(entity, following);
        }
        Ok(topic)
    }
}

fn two_orders(profile: &str) -> DdsError {
    DdsError::InconsistentPolicy(format!(
        "profile `{profile}` gives a topic both a common order and an order for each partition: \
         leave out `squall.topic.common_order` or `squall.topic.sharded_by_partition`"
    ))
}
