//! A topic that is being made: its level, and its policies.
//!
//! Owns: how policies and levels follow from each other. Never does: announce anything; endpoints do.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use idl_xtypes::TopicData;
use qos_profiles::xml::DeliveryLevel;
use qos_profiles::{
    DeadlineQosPolicy, DestinationOrderQosPolicyKind, DurabilityQosPolicyKind,
    DurabilityServiceQosPolicy, EntityKind, EntityQos, HistoryQosPolicyKind, Length,
    OwnershipQosPolicyKind, TopicQos,
};

use super::{Topic, TopicNotice, TopicPolicies};
use crate::domain::{Following, Inner, Shared, usual_topic};
use crate::infrastructure::listener::Slot;
use crate::infrastructure::{DdsError, DdsResult, LogRetention};
use crate::mapping::endpoint::Endpoint;
use crate::mapping::level::{Keeping, TopicLevel};
use crate::mapping::policies::durability;

/// The longest topic name, as in other DDS products.
const LONGEST_NAME: usize = 255;

/// A topic that is being made.
pub struct TopicBuilder<T: TopicData> {
    participant: Arc<Inner>,
    support: T::TypeSupport,
    name: String,
    /// The profile that its policies are by, if they are.
    following: Option<Following>,
    wrong: Option<DdsError>,
    level: TopicLevel,
    sharded: bool,
    /// What its writers and readers have if nothing else is said. DURABILITY follows from the level.
    qos: TopicQos,
    service: DurabilityServiceQosPolicy,
    lifespan: Option<Duration>,
    durable_first: bool,
    detach: bool,
    log_retention: LogRetention,
}

impl<T: TopicData> TopicBuilder<T> {
    pub(crate) fn new(participant: Arc<Inner>, name: &str, support: T::TypeSupport) -> Self {
        let usual = participant.profiles.usual();
        let builder = TopicBuilder {
            participant,
            support,
            name: name.to_owned(),
            following: None,
            wrong: None,
            level: TopicLevel::Unordered,
            sharded: false,
            qos: usual_topic(),
            service: DurabilityServiceQosPolicy::default(),
            lifespan: None,
            durable_first: false,
            detach: false,
            log_retention: LogRetention::default(),
        };
        match usual {
            Some(profile) => builder.profile(&profile),
            None => builder,
        }
    }

    /// Its policies by a profile, and the level that they and `squall.delivery` ask for; of several sets the one whose filter
    /// fits its name. Its writers and readers have theirs by the same profile if nothing else is said of them. A profile that
    /// says nothing of topics leaves it as it is.
    pub fn profile(mut self, name: &str) -> Self {
        let given = self.participant.profiles.of_shared(EntityKind::Topic, name, Some(&self.name));
        match given {
            Ok(given) => {
                if let (EntityQos::Topic(qos), Some(said)) = (&given.qos, &given.said) {
                    self.set(qos, said.level().map_or(self.level, TopicLevel::from));
                }
                self.following = Some(Following::new(name, false, given));
                self.wrong = None;
            }
            Err(wrong) => self.wrong = Some(wrong),
        }
        self
    }

    /// All its policies, and the level that they ask for: without DURABILITY best effort is unordered, and reliable is atomic; it
    /// is kept with DURABILITY transient-local or transient, and logged with persistent. What is kept of a transient-local topic
    /// is what HISTORY and RESOURCE_LIMITS say, of the others what DURABILITY_SERVICE says. Its writers and readers have these
    /// policies if nothing else is said of them.
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
        (self.following, self.wrong) = (None, None);
        self.set(qos, DeliveryLevel::of(qos.reliability.kind, qos.durability.kind).into());
        self
    }

    fn set(&mut self, qos: &TopicQos, level: TopicLevel) {
        self.level = level;
        self.service = match qos.durability.kind {
            DurabilityQosPolicyKind::TransientLocal => DurabilityServiceQosPolicy {
                history_kind: qos.history.kind,
                history_depth: qos.history.depth,
                max_samples: qos.resource_limits.max_samples,
                max_instances: qos.resource_limits.max_instances,
                max_samples_per_instance: qos.resource_limits.max_samples_per_instance,
                ..DurabilityServiceQosPolicy::default()
            },
            _ => qos.durability_service.clone(),
        };
        self.lifespan = qos.lifespan.duration.into();
        self.qos.clone_from(qos);
    }

    /// The same topic as this endpoint's, with these policies for writers and readers.
    pub(super) fn like(mut self, of: &Endpoint, qos: &TopicQos) -> Self {
        (self.following, self.wrong) = (None, None);
        self.set(qos, of.level);
        self.sharded = of.sharded;
        let keeping = of.keeping;
        let limit = |most: u32| match most {
            0 => Length::UNLIMITED,
            most => i32::try_from(most).ok().and_then(Length::new).unwrap_or(Length::UNLIMITED),
        };
        self.service = DurabilityServiceQosPolicy {
            history_kind: match keeping.depth {
                0 => HistoryQosPolicyKind::KeepAll,
                _ => HistoryQosPolicyKind::KeepLast,
            },
            history_depth: keeping.depth.max(1),
            max_samples: limit(keeping.most),
            max_instances: limit(keeping.instances),
            ..DurabilityServiceQosPolicy::default()
        };
        self.lifespan = (keeping.lifespan > 0).then(|| Duration::from_nanos(keeping.lifespan));
        (self.durable_first, self.detach) = (keeping.durable_first, keeping.detach);
        let some = |limit: u64| (limit > 0).then_some(limit);
        self.log_retention = LogRetention {
            time: some(keeping.log_time).map(Duration::from_nanos),
            bytes: some(keeping.log_bytes),
            samples: some(keeping.log_samples),
        };
        self
    }

    /// Each of its partitions is a stream by itself, and has an order of its own: writers and readers that share no partition
    /// have nothing to do with each other, and cost each other nothing. Each writer and reader is in one partition then, which
    /// has a name without patterns, or in none, and stays there. All participants have to say the same.
    pub fn sharded_by_partition(mut self) -> Self {
        self.sharded = true;
        self
    }

    /// OWNERSHIP exclusive, for its writers and readers.
    pub fn exclusive_ownership(mut self) -> Self {
        self.qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
        self
    }

    /// DESTINATION_ORDER by source, for its writers and readers: samples of an instance stand in the order of the times at which
    /// they were written.
    pub fn by_source_timestamp(mut self) -> Self {
        self.qos.destination_order.kind = DestinationOrderQosPolicyKind::BySourceTimestamp;
        self
    }

    /// DEADLINE, for its writers and readers: each instance is to be written within so much time again.
    pub fn deadline(mut self, period: Duration) -> Self {
        self.qos.deadline = DeadlineQosPolicy { period: period.into() };
        self
    }

    /// TOPIC_DATA: bytes that go with the topic.
    pub fn topic_data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.qos.topic_data.value = bytes.into();
        self
    }

    /// Makes it an atomic topic: all its readers get the same samples in the same order, all or nothing,
    /// also those of several writers, and also when participants crash.
    ///
    /// Participants join and leave it with their writers and readers. A reader gets what is written from some
    /// sample on that is the same for all of its participant's readers; who is there before the others write
    /// gets all: [`DataWriter::wait_for_readers`](crate::publication::DataWriter::wait_for_readers).
    pub fn atomic(mut self) -> Self {
        self.level = TopicLevel::Atomic;
        self
    }

    /// Makes it an atomic topic whose samples are kept in the participants' memory for readers that come later:
    /// DURABILITY transient-local. A reader that comes gets what is kept, then everything that is written from
    /// then on, with no gap and nothing twice, from whichever participant has it; that one may crash meanwhile.
    /// What is kept outlives its writer, and is gone with the last participant that writes or reads the topic.
    ///
    /// Of each instance the last sample is kept, unless [`keep_last`](Self::keep_last),
    /// [`keep_all`](Self::keep_all) or [`durability_service`](Self::durability_service) says otherwise. Samples
    /// without a key are of one instance. All participants have to say the same.
    pub fn transient_local(mut self) -> Self {
        self.level = TopicLevel::VolatileStorage;
        self
    }

    /// Makes it an atomic topic whose samples are kept in logs as well: DURABILITY persistent. Participants that have a
    /// [log folder](crate::domain::ParticipantConfig::log_folder) append each sample to a log, in the topic's order, and
    /// when all participants are gone and some come again, the topic goes on where the logs end. A topic that nobody keeps
    /// logs of does not begin.
    ///
    /// Samples are delivered, then made durable, unless [`durable_first`](Self::durable_first) says otherwise;
    /// [`DataWriter::wait_for_acknowledgments`](crate::publication::DataWriter::wait_for_acknowledgments) waits until
    /// they are. What readers that come late get is as of [`transient_local`](Self::transient_local).
    pub fn persistent(mut self) -> Self {
        self.level = TopicLevel::LoggedStorage;
        self
    }

    /// Of a [persistent](Self::persistent) topic: samples are delivered only when they are durable in all logs. No reader
    /// sees what a crash could take back.
    pub fn durable_first(mut self) -> Self {
        self.durable_first = true;
        self
    }

    /// Of a [persistent](Self::persistent) topic: a log whose disk is full takes no part any more, and the topic goes on
    /// without it; otherwise the topic waits for room.
    pub fn detach_full_logs(mut self) -> Self {
        self.detach = true;
        self
    }

    /// Of a [persistent](Self::persistent) topic: how much of the past its logs keep. What is kept for readers that come
    /// late stays whatever is dropped; so a limit is needed for that too, and `keep_all` without any is refused.
    /// [`DataReader::past`](crate::subscription::DataReader::past) says what is no longer there.
    pub fn log_retention(mut self, retention: LogRetention) -> Self {
        self.log_retention = retention;
        self
    }

    /// So many samples of each instance are kept.
    pub fn keep_last(mut self, depth: u32) -> Self {
        self.service.history_kind = HistoryQosPolicyKind::KeepLast;
        self.service.history_depth = depth;
        self
    }

    /// All samples are kept: for ever, but for the limits of [`durability_service`](Self::durability_service) and
    /// [`lifespan`](Self::lifespan).
    pub fn keep_all(mut self) -> Self {
        self.service.history_kind = HistoryQosPolicyKind::KeepAll;
        self
    }

    /// DURABILITY_SERVICE: which samples are kept. Beyond `max_samples` the oldest go; a sample of one instance
    /// more than `max_instances` is delivered, and not kept.
    pub fn durability_service(mut self, policy: DurabilityServiceQosPolicy) -> Self {
        self.service = policy;
        self
    }

    /// LIFESPAN: so long after it was written a sample is out of date, and no reader gets it any more. The clocks of
    /// writer and reader are compared. Of a topic whose samples are kept; elsewhere a sample is taken or waits.
    pub fn lifespan(mut self, time: Duration) -> Self {
        self.lifespan = Some(time);
        self
    }

    /// Which samples are kept, as participants tell each other; or what is wrong with it.
    fn keeping(&self) -> Result<Keeping, String> {
        if !self.level.is_kept() {
            return Ok(Keeping::default());
        }
        let service = &self.service;
        let qos = TopicQos { durability_service: service.clone(), ..TopicQos::default() };
        if let Some(wrong) = qos.inconsistencies().first() {
            return Err(wrong.to_string());
        }
        let per_instance = service.max_samples_per_instance.limit();
        let depth = match service.history_kind {
            HistoryQosPolicyKind::KeepLast => Some(service.history_depth),
            HistoryQosPolicyKind::KeepAll => per_instance,
        };
        let limit = |length: Length| length.limit().unwrap_or(0);
        let lifespan = self.lifespan.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        if depth == Some(0) || service.max_samples.limit() == Some(0) || lifespan == Some(0) {
            return Err(
                "nothing would be kept: make depth, max_samples and lifespan more than none".into(),
            );
        }
        let LogRetention { time, bytes, samples } = self.log_retention;
        let limited = time.is_some() || bytes.is_some() || samples.is_some();
        if limited && depth.is_none() && service.max_samples.limit().is_none() && lifespan.is_none()
        {
            return Err(
                "all samples are kept for readers that come late, so no log may drop any: leave \
                        `log_retention` out, or keep less (`keep_last`, `max_samples`, `lifespan`)"
                    .into(),
            );
        }
        let log_limit = |limit: Option<u64>| match limit.filter(|_| self.level.is_logged()) {
            // Zero stands for no limit; of one the same is kept.
            Some(limit) => limit.max(1),
            None => 0,
        };
        let log_time = time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Ok(Keeping {
            log_time: log_limit(log_time),
            log_bytes: log_limit(bytes),
            log_samples: log_limit(samples),
            depth: depth.unwrap_or(0),
            most: limit(service.max_samples),
            instances: limit(service.max_instances),
            lifespan: lifespan.unwrap_or(0),
            durable_first: self.durable_first && self.level.is_logged(),
            detach: self.detach && self.level.is_logged(),
        })
    }

    /// Makes the topic.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if it cannot have this name, or there is no profile of the name that was said;
    /// [`DdsError::InconsistentPolicy`] if policies contradict each other.
    pub fn create(self) -> DdsResult<Topic<T>> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let keeping = self.keeping();
        let following = self.following.clone();
        let TopicBuilder {
            participant,
            support,
            name,
            level,
            sharded,
            mut qos,
            service,
            lifespan,
            ..
        } = self;
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return Err(DdsError::BadParameter(format!(
                "a topic's name has 1 to {LONGEST_NAME} bytes and no NUL; this one has {} bytes",
                name.len()
            )));
        }
        let keeping = keeping.map_err(|wrong| {
            DdsError::InconsistentPolicy(format!("DURABILITY_SERVICE of topic `{name}`: {wrong}"))
        })?;
        if qos.durability.kind != DurabilityQosPolicyKind::Transient || !level.is_kept() {
            qos.durability.kind = durability(level);
        }
        qos.durability_service = service;
        if let Some(lifespan) = lifespan {
            qos.lifespan.duration = lifespan.into();
        }
        if let Some(wrong) = qos.inconsistencies().first() {
            return Err(DdsError::InconsistentPolicy(format!("topic `{name}`: {wrong}")));
        }
        let board = participant.engine.act(|machine, _, _| machine.topic_board(&name));
        let name: Arc<str> = name.into();
        let notice = Arc::new(TopicNotice {
            name: Arc::clone(&name),
            participant: Arc::downgrade(&participant),
            board,
            listener: Slot::default(),
        });
        let entity: Weak<TopicNotice> = Arc::downgrade(&notice);
        participant.roster.enter(entity);
        let profile = following.as_ref().map(|following| Arc::clone(following.profile()));
        let policies = TopicPolicies::new(name, level, profile, qos);
        if let Some(following) = following {
            participant.profiles.note(Shared::Topic(Arc::downgrade(&policies)), following);
        }
        Ok(Topic {
            participant,
            support,
            keeping,
            sharded,
            policies,
            notice,
            status_condition: Arc::new(OnceLock::new()),
        })
    }
}
