//! Additional operations of a logged shard: versions, their durability, and earlier states of
//! the object.
//!
//! Owns: the reading of this process's log, from its files. Never does: block the shard, or ask the
//! log thread.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use derecho_core::link::Link;
use derecho_core::log::{
    LogError, LogKey, LogRecord, RecordKind, RecoveryCheck, StreamLog, folder,
};
use derecho_core::replicated::Object;
use derecho_core::replicated::object_host::ObjectLogStatus as Found;
use derecho_core::replicated::plan::log_of;
use derecho_core::storage::log_election::ElectionState;
use derecho_core::storage::log_port::LogPortCondition;
use derecho_core::storage::log_tasks::go_through;
use derecho_node::logs::LogFolder;

use crate::error::{GroupError, Result};
use crate::group_membership::lock;
use crate::replicated::{Replicated, TypedObject};
use crate::shard::Shard;

/// Condition of this process's log of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogCondition {
    /// The log records every update that is applied.
    Open,
    /// The disk is full: the log waits for room, and so do the senders of the shard.
    Full,
    /// The log is damaged, for this reason, and may have updates that no other log has: the shard
    /// does not begin without it.
    Damaged(String),
    /// The log has failed, for this reason, and records nothing more; the shard continues
    /// without it.
    Failed(String),
}

/// Status of a logged shard, as far as this process knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogStatus {
    /// Number of updates that led to the object in this process, over all memberships; `None` if
    /// this process does not have the object.
    pub version: Option<u64>,
    /// Last version that is durable in the logs of all members that have the object.
    pub durable: u64,
    /// Last version that is durable in this process's log.
    pub own_durable: u64,
    /// Number of logs that lack nothing.
    pub logs: usize,
    /// Condition of this process's log, if it keeps one.
    pub log: Option<LogCondition>,
    /// Logs for which the shard's beginning waits.
    pub waits_for: Vec<String>,
}

/// End of a reading of the log.
enum ReadEnd {
    Version(u64),
    Time(u64),
}

impl<T: Replicated, L: Link + Send + 'static> Shard<T, L> {
    fn found(&self) -> Result<Found> {
        let (group, index, _) = self.parts();
        group.shared.state().check_member()?;
        if !group.shared.types[index].logged {
            return Err(GroupError::NoSuchSubgroup(self.name()));
        }
        let membership = group.shared.membership();
        let found = lock(&membership.object_host).log_status(self.key());
        Ok(found.unwrap_or(Found {
            object_version: None,
            durable: 0,
            own_durable: 0,
            logs: 0,
            own_log: None,
            awaited: None,
            awaited_logs: Vec::new(),
        }))
    }

    /// Returns the status of a logged shard.
    pub fn log_status(&self) -> Result<LogStatus> {
        let found = self.found()?;
        let condition = found.own_log.map(|(_, condition)| match condition {
            LogPortCondition::Open => LogCondition::Open,
            LogPortCondition::Full => LogCondition::Full,
            LogPortCondition::Damaged(error) => {
                LogCondition::Damaged(LogPortCondition::reason(error, "the log cannot be opened"))
            }
            LogPortCondition::Detached => LogCondition::Failed("the disk was full".into()),
            LogPortCondition::Failed(error) => LogCondition::Failed(LogPortCondition::reason(
                error,
                "the thread of the log has ended",
            )),
        });
        Ok(LogStatus {
            version: found.object_version.map(|it| it.version),
            durable: found.durable,
            own_durable: found.own_durable,
            logs: found.logs,
            log: condition,
            waits_for: found.awaited_logs,
        })
    }

    /// Returns the reason why a logged shard has not begun.
    pub(crate) fn awaits_logs(&self) -> Option<GroupError> {
        let found = self.found().ok()?;
        let logs = match found.awaited? {
            ElectionState::Waits(_) => found.awaited_logs,
            ElectionState::NoLogs => Vec::new(),
            ElectionState::Begins(_) => return None,
        };
        let (_, _, shard) = self.parts();
        Some(GroupError::AwaitsLogs { subgroup: self.name(), shard, logs })
    }

    /// Returns the version of the object in this process: the number of updates that led to it,
    /// over all memberships.
    pub fn version(&self) -> Result<u64> {
        self.read(|_| ())?;
        let object_version = self.found()?.object_version;
        let (_, _, shard) = self.parts();
        let version = object_version.map(|it| it.version);
        version.ok_or(GroupError::NoObject { subgroup: self.name(), shard })
    }

    /// Waits until a version is durable in the logs of all members that have the object: no crash
    /// can lose it or any earlier version any more.
    pub fn wait_durable(&self, version: u64, limit: Duration) -> Result<()> {
        let (group, ..) = self.parts();
        group.shared.wait_outside(limit, || Ok((self.found()?.durable >= version).then_some(())))
    }

    /// Waits until everything that this process has sent in this shard is applied here, and
    /// durable in the logs of all members that have the object. Returns the version after the last
    /// of these updates.
    pub fn sync(&self, limit: Duration) -> Result<u64> {
        let (group, ..) = self.parts();
        let deadline = Instant::now() + limit;
        let membership = group.shared.membership();
        self.found()?;
        let sent = self.memory(&membership)?.committed();
        let version = group.shared.wait_outside(limit, || {
            group.shared.state().check_member()?;
            // After a rejoin, updates of the previous membership are lost, or no longer counted.
            let memory = self.memory(&membership)?;
            let (applied, version) = lock(&membership.object_host).own_messages(self.key());
            Ok((applied >= sent.min(memory.committed())).then_some(version))
        })?;
        self.wait_durable(version, deadline.saturating_duration_since(Instant::now()))?;
        Ok(version)
    }

    /// Returns the object as of this version, from this process's log, once the version is durable
    /// there. Versions before the last checkpoint are [`Gone`](GroupError::Gone).
    pub fn get(&self, version: u64, limit: Duration) -> Result<T> {
        let (group, ..) = self.parts();
        group
            .shared
            .wait_outside(limit, || Ok((self.found()?.own_durable >= version).then_some(())))?;
        self.read_log(&ReadEnd::Version(version)).map(|(_, object)| object)
    }

    /// Returns the object as of this time, by the clocks of the updates' senders, and its
    /// version, within the durable part of this process's log. Times before the last checkpoint
    /// are [`Gone`](GroupError::Gone).
    pub fn at(&self, time: SystemTime) -> Result<(u64, T)> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.read_log(&ReadEnd::Time(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
    }

    fn read_log(&self, until: &ReadEnd) -> Result<(u64, T)> {
        const TRIES: usize = 5;
        let mut last = GroupError::Log("the file cannot be read".into());
        // A concurrent checkpoint removes files that are being read.
        for _ in 0..TRIES {
            match self.try_read_log(until) {
                Ok(found) => return found,
                Err(error) => last = GroupError::Log(error.to_string()),
            }
        }
        Err(last)
    }

    fn try_read_log(&self, until: &ReadEnd) -> std::result::Result<Result<(u64, T)>, LogError> {
        let (group, ..) = self.parts();
        let log = log_of(&group.shared.types, self.key());
        let (Some(process_logs), Some(log)) = (group.shared.process_logs.get(), log) else {
            return Ok(Err(GroupError::NoSuchSubgroup(self.name())));
        };
        let mut disk = LogFolder::read(process_logs.folder())?;
        let owner = folder::owner(&mut disk)?.ok_or(LogError::Failed)?;
        let (log, _) =
            StreamLog::read(&mut disk, LogKey { owner, stream: log }, RecoveryCheck::Last)?;
        let mut object = TypedObject(T::default());
        let (mut version, mut gone) = (0, None);
        let read = go_through(&log, &mut disk, |record: &LogRecord<'_>, is_state| {
            let entry = &record.entry;
            let is_later = match until {
                ReadEnd::Version(version) => record.version.0 > *version,
                ReadEnd::Time(time) => entry.source_time.0 > *time,
            };
            if is_later || gone.is_some() {
                gone = gone.or(is_state.then_some(record.version.0));
                return false;
            }
            if is_state && !object.restore(entry.payload) {
                gone = Some(record.version.0);
            } else if !is_state && entry.kind == RecordKind::Sample {
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
