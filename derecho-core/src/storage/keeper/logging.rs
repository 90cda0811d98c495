//! A keeper's part in keeping a log: what its scribe is told, and what it says to all.
//!
//! Owns: which epochs begin where, for the log. Never does: put anything into a log; the scribe does.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::super::frontier::Frontier;
use super::super::holders::Holders;
use super::super::journal::{Condition, Journal};
use super::super::logbook::LogBook;
use super::super::scribe::{News, Scribe, footprint};
use super::super::store::Store;
use super::super::trail::StoreTrail;
use super::{Keeper, Motion, Stage};
use crate::group::report::StreamId;
use crate::ids::NodeId;
use crate::log::{EpochId, LogId};

impl Keeper {
    /// It keeps a log from now on.
    pub(in crate::storage) fn attach(&mut self, journal: Box<dyn Journal>) {
        self.scribe.get_or_insert_with(|| Scribe::new(journal));
    }

    /// It keeps no log any more.
    pub(in crate::storage) fn detach(&mut self) {
        self.scribe = None;
    }

    /// Its log, if it keeps one.
    pub(in crate::storage) fn scribe(&self) -> Option<&Scribe<StoreTrail>> {
        self.scribe.as_ref()
    }

    pub(in crate::storage) fn scribe_mut(&mut self) -> Option<&mut Scribe<StoreTrail>> {
        self.scribe.as_mut()
    }

    /// How its log is, if it keeps one.
    pub fn condition(&self) -> Option<Condition> {
        self.scribe.as_ref().map(Scribe::condition)
    }

    /// Whether its log is still on its way to following.
    pub(super) fn awaits_log(&self) -> bool {
        self.scribe.as_ref().is_some_and(|scribe| !scribe.is_settled())
    }

    /// Which logs keep what comes from now on.
    pub(in crate::storage) fn note_keepers(&mut self, logs: Option<&LogBook>) {
        let (Some(logs), Some(scribe)) = (logs, &mut self.scribe) else { return };
        self.era = logs.era();
        let mut keepers: BTreeSet<LogId> = logs.storers().map(|(_, log)| log).collect();
        if !self.known {
            // Those that do not know of this one would not wait for it, so it has to wait for them.
            let before = match &self.stage {
                Stage::Lacks(lacking) => lacking.turnings.back().map(|(_, _, of)| of.as_slice()),
                _ => Some(scribe.last_noted()),
            };
            keepers.extend(before.unwrap_or(scribe.last_noted()));
        }
        let keepers: Vec<LogId> = keepers.into_iter().collect();
        match &mut self.stage {
            Stage::Has => {
                let epoch = EpochId { view: self.era, sequence: self.epoch };
                scribe.turning(self.store.version(), epoch, keepers);
            }
            Stage::Lacks(lacking) => {
                let waiting = lacking.waiting.as_ref();
                let version = waiting.map_or(self.store.version(), Store::version);
                let known = lacking.turnings.back();
                if known.is_none_or(|(_, epoch, of)| (*epoch, of) != (self.epoch, &keepers)) {
                    lacking.turnings.push_back((version, self.epoch, keepers));
                }
            }
            Stage::Away => {}
        }
    }

    /// Learns whether its log is known to those who hold the store, if it keeps one. Returns whether it is now, and was
    /// not before.
    pub(in crate::storage) fn note_named(
        &mut self,
        by: impl Iterator<Item = NodeId>,
        (holders, frontier): (&Holders, Option<&Frontier>),
    ) -> bool {
        let before = self.known;
        let log = self.scribe.as_ref().filter(|scribe| !scribe.is_over()).map(Scribe::log);
        self.known = match (log, frontier) {
            // Nobody is there any more who could say.
            (Some(_), _) if holders.names().is_empty() => self.known,
            (Some(log), Some(frontier)) => frontier.is_named(log, by),
            _ => true,
        };
        self.known && !before
    }

    /// Has its log claim, and follow once it can.
    pub(super) fn look_at_logs(&mut self, me: NodeId, holders: &Holders, logs: Option<&LogBook>) {
        let (Some(scribe), Some(logs)) = (&mut self.scribe, logs) else { return };
        let vacancy = holders.vacancies();
        (self.base, self.era) = (logs.base(), logs.era());
        if scribe.may_claim(vacancy) && !holders.names().contains(&me) {
            scribe.claim(vacancy, holders.names().is_empty());
        }
        let others = logs.complete(holders).filter(|(node, _)| *node != me);
        self.holding = others.map(|(_, log)| log).collect();
        if matches!(self.stage, Stage::Has) && scribe.awaits_trail() && logs.claimed(me).is_some() {
            // It had the store before it had a log.
            let start = (StoreTrail::new(self.store.cursor()), self.store.version());
            scribe.follow(start, (self.base, logs.era()), self.holding.clone());
            self.note_keepers(Some(logs));
        }
    }

    /// Has its log go on. Returns how much was done.
    pub(in crate::storage) fn log(&mut self) -> usize {
        let Some(scribe) = &mut self.scribe else { return 0 };
        let (done, news) = scribe.turn((&self.store, self.meaning));
        match news {
            Some(News::Claimed(vacancy, mut claim)) => {
                claim.began = match &self.stage {
                    Stage::Lacks(lacking) => lacking.epoch,
                    _ => self.epoch,
                };
                self.motion = Some(Motion::Claims(vacancy, claim));
            }
            Some(News::Loaded(store)) => {
                self.store = *store;
                if let Stage::Lacks(lacking) = &self.stage {
                    self.since = Some((lacking.epoch, lacking.from.clone()));
                }
                self.begin_replay();
            }
            Some(News::Over) => {
                self.motion = Some(Motion::Disclaims(matches!(self.stage, Stage::Has)));
            }
            // Nobody has asked for an object.
            Some(News::Moved | News::Recalled(_)) => {}
            None => return done,
        }
        self.speaks = true;
        done
    }

    /// Whether its log has come to something of which all may have to hear.
    pub(in crate::storage) fn has_news(&mut self) -> bool {
        core::mem::take(&mut self.speaks)
    }

    /// Whether its log is at something.
    pub(in crate::storage) fn is_logging(&self) -> bool {
        self.scribe.as_ref().is_some_and(Scribe::is_busy)
    }

    /// A message was put into the store.
    pub(super) fn kept(&mut self, stream: StreamId, bytes: &[u8]) {
        if let Some(scribe) = &mut self.scribe {
            scribe.grows(footprint(bytes));
        }
        if stream.node == self.me {
            self.own = self.store.version();
        }
    }

    /// What of what waits has this version, and all before it, is of another epoch than what follows.
    pub(super) fn turn_over(&mut self, waited: u64) {
        let Stage::Lacks(lacking) = &mut self.stage else { return };
        let Some(scribe) = &mut self.scribe else { return };
        while let Some(next) = lacking.turnings.pop_front_if(|next| next.0 <= waited) {
            // What has waited is of the era in which it is put in, whenever it was delivered.
            let epoch = EpochId { view: self.era, sequence: next.1 };
            scribe.turning(self.store.version(), epoch, next.2);
        }
    }
}
