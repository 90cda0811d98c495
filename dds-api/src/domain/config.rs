//! Configuration of how a participant joins its domain.
//!
//! Owns: the settings that an application gives. Never does: join.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use derecho_core::group::silence_detector::MemberTimeouts;
use derecho_core::multicast::ablation::Ablation;
use derecho_node::Pace;
use qos_profiles::DomainParticipantQos;
use qos_profiles::xml::QosProvider;

use super::profiles::ProfileSource;
use super::realtime::RealTimeConfig;
use crate::infrastructure::{DdsResult, Timeout};

/// Configuration of how a participant joins its domain. Everything has a default.
///
/// ```
/// # use dds_api::prelude::*;
/// # fn example() -> DdsResult<()> {
/// let config = ParticipantConfig::new().rejoin(true).member_timeout(Timeout::millis(500));
/// let participant = DomainParticipant::with_config(0, config)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ParticipantConfig {
    pub(super) runtime_dir: Option<PathBuf>,
    pub(super) group: Option<String>,
    pub(super) memory_limit: Option<u64>,
    pub(super) member_timeouts: MemberTimeouts,
    pub(super) ablation: Ablation,
    pub(super) pace: Pace,
    pub(super) is_caller_driven: bool,
    pub(super) rejoins: bool,
    pub(super) log_folder: Option<PathBuf>,
    pub(super) log_topics: Vec<String>,
    pub(super) profiles: ProfileSource,
    pub(super) profile: Option<String>,
    pub(super) qos: Option<DomainParticipantQos>,
    /// Policy set for this participant alone, independent of the profile of its entities.
    pub(super) own_set: Option<String>,
    pub(super) log_queue: Option<usize>,
    pub(super) real_time: RealTimeConfig,
}

impl ParticipantConfig {
    /// The defaults, with the values of the `SQUALL_*` environment variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the folder in which participants meet. The default is the user's own folder under
    /// `/tmp`. A missing folder is created, and the last participant to leave removes it; an
    /// existing folder stays.
    pub fn runtime_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.runtime_dir = Some(folder.into());
        self
    }

    /// Shares the domain with all users of this UNIX group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Limits the shared memory of the participant to `bytes`.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Sets how long a participant that others wait for may stay silent before they continue
    /// without it (1 s by default). [`Timeout::FOREVER`] means no limit. A participant that
    /// has died is not waited for in any case, and one that nobody waits for may be silent
    /// without limit.
    pub fn member_timeout(mut self, time: impl Into<Timeout>) -> Self {
        self.member_timeouts.member_timeout = time.into().nanos();
        self
    }

    /// Keeps logs of [persistent](crate::topic::TopicBuilder::persistent) topics in this folder,
    /// which must exist. Logged are the topics that this participant takes part in, and those that
    /// have a log here from before. All participants of a host should have the same folder: each
    /// uses a folder of its own in it, and takes over one that no participant uses any more.
    /// Without this setting, the environment variable `SQUALL_LOG_FOLDER` names the folder; without
    /// that, no logs are kept.
    pub fn log_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.log_folder = Some(folder.into());
        self
    }

    /// Keeps logs of all persistent topics whose names match one of these patterns, whether used
    /// here or not: `*` stands for any text, `?` for one character, `[a-z]` for one of several,
    /// `\*` for the character itself. The samples of these topics then outlive the applications.
    /// Without a log folder nothing is kept.
    pub fn log_topics<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.log_topics = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the files of QoS profiles, beside the ready-made profiles. The files may inherit from
    /// each other. Without this setting, the environment variable `SQUALL_QOS_FILES` names the
    /// files, and `SQUALL_QOS_PROFILES.xml` is read too if it is in the working folder.
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
        self.profiles = ProfileSource::Files(files.into_iter().map(Into::into).collect());
        self
    }

    pub(super) fn profile_files(&self) -> DdsResult<Vec<PathBuf>> {
        self.profiles.files()
    }

    /// Sets the provider of QoS profiles, which several participants may share.
    pub fn qos_provider(mut self, provider: Arc<QosProvider>) -> Self {
        self.profiles = ProfileSource::Provider(provider);
        self
    }

    /// Sets the default profile: the participant and those of its entities for which nothing else
    /// is specified take their policies from it. Without this setting, the profile with
    /// `is_default_qos` is the default, if there is one.
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// Sets the policies of the participant, whatever a profile says: USER_DATA, and
    /// ENTITY_FACTORY, which decides whether its entities are enabled when they are created.
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// use dds_api::qos::DomainParticipantQos;
    /// # fn main() -> DdsResult<()> {
    /// let mut qos = DomainParticipantQos::default();
    /// qos.user_data.value = b"flight computer 2".to_vec();
    /// let participant = DomainParticipant::with_config(0, ParticipantConfig::new().qos(&qos))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn qos(mut self, qos: &DomainParticipantQos) -> Self {
        self.qos = Some(qos.clone());
        self
    }

    /// Limits the data that waits in memory for the disk of the logs to `bytes` (64 MiB by
    /// default), all topics together. Further data waits where it was delivered; beyond 64 MiB of a
    /// topic its writers wait, too.
    pub fn log_queue(mut self, bytes: usize) -> Self {
        self.log_queue = Some(bytes);
        self
    }

    /// Switches optimisations of atomic topics off, to measure the effect of each.
    #[cfg(feature = "laboratory")]
    #[doc(hidden)]
    pub fn ablation(mut self, ablation: Ablation) -> Self {
        self.ablation = ablation;
        self
    }

    /// Sets how long a waiting thread polls for events (5 µs by default) before it
    /// [lingers](ParticipantConfig::linger). A longer time answers sooner and uses more processor
    /// time.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.pace.spin = spin;
        self
    }

    /// Sets how long a waiting thread then stays awake (95 µs by default), offering the processor
    /// to other threads between its checks, before it sleeps. A sleeping thread uses no processor
    /// time, and answers later by the time that it takes to wake it. If spin and linger are zero,
    /// the thread sleeps as soon as it has found nothing.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.pace.linger = linger;
        self
    }

    /// Starts no thread that drives the participant: its work is done inside the application's own
    /// calls. Meant for applications that schedule everything themselves; they must call often.
    pub fn caller_drives(mut self) -> Self {
        self.is_caller_driven = true;
        self
    }

    /// Sets whether the participant rejoins by itself after the other participants of the domain
    /// have continued without it, for example because it was stopped for longer than the
    /// [`member_timeout`](ParticipantConfig::member_timeout). Off by default.
    ///
    /// The participant joins under a new name, and its writers and readers continue as if all of
    /// them had been newly created:
    ///
    /// * Samples that were received but not taken are discarded, because the other participants
    ///   have reused their memory; only readers that keep the last samples retain those that have
    ///   come into their caches. Samples that others write meanwhile never arrive.
    ///   [`DataReader::membership_changes`] shows that there may be such a gap,
    ///   [`DomainParticipant::rejoins`] counts the rejoins.
    /// * If samples are [kept], a reader continues after the last sample that it has given out,
    ///   with all samples that have come meanwhile and are still kept: there is no gap. The samples
    ///   that it gives out are copies. They come from the other participants, or from logs: samples
    ///   that only this participant had kept in memory are lost if no other participant is there.
    /// * Its logs of [persistent](crate::topic::TopicBuilder::persistent) topics are completed, as
    ///   after a restart.
    /// * A writer writes for the readers that have found it again; [`DataWriter::wait_for_readers`]
    ///   waits for them. Samples that it wrote just before may be lost.
    /// * Calls that may wait continue to wait, up to their time-out. If the participant is not back
    ///   by then, they return [`DdsError::Isolated`], which says that the participant is rejoining;
    ///   calls that do not wait return it at once.
    /// * A loan that was taken before is published in the new membership, or dropped, like
    ///   any other.
    /// * A sample that was taken before may be held and dropped, but its content may have been
    ///   overwritten. It was read in time if [`DataReader::membership_changes`] returns the same
    ///   value after the read as before it.
    ///
    /// If the participant cannot join (no memory, no folder, or the maximum number of
    /// participants), it tries again, with pauses of up to five seconds, and reports this through
    /// `tracing`. It also pauses if it loses its membership again within ten seconds, because all
    /// others stop for a moment at every join and departure. A thread of its own does this, with
    /// [`caller_drives`](ParticipantConfig::caller_drives) too; the thread sleeps as long as
    /// nothing happens.
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
    ///     match reader.take_next_data(Timeout::secs(1)) {
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
    /// [`DdsError::Isolated`]: crate::infrastructure::DdsError::Isolated
    /// [`DomainParticipant::rejoins`]: super::DomainParticipant::rejoins
    /// [`DataReader::membership_changes`]: crate::subscription::DataReader::membership_changes
    /// [`DataWriter::wait_for_readers`]: crate::publication::DataWriter::wait_for_readers
    pub fn rejoin(mut self, rejoin: bool) -> Self {
        self.rejoins = rejoin;
        self
    }
}
