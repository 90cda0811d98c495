//! A reader that is being made: its policies.
//!
//! Owns: what a reader is asked to be. Never does: read anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use idl_cdr::DdsType;
use qos_profiles::{
    DataReaderQos, DestinationOrderQosPolicyKind, DurabilityQosPolicyKind, HistoryQosPolicyKind,
    OwnershipQosPolicyKind, PresentationQosPolicy, PresentationQosPolicyAccessScopeKind,
    ReaderDataLifecycleQosPolicy, ResourceLimitsQosPolicy, TypeConsistencyEnforcementQosPolicy,
};

use super::cache::Settings;
use super::queues::Queues;
use super::reader::DataReader;
use super::shelf::Shelf;
use crate::domain::Inner;
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::endpoint::{Endpoint, EndpointKind};
use crate::mapping::history::Given;
use crate::mapping::shares::ReaderShared;
use crate::mapping::type_identity::Consistency;
use crate::publication::refused;
use crate::topic::{SharedFilter, Topic};

/// A reader that is being made.
///
/// Without policies it gives all samples in the order in which they came: HISTORY keep-all, and PRESENTATION with ordered
/// access to a topic. [`qos`](Self::qos) gives it a whole set of policies, whose defaults are the standard's: with them a reader
/// keeps the last sample of each instance alone.
pub struct DataReaderBuilder<T> {
    participant: Arc<Inner>,
    topic: Topic<T>,
    qos: DataReaderQos,
    presentation: PresentationQosPolicy,
    wants_history: bool,
    /// Some policy asks for the cache.
    follows: bool,
    filter: Option<Arc<SharedFilter>>,
}

impl<T: DdsType> DataReaderBuilder<T> {
    pub(crate) fn new(
        participant: Arc<Inner>,
        topic: Topic<T>,
        filter: Option<Arc<SharedFilter>>,
    ) -> Self {
        let mut qos = DataReaderQos::default();
        qos.history.kind = HistoryQosPolicyKind::KeepAll;
        let presentation = PresentationQosPolicy {
            access_scope: PresentationQosPolicyAccessScopeKind::Topic,
            ordered_access: true,
            ..PresentationQosPolicy::default()
        };
        // What does not pass is no reason to wake whoever waits: that takes a cache.
        let (wants_history, follows) = (true, filter.is_some());
        DataReaderBuilder { participant, topic, qos, presentation, wants_history, follows, filter }
    }

    /// Wants nothing that was written before it came, although the topic
    /// [keeps](crate::topic::TopicBuilder::transient_local) it: DURABILITY volatile.
    pub fn volatile(mut self) -> Self {
        self.wants_history = false;
        self
    }

    /// What these policies say of a reader's cache: HISTORY, RESOURCE_LIMITS, DESTINATION_ORDER, OWNERSHIP,
    /// TIME_BASED_FILTER and READER_DATA_LIFECYCLE; TYPE_CONSISTENCY_ENFORCEMENT; and whether DURABILITY asks for what was written before. The levels of
    /// DURABILITY and RELIABILITY themselves are the topic's: [`TopicBuilder`](crate::topic::TopicBuilder).
    pub fn qos(mut self, qos: &DataReaderQos) -> Self {
        self.wants_history = qos.durability.kind > DurabilityQosPolicyKind::Volatile;
        self.qos = qos.clone();
        self.presentation = PresentationQosPolicy::default();
        self.follows = true;
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

    /// HISTORY: keeps so many samples of each instance, the last ones. They are copied out of their writers' memory, which
    /// they do not hold up.
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

    /// DESTINATION_ORDER by source: samples of an instance stand in the order of the times at which they were written. What
    /// comes later than something newer that was read already, or than the end of the instance, is dropped.
    pub fn by_source_timestamp(self) -> Self {
        self.with(|qos| {
            qos.destination_order.kind = DestinationOrderQosPolicyKind::BySourceTimestamp;
        })
    }

    /// OWNERSHIP exclusive: of each instance it gets what the strongest writer says that has one, and has not let it go.
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

    /// PRESENTATION: whether samples of several instances come in their order, or instance by instance.
    pub fn presentation(mut self, policy: PresentationQosPolicy) -> Self {
        self.presentation = policy;
        self.with(|_| {})
    }

    /// TYPE_CONSISTENCY_ENFORCEMENT: which other versions of its type it takes samples of.
    pub fn type_consistency(mut self, policy: TypeConsistencyEnforcementQosPolicy) -> Self {
        self.qos.type_consistency = policy;
        self
    }

    /// Makes the reader and announces it.
    ///
    /// # Errors
    /// [`DdsError::InconsistentPolicy`] if policies contradict each other.
    pub fn create(self) -> DdsResult<DataReader<T>> {
        let DataReaderBuilder { participant, topic, qos, presentation, .. } = self;
        let DataReaderBuilder { wants_history, follows, filter, .. } = self;
        if !topic.is_of(&participant) {
            return Err(DdsError::PreconditionNotMet(format!(
                "topic `{}` belongs to another participant: create it from the one that reads it",
                topic.name()
            )));
        }
        if let Some(wrong) = qos.inconsistencies().first() {
            let wrong = format!("a reader of `{}`: {wrong}", topic.name());
            return Err(DdsError::InconsistentPolicy(wrong));
        }
        let settings = Settings::new(&qos, &presentation);
        let shared = Arc::new(ReaderShared::default());
        let (kind, level) = (EndpointKind::Reader, topic.level());
        let (name, data_type) = (topic.name().to_owned(), topic.identity());
        let (keeping, stream, lines) = (topic.keeping(), 0, 0);
        let consistency = Consistency::of(&qos.type_consistency);
        let endpoint =
            Endpoint { kind, topic: name, data_type, level, keeping, stream, lines, consistency };
        let machine_share = (Arc::clone(&shared), wants_history);
        shared.knows_history.store(!level.is_kept(), Ordering::Release);
        let made = participant.engine.act(|machine, link, effects| {
            machine.add_reader(link, endpoint, machine_share, effects)
        });
        let id = made
            .map_err(|refusal| refused(&refusal, &participant.standing, "reader", topic.name()))?;
        let (is_kept, unreadable) = (level.is_kept(), AtomicU64::new(0));
        let remembers = is_kept && participant.standing.may_rejoin();
        let given = remembers.then(Given::default);
        let queues = Mutex::new(Queues::remembering(given));
        let shelf = OnceLock::new();
        if follows {
            shelf.get_or_init(|| Mutex::new(Shelf::new(settings)));
        }
        Ok(DataReader {
            participant,
            topic,
            shared,
            queues,
            unreadable,
            id,
            settings,
            shelf,
            filter,
            is_kept,
            remembers,
        })
    }
}
