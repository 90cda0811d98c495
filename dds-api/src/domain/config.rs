//! How a participant joins its domain.
//!
//! Owns: what an application says of that. Never does: join.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use derecho_core::group::watch::Patience;
use derecho_core::multicast::ablation::Ablation;
use derecho_node::Pace;
use qos_profiles::DomainParticipantQos;
use qos_profiles::xml::QosProvider;

use super::profiles::Source;
use super::realtime::RealTime;
use crate::infrastructure::{DdsResult, Timeout};

/// How a participant joins its domain. Everything has a default.
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
    pub(super) patience: Patience,
    pub(super) ablation: Ablation,
    pub(super) pace: Pace,
    pub(super) unattended: bool,
    pub(super) rejoins: bool,
    pub(super) log_folder: Option<PathBuf>,
    pub(super) log_topics: Vec<String>,
    pub(super) profiles: Source,
    pub(super) profile: Option<String>,
    pub(super) qos: Option<DomainParticipantQos>,
    /// The set of policies that is this participant's own, whatever profile is that of its entities.
    pub(super) own_set: Option<String>,
    pub(super) log_queue: Option<usize>,
    pub(super) real_time: RealTime,
}

impl ParticipantConfig {
    /// The defaults, with what the `SQUALL_*` environment variables say.
    pub fn new() -> Self {
        Self::default()
    }

    /// Meets other participants in this folder instead of the user's own under `/tmp`. A missing folder is made, and
    /// removed by the last participant to leave; a folder that is there stays.
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

    /// Its entities of which nothing is said have their policies by this profile, and so does it itself. Without this, by the
    /// one that says `is_default_qos`, if there is one.
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// Its policies, whatever a profile says: USER_DATA, and ENTITY_FACTORY, by which its entities are enabled as they are made,
    /// or are not.
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
    /// [`DdsError::Isolated`]: crate::infrastructure::DdsError::Isolated
    /// [`DomainParticipant::rejoins`]: super::DomainParticipant::rejoins
    /// [`DataReader::membership_changes`]: crate::subscription::DataReader::membership_changes
    /// [`DataWriter::wait_for_readers`]: crate::publication::DataWriter::wait_for_readers
    pub fn rejoin(mut self, rejoin: bool) -> Self {
        self.rejoins = rejoin;
        self
    }
}
