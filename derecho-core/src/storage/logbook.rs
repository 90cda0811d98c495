//! Who keeps logs of a subgroup, and which of them it begins from (I-106).
//!
//! Owns: the rule, applied in one order by all members of the group. Never does: read a log.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::holders::Holders;
use crate::bytes::in_order;
use crate::fault::{Fault, planted};
use crate::group::book::Awaited;
use crate::ids::NodeId;
use crate::log::restart::{self, FoundStream, Restart, Verdict};
use crate::log::{LogId, Tail, era_after};

/// What a member that keeps a log says of what it has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its log.
    pub log: LogId,
    /// Logs that it has looked at, and that nobody keeps at this moment: all that is in them is in its own.
    pub accounts: Vec<LogId>,
    /// Logs of this stream that are there, and that others keep, or that cannot be read.
    pub awaits: Vec<LogId>,
    /// What its log says.
    pub found: FoundStream,
    /// The epoch in which the member has begun.
    pub began: u64,
    /// Logs of this stream that are harmed. If its own is one of them, what was found says where that ended.
    pub harmed: Vec<LogId>,
}

in_order! { Claim { log, accounts, awaits, found, began, harmed } }

impl Claim {
    /// Whether its own log is harmed.
    fn is_harmed(&self) -> bool {
        self.harmed.contains(&self.log)
    }
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogBook {
    /// What was claimed, and in which vacancy.
    claims: BTreeMap<NodeId, (u64, Claim)>,
    /// Beginnings so far, of which the logs know.
    era: u64,
    /// Where the log ended that it began from.
    base: Tail,
    /// What the logs of views say.
    awaited: Awaited,
    /// Who has said of its log what there is to say.
    heard: BTreeSet<NodeId>,
    /// The logs that were complete last: what was durable everywhere is in each of them.
    last: BTreeSet<LogId>,
}

in_order! { LogBook { claims, era, base, awaited, heard, last } }

/// How it stands with a beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// No member keeps a log.
    NoLogs,
    /// Not before these are accounted for.
    Waits(BTreeSet<LogId>),
    /// This member's log wins.
    Begins(NodeId),
}

impl LogBook {
    /// A member has a log, and claims this in this vacancy.
    pub fn claim(&mut self, node: NodeId, vacancy: u64, claim: Claim) {
        self.heard.insert(node);
        self.claims.insert(node, (vacancy, claim));
    }

    /// What the logs of views say now of this subgroup.
    pub fn await_logs(&mut self, awaited: Awaited) {
        self.awaited = awaited;
    }

    /// The log of a member takes nothing more.
    pub fn disclaim(&mut self, node: NodeId) {
        self.heard.insert(node);
        self.claims.remove(&node);
    }

    /// A member keeps no log, or no more.
    pub fn forget(&mut self, node: NodeId) {
        self.claims.remove(&node);
    }

    /// Those alone who stay keep logs.
    pub fn retain(&mut self, stays: impl Fn(&NodeId) -> bool) {
        self.claims.retain(|node, _| stays(node));
    }

    /// The vacancy in which a member has claimed last.
    pub fn claimed(&self, node: NodeId) -> Option<u64> {
        self.claims.get(&node).map(|(vacancy, _)| *vacancy)
    }

    /// Who keeps logs, and which.
    pub fn storers(&self) -> impl Iterator<Item = (NodeId, LogId)> + '_ {
        self.claims.iter().map(|(node, (_, claim))| (*node, claim.log))
    }

    /// Of those who keep logs those who have what is kept, too: their logs lack nothing.
    pub fn complete<'a>(&'a self, holders: &'a Holders) -> impl Iterator<Item = (NodeId, LogId)> {
        self.storers().filter(|(node, _)| holders.names().contains(node))
    }

    /// The logs that have what was durable, while nobody who is there has a complete one (I-156).
    pub fn leans_on(&self, holders: &Holders) -> impl Iterator<Item = LogId> + '_ {
        let leans = self.complete(holders).next().is_none();
        self.last.iter().copied().filter(move |_| leans)
    }

    /// What follows while these members could have it, as [`Holders::settle`] says; it begins from a log.
    pub fn settle(&mut self, holders: &mut Holders, members: &[NodeId]) {
        holders.settle(members, |vacancy| self.begin(vacancy));
        let complete: BTreeSet<LogId> = self.complete(holders).map(|(_, log)| log).collect();
        if !complete.is_empty() {
            self.last = complete;
        }
    }

    /// The era: logs of a later one are newer, whatever their versions.
    pub fn era(&self) -> u64 {
        self.era
    }

    /// Where the log ended from which it began.
    pub fn base(&self) -> Tail {
        self.base
    }

    fn of_vacancy(&self, vacancy: u64) -> impl Iterator<Item = (NodeId, &Claim)> {
        let claims = self.claims.iter().filter(move |(_, (of, _))| *of == vacancy);
        claims.map(|(node, (_, claim))| (*node, claim))
    }

    /// The names of the logs for which a beginning waits; those that are harmed are said to be.
    pub fn described(&self, standing: &Standing) -> Vec<String> {
        let Standing::Waits(logs) = standing else { return Vec::new() };
        let is_harmed =
            |log: &LogId| self.claims.values().any(|(_, claim)| claim.harmed.contains(log));
        let describe = |log: &LogId| match is_harmed(log) {
            true => format!("{log}, which is harmed"),
            false => log.to_string(),
        };
        logs.iter().map(describe).collect()
    }

    /// The harmed logs that this one does not cover, and for which nobody accounts (I-98).
    fn uncovered(&self, vacancy: u64, by: Option<LogId>) -> BTreeSet<LogId> {
        let claims = || self.of_vacancy(vacancy).map(|(_, claim)| claim);
        let sound = claims().find(|claim| Some(claim.log) == by);
        let is_covered = |harmed: &Claim| {
            sound.is_some_and(|sound| {
                restart::covers((sound.log, &sound.found), (harmed.log, &harmed.found))
            }) || claims().any(|claim| claim.accounts.contains(&harmed.log))
        };
        let harmed = claims().filter(|claim| claim.is_harmed() && !is_covered(claim));
        harmed.map(|claim| claim.log).collect()
    }

    /// How it stands with a beginning in this vacancy.
    pub fn standing(&self, vacancy: u64) -> Standing {
        let claims = || self.of_vacancy(vacancy).map(|(_, claim)| claim);
        if claims().next().is_none() {
            return Standing::NoLogs;
        }
        let begun = restart::last_begun(claims().map(|claim| &claim.found));
        let begun = begun.filter(|_| !planted(Fault::NamedNotAwaited));
        let named = begun.into_iter().flat_map(|(_, keepers)| keepers);
        let wanted = named.chain(claims().flat_map(|claim| claim.awaits.iter().copied()));
        let claimants = self.of_vacancy(vacancy).map(|(node, _)| node);
        let wanted = wanted.chain(self.awaited.logs(claimants, |node| self.heard.contains(&node)));
        let there: BTreeSet<LogId> =
            claims().flat_map(|claim| claim.accounts.iter().copied().chain([claim.log])).collect();
        // I-156: each of these will do.
        let lacks_last = self.last.is_disjoint(&there) && !planted(Fault::NobodyLeans);
        let wanted = wanted.chain(self.last.iter().copied().filter(|_| lacks_last));
        let mut missing: BTreeSet<LogId> = wanted.filter(|log| !there.contains(log)).collect();
        let restart = self.restart(vacancy);
        let winner = match &restart {
            Some(Verdict::Ready(restart)) => Some(restart.winner),
            _ => None,
        };
        missing.append(&mut self.uncovered(vacancy, winner));
        if !missing.is_empty() {
            return Standing::Waits(missing);
        }
        match restart {
            Some(Verdict::Ready(restart)) => {
                let claims = self.of_vacancy(vacancy).filter(|(_, claim)| !claim.is_harmed());
                let mut equal = claims.filter(|(_, claim)| claim.found.tail == restart.tail);
                // Of several that have as much in their logs, who has been there longest has received most.
                let least = |claim: &Claim| (claim.began, claim.log != restart.winner, claim.log);
                let winner = equal.by_ref().min_by_key(|(_, claim)| least(claim));
                winner.map_or(Standing::NoLogs, |(node, _)| Standing::Begins(node))
            }
            Some(Verdict::Wait(logs)) => Standing::Waits(logs),
            // All logs are harmed, and accounted for: the stream begins anew.
            None => {
                let first = self.of_vacancy(vacancy).min_by_key(|(_, claim)| claim.log);
                first.map_or(Standing::NoLogs, |(node, _)| Standing::Begins(node))
            }
        }
    }

    fn restart(&self, vacancy: u64) -> Option<Verdict<Restart>> {
        let claims = self.of_vacancy(vacancy).map(|(_, claim)| claim);
        let claims = claims.filter(|claim| !claim.is_harmed());
        // Whom the marks name is accounted for by now; what they have is in these logs.
        let logs = claims.map(|claim| (claim.log, claim.found.clone().without_keepers()));
        let logs: BTreeMap<LogId, FoundStream> = logs.collect();
        restart::logs_of_stream(&logs.iter().map(|(log, found)| (*log, found)).collect())
    }

    /// With whom it begins in this vacancy, if it can; it is another era then.
    fn begin(&mut self, vacancy: u64) -> Option<NodeId> {
        let Standing::Begins(node) = self.standing(vacancy) else { return None };
        let eras = self.of_vacancy(vacancy).map(|(_, claim)| claim.found.tail.epoch.view);
        let last = eras.chain([self.era]).max().unwrap_or(0);
        self.era = era_after(last, node);
        let sound = self.claims.get(&node).filter(|(_, claim)| !claim.is_harmed());
        self.base = sound.map(|(_, claim)| claim.found.tail).unwrap_or_default();
        Some(node)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::log::{EpochId, Version};

    fn claim(log: u128, epoch: u64, names: &[u128]) -> Claim {
        let epoch = EpochId { view: 1, sequence: epoch };
        let found = FoundStream {
            tail: Tail { epoch, version: Version(epoch.sequence) },
            complete_from: Version(1),
            checkpoint: None,
            cuts: Vec::new(),
            begun: Some((epoch, names.iter().map(|log| LogId(*log)).collect())),
        };
        let (accounts, awaits) = (Vec::new(), Vec::new());
        Claim { log: LogId(log), accounts, awaits, found, began: 0, harmed: Vec::new() }
    }

    /// A harmed log is not needed where a sound one goes as far (I-98).
    #[test]
    fn a_harmed_log_that_may_have_more_is_awaited() {
        let harmed = |epoch| Claim { harmed: [LogId(2)].into(), ..claim(2, epoch, &[1, 2]) };
        let mut book = LogBook::default();
        book.claim(NodeId(2), 0, harmed(4));
        assert_eq!(book.standing(0), Standing::Waits([1, 2].map(LogId).into()));
        book.claim(NodeId(1), 0, claim(1, 4, &[1, 2]));
        assert_eq!(book.standing(0), Standing::Begins(NodeId(1)));
        book.claim(NodeId(2), 0, harmed(5));
        let waits = Standing::Waits([LogId(2)].into());
        assert_eq!(book.standing(0), waits);
        assert_eq!(book.described(&waits), [format!("{}, which is harmed", LogId(2))]);
        // Somebody says to go on without it.
        let accounts = [LogId(2)].into();
        book.claim(NodeId(1), 0, Claim { accounts, ..claim(1, 4, &[1, 2]) });
        assert_eq!(book.standing(0), Standing::Begins(NodeId(1)));
        book.disclaim(NodeId(1));
        let all = Claim { accounts: [LogId(1)].into(), ..harmed(4) };
        book.claim(NodeId(2), 0, all);
        assert_eq!(book.standing(0), Standing::Waits([LogId(2)].into()));
    }

    #[test]
    fn the_logs_that_the_newest_mark_of_all_claims_names_are_awaited() {
        let mut book = LogBook::default();
        book.claim(NodeId(1), 0, claim(1, 4, &[1, 2, 3]));
        assert_eq!(book.standing(0), Standing::Waits([2, 3].map(LogId).into()));
        // A newer mark of another one names others.
        book.claim(NodeId(4), 0, claim(4, 5, &[4, 5]));
        assert_eq!(book.standing(0), Standing::Waits([LogId(5)].into()));
        book.claim(NodeId(5), 0, claim(5, 5, &[4, 5]));
        assert_eq!(book.standing(0), Standing::Begins(NodeId(4)));
    }
}
