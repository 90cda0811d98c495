//! The topic module of the standard: a name for samples of one type.

mod filtered;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use idl_cdr::DdsType;
use qos_profiles::{DurabilityServiceQosPolicy, HistoryQosPolicyKind, Length, TopicQos};

use crate::domain::Inner;
use crate::infrastructure::{DdsError, DdsResult, LogRetention, StorageStatus};
use crate::mapping::endpoint::{Keeping, TopicLevel, topic_key};
use crate::mapping::type_identity::TypeIdentity;

pub use filtered::{ContentFilteredTopic, TopicDescription};
pub(crate) use filtered::{SharedFilter, wrong};

/// The longest topic name, as in other DDS products.
const LONGEST_NAME: usize = 255;

/// A name under which samples of type `T` are written and read.
pub struct Topic<T> {
    name: Arc<str>,
    participant: Arc<Inner>,
    level: TopicLevel,
    keeping: Keeping,
    _type: PhantomData<fn() -> T>,
}

impl<T> Clone for Topic<T> {
    fn clone(&self) -> Self {
        let (name, participant) = (Arc::clone(&self.name), Arc::clone(&self.participant));
        let (level, keeping) = (self.level, self.keeping);
        Topic { name, participant, level, keeping, _type: PhantomData }
    }
}

impl<T: DdsType> Topic<T> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        T::TYPE_NAME
    }

    /// Whether its samples come in one order at all readers.
    pub fn is_atomic(&self) -> bool {
        self.level.is_ordered()
    }

    /// Whether its samples are kept for those who come later.
    pub fn is_kept(&self) -> bool {
        self.level.is_kept()
    }

    /// Whether its samples are kept in logs.
    pub fn is_logged(&self) -> bool {
        self.level.is_logged()
    }

    /// How its samples are kept, as far as this participant knows. None if they are not, or if this participant takes no
    /// part in it.
    pub fn storage_status(&self) -> Option<StorageStatus> {
        let key = topic_key(&self.name, &self.identity());
        self.participant.engine.act(|machine, _, _| machine.storage(key))
    }

    /// What it waits for before it begins, for messages.
    pub(crate) fn waiting(&self) -> String {
        self.storage_status().map_or(String::new(), |status| status.waiting())
    }

    pub(crate) fn keeping(&self) -> Keeping {
        self.keeping
    }

    pub(crate) fn level(&self) -> TopicLevel {
        self.level
    }

    pub(crate) fn identity(&self) -> TypeIdentity {
        TypeIdentity::of::<T>()
    }

    /// Whether it belongs to this participant.
    pub(crate) fn is_of(&self, participant: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.participant, participant)
    }
}

/// A topic that is being made.
pub struct TopicBuilder<T> {
    participant: Arc<Inner>,
    name: String,
    level: TopicLevel,
    service: DurabilityServiceQosPolicy,
    lifespan: Option<Duration>,
    durable_first: bool,
    detach: bool,
    log_retention: LogRetention,
    _type: PhantomData<fn() -> T>,
}

impl<T: DdsType> TopicBuilder<T> {
    pub(crate) fn new(participant: Arc<Inner>, name: &str) -> Self {
        TopicBuilder {
            participant,
            name: name.to_owned(),
            level: TopicLevel::Unordered,
            service: DurabilityServiceQosPolicy::default(),
            lifespan: None,
            durable_first: false,
            detach: false,
            log_retention: LogRetention::default(),
            _type: PhantomData,
        }
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
    pub fn create(self) -> DdsResult<Topic<T>> {
        let keeping = self.keeping();
        let TopicBuilder { participant, name, level, .. } = self;
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return Err(DdsError::BadParameter(format!(
                "a topic's name has 1 to {LONGEST_NAME} bytes and no NUL; this one has {} bytes",
                name.len()
            )));
        }
        let keeping = keeping.map_err(|wrong| {
            DdsError::InconsistentPolicy(format!("DURABILITY_SERVICE of topic `{name}`: {wrong}"))
        })?;
        Ok(Topic { name: name.into(), participant, level, keeping, _type: PhantomData })
    }
}
