//! Log of a keeper's object: its claim, its beginning, its progress, and its status.
//!
//! Owns: the object's edition, its scribe, and the known state of the other logs. Never does: put
//! anything into a log; the scribe does.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::desk::{Occasion, Start};
use super::super::errand::{Motion, Parcel};
use super::super::house::LogsStanding;
use super::super::trail::{Applied, ObjectTrail, Update, state};
use super::super::{Edition, Object, Position};
use super::{Around, Keeper, Kept};
use crate::fault::{Fault, planted};
use crate::group::report::StreamId;
use crate::ids::{NodeId, RegionId};
use crate::log::{EpochId, Kind, LogId, OwnedRecord};
use crate::multicast::inbox::Record;
use crate::storage::errands::Recalled;
use crate::storage::frontier::Frontier;
use crate::storage::journal::{Condition, Errand, Journal};
use crate::storage::logbook;
use crate::storage::scribe::{News, Scribe};

/// Opens the log of a shard; `None` if this member keeps no logs.
pub type OpenLog = Box<dyn FnMut(u64) -> Option<Box<dyn Journal>> + Send>;

/// Condition for putting an object into its log as a whole, in place of all updates that led to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checkpointing {
    /// Number of updates since the last checkpoint.
    pub updates: u64,
    /// Bytes of updates since the last checkpoint, as they are counted in the log.
    pub bytes: u64,
}

/// State of a logged object, as far as it is known here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogStatus {
    /// Newest edition here, if this member has the object.
    pub edition: Option<Edition>,
    /// Last version that is durable in all complete logs.
    pub durable: u64,
    /// Last version that is durable in the own log.
    pub own_durable: u64,
    /// Number of complete logs.
    pub logs: usize,
    /// Own log, and its condition.
    pub own: Option<(LogId, Condition)>,
    /// State of the beginning, with the logs that it waits for.
    pub awaited: Option<logbook::Standing>,
    /// Descriptions of the logs that it waits for.
    pub awaited_logs: Vec<String>,
}

/// Log of an object; see the [module](self).
#[derive(Default)]
pub(super) struct Logging {
    pub(super) edition: Edition,
    scribe: Option<Scribe<ObjectTrail>>,
    /// Updates applied before the log was told to follow.
    trail: Option<(ObjectTrail, u64)>,
    frontier: Frontier,
    /// Whether the log was opened here, so that it may have content.
    opened: bool,
    /// Whether the log accepts nothing more, and this was announced.
    over: bool,
    /// Version of the last checkpoint, and bytes since then.
    checkpointed: u64,
    bytes: u64,
    /// Number of own messages applied in this stay, and the version after the last of them.
    own: (u64, u64),
}

impl Logging {
    /// Whether the log follows or is over, so that this member may announce that it holds the
    /// object (I-111).
    fn is_settled(&self) -> bool {
        self.scribe.as_ref().is_none_or(Scribe::is_settled)
    }

    fn applied(&mut self, applied: Applied) {
        if let Some(scribe) = &mut self.scribe
            && let Some(trail) = scribe.trail_mut()
        {
            let bytes = trail.push(applied).unwrap_or(0);
            scribe.grows(bytes);
            self.bytes += bytes;
        } else if let Some((trail, _)) = &mut self.trail {
            self.bytes += trail.push(applied).unwrap_or(0);
        }
    }
}

impl<O: Object> Keeper<O> {
    /// Advances the log as far as possible. Returns how much was done.
    pub(in crate::replicated) fn log(
        &mut self,
        checkpointing: Option<Checkpointing>,
        around: &mut Around<'_>,
    ) -> usize {
        if self.standing.logs.is_none() {
            return 0;
        }
        self.checkpoint(checkpointing);
        let mut done = 0;
        while let Some(scribe) = &mut self.logging.scribe {
            let (some, news) = scribe.turn(());
            done += some;
            let Some(news) = news else { break };
            match news {
                News::Claimed(vacancy, mut claim) => {
                    // The member that began earliest has received most; a member that is not
                    // present has received nothing.
                    claim.began = match self.kept.front() {
                        Some(Kept::Begun { epoch, .. }) => *epoch,
                        _ => u64::MAX,
                    };
                    around.submit(Motion::Claims { key: self.key, vacancy, claim });
                }
                News::Recalled(recalled) => self.recalled(&recalled, around),
                // This keeper has asked for no store.
                News::Moved | News::Loaded(_) => {
                    if scribe.is_settled() {
                        scribe.trail_mut().into_iter().for_each(ObjectTrail::forget_state);
                    }
                }
                News::Over => self.end_log(around),
            }
            self.look_at_logs(around);
            self.tell_holding(around);
        }
        // The log may have been busy above, and this may be the last call until the next update.
        self.checkpoint(checkpointing);
        done + self.spread(around)
    }

    /// Whether it keeps a log.
    pub(in crate::replicated) fn has_log(&self) -> bool {
        self.logging.scribe.is_some()
    }

    /// Releases the senders' memory of the updates that the log takes next.
    pub(in crate::replicated) fn stage(&mut self) {
        let trail = self.logging.scribe.as_mut().and_then(Scribe::trail_mut);
        trail.into_iter().for_each(ObjectTrail::stage);
    }

    /// Confirms that this member was still a member after [`Keeper::stage`].
    pub(in crate::replicated) fn vouch(&mut self) {
        let trail = self.logging.scribe.as_mut().and_then(Scribe::trail_mut);
        trail.into_iter().for_each(ObjectTrail::vouch);
    }

    /// Whether the log is busy.
    pub(in crate::replicated) fn is_logging(&self) -> bool {
        self.logging.scribe.as_ref().is_some_and(Scribe::is_busy)
    }

    /// Whether it waits for logs that are elsewhere, so that they must be searched for again.
    pub(in crate::replicated) fn awaits_logs(&self) -> bool {
        let logs = self.standing.logs.as_ref();
        let waits = logs.and_then(|logs| logs.awaited.as_ref());
        matches!(waits, Some(logbook::Standing::Waits(_))) && self.logging.scribe.is_some()
    }

    /// Searches for awaited logs again.
    pub(in crate::replicated) fn claim_again(&mut self) {
        let vacancy = self.standing.logs.as_ref().map(|logs| logs.vacancy);
        if let (Some(scribe), Some(vacancy)) = (&mut self.logging.scribe, vacancy) {
            scribe.claim(vacancy, true);
        }
    }

    /// Gives the log up, because this member is out and the log belongs to others from now on.
    pub(in crate::replicated) fn let_go_of_log(&mut self) {
        (self.logging.scribe, self.logging.trail) = (None, None);
    }

    pub(in crate::replicated) fn log_status(&self) -> Option<LogStatus> {
        let logs = self.standing.logs.as_ref()?;
        let scribe = self.logging.scribe.as_ref();
        Some(LogStatus {
            edition: self.position().map(|_| self.logging.edition),
            durable: self.logging.frontier.everywhere(),
            own_durable: scribe.map_or(0, Scribe::durable),
            logs: logs.complete.len(),
            own: scribe.map(|scribe| (scribe.log(), scribe.condition())),
            awaited: logs.awaited.clone(),
            awaited_logs: logs.awaited_logs.clone(),
        })
    }

    /// Describes the state of its log for debugging.
    pub(super) fn describe_log(&self) -> String {
        let Some(logs) = &self.standing.logs else { return String::new() };
        let Logging { edition, scribe, trail, own, .. } = &self.logging;
        let (complete, awaited, waits) = (&logs.complete, &logs.awaited, trail.is_some());
        format!(
            "; logged, {edition:?}, own {own:?}, waits {waits} for {scribe:?}, complete {complete:?}, \
             awaited {awaited:?}"
        )
    }

    /// Number of own messages applied in this stay, and the version after the last of them.
    pub(in crate::replicated) fn own(&self) -> (u64, u64) {
        self.logging.own
    }

    /// Whether delivered messages are logged.
    pub(super) fn is_logged(&self) -> bool {
        self.standing.logs.is_some()
    }

    /// Edition after a query, if the object is logged.
    pub(super) fn version(&self) -> Option<u64> {
        self.is_logged().then_some(self.logging.edition.version)
    }

    /// Discards the object: later messages belong to another one.
    pub(super) fn lose(&mut self) {
        self.has = None;
        self.told = None;
        if self.is_logged() {
            let logging = &mut self.logging;
            (logging.trail, logging.edition) = (None, Edition::default());
            logging.scribe = logging.scribe.take().map(Scribe::begin_again);
        }
    }

    /// Resets the count of own messages, because this member has left and other members count its
    /// messages from 0 when it returns.
    pub(super) fn forget_own(&mut self) {
        self.logging.own = (0, 0);
    }

    /// Sets the members of the epoch that begins.
    pub(super) fn meet(&mut self, members: &[NodeId], me: NodeId) {
        // Members stay as long as their nodes do, so one region serves for all.
        let others = members.iter().filter(|node| **node != me);
        self.logging.frontier.begun(others.map(|node| (*node, RegionId(0))));
    }

    /// Notes that a member's log is durable up to a version.
    pub(in crate::replicated) fn told_durable(&mut self, by: NodeId, version: u64) {
        self.logging.frontier.told(by, version);
    }

    /// Takes in the state of this shard's logs according to the agenda, and decides what follows
    /// for the own log.
    pub(super) fn look_at_logs(&mut self, around: &mut Around<'_>) {
        let Some(logs) = self.standing.logs.clone() else { return };
        let (nobody, named) =
            (self.standing.holders.is_empty(), self.standing.holders.contains(&around.me));
        let matters =
            named || self.seated || logs.wanted || nobody && (logs.known || self.logging.opened);
        if !matters {
            // A member without a part in the shard has no claim to keep up.
            self.logging.scribe = None;
            return;
        }
        if self.logging.scribe.is_none() && !self.logging.over {
            self.logging.scribe = (around.open_log)(self.key).map(Scribe::new);
            self.logging.opened = self.logging.scribe.is_some();
        }
        let Some(scribe) = &mut self.logging.scribe else { return };
        if scribe.may_claim(logs.vacancy) && !named {
            scribe.claim(logs.vacancy, nobody);
        }
        if named && self.has.is_none_or(|has| has.beginning < self.standing.beginning) {
            let kept = self.kept.iter();
            scribe.load(|| Errand::Recall(first_of(kept)));
        }
        if self.has.is_some()
            && scribe.awaits_trail()
            && logs.claimed
            && let Some((trail, begin)) = self.logging.trail.take()
        {
            let others = logs.complete.iter().filter(|(node, _)| *node != around.me);
            let (others, waiting) = (others.map(|(_, log)| *log).collect(), trail.bytes());
            scribe.follow((trail, begin), (logs.base, logs.era), others);
            scribe.grows(waiting);
        }
        self.turn_over(&logs);
    }

    /// Notes the epoch of later messages, and the logs that keep it.
    pub(super) fn turn_over(&mut self, logs: &LogsStanding) {
        let epoch = EpochId { view: logs.era, sequence: self.cursor.0 };
        let version = self.logging.edition.version;
        if self.has.is_some()
            && self.cursor.0 > 0
            && let Some(scribe) = &mut self.logging.scribe
        {
            let mut keepers = logs.keepers.clone();
            // A member that is about to leave is no longer named by the others, and its log is
            // complete so far.
            if !keepers.contains(&scribe.log()) {
                keepers.push(scribe.log());
            }
            scribe.turning(version, epoch, keepers);
        }
    }

    /// Announces that the log accepts nothing more.
    fn end_log(&mut self, around: &mut Around<'_>) {
        self.logging.over = true;
        around.submit(Motion::Disclaims { key: self.key, holds: self.has.is_some() });
    }

    /// Takes in the object as restored from the log, up to the place where this member began.
    fn recalled(&mut self, recalled: &Recalled, around: &mut Around<'_>) {
        let is_read = match &recalled.state {
            Some(state) => self.object.restore(state.record().entry.payload),
            None => {
                self.object.reset();
                true
            }
        };
        if !is_read {
            around.occasions.push_back(Occasion::Unreadable { key: self.key, from: around.me });
            self.logging.scribe = None;
            return self.end_log(around);
        }
        let of = |record: &OwnedRecord| {
            let record = record.record();
            Edition { version: record.version.0, time: record.entry.source_time.0 }
        };
        let mut edition = recalled.state.as_ref().map(of).unwrap_or_default();
        self.logging.checkpointed = edition.version;
        for message in &recalled.messages {
            let entry = message.record().entry;
            if entry.kind == Kind::Sample {
                self.object.apply(entry.writer, entry.payload);
            }
            edition = of(message);
        }
        self.logging.edition = edition;
        self.has = Some(Position { beginning: self.standing.beginning, epoch: 0, applied: 0 });
        let begin = edition.version;
        if let (Some(scribe), Some(logs)) = (&mut self.logging.scribe, &self.standing.logs) {
            let trail = ObjectTrail::new(begin, None);
            scribe.follow((trail, begin), (recalled.tail, logs.era), Vec::new());
        }
        let start = if begin == 0 { Start::Anew } else { Start::Logged { version: begin } };
        self.started(start, around);
    }

    /// Notes that the object came from another member, in this edition.
    pub(super) fn came(&mut self, edition: Edition, bytes: Vec<u8>) {
        if self.is_logged() {
            self.logging.edition = edition;
            self.logging.checkpointed = edition.version;
            let trail = ObjectTrail::new(edition.version, Some((edition, bytes)));
            self.logging.trail = Some((trail, edition.version));
        }
    }

    /// Notes an update that was just applied to the object.
    pub(super) fn note(
        &mut self,
        (from, record): (StreamId, Record),
        (update, time): (Option<Vec<u8>>, u64),
        me: NodeId,
    ) {
        if !self.is_logged() {
            return;
        }
        let logging = &mut self.logging;
        let version = logging.edition.version;
        logging.edition = Edition { version: version + 1, time: logging.edition.time.max(time) };
        if from.node == me {
            logging.own = (record.number() + 1, version + 1);
        }
        let (time, number, is_sound) = (logging.edition.time, record.number(), update.is_some());
        let update = Update { bytes: update.unwrap_or_default(), holds: Some(record) };
        logging.applied(Applied { version, time, from, number, is_sound, update });
    }

    /// Notes an update that the object contained when it arrived.
    pub(super) fn had(&mut self, from: StreamId, number: u64, me: NodeId) {
        if from.node == me {
            self.logging.own = (number + 1, self.logging.edition.version);
        }
    }

    /// Puts the object as a whole into the log, if it is time.
    fn checkpoint(&mut self, checkpointing: Option<Checkpointing>) {
        let Some(Checkpointing { updates, bytes }) = checkpointing else { return };
        let Some(logs) = self.standing.logs.as_ref().filter(|_| self.has.is_some()) else { return };
        let Logging { edition, scribe, checkpointed, bytes: since, .. } = &mut self.logging;
        let Some(scribe) = scribe else { return };
        let new = edition.version - (*checkpointed).min(edition.version);
        if new == 0 || new < updates && *since < bytes || !scribe.takes_checkpoint(edition.version)
        {
            return;
        }
        let epoch = EpochId { view: logs.era, sequence: self.cursor.0 };
        scribe.put_checkpoint(edition.version, state(*edition, epoch, &self.object.snapshot()));
        (*checkpointed, *since) = (edition.version, 0);
    }

    /// Reports how far the own log is durable, and computes what is durable everywhere. Returns
    /// whether that has advanced.
    fn spread(&mut self, around: &mut Around<'_>) -> usize {
        let Some(logs) = &self.standing.logs else { return 0 };
        let Logging { frontier, scribe, .. } = &mut self.logging;
        let own = scribe.as_ref().map_or(0, Scribe::durable);
        for node in frontier.untold(own) {
            around.direct(node, Parcel::Durable { key: self.key, version: own });
            frontier.tells(node, own);
        }
        let storers = logs.complete.iter().map(|(node, _)| *node);
        usize::from(frontier.settle((around.me, own), storers))
    }

    /// Announces that this member has the object, if that is not known and the log is complete.
    pub(super) fn tell_holding(&mut self, around: &mut Around<'_>) {
        let Some(has) = self.has.filter(|_| self.seated && self.ordered) else { return };
        let now = (self.standing.beginning, self.standing.vacancy);
        let known = self.standing.holders.contains(&around.me);
        if !known && self.told != Some(now) && self.logging.is_settled() {
            self.told = Some(now);
            around.submit(Motion::Holds { key: self.key, beginning: has.beginning });
        }
    }
}

/// Returns the number of the first waiting message of each stream.
fn first_of<'a>(kept: impl Iterator<Item = &'a Kept>) -> Vec<(StreamId, u64)> {
    let mut first = BTreeMap::new();
    for kept in kept {
        let Kept::Begun { numbers, .. } = kept else { continue };
        for (stream, number) in numbers {
            first.entry(*stream).or_insert(*number);
        }
    }
    if planted(Fault::RecallUncut) { Vec::new() } else { first.into_iter().collect() }
}
