//! A subgroup store's log: the requests to its log follower, and the announcements to all members.
//!
//! Owns: the position at which each epoch begins, for the log. Never does: put anything into a log;
//! the log follower does.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::super::durability_tracker::DurabilityTracker;
use super::super::log_election::LogElection;
use super::super::log_follower::{LogEvent, LogFollower, footprint};
use super::super::log_port::{LogPort, LogPortCondition};
use super::super::store::Store;
use super::super::store_log_input::StoreLogInput;
use super::{StoreAnnouncement, StoreStage, SubgroupStore};
use crate::group::report::StreamId;
use crate::ids::NodeId;
use crate::log::{EpochId, LogId};
use crate::transfer::holders::Holders;

impl SubgroupStore {
    /// Begins to keep a log.
    pub(in crate::storage) fn attach(&mut self, log_port: Box<dyn LogPort>) {
        self.copy_all_deferred();
        self.log_follower.get_or_insert_with(|| LogFollower::new(log_port));
    }

    /// Stops keeping a log.
    pub(in crate::storage) fn detach(&mut self) {
        self.log_follower = None;
    }

    /// Writer of its log, if it keeps one.
    pub(in crate::storage) fn log_follower(&self) -> Option<&LogFollower<StoreLogInput>> {
        self.log_follower.as_ref()
    }

    pub(in crate::storage) fn log_follower_mut(
        &mut self,
    ) -> Option<&mut LogFollower<StoreLogInput>> {
        self.log_follower.as_mut()
    }

    /// Condition of its log, if it keeps one.
    pub fn condition(&self) -> Option<LogPortCondition> {
        self.log_follower.as_ref().map(LogFollower::condition)
    }

    /// Whether its log does not follow the store yet.
    pub(super) fn awaits_log(&self) -> bool {
        self.log_follower.as_ref().is_some_and(|log_follower| !log_follower.is_settled())
    }

    /// Notes which logs keep the records from now on.
    pub(in crate::storage) fn note_epoch_logs(&mut self, logs: Option<&LogElection>) {
        let (Some(logs), Some(log_follower)) = (logs, &mut self.log_follower) else { return };
        self.era = logs.era();
        let mut epoch_logs: BTreeSet<LogId> =
            logs.members_with_logs().map(|(_, log)| log).collect();
        if !self.is_log_named {
            // Members that do not know of this log would not wait for it, so it must wait for them.
            let before = match &self.stage {
                StoreStage::Lacks(lacking) => {
                    lacking.epoch_changes.back().map(|(_, _, of)| of.as_slice())
                }
                _ => Some(log_follower.last_noted()),
            };
            epoch_logs.extend(before.unwrap_or(log_follower.last_noted()));
        }
        let epoch_logs: Vec<LogId> = epoch_logs.into_iter().collect();
        match &mut self.stage {
            StoreStage::Has => {
                let epoch = EpochId { view: self.era, sequence: self.epoch };
                log_follower.change_epoch(self.store.version(), epoch, epoch_logs);
            }
            StoreStage::Lacks(lacking) => {
                let waiting = lacking.waiting.as_ref();
                let version = waiting.map_or(self.store.version(), Store::version);
                let known = lacking.epoch_changes.back();
                if known.is_none_or(|(_, epoch, of)| (*epoch, of) != (self.epoch, &epoch_logs)) {
                    lacking.epoch_changes.push_back((version, self.epoch, epoch_logs));
                }
            }
            StoreStage::Away => {}
        }
    }

    /// Updates whether all holders' logs name its own log. Returns whether they do now and did
    /// not before.
    pub(in crate::storage) fn note_named(
        &mut self,
        by: impl Iterator<Item = NodeId>,
        holders: &Holders,
        durability: Option<&DurabilityTracker>,
    ) -> bool {
        let before = self.is_log_named;
        let log = self
            .log_follower
            .as_ref()
            .filter(|log_follower| !log_follower.is_over())
            .map(LogFollower::log);
        self.is_log_named = match (log, durability) {
            // No member is left that could tell.
            (Some(_), _) if holders.names().is_empty() => self.is_log_named,
            (Some(log), Some(durability)) => durability.is_named(log, by),
            _ => true,
        };
        self.is_log_named && !before
    }

    /// Makes its log claim, and follow as soon as possible.
    pub(super) fn look_at_logs(
        &mut self,
        me: NodeId,
        holders: &Holders,
        logs: Option<&LogElection>,
    ) {
        let (Some(log_follower), Some(logs)) = (&mut self.log_follower, logs) else { return };
        let vacancy = holders.vacancies();
        (self.base, self.era) = (logs.base(), logs.era());
        if log_follower.may_claim(vacancy) && !holders.names().contains(&me) {
            log_follower.claim(vacancy, holders.names().is_empty());
        }
        let others = logs.complete(holders).filter(|(node, _)| *node != me);
        self.holding = others.map(|(_, log)| log).collect();
        if matches!(self.stage, StoreStage::Has)
            && log_follower.awaits_input()
            && logs.claimed(me).is_some()
        {
            // The member had the store before it had a log.
            let begin = self.store.version();
            let log_input = StoreLogInput::new(self.store.cursor());
            log_follower.follow(log_input, begin, self.base, logs.era(), self.holding.clone());
            self.note_epoch_logs(Some(logs));
        }
    }

    /// Advances the log. Returns how much was done.
    pub(in crate::storage) fn advance_log(&mut self) -> usize {
        let Some(log_follower) = &mut self.log_follower else { return 0 };
        let (done, news) = log_follower.turn((&self.store, self.format));
        match news {
            Some(LogEvent::Claimed(vacancy, mut claim)) => {
                // I-342: a member that has the store has received most, and one without a seat
                // has received nothing.
                claim.began = match &self.stage {
                    StoreStage::Has => 0,
                    StoreStage::Lacks(lacking) => lacking.epoch,
                    StoreStage::Away => u64::MAX,
                };
                self.announcement = Some(StoreAnnouncement::Claims(vacancy, claim));
            }
            Some(LogEvent::Loaded(store)) => {
                self.store = *store;
                if let StoreStage::Lacks(lacking) = &self.stage {
                    self.log_beginning = Some((lacking.epoch, lacking.from.clone()));
                }
                self.begin_replay();
            }
            Some(LogEvent::Over) => {
                self.announcement =
                    Some(StoreAnnouncement::Disclaims(matches!(self.stage, StoreStage::Has)));
            }
            // A subgroup store never asks for an object.
            Some(LogEvent::Moved | LogEvent::Content(_)) => {}
            None => return done,
        }
        self.has_news = true;
        done
    }

    /// Whether its log has made progress, since the last call, that all members may have to learn.
    pub(in crate::storage) fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.has_news)
    }

    /// Whether its log is busy.
    pub(in crate::storage) fn is_logging(&self) -> bool {
        self.log_follower.as_ref().is_some_and(LogFollower::is_busy)
    }

    /// Notes that a message was put into the store.
    pub(super) fn kept(&mut self, stream: StreamId, bytes: &[u8]) {
        if let Some(log_follower) = &mut self.log_follower {
            log_follower.grows(footprint(bytes));
        }
        if stream.node == self.me {
            self.own_version = self.store.version();
        }
    }

    /// Applies the changes of epoch at this position of the waiting records or before.
    pub(super) fn apply_epoch_changes(&mut self, waited: u64) {
        let StoreStage::Lacks(lacking) = &mut self.stage else { return };
        let Some(log_follower) = &mut self.log_follower else { return };
        while let Some(next) = lacking.epoch_changes.pop_front_if(|next| next.0 <= waited) {
            // Waiting records belong to the era in which they are put in, whenever they
            // were delivered.
            let epoch = EpochId { view: self.era, sequence: next.1 };
            log_follower.change_epoch(self.store.version(), epoch, next.2);
        }
    }
}
