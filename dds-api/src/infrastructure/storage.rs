//! How a topic is kept, as an application sees it.
//!
//! Owns: the status and its words. Never does: find it out.

use std::time::Duration;

use derecho_core::storage::journal::Condition;

/// How a topic's samples are kept, as far as this participant knows.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(topic: &Topic<Track>) -> DdsResult<()> {
/// if let Some(status) = topic.storage_status() {
///     println!("{} of {} samples are in all logs", status.durable, status.samples);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageStatus {
    /// So many samples were delivered since the topic began, also before all participants were gone and came again.
    pub samples: u64,
    /// So many of them are kept in memory for readers that come late.
    pub kept: u64,
    /// The first so many of all samples are in all logs of the topic, and no crash can take them: the durable
    /// frontier. Of a topic that is not logged 0.
    pub durable: u64,
    /// So many participants keep logs of the topic that lack nothing.
    pub logs: usize,
    /// This participant's log, if it keeps one.
    pub log: Option<LogCondition>,
    /// Logs of other participants whose disks are full, by their identities and those of the participants: the topic waits for room
    /// there, as soon as what waits in memory for a log reaches its limit.
    pub full_logs: Vec<String>,
    /// What the topic waits for before it begins: logs, by their identities, that have to be there, or anybody who
    /// keeps logs. Nothing if it has begun.
    pub waits_for: Vec<String>,
}

impl StorageStatus {
    /// What the topic waits for, as the end of a sentence; nothing if it has begun.
    pub(crate) fn waiting(&self) -> String {
        match self.waits_for.as_slice() {
            [] => String::new(),
            all => format!(
                ". The topic has not begun: it waits for {}. Start who keeps it, or give a participant a log folder \
                 (ParticipantConfig::log_folder), or run `squall store`",
                all.join(", ")
            ),
        }
    }

    /// What is wrong with the logs of a topic that is logged, as the end of a sentence; nothing if all is well.
    pub(crate) fn trouble(&self) -> String {
        let own = match &self.log {
            Some(LogCondition::Full) => {
                ". The log here waits for room: its disk is full, or a quota or limit is reached"
                    .to_owned()
            }
            Some(LogCondition::Harmed(why)) => format!(
                ". The log here is harmed, and may have what no other log has: {why}. `squall log proceed` goes on \
                 without it"
            ),
            Some(LogCondition::Detached) => {
                ". The log here takes nothing more, for its disk was full".to_owned()
            }
            Some(LogCondition::Failed(why)) => format!(". The log here takes nothing more: {why}"),
            Some(LogCondition::Open) | None => String::new(),
        };
        let others = match self.full_logs.as_slice() {
            [] => String::new(),
            all => format!(
                ". The topic waits for room in {}: the disk there is full, or a quota or limit is reached",
                all.join(" and ")
            ),
        };
        let nobody = match self.logs == 0 && self.waits_for.is_empty() {
            true => {
                ". Nobody keeps a whole log of it at this moment, so nothing more becomes durable: start a participant that \
                 keeps logs anew, or run `squall store`"
            }
            false => "",
        };
        own + &others + nobody
    }
}

/// How much of the past the logs of a topic keep at least: what all of the limits that are given let go of is dropped, in
/// files of 64 MiB, when another file is begun. Without any limit all is kept.
///
/// ```
/// use std::time::Duration;
///
/// use dds_api::infrastructure::LogRetention;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// let day = Duration::from_secs(24 * 60 * 60);
/// let retention = LogRetention::new().time(day).bytes(1 << 30);
/// let topic = participant.topic::<Track>("Tracks").persistent().log_retention(retention).create()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogRetention {
    pub(crate) time: Option<Duration>,
    pub(crate) bytes: Option<u64>,
    pub(crate) samples: Option<u64>,
}

impl LogRetention {
    /// No limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was written in the last so long.
    pub fn time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// So many bytes of files.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// So many samples.
    pub fn samples(mut self, samples: u64) -> Self {
        self.samples = Some(samples);
        self
    }
}

/// How a participant's log of a topic is.
///
/// ```
/// use dds_api::infrastructure::LogCondition;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(topic: &Topic<Track>) -> DdsResult<()> {
/// match topic.storage_status().and_then(|status| status.log) {
///     Some(LogCondition::Full) => eprintln!("the disk is full: the topic waits"),
///     Some(LogCondition::Failed(why)) => eprintln!("the log has failed: {why}"),
///     _ => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogCondition {
    /// It takes what is delivered.
    Open,
    /// Its disk is full: it waits for room, and so does the topic.
    Full,
    /// The log is harmed, in this way, and may have samples that no other log has: the topic does not begin without it until its files
    /// are brought back and the process is started again, or somebody says to go on with `squall log proceed`. Where another log has all,
    /// the harmed one is put aside and completed from it.
    Harmed(String),
    /// Its disk was full, and it takes nothing more; the topic goes on without it.
    Detached,
    /// It has failed, for this reason, and takes nothing more; the topic goes on without it.
    Failed(String),
}

impl From<Condition> for LogCondition {
    fn from(condition: Condition) -> LogCondition {
        match condition {
            Condition::Open => LogCondition::Open,
            Condition::Full => LogCondition::Full,
            Condition::Harmed(error) => {
                LogCondition::Harmed(Condition::reason(error, "it cannot be opened"))
            }
            Condition::Detached => LogCondition::Detached,
            Condition::Failed(error) => {
                LogCondition::Failed(Condition::reason(error, "its thread has ended"))
            }
        }
    }
}
