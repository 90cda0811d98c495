//! Enabling and deletion of a reader.
//!
//! Owns: how a reader is announced, and how the announcement is withdrawn. Never does: read
//! anything, or decide when the reader may be enabled.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use idl_xtypes::TopicData;
use qos_profiles::{
    DataReaderQos, DurabilityQosPolicyKind, PolicyId, PresentationQosPolicy, SubscriberQos,
};

use super::cache::CacheSettings;
use super::group_access::GroupReaderEntry;
use super::intake::ReaderCore;
use super::joined::{JoinedReaders, NullDiscoverySink};
use super::queues::Queues;
use super::reader::{ActiveReader, DataReader};
use super::subscriber::Subscriber;
use crate::domain::{ParticipantInner, ProfileBinding, enabling};
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::builtin::DiscoverySink;
use crate::mapping::endpoint::EndpointKind;
use crate::mapping::kept_replay::{DeliveredNumbers, GONE_SENDER};
use crate::mapping::machine::ParticipantMachine;
use crate::mapping::policies::{EndpointPolicies, check_data};
use crate::publication::refused;
use crate::topic::{JoinedTopics, Topic};

/// Policies and settings of a reader until it is enabled.
pub(super) struct ReaderDraft {
    pub(super) qos: DataReaderQos,
    /// The profile that the policies come from, if any.
    pub(super) profile_binding: Option<ProfileBinding>,
    /// PRESENTATION and PARTITION as requested when the reader was made.
    pub(super) group: SubscriberQos,
    /// PRESENTATION as the cache applies it.
    pub(super) presentation: PresentationQosPolicy,
    /// The listener that receives what discovery reports, if the topic is a builtin topic.
    pub(super) sink: Option<Arc<dyn DiscoverySink>>,
    /// The topics that are joined, if the topic is a multi-topic.
    pub(super) joined: Option<Arc<JoinedTopics>>,
}

/// State of a reader since it was enabled.
pub(super) struct EnabledReader {
    pub(super) id: u64,
    /// Whether samples of the topic are kept.
    pub(super) is_kept: bool,
    /// Whether the reader remembers which samples it has given out.
    pub(super) remembers: bool,
    /// LIFESPAN of the topic, in nanoseconds; zero if samples are not kept.
    pub(super) lifespan: u64,
}

/// Checks that the reader's policies are consistent with each other and with the topic.
pub(super) fn check<T: TopicData>(
    topic: &Topic<T>,
    qos: &DataReaderQos,
    group: &SubscriberQos,
) -> DdsResult<()> {
    check_data(PolicyId::UserData, &qos.user_data.value)?;
    let wrong = qos.inconsistencies().first().map(ToString::to_string);
    match wrong.or(topic.wrong_partition(&group.partition)) {
        Some(wrong) => {
            Err(DdsError::InconsistentPolicy(format!("a reader of `{}`: {wrong}", topic.name())))
        }
        None => Ok(()),
    }
}

impl enabling::EndpointDraft for ReaderDraft {
    type Started = EnabledReader;

    fn profile_binding(&self) -> Option<&ProfileBinding> {
        self.profile_binding.as_ref()
    }

    fn id(started: &EnabledReader) -> u64 {
        started.id
    }
}

/// Enabling and deleting: see
/// [`DomainParticipant::enable`](crate::domain::DomainParticipant::enable).
impl<T: TopicData> DataReader<T> {
    /// Enables the reader. Does nothing if it is already enabled.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if the subscriber, the participant or the topic is not
    /// enabled, and the errors of [`DataReaderBuilder::create`](super::DataReaderBuilder::create).
    pub fn enable(&self) -> DdsResult<()> {
        self.life().enable()
    }

    /// Whether the reader is enabled.
    pub fn is_enabled(&self) -> bool {
        self.enabling.is_enabled()
    }

    /// Deletes the reader, even if other handles on it remain. Calls on those handles, including
    /// calls that are waiting, then return [`DdsError::AlreadyDeleted`]. Samples already given out
    /// stay valid. Dropping the last handle does the same.
    #[doc(alias = "delete_datareader")]
    pub fn delete(self) {
        self.life().end();
        self.participant.engine.nudge();
    }
}

impl<T: TopicData> ReaderCore<T> {
    fn start(&self, draft: &ReaderDraft) -> DdsResult<EnabledReader> {
        let ReaderDraft { qos, group: former, presentation, .. } = draft;
        let group = self.subscriber.as_ref().map_or_else(|| former.clone(), Subscriber::qos);
        check(&self.topic, qos, &group)?;
        // A change of the subscriber's PRESENTATION also applies to its readers' caches.
        let anew = group.presentation != former.presentation;
        let presentation = if anew { &group.presentation } else { presentation };
        let settings = CacheSettings::new(qos, presentation);
        let wants_history = qos.durability.kind > DurabilityQosPolicyKind::Volatile;
        let (level, lifespan) = (self.topic.level(), self.topic.retention().lifespan);
        let remembers = level.is_kept() && self.participant.membership.may_rejoin();
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        *self.queues.lock() = Queues::new(
            remembers.then(DeliveredNumbers::default),
            &self.departures,
            lifespan,
            self.max_held_percent,
        );
        let has_instances = T::dynamic_type(self.topic.support()).is_keyed();
        if !level.is_ordered() && (settings.exclusive || has_instances) {
            self.queues.lock().order_by_time();
        }
        // The thread that reads may differ from the thread that makes the reader.
        self.queues.hand_over();
        // A sample that a filter rejects must not wake a waiting thread, and a coherent set comes
        // as a whole: only the cache provides for that.
        let is_whole = self.filter.is_none() && !group.presentation.coherent_access;
        let is_alone = self.leader().is_none() && draft.joined.is_none() && draft.sink.is_none();
        let decides = has_instances || !settings.keep_all_as_they_come();
        if decides || !is_whole || !is_alone {
            drop(self.cache_as_is());
        }
        let policies = EndpointPolicies::Requested { reader: qos.clone(), subscriber: group };
        if let Some(sink) = &draft.sink {
            return Ok(self.listen(Arc::clone(sink), policies));
        }
        if let Some(joined) = &draft.joined {
            let (participant, subscriber) = (&self.participant, self.subscriber.as_ref());
            let joined_readers = JoinedReaders::new(joined, participant, subscriber, qos)?;
            self.joined_readers.get_or_init(|| joined_readers);
            return Ok(self.listen(Arc::new(NullDiscoverySink), policies));
        }
        let mut endpoint = self.topic.endpoint(EndpointKind::Reader, policies);
        endpoint.group = self.subscriber.as_ref().map_or(0, Subscriber::group);
        self.shared.knows_history.store(!level.is_kept(), Ordering::Release);
        let shared = Arc::clone(&self.shared);
        let made = self.participant.engine.act(|machine, link, effects| {
            machine.add_reader(link, endpoint, shared, wants_history, effects)
        });
        let id = made.map_err(|refusal| {
            refused(&refusal, &self.participant.membership, "reader", self.topic.name())
        })?;
        Ok(EnabledReader { id, is_kept: level.is_kept(), remembers, lifespan })
    }

    /// Registers for what discovery reports from now on. Reports are put into the queue of opened
    /// samples, which also holds those of coherent sets.
    fn listen(&self, sink: Arc<dyn DiscoverySink>, policies: EndpointPolicies) -> EnabledReader {
        self.shared.knows_history.store(true, Ordering::Release);
        self.shared.set_sending(&(Arc::new([GONE_SENDER]) as _));
        let shared = Arc::clone(&self.shared);
        let listen = |machine: &mut ParticipantMachine| machine.add_sink(sink, shared, policies);
        let id = self.participant.engine.act(|machine, _, _| listen(machine));
        EnabledReader { id, is_kept: false, remembers: false, lifespan: 0 }
    }
}

impl<T: TopicData> ActiveReader<T> {
    /// Enables and announces the reader. If it keeps only the last samples, its cache is filled
    /// even while the application does not read (I-144).
    pub(super) fn enable(&self) -> DdsResult<()> {
        let core = &self.core;
        let keep_filled = || {
            if core.settings().depth.is_some() {
                let ParticipantInner { engine, cache_filler, .. } = &*core.participant;
                self.filler_entry.get_or_init(|| cache_filler.add(engine, Arc::clone(core) as _));
            }
        };
        let start = |draft: &ReaderDraft| {
            self.join_group(draft)?;
            core.start(draft).inspect_err(|_| self.leave_group())
        };
        core.enabling.enable(&core.participant, start, keep_filled)
    }

    /// Stops reading and withdraws the announcement, even if handles remain (I-183). Samples
    /// already given out stay valid.
    pub(super) fn end(&self) {
        let core = &*self.core;
        if !core.enabling.end() {
            return;
        }
        // From now on the cache filler leaves the cache alone.
        self.filler_entry.get().into_iter().for_each(|filler_entry| filler_entry.leave());
        self.leave_group();
        // The contents refer to the memory of writers.
        self.empty();
        let id = core.enabling.id();
        core.participant.profiles.forget(id);
        let engine = &core.participant.engine;
        engine.act_soon(move |machine, _, effects| machine.remove_reader(id, effects));
        // The reader may have been matched with another writer in the meantime.
        self.empty();
    }

    /// Registers the reader with its subscriber, which leads it if they read as a group.
    fn join_group(&self, draft: &ReaderDraft) -> DdsResult<()> {
        let core = &self.core;
        let Some(subscriber) = &core.subscriber else { return Ok(()) };
        let qos = subscriber.qos();
        let policies =
            EndpointPolicies::Requested { reader: draft.qos.clone(), subscriber: qos.clone() };
        let endpoint = core.topic.endpoint(EndpointKind::Reader, policies);
        let is_joined = draft.sink.is_some() || draft.joined.is_some();
        let key = (endpoint.level.is_ordered() && !is_joined).then(|| endpoint.key());
        let notified: Weak<ActiveReader<T>> = Weak::clone(&self.me);
        let reader: Weak<ReaderCore<T>> = Arc::downgrade(core);
        let topic = core.topic.name().into();
        let entry = GroupReaderEntry { id: self.token(), key, topic, reader, notified };
        subscriber.group_access().join(&qos.presentation, entry)
    }

    fn leave_group(&self) {
        let access = self.core.subscriber.as_ref().map(Subscriber::group_access);
        access.into_iter().for_each(|access| access.leave(self.token()));
    }

    /// The reader's identifier within its group.
    fn token(&self) -> usize {
        Arc::as_ptr(&self.core).addr()
    }

    fn empty(&self) {
        let core = &*self.core;
        if let Some(reader_cache) = core.cache.get() {
            reader_cache.lock().unwrap_or_else(PoisonError::into_inner).clear(core.settings());
        }
        core.shared.sources.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *core.queues.lock() = Queues::default();
        core.unqueued.clear();
    }
}
