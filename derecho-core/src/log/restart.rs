//! Restart of a whole group: the logs that must be back, and the log of a stream that wins (I-90
//! to I-92).
//!
//! Owns: the rule, as functions of what returning hosts have found. Never does: read a log or wait.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::stream::StreamLog;
use super::views::LoggedView;
use super::{EpochId, EpochMark, LogId, StreamKey, Tail, Version};
use crate::bytes::in_order;
use crate::ids::Rank;
use crate::link::Generation;
use crate::membership::{RankSet, View, ViewMember};

/// Whether a group can be partitioned, which decides how it restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupScope {
    /// All members are on one host.
    Local,
    /// The members are on several hosts, and networks can be partitioned.
    Networked,
}

/// A log, and its content as found.
#[derive(Clone, Copy)]
pub(crate) struct FoundLog<'a> {
    /// Folder of the log.
    pub(crate) log: LogId,
    /// Content of the log.
    pub(crate) summary: &'a LogSummary,
}

/// End of an epoch, as noted in a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NotedCut {
    /// The epoch.
    pub epoch: EpochId,
    /// Last version of the epoch.
    pub version: Version,
}

/// Content of one log of a stream, as far as the restart rule needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogSummary {
    /// End of the log.
    pub tail: Tail,
    /// First version from which on every message is in the log, or in a checkpoint before it.
    pub complete_from: Version,
    /// Last version that a checkpoint in the log covers.
    pub checkpoint: Option<Version>,
    /// Cuts noted in the log.
    pub cuts: Vec<NotedCut>,
    /// Last epoch noted in the log, and the folders that log that epoch.
    pub begun: Option<(EpochId, Vec<LogId>)>,
}

impl LogSummary {
    /// Summarises this log.
    pub fn of(log: &StreamLog) -> LogSummary {
        let cuts = log.marks().filter_map(|mark| match mark {
            EpochMark::Cut(epoch, version) => Some(NotedCut { epoch: *epoch, version: *version }),
            EpochMark::Begun(..) => None,
        });
        LogSummary {
            tail: log.tail(),
            complete_from: log.complete_from(),
            checkpoint: log.checkpointed(),
            cuts: last_of(cuts.collect()),
            begun: log.epoch().map(|(epoch, epoch_logs)| (epoch, epoch_logs.to_vec())),
        }
    }

    /// Returns this summary without the other folders that log the stream, for a log of which they
    /// no longer matter.
    pub fn without_epoch_logs(self) -> LogSummary {
        LogSummary { begun: None, ..self }
    }

    /// Whether the log contains the full state: it goes back to the first message, or to
    /// a checkpoint.
    fn is_complete(&self) -> bool {
        self.complete_from <= Version(1)
            || self.checkpoint.is_some_and(|state| self.complete_from <= state.next())
    }
}

in_order! {
    NotedCut { epoch, version }
    LogSummary { tail, complete_from, checkpoint, cuts, begun }
}

/// Maximum number of ends of epochs that are reported. A log that needs an older one is completed
/// from a checkpoint.
const MOST_CUTS: usize = 64;

pub(crate) fn last_of(cuts: BTreeSet<NotedCut>) -> Vec<NotedCut> {
    let older = cuts.len().saturating_sub(MOST_CUTS);
    cuts.into_iter().skip(older).collect()
}

/// Content of the log folder of a returning host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FolderSummary {
    /// Views logged there.
    pub views: Vec<LoggedView>,
    /// Logs of streams there.
    pub streams: BTreeMap<StreamKey, LogSummary>,
}

/// Whether a group may restart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestartVerdict<T> {
    /// The group may restart, with this result.
    Ready(T),
    /// The group must wait until enough of these logs are back.
    Wait(BTreeSet<LogId>),
}

/// Decides from which view the group restarts: the last view that any returning host has logged, if
/// no other host can have logged a later one.
pub fn view(
    reach: GroupScope,
    found: &BTreeMap<LogId, FolderSummary>,
) -> RestartVerdict<LoggedView> {
    let last = found.values().flat_map(|found| &found.views).max_by_key(|view| view.place());
    let Some(last) = last else { return RestartVerdict::Wait(BTreeSet::new()) };
    let missing = missing(reach, last, |log| found.contains_key(&log));
    if missing.is_empty() {
        RestartVerdict::Ready(last.clone())
    } else {
        RestartVerdict::Wait(missing)
    }
}

/// Returns the logs that must be back for a group to restart from `last`, the last view that any
/// returning host has logged (I-90). In a network, the members that are not back can only have gone
/// on if they, together with all members that keep no logs, were a primary partition. If all
/// members that keep logs are back, no other member can have reported anything as durable.
pub fn missing(
    reach: GroupScope,
    last: &LoggedView,
    is_back: impl Fn(LogId) -> bool,
) -> BTreeSet<LogId> {
    let missing: BTreeSet<LogId> = last.names().into_iter().filter(|log| !is_back(*log)).collect();
    let left_behind = || is_primary(last, |log| log.is_none_or(|log| missing.contains(&log)));
    match reach {
        GroupScope::Networked if !left_behind() => BTreeSet::new(),
        GroupScope::Local | GroupScope::Networked => missing,
    }
}

/// Whether the members whose log satisfies `of` are a primary partition of the view.
fn is_primary(view: &LoggedView, of: impl Fn(Option<LogId>) -> bool) -> bool {
    let members = view.members.iter().zip(0..).map(|(member, slot)| ViewMember {
        node: member.node,
        slot,
        votes: member.votes,
        weight: member.weight,
    });
    let some = view.members.iter().zip(0..).filter(|(member, _)| of(member.log));
    let some = some.map(|(_, rank)| RankSet::one(Rank(rank))).fold(RankSet::default(), RankSet::or);
    View { group: Generation::NONE, number: view.number, members: members.collect() }
        .is_primary(some)
}

/// How one log is completed to what the winner has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogCompletion {
    /// With the messages after this version, which is the log's own last one after the cut.
    After(Version),
    /// With a checkpoint of the winner, and the messages after it.
    FromCheckpoint,
    /// As [`LogCompletion::FromCheckpoint`]; as nothing vouches that the log's content is a part of
    /// the winner's, the log is put aside (I-93).
    AfterPutAside,
}

/// How a stream restarts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restart {
    /// The log that wins.
    pub winner: LogId,
    /// End of the stream, after which it goes on.
    pub tail: Tail,
    /// Last version that each log keeps, including the winner's, for logs that have more.
    pub cuts: BTreeMap<LogId, Version>,
    /// How the other logs are completed.
    pub completions: BTreeMap<LogId, LogCompletion>,
}

/// Decides how this stream restarts; `None` if no returning host has a log of the stream.
pub fn stream(
    key: StreamKey,
    found: &BTreeMap<LogId, FolderSummary>,
) -> Option<RestartVerdict<Restart>> {
    let logs = found.iter().filter_map(|(log, found)| Some((*log, found.streams.get(&key)?)));
    logs_of_stream(&logs.collect())
}

/// Decides how the stream with these logs restarts; `None` if there are none.
pub fn logs_of_stream(logs: &BTreeMap<LogId, &LogSummary>) -> Option<RestartVerdict<Restart>> {
    if logs.is_empty() {
        return None;
    }
    let noted: BTreeMap<EpochId, Version> = cuts_of(logs.values().copied());
    let tails: BTreeMap<LogId, Tail> =
        logs.iter().map(|(log, stream)| (*log, cut(stream.tail, &noted))).collect();
    let begun = last_begun(logs.values().copied());
    let epoch_logs =
        begun.map_or_else(|| logs.keys().copied().collect(), |(_, epoch_logs)| epoch_logs);
    let winner = epoch_logs
        .iter()
        .filter(|log| logs.get(log).is_some_and(|stream| stream.is_complete()))
        .max_by_key(|log| (tails[*log], core::cmp::Reverse(**log)))
        .copied();
    let Some(winner) = winner else {
        return Some(RestartVerdict::Wait(
            epoch_logs.into_iter().filter(|log| !logs.contains_key(log)).collect(),
        ));
    };
    let tail = tails[&winner];
    let vouched = cuts_of([logs[&winner]]);
    let cuts = tails.iter().filter(|(log, tail)| tail.version < logs[*log].tail.version);
    let completions = tails.iter().filter(|(log, _)| **log != winner).map(|(log, own)| {
        let is_prefix = own.epoch == tail.epoch
            || vouched.get(&own.epoch).is_some_and(|end| own.version <= *end);
        let there =
            own.version.next() >= logs[&winner].complete_from && own.version <= tail.version;
        let complete = logs[log].is_complete();
        let how = match is_prefix {
            true if there && complete => LogCompletion::After(own.version),
            false if own.version > Version(0) => LogCompletion::AfterPutAside,
            _ => LogCompletion::FromCheckpoint,
        };
        (*log, how)
    });
    Some(RestartVerdict::Ready(Restart {
        winner,
        tail,
        cuts: cuts.map(|(log, tail)| (*log, tail.version)).collect(),
        completions: completions.collect(),
    }))
}

/// Returns the last epoch that these logs have noted, and the folders that log it. If several logs
/// have noted that epoch with different folders, it is unknown which of them joined or left
/// meanwhile, and the union is returned.
pub fn last_begun<'a>(
    logs: impl IntoIterator<Item = &'a LogSummary>,
) -> Option<(EpochId, BTreeSet<LogId>)> {
    let mut last: Option<(EpochId, BTreeSet<LogId>)> = None;
    for (epoch, epoch_logs) in logs.into_iter().filter_map(|stream| stream.begun.as_ref()) {
        match &mut last {
            Some((known, all)) if known == epoch => all.extend(epoch_logs),
            Some((known, _)) if *known > *epoch => {}
            _ => last = Some((*epoch, epoch_logs.iter().copied().collect())),
        }
    }
    last
}

/// Whether a sound log has all messages of a damaged one that may have been durable everywhere, and
/// knows of every log that may have more (I-98).
pub(crate) fn covers(by: FoundLog<'_>, damaged: FoundLog<'_>) -> bool {
    let (sound, harmed) = (by.summary, damaged.summary);
    // The content of the damaged log belongs to an epoch that the sound log has completely.
    let is_over = |cut: &NotedCut| {
        let end = cut.version;
        cut.epoch == sound.tail.epoch && sound.tail.version >= end && harmed.tail.version <= end
    };
    let goes_as_far = sound.tail >= harmed.tail || harmed.cuts.iter().any(is_over);
    let era = |found: &LogSummary| {
        let begun = found.begun.as_ref().map_or(0, |(epoch, _)| epoch.view);
        begun.max(found.tail.epoch.view)
    };
    let epoch_logs = |found: &LogSummary| {
        found.begun.as_ref().map_or(BTreeSet::new(), |(_, names)| names.iter().copied().collect())
    };
    let unknown = &epoch_logs(harmed) - &(&epoch_logs(sound) | &[by.log, damaged.log].into());
    // If nothing else is known of a damaged log, it has no mark either.
    let is_known = harmed.begun.is_some();
    is_known
        && sound.is_complete()
        && goes_as_far
        && era(sound) >= era(harmed)
        && unknown.is_empty()
}

/// Ends of epochs that these logs have noted.
fn cuts_of<'a>(logs: impl IntoIterator<Item = &'a LogSummary>) -> BTreeMap<EpochId, Version> {
    let mut noted = BTreeMap::new();
    for NotedCut { epoch, version } in logs.into_iter().flat_map(|stream| &stream.cuts) {
        // All correct members note the same end. For a log of a faulty member, the smaller end
        // is safe.
        noted
            .entry(*epoch)
            .and_modify(|known: &mut Version| *known = (*known).min(*version))
            .or_insert(*version);
    }
    noted
}

/// Returns the end of a log after all records beyond the noted ends of epochs are cut. A noted end
/// of the log's own epoch or a later one bounds it, because messages beyond that end were trimmed.
fn cut(tail: Tail, noted: &BTreeMap<EpochId, Version>) -> Tail {
    let ends = noted.range(tail.epoch..).map(|(_, version)| *version).min();
    match ends {
        Some(end) if end < tail.version => Tail { version: end, ..tail },
        _ => tail,
    }
}

#[cfg(all(test, not(loom)))]
#[path = "restart/tests.rs"]
mod tests;
