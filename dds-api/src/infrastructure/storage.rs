//! Storage of a topic, as an application sees it.
//!
//! Owns: the status and its wording. Never does: determine the status.

use std::time::Duration;

use derecho_core::storage::log_port::LogPortCondition;

/// How a topic's samples are stored, as far as this participant knows.
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
    /// Number of samples delivered since the topic began, including those from before all
    /// participants left and came back.
    pub samples: u64,
    /// Number of these samples that are kept in memory for late joiners.
    pub kept: u64,
    /// Number of samples, counted from the first, that are in all logs of the topic, so that no
    /// crash can take them: the durable frontier. Zero if the topic is not logged.
    pub durable: u64,
    /// Number of participants whose logs of the topic are complete.
    pub logs: usize,
    /// This participant's log, if it keeps one.
    pub log: Option<LogCondition>,
    /// Logs of other participants whose disks are full, by log identity and participant identity.
    /// The topic waits for room there as soon as the data that waits in memory for a log reaches
    /// its limit.
    pub full_logs: Vec<String>,
    /// Prerequisites that the topic waits for before it begins: logs, by their identities, or any
    /// participant that keeps logs. Empty if the topic has begun.
    pub waits_for: Vec<String>,
}

impl StorageStatus {
    /// Describes what the topic waits for, as the end of a sentence; empty if the topic has begun.
    pub(crate) fn waiting(&self) -> String {
        match self.waits_for.as_slice() {
            [] => String::new(),
            all => format!(
                ". The topic has not begun: it waits for {}. Start the participants that keep the \
                 logs, or give a participant a log folder (ParticipantConfig::log_folder), or run \
                 `squall store`",
                all.join(", ")
            ),
        }
    }

    /// Describes the problems with the logs of a logged topic, as the end of a sentence; empty if
    /// there are none.
    pub(crate) fn log_problems(&self) -> String {
        let own = match &self.log {
            Some(LogCondition::Full) => {
                ". This participant's log waits for room: its disk is full, or a quota or limit is \
                 reached"
                    .to_owned()
            }
            Some(LogCondition::Damaged(why)) => format!(
                ". This participant's log is damaged and may hold samples that no other log has: \
                 {why}. Restore the files of the log, or run `squall log proceed` to continue \
                 without it"
            ),
            Some(LogCondition::Detached) => {
                ". This participant's log takes nothing more, because its disk was full".to_owned()
            }
            Some(LogCondition::Failed(why)) => {
                format!(". This participant's log takes nothing more: {why}")
            }
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
                ". No participant keeps a complete log of the topic now, so nothing more becomes \
                 durable: restart a participant that keeps logs, or run `squall store`"
            }
            false => "",
        };
        own + &others + nobody
    }
}

/// Minimum history that the logs of a topic keep. Data is dropped if all given limits permit it, in
/// files of 64 MiB, when another file is begun. Without any limit everything is kept.
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
    /// Retention without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps samples that were written within the last `time`.
    pub fn time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// Keeps `bytes` bytes of files.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Keeps `samples` samples.
    pub fn samples(mut self, samples: u64) -> Self {
        self.samples = Some(samples);
        self
    }
}

/// Condition of a participant's log of a topic.
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
    /// The log accepts delivered samples.
    Open,
    /// The disk of the log is full. The log waits for room, and so does the topic.
    Full,
    /// The log is damaged as described and may hold samples that no other log has. The topic does
    /// not begin without the log until its files are restored and the process is restarted, or
    /// until an operator runs `squall log proceed`. If another log is complete, the damaged one is
    /// put aside and completed from it.
    Damaged(String),
    /// The disk of the log was full. The log accepts nothing more, and the topic continues
    /// without it.
    Detached,
    /// The log has failed for this reason. It accepts nothing more, and the topic continues
    /// without it.
    Failed(String),
}

impl From<LogPortCondition> for LogCondition {
    fn from(condition: LogPortCondition) -> LogCondition {
        match condition {
            LogPortCondition::Open => LogCondition::Open,
            LogPortCondition::Full => LogCondition::Full,
            LogPortCondition::Damaged(error) => {
                LogCondition::Damaged(LogPortCondition::reason(error, "the log cannot be opened"))
            }
            LogPortCondition::Detached => LogCondition::Detached,
            LogPortCondition::Failed(error) => LogCondition::Failed(LogPortCondition::reason(
                error,
                "the thread of the log has ended",
            )),
        }
    }
}
