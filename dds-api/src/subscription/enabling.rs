//! What a reader is to be, and what it has once it is enabled.
//!
//! Owns: how it is announced, and taken back. Never does: read anything, or decide when it may be enabled.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use idl_xtypes::TopicData;
use qos_profiles::{
    DataReaderQos, DurabilityQosPolicyKind, PolicyId, PresentationQosPolicy, SubscriberQos,
};

use super::cache::Settings;
use super::intake::ReaderCore;
use super::joined::{Deaf, Joining};
use super::queues::Queues;
use super::reader::{DataReader, ReaderLife};
use super::shelf::Shelf;
use super::subscriber::Subscriber;
use crate::domain::{Following, Inner, enabling};
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::builtin::Hears;
use crate::mapping::endpoint::EndpointKind;
use crate::mapping::history::{Given, NOBODY};
use crate::mapping::machine::ParticipantMachine;
use crate::mapping::policies::{Policies, check_data};
use crate::publication::refused;
use crate::topic::{Joined, Topic};

/// What a reader is to be once it is enabled.
pub(super) struct Draft {
    pub(super) qos: DataReaderQos,
    /// The profile that its policies are by, if they are.
    pub(super) following: Option<Following>,
    /// What it requests of order and coherence, as it was when it was made.
    pub(super) group: SubscriberQos,
    /// What its cache does.
    pub(super) presentation: PresentationQosPolicy,
    /// Some policy asks for the cache.
    pub(super) follows: bool,
    /// Of a builtin topic: what it hears by.
    pub(super) ear: Option<Arc<dyn Hears>>,
    /// Of a multi-topic: what it is joined of.
    pub(super) joined: Option<Arc<Joined>>,
}

/// What a reader has since it was enabled.
pub(super) struct Started {
    pub(super) id: u64,
    /// Samples of its topic are kept.
    pub(super) is_kept: bool,
    /// It remembers what it has given out.
    pub(super) remembers: bool,
    /// LIFESPAN of its topic, in nanoseconds; zero if samples are not kept.
    pub(super) lifespan: u64,
}

/// Whether a reader's policies go together, and with its topic.
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

impl enabling::Draft for Draft {
    type Started = Started;

    fn following(&self) -> Option<&Following> {
        self.following.as_ref()
    }

    fn id(started: &Started) -> u64 {
        started.id
    }
}

/// Enabling and deleting: see [`DomainParticipant::enable`](crate::domain::DomainParticipant::enable).
impl<T: TopicData> DataReader<T> {
    /// Enables it. Once it is enabled, nothing happens.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if its subscriber, its participant or its topic is not enabled, and those of
    /// [`DataReaderBuilder::create`](super::DataReaderBuilder::create).
    pub fn enable(&self) -> DdsResult<()> {
        self.life().enable()
    }

    /// Whether it is enabled.
    pub fn is_enabled(&self) -> bool {
        self.enabling.is_enabled()
    }

    /// Deletes it, whoever else has handles on it: their calls say [`DdsError::AlreadyDeleted`] from then on, those that wait
    /// included. What it has given out stays whole. Dropping the last handle does the same.
    pub fn delete(self) {
        self.life().end();
        self.participant.engine.nudge();
    }
}

impl<T: TopicData> ReaderCore<T> {
    fn start(&self, to_be: &Draft) -> DdsResult<Started> {
        let Draft { qos, group: former, presentation, follows, .. } = to_be;
        let group = self.subscriber.as_ref().map_or_else(|| former.clone(), Subscriber::qos);
        check(&self.topic, qos, &group)?;
        // What the subscriber says anew is for its readers' caches as well.
        let anew = group.presentation != former.presentation;
        let presentation = if anew { &group.presentation } else { presentation };
        let settings = Settings::new(qos, presentation);
        let wants_history = qos.durability.kind > DurabilityQosPolicyKind::Volatile;
        let (level, lifespan) = (self.topic.level(), self.topic.keeping().lifespan);
        let remembers = level.is_kept() && self.participant.standing.may_rejoin();
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        *self.queues.lock() = Queues::new(
            remembers.then(Given::default),
            &self.departures,
            (lifespan, self.max_held_percent),
        );
        // Whoever reads need not be who makes the reader.
        self.queues.hand_over();
        if *follows || anew || self.leader().is_some() {
            self.shelf.get_or_init(|| Mutex::new(Shelf::new(settings, self.topic.support())));
        }
        let policies = Policies::Requested { reader: qos.clone(), subscriber: group };
        if let Some(ear) = &to_be.ear {
            return Ok(self.listen(Arc::clone(ear), policies));
        }
        if let Some(joined) = &to_be.joined {
            let within = (&self.participant, self.subscriber.as_ref());
            let joining = Joining::new(joined, within, &qos.history)?;
            self.joining.get_or_init(|| joining);
            return Ok(self.listen(Arc::new(Deaf), policies));
        }
        let mut endpoint = self.topic.endpoint(EndpointKind::Reader, policies);
        endpoint.group = self.subscriber.as_ref().map_or(0, Subscriber::group);
        self.shared.knows_history.store(!level.is_kept(), Ordering::Release);
        let machine_share = (Arc::clone(&self.shared), wants_history);
        let made = self.participant.engine.act(|machine, link, effects| {
            machine.add_reader(link, endpoint, machine_share, effects)
        });
        let id = made.map_err(|refusal| {
            refused(&refusal, &self.participant.standing, "reader", self.topic.name())
        })?;
        Ok(Started { id, is_kept: level.is_kept(), remembers, lifespan })
    }

    /// It hears of what discovery has from now on, which comes where samples of coherent sets wait that were opened.
    fn listen(&self, ear: Arc<dyn Hears>, policies: Policies) -> Started {
        self.shared.knows_history.store(true, Ordering::Release);
        self.shared.is_sent_by(&(Arc::new([NOBODY]) as _));
        let shared = Arc::clone(&self.shared);
        let listen = |machine: &mut ParticipantMachine| machine.listen(ear, shared, policies);
        let id = self.participant.engine.act(|machine, _, _| listen(machine));
        Started { id, is_kept: false, remembers: false, lifespan: 0 }
    }
}

impl<T: TopicData> ReaderLife<T> {
    /// Enables it: announces it. One that keeps the last samples alone is filled although nobody looks (I-144).
    pub(super) fn enable(&self) -> DdsResult<()> {
        let core = &self.core;
        let keep_filled = || {
            if core.settings().depth.is_some() {
                let Inner { engine, collector, .. } = &*core.participant;
                self.charge.get_or_init(|| collector.add(engine, Arc::clone(core) as _));
            }
        };
        let start = |to_be: &Draft| {
            self.join_group(to_be)?;
            core.start(to_be).inspect_err(|_| self.leave_group())
        };
        core.enabling.enable(&core.participant, start, keep_filled)
    }

    /// It reads no more, and nobody hears of it any more. What it has given out stays whole.
    pub(super) fn end(&self) {
        let core = &*self.core;
        if !core.enabling.end() {
            return;
        }
        // Nobody fills it any more.
        self.charge.get().into_iter().for_each(|charge| charge.leave());
        self.leave_group();
        // What is in it refers to its writers' memory.
        self.empty();
        let id = core.enabling.id();
        core.participant.profiles.forget(id);
        let engine = &core.participant.engine;
        engine.act_soon(move |machine, _, effects| machine.remove_reader(id, effects));
        // It may have been matched with another one meanwhile.
        self.empty();
    }

    /// Its subscriber knows of it, and leads it if it is to.
    fn join_group(&self, to_be: &Draft) -> DdsResult<()> {
        let core = &self.core;
        let Some(subscriber) = &core.subscriber else { return Ok(()) };
        let qos = subscriber.qos();
        let policies = Policies::Requested { reader: to_be.qos.clone(), subscriber: qos.clone() };
        let endpoint = core.topic.endpoint(EndpointKind::Reader, policies);
        let is_joined = to_be.ear.is_some() || to_be.joined.is_some();
        let key = (endpoint.level.is_ordered() && !is_joined).then(|| endpoint.key());
        let member: Weak<ReaderLife<T>> = Weak::clone(&self.me);
        let reader: Weak<ReaderCore<T>> = Arc::downgrade(core);
        let (name, who) = (core.topic.name(), (self.token(), key));
        subscriber.group_access().join(&qos.presentation, who, name, (reader, member))
    }

    fn leave_group(&self) {
        let access = self.core.subscriber.as_ref().map(Subscriber::group_access);
        access.into_iter().for_each(|access| access.leave(self.token()));
    }

    /// What it is called there.
    fn token(&self) -> usize {
        Arc::as_ptr(&self.core).addr()
    }

    fn empty(&self) {
        let core = &*self.core;
        if let Some(shelf) = core.shelf.get() {
            shelf.lock().unwrap_or_else(PoisonError::into_inner).clear(core.settings());
        }
        core.shared.sources.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *core.queues.lock() = Queues::default();
        core.opened.clear();
    }
}
