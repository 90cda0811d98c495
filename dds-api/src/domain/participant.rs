//! The participant: an application's membership in a domain, and the factory of its entities.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use derecho_core::group::watch::Patience;
use derecho_core::ids::Time;
use derecho_core::multicast::ablation::Ablation;
use derecho_node::logs::Settings;
use derecho_node::{Hearer, Pace, Waited, clock};
use idl_cdr::DdsType;
use idl_xtypes::{DynamicData, DynamicType, SerializedData, TopicData};
use qos_profiles::xml::QosProvider;

use super::assembly::{DomainEngine, Plan, assemble};
use super::attendant::Attendant;
use super::collector::Collector;
use super::profiles::{Profiles, QosReload, Source};
use super::rejoin::Rejoiner;
use super::roster::Roster;
use crate::infrastructure::listener::Slot;
use crate::infrastructure::{
    DdsError, DdsResult, DomainParticipantListener, Driver, InstanceHandle, StatusMask,
    StorageStatus, Timeout,
};
use crate::mapping::standing::Standing;
use crate::mapping::vigil::Pulse;
use crate::publication::{DataWriterBuilder, PublisherBuilder};
use crate::subscription::{DataReaderBuilder, SubscriberBuilder};
use crate::topic::{ContentFilteredTopic, Topic, TopicBuilder, TopicDescription};

/// The greatest domain number, as in the standard's default port mapping.
const GREATEST_DOMAIN: u32 = 232;
/// How long a participant that ends waits until the others have heard of it.
const GOODBYE: Duration = Duration::from_millis(500);
/// Says where logs are kept, if the configuration does not.
const LOG_FOLDER: &str = "SQUALL_LOG_FOLDER";

/// How a participant joins its domain. Everything has a default.
#[derive(Clone, Debug, Default)]
pub struct ParticipantConfig {
    runtime_dir: Option<PathBuf>,
    group: Option<String>,
    memory_limit: Option<u64>,
    patience: Patience,
    ablation: Ablation,
    pace: Pace,
    unattended: bool,
    rejoins: bool,
    log_folder: Option<PathBuf>,
    log_topics: Vec<String>,
    profiles: Source,
    profile: Option<String>,
    log_queue: Option<usize>,
}

impl ParticipantConfig {
    /// The defaults, with what the `SQUALL_*` environment variables say.
    pub fn new() -> Self {
        Self::default()
    }

    /// Meets other participants in this folder instead of the user's own under `/tmp`.
    pub fn runtime_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.runtime_dir = Some(folder.into());
        self
    }

    /// Shares the domain with all users of this UNIX group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Takes at most so many bytes of shared memory.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// How long a participant for which the others wait may keep silent before they go on without it (1 s by
    /// default); [`Timeout::FOREVER`]: for ever. One that has died is not waited for in any case, and one
    /// for which nobody waits may be silent as long as it likes.
    pub fn member_timeout(mut self, time: impl Into<Timeout>) -> Self {
        self.patience.member_timeout = time.into().nanos();
        self
    }

    /// Keeps logs of [persistent](crate::topic::TopicBuilder::persistent) topics in this folder, which has to be there:
    /// of those that this participant takes part in, and of those of which there is a log from before. All participants
    /// of a host are to have the same folder: each has a folder of its own in it, and takes over one that nobody has any
    /// more. Without this the environment variable `SQUALL_LOG_FOLDER` says where; without that no logs are kept.
    pub fn log_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.log_folder = Some(folder.into());
        self
    }

    /// Keeps logs of all persistent topics whose names match one of these patterns, used here or not: `*` stands for any
    /// text, `?` for one character. So their samples outlive the applications. Without a log folder nothing is kept.
    pub fn log_topics<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.log_topics = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// Its profiles of policies are in these files, which may inherit from each other, and are those that are ready-made. Without
    /// this the environment variable `SQUALL_QOS_FILES` says where they are, and `SQUALL_QOS_PROFILES.xml` is read too if it is in
    /// the working folder.
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Altitude { feet: f64 }
    /// # fn main() -> DdsResult<()> {
    /// let config = ParticipantConfig::new().qos_files(["fleet.xml"]);
    /// let participant = DomainParticipant::with_config(0, config)?;
    /// let topic = participant.topic::<Altitude>("Altitude").profile("Fleet::State").create()?;
    /// let writer = participant.writer(&topic).create()?;                    // by Fleet::State too
    /// let reader = participant.reader(&topic).profile("Fleet::Display").create()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn qos_files<P: Into<PathBuf>>(mut self, files: impl IntoIterator<Item = P>) -> Self {
        self.profiles = Source::Files(files.into_iter().map(Into::into).collect());
        self
    }

    pub(super) fn profile_files(&self) -> DdsResult<Vec<PathBuf>> {
        self.profiles.files()
    }

    /// Its profiles of policies are those of this provider, which several participants may share.
    pub fn qos_provider(mut self, provider: Arc<QosProvider>) -> Self {
        self.profiles = Source::Provider(provider);
        self
    }

    /// Its entities of which nothing is said have their policies by this profile. Without this, by the one that says
    /// `is_default_qos`, if there is one.
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// What waits in memory for the disk of the logs takes so many bytes at most (64 MiB by default), all topics together.
    /// More waits where it was delivered; beyond 64 MiB of a topic its writers wait, too.
    pub fn log_queue(mut self, bytes: usize) -> Self {
        self.log_queue = Some(bytes);
        self
    }

    /// Switches optimisations of atomic topics off, to measure what each is worth.
    #[doc(hidden)]
    pub fn ablation(mut self, ablation: Ablation) -> Self {
        self.ablation = ablation;
        self
    }

    /// How long a thread that waits looks for news again and again (5 µs by default), before it
    /// [lingers](ParticipantConfig::linger): longer answers sooner and burns more.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.pace.spin = spin;
        self
    }

    /// How long a thread that waits then stays awake, offering the processor to others between its
    /// looks (95 µs by default), before it sleeps. A sleeper burns nothing, and answers later by
    /// what it takes to wake it. With neither it sleeps as soon as it has found nothing.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.pace.linger = linger;
        self
    }

    /// Starts no thread that drives: the participant's work is done inside the application's own
    /// calls. For applications that schedule everything themselves; they have to call often.
    pub fn caller_drives(mut self) -> Self {
        self.unattended = true;
        self
    }

    /// Whether a participant comes back by itself when the others of the domain have gone on without it: it was
    /// stopped for longer than the [`member_timeout`](ParticipantConfig::member_timeout), say. Not, by default.
    ///
    /// It joins anew, under a new name, and its writers and readers go on, as if all of them had been made anew:
    ///
    /// * What had been received and not been taken is discarded, for the others have used its memory again; and
    ///   what was written meanwhile by others never comes. [`DataReader::membership_changes`] says that there may
    ///   be such a gap, [`DomainParticipant::rejoins`] how often.
    /// * Where samples are [kept] a reader goes on behind the last one that it has given out, with all that has
    ///   come meanwhile and is still kept: there is no gap. What it gives out is a copy. It comes from the others,
    ///   or from logs: what this participant alone had kept in memory is gone if nobody else is there.
    /// * Its logs of [persistent](crate::topic::TopicBuilder::persistent) topics are completed, as after a restart.
    /// * A writer writes for whoever has found it again; [`DataWriter::wait_for_readers`] waits for them. What it
    ///   wrote just before may be lost.
    /// * Calls that may wait go on to wait, up to their time-out. If the participant is not back by then they say
    ///   [`DdsError::Isolated`], and that it is rejoining; so do those that do not wait.
    /// * A loan that was taken before is published in the new membership, or dropped, like any other.
    /// * A sample that was taken before may be held and dropped, but what it says may have been written anew:
    ///   it was read in time if [`DataReader::membership_changes`] is after it what it was before.
    ///
    /// If it cannot join (no memory, no folder, as many participants as there can be) it tries again, with
    /// pauses of up to five seconds, and says so through `tracing`; it pauses, too, if it falls out again within ten
    /// seconds, for all others stop for a moment whenever somebody comes or goes. A thread of its own sees to that, with
    /// [`caller_drives`](ParticipantConfig::caller_drives) too; it sleeps as long as nothing happens.
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Altitude { feet: f64 }
    /// # fn main() -> DdsResult<()> {
    /// let config = ParticipantConfig::new().rejoin(true);
    /// let participant = DomainParticipant::with_config(0, config)?;
    /// let topic = participant.topic::<Altitude>("Altitude").create()?;
    /// let reader = participant.reader(&topic).create()?;
    /// let mut memberships = 0;
    /// loop {
    ///     match reader.take_next(Timeout::secs(1)) {
    ///         Ok(Some(sample)) => {
    ///             if memberships != reader.membership_changes() {
    ///                 memberships = reader.membership_changes();
    ///                 println!("samples may be missing here");
    ///             }
    ///             println!("{} ft", sample.feet);
    ///         }
    ///         Ok(None) => println!("nothing new"),
    ///         Err(DdsError::Isolated(why)) => println!("{why}"), // for now
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// [kept]: crate::topic::TopicBuilder::transient_local
    /// [`DataReader::membership_changes`]: crate::subscription::DataReader::membership_changes
    /// [`DataWriter::wait_for_readers`]: crate::publication::DataWriter::wait_for_readers
    pub fn rejoin(mut self, rejoin: bool) -> Self {
        self.rejoins = rejoin;
        self
    }
}

/// What all entities of a participant share. The last of them to go ends the membership.
pub(crate) struct Inner {
    pub(crate) engine: DomainEngine,
    pub(crate) standing: Arc<Standing>,
    pub(crate) profiles: Profiles,
    /// Signs of life of the application.
    pub(crate) pulse: Arc<Pulse>,
    domain: u32,
    rejoiner: Option<Rejoiner>,
    attendant: Option<Attendant>,
    pub(crate) collector: Collector,
    pub(crate) roster: Roster,
    pub(crate) listener: Slot<dyn DomainParticipantListener>,
}

impl Inner {
    /// Listeners are called from now on.
    pub(crate) fn attend(&self) -> DdsResult<()> {
        self.roster.attend(&self.engine).map_err(|error| {
            DdsError::OutOfResources(format!("no thread that calls listeners: {error}"))
        })
    }

    /// What may be the reason that nobody is there, and what to do.
    #[cold]
    pub(crate) fn why_nobody(&self) -> &'static str {
        match self.engine.act(|machine, _, _| machine.view().number) {
            0 => {
                "this participant has not been let into its domain yet, by others that are stopped, or \
                 because 64 are there, which is the most: let them go on, or end one"
            }
            _ => "start the others, in the same domain and with the same type",
        }
    }
}

impl Driver for Inner {
    fn wait(&self, deadline: Option<Time>, ready: &mut dyn FnMut() -> bool) -> Waited {
        self.engine.wait(deadline, ready)
    }

    fn tell(&self, hearer: &Arc<dyn Hearer>) {
        self.engine.tell(hearer);
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

impl Drop for Inner {
    fn drop(&mut self) {
        self.standing.close();
        if let Some(rejoiner) = self.rejoiner.take() {
            // It may wait for a view.
            self.engine.poke();
            rejoiner.join();
        }
        self.attendant.take().into_iter().for_each(Attendant::join);
        self.collector.end();
        self.roster.end();
        // Who says goodbye is waited for by nobody. Others that do not answer are left all the same.
        self.engine.act(|machine, _, _| machine.leave());
        let deadline = Timeout::from(GOODBYE).deadline();
        self.engine.wait(deadline, || self.standing.has_ended());
        // When the participant is gone, so is its hold on its folder of logs; unless its disk does not answer in time.
        let ending = self.engine.act(|machine, _, _| machine.take_ending());
        if ending.is_some_and(|ending| ending.join().is_err()) {
            tracing::error!("the thread that ends logs panicked");
        }
        self.engine.stop();
    }
}

/// An application's membership in a domain. Clones are handles on the same one; it ends when the
/// last handle and the last writer and reader are gone.
#[derive(Clone)]
pub struct DomainParticipant {
    pub(crate) inner: Arc<Inner>,
}

impl DomainParticipant {
    /// Joins a domain with all defaults. Participants on the same host find each other.
    pub fn new(domain: u32) -> DdsResult<DomainParticipant> {
        Self::with_config(domain, ParticipantConfig::new())
    }

    /// Joins a domain.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if something is wrong with the configuration, or with files of
    /// [profiles](ParticipantConfig::qos_files); it says what and where.
    pub fn with_config(domain: u32, config: ParticipantConfig) -> DdsResult<DomainParticipant> {
        if domain > GREATEST_DOMAIN {
            return Err(DdsError::BadParameter(format!(
                "domain {domain} does not exist: domains are numbered from 0 to {GREATEST_DOMAIN}"
            )));
        }
        let ParticipantConfig { runtime_dir, group, memory_limit, .. } = config;
        let ParticipantConfig { patience, ablation, pace, unattended, rejoins, .. } = config;
        let folder = config.log_folder.or_else(|| std::env::var_os(LOG_FOLDER).map(PathBuf::from));
        let mut settings = Settings::default();
        settings.queue_bytes = config.log_queue.unwrap_or(settings.queue_bytes);
        let logs = folder.map(|folder| (folder, config.log_topics, settings));
        let keeps_logs = logs.is_some();
        let plan = Plan {
            domain,
            runtime_dir,
            group,
            memory_limit,
            patience,
            ablation,
            pace,
            unattended,
            logs,
        };
        let profiles = Profiles::new(config.profiles, config.profile)?;
        let standing = Arc::new(Standing::new(rejoins));
        let (engine, rejoiner) = assemble(plan, &standing)?;
        let (pulse, collector, roster) = (Arc::default(), Collector::default(), Roster::default());
        let listener = Slot::default();
        let mut inner = Inner {
            engine,
            standing,
            profiles,
            pulse,
            domain,
            rejoiner,
            attendant: None,
            collector,
            roster,
            listener,
        };
        if keeps_logs {
            inner.attendant = Some(Attendant::start(inner.engine.clone())?);
        }
        Ok(DomainParticipant { inner: Arc::new(inner) })
    }

    /// The domain's number.
    pub fn domain_id(&self) -> u32 {
        self.inner.domain
    }

    /// This participant's name in the domain: another one after each [rejoin](ParticipantConfig::rejoin).
    pub fn instance_handle(&self) -> InstanceHandle {
        InstanceHandle { node: self.inner.standing.node(), entity: 0 }
    }

    /// How many participants the domain's present view has, this one included, and the view's number. They
    /// see the same views in the same order; none before this one has come in. While it is isolated, the last
    /// one that it has seen, or none yet if it is rejoining.
    pub fn view(&self) -> (u64, usize) {
        self.inner.engine.act(|machine, _, _| {
            let view = machine.view();
            (view.number, view.members.len())
        })
    }

    /// Whether the others of the domain go on without this participant: every call on it and on its entities
    /// fails from now on, or until it has [come back](ParticipantConfig::rejoin) if it may.
    pub fn is_isolated(&self) -> bool {
        self.inner.standing.is_evicted()
    }

    /// How often this participant has come back after the others had gone on without it. See
    /// [`ParticipantConfig::rejoin`].
    pub fn rejoins(&self) -> u64 {
        self.inner.standing.rejoins()
    }

    /// How all stands here, for whoever looks for what is wrong; in no fixed form.
    #[doc(hidden)]
    pub fn describe(&self) -> String {
        self.inner.engine.act(|machine, _, _| machine.describe())
    }

    /// How many other participants are there.
    pub fn peer_count(&self) -> usize {
        self.inner.engine.act(|machine, _, _| machine.peer_count())
    }

    /// Waits until `ready` answers true, and says whether it did in time. For those who wait for
    /// one of several things, a sample or room for one, say, which no single entity can wait for.
    ///
    /// `ready` is asked often, also while this participant holds still for it: it has to be cheap,
    /// may ask readers and writers ([`DataReader::has_samples`], [`DataWriter::has_room_for`]), and
    /// must neither wait nor write.
    ///
    /// [`DataReader::has_samples`]: crate::subscription::DataReader::has_samples
    /// [`DataWriter::has_room_for`]: crate::publication::DataWriter::has_room_for
    pub fn wait_until(
        &self,
        timeout: impl Into<Timeout>,
        ready: impl FnMut() -> bool,
    ) -> DdsResult<bool> {
        match self.inner.engine.wait(timeout.into().deadline(), ready) {
            Waited::Ready => Ok(true),
            Waited::TimedOut => Ok(false),
            Waited::Stopped => Err(DdsError::AlreadyDeleted("the participant has left".to_owned())),
        }
    }

    /// What the engine of this participant has done so far.
    pub fn counters(&self) -> &derecho_node::Counters {
        self.inner.engine.counters()
    }

    /// The topics whose samples this participant keeps, those that it only logs included: their names, the names of their
    /// types, and how they are kept.
    pub fn stored_topics(&self) -> Vec<(String, String, StorageStatus)> {
        self.inner.engine.act(|machine, _, _| machine.stored())
    }

    /// Its profiles of policies.
    pub fn qos_provider(&self) -> &Arc<QosProvider> {
        self.inner.profiles.provider()
    }

    /// Reads the files of its [profiles](ParticipantConfig::qos_files) again, and applies what has changed to all topics,
    /// publishers, subscribers, writers and readers that were made by a profile: of each the policies that may change on an
    /// entity that is at work, unless the application has said otherwise of them since. Policies that may not change stay, and
    /// are reported, as is an entity whose policies would contradict each other, which keeps all that it has. Entities that are
    /// made from now on have their policies by the new profiles.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if anything is wrong with the files; then nothing changes.
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
    pub fn topic<T: DdsType>(&self, name: &str) -> TopicBuilder<T> {
        TopicBuilder::new(Arc::clone(&self.inner), name, ())
    }

    /// A topic whose type is known at run time only: built by the program, read from IDL, or [told by
    /// others](Self::find_dynamic_topic). It is the same topic to those who were compiled with the type.
    ///
    /// ```no_run
    /// use dds_api::prelude::*;
    /// use dds_api::types::{DynamicData, DynamicType, Primitive, StructBuilder, Value};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let number = DynamicType::primitive(Primitive::Float64);
    /// let of = StructBuilder::new("Wind").member("speed", &number)?.build()?;
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

    /// The same, of samples that are passed on as their bytes: for tools and bridges. Nothing of a sample is read but its key,
    /// and what a filter asks for.
    pub fn serialized_topic(&self, name: &str, of: &DynamicType) -> TopicBuilder<SerializedData> {
        TopicBuilder::new(Arc::clone(&self.inner), name, of.clone())
    }

    /// A writer of a topic.
    pub fn writer<T: TopicData>(&self, topic: &Topic<T>) -> DataWriterBuilder<T> {
        DataWriterBuilder::new(Arc::clone(&self.inner), topic.clone())
    }

    /// A reader of a topic, or of a [part](DomainParticipant::content_filtered_topic) of it.
    pub fn reader<D: TopicDescription>(&self, topic: &D) -> DataReaderBuilder<D::Data> {
        DataReaderBuilder::new(Arc::clone(&self.inner), topic.topic().clone(), topic.filter())
    }

    /// LIVELINESS manual by participant: says that the application is alive, for all its writers that live by that. So does each
    /// write of one of them.
    pub fn assert_liveliness(&self) -> DdsResult<()> {
        let standing = &self.inner.standing;
        if standing.is_out_for_good() {
            return Err(standing.error());
        }
        if self.inner.pulse.assert(clock::now()) {
            self.inner.engine.act(|machine, _, _| machine.keep_vigil());
        }
        Ok(())
    }

    /// Has this called for changes of these statuses of all its entities, where none nearer wants them: on a thread that calls all
    /// listeners of the participant, one after another.
    pub fn set_listener(
        &self,
        listener: impl DomainParticipantListener + 'static,
        mask: impl Into<StatusMask>,
    ) -> DdsResult<()> {
        self.inner.listener.set(Box::new(listener), mask.into());
        self.inner.attend()
    }

    /// Has no listener for all its entities called any more.
    pub fn clear_listener(&self) {
        self.inner.listener.clear();
    }

    /// A publisher: writers that share PRESENTATION, PARTITION and GROUP_DATA.
    pub fn publisher(&self) -> PublisherBuilder {
        PublisherBuilder::new(Arc::clone(&self.inner))
    }

    /// A subscriber: readers that share PRESENTATION, PARTITION and GROUP_DATA.
    pub fn subscriber(&self) -> SubscriberBuilder {
        SubscriberBuilder::new(Arc::clone(&self.inner))
    }

    /// The samples of a topic that an expression lets pass: the standard's SQL, with `%0` to `%99` for parameters.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the expression is wrong, or compares what cannot be compared; it says where and why.
    /// [`DdsError::PreconditionNotMet`] if the topic belongs to another participant.
    pub fn content_filtered_topic<T: TopicData>(
        &self,
        name: &str,
        topic: &Topic<T>,
        filter_expression: &str,
        expression_parameters: &[String],
    ) -> DdsResult<ContentFilteredTopic<T>> {
        if !topic.is_of(&self.inner) {
            return Err(DdsError::PreconditionNotMet(format!(
                "topic `{}` belongs to another participant: create it from the one that filters it",
                topic.name()
            )));
        }
        ContentFilteredTopic::new(name, topic, filter_expression, expression_parameters)
    }
}
