//! Members that keep logs of a subgroup, and the log that the subgroup begins from (I-106).
//!
//! Owns: the rule, applied in one order by all members of the group. Never does: read a log.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::bytes::in_order;
use crate::fault::{Fault, planted};
use crate::group::log_register::AwaitedLogs;
use crate::ids::NodeId;
use crate::log::restart::{self, FoundLog, LogSummary, Restart, RestartVerdict};
use crate::log::{LogId, Tail, era_after};
use crate::transfer::holders::Holders;

/// Report of a member that keeps a log about what it has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogClaim {
    /// The member's log.
    pub log: LogId,
    /// Logs that the member has examined and that no process uses at this moment: its own log
    /// contains all of their content.
    pub accounts: Vec<LogId>,
    /// Existing logs of this stream that other processes use, or that cannot be read.
    pub awaits: Vec<LogId>,
    /// Content of the member's log.
    pub found: LogSummary,
    /// Epoch in which the member began; 0 if it has the data, the greatest number if it has no
    /// seat.
    pub began: u64,
    /// Logs of this stream that are damaged. If the member's own log is one of them, `found` says
    /// where that log ended.
    pub damaged: Vec<LogId>,
}

in_order! { LogClaim { log, accounts, awaits, found, began, damaged } }

impl LogClaim {
    /// Whether the member's own log is damaged.
    fn is_damaged(&self) -> bool {
        self.damaged.contains(&self.log)
    }
}

/// Logs of one subgroup; see the [module](self).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogElection {
    /// Claim of each member, and the vacancy in which it was made.
    claims: BTreeMap<NodeId, (u64, LogClaim)>,
    /// Number of the beginning, as the logs count them.
    era: u64,
    /// End of the log from which the subgroup began.
    base: Tail,
    /// Logs that the logs of views name.
    awaited: AwaitedLogs,
    /// Members whose claim or disclaimer was received.
    heard: BTreeSet<NodeId>,
    /// The logs that were complete last: each of them has everything that was durable everywhere.
    last: BTreeSet<LogId>,
}

in_order! { LogElection { claims, era, base, awaited, heard, last } }

/// State of a beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElectionState {
    /// No member keeps a log.
    NoLogs,
    /// The beginning waits until these logs are accounted for.
    Waits(BTreeSet<LogId>),
    /// The log of this member wins.
    Begins(NodeId),
}

impl LogElection {
    /// Takes in a member's claim in this vacancy.
    pub fn claim(&mut self, node: NodeId, vacancy: u64, claim: LogClaim) {
        self.heard.insert(node);
        self.claims.insert(node, (vacancy, claim));
    }

    /// Sets the logs that the logs of views name for this subgroup.
    pub fn await_logs(&mut self, awaited: AwaitedLogs) {
        self.awaited = awaited;
    }

    /// Notes that the log of a member accepts nothing more.
    pub fn disclaim(&mut self, node: NodeId) {
        self.heard.insert(node);
        self.claims.remove(&node);
    }

    /// Notes that a member keeps no log.
    pub fn forget(&mut self, node: NodeId) {
        self.claims.remove(&node);
    }

    /// Forgets the logs of all members for which `is_kept` is false.
    pub fn retain(&mut self, is_kept: impl Fn(&NodeId) -> bool) {
        self.claims.retain(|node, _| is_kept(node));
    }

    /// Returns the vacancy in which a member claimed last.
    pub fn claimed(&self, node: NodeId) -> Option<u64> {
        self.claims.get(&node).map(|(vacancy, _)| *vacancy)
    }

    /// Returns the members that keep logs, and their logs.
    pub fn members_with_logs(&self) -> impl Iterator<Item = (NodeId, LogId)> + '_ {
        self.claims.iter().map(|(node, (_, claim))| (*node, claim.log))
    }

    /// Returns the members with a log that also hold the store: their logs are complete.
    pub fn complete<'a>(&'a self, holders: &'a Holders) -> impl Iterator<Item = (NodeId, LogId)> {
        self.members_with_logs().filter(|(node, _)| holders.names().contains(node))
    }

    /// Returns the logs that have what was durable, if no present member has a complete
    /// log (I-156).
    pub fn leans_on(&self, holders: &Holders) -> impl Iterator<Item = LogId> + '_ {
        let leans = self.complete(holders).next().is_none();
        self.last.iter().copied().filter(move |_| leans)
    }

    /// Decides what follows if these members could have the store, as [`Holders::settle`] says; the
    /// store begins from a log.
    pub fn settle(&mut self, holders: &mut Holders, members: &[NodeId]) {
        holders.settle(members, |vacancy| self.begin(vacancy));
        let complete: BTreeSet<LogId> = self.complete(holders).map(|(_, log)| log).collect();
        if !complete.is_empty() {
            self.last = complete;
        }
    }

    /// Era of the subgroup: logs of a later era are newer, whatever their versions.
    pub fn era(&self) -> u64 {
        self.era
    }

    /// End of the log from which the subgroup began.
    pub fn base(&self) -> Tail {
        self.base
    }

    fn of_vacancy(&self, vacancy: u64) -> impl Iterator<Item = (NodeId, &LogClaim)> {
        let claims = self.claims.iter().filter(move |(_, (of, _))| *of == vacancy);
        claims.map(|(node, (_, claim))| (*node, claim))
    }

    /// Describes the logs for which a beginning waits, and says which of them are damaged.
    pub fn described(&self, standing: &ElectionState) -> Vec<String> {
        let ElectionState::Waits(logs) = standing else { return Vec::new() };
        let is_damaged =
            |log: &LogId| self.claims.values().any(|(_, claim)| claim.damaged.contains(log));
        let describe = |log: &LogId| match is_damaged(log) {
            true => format!("{log}, which is damaged"),
            false => log.to_string(),
        };
        logs.iter().map(describe).collect()
    }

    /// Returns the damaged logs that are not covered by log `by` and not accounted for by any
    /// member (I-98).
    fn uncovered(&self, vacancy: u64, by: Option<LogId>) -> BTreeSet<LogId> {
        let claims = || self.of_vacancy(vacancy).map(|(_, claim)| claim);
        let sound = claims().find(|claim| Some(claim.log) == by);
        let is_covered = |damaged_claim: &LogClaim| {
            sound.is_some_and(|sound| {
                restart::covers(
                    FoundLog { log: sound.log, summary: &sound.found },
                    FoundLog { log: damaged_claim.log, summary: &damaged_claim.found },
                )
            }) || claims().any(|claim| claim.accounts.contains(&damaged_claim.log))
        };
        let damaged_claim = claims().filter(|claim| claim.is_damaged() && !is_covered(claim));
        damaged_claim.map(|claim| claim.log).collect()
    }

    /// Returns the state of a beginning in this vacancy.
    pub fn state(&self, vacancy: u64) -> ElectionState {
        let claims = || self.of_vacancy(vacancy).map(|(_, claim)| claim);
        if claims().next().is_none() {
            return ElectionState::NoLogs;
        }
        let begun = restart::last_begun(claims().map(|claim| &claim.found));
        let begun = begun.filter(|_| !planted(Fault::NamedNotAwaited));
        let named = begun.into_iter().flat_map(|(_, epoch_logs)| epoch_logs);
        let wanted = named.chain(claims().flat_map(|claim| claim.awaits.iter().copied()));
        let claimants = self.of_vacancy(vacancy).map(|(node, _)| node);
        let wanted = wanted.chain(self.awaited.logs(claimants, |node| self.heard.contains(&node)));
        let there: BTreeSet<LogId> =
            claims().flat_map(|claim| claim.accounts.iter().copied().chain([claim.log])).collect();
        // I-156: any one of these suffices.
        let lacks_last = self.last.is_disjoint(&there) && !planted(Fault::NobodyLeans);
        let wanted = wanted.chain(self.last.iter().copied().filter(|_| lacks_last));
        let mut missing: BTreeSet<LogId> = wanted.filter(|log| !there.contains(log)).collect();
        let restart = self.restart(vacancy);
        let winner = match &restart {
            Some(RestartVerdict::Ready(restart)) => Some(restart.winner),
            _ => None,
        };
        missing.append(&mut self.uncovered(vacancy, winner));
        if !missing.is_empty() {
            return ElectionState::Waits(missing);
        }
        match restart {
            Some(RestartVerdict::Ready(restart)) => {
                let claims = self.of_vacancy(vacancy).filter(|(_, claim)| !claim.is_damaged());
                let mut equal = claims.filter(|(_, claim)| claim.found.tail == restart.tail);
                // If several logs are equal, the member that began earliest has received most.
                let least =
                    |claim: &LogClaim| (claim.began, claim.log != restart.winner, claim.log);
                let winner = equal.by_ref().min_by_key(|(_, claim)| least(claim));
                winner.map_or(ElectionState::NoLogs, |(node, _)| ElectionState::Begins(node))
            }
            Some(RestartVerdict::Wait(logs)) => ElectionState::Waits(logs),
            // All logs are damaged and accounted for: the stream begins without any content.
            None => {
                let first = self.of_vacancy(vacancy).min_by_key(|(_, claim)| claim.log);
                first.map_or(ElectionState::NoLogs, |(node, _)| ElectionState::Begins(node))
            }
        }
    }

    fn restart(&self, vacancy: u64) -> Option<RestartVerdict<Restart>> {
        let claims = self.of_vacancy(vacancy).map(|(_, claim)| claim);
        let claims = claims.filter(|claim| !claim.is_damaged());
        // Logs named by marks are accounted for by now; their content is in these logs.
        let logs = claims.map(|claim| (claim.log, claim.found.clone().without_epoch_logs()));
        let logs: BTreeMap<LogId, LogSummary> = logs.collect();
        restart::logs_of_stream(&logs.iter().map(|(log, found)| (*log, found)).collect())
    }

    /// Begins the subgroup in this vacancy, if that is possible, in a new era. Returns the member
    /// whose log wins.
    fn begin(&mut self, vacancy: u64) -> Option<NodeId> {
        let ElectionState::Begins(node) = self.state(vacancy) else { return None };
        let eras = self.of_vacancy(vacancy).map(|(_, claim)| claim.found.tail.epoch.view);
        let last = eras.chain([self.era]).max().unwrap_or(0);
        self.era = era_after(last, node);
        let sound = self.claims.get(&node).filter(|(_, claim)| !claim.is_damaged());
        self.base = sound.map(|(_, claim)| claim.found.tail).unwrap_or_default();
        Some(node)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::log::{EpochId, Version};

    fn claim(log: u128, epoch: u64, names: &[u128]) -> LogClaim {
        let epoch = EpochId { view: 1, sequence: epoch };
        let found = LogSummary {
            tail: Tail { epoch, version: Version(epoch.sequence) },
            complete_from: Version(1),
            checkpoint: None,
            cuts: Vec::new(),
            begun: Some((epoch, names.iter().map(|log| LogId(*log)).collect())),
        };
        let (accounts, awaits) = (Vec::new(), Vec::new());
        LogClaim { log: LogId(log), accounts, awaits, found, began: 0, damaged: Vec::new() }
    }

    /// A damaged log is not needed if a sound log reaches as far (I-98).
    #[test]
    fn damaged_log_that_may_have_more_messages_is_awaited() {
        let damaged_claim =
            |epoch| LogClaim { damaged: [LogId(2)].into(), ..claim(2, epoch, &[1, 2]) };
        let mut election = LogElection::default();
        election.claim(NodeId(2), 0, damaged_claim(4));
        assert_eq!(election.state(0), ElectionState::Waits([1, 2].map(LogId).into()));
        election.claim(NodeId(1), 0, claim(1, 4, &[1, 2]));
        assert_eq!(election.state(0), ElectionState::Begins(NodeId(1)));
        election.claim(NodeId(2), 0, damaged_claim(5));
        let waits = ElectionState::Waits([LogId(2)].into());
        assert_eq!(election.state(0), waits);
        assert_eq!(election.described(&waits), [format!("{}, which is damaged", LogId(2))]);
        // The operator allows a restart without it.
        let accounts = [LogId(2)].into();
        election.claim(NodeId(1), 0, LogClaim { accounts, ..claim(1, 4, &[1, 2]) });
        assert_eq!(election.state(0), ElectionState::Begins(NodeId(1)));
        election.disclaim(NodeId(1));
        let all = LogClaim { accounts: [LogId(1)].into(), ..damaged_claim(4) };
        election.claim(NodeId(2), 0, all);
        assert_eq!(election.state(0), ElectionState::Waits([LogId(2)].into()));
    }

    #[test]
    fn logs_named_by_newest_mark_of_all_claims_are_awaited() {
        let mut election = LogElection::default();
        election.claim(NodeId(1), 0, claim(1, 4, &[1, 2, 3]));
        assert_eq!(election.state(0), ElectionState::Waits([2, 3].map(LogId).into()));
        // A newer mark of another log names other logs.
        election.claim(NodeId(4), 0, claim(4, 5, &[4, 5]));
        assert_eq!(election.state(0), ElectionState::Waits([LogId(5)].into()));
        election.claim(NodeId(5), 0, claim(5, 5, &[4, 5]));
        assert_eq!(election.state(0), ElectionState::Begins(NodeId(4)));
    }
}
