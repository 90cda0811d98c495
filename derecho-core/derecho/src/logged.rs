//! What a shard of a logged type offers beyond others: versions, what of them is durable, and what the object was.
//!
//! Owns: the reading of this process's log, from its files. Never does: hold the shard up, or ask the log's thread.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use derecho_core::link::Link;
use derecho_core::log::{Check, Kind, LogError, Record, StreamLog, folder};
use derecho_core::replicated::Object;
use derecho_core::replicated::desk::LogStatus as Found;
use derecho_core::replicated::plan::log_of;
use derecho_core::storage::errands::go_through;
use derecho_core::storage::journal::Condition;
use derecho_core::storage::logbook::Standing;
use derecho_node::logs::Folder;

use crate::error::{GroupError, Result};
use crate::life::lock;
use crate::replicated::{Replicated, Typed};
use crate::shard::Shard;

/// How this process's log of a shard is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogCondition {
    /// It takes what is applied.
    Open,
    /// Its disk is full: it waits for room, and so do those who send in the shard.
    Full,
    /// The log is harmed, in this way, and may have updates that no other log has: the shard does not begin without it.
    Harmed(String),
    /// It has failed, for this reason, and takes nothing more; the shard goes on without it.
    Failed(String),
}

/// How a logged shard stands, as far as this process knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogStatus {
    /// How many updates led to the object here, over all that it has been through; none if this process has not got it.
    pub version: Option<u64>,
    /// The last version that is durable in the logs of all members that have the object.
    pub durable: u64,
    /// The last version that is durable in this process's log.
    pub own_durable: u64,
    /// How many logs lack nothing.
    pub logs: usize,
    /// How this process's log is, if it keeps one.
    pub log: Option<LogCondition>,
    /// For which logs a beginning waits.
    pub waits_for: Vec<String>,
}

/// What was read from a log.
enum Until {
    Version(u64),
    Time(u64),
}

impl<T: Replicated, L: Link + Send + 'static> Shard<T, L> {
    fn found(&self) -> Result<Found> {
        let (group, index, _) = self.parts();
        group.shared.state().standing()?;
        if !group.shared.types[index].logged {
            return Err(GroupError::NoSuchSubgroup(self.name()));
        }
        let life = group.shared.life();
        let found = lock(&life.desk).log_status(self.key());
        Ok(found.unwrap_or(Found {
            edition: None,
            durable: 0,
            own_durable: 0,
            logs: 0,
            own: None,
            awaited: None,
            awaited_logs: Vec::new(),
        }))
    }

    /// How a logged shard stands.
    pub fn log_status(&self) -> Result<LogStatus> {
        let found = self.found()?;
        let condition = found.own.map(|(_, condition)| match condition {
            Condition::Open => LogCondition::Open,
            Condition::Full => LogCondition::Full,
            Condition::Harmed(error) => {
                LogCondition::Harmed(Condition::reason(error, "it cannot be opened"))
            }
            Condition::Detached => LogCondition::Failed("its disk was full".into()),
            Condition::Failed(error) => {
                LogCondition::Failed(Condition::reason(error, "its thread has ended"))
            }
        });
        Ok(LogStatus {
            version: found.edition.map(|edition| edition.version),
            durable: found.durable,
            own_durable: found.own_durable,
            logs: found.logs,
            log: condition,
            waits_for: found.awaited_logs,
        })
    }

    /// Why a logged shard has not begun.
    pub(crate) fn awaits_logs(&self) -> Option<GroupError> {
        let found = self.found().ok()?;
        let logs = match found.awaited? {
            Standing::Waits(_) => found.awaited_logs,
            Standing::NoLogs => Vec::new(),
            Standing::Begins(_) => return None,
        };
        let (_, _, shard) = self.parts();
        Some(GroupError::AwaitsLogs { subgroup: self.name(), shard, logs })
    }

    /// Which version of the object this process has: how many updates led to it, over all that it has been through.
    pub fn version(&self) -> Result<u64> {
        self.read(|_| ())?;
        let edition = self.found()?.edition;
        let (_, _, shard) = self.parts();
        let version = edition.map(|edition| edition.version);
        version.ok_or(GroupError::NoObject { subgroup: self.name(), shard })
    }

    /// Waits until a version is durable in the logs of all members that have the object: no crash can take it any more, nor
    /// what led to it.
    pub fn wait_durable(&self, version: u64, limit: Duration) -> Result<()> {
        let (group, ..) = self.parts();
        group.shared.wait_outside(limit, || Ok((self.found()?.durable >= version).then_some(())))
    }

    /// Waits until all that this process has sent in this shard so far is applied here, and durable in the logs of all
    /// members that have the object. Answers the version to which the last of it has led.
    pub fn sync(&self, limit: Duration) -> Result<u64> {
        let (group, ..) = self.parts();
        let deadline = Instant::now() + limit;
        let life = group.shared.life();
        self.found()?;
        let sent = self.memory(&life)?.committed();
        let version = group.shared.wait_outside(limit, || {
            group.shared.state().standing()?;
            // In another stay what was sent in this one was lost, or is counted no more.
            let memory = self.memory(&life)?;
            let (applied, version) = lock(&life.desk).own(self.key());
            Ok((applied >= sent.min(memory.committed())).then_some(version))
        })?;
        self.wait_durable(version, deadline.saturating_duration_since(Instant::now()))?;
        Ok(version)
    }

    /// The object as it was at this version, from this process's log: as soon as that is durable there. Versions before the
    /// last checkpoint are [`Gone`](GroupError::Gone).
    pub fn get(&self, version: u64, limit: Duration) -> Result<T> {
        let (group, ..) = self.parts();
        group
            .shared
            .wait_outside(limit, || Ok((self.found()?.own_durable >= version).then_some(())))?;
        self.read_log(&Until::Version(version)).map(|(_, object)| object)
    }

    /// The object as it was at this time, by the clocks of those who sent the updates, and its version; as far as this process's
    /// log is durable. Times before the last checkpoint are [`Gone`](GroupError::Gone).
    pub fn at(&self, time: SystemTime) -> Result<(u64, T)> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.read_log(&Until::Time(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
    }

    fn read_log(&self, until: &Until) -> Result<(u64, T)> {
        const TRIES: usize = 5;
        let mut last = GroupError::Log("it cannot be read".into());
        // A checkpoint that is made meanwhile takes files away that are being read.
        for _ in 0..TRIES {
            match self.try_read_log(until) {
                Ok(found) => return found,
                Err(error) => last = GroupError::Log(error.to_string()),
            }
        }
        Err(last)
    }

    fn try_read_log(&self, until: &Until) -> std::result::Result<Result<(u64, T)>, LogError> {
        let (group, ..) = self.parts();
        let log = log_of(&group.shared.types, self.key());
        let (Some(archive), Some(log)) = (group.shared.archive.get(), log) else {
            return Ok(Err(GroupError::NoSuchSubgroup(self.name())));
        };
        let mut disk = Folder::read(archive.folder())?;
        let owner = folder::owner(&mut disk)?.ok_or(LogError::Failed)?;
        let (log, _) = StreamLog::read(&mut disk, (owner, log), Check::Last)?;
        let mut object = Typed(T::default());
        let (mut version, mut gone) = (0, None);
        let read = go_through(&log, &mut disk, |record: &Record<'_>, is_state| {
            let entry = &record.entry;
            let is_later = match until {
                Until::Version(version) => record.version.0 > *version,
                Until::Time(time) => entry.source_time.0 > *time,
            };
            if is_later || gone.is_some() {
                gone = gone.or(is_state.then_some(record.version.0));
                return false;
            }
            if is_state && !object.restore(entry.payload) {
                gone = Some(record.version.0);
            } else if !is_state && entry.kind == Kind::Sample {
                object.apply(entry.writer, entry.payload);
            }
            version = record.version.0;
            true
        });
        match gone {
            Some(from) => Ok(Err(GroupError::Gone { from })),
            None => read.map(|_| Ok((version, object.0))),
        }
    }
}
