//! The restart of a whole group: who has to be back, and whose log of a stream wins (I-90 to I-92).
//!
//! Owns: the rule, as functions of what returning hosts have found. Never does: read a log or wait.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::stream::StreamLog;
use super::views::LoggedView;
use super::{EpochId, LogId, Mark, StreamKey, Tail, Version};
use crate::bytes::in_order;
use crate::ids::Rank;
use crate::link::Generation;
use crate::membership::{Member, RankSet, View};

/// How a group decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// All members are on one host.
    Local,
    /// They are on several, and networks part.
    Networked,
}

/// What one log of a stream says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundStream {
    /// Where it ends.
    pub tail: Tail,
    /// Every message from this one on is in it, or in a checkpoint before it.
    pub complete_from: Version,
    /// The version up to which a checkpoint in it accounts for all messages.
    pub checkpoint: Option<Version>,
    /// The cuts that it has noted.
    pub cuts: Vec<(EpochId, Version)>,
    /// The last epoch that it has noted, and who keeps that.
    pub begun: Option<(EpochId, Vec<LogId>)>,
}

impl FoundStream {
    /// What this log says.
    pub fn of(log: &StreamLog) -> FoundStream {
        let cuts = log.marks().filter_map(|mark| match mark {
            Mark::Cut(epoch, version) => Some((*epoch, *version)),
            Mark::Begun(..) => None,
        });
        FoundStream {
            tail: log.tail(),
            complete_from: log.complete_from(),
            checkpoint: log.checkpointed(),
            cuts: last_of(cuts.collect()),
            begun: log.epoch().map(|(epoch, keepers)| (epoch, keepers.to_vec())),
        }
    }

    /// The same, of a log of which nobody asks any more who else keeps its stream.
    pub fn without_keepers(self) -> FoundStream {
        FoundStream { begun: None, ..self }
    }

    /// Whether its state is known: it goes back to the first message, or to a checkpoint.
    fn is_complete(&self) -> bool {
        self.complete_from <= Version(1)
            || self.checkpoint.is_some_and(|state| self.complete_from <= state.next())
    }
}

in_order! { FoundStream { tail, complete_from, checkpoint, cuts, begun } }

/// So many ends of epochs are told. Who needs an older one is completed anew.
const MOST_CUTS: usize = 64;

pub(crate) fn last_of(cuts: BTreeSet<(EpochId, Version)>) -> Vec<(EpochId, Version)> {
    let older = cuts.len().saturating_sub(MOST_CUTS);
    cuts.into_iter().skip(older).collect()
}

/// What a host that comes back has found in its log folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The views that it has logged.
    pub views: Vec<LoggedView>,
    /// Its logs.
    pub streams: BTreeMap<StreamKey, FoundStream>,
}

/// Whether a group may restart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict<T> {
    /// It may, and so.
    Ready(T),
    /// Not before some of these are back.
    Wait(BTreeSet<LogId>),
}

/// From which view the group restarts: the last one that anybody back has logged, if no later one can have been
/// logged by others.
pub fn view(reach: Reach, found: &BTreeMap<LogId, Found>) -> Verdict<LoggedView> {
    let last = found.values().flat_map(|found| &found.views).max_by_key(|view| view.place());
    let Some(last) = last else { return Verdict::Wait(BTreeSet::new()) };
    let missing = missing(reach, last, |log| found.contains_key(&log));
    if missing.is_empty() { Verdict::Ready(last.clone()) } else { Verdict::Wait(missing) }
}

/// Which logs have to be back for a group to restart from this view, the last one that anybody back has logged (I-90).
/// Those who are not back, with all who keep no logs, would have had to be a primary partition to go on in a network;
/// where all who keep logs are back, nobody else can have told of anything durable.
pub fn missing(
    reach: Reach,
    last: &LoggedView,
    is_back: impl Fn(LogId) -> bool,
) -> BTreeSet<LogId> {
    let missing: BTreeSet<LogId> = last.names().into_iter().filter(|log| !is_back(*log)).collect();
    let left_behind = || is_primary(last, |log| log.is_none_or(|log| missing.contains(&log)));
    match reach {
        Reach::Networked if !left_behind() => BTreeSet::new(),
        Reach::Local | Reach::Networked => missing,
    }
}

/// Whether the members of which this holds are a primary partition of the view.
fn is_primary(view: &LoggedView, of: impl Fn(Option<LogId>) -> bool) -> bool {
    let members = view.members.iter().zip(0..).map(|(member, slot)| Member {
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

/// What one log needs to have what the winner has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// What comes after this version, which is its own last one after the cut.
    After(Version),
    /// A checkpoint of the winner, and what comes after it.
    Anew,
    /// The same; nobody vouches that what it has is a part of what the winner has, so it is put aside (I-93).
    Apart,
}

/// How a stream restarts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restart {
    /// Whose log wins.
    pub winner: LogId,
    /// Where the stream goes on after.
    pub tail: Tail,
    /// The version after which each log is cut, the winner's too, for those that have more.
    pub cuts: BTreeMap<LogId, Version>,
    /// What the others need.
    pub completions: BTreeMap<LogId, Completion>,
}

/// How this stream restarts; `None` if nobody has a log of it.
pub fn stream(key: StreamKey, found: &BTreeMap<LogId, Found>) -> Option<Verdict<Restart>> {
    let logs = found.iter().filter_map(|(log, found)| Some((*log, found.streams.get(&key)?)));
    logs_of_stream(&logs.collect())
}

/// How the stream restarts of which these are the logs; `None` if there are none.
pub fn logs_of_stream(logs: &BTreeMap<LogId, &FoundStream>) -> Option<Verdict<Restart>> {
    if logs.is_empty() {
        return None;
    }
    let noted: BTreeMap<EpochId, Version> = cuts_of(logs.values().copied());
    let tails: BTreeMap<LogId, Tail> =
        logs.iter().map(|(log, stream)| (*log, cut(stream.tail, &noted))).collect();
    let begun = last_begun(logs.values().copied());
    let keepers = begun.map_or_else(|| logs.keys().copied().collect(), |(_, keepers)| keepers);
    let winner = keepers
        .iter()
        .filter(|log| logs.get(log).is_some_and(|stream| stream.is_complete()))
        .max_by_key(|log| (tails[*log], core::cmp::Reverse(**log)))
        .copied();
    let Some(winner) = winner else {
        return Some(Verdict::Wait(
            keepers.into_iter().filter(|log| !logs.contains_key(log)).collect(),
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
            true if there && complete => Completion::After(own.version),
            false if own.version > Version(0) => Completion::Apart,
            _ => Completion::Anew,
        };
        (*log, how)
    });
    Some(Verdict::Ready(Restart {
        winner,
        tail,
        cuts: cuts.map(|(log, tail)| (*log, tail.version)).collect(),
        completions: completions.collect(),
    }))
}

/// The last epoch that these logs have noted, and who keeps it. If several have noted it with others, who came and who
/// went meanwhile is not known: all of them are meant.
pub fn last_begun<'a>(
    logs: impl IntoIterator<Item = &'a FoundStream>,
) -> Option<(EpochId, BTreeSet<LogId>)> {
    let mut last: Option<(EpochId, BTreeSet<LogId>)> = None;
    for (epoch, keepers) in logs.into_iter().filter_map(|stream| stream.begun.as_ref()) {
        match &mut last {
            Some((known, all)) if known == epoch => all.extend(keepers),
            Some((known, _)) if *known > *epoch => {}
            _ => last = Some((*epoch, keepers.iter().copied().collect())),
        }
    }
    last
}

/// Whether a sound log has everything of a harmed one that may have been durable everywhere, and knows of everybody who may have more
/// (I-98).
pub(crate) fn covers(
    (own, sound): (LogId, &FoundStream),
    (log, harmed): (LogId, &FoundStream),
) -> bool {
    // What the harmed log has is part of an epoch of which the sound one has all.
    let is_over = |(epoch, end): &(EpochId, Version)| {
        *epoch == sound.tail.epoch && sound.tail.version >= *end && harmed.tail.version <= *end
    };
    let goes_as_far = sound.tail >= harmed.tail || harmed.cuts.iter().any(is_over);
    let era = |found: &FoundStream| {
        let begun = found.begun.as_ref().map_or(0, |(epoch, _)| epoch.view);
        begun.max(found.tail.epoch.view)
    };
    let keepers = |found: &FoundStream| {
        found.begun.as_ref().map_or(BTreeSet::new(), |(_, names)| names.iter().copied().collect())
    };
    let unknown = &keepers(harmed) - &(&keepers(sound) | &[own, log].into());
    // A harmed log of which nothing else is known has no mark either.
    let is_known = harmed.begun.is_some();
    is_known
        && sound.is_complete()
        && goes_as_far
        && era(sound) >= era(harmed)
        && unknown.is_empty()
}

/// Where epochs end, as these logs have noted.
fn cuts_of<'a>(logs: impl IntoIterator<Item = &'a FoundStream>) -> BTreeMap<EpochId, Version> {
    let mut noted = BTreeMap::new();
    for (epoch, version) in logs.into_iter().flat_map(|stream| &stream.cuts) {
        // All who noted an end have noted the same; of a peer that did not, the least is safe.
        noted
            .entry(*epoch)
            .and_modify(|known: &mut Version| *known = (*known).min(*version))
            .or_insert(*version);
    }
    noted
}

/// Where a log ends when what lies beyond the noted ends of epochs is cut: it is of an epoch up to that one, and so
/// was trimmed.
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
