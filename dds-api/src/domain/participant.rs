//! The participant: an application's membership in a domain, and the factory of its entities.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use dds_transport_rdma::shm::environment;
use derecho_core::ids::Time;
use derecho_node::logs::LogSettings;
use derecho_node::{TurnListener, WaitOutcome, clock};
use idl_cdr::DdsType;
use idl_xtypes::{DynamicData, DynamicType, SerializedData, TopicData};
use qos_profiles::Glob;
use qos_profiles::xml::QosProvider;

use super::assembly::{AssemblyConfig, DomainEngine, assemble};
use super::cache_filler::CacheFiller;
use super::config::ParticipantConfig;
use super::factory::DomainParticipantFactory;
use super::listener_dispatcher::ListenerDispatcher;
use super::log_service_thread::LogServiceThread;
use super::participant_policies::ParticipantPolicies;
use super::profiles::{ProfileBinding, ProfiledEntity, Profiles, QosReload};
use super::rejoin::Rejoiner;
use crate::infrastructure::lifecycle::Lifecycle;
use crate::infrastructure::listener::ListenerSlot;
use crate::infrastructure::{
    DdsError, DdsResult, DomainParticipantListener, InstanceHandle, Standstill, StatusMask,
    StorageStatus, Timeout, WaitDriver,
};
use crate::mapping::membership_state::MembershipState;
use crate::mapping::timeliness::ParticipantLiveliness;
use crate::publication::{DataWriterBuilder, PublisherBuilder};
use crate::subscription::{DataReaderBuilder, SubscriberBuilder, SubscriberGroup};
use crate::topic::{
    ContentFilteredTopic, DerivedTopics, MultiTopic, Topic, TopicBuilder, TopicDescription,
};

/// The greatest domain number, as in the standard's default port mapping.
const GREATEST_DOMAIN: u32 = 232;
/// Maximum time that a leaving participant waits until the others know of its departure.
const DEPARTURE_LIMIT: Duration = Duration::from_millis(500);
/// Environment variable that names the log folder, if the configuration does not.
const LOG_FOLDER: &str = "SQUALL_LOG_FOLDER";

/// State that all entities of a participant share. The membership ends when the last of them
/// is dropped.
pub(crate) struct ParticipantInner {
    pub(crate) engine: DomainEngine,
    pub(crate) membership: Arc<MembershipState>,
    pub(crate) profiles: Profiles,
    /// Signs of life of the application.
    pub(crate) liveliness: Arc<ParticipantLiveliness>,
    /// Whether the participant is enabled, and whether it still exists.
    pub(crate) lifecycle: Lifecycle,
    pub(crate) policies: ParticipantPolicies,
    /// Number of provisional numbers that were given to entities that are not enabled.
    pub(super) provisional: AtomicU64,
    /// Held from the check of a topic's type until the participant has the topic.
    naming: Mutex<()>,
    /// Its content-filtered topics and multi-topics, by name.
    pub(crate) derived_topics: DerivedTopics,
    /// Subscriber of the builtin topics, while anybody has it.
    pub(crate) builtin: Mutex<Weak<SubscriberGroup>>,
    domain: u32,
    rejoiner: Mutex<Option<Rejoiner>>,
    log_service: Mutex<Option<LogServiceThread>>,
    pub(crate) cache_filler: CacheFiller,
    pub(crate) dispatcher: ListenerDispatcher,
    pub(crate) listener: ListenerSlot<dyn DomainParticipantListener>,
}

impl ParticipantInner {
    /// Starts to call listeners.
    pub(crate) fn start_listeners(&self) -> DdsResult<()> {
        self.dispatcher.start(&self.engine).map_err(|error| {
            DdsError::OutOfResources(format!(
                "the thread that calls listeners cannot start: {error}"
            ))
        })
    }

    /// Excludes other threads that make topics, so that one name has one type.
    pub(crate) fn begin_naming(&self) -> MutexGuard<'_, ()> {
        lock(&self.naming)
    }

    /// Returns the probable reason why no other participant is there, and what to do.
    #[cold]
    pub(crate) fn why_nobody(&self) -> String {
        match self.membership.snapshot().view.0 {
            0 => match self.membership.obstacle() {
                Some(error) => {
                    format!("the domain has not admitted this participant yet: {error}")
                }
                None => "the domain has not admitted this participant yet, because other \
                         participants are stopped or the domain has the maximum of 64: resume \
                         the stopped ones, or end one"
                    .to_owned(),
            },
            _ => {
                "start the other participants, in the same domain and with the same type".to_owned()
            }
        }
    }
}

impl WaitDriver for ParticipantInner {
    fn wait(&self, deadline: Option<Time>, ready: &mut dyn FnMut() -> bool) -> WaitOutcome {
        self.engine.wait(deadline, ready)
    }

    fn tell(&self, listener: &Arc<dyn TurnListener>) {
        self.engine.add_listener(listener);
    }

    fn nudge(&self) {
        self.engine.nudge();
    }

    fn look(&self) {
        self.engine.poke();
    }

    fn alarm(&self, at: Time) {
        self.engine.act(|machine, _, _| machine.alarm(at));
    }
}

impl ParticipantInner {
    pub(super) fn domain_id(&self) -> u32 {
        self.domain
    }

    /// Leaves the domain. Later calls report that.
    pub(super) fn end(&self) {
        if self.lifecycle.delete().is_none() {
            return;
        }
        self.membership.close();
        let rejoiner = lock(&self.rejoiner).take();
        if let Some(rejoiner) = rejoiner {
            // The rejoiner may wait for a view.
            self.engine.poke();
            rejoiner.join();
        }
        lock(&self.log_service).take().into_iter().for_each(LogServiceThread::join);
        self.delete_builtin();
        self.cache_filler.end();
        self.dispatcher.end();
        // Once the members know of the departure, none of them waits for this participant. It
        // leaves even if others do not answer.
        self.engine.act(|machine, _, _| machine.leave());
        let deadline = Timeout::from(DEPARTURE_LIMIT).deadline();
        self.engine.wait(deadline, || self.membership.has_ended());
        // If the others have not answered, they continue without this participant once its link
        // is gone.
        self.engine.act(|machine, _, effects| machine.privatize(effects));
        // The lock on the log folder ends with the participant, unless the disk does not answer
        // in time.
        let ending = self.engine.act(|machine, _, _| machine.take_ending());
        if ending.is_some_and(|ending| ending.join().is_err()) {
            tracing::error!("the thread that ends logs panicked");
        }
        self.engine.stop();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for ParticipantInner {
    fn drop(&mut self) {
        if self.engine.is_inherited() {
            // An announced departure would be the parent's. Everything stays as it is until this
            // process ends.
            let _ = std::mem::ManuallyDrop::new(self.engine.clone());
            return;
        }
        self.end();
    }
}

/// An application's membership in a domain. Clones are handles on the same membership. It ends when
/// the last handle and the last writer and reader are gone.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let topic = participant.topic::<Track>("Tracks").create()?;
/// let reader = participant.reader(&topic).create()?;
/// let (view, members) = participant.view();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DomainParticipant {
    pub(crate) inner: Arc<ParticipantInner>,
}

impl DomainParticipant {
    /// Joins a domain with all defaults. Participants on the same host discover each other.
    pub fn new(domain: u32) -> DdsResult<DomainParticipant> {
        Self::with_config(domain, ParticipantConfig::new())
    }

    /// Joins a domain.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the configuration or a file of
    /// [profiles](ParticipantConfig::qos_files) has an error; the message says what and where.
    pub fn with_config(domain: u32, config: ParticipantConfig) -> DdsResult<DomainParticipant> {
        if domain > GREATEST_DOMAIN {
            return Err(DdsError::BadParameter(format!(
                "domain {domain} does not exist: domains are numbered from 0 to {GREATEST_DOMAIN}"
            )));
        }
        let ParticipantConfig { runtime_dir, group, memory_limit, .. } = config;
        let ParticipantConfig {
            member_timeouts, ablation, pace, is_caller_driven, rejoins, ..
        } = config;
        let folder = config.log_folder.or_else(|| environment(LOG_FOLDER).map(PathBuf::from));
        let profiles = Profiles::new(config.profiles, config.profile)?;
        let (by_profile, binding) = profiles.of_participant(config.own_set.as_deref())?;
        let real_time =
            config.real_time.with(binding.as_ref().and_then(ProfileBinding::settings))?;
        let mut settings = LogSettings { thread: real_time.log, ..LogSettings::default() };
        settings.queue_bytes = config.log_queue.unwrap_or(settings.queue_bytes);
        let log_topics = config.log_topics.iter().map(|pattern| {
            Glob::new(pattern).map_err(|what| {
                DdsError::BadParameter(format!("the pattern `{pattern}` of logged topics: {what}"))
            })
        });
        let log_topics = log_topics.collect::<DdsResult<Vec<Glob>>>()?;
        let logs = folder.map(|folder| (folder, log_topics, settings));
        let keeps_logs = logs.is_some();
        let assembly_config = AssemblyConfig {
            domain,
            runtime_dir,
            group,
            memory_limit,
            member_timeouts,
            ablation,
            pace: real_time.pace(pace),
            is_caller_driven,
            real_time,
            logs,
        };
        let (qos, binding) = match config.qos {
            Some(qos) => (qos, None),
            None => (by_profile, binding),
        };
        let membership = Arc::new(MembershipState::new(rejoins));
        let (engine, rejoiner) = assemble(assembly_config, &membership)?;
        let (liveliness, cache_filler, dispatcher) =
            (Arc::default(), CacheFiller::default(), ListenerDispatcher::default());
        let listener = ListenerSlot::default();
        let inner = Arc::new(ParticipantInner {
            engine,
            membership,
            profiles,
            liveliness,
            lifecycle: Lifecycle::default(),
            policies: ParticipantPolicies::new(qos),
            provisional: AtomicU64::new(0),
            naming: Mutex::default(),
            derived_topics: DerivedTopics::default(),
            builtin: Mutex::default(),
            domain,
            rejoiner: Mutex::new(rejoiner),
            log_service: Mutex::new(None),
            cache_filler,
            dispatcher,
            listener,
        });
        if keeps_logs {
            *lock(&inner.log_service) = Some(LogServiceThread::start(inner.engine.clone())?);
        }
        if let Some(binding) = binding {
            inner.profiles.note(ProfiledEntity::Participant(Arc::downgrade(&inner)), binding);
        }
        let factory = DomainParticipantFactory::instance();
        factory.enter(&inner);
        let participant = DomainParticipant { inner };
        match factory.autoenables() {
            true => participant.enable()?,
            // Reports an error in the participant's policies at once.
            false => participant.set_qos(&participant.qos())?,
        }
        Ok(participant)
    }

    pub(crate) fn of(inner: Arc<ParticipantInner>) -> DomainParticipant {
        DomainParticipant { inner }
    }

    pub(super) fn inner(&self) -> &Arc<ParticipantInner> {
        &self.inner
    }

    /// Number of the domain.
    #[doc(alias = "get_domain_id")]
    pub fn domain_id(&self) -> u32 {
        self.inner.domain
    }

    /// Name of this participant in the domain. It changes with each
    /// [rejoin](ParticipantConfig::rejoin).
    pub fn instance_handle(&self) -> InstanceHandle {
        self.inner.membership.handle(0)
    }

    /// Number of the domain's present view, and number of participants in it, this one included.
    /// All participants see the same views in the same order. Before this participant is admitted
    /// there is no view. While it is isolated, the result is the last view that it has seen, or
    /// none yet if it is rejoining.
    pub fn view(&self) -> (u64, usize) {
        self.inner.engine.poke();
        self.inner.membership.snapshot().view
    }

    /// Whether the others of the domain continue without this participant. Every call on it and on
    /// its entities then fails from now on, or until it has [rejoined](ParticipantConfig::rejoin)
    /// if it may.
    pub fn is_isolated(&self) -> bool {
        let is_isolated = self.inner.membership.is_evicted();
        if is_isolated {
            // The next turn makes private the memory of samples that the application still holds.
            self.inner.engine.poke();
        }
        is_isolated
    }

    /// Number of times this participant has rejoined after the others had continued without it.
    /// See [`ParticipantConfig::rejoin`].
    pub fn rejoins(&self) -> u64 {
        self.inner.membership.rejoins()
    }

    /// Describes the participant's state for debugging, in no fixed form.
    #[doc(hidden)]
    pub fn describe(&self) -> String {
        self.inner.engine.act(|machine, _, _| machine.describe())
    }

    /// Number of other participants that are connected to this one.
    pub fn peer_count(&self) -> usize {
        self.inner.engine.poke();
        self.inner.membership.snapshot().peers
    }

    /// Waits until `ready` returns true, and returns whether it did in time. Use it to wait for one
    /// of several events, for example for a sample or for room for one, for which no single entity
    /// can wait.
    ///
    /// `ready` is called often, also while this participant stands still for the call. It must be
    /// cheap. It may query readers and writers ([`DataReader::has_samples`],
    /// [`DataWriter::has_room_for`]), [`peer_count`](Self::peer_count) and [`view`](Self::view),
    /// and take available samples. A call within `ready` that would wait does not wait, and reports
    /// that its time is over.
    ///
    /// # Panics
    /// If `ready` asks for something that only a turn of this participant can determine, such as
    /// [`stored_topics`](Self::stored_topics): no turn runs while `ready` runs.
    ///
    /// [`DataReader::has_samples`]: crate::subscription::DataReader::has_samples
    /// [`DataWriter::has_room_for`]: crate::publication::DataWriter::has_room_for
    pub fn wait_until(
        &self,
        timeout: impl Into<Timeout>,
        ready: impl FnMut() -> bool,
    ) -> DdsResult<bool> {
        match self.inner.engine.wait(timeout.into().deadline(), ready) {
            WaitOutcome::Ready => Ok(true),
            WaitOutcome::TimedOut => Ok(false),
            WaitOutcome::Stopped => {
                Err(DdsError::AlreadyDeleted("the participant has left".to_owned()))
            }
        }
    }

    /// Topics whose order makes no progress at present, and the domain itself if it makes none: for
    /// how long, and which participants are awaited for what. An order that makes progress is not
    /// listed, nor is one that has stood still for less than a tenth of a second. Each standstill
    /// is also logged while it lasts.
    pub fn standstills(&self) -> Vec<Standstill> {
        self.inner.engine.act(|machine, _, _| machine.standstills())
    }

    /// Counters of the work of this participant's engine.
    pub fn counters(&self) -> &derecho_node::EngineCounters {
        self.inner.engine.counters()
    }

    /// Topics whose samples this participant keeps, including those that it only logs: the name,
    /// the name of the type, and the storage status of each.
    pub fn stored_topics(&self) -> Vec<(String, String, StorageStatus)> {
        self.inner.engine.act(|machine, _, _| machine.stored())
    }

    /// Provider of the participant's QoS profiles.
    pub fn qos_provider(&self) -> &Arc<QosProvider> {
        self.inner.profiles.provider()
    }

    /// Reads the files of the participant's [profiles](ParticipantConfig::qos_files) again, and
    /// applies the changes to all topics, publishers, subscribers, writers and readers that were
    /// created from a profile. On each of them, the policies change that may change on an enabled
    /// entity, unless the application has set them otherwise since. Policies that may not change
    /// stay, and are reported. An entity whose policies would contradict each other keeps all its
    /// policies, and is reported too. Entities that are created from now on take their policies
    /// from the new profiles.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the files have an error; then nothing changes.
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// # fn reload(participant: &DomainParticipant) -> DdsResult<()> {
    /// let report = participant.reload_qos()?;
    /// for entity in &report.unchanged {
    ///     println!("not as its profile says: {entity}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn reload_qos(&self) -> DdsResult<QosReload> {
        self.inner.profiles.reload(&self.inner)
    }

    /// A topic: a name for samples of one type.
    ///
    /// A type that is marked as [nested](crate::types#on-a-type) cannot be the type of a topic.
    /// This does not compile:
    /// ```compile_fail,E0080
    /// # use dds_api::prelude::*;
    /// #[derive(DdsType, Clone, Debug, Default)]
    /// #[dds(nested)]
    /// struct Corner { x: f64, y: f64 }
    ///
    /// let corners = DomainParticipant::new(0)?.topic::<Corner>("Corners").create()?;
    /// # Ok::<(), DdsError>(())
    /// ```
    #[doc(alias = "register_type")]
    #[doc(alias = "create_topic")]
    pub fn topic<T: DdsType>(&self, name: &str) -> TopicBuilder<T> {
        const {
            assert!(
                !T::DESCRIPTOR.is_nested(),
                "a nested type cannot be the type of a topic: create a topic of a type that has \
                 the nested type as a member, or remove `nested`"
            );
        }
        TopicBuilder::new(Arc::clone(&self.inner), name, ())
    }

    /// The topic that its type is meant for. The type gives its name (`#[dds(topic = "...")]`, in
    /// IDL `@topic(name = "...")`); else the name is that of the type.
    ///
    /// ```no_run
    /// use dds_api::prelude::*;
    ///
    /// #[derive(DdsType, Clone, Debug, Default)]
    /// #[dds(name = "Fleet::Track", topic = "Tracks")]
    /// struct Track { #[dds(key)] id: u32, height: f64 }
    ///
    /// let participant = DomainParticipant::new(0)?;
    /// let tracks = participant.topic_of::<Track>().create()?;
    /// assert_eq!(tracks.name(), "Tracks");
    /// # Ok::<(), DdsError>(())
    /// ```
    pub fn topic_of<T: DdsType>(&self) -> TopicBuilder<T> {
        self.topic(T::TOPIC.unwrap_or(T::TYPE_NAME))
    }

    /// A topic whose type is known at run time only: built by the program, read from IDL, or
    /// [announced by other participants](Self::find_dynamic_topic). A program that was compiled
    /// with the type uses the same topic.
    ///
    /// ```no_run
    /// use dds_api::prelude::*;
    /// use dds_api::types::{DynamicData, DynamicType, Extensibility, MemberOptions, Primitive, StructBuilder, Value};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let number = DynamicType::primitive(Primitive::Float64);
    /// let of = StructBuilder::new("Wind", Extensibility::Final).member("speed", &number, MemberOptions::default());
    /// let of = of.build()?;
    /// let participant = DomainParticipant::new(0)?;
    /// let topic = participant.dynamic_topic("Wind", &of).create()?;
    /// let writer = participant.writer(&topic).create()?;
    /// let mut wind = DynamicData::new(&of);
    /// wind.set("speed", Value::Double(12.5))?;
    /// writer.write(&wind)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn dynamic_topic(&self, name: &str, of: &DynamicType) -> TopicBuilder<DynamicData> {
        TopicBuilder::new(Arc::clone(&self.inner), name, of.clone())
    }

    /// A topic like that of [`dynamic_topic`](Self::dynamic_topic), but with samples that are
    /// passed on as bytes: for tools and bridges. Only the key of a sample is read, and the members
    /// that a filter needs.
    pub fn serialized_topic(&self, name: &str, of: &DynamicType) -> TopicBuilder<SerializedData> {
        TopicBuilder::new(Arc::clone(&self.inner), name, of.clone())
    }

    /// A writer of a topic. The policies that the topic sets are those of the writer, until
    /// [`qos`](DataWriterBuilder::qos) sets all of them.
    #[doc(alias = "copy_from_topic_qos")]
    pub fn writer<T: TopicData>(&self, topic: &Topic<T>) -> DataWriterBuilder<T> {
        DataWriterBuilder::new(Arc::clone(&self.inner), topic.clone())
    }

    /// A reader of a topic, or of a [part](DomainParticipant::content_filtered_topic) of a topic.
    /// The policies that the topic sets are those of the reader, until
    /// [`qos`](DataReaderBuilder::qos) sets all of them.
    #[doc(alias = "copy_from_topic_qos")]
    pub fn reader<D: TopicDescription>(&self, topic: &D) -> DataReaderBuilder<D::Data> {
        DataReaderBuilder::of(Arc::clone(&self.inner), topic)
    }

    /// LIVELINESS manual by participant: asserts that the application is alive, for all its writers
    /// with this kind of liveliness. Each write of one of these writers does so, too.
    pub fn assert_liveliness(&self) -> DdsResult<()> {
        let membership = &self.inner.membership;
        self.check()?;
        if membership.is_out_for_good() {
            return Err(membership.error());
        }
        if self.inner.liveliness.assert(clock::now()) {
            self.inner.engine.act(|machine, _, _| machine.schedule_timeliness());
        }
        Ok(())
    }

    /// Sets the listener for changes of these statuses of all its entities, where no nearer
    /// listener wants them. One thread calls all listeners of the participant, one after another.
    pub fn set_listener(
        &self,
        listener: impl DomainParticipantListener + 'static,
        mask: impl Into<StatusMask>,
    ) -> DdsResult<()> {
        self.inner.listener.set(Box::new(listener), mask.into());
        self.inner.start_listeners()
    }

    /// Removes the listener for all its entities.
    pub fn clear_listener(&self) {
        self.inner.listener.clear();
    }

    /// Statuses for which the participant's listener is called; none if it has no listener.
    /// The entity owns the listener itself, so the listener must share whatever the
    /// application queries.
    pub fn listener_mask(&self) -> StatusMask {
        self.inner.listener.mask()
    }

    /// A publisher: writers that share PRESENTATION, PARTITION and GROUP_DATA.
    #[doc(alias = "create_publisher")]
    pub fn publisher(&self) -> PublisherBuilder {
        PublisherBuilder::new(Arc::clone(&self.inner))
    }

    /// A subscriber: readers that share PRESENTATION, PARTITION and GROUP_DATA.
    #[doc(alias = "create_subscriber")]
    pub fn subscriber(&self) -> SubscriberBuilder {
        SubscriberBuilder::new(Arc::clone(&self.inner))
    }

    /// The samples of a topic that pass an expression: the standard's SQL, with `%0` to `%99`
    /// for parameters.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the expression is wrong, or compares values that cannot be
    /// compared; the message says where and why. [`DdsError::PreconditionNotMet`] if the topic
    /// belongs to another participant.
    #[doc(alias = "create_contentfilteredtopic")]
    pub fn content_filtered_topic<T: TopicData>(
        &self,
        name: &str,
        topic: &Topic<T>,
        filter_expression: &str,
        expression_parameters: &[String],
    ) -> DdsResult<ContentFilteredTopic<T>> {
        if !topic.is_of(&self.inner) {
            return Err(DdsError::PreconditionNotMet(format!(
                "topic `{}` belongs to another participant: create the topic from the participant \
                 that filters it",
                topic.name()
            )));
        }
        ContentFilteredTopic::new(
            name,
            &self.inner.derived_topics,
            topic,
            filter_expression,
            expression_parameters,
        )
    }

    /// A topic of this name whose samples are composed from samples of this participant's topics: a
    /// [multi-topic](MultiTopic), with readers like any topic.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the expression is wrong or does not fit the types; the
    /// message says where and why. [`DdsError::PreconditionNotMet`] if the participant has none of
    /// the topics.
    #[doc(alias = "delete_multitopic")]
    #[doc(alias = "create_multitopic")]
    pub fn multi_topic<T: DdsType>(
        &self,
        name: &str,
        subscription_expression: &str,
        expression_parameters: &[String],
    ) -> DdsResult<MultiTopic<T>> {
        MultiTopic::new(&self.inner, name, (), subscription_expression, expression_parameters)
    }

    /// A topic like that of [`multi_topic`](Self::multi_topic), but with samples of a type that is
    /// known at run time only.
    ///
    /// # Errors
    /// The errors of [`DomainParticipant::multi_topic`].
    pub fn dynamic_multi_topic(
        &self,
        name: &str,
        of: &DynamicType,
        subscription_expression: &str,
        expression_parameters: &[String],
    ) -> DdsResult<MultiTopic<DynamicData>> {
        MultiTopic::new(
            &self.inner,
            name,
            of.clone(),
            subscription_expression,
            expression_parameters,
        )
    }
}
