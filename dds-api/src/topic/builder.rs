//! A topic that is being made: its level, and its policies.
//!
//! Owns: how policies and levels follow from each other. Never does: announce anything; endpoints do.

use std::sync::Arc;
use std::time::Duration;

use idl_xtypes::TopicData;
use qos_profiles::xml::DeliveryLevel;
use qos_profiles::{
    DeadlineQosPolicy, DestinationOrderQosPolicyKind, DurabilityQosPolicyKind,
    DurabilityServiceQosPolicy, EntityKind, EntityQos, HistoryQosPolicyKind,
    OwnershipQosPolicyKind, TopicQos,
};

use super::keeping::KeepingOptions;
use super::representation::{Forms, Whose};
use super::{Topic, TopicPolicies};
use crate::domain::{Following, Inner, Shared, usual_topic};
use crate::infrastructure::{DdsError, DdsResult, LogRetention};
use crate::mapping::level::TopicLevel;
use crate::mapping::order::TopicOrder;
use crate::subscription::is_builtin;

/// The longest topic name, as in other DDS products.
const LONGEST_NAME: usize = 255;

/// A topic that is being made.
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
    participant: Arc<Inner>,
    support: T::TypeSupport,
    name: String,
    /// The profile that its policies are by, if they are.
    following: Option<Following>,
    wrong: Option<DdsError>,
    level: TopicLevel,
    order: TopicOrder,
    /// What its writers and readers have if nothing else is said. DURABILITY follows from the level.
    qos: TopicQos,
    service: DurabilityServiceQosPolicy,
    lifespan: Option<Duration>,
    options: KeepingOptions,
}

impl<T: TopicData> TopicBuilder<T> {
    pub(crate) fn new(participant: Arc<Inner>, name: &str, support: T::TypeSupport) -> Self {
        let (set, usual) = (participant.policies.topic.get(), participant.profiles.usual());
        let builder = TopicBuilder {
            participant,
            support,
            name: name.to_owned(),
            following: None,
            wrong: None,
            level: TopicLevel::Unordered,
            order: TopicOrder::Own,
            qos: usual_topic(),
            service: KeepingOptions::usual_service(),
            lifespan: None,
            options: KeepingOptions::default(),
        };
        match (set, usual) {
            (Some(qos), _) => builder.qos(&qos),
            (None, Some(profile)) => builder.profile(&profile),
            (None, None) => builder,
        }
    }

    /// Its policies by a profile, and the level that they and `squall.delivery` ask for; of several sets the one whose filter
    /// fits its name. Its writers and readers have theirs by the same profile if nothing else is said of them. A profile that
    /// says nothing of topics leaves it as it is.
    pub fn profile(mut self, name: &str) -> Self {
        let given = self.participant.profiles.of_shared(EntityKind::Topic, name, Some(&self.name));
        let mut wrong = None;
        match given {
            Ok(given) => {
                if let (EntityQos::Topic(qos), Some(said)) = (&given.qos, &given.said) {
                    self.set(qos, said.level().map_or(self.level, TopicLevel::from));
                    let is_sharded =
                        said.property("squall.topic.sharded_by_partition") == Some("true");
                    (self.order, wrong) = match said.property("squall.topic.common_order") {
                        Some(_) if is_sharded => (TopicOrder::Own, Some(two_orders(name))),
                        Some(order) => (TopicOrder::Common(order.to_owned()), None),
                        None if is_sharded => (TopicOrder::ByPartition, None),
                        None => (TopicOrder::Own, None),
                    };
                }
                self.following = Some(Following::new(name, false, given));
                self.wrong = wrong;
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
            DurabilityQosPolicyKind::TransientLocal => KeepingOptions::service_of(qos),
            _ => qos.durability_service.clone(),
        };
        self.lifespan = qos.lifespan.duration.into();
        self.qos.clone_from(qos);
    }

    /// Each of its partitions is a stream by itself, and has an order of its own: writers and readers that share no partition
    /// have nothing to do with each other, and cost each other nothing. Each writer and reader is in one partition then, which
    /// has a name without patterns, or in none, and stays there. All participants have to say the same.
    pub fn sharded_by_partition(mut self) -> Self {
        self.order = TopicOrder::ByPartition;
        self
    }

    /// Its samples come in one order with those of all topics that have a common order of this name: each participant's writers of
    /// such topics share one stream, and a reader of any of them gets, and leaves out, what is of the others. All of them are
    /// atomic, and kept alike if they are kept; none is [persistent](Self::persistent). All participants have to say the same.
    ///
    /// PRESENTATION with the access scope of a group needs it: a coherent set over several topics is seen at once, by a
    /// [subscriber that reads its topics together](crate::subscription::Subscriber::begin_access).
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

    /// TRANSPORT_PRIORITY, for its writers: what has a greater one is sent and received first.
    pub fn transport_priority(mut self, priority: i32) -> Self {
        self.qos.transport_priority.value = priority;
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
        self.options.durable_first = true;
        self
    }

    /// Of a [persistent](Self::persistent) topic: a log whose disk is full takes no part any more, and the topic goes on
    /// without it; otherwise the topic waits for room.
    pub fn detach_full_logs(mut self) -> Self {
        self.options.detach = true;
        self
    }

    /// Of a [persistent](Self::persistent) topic: how much of the past its logs keep. What is kept for readers that come
    /// late stays whatever is dropped; so a limit is needed for that too, and `keep_all` without any is refused.
    /// [`DataReader::past`](crate::subscription::DataReader::past) says what is no longer there.
    pub fn log_retention(mut self, retention: LogRetention) -> Self {
        self.options.log_retention = retention;
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
    /// more than `max_instances` is delivered, and not kept. What is kept of an instance that is disposed is forgotten when a sample comes that was
    /// written `service_cleanup_delay` later: its default of 0 forgets it with the dispose, `Duration::INFINITE` never, which is so as
    /// well of a topic of which this is not said.
    pub fn durability_service(mut self, policy: DurabilityServiceQosPolicy) -> Self {
        self.service = policy;
        self
    }

    /// LIFESPAN: so long after its source timestamp a sample is out of date, and no reader gets it any more, by the clock
    /// of the reader's host. Each writer may have another one. Of a topic whose samples are kept it says how long they are as well.
    pub fn lifespan(mut self, time: Duration) -> Self {
        self.lifespan = Some(time);
        self
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
        let TopicBuilder { participant, support, name, following, level, order, .. } = self;
        let TopicBuilder { mut qos, service, lifespan, mut options, .. } = self;
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
                "topic `{name}`: its type `{}` is nested, so it is the type of no topic: make a topic of a type that has \
                 it as a member, or remove @nested",
                T::type_name(&support)
            )));
        }
        if is_builtin(&name) {
            return Err(DdsError::BadParameter(format!(
                "`{name}` is the name of a builtin topic: its reader comes from builtin_reader"
            )));
        }
        qos.durability_service = service;
        if let Some(lifespan) = lifespan {
            qos.lifespan.duration = lifespan.into();
        }
        order.check(&name, level)?;
        let forms = Forms::of::<T>(&support);
        forms.settle(Whose::Topic, &name, &mut qos.representation)?;
        let promise = options.promise(&name, level, qos)?;
        let profile = following.as_ref().map(|following| Arc::clone(following.profile()));
        let named = (name.into(), profile);
        let policies = TopicPolicies::new(named, (order, forms), (promise, options));
        let topic = Topic::make(&participant, support, policies)?;
        if let Some(following) = following {
            let entity = Shared::Topic(Arc::downgrade(topic.entity()));
            participant.profiles.note(entity, following);
        }
        Ok(topic)
    }
}

fn two_orders(profile: &str) -> DdsError {
    DdsError::InconsistentPolicy(format!(
        "by profile `{profile}` a topic has an order in common with others and one for each partition: leave out \
         `squall.topic.common_order` or `squall.topic.sharded_by_partition`"
    ))
}
