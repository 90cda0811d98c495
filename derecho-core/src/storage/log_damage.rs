//! Log tasks of a member whose own log is damaged (I-98).
//!
//! Owns: whether the log is claimed as damaged or put aside. Never does: open a log.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::log_election::LogClaim;
use super::log_port::LogTask;
use super::log_tasks::ReachableFolder;
use crate::log::aside::{self, AsideNumber};
use crate::log::restart::{self, FoundLog, LogSummary};
use crate::log::survey::salvage;
use crate::log::{
    Disk, EpochId, LogError, LogId, LogKey, RecoveryCheck, StreamKey, StreamLog, Tail, Version,
    folder,
};

/// Damage of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogDamage {
    /// Reason why the log cannot be opened.
    pub error: LogError,
    /// Last epoch in the log's sound records.
    pub last: EpochId,
    /// Content of the log according to its sound records, if they show enough.
    pub salvaged: Option<LogSummary>,
}

impl LogDamage {
    /// Examines a log that could not be opened because of this error.
    pub fn of<D: Disk>(disk: &mut D, log: LogKey, error: LogError) -> LogDamage {
        let (last, salvaged) = salvage(disk, log).unwrap_or_default();
        LogDamage { error, last, salvaged }
    }

    /// Whether a sound log covers this one (I-98).
    pub(super) fn is_covered(&self, by: FoundLog<'_>, log: LogId) -> bool {
        self.salvaged.as_ref().is_some_and(|summary| restart::covers(by, FoundLog { log, summary }))
    }
}

/// Outcome of a log task whose log is damaged.
pub enum DamageOutcome {
    /// The log stays as it is, and is claimed as damaged.
    Claimed(Box<LogClaim>),
    /// The log was put aside under this number: the task proceeds with an empty log.
    PutAside(AsideNumber),
}

/// Decides what happens to a log task whose log is damaged. A log is put aside only when a sound
/// log in reach covers it, when other members hold the store and complete it, or when the topic
/// begins without any of the remaining logs.
///
/// # Errors
/// Errors of the disk; the reason why the log cannot be opened, if the task needs its content.
pub fn judge<D: Disk, N: Disk>(
    task: &LogTask,
    key: LogKey,
    disk: &mut D,
    neighbours: &mut [ReachableFolder<N>],
    damage: &LogDamage,
) -> Result<DamageOutcome, LogError> {
    match task {
        LogTask::Complete(..) | LogTask::Replace(..) | LogTask::Load(..) | LogTask::Read(_) => {}
        LogTask::Claim(is_vacant) => {
            let (claim, is_covered) = claim(key.owner.log, key.stream, damage, neighbours);
            if !(*is_vacant && is_covered) {
                return Ok(DamageOutcome::Claimed(Box::new(claim)));
            }
        }
        LogTask::Checkpoint(..) | LogTask::Register => return Err(damage.error.clone()),
    }
    aside::put_damaged(disk, key.stream).map(DamageOutcome::PutAside)
}

/// Returns the claim of a damaged log, and whether a sound log in reach covers it.
fn claim<N: Disk>(
    log: LogId,
    stream: StreamKey,
    damage: &LogDamage,
    neighbours: &mut [ReachableFolder<N>],
) -> (LogClaim, bool) {
    let (mut accounts, mut awaits, mut damaged) = (Vec::new(), Vec::new(), [log].to_vec());
    let mut is_covered = false;
    for neighbour in neighbours {
        let has = folder::streams(&mut neighbour.disk).map(|all| all.contains(&stream));
        if let Ok(false) = has {
            accounts.push(neighbour.log);
            continue;
        }
        awaits.push(neighbour.log);
        if has.is_err() || neighbour.busy {
            continue;
        }
        let covers = |other: &StreamLog| {
            let (own, summary) = (other.owner().log, LogSummary::of(other));
            damage.is_covered(FoundLog { log: own, summary: &summary }, log)
        };
        let seems_sound =
            neighbour.sound(stream, RecoveryCheck::Last).is_ok_and(|other| covers(&other));
        is_covered |= seems_sound && neighbour.sound(stream, RecoveryCheck::All).is_ok();
        damaged.extend(neighbour.damage.as_ref().map(|_| neighbour.log));
    }
    let found = damage.salvaged.clone().unwrap_or(LogSummary {
        // An unknown end counts as greater than any version.
        tail: Tail { epoch: damage.last, version: Version(u64::MAX) },
        complete_from: Version(u64::MAX),
        checkpoint: None,
        cuts: Vec::new(),
        begun: None,
    });
    (LogClaim { log, accounts, awaits, found, began: 0, damaged }, is_covered)
}
